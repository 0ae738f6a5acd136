"""FeedModel and FeedTableModel: models of Qt that follow a selection.

A timer takes the waiting commits, thirty times a second at most, and a commit is shown as a whole. Each step is announced to
Qt before it happens, and changed rows afterwards, one range for rows beside each other.

Rule of this file: only the thread of the window runs it, and it reads documents from the list of the model, never from the
database.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from reactdb.clock import monotonic
from reactdb.errors import InvalidOption, ReactDBError, UsageError, format_value
from reactdb.logs import logger
from reactdb.qt.binding import Property, QtCore, Signal, Slot, check_own_thread, check_thread
from reactdb.qt.cell_edits import CellEdit, CellEdits, is_same
from reactdb.qt.cells import MISSING, Cell, from_editor, make_cell, make_cells, read_field, to_editor
from reactdb.qt.doorbell import Doorbell
from reactdb.qt.follower import RowFollower, StepBatch
from reactdb.qt.row_steps import (
    Rearrangement,
    RowChanged,
    RowMoved,
    RowsInserted,
    RowsRemoved,
    RowStep,
)
from reactdb.values.collation import key_bytes

FRAME_MS: Final = 33
"""Milliseconds between two times that the model takes commits; the first one after a pause is taken at once. Each time, views
draw their rows, and while other threads write, drawing waits for the interpreter's lock. With 16, a window stood still longer
in two of three measurements."""

BUDGET_S: Final = 0.006
"""Seconds after which the other commits wait for the next frame, so that the window can draw in between."""

_ROLE = QtCore.Qt.ItemDataRole
DISPLAY: Final = int(_ROLE.DisplayRole)
EDIT: Final = int(_ROLE.EditRole)
CHECK: Final = int(_ROLE.CheckStateRole)
ALIGNMENT: Final = int(_ROLE.TextAlignmentRole)
USER: Final = int(_ROLE.UserRole)
CHECKED, UNCHECKED = QtCore.Qt.CheckState.Checked, QtCore.Qt.CheckState.Unchecked
RIGHT: Final = QtCore.Qt.AlignmentFlag.AlignRight | QtCore.Qt.AlignmentFlag.AlignVCenter
EDITABLE: Final = QtCore.Qt.ItemFlag.ItemIsEditable
CHECKABLE: Final = QtCore.Qt.ItemFlag.ItemIsUserCheckable
HORIZONTAL: Final = QtCore.Qt.Orientation.Horizontal
NOWHERE: Final = QtCore.QModelIndex()

if TYPE_CHECKING:
    _Model = QtCore.QAbstractItemModel
else:
    # Qt's own class comes last: the one that a subclass has chosen.
    _Model = object


class RowModel(_Model):
    """The common part of both models: the rows, their state, and the edits of the user."""

    stateChanged = Signal(str)
    """The new `state`."""
    loadingChanged = Signal(bool)
    """The new value of `loading`."""
    errorChanged = Signal(str)
    """The new sentence of `error`."""
    countChanged = Signal()
    """Rows have come or gone: see `count`."""
    failed = Signal(str)
    """An edit was not stored. A sentence that says why."""

    def __init__(
        self,
        selection: Any,
        cells: Sequence[Cell],
        editable: Iterable[str],
        checkable: Iterable[str],
        origin: str | None,
        parent: QtCore.QObject | None,
    ) -> None:
        check_thread(type(self).__name__)
        super().__init__(parent)
        self._rows: list[Any] = []
        self._primary_key = "id"
        self._cells = list(cells)
        self._checkable = self._check_names("checkable", checkable)
        self._editable = self._check_names("editable", editable) | self._checkable
        if origin is not None and not isinstance(origin, str):
            raise InvalidOption(
                f"origin is the name of a writer, which is a string, or None, not {format_value(origin)}"
            )
        self._origin = origin
        self._selection = selection
        self._state, self._error = "loading", ""
        self._is_closed = False
        self._is_taking = False
        # Something came meanwhile, and has to be taken afterwards.
        self._is_left = False
        # The changed cells that Qt was not told of yet: the columns or roles, by row.
        self._changed: dict[int, set[int]] = {}
        self._last_taken = 0.0
        self._timer = QtCore.QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(QtCore.Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._take)
        bell = Doorbell(self._take_soon, self)
        self._bell = bell
        self._follower = follower = RowFollower(bell.ring)
        self._edits = CellEdits(bell.ring, follower.run_next)
        self.destroyed.connect(_Ending(bell, follower, self._edits))
        try:
            follower.follow(selection)
        except BaseException:
            self.close()
            raise

    def _check_names(self, option: str, names: Iterable[str]) -> frozenset[str]:
        fields = {cell.field for cell in self._cells if cell.field is not None}
        if isinstance(names, str):
            names = [names]
        for name in names:
            if name not in fields:
                raise InvalidOption(
                    f"{option} has {format_value(name)}, which is no field that the model shows"
                )
        return frozenset(names)

    # -----------------------------------------------------------------------------------------------------------
    # The rows

    def rowCount(self, parent: Any = NOWHERE) -> int:
        """The number of documents."""
        return 0 if parent.isValid() else len(self._rows)

    @Slot(int, result="QVariant")
    def document(self, row: int) -> Any:
        """The document at a row, which refuses to be changed; None where there is no such row."""
        return self._rows[row] if 0 <= row < len(self._rows) else None

    @Slot(int, result="QVariant")
    def key(self, row: int) -> Any:
        """The primary key of the document at a row; None where there is no such row, or the element has no key."""
        if not 0 <= row < len(self._rows):
            return None
        key = read_field(self._rows[row], self._primary_key)
        return None if key is MISSING else key

    @Slot("QVariant", result=int)
    def row_of(self, key: Any) -> int:
        """The row of the document with this primary key; -1 where it is not in the model."""
        try:
            wanted = key_bytes(key)
        except ReactDBError:
            return -1
        name = self._primary_key
        for row, document in enumerate(self._rows):
            one = read_field(document, name)
            if one == key and key_bytes(one) == wanted:
                return row
        return -1

    def _get_count(self) -> int:
        return len(self._rows)

    count = Property(int, _get_count, notify=countChanged)
    """The number of rows, for QML."""

    # -----------------------------------------------------------------------------------------------------------
    # The selection and its state

    @property
    def selection(self) -> Any:
        """The selection that the model follows. Assign another one, and the model changes to its documents as soon as they
        are read: rows of documents in both stay, and stay selected.

        Raises: What the constructor raises, also in another thread than that of the window; the model then goes on as before.
        """
        return self._selection

    @selection.setter
    def selection(self, selection: Any) -> None:
        check_own_thread(self, "assign the selection of a model")
        if self._is_closed:
            raise UsageError("this model is closed, and follows nothing any more: make another one")
        self._follower.follow(selection)
        self._selection = selection
        self._set_state("loading", "")

    def _get_state(self) -> str:
        return self._state

    state = Property(str, _get_state, notify=stateChanged)
    """`"loading"`: the result is being read. `"live"`: the model follows its selection. `"failed"`: it has stopped, and
    `error` says why. `"closed"`: the model or the database was closed. The rows stay."""

    def _get_loading(self) -> bool:
        return self._state == "loading"

    loading = Property(bool, _get_loading, notify=loadingChanged)
    """Whether the result is being read."""

    def _get_error(self) -> str:
        return self._error

    error = Property(str, _get_error, notify=errorChanged)
    """The sentence that says why the model has stopped; otherwise an empty text."""

    def _set_state(self, state: str, error: str) -> None:
        was_loading = self._state == "loading"
        if state != self._state:
            self._state = state
            self.stateChanged.emit(state)
        if was_loading != (state == "loading"):
            self.loadingChanged.emit(not was_loading)
        if error != self._error:
            self._error = error
            self.errorChanged.emit(error)

    def close(self) -> None:
        """Stop following. The rows stay. A second call does nothing. A model that Qt destroys is closed by itself."""
        if self._is_closed:
            return
        self._is_closed = True
        self._timer.stop()
        _Ending(self._bell, self._follower, self._edits)()
        if self._state != "failed":
            self._set_state("closed", "")

    # -----------------------------------------------------------------------------------------------------------
    # Taking commits

    @Slot()
    def _take_soon(self) -> None:
        """The bell: at once after a pause, otherwise with the next frame."""
        if self._timer.isActive():
            return
        left_ms = FRAME_MS - int((monotonic() - self._last_taken) * 1000)
        if left_ms <= 0:
            self._take()
        else:
            self._timer.start(left_ms)

    @Slot()
    def _take(self) -> None:
        # A slot may run an event loop of its own, such as that of a dialog, in the middle of a step.
        if self._is_taking or self._is_closed:
            self._is_left = True
            return
        self._is_taking, self._is_left = True, False
        count = len(self._rows)
        try:
            is_all = self._take_messages()
            if is_all and self._edits:
                for edit in self._edits.take_done():
                    self._settle(edit)
            self._tell_changed()
        except Exception:
            # PyQt ends the process at an exception that leaves a slot.
            logger.exception("a model of Qt could not show a change")
            is_all = True
        finally:
            self._is_taking = False
        if count != len(self._rows):
            self.countChanged.emit()
        self._last_taken = monotonic()
        if (self._is_left or not is_all) and not self._is_closed:
            # The window draws, and takes the rest then.
            self._timer.start(FRAME_MS // 4)

    def _take_messages(self) -> bool:
        """Take commits for a few milliseconds. False: some are left."""
        follower = self._follower
        end = monotonic() + BUDGET_S
        while not self._is_closed:
            if follower.is_behind:
                follower.catch_up(list(self._rows), self._primary_key)
            message = follower.take()
            if message is None:
                return True
            if isinstance(message, StepBatch):
                for step in message.steps:
                    self._do(step)
                self._primary_key = message.primary_key
            else:
                self._tell_changed()
                error = message.error
                self._set_state(message.state, "" if error is None else str(error))
            if monotonic() > end:
                return False
        return True

    def _do(self, step: RowStep) -> None:
        rows = self._rows
        if isinstance(step, RowChanged):
            self._change(step.row, step.document)
            return
        # The rows that have changed before have other numbers afterwards.
        self._tell_changed()
        if isinstance(step, RowsInserted):
            self.beginInsertRows(NOWHERE, step.row, step.row + len(step.documents) - 1)
            rows[step.row : step.row] = step.documents
            self.endInsertRows()
        elif isinstance(step, RowsRemoved):
            self.beginRemoveRows(NOWHERE, step.row, step.row + step.number - 1)
            del rows[step.row : step.row + step.number]
            self.endRemoveRows()
        elif isinstance(step, RowMoved):
            old_row, new_row = step
            # Qt counts the destination before the row is taken out.
            destination = new_row if new_row < old_row else new_row + 1
            self.beginMoveRows(NOWHERE, old_row, old_row, NOWHERE, destination)
            rows.insert(new_row, rows.pop(old_row))
            self.endMoveRows()
        else:
            self._rearrange(step)

    def _rearrange(self, step: Rearrangement) -> None:
        before, leaving, gone = list(self._rows), step.leaving, list[int]()
        if leaving and len(leaving) < len(self._rows):
            # Where the current row leaves, Qt makes a neighbour the current one. So such rows leave from their own place.
            gone = self._remove_with_current(leaving)
        if step.arriving:
            first = len(self._rows)
            self.beginInsertRows(NOWHERE, first, first + len(step.arriving) - 1)
            self._rows += step.arriving
            self.endInsertRows()
        rest = leaving
        if gone:
            is_gone = set(gone)
            rest = [row for row in leaving if row not in is_gone]
        if step.is_permuted:
            self._permute(step, gone, rest)
        if rest:
            first = len(step.documents)
            self.beginRemoveRows(NOWHERE, first, first + len(rest) - 1)
            del self._rows[first:]
            self.endRemoveRows()
        self._rows = list(step.documents)
        self._follower.release(before)
        columns = self._columns()
        for first, last in step.changed:
            self.dataChanged.emit(self.index(first, 0), self.index(last, columns - 1))

    def _remove_with_current(self, leaving: list[int]) -> list[int]:
        """Remove the ranges of leaving rows in which Qt keeps an index. Returns the rows, as numbered before; ascending."""
        gone: list[int] = []
        for row in sorted({index.row() for index in self.persistentIndexList()}, reverse=True):
            at = bisect_left(leaving, row)
            if at == len(leaving) or leaving[at] != row or (gone and gone[0] <= row):
                continue
            first = last = at
            while first > 0 and leaving[first - 1] == leaving[first] - 1:
                first -= 1
            while last + 1 < len(leaving) and leaving[last + 1] == leaving[last] + 1:
                last += 1
            self.beginRemoveRows(NOWHERE, leaving[first], leaving[last])
            del self._rows[leaving[first] : leaving[last] + 1]
            self.endRemoveRows()
            gone[:0] = leaving[first : last + 1]
        return gone

    def _permute(self, step: Rearrangement, gone: list[int], rest: list[int]) -> None:
        """All rows take their new places; those that leave go to the end."""
        # Views make the indexes of what is selected when they hear of the change: so the signal comes before the list.
        self.layoutAboutToBeChanged.emit()
        before = self.persistentIndexList()
        places, documents = step.places, step.documents
        rows = self._rows
        leaving_rows = (
            [rows[row - bisect_left(gone, row)] for row in rest] if gone else [rows[row] for row in rest]
        )
        after = []
        for index in before:
            # The number of the row before others were removed.
            row = index.row()
            if gone:
                row = _place_before(row, gone)
            place = places[row]
            if place is None:
                place = len(documents) + bisect_left(rest, row)
            after.append(self.index(place, index.column()))
        self._rows = documents + leaving_rows
        self.changePersistentIndexList(before, after)
        self.layoutChanged.emit()

    # -----------------------------------------------------------------------------------------------------------
    # Changed cells

    def _change(self, row: int, document: Any) -> None:
        old = self._shown(row)
        self._rows[row] = document
        self._note_changed(row, old, self._shown(row))

    def _note_changed(self, row: int, old: Any, new: Any) -> None:
        changed = {place for place, cell in enumerate(self._cells) if cell.is_changed(old, new)}
        if changed:
            self._changed.setdefault(row, set()).update(changed)

    def _tell_changed(self) -> None:
        """Tell Qt of the changed rows: a range for rows beside each other with the same cells."""
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        first = last = -1
        cells: set[int] = set()
        for row in sorted(changed):
            if row != last + 1 or changed[row] != cells:
                if last >= 0:
                    self._tell_range(first, last, cells)
                first, cells = row, changed[row]
            last = row
        self._tell_range(first, last, cells)

    def _tell_range(self, first: int, last: int, cells: set[int]) -> None:
        raise NotImplementedError

    def _columns(self) -> int:
        return 1

    # -----------------------------------------------------------------------------------------------------------
    # Edits

    def _shown(self, row: int) -> Any:
        """The document at a row, with what the user has typed into it."""
        document = self._rows[row]
        if not self._edits:
            return document
        key = read_field(document, self._primary_key)
        return document if key is MISSING else self._edits.shown(document, key)

    def _edit(self, row: int, cell: int, given: Any) -> bool:
        """Store what the user has given to a cell."""
        check_own_thread(self, "edit a cell of a model")
        field = self._cells[cell].field
        if field is None or field not in self._editable or not 0 <= row < len(self._rows):
            return False
        old, key = read_field(self._shown(row), field), self.key(row)
        try:
            new = from_editor(given, old)
            if is_same(old, new):
                return True
            if key is None:
                raise UsageError("this row has no primary key, so it cannot be edited")
            if field == self._primary_key:
                raise UsageError(
                    "the primary key of a document stays: delete the document, and insert a new one"
                )
            if self._is_closed:
                raise UsageError("the model is closed, so it cannot be edited")
            edit = CellEdit(self._selection, key, field, old, new, self._origin)
            if not self._edits.start(edit):
                raise UsageError(edit.sentence)
        except ReactDBError as error:
            self._report(f"{field} was not changed: {error}")
            return False
        self._changed.setdefault(row, set()).add(cell)
        self._tell_changed()
        return True

    def _settle(self, edit: CellEdit) -> None:
        """An edit is done, and no longer shown: its row has the document now, or, after an error, still has the old one."""
        row = self.row_of(edit.key)
        if row >= 0:
            old, new = self._with_field(row, edit), self._shown(row)
            self._note_changed(row, old, new)
        if edit.error is not None:
            self._tell_changed()
            self._report(f"{edit.field} was not changed: {edit.sentence}")

    def _with_field(self, row: int, edit: CellEdit) -> Any:
        document = self._shown(row)
        return {**document, edit.field: edit.new} if isinstance(document, dict) else document

    def _report(self, sentence: str) -> None:
        self.failed.emit(sentence)

    def flags(self, index: Any) -> Any:
        """The usual ones; ItemIsEditable for a cell that may be edited, ItemIsUserCheckable for one that may be ticked."""
        flags = super().flags(index)
        if not index.isValid():
            return flags
        field = self._field_at(index)
        if field in self._checkable:
            return flags | CHECKABLE
        return flags | EDITABLE if field in self._editable else flags

    def _field_at(self, index: Any) -> str | None:
        """The field that an editor at this index edits."""
        raise NotImplementedError


def _place_before(row: int, gone: list[int]) -> int:
    """The number that a row had before the rows `gone` were removed."""
    low, high = 0, len(gone)
    while low < high:
        middle = (low + high) // 2
        if gone[middle] - middle <= row:
            low = middle + 1
        else:
            high = middle
    return row + low


class _Ending:
    """Ends the threads of a model. It does not refer to the model, so that it can be called when the model is destroyed."""

    def __init__(self, bell: Doorbell, follower: RowFollower, edits: CellEdits) -> None:
        self._parts = bell, follower, edits

    def __call__(self, *_: object) -> None:
        bell, follower, edits = self._parts
        bell.close()
        follower.close()
        edits.stop()


class FeedModel(RowModel, QtCore.QAbstractListModel):
    """A list of documents that follows a selection, for QML and for QListView.

    Rows are inserted, removed, moved and changed exactly, each commit as a whole. The documents are read by a thread, so
    the model begins empty, in the state `"loading"`. Any thread, and any process, may write.
    """

    def __init__(
        self,
        selection: Any,
        roles: Iterable[Any] = (),
        *,
        display: Any = None,
        editable: Iterable[str] = (),
        checkable: str | None = None,
        origin: str | None = None,
        parent: QtCore.QObject | None = None,
    ) -> None:
        """
        Args:
            selection: A sequence of documents. Without an order, in the order of their keys.
            roles: The roles for QML: names of fields, or (name, field or function of the document). They are numbered
                from Qt.UserRole + 1 on. There is also the role `document`, unless a field has this name.
            display: What a QListView shows: a field, or a function of the document. None: the first role.
            editable: Fields that the user may edit.
            checkable: A field with True or False that a QListView shows as a box to tick.
            origin: The name of the writer of the user's edits, such as "ui" for `db.undo_stack(origin="ui")`. None: the
                name that the database was opened with.
            parent: A QObject with which the model ends.

        Raises:
            TableNotFound, IndexNotFound, UnsupportedFeed: At once.
            InvalidOption: A role is neither a name nor a pair, or an editable field is no role.
            UsageError: The selection is one value; or there is no QApplication, or this is not its thread.
        """
        cells = make_cells(roles, "roles", "a role")
        names = [cell.title for cell in cells]
        if len(set(names)) < len(names):
            raise InvalidOption(f"two roles have one name: {', '.join(names)}")
        self._role_count = len(cells)
        if display is not None:
            cells.append(make_cell(("display", display), "display"))
        elif not cells:
            cells.append(make_cell(("display", lambda document: document), "display"))
        self._display = len(cells) - 1 if display is not None else 0
        self._check_field = checkable
        if checkable is not None and all(cell.field != checkable for cell in cells):
            cells.append(make_cell(checkable, "checkable"))
        self._roles = {USER + 1 + place: cell for place, cell in enumerate(cells[: self._role_count])}
        self._document_role = USER + 1 + self._role_count
        super().__init__(
            selection, cells, editable, () if checkable is None else (checkable,), origin, parent
        )

    def data(self, index: Any, role: int = DISPLAY) -> Any:
        """The value for Qt. See `reactdb.qt.cells` for how values of documents are shown."""
        row = index.row()
        if not 0 <= row < len(self._rows):
            return None
        cell = self._roles.get(role)
        if cell is not None:
            return cell.read(self._shown(row))
        if role == DISPLAY:
            return self._cells[self._display].read(self._shown(row))
        if role == EDIT:
            field = self._cells[self._display].field
            return None if field is None else to_editor(read_field(self._shown(row), field))
        if role == CHECK and self._check_field is not None:
            return CHECKED if read_field(self._shown(row), self._check_field) is True else UNCHECKED
        if role == self._document_role:
            return _DOCUMENT.read(self._shown(row))
        return None

    def setData(self, index: Any, value: Any, role: int = EDIT) -> bool:
        """Store a value in the field behind a role. False: it was refused, and `failed` has said why; or there is no such
        field that the user may edit."""
        row = index.row()
        if role == CHECK and self._check_field is not None:
            place = next(at for at, cell in enumerate(self._cells) if cell.field == self._check_field)
            return self._edit(row, place, _is_checked(value))
        place = self._display if role in (EDIT, DISPLAY) else role - USER - 1
        return 0 <= place < len(self._cells) and self._edit(row, place, value)

    def roleNames(self) -> dict[int, Any]:
        """The names of the roles, for QML."""
        names = {role: cell.title for role, cell in self._roles.items()}
        taken = set(names.values())
        others = {DISPLAY: "display", EDIT: "edit", self._document_role: "document"}
        names |= {role: name for role, name in others.items() if name not in taken}
        return {role: QtCore.QByteArray(name.encode()) for role, name in names.items()}

    def _tell_range(self, first: int, last: int, cells: set[int]) -> None:
        roles = [USER + 1 + cell for cell in cells if cell < self._role_count]
        roles.append(self._document_role)
        if self._display in cells:
            roles += [DISPLAY, EDIT]
        if any(self._cells[cell].field == self._check_field for cell in cells):
            roles.append(CHECK)
        self.dataChanged.emit(self.index(first, 0), self.index(last, 0), roles)

    def flags(self, index: Any) -> Any:
        """As for every model: with a box to tick, the text may be editable too."""
        flags = QtCore.QAbstractListModel.flags(self, index)
        if not index.isValid():
            return flags
        if self._check_field is not None:
            flags |= CHECKABLE
        return flags | EDITABLE if self._field_at(index) in self._editable else flags

    def _field_at(self, index: Any) -> str | None:
        return self._cells[self._display].field


class FeedTableModel(RowModel, QtCore.QAbstractTableModel):
    """A table of documents that follows a selection, for QTableView. Everything else is as for `FeedModel`."""

    def __init__(
        self,
        selection: Any,
        columns: Iterable[Any],
        *,
        editable: Iterable[str] = (),
        checkable: Iterable[str] = (),
        origin: str | None = None,
        parent: QtCore.QObject | None = None,
    ) -> None:
        """
        Args:
            columns: Names of fields, or (title, field or function of the document).
            checkable: Fields with True or False that are shown as a box to tick.
            selection, editable, origin, parent: As for `FeedModel`; so are the errors.
        """
        cells = make_cells(columns, "columns", "a column")
        if not cells:
            raise InvalidOption("columns has no column")
        super().__init__(selection, cells, editable, checkable, origin, parent)

    def columnCount(self, parent: Any = NOWHERE) -> int:
        """The number of columns."""
        return 0 if parent.isValid() else len(self._cells)

    def data(self, index: Any, role: int = DISPLAY) -> Any:
        """The value for Qt. See `reactdb.qt.cells` for how values of documents are shown."""
        row, column = index.row(), index.column()
        if not (0 <= row < len(self._rows) and 0 <= column < len(self._cells)):
            return None
        if role == DISPLAY:
            cell = self._cells[column]
            return None if cell.field in self._checkable else cell.read(self._shown(row))
        if role == EDIT:
            cell = self._cells[column]
            if cell.field is None:
                return cell.read(self._shown(row))
            return to_editor(read_field(self._shown(row), cell.field))
        if role == ALIGNMENT:
            field = self._cells[column].field
            kind = None if field is None else type(read_field(self._rows[row], field))
            return RIGHT if kind is int or kind is float else None
        if role == CHECK:
            field = self._cells[column].field
            if field in self._checkable:
                return CHECKED if read_field(self._shown(row), field) is True else UNCHECKED
        return None

    def setData(self, index: Any, value: Any, role: int = EDIT) -> bool:
        """Store a value in the field of the column. False: it was refused, and `failed` has said why; or the user may not
        edit this column."""
        column = index.column()
        if not 0 <= column < len(self._cells) or role not in (EDIT, CHECK):
            return False
        return self._edit(index.row(), column, _is_checked(value) if role == CHECK else value)

    def headerData(self, section: int, orientation: Any, role: int = DISPLAY) -> Any:
        """The titles of the columns; the numbers of the rows."""
        if orientation == HORIZONTAL and role == DISPLAY and 0 <= section < len(self._cells):
            return self._cells[section].title
        return super().headerData(section, orientation, role)

    def _tell_range(self, first: int, last: int, cells: set[int]) -> None:
        self.dataChanged.emit(self.index(first, min(cells)), self.index(last, max(cells)), _ROLES_OF_CELL)

    def _columns(self) -> int:
        return len(self._cells)

    def _field_at(self, index: Any) -> str | None:
        column = index.column()
        return self._cells[column].field if 0 <= column < len(self._cells) else None


_ROLES_OF_CELL: Final = [DISPLAY, EDIT, CHECK]
_DOCUMENT: Final = Cell("document", None, lambda document: document)


def _is_checked(value: Any) -> bool:
    """Views give a state of Qt's, or its number."""
    return value in (CHECKED, CHECKED.value, True)
