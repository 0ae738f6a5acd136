"""Sequences: positions in the log as CouchDB's clients see them, `12-DATABASE.EPOCH.SEQ`.

It is the token of reactdb, and before it a number that grows with it and begins with 1 in each database, because clients show
that number. Only the token is the position; it is accepted without the number, too. `0` is before everything, and a time such as
`2026-11-23T02:00:00Z` is the position of the newest change up to then.

Rule of this file: a position of another file, or of a history that this file does not have, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.settings import DatabaseSettings
from reactdb.dialects.couchdb.states import Tables
from reactdb.errors import HistoryDiverged, HistoryLost, InvalidOption
from reactdb.feeds.position import resolve_since
from reactdb.session import Session
from reactdb.store.exports import find_newest_seq
from reactdb.store.snapshot import Snapshot

_TEXT: Final = re.compile(r"(?:[0-9]{1,18}-)?([0-9a-f]+\.[0-9a-f]+\.[0-9]{1,18})", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)


class Sequences:
    """The sequences of one file."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def text(self, snapshot: Snapshot, tables: Tables, settings: DatabaseSettings, seq: int) -> str:
        engine = self._session.engine
        number = settings.number(tables.main, seq)
        return f"{number}-{engine.database_id}.{engine.epochs.at(snapshot.connection, seq)}.{seq}"

    def file_text(self, snapshot: Snapshot, seq: int) -> str:
        """A position among the changes of all databases; its number is the log's seq."""
        engine = self._session.engine
        return f"{seq}-{engine.database_id}.{engine.epochs.at(snapshot.connection, seq)}.{seq}"

    def texts(
        self, snapshot: Snapshot, tables: Tables, settings: DatabaseSettings, seqs: Sequence[int]
    ) -> list[str]:
        """The texts of many."""
        engine, connection = self._session.engine, snapshot.connection
        if not seqs or engine.epochs.at(connection, min(seqs)) != engine.epochs.at(connection, max(seqs)):
            return [self.text(snapshot, tables, settings, seq) for seq in seqs]
        # All of them belong to one epoch.
        rest = f"-{engine.database_id}.{engine.epochs.at(connection, seqs[0])}."
        return [f"{settings.number(tables.main, seq)}{rest}{seq}" for seq in seqs]

    def newest(self, snapshot: Snapshot, tables: Tables) -> int:
        """The seq of a database's newest change."""
        return max(snapshot.newest_seq(table) for table in tables.watched)

    def seq(self, snapshot: Snapshot, tables: Tables, since: str) -> int:
        """The seq of a position.

        Raises:
            CouchError: 400, it is not of this file, or of changes that the file has lost.
        """
        return self.newest(snapshot, tables) if since == "now" else self._past(snapshot, since)

    def file_seq(self, snapshot: Snapshot, since: str) -> int:
        """The seq of a position among the changes of all databases. Raises: as `seq`."""
        return snapshot.seq if since == "now" else self._past(snapshot, since)

    def _past(self, snapshot: Snapshot, since: str) -> int:
        if since == "0":
            return 0
        if _TIME.fullmatch(since):
            return find_newest_seq(snapshot, _milliseconds(since))
        match = _TEXT.fullmatch(since)
        if match is None:
            raise malformed()
        try:
            return resolve_since(match[1], self._session.engine, snapshot)
        except HistoryLost:
            # The present state of each document can be returned from any position.
            return int(match[1].rpartition(".")[2])
        except (HistoryDiverged, InvalidOption):
            raise malformed() from None


def _milliseconds(text: str) -> int:
    """The milliseconds from 1970 to a time.

    Raises:
        CouchError: 400, there is no such time.
    """
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1_000)
    except ValueError:
        raise malformed() from None


def malformed() -> CouchError:
    return CouchError(400, "bad_request", "Malformed sequence supplied in 'since' parameter.")
