"""LiveTable: the rows of a selection in a notebook, now and after each commit.

    direction   message                                          when
    ----------  -----------------------------------------------  ----------------------------------------------------------
    to kernel   ask: view, offset, count                         a view appears, scrolls, or misses a number
    to kernel   alive: view                                      every 20 seconds
    to kernel   bye: view                                        a view goes
    to view     page: view, number, offset, total, rows, ...     the answer to ask; other columns
    to view     changes: view, number, total, rows, ...          commits have changed rows of the view's page: those rows only
    to view     alive: view, number                              the answer to alive; no number: ask again

The numbers of a view's messages have no gaps, so a view notices a lost message, and asks for its page again. Each view has
its own page. The trait `page` is a small copy of one page for the first picture and for the saved notebook.

The feed begins when a view asks, and ends when the table is closed, its cell runs again, its views have said bye, or none of them
was alive for three minutes. A later ask begins it again.

Threads: the list changes in the thread of `PacedThread`. The kernel only passes requests on, and stays free.

Rule of this file: a message has rows of one page, never the whole result.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets

from reactdb import clock
from reactdb.cell_text import check_columns, fields_of, key_of_document, names_of_columns, texts_of
from reactdb.errors import InvalidOption, ReactDBError, UsageError, format_value
from reactdb.feeds.feed import Feed
from reactdb.feeds.livelist import LiveList, is_single, parts_of
from reactdb.html_view import MOST_COLUMNS, Preview, to_html, to_text
from reactdb.key_spelling import key_text
from reactdb.notebook.paced_thread import PacedThread
from reactdb.notebook.running_cell import find_running_cell, replace_earlier_runs
from reactdb.plain_json import to_plain

__all__ = ["LiveTable"]

HERE: Final = Path(__file__).parent
MOST_ROWS: Final = 200
MOST_VIEWS: Final = 32
LEASE_S: Final = 180.0
"""Three minutes: a browser slows down the timers of a page in the background to one call a minute."""

PAGE_EVERY_S: Final = 2.0


class ViewPage:
    """The part of the list that one view shows: what was sent to it, and when it was last alive."""

    __slots__ = ("alive_at", "count", "is_answered", "number", "offset", "sent", "total")

    def __init__(self, offset: int, count: int, alive_at: float) -> None:
        self.offset = offset
        self.count = count
        self.alive_at = alive_at
        self.number = 0
        self.is_answered = False
        self.sent: list[Any] = []
        self.total = 0


class LiveTable(anywidget.AnyWidget):
    """A table in a notebook whose rows are the documents of a selection, now and after each commit of any process.

    Put it on the last line of a cell. In marimo, too; `mo.ui.anywidget(table)` is possible and not needed.
    """

    _esm = HERE / "live_table.js"
    _css = HERE / "live_table.css"

    page: Any = traitlets.Dict().tag(sync=True)
    height: Any = traitlets.Int().tag(sync=True)

    # Here, because a widget whose arguments are refused is closed too.
    _live: LiveList[Any] | None = None
    _pace: PacedThread | None = None
    _is_page_old = False
    _is_over = False

    def __init__(
        self,
        selection: Any,
        *,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        rows: int = 20,
    ) -> None:
        """
        Args:
            selection: A selection that is a sequence, or a feed with `include_initial` and `include_offsets`. In the order
                of keys where it has no order.
            columns: The fields to show, or a dict of fields and their titles. None: the key and the fields of the
                documents, at most 10.
            rows: How many rows are visible at once, from 1 to 200.

        Raises:
            InvalidOption: A wrong argument.
            UsageError: The selection is one value.
            TableNotFound, IndexNotFound, QueryError: It cannot be read.
        """
        titles = check_columns(columns)
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MOST_ROWS:
            raise InvalidOption(f"rows is a whole number from 1 to {MOST_ROWS}, not {format_value(rows)}")
        first: list[Any] = []
        if not isinstance(selection, Feed):
            if is_single(parts_of(selection)[0]):
                raise UsageError("a LiveTable shows a sequence, and this selection is one value")
            first = list(selection.limit(rows).run())
        self._selection = selection
        self._titles = titles
        self._is_chosen = titles is not None
        self._primary_key = "id"
        # For the windows, and for beginning and ending the feed: views come and go in the thread of the kernel.
        self._lock = threading.RLock()
        self._windows: dict[str, ViewPage] = {}
        self._paged_at = 0.0
        self._learn_columns(first)
        total = len(first) if len(first) < rows else None
        super().__init__(page=self._page_of(first, 0, total, "loading", None), height=rows)
        self.on_msg(self._take_message)
        comm = getattr(self, "comm", None)
        if comm is not None and hasattr(comm, "on_close"):
            comm.on_close(lambda _: self.end())
        replace_earlier_runs(self.end, find_running_cell())

    # -----------------------------------------------------------------------------------------------------------
    # Requests: in the thread of the kernel

    def _take_message(self, _: Any, content: Any, buffers: Any) -> None:
        """A message of a view. Others than ours are ignored: anything may come from a browser."""
        view = content.get("view") if isinstance(content, dict) else None
        if not isinstance(view, str) or len(view) > 64 or self._is_over:
            return
        kind, offset, count = content.get("kind"), content.get("offset"), content.get("count")
        if kind == "ask" and type(offset) is int and type(count) is int:
            with self._lock:
                self._place(view, max(0, offset), min(max(1, count), MOST_ROWS))
                self._begin()
                self._schedule(lambda *_: self._answer(view))
        elif kind == "alive":
            if view in self._windows:
                self._schedule(lambda *_: self._keep(view))
            else:
                self.send({"kind": "alive", "view": view})
        elif kind == "bye":
            self._schedule(lambda *_: self._leave(view))

    def _schedule(self, work: Any) -> None:
        if self._pace is not None:
            self._pace.schedule(work)

    def _place(self, view: str, offset: int, count: int) -> None:
        """Remember the page that a view shows."""
        window = self._windows.get(view)
        if window is None:
            if len(self._windows) >= MOST_VIEWS:
                # The one that was alive longest ago. If it is there, it asks again.
                del self._windows[min(self._windows, key=lambda one: self._windows[one].alive_at)]
            window = self._windows[view] = ViewPage(offset, count, clock.monotonic())
        window.offset, window.count, window.alive_at = offset, count, clock.monotonic()
        window.is_answered = False

    def _begin(self) -> None:
        """Begin the feed, unless it is open."""
        if self._pace is not None:
            return
        pace = self._pace = PacedThread(self._after_all, self._when_idle)
        try:
            live: LiveList[Any] = LiveList(self._selection, scheduler=pace, wait=False)
        except ReactDBError as error:
            pace.close()
            self._pace = None
            self._set_page("failed", error)
            for view in self._windows:
                self.send({"kind": "page", "view": view, "number": 0, **self.page})
            self._windows.clear()
            return
        self._live, self._primary_key = live, live.primary_key
        live.subscribe(on_state=lambda state: self._take_state(live, state), on_error=lambda error: None)

    def _take_state(self, live: LiveList[Any], state: str) -> None:
        if state == "live":
            self._learn_columns(live[:100])
            live.subscribe(lambda edits: None)
        if live is self._live:
            # Every view gets the state, and its rows.
            for view in list(self._windows):
                self._send_page(view)
            self._set_page(state, live.error)

    # -----------------------------------------------------------------------------------------------------------
    # Answers: in the thread of the pace

    def _answer(self, view: str) -> None:
        live, window = self._live, self._windows.get(view)
        if live is not None and live.state != "loading" and window is not None and not window.is_answered:
            self._send_page(view)

    def _keep(self, view: str) -> None:
        window = self._windows.get(view)
        if window is not None:
            window.alive_at = clock.monotonic()
            self.send({"kind": "alive", "view": view, "number": window.number})

    def _leave(self, view: str) -> None:
        with self._lock:
            self._windows.pop(view, None)
            if not self._windows:
                self._pause()

    def _send_page(self, view: str) -> None:
        window, live = self._windows.get(view), self._live
        if window is None or live is None:
            return
        # Before the offset is read: a request that comes now is answered by another page.
        window.is_answered = True
        window.total = len(live)
        window.offset = max(0, min(window.offset, window.total - window.count))
        window.sent = list(live[window.offset : window.offset + window.count])
        window.number += 1
        page = self._page_of(window.sent, window.offset, window.total, live.state, live.error)
        self.send({"kind": "page", "view": view, "number": window.number, **page})
        self._is_page_old = True

    def _after_all(self) -> None:
        """After the commits of a moment: each view gets the rows of its page that have changed."""
        live = self._live
        if live is None or live.state == "loading":
            return
        for view, window in list(self._windows.items()):
            total = len(live)
            offset = max(0, min(window.offset, total - window.count))
            documents = list(live[offset : offset + window.count])
            if not window.is_answered or offset != window.offset or self._learn_columns(documents):
                self._send_page(view)
                continue
            changed = {
                place: self._row_of(document)
                for place, document in enumerate(documents)
                if place >= len(window.sent) or document is not window.sent[place]
            }
            if changed or total != window.total:
                window.sent, window.total = documents, total
                window.number += 1
                self._is_page_old = True
                self.send(
                    {
                        "kind": "changes",
                        "view": view,
                        "number": window.number,
                        "total": total,
                        "count": len(documents),
                        "rows": changed,
                    }
                )
        if clock.monotonic() - self._paged_at >= PAGE_EVERY_S:
            # Where commits never pause, the thread is never idle.
            self._when_idle()

    def _when_idle(self) -> None:
        self._renew_page()
        now = clock.monotonic()
        for view in [view for view, window in self._windows.items() if now - window.alive_at > LEASE_S]:
            self._leave(view)

    def _renew_page(self) -> None:
        if self._is_page_old and self._live is not None:
            self._set_page(self._live.state, self._live.error)
        if getattr(getattr(self, "comm", None), "_closed", False):
            # marimo has closed it, because its cell runs again.
            self.end()

    def _set_page(self, state: str, error: Exception | None) -> None:
        """Set the trait: the page of the first view, or the first rows."""
        self._is_page_old, self._paged_at = False, clock.monotonic()
        live = self._live
        if live is None or (state != "live" and not len(live)):
            self.page = {**self.page, "state": state, "error": None if error is None else str(error)}
            return
        window = next(iter(list(self._windows.values())), None)
        offset, count = (0, self.height) if window is None else (window.offset, window.count)
        self.page = self._page_of(list(live[offset : offset + count]), offset, len(live), state, error)

    # -----------------------------------------------------------------------------------------------------------
    # Rows

    def _learn_columns(self, documents: Sequence[Any]) -> bool:
        """Whether there are other columns than before."""
        if self._is_chosen:
            return False
        titles = dict(self._titles or {})
        for name in names_of_columns(documents, self._primary_key, MOST_COLUMNS)[0]:
            if len(titles) < MOST_COLUMNS:
                titles.setdefault(name, name)
        is_other = titles != self._titles
        self._titles = titles
        return is_other

    def _page_of(
        self, documents: Sequence[Any], offset: int, total: int | None, state: str, error: Exception | None
    ) -> dict[str, Any]:
        titles = self._titles or {}
        numbers = [
            place
            for place, name in enumerate(titles)
            if documents and all(type(fields_of(one).get(name, 0)) in (int, float) for one in documents)
        ]
        return {
            "offset": offset,
            "total": total,
            "columns": list(titles.values()),
            "numbers": numbers,
            "rows": [self._row_of(document) for document in documents],
            "state": state,
            "error": None if error is None else str(error),
            "at": to_plain(clock.now().replace(microsecond=0)),
        }

    def _row_of(self, document: Any) -> list[Any]:
        """The key as a text, and a text for each column."""
        return [
            self._text_of_key(key_of_document(document, self._primary_key)),
            texts_of(document, self._titles or {}, 200),
        ]

    @staticmethod
    def _text_of_key(key: Any) -> str | None:
        try:
            return None if key is None else key_text(key)
        except ReactDBError:
            # A `map` may have put a value there that is no key.
            return None

    # -----------------------------------------------------------------------------------------------------------
    # The end

    @property
    def is_live(self) -> bool:
        """Whether its feed is open: a view is asking for it."""
        return self._live is not None

    def _pause(self) -> None:
        """End the feed. A later request of a view begins it again."""
        if self._pace is None and self._live is None:
            return
        with self._lock:
            pace, live = self._pace, self._live
            if self._is_page_old and live is not None:
                self._set_page(live.state, live.error)
            self._pace = self._live = None
            self._windows.clear()
        if pace is not None:
            pace.close()
        if live is not None:
            live.close()

    def end(self) -> None:
        """End the feed for good. The last page stays."""
        self._is_over = True
        self._pause()

    def close(self) -> None:
        """End the feed, and remove the widget."""
        self.end()
        super().close()

    # -----------------------------------------------------------------------------------------------------------
    # Without the front end

    def _preview(self, note: str) -> Preview:
        page = self.page
        rows = page["rows"]
        total = page["total"]
        fact = (
            f"{len(rows)} of {total:,} documents" if total is not None else f"the first {len(rows)} documents"
        )
        texts = [row[1][:MOST_COLUMNS] for row in rows[:20]]
        numbers = frozenset(page["numbers"])
        return Preview("LiveTable", "", (fact,), page["columns"][:MOST_COLUMNS], texts, numbers, note)

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The widget, and beside it the page as HTML and as text: for a front end that cannot show widgets."""
        bundle = super()._repr_mimebundle_(**options)
        if bundle is None:
            return None
        data, metadata = bundle
        preview = self._preview(f"as of {self.page['at']}; this copy is not live")
        return {**data, "text/html": to_html(preview), "text/plain": to_text(preview)}, metadata

    def __repr__(self) -> str:
        return f"<LiveTable of {self._selection!r}>"
