"""LiveTable: a table for Textual that follows a selection.

    class Board(App):
        def compose(self):
            yield LiveTable(games.order_by(desc("score")), columns=["player", "score"])

It looks and behaves like Textual's DataTable with a cursor on rows. The differences:

- The documents are the rows. Only rows on the screen are drawn, so 100,000 documents cost no more than 100.
- The cursor stays on its document, wherever commits move it.
- All texts are shown as they are: nothing is markup, and control characters are shown by their escapes.

Threads: writers on any thread never wait for the screen. Commits are taken from the feed in the application's thread, at most
30 times a second, as many as there are.

Rule of this file: the list of documents changes in the application's thread only, between two drawings.
"""

from __future__ import annotations

import asyncio
import textwrap
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Any, ClassVar, Final

from reactdb.cell_text import cell_text, check_columns, fields_of, key_of_document, names_of_columns
from reactdb.errors import InvalidOption, MissingExtra, ReactDBError, format_value
from reactdb.feeds.feed import Feed
from reactdb.feeds.livelist import LiveList, parts_of
from reactdb.query import Between, Map, OrderBy, Query
from reactdb.values.collation import key_bytes

try:
    from rich.cells import cell_len, set_cell_size
    from rich.segment import Segment
    from rich.style import Style
    from textual import events
    from textual.binding import Binding, BindingType
    from textual.geometry import Size
    from textual.message import Message
    from textual.scroll_view import ScrollView
    from textual.strip import Strip
except ModuleNotFoundError as missing:
    raise MissingExtra("reactdb.textual", "textual", "textual") from missing

__all__ = ["LiveTable"]

FRAME_S: Final = 1 / 30
LEAST_WIDTH: Final = 3
MOST_WIDTH: Final = 32
"""Cells of a column, unless `widths` says otherwise."""

MOST_COLUMNS: Final = 20
MEASURED: Final = 100
"""Documents that are measured for the columns when the table is opened."""

MARKED_ROWS: Final = 200
"""Rows before and after the visible rows that are marked when they change."""

# Joiners and variation selectors make one picture of several characters. Terminals disagree about its width, and then the rest
# of the line would be shifted. Without them, the characters stand side by side.
_JOINERS: Final = {ord(character): None for character in "\u200c\u200d\ufe0e\ufe0f"}


class LiveTable(ScrollView, can_focus=True):
    """A table whose rows are the documents of a selection, now and after each commit.

    Attributes:
        live: The LiveList behind it; None until the table is mounted, and where it could not begin.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select_cursor", "Select", show=False),
        Binding("up", "cursor_up", "Cursor up", show=False),
        Binding("down", "cursor_down", "Cursor down", show=False),
        Binding("right", "scroll_right", "Scroll right", show=False),
        Binding("left", "scroll_left", "Scroll left", show=False),
        Binding("pageup", "page_up", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
        Binding("home,ctrl+home", "scroll_top", "Top", show=False),
        Binding("end,ctrl+end", "scroll_bottom", "Bottom", show=False),
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "livetable--changed",
        "livetable--cursor",
        "livetable--even-row",
        "livetable--header",
        "livetable--odd-row",
        "livetable--state",
    }

    DEFAULT_CSS = """
    LiveTable {
        background: $surface;
        color: $foreground;
        height: 1fr;
        & > .livetable--header { text-style: bold; background: $panel; color: $foreground; }
        & > .livetable--even-row { background: $surface-lighten-1 50%; }
        & > .livetable--cursor { background: $block-cursor-blurred-background; color: $block-cursor-blurred-foreground; }
        & > .livetable--changed { background: $success-muted; color: $foreground; text-style: bold; }
        & > .livetable--state { background: $warning-muted; color: $foreground; text-style: italic; }
        &:focus > .livetable--cursor {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: $block-cursor-text-style;
        }
        &:dark > .livetable--even-row { background: $surface-darken-1 40%; }
    }
    """

    class RowMessage(Message):
        """A message about a row.

        Attributes:
            live_table: The table.
            key: The primary key of the document; None where the selection leaves the key out.
            document: The document. It refuses to be changed.
        """

        def __init__(self, live_table: LiveTable, key: Any, document: Any) -> None:
            super().__init__()
            self.live_table = live_table
            self.key = key
            self.document = document

        @property
        def control(self) -> LiveTable:
            """The table, for `@on(LiveTable.RowSelected, "#board")`."""
            return self.live_table

    class RowHighlighted(RowMessage):
        """The cursor is on another document: it was moved, or its document has left the selection. Not sent when the
        document of the cursor changes or moves."""

    class RowSelected(RowMessage):
        """Enter was pressed on the row of the cursor, or the row was clicked."""

    class StateChanged(Message):
        """The state has changed.

        Attributes:
            live_table: The table.
            state: "loading", "live", "failed" or "closed".
            error: The error that stopped it, or None.
        """

        def __init__(self, live_table: LiveTable, state: str, error: Exception | None) -> None:
            super().__init__()
            self.live_table = live_table
            self.state = state
            self.error = error

        @property
        def control(self) -> LiveTable:
            """The table."""
            return self.live_table

    def __init__(
        self,
        selection: Any,
        *,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        widths: Mapping[str, int] | None = None,
        show_header: bool = True,
        zebra_stripes: bool = True,
        show_cursor: bool = True,
        changed_s: float = 0.8,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
        disabled: bool = False,
    ) -> None:
        """
        Args:
            selection: A selection that is a sequence, or a feed with `include_initial` and `include_offsets`. In the order
                of keys where it has no order.
            columns: The fields to show, or a dict of fields and their titles. None: the key and the fields of the
                documents, at most 20.
            widths: Widths of columns, in cells of the terminal, by field. A column without one is as wide as its values
                were when the table was opened, from 3 to 32 cells, and grows with the visible rows.
            show_header: Show the titles.
            zebra_stripes: Every second row has another background.
            show_cursor: Show the cursor.
            changed_s: Seconds for which changed cells are marked; 0 marks none.

        Raises:
            InvalidOption: A wrong argument.
        """
        super().__init__(name=name, id=id, classes=classes, disabled=disabled)
        self._given_columns = check_columns(columns)
        self._given_widths = _check_widths(widths)
        if isinstance(changed_s, bool) or not isinstance(changed_s, (int, float)) or not 0 <= changed_s <= 60:
            raise InvalidOption(
                f"changed_s is a number of seconds from 0 to 60, not {format_value(changed_s)}"
            )
        self.show_header = show_header
        self.zebra_stripes = zebra_stripes
        self.show_cursor = show_cursor
        self.changed_s = float(changed_s)
        self.live: LiveList[Any] | None = None
        self._selection = selection
        self._frames: Frames | None = None
        # Called to end the subscription of the edits; None while the result is being read.
        self._end_edits: Callable[[], None] | None = None
        # The first documents, until all have been read.
        self._first: Sequence[Any] = ()
        self._failure: Exception | None = None
        self._primary_key = "id"
        self._titles: dict[str, str] = {}
        self._widths: dict[str, int] = {}
        self._cells: dict[int, tuple[Any, list[str]]] = {}
        self._cursor = 0
        self._cursor_key: bytes | None = None
        self._cursor_document: Any = None
        # The document of the cursor was removed, and has not come back yet.
        self._is_cursor_lost = False
        self._was_cursor_moved = False
        # The number of the first visible row, and the row of the cursor in the last drawing, while edits are applied.
        self._top = 0
        self._drawn_cursor = 0
        self._is_dirty = False
        # The marked fields of a document, by the bytes of its key, and the time until which they are marked.
        self._marks: dict[bytes, tuple[frozenset[str], float]] = {}
        self._is_unmarking = False

    # -----------------------------------------------------------------------------------------------------------
    # What it follows

    @property
    def selection(self) -> Any:
        """What it follows. Assign another selection, and the table shows that one in place: documents of both stay, and so
        does the cursor if its document is in both.

        Raises:
            UsageError, and errors of the selection: The table then goes on as before.
        """
        return self._selection

    @selection.setter
    def selection(self, selection: Any) -> None:
        if self._frames is not None:
            if self.live is not None and self.live.state in ("loading", "live"):
                self.live.select(selection)
            else:
                self._follow(selection)
        self._selection = selection

    @property
    def state(self) -> str:
        """ "loading", "live", "failed" (`error` says why) or "closed". The last two are final until another selection is
        assigned; the rows stay."""
        if self._failure is not None:
            return "failed"
        return "loading" if self.live is None else self.live.state

    @property
    def error(self) -> Exception | None:
        """The error that stopped it, or None."""
        return self._failure or (None if self.live is None else self.live.error)

    def on_mount(self) -> None:
        self._frames = Frames(self._end_frame)
        try:
            self._follow(self._selection)
        except ReactDBError as error:
            # A missing table must not end the application.
            self._failure = error
            self.post_message(self.StateChanged(self, "failed", error))

    def on_unmount(self) -> None:
        frames, self._frames = self._frames, None
        if frames is not None:
            frames.close()
        if self.live is not None:
            self.live.close()

    def _follow(self, selection: Any) -> None:
        live: LiveList[Any] = LiveList(selection, scheduler=self._frames, wait=False)
        if self.live is not None:
            self.live.close()
        self._stop_edits()
        self.live, self._failure = live, None
        self._primary_key = live.primary_key
        self._first = _read_first(selection)
        self._reset()
        live.subscribe(on_state=lambda state: self._take_state(live, state), on_error=lambda error: None)

    def _take_state(self, live: LiveList[Any], state: str) -> None:
        if live is not self.live or self._frames is None:
            return
        if state == "loading":
            # The next result is taken as a whole, because the difference between two large results takes long.
            self._first = list(live)
            self._stop_edits()
        elif state == "live":
            self._first = ()
            self._primary_key = live.primary_key
            self._end_edits = live.subscribe(self._take_edits)
            self._reset()
        self._is_dirty = True
        self._frames.request()
        self.post_message(self.StateChanged(self, state, live.error))

    def _stop_edits(self) -> None:
        if self._end_edits is not None:
            self._end_edits()
            self._end_edits = None

    @property
    def _documents(self) -> Sequence[Any]:
        return self._first if self.live is None or self._end_edits is None else self.live

    @property
    def row_count(self) -> int:
        """The number of rows: of the first documents, while the result is being read."""
        return len(self._documents)

    # -----------------------------------------------------------------------------------------------------------
    # Edits: in the application's thread, many in a frame

    def _take_edits(self, edits: Sequence[Any]) -> None:
        for edit in edits:
            self._follow_edit(edit, edit.get("old_offset"), edit.get("new_offset"))

    def _follow_edit(self, edit: Any, old: int | None, new: int | None) -> None:
        """Move the cursor and the first visible row as the edit moves their documents."""
        top, height = self.scroll_offset.y, self.size.height
        if old != new or top - MARKED_ROWS <= (new or 0) <= top + height + MARKED_ROWS:
            self._is_dirty = True
        if old is not None:
            if old == self._cursor and not self._is_cursor_lost:
                self._is_cursor_lost = True
            elif old < self._cursor:
                self._cursor -= 1
            if old < self._top:
                self._top -= 1
        if new is not None:
            document = edit["new_val"]
            is_back = self._is_cursor_lost and self._cursor_key is not None
            if is_back and self._key_bytes(document) == self._cursor_key:
                self._cursor, self._is_cursor_lost = new, False
            elif new < self._cursor or (new == self._cursor and not self._is_cursor_lost):
                self._cursor += 1
            if new < self._top or (new == self._top != old):
                self._top += 1
            if self.changed_s and top - MARKED_ROWS <= new <= top + height + MARKED_ROWS:
                self._mark(edit, document)

    def _mark(self, edit: Any, document: Any) -> None:
        key = self._key_bytes(document)
        if key is None:
            return
        fields, before = fields_of(document), edit.get("old_val")
        if before is not None and self._key_bytes(before) == key:
            old_fields = fields_of(before)
            changed = frozenset(name for name in self._titles if fields.get(name) != old_fields.get(name))
        else:
            changed = frozenset(self._titles)
        if changed:
            earlier = self._marks.get(key)
            self._marks[key] = (
                changed if earlier is None else changed | earlier[0],
                self._time() + self.changed_s,
            )

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _end_frame(self) -> None:
        """After all edits of a frame: sizes, cursor, scroll position, one drawing."""
        if not self._is_dirty:
            return
        self._is_dirty = False
        before, top = self._drawn_cursor, self.scroll_offset.y
        self._learn_columns(self._visible_documents())
        self._settle_cursor()
        self._resize()
        height = self._body_height
        if top == 0 and (self._cursor < height or not self._was_cursor_moved):
            # At the top, the newest rows appear.
            pass
        elif top <= before < top + height:
            # The row of the cursor stays where it is on the screen.
            self._scroll_rows(top + self._cursor - before)
        else:
            self._scroll_rows(self._top)
        self._begin_frame()
        self._schedule_unmark()
        self.refresh()

    def _begin_frame(self) -> None:
        self._drawn_cursor = self._cursor
        self._top = self.scroll_offset.y

    def _schedule_unmark(self) -> None:
        if self._marks and not self._is_unmarking:
            self._is_unmarking = True
            self.set_timer(self.changed_s, self._unmark)

    def _unmark(self) -> None:
        now = self._time()
        self._is_unmarking = False
        self._marks = {key: mark for key, mark in self._marks.items() if mark[1] > now}
        self._schedule_unmark()
        self.refresh()

    def _reset(self) -> None:
        """Another whole result."""
        self._cells.clear()
        self._marks.clear()
        self._titles, self._widths = {}, {}
        documents = self._documents
        self._learn_columns(documents[:MEASURED])
        key = self._cursor_key
        if key is not None and not (
            self._cursor < len(documents) and self._key_bytes(documents[self._cursor]) == key
        ):
            found = (place for place, document in enumerate(documents) if self._key_bytes(document) == key)
            self._cursor = next(found, min(self._cursor, max(0, len(documents) - 1)))
        self._is_cursor_lost = False
        offset = self._cursor - self._drawn_cursor
        self._settle_cursor()
        self._resize()
        if self._was_cursor_moved and offset:
            self._scroll_rows(self.scroll_offset.y + offset)
        self._begin_frame()
        self.refresh()

    # -----------------------------------------------------------------------------------------------------------
    # Columns

    def _learn_columns(self, documents: Sequence[Any]) -> None:
        """Add the columns that the documents need, and make columns as wide as their values."""
        if self._given_columns is not None:
            titles = self._given_columns
        else:
            names, _ = names_of_columns(documents, self._primary_key, MOST_COLUMNS)
            titles = dict(self._titles)
            for name in names:
                if len(titles) < MOST_COLUMNS:
                    titles.setdefault(name, name)
        widths = dict(self._widths)
        for name, title in titles.items():
            if name in self._given_widths:
                widths[name] = self._given_widths[name]
            elif name not in widths:
                widths[name] = max(LEAST_WIDTH, min(MOST_WIDTH, cell_len(cell_text(title, MOST_WIDTH))))
        for document in documents:
            fields = fields_of(document)
            for name in titles:
                if name in fields and name not in self._given_widths and widths[name] < MOST_WIDTH:
                    width = cell_len(_text_of(fields[name], MOST_WIDTH))
                    if width > widths[name]:
                        widths[name] = min(width, MOST_WIDTH)
        if titles != self._titles or widths != self._widths:
            self._titles, self._widths = dict(titles), widths
            self._cells.clear()

    def _visible_documents(self) -> Sequence[Any]:
        top = self.scroll_offset.y
        return self._documents[top : top + self._body_height]

    @property
    def _header_height(self) -> int:
        return 1 if self.show_header else 0

    @property
    def _body_height(self) -> int:
        """The number of rows that the window shows."""
        return max(1, self.scrollable_content_region.height - self._header_height)

    def _resize(self) -> None:
        width = sum(self._widths.values()) + 2 * len(self._widths)
        size = Size(width, self._header_height + len(self._documents))
        if size != self.virtual_size:
            self.virtual_size = size

    # -----------------------------------------------------------------------------------------------------------
    # The cursor

    @property
    def cursor_row(self) -> int:
        """The number of the row of the cursor, from 0."""
        return self._cursor

    @property
    def cursor_document(self) -> Any:
        """The document of the cursor; None in an empty table."""
        documents = self._documents
        return documents[self._cursor] if self._cursor < len(documents) else None

    @property
    def cursor_key(self) -> Any:
        """The primary key of the document of the cursor; None in an empty table."""
        document = self.cursor_document
        return None if document is None else key_of_document(document, self._primary_key)

    def move_cursor(self, *, row: int | None = None, key: Any = None) -> bool:
        """Move the cursor to a row, or to the document with a key, and scroll there.

        Args:
            row: From 0. Beyond the end, the last row.
            key: A primary key. It is looked for in all documents.

        Returns:
            Whether there is such a document.
        """
        documents = self._documents
        if key is not None:
            wanted = key_bytes(key)
            row = next(
                (at for at, document in enumerate(documents) if self._key_bytes(document) == wanted), None
            )
        if row is None or not documents:
            return False
        self._was_cursor_moved = True
        self._cursor = max(0, min(row, len(documents) - 1))
        self._is_cursor_lost = False
        self._settle_cursor()
        self._show_cursor_row()
        self._begin_frame()
        self.refresh()
        return row < len(documents)

    def _settle_cursor(self) -> None:
        """Take the document at the cursor for the document of the cursor, and say so where it is another one."""
        documents = self._documents
        self._cursor = max(0, min(self._cursor, len(documents) - 1))
        self._is_cursor_lost = False
        document = documents[self._cursor] if documents else None
        key = None if document is None else self._key_bytes(document)
        is_other = key != self._cursor_key or (key is None and document is not self._cursor_document)
        self._cursor_key, self._cursor_document = key, document
        if is_other and document is not None:
            self.post_message(
                self.RowHighlighted(self, key_of_document(document, self._primary_key), document)
            )

    def _key_bytes(self, document: Any) -> bytes | None:
        key = key_of_document(document, self._primary_key)
        if key is None:
            return None
        try:
            return key_bytes(key)
        except ReactDBError:
            # Another value in the place of the key, after a map.
            return None

    def _show_cursor_row(self) -> None:
        top, height = self.scroll_offset.y, self._body_height
        if self._cursor < top:
            self._scroll_rows(self._cursor)
        elif self._cursor >= top + height:
            self._scroll_rows(self._cursor - height + 1)

    def _scroll_rows(self, top: int) -> None:
        if top != self.scroll_offset.y:
            self.scroll_to(y=max(0, top), animate=False)

    def action_cursor_up(self) -> None:
        self.move_cursor(row=self._cursor - 1)

    def action_cursor_down(self) -> None:
        self.move_cursor(row=self._cursor + 1)

    def action_page_up(self) -> None:
        self.move_cursor(row=self._cursor - self._body_height)

    def action_page_down(self) -> None:
        self.move_cursor(row=self._cursor + self._body_height)

    def action_scroll_top(self) -> None:
        self.move_cursor(row=0)

    def action_scroll_bottom(self) -> None:
        self.move_cursor(row=len(self._documents) - 1)

    def action_select_cursor(self) -> None:
        document = self.cursor_document
        if document is not None and self.show_cursor:
            self.post_message(self.RowSelected(self, self.cursor_key, document))

    def on_click(self, event: events.Click) -> None:
        place = event.get_content_offset(self)
        row = None if place is None else self._row_at(place.y)
        if row is not None and self.show_cursor:
            was_there = row == self._cursor
            self.move_cursor(row=row)
            if was_there:
                self.action_select_cursor()
            event.stop()

    def _row_at(self, y: int) -> int | None:
        """The row at a line of the window; None for the header and below the last row."""
        row = self.scroll_offset.y + y - self._header_height
        return row if y >= self._header_height and row < len(self._documents) else None

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._top = self.scroll_offset.y
        self._look_again()

    def on_resize(self) -> None:
        self._look_again()

    def _look_again(self) -> None:
        """Other rows are visible: columns may have to grow."""
        if self._frames is not None:
            self._is_dirty = True
            self._frames.request()

    # -----------------------------------------------------------------------------------------------------------
    # Drawing

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        state = self._state_lines(width)
        below = self.size.height - y
        if below <= len(state):
            style = self.get_component_rich_style("livetable--state")
            text = set_cell_size(state[len(state) - below], width)
            return Strip([Segment(text, style)], width)
        left = self.scroll_offset.x
        if self.show_header and y == 0:
            return self._header_strip().crop_extend(left, left + width, self._header_style)
        row = self._row_at(y)
        if row is None:
            return Strip.blank(width, self.rich_style)
        strip, style = self._row_strip(row)
        return strip.crop_extend(left, left + width, style)

    def _state_lines(self, width: int) -> list[str]:
        """The text over the last lines of the window: the table is loading, or it has stopped. Empty while the table is live."""
        state = self.state
        if state == "live":
            return []
        if state == "loading":
            return [" loading…"]
        sentence = (
            f"stopped: {self.error}" if state == "failed" else "closed: this table does not move any more"
        )
        return [f" {line}" for line in textwrap.wrap(cell_text(sentence, 1_000), max(10, width - 2))[:4]]

    @property
    def _header_style(self) -> Style:
        return self.get_component_rich_style("livetable--header")

    def _header_strip(self) -> Strip:
        style = self._header_style
        titles = [
            Segment(f" {_fit(_text_of(title, width), width, False)} ", style)
            for title, width in zip(self._titles.values(), self._widths.values(), strict=True)
        ]
        return Strip(titles)

    def _row_strip(self, row: int) -> tuple[Strip, Style]:
        document = self._documents[row]
        style = self.rich_style
        if self.zebra_stripes:
            style = self.get_component_rich_style("livetable--odd-row" if row % 2 else "livetable--even-row")
        is_cursor = self.show_cursor and row == self._cursor
        if is_cursor:
            style = self.get_component_rich_style("livetable--cursor")
        cells = self._cells_of(document)
        marked = self._marked_fields(document) if self._marks else frozenset()
        if not marked and all(cell.isascii() for cell in cells):
            return Strip([Segment("".join(cells), style)]), style
        changed = self.get_component_rich_style("livetable--changed")
        if is_cursor:
            changed = style + Style(bold=True, underline=True)
        return (
            Strip(
                [
                    Segment(cell, changed if name in marked else style)
                    for name, cell in zip(self._titles, cells, strict=True)
                ]
            ),
            style,
        )

    def _marked_fields(self, document: Any) -> frozenset[str]:
        key = self._key_bytes(document)
        mark = None if key is None else self._marks.get(key)
        return frozenset() if mark is None else mark[0]

    def _cells_of(self, document: Any) -> list[str]:
        """The cells of a row, padded to the widths of the columns. Kept by the identity of the document, which never changes."""
        kept = self._cells.get(id(document))
        if kept is not None and kept[0] is document:
            return kept[1]
        fields = fields_of(document)
        cells = []
        for name, width in self._widths.items():
            if name in fields:
                value = fields[name]
                cells.append(f" {_fit(_text_of(value, width), width, type(value) in (int, float))} ")
            else:
                cells.append(" " * (width + 2))
        if len(self._cells) > 1_000:
            self._cells.clear()
        self._cells[id(document)] = document, cells
        return cells


def _text_of(value: Any, width: int) -> str:
    """The text of a value, a little longer than what fits: a character may have no width."""
    return cell_text(value, 4 * width + 4).translate(_JOINERS)


def _fit(text: str, width: int, is_right: bool) -> str:
    """The text in exactly so many cells of the terminal."""
    length = cell_len(text)
    if length > width:
        return f"{set_cell_size(text, width - 1)}…"
    return " " * (width - length) + text if is_right else text + " " * (width - length)


def _read_first(selection: Any) -> Sequence[Any]:
    """The first documents, where they are read at once: so a large table has rows before all have been read."""
    if isinstance(selection, Feed):
        return ()
    query: Query = parts_of(selection)[0]
    is_quick = all(
        isinstance(step, (Between, Map)) or (isinstance(step, OrderBy) and not step.keys)
        for step in query.steps
    )
    if not is_quick:
        return ()
    try:
        return list(selection.limit(MEASURED).run())
    except ReactDBError:
        # The list reports the error.
        return ()


def _check_widths(widths: Any) -> dict[str, int]:
    if widths is None:
        return {}
    if not isinstance(widths, Mapping) or not all(
        type(width) is int and 1 <= width <= 1_000 for width in widths.values()
    ):
        raise InvalidOption(
            f"widths is a dict of fields and their widths in cells, from 1 to 1000, not {format_value(widths)}"
        )
    return dict(widths)


class Frames:
    """A scheduler that calls in the thread of an event loop: all waiting functions together, at most 30 times a second.

    Thread safety: any thread calls `schedule`, and never waits. After the loop is closed, nothing is called any more.
    """

    def __init__(self, end_frame: Callable[[], None]) -> None:
        """`end_frame`: called after the functions of each frame. In the thread of the loop."""
        self._loop = asyncio.get_running_loop()
        # Textual finds its application in the context.
        self._context = copy_context()
        self._end_frame = end_frame
        self._work: deque[Callable[..., Any]] = deque()
        self._is_requested = False
        self._is_closed = False
        self._next_at = 0.0

    def schedule(self, action: Callable[..., Any], state: Any = None) -> None:
        """Call a function in the next frame."""
        self._work.append(action)
        self.request()

    def request(self) -> None:
        """Have a next frame."""
        if self._is_requested or self._is_closed:
            return
        self._is_requested = True
        try:
            self._loop.call_soon_threadsafe(self._arrange, context=self._context)
        except RuntimeError:
            # The application has ended in this moment.
            self._is_closed = True

    def close(self) -> None:
        """Call nothing any more."""
        self._is_closed = True
        self._work.clear()

    def _arrange(self) -> None:
        self._loop.call_at(max(self._next_at, self._loop.time()), self._run, context=self._context)

    def _run(self) -> None:
        self._next_at = self._loop.time() + FRAME_S
        self._is_requested = False
        # Only as many as there are now: a function may schedule another one.
        for _ in range(len(self._work)):
            if self._is_closed:
                return
            self._work.popleft()()
        if not self._is_closed:
            self._end_frame()
