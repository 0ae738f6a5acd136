"""Sequences: positions in the log as CouchDB's clients see them, `12-DATABASE.EPOCH`.

It is the token of reactdb with its number in front, because clients show the number before the dash. A token as `feed.token`
gives it is taken, too. `0` is before everything.

Rule of this file: a position is of this file and of a history that it has, or it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.states import Tables
from reactdb.errors import HistoryDiverged, HistoryLost, InvalidOption
from reactdb.feeds.position import resolve_since
from reactdb.session import Session
from reactdb.store.snapshot import Snapshot

_TEXT: Final = re.compile(r"([0-9]{1,18})-([0-9a-f]+\.[0-9a-f]+)", re.ASCII)
_TOKEN: Final = re.compile(r"[0-9a-f]+\.[0-9a-f]+\.[0-9]{1,18}", re.ASCII)


class Sequences:
    """Those of one file."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def text(self, snapshot: Snapshot, seq: int) -> str:
        engine = self._session.engine
        return f"{seq}-{engine.database_id}.{engine.epochs.at(snapshot.connection, seq)}"

    def texts(self, snapshot: Snapshot, seqs: Sequence[int]) -> list[str]:
        """The texts of many."""
        epochs, connection = self._session.engine.epochs, snapshot.connection
        if not seqs or epochs.at(connection, min(seqs)) != epochs.at(connection, max(seqs)):
            return [self.text(snapshot, seq) for seq in seqs]
        # One epoch has all of them.
        _, dash, rest = self.text(snapshot, seqs[0]).partition("-")
        return [f"{seq}{dash}{rest}" for seq in seqs]

    def newest(self, snapshot: Snapshot, tables: Tables) -> int:
        """The seq of a database's newest change."""
        return max(snapshot.newest_seq(table) for table in tables.told)

    def seq(self, snapshot: Snapshot, tables: Tables, since: str) -> int:
        """The seq of a position.

        Raises:
            CouchError: 400, it is none of this file, or of changes that the file has lost.
        """
        if since == "0":
            return 0
        if since == "now":
            return self.newest(snapshot, tables)
        match = _TEXT.fullmatch(since)
        token = since if match is None else f"{match[2]}.{match[1]}"
        if not _TOKEN.fullmatch(token):
            raise malformed()
        try:
            return resolve_since(token, self._session.engine, snapshot)
        except HistoryLost:
            # Where each document stands today can be told from any position.
            return int(token.rpartition(".")[2])
        except (HistoryDiverged, InvalidOption):
            raise malformed() from None


def malformed() -> CouchError:
    return CouchError(400, "bad_request", "Malformed sequence supplied in 'since' parameter.")
