"""Checkpoints: the position of a replication, as a `_local/` document on both sides, in PouchDB's form.

    {"_id": "_local/<of this replication>", "session_id", "last_seq", "history": [{"session_id", "last_seq"}, ...],
     "replicator": "reactdb", "version": 1}

Both sides are read, because either may have been replaced by an older copy: the newest common session counts. Without a common
session, everything is compared again, but existing revisions are not sent.

Rule of this file: a checkpoint is never ahead of the written revisions.
"""

from __future__ import annotations

import json
from hashlib import md5
from typing import Any, Final
from uuid import uuid4

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.replication.peers import Peer, Subset

__all__ = ["ReplicationLog", "common_seq"]

KEPT: Final = 5
"""The sessions in a checkpoint: PouchDB's own number."""

START: Final = "0"


class ReplicationLog:
    """The checkpoints of one direction between two peers.

    Attributes:
        id: The id of both documents.
        seq: The position of the replication, from the last read or written checkpoint.
    """

    def __init__(self, source: Peer, target: Peer, selection: Subset) -> None:
        self._source, self._target = source, target
        # The selection is part of the identity: another filter has to see the rejected documents again.
        identity = [source.name, target.name, selection.query(), selection.body()]
        name = md5(json.dumps(identity, sort_keys=True).encode(), usedforsecurity=False).hexdigest()
        self.id = f"_local/{name}"
        self._session = uuid4().hex
        self.seq: Any = START

    def read(self) -> Any:
        """The seq of the source to continue from."""
        self.seq = common_seq(self._target.get_local(self.id), self._source.get_local(self.id))
        return self.seq

    def write(self, seq: Any) -> None:
        """All changes up to this seq are on both sides."""
        self._put(self._target, seq)
        try:
            self._put(self._source, seq)
        except CouchError as error:
            # A source may be for reading only; the next time, all is compared.
            if not 400 <= error.status < 500:
                raise
        self.seq = seq

    def _put(self, peer: Peer, seq: Any) -> None:
        before = peer.get_local(self.id) or {}
        mine = {"session_id": self._session, "last_seq": seq}
        others = [entry for entry in _history(before) if entry.get("session_id") != self._session]
        document = {
            "_id": self.id,
            **mine,
            "history": [mine, *others][:KEPT],
            "replicator": "reactdb",
            "version": 1,
        }
        peer.put_local(document | ({"_rev": before["_rev"]} if "_rev" in before else {}))


def common_seq(target: dict[str, Any] | None, source: dict[str, Any] | None) -> Any:
    """The seq of the newest session on both sides; "0" if there is none."""
    if target is None or source is None:
        return START
    at_source = {entry.get("session_id"): entry.get("last_seq") for entry in _history(source)}
    for entry in _history(target):
        session = entry.get("session_id")
        if session in at_source:
            # One of the two may have a further checkpoint.
            seqs = [entry.get("last_seq"), at_source[session]]
            return min(seqs, key=_place)
    return START


def _history(document: dict[str, Any]) -> list[dict[str, Any]]:
    entries = document.get("history")
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _place(seq: Any) -> int:
    """The number at the beginning of a seq. It orders two seqs of one session."""
    head = str(seq).partition("-")[0]
    # It comes from the other side, and Python reads no number of thousands of digits.
    return int(head) if head.isdecimal() and len(head) <= 18 else 0
