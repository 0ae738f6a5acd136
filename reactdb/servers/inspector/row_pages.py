"""RowPages: pages of a table's documents: now and as of a seq, filtered and ordered, at any offset.

    now, in the order of keys      read by key
    now, filtered or ordered       a live list, which commits keep current; of a table of more than `MOST_FOLLOWED` documents, the
                                   table as of some seconds ago
    as of a seq                    the keys at that moment, computed once

A live list costs memory and a little of each commit, so there are few, and one that nobody asks for ends.

Rule of this file: it chooses the way, and limits the answer in rows and bytes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from reactdb import desc, json
from reactdb.budget import check
from reactdb.clock import monotonic
from reactdb.condition_text import parse_condition, parse_field
from reactdb.database import Database
from reactdb.errors import QueryError
from reactdb.feeds.livelist import LiveList
from reactdb.key_spelling import key_of, key_text
from reactdb.query import Query
from reactdb.servers.inspector.parameters import bad
from reactdb.servers.inspector.past_tables import PastTables, find_table_at
from reactdb.session import session_of
from reactdb.store.key_pages import count_before, count_documents, find_key_at
from reactdb.store.log import read_low_water
from reactdb.store.snapshot import GREATEST, LEAST
from reactdb.table import query_of
from reactdb.values import codec
from reactdb.values.collation import key_bytes, key_value, primary_key_bytes

__all__ = ["MOST_ROWS", "RowPages"]

MOST_ROWS: Final = 500
MOST_BYTES: Final = 8 * 1024 * 1024
"""Of JSON, in one answer. Documents beyond it are left out of their rows, which say so."""
MOST_FOLLOWED: Final = 200_000
"""Documents of a table that a live list may have to hold: about 200 MB of ordinary ones."""
MOST_LISTS: Final = 4
IDLE_S: Final = 60.0
"""A live list without a request for so long ends."""
FRESH_S: Final = 10.0
"""How old the filtered or ordered result of a large table may be."""


LOOK_S: Final = 0.1
"""How soon a request that waits for a list notices its own end."""


@dataclass(slots=True)
class KeptList:
    """A live list, once it is read."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    documents: LiveList | None = None
    used_at: float = 0.0


class RowPages:
    """See the head of this file.

    Thread safety: any thread.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._session = session_of(db)
        self._past = PastTables(self._session)
        self._lock = threading.Lock()
        self._followed: OrderedDict[tuple[Any, ...], KeptList] = OrderedDict()
        self._is_closed = False
        # The thread of the live lists, from the first of them on.
        self._scheduler: Any = None
        # The moment as of which a large table is shown: (seq, when it was chosen).
        self._moments: dict[tuple[Any, ...], tuple[int, float]] = {}

    def close(self) -> None:
        """End the live lists."""
        with self._lock:
            self._is_closed = True
            followed = list(self._followed.values())
            self._followed.clear()
            scheduler, self._scheduler = self._scheduler, None
        for one in followed:
            if one.documents is not None:
                one.documents.close()
        if scheduler is not None:
            scheduler.dispose()

    def end_idle(self) -> None:
        """End each live list whose rows no page has requested lately."""
        now = monotonic()
        with self._lock:
            idle = [name for name, one in self._followed.items() if 0 < one.used_at < now - IDLE_S]
            ended = [self._followed.pop(name) for name in idle]
        for one in ended:
            if one.documents is not None:
                one.documents.close()

    def read(
        self,
        table: str,
        *,
        at: int | None,
        where: str | None,
        order: str | None,
        is_descending: bool,
        offset: int,
        limit: int,
        anchor: str | None = None,
        lead: int = 0,
    ) -> str:
        """A page as JSON: `table`, `primary_key`, `seq` (newest of the file), `at`, `total` (rows of the result), `offset`, and
        `rows`: [{key, doc}]; `as_of`, the seq of the result if it is neither `at` nor the newest.

        Args:
            anchor: The text of a key. Where it is in the result, the page begins `lead` rows before it, and `anchor` is its
                place.

        Raises:
            RequestRefused: 400, `where` or `order` is wrong; TableNotFound, HistoryLost.
        """
        self._session.check_open()
        query = self._query(table, where, order, is_descending)
        with self._session.engine.fresh_snapshot() as snapshot:
            head = snapshot.seq
            moment = head if at is None else min(at, head)
            info = find_table_at(snapshot, table, moment)
            primary_key = info.primary_key
            is_large = at is None and query is not None and count_documents(snapshot, info) > MOST_FOLLOWED
            low = read_low_water(snapshot.connection)
        spelled = None if anchor is None else primary_key_bytes(key_of(anchor))
        place_in = None if spelled is None else (spelled, lead)
        head_part: dict[str, Any] = {"table": table, "primary_key": primary_key, "seq": head, "at": at}
        name = (where, order, is_descending)
        rows: list[tuple[Any, Any]]
        if at is None and not is_large:
            if query is None:
                total, offset, place, rows = self._read_by_key(table, is_descending, offset, limit, place_in)
            else:
                followed = self._follow(table, name, where, order, is_descending)
                total, offset, place, rows = self._read_followed(
                    followed, primary_key, offset, limit, place_in
                )
        else:
            if is_large:
                moment = head_part["as_of"] = self._recent(info.id, name, head, low)
            total, offset, place, found = self._past.page(table, moment, query, name, offset, limit, place_in)
            rows = [(key_value(key), None if body is None else codec.decode(body)) for key, body in found]
        head_part |= {"total": total, "offset": offset}
        if anchor is not None:
            head_part["anchor"] = place
        return encode_page(head_part, rows)

    # -----------------------------------------------------------------------------------------------------------

    def _query(self, table: str, where: str | None, order: str | None, is_descending: bool) -> Query | None:
        """What is shown; None: the whole table in the order of its keys."""
        if where is None and order is None:
            return None
        return query_of(self._selection(table, where, order, is_descending))

    def _selection(self, table: str, where: str | None, order: str | None, is_descending: bool) -> Any:
        selection: Any = self._db.table(table)
        try:
            if where is not None:
                selection = selection.filter(parse_condition(where))
            if order is not None:
                field = parse_field(order)
                selection = selection.order_by(desc(field) if is_descending else field)
        except QueryError as error:
            raise bad(f"{'condition' if order is None or where is not None else 'order'}: {error}") from None
        return selection

    def _read_by_key(
        self, table: str, is_descending: bool, offset: int, limit: int, anchor: tuple[bytes, int] | None
    ) -> tuple[int, int, int | None, list[tuple[Any, Any]]]:
        with self._session.engine.fresh_snapshot() as snapshot:
            info = find_table_at(snapshot, table, snapshot.seq)
            total, place = count_documents(snapshot, info), None
            if anchor is not None and snapshot.get(info, anchor[0]) is not None:
                before = count_before(snapshot, info, anchor[0])
                place = total - 1 - before if is_descending else before
                offset = max(0, place - anchor[1])
            first = find_key_at(snapshot, info, offset, is_descending) if limit else None
            rows: list[Any] = []
            if first is not None and is_descending:
                # A bound of a read is exclusive above.
                rows = snapshot.rows(info, LEAST, first + b"\0", reverse=True, limit=limit)
            elif first is not None:
                rows = snapshot.rows(info, first, GREATEST, limit=limit)
        return total, offset, place, [(key_value(row.key), codec.decode(row.body)) for row in rows]

    def _follow(
        self, table: str, name: tuple[Any, ...], where: str | None, order: str | None, is_descending: bool
    ) -> LiveList:
        """The live list of this result, once it is read."""
        while True:
            documents = self._find_list(table, name, where, order, is_descending)
            wait_until_read(documents)
            if documents.error is not None:
                raise documents.error
            if documents.state != "closed":
                return documents
            # Other requests needed its place before it was read: it is empty.
            self._session.check_open()

    def _find_list(
        self, table: str, name: tuple[Any, ...], where: str | None, order: str | None, is_descending: bool
    ) -> LiveList:
        with self._lock:
            followed = self._followed.get((table, *name))
            if followed is None:
                followed = self._followed[(table, *name)] = KeptList()
            self._followed.move_to_end((table, *name))
        with followed.lock:
            if followed.documents is None or followed.documents.state not in ("live", "loading"):
                # Read and kept current in a thread of its own: a commit of the program waits for neither.
                selection = self._selection(table, where, order, is_descending)
                followed.documents = selection.live(wait=False, scheduler=self._find_scheduler())
            followed.used_at = monotonic()
            documents = followed.documents
        ended = []
        with self._lock:
            if self._followed.get((table, *name)) is not followed:
                # It was ended before it had its list, which nobody else would close.
                ended.append(followed)
            while len(self._followed) > MOST_LISTS:
                ended.append(self._followed.popitem(last=False)[1])
        for one in ended:
            if one.documents is not None:
                one.documents.close()
        return documents

    def _find_scheduler(self) -> Any:
        with self._lock:
            if self._is_closed:
                raise bad("The inspector was closed.", 503)
            if self._scheduler is None:
                # Imported here because most pages need none.
                from reactivex.scheduler import EventLoopScheduler

                self._scheduler = EventLoopScheduler()
            return self._scheduler

    @staticmethod
    def _read_followed(
        documents: LiveList, primary_key: str, offset: int, limit: int, anchor: tuple[bytes, int] | None
    ) -> tuple[int, int, int | None, list[tuple[Any, Any]]]:
        place = None
        if anchor is not None:
            place = find_place(documents, primary_key, anchor[0], offset)
            if place is not None:
                offset = max(0, place - anchor[1])
        rows = [(document[primary_key], document) for document in documents[offset : offset + limit]]
        return len(documents), offset, place, rows

    def _recent(self, table_id: int, name: tuple[Any, ...], head: int, low: int) -> int:
        """The moment as of which the result of a large table is shown. `low`: the history begins there."""
        now = monotonic()
        with self._lock:
            seq, chosen_at = self._moments.get((table_id, *name), (head, 0.0))
            if chosen_at == 0.0 or now > chosen_at + FRESH_S or seq < low:
                seq = head
                if len(self._moments) >= MOST_LISTS:
                    self._moments.clear()
                self._moments[(table_id, *name)] = (seq, now)
        return seq


def wait_until_read(documents: LiveList[Any]) -> None:
    """Wait until the list has its result, or has failed.

    Raises:
        Stopped: The time of the request is over, or its client has gone. The list is read on.
    """
    if documents.state != "loading":
        return
    changed = threading.Event()
    subscription = documents.subscribe(
        on_state=lambda state: changed.set(), on_error=lambda error: changed.set()
    )
    try:
        while documents.state == "loading":
            check()
            changed.wait(LOOK_S)
    finally:
        subscription()


def find_place(documents: LiveList[Any], primary_key: str, key: bytes, near: int) -> int | None:
    """The place of a document, looked for from `near` outwards; None where it is not there."""
    listed: list[Any] = list(documents)
    wanted = key_value(key)
    near = min(near, len(listed))
    places: list[int] = [*range(near, min(len(listed), near + MOST_ROWS)), *range(len(listed))]
    for place in places:
        found = listed[place][primary_key]
        if found == wanted and key_bytes(found) == key:
            return place
    return None


def encode_page(head: dict[str, Any], rows: list[tuple[Any, Any]]) -> str:
    """The JSON of a page. Where it becomes too long, the remaining rows have no document but `cut`."""
    pieces: list[str] = []
    size = 0
    for key, document in rows:
        spelled = json.dumps(key_text(key), plain=True)
        if size < MOST_BYTES:
            text = json.dumps(document, plain=True)
            size += len(text)
        if size < MOST_BYTES or not pieces:
            pieces.append(f'{{"key":{spelled},"doc":{text}}}')
        else:
            pieces.append(f'{{"key":{spelled},"doc":null,"cut":true}}')
    return f'{json.dumps(head, plain=True)[:-1]},"rows":[{",".join(pieces)}]}}'
