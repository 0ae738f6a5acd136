"""Hints: sentences, for `explain()` and for the log, about parts of a query that its author probably did not mean.

    get_all([1, 2, 3])             a list as one key, where no key is a list
    row["at"] > "2026-01-02"       a text, where all values are times: types are ordered, values of different types never equal
    filter({"a": {"$gt": 5}})      another system's operator: here the name of a field
    order_by("nope")               a field without any document

Each of these queries is right for some table, so none is refused. `explain()` shows the hints. For the log, a query is
examined once for each line of the program, at the first run that meets a document in its table.

Rule of this file: a hint changes no answer, and an error in this file never fails the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from reactdb.call_stack import find_caller
from reactdb.change import TableReference
from reactdb.documents.access_path import find_table
from reactdb.errors import format_value
from reactdb.expression import Call, field_path, find_compared_fields, find_dict_patterns
from reactdb.logs import logger
from reactdb.query import Between, Filter, Get, GetAll, OrderBy, Query, Union
from reactdb.store.catalogue import IndexInfo, TableInfo
from reactdb.store.snapshot import Snapshot
from reactdb.values import codec, collation
from reactdb.values.value import Value

# Documents that are examined where no index shows the types of a field: decoding these takes 0.3 ms.
SAMPLE = 100
# The same number for `explain()`.
LARGE_SAMPLE = 1_000
# The most lines of a program that are remembered; further lines get no hints in the log.
MOST_PLACES = 1_024
HINTED = (Filter, GetAll, Between)

# MongoDB's operators of conditions, and our notation for each. `{field}` is the field, `{value}` the compared value.
CONDITIONS = {
    "$eq": "{field} == {value}",
    "$ne": "{field} != {value}",
    "$gt": "{field} > {value}",
    "$gte": "{field} >= {value}",
    "$lt": "{field} < {value}",
    "$lte": "{field} <= {value}",
    "$in": "{field}.is_in({value})",
    "$nin": "~{field}.is_in({value})",
    "$exists": "{field}.has_fields(...)",
    "$regex": "{field}.match({value})",
    "$all": "{field}.contains(*{value})",
    "$size": "{field}.count() == {value}",
    "$elemMatch": "{field}.contains(lambda element: ...)",
    "$not": "~(...)",
    "$and": "(...) & (...)",
    "$or": "(...) | (...)",
    "$nor": "~((...) | (...))",
    "$where": "a Python function of the document",
    "$expr": "an expression of row",
    "$mod": "{field} % ... == ...",
    "$type": "{field}.type_of() == ...",
}


class Hint(Value):
    """A sentence. `is_of_nothing`: it explains an empty result, and is left out where the result is not empty.
    `is_loggable`: it is certain enough to be logged without a request."""

    __slots__ = ("is_loggable", "is_of_nothing", "text")

    def __init__(self, text: str, is_of_nothing: bool = False, is_loggable: bool = True) -> None:
        self.text = text
        self.is_of_nothing = is_of_nothing
        self.is_loggable = is_loggable


def hints(query: Query, snapshot: Snapshot, sample: int = LARGE_SAMPLE) -> list[Hint]:
    """The hints about a query.

    Raises:
        TableNotFound, IndexNotFound: As reading the query does.
    """
    data = Data(find_table(query.table, snapshot), snapshot, sample)
    results: list[Hint] = []
    for step in query.steps:
        if isinstance(step, Filter):
            results += hint_at_filter(step, data)
        elif isinstance(step, GetAll):
            results += hint_at_keys(step, data)
        elif isinstance(step, Get):
            results += hint_at_types(
                [step.key], f"get({format_value(step.key)})", None, data, is_of_nothing=True
            )
        elif isinstance(step, Between):
            bounds = [step.lower, step.upper]
            words = f"between({format_value(step.lower)}, {format_value(step.upper)})"
            results += hint_at_types(bounds, words, data.index_named(step.index), data, is_of_nothing=False)
        elif isinstance(step, OrderBy):
            results += hint_at_order(step, data)
        elif isinstance(step, Union):
            results += [hint for other in step.others for hint in hints(other, snapshot, sample)]
        else:
            # After this step, fields belong to its results and no longer to the documents.
            break
    return results


# ---------------------------------------------------------------------------------------------------------------
# The contents of the table


class Data:
    """Facts about a table's values without reading all of them: types in an index, and a sample of documents."""

    def __init__(self, table: TableInfo, snapshot: Snapshot, sample: int) -> None:
        self.table = table
        self._snapshot = snapshot
        self._size = sample
        self._documents: list[dict[str, Any]] | None = None

    def index_named(self, name: str | None) -> IndexInfo | None:
        return None if name is None or name == self.table.primary_key else self.table.indexes.get(name)

    def index_of(self, path: tuple[str, ...]) -> IndexInfo | None:
        """An index that has the field's values."""
        for index in self.table.indexes.values():
            if not index.multi and field_path(index.expression) == path:
                return index
        return None

    def documents(self) -> list[dict[str, Any]]:
        """The first documents."""
        if self._documents is None:
            rows = self._snapshot.rows(self.table, limit=self._size)
            self._documents = [codec.decode(row.body) for row in rows]
        return self._documents

    def types_in(self, index: IndexInfo | None) -> set[str]:
        """The names of all types with a value in the index; None: among the primary keys. One look for each type."""
        names: set[str] = set()
        start = b""
        while True:
            if index is None:
                rows = self._snapshot.rows(self.table, start, limit=1)
                place = rows[0].key if rows else None
            else:
                entries = self._snapshot.entries(index, start, limit=1)
                place = entries[0].value if entries else None
            if place is None:
                return names
            names.add(collation.type_name(collation.key_value(place)))
            # The first byte is the type's.
            start = bytes([place[0] + 1])

    def types_at(self, path: tuple[str, ...]) -> tuple[set[str], str]:
        """The types of a field's values but null, and where they were looked for, in words."""
        if path == (self.table.primary_key,):
            return self.types_in(None), "the primary key"
        index = self.index_of(path)
        if index is not None:
            return self.types_in(index), f"index `{index.name}`"
        values = [value for document in self.documents() for value in values_at(document, path)]
        where = (
            "the field"
            if len(self.documents()) < self._size
            else f"in the first {self._size} documents the field"
        )
        return {collation.type_name(value) for value in values if value is not None}, where

    def has_field(self, path: tuple[str, ...]) -> bool:
        """Whether one of the first documents has it; also where there are no documents."""
        documents = self.documents()
        return not documents or any(True for document in documents for _ in values_at(document, path))

    @property
    def words(self) -> str:
        """How many documents were looked at."""
        count = len(self.documents())
        return f"none of the first {count} documents" if count == self._size else "no document"


def values_at(document: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """The value at the path; none where there is none."""
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return
        document = document[name]
    yield document


# ---------------------------------------------------------------------------------------------------------------
# The hints


def hint_at_filter(step: Filter, data: Data) -> list[Hint]:
    predicate = step.predicate
    if predicate.node is None:
        return []
    operator_hints = [
        one
        for name, path, value in find_dict_patterns(predicate)
        for one in hint_at_operator(name, path, value)
    ]
    for path, value, words in find_compared_fields(predicate):
        wanted = collation.type_name(value)
        if value is None or wanted in ("MINVAL", "MAXVAL"):
            continue
        types, where = data.types_at(path)
        if types and wanted not in types and not (wanted == "OBJECT" and operator_hints):
            operator_hints.append(
                Hint(
                    f"{words} compares with {name_type(wanted)}, and {where} has only {join(types)}: {explain(types, wanted)}"
                )
            )
    return operator_hints


def hint_at_operator(name: str, path: tuple[str, ...], value: Any) -> list[Hint]:
    spelling = CONDITIONS.get(name)
    if spelling is None:
        return []
    condition = (
        spelling.format(field=format_path(path), value=format_value(value, 40))
        if path
        else spelling.format(field="...", value="...")
    )
    return [
        Hint(
            f'the dict given to filter asks for a field with the name "{name}": for a condition write {condition}',
            is_of_nothing=True,
        )
    ]


def hint_at_keys(step: GetAll, data: Data) -> list[Hint]:
    index = data.index_named(step.index)
    words = f"get_all({', '.join(format_value(key) for key in step.keys[:3])}{', ...' if len(step.keys) > 3 else ''})"
    if len(step.keys) == 1 and isinstance(step.keys[0], (list, tuple)):
        types = data.types_in(index)
        if "ARRAY" in types or is_compound(index):
            return []
        given = ", ".join(format_value(key) for key in step.keys[0][:3])
        more = ", ..." if len(step.keys[0]) > 3 else ""
        text = (
            f"{words} asks for one key that is a list, and {name_index(index)} has no list: for several keys write "
            f"get_all({given}{more}) or get_all(*keys)"
        )
        return [Hint(text, is_of_nothing=True)]
    return hint_at_types(list(step.keys), words, index, data, is_of_nothing=True)


def hint_at_types(
    keys: list[Any], words: str, index: IndexInfo | None, data: Data, *, is_of_nothing: bool
) -> list[Hint]:
    """A hint where no key has a type that occurs in the index."""
    wanted = {collation.type_name(key) for key in keys} - {"MINVAL", "MAXVAL"}
    types = data.types_in(index) if wanted else set()
    if not types or wanted & types:
        return []
    text = f"{words} asks for {join(wanted)}, and {name_index(index)} has only {join(types)}: {explain(types, min(wanted))}"
    return [Hint(text, is_of_nothing)]


def hint_at_order(step: OrderBy, data: Data) -> list[Hint]:
    results = []
    for key in step.keys:
        path = field_path(key.expression)
        if path is not None and not data.has_field(path):
            text = f"order_by sorts by {format_path(path)}, and {data.words} has that field: the order is as it was before"
            # It may be a field that no document has yet, so this is not logged.
            results.append(Hint(text, is_loggable=False))
    return results


def explain(types: set[str], wanted: str) -> str:
    """Why the comparison fails, and the right way to write it."""
    why = "values of different types are never equal, and types are ordered by their names"
    if "PTYPE<TIME>" in types and wanted in ("STRING", "NUMBER", "PTYPE<DATE>"):
        return f"{why}. Compare with a time: datetime(..., tzinfo=UTC), r.iso8601(...) or r.epoch_time(...)"
    if "ARRAY" in types:
        return f"{why}. To look inside of a list, use contains"
    return why


def is_compound(index: IndexInfo | None) -> bool:
    node = None if index is None else index.expression.node
    return isinstance(node, Call) and node.operation == "make_array"


def name_index(index: IndexInfo | None) -> str:
    return "the primary key" if index is None else f"index `{index.name}`"


def name_type(type_name: str) -> str:
    return f"{'an' if type_name[0] in 'AO' else 'a'} {type_name}"


def join(types: set[str]) -> str:
    return " and ".join(sorted(types))


def format_path(path: tuple[str, ...]) -> str:
    return "row" + "".join(f"[{name!r}]" for name in path)


# ---------------------------------------------------------------------------------------------------------------
# The log


class HintLog:
    """Examines the query of each line of a program once, and logs the hints about it. Each handle has one.

    Thread safety: any thread. Two threads at once may examine a query twice and log the hint twice.
    """

    __slots__ = ("_empty", "_examined", "_most_places")

    def __init__(self, most_places: int = MOST_PLACES) -> None:
        """`most_places`: lines that get hints; 0 for a handle that logs none."""
        self._most_places = most_places
        # File, first line of the function, place in its code.
        self._examined: set[tuple[str, int, int]] = set()
        # Tables without documents, and the seq at which that was seen: nothing is read again before another commit.
        self._empty: dict[TableReference, int] = {}

    def look(
        self,
        query: Query,
        snapshot: Callable[[], AbstractContextManager[Snapshot]],
        committed_seq: Callable[[], int | None],
        *,
        found_nothing: bool,
    ) -> None:
        """Log hints about the query that the caller's line of the program runs, if the line was not examined before.

        Args:
            snapshot: Opens the snapshot for the examination.
            committed_seq: Reads the seq of the newest change; None where changes may be visible that have none yet.
            found_nothing: The result is empty, or not known yet. Otherwise hints that explain an empty result are left out.
        """
        for step in query.steps:
            if type(step) in HINTED:
                break
        else:
            return
        try:
            empty_at = self._empty.get(query.table)
            if empty_at is not None and empty_at == committed_seq():
                return
            frame = find_caller()
            if frame is None:
                return
            code = frame.f_code
            place = (code.co_filename, code.co_firstlineno, frame.f_lasti)
            if place in self._examined or len(self._examined) >= self._most_places:
                return
            with snapshot() as now:
                if not now.rows(find_table(query.table, now), limit=1):
                    # An empty table gives no evidence: the line is examined when the table has documents.
                    if committed_seq() == now.seq:
                        self._empty[query.table] = now.seq
                    return
                self._empty.pop(query.table, None)
                self._examined.add(place)
                texts = [
                    hint.text
                    for hint in hints(query, now, SAMPLE)
                    if hint.is_loggable and (found_nothing or not hint.is_of_nothing)
                ]
            if texts:
                logger.warning(
                    "table %r: %s (%s:%d)",
                    query.table,
                    "; ".join(texts),
                    code.co_filename,
                    frame.f_lineno,
                )
        except Exception:
            logger.debug("a query could not be looked at", exc_info=True)
