"""Updates: MongoDB's update argument, applied to a document, with a description of its changes.

    update = Update({"$inc": {"n": 1}, "$push": {"tags": "new"}})
    applied = update.apply(document, matched_filter=query)
    applied.document, applied.description

There are three kinds. A document of operators changes values at paths, and its description has these paths. A pipeline makes a
new version, and its description is the difference. Any other document replaces the old one, except for its `_id`, and has no
description.

Rule of this file: operators run in the order of their paths, names as text and indexes as numbers, and no path is below another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bson.timestamp import Timestamp

from reactdb.budget import spend_value
from reactdb.dialects.mongodb.array_filters import ArrayFilters
from reactdb.dialects.mongodb.bson_order import MISSING, equal, identical, type_name
from reactdb.dialects.mongodb.collation import text_key
from reactdb.dialects.mongodb.diff import Description, difference
from reactdb.dialects.mongodb.document_editor import DocumentEditor
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.operators import OPERATORS, Context, Modifier, Moment
from reactdb.dialects.mongodb.paths import is_place, split
from reactdb.dialects.mongodb.values import is_document

__all__ = ["Applied", "Update"]

Document = Mapping[str, Any]


class Applied(NamedTuple):
    """The result of an update for one document.

    Attributes:
        document: The new version: the same object if nothing has changed.
        description: `updatedFields`, `removedFields`, `truncatedArrays`, `disambiguatedPaths`; None for a replacement, for an
            insert, and if nothing has changed.
        is_replacement: The event is a `replace`, and not an `update`.
    """

    document: dict[str, Any]
    description: Description | None
    is_replacement: bool


class Update:
    """A checked update argument.

    Attributes:
        is_replacement: It is a document in place of the old one.
        is_pipeline: It is a pipeline.
    """

    def __init__(
        self,
        spec: Any,
        array_filters: Any = None,
        collation: Any = None,
        *,
        variables: Mapping[str, Any] | None = None,
        tick: Callable[[], Timestamp] | None = None,
    ) -> None:
        """
        Args:
            spec: A document, or a pipeline in a list.
            array_filters: A list of documents, or None.
            collation: A collation's document, the key of a text as a function, or None.
            variables: The command's `let`, and `NOW`.
            tick: A function for the timestamps of `$currentDate`; without it, they have the time of `NOW`.

        Raises:
            MongoError: 9 and others, it is no update; 40, it changes one path twice.
        """
        self.is_pipeline = type(spec) is list
        if not self.is_pipeline and not is_document(spec):
            raise MongoError(9, "Update argument must be either an object or an array")
        self.is_replacement = not self.is_pipeline and not next(iter(spec), "").startswith("$")
        text = collation if callable(collation) else text_key(collation)
        variables = variables or {}
        if array_filters and (self.is_pipeline or self.is_replacement):
            raise MongoError(
                9, "arrayFilters may not be specified for pipeline-style updates or replacements"
            )
        self._work: _Replacement | _Pipeline | _Operators
        if self.is_pipeline:
            self._work = _Pipeline(spec, variables, text)
        elif self.is_replacement:
            self._work = _Replacement(spec)
        else:
            filters = ArrayFilters(array_filters, variables=variables, collation=text)
            self._work = _Operators(spec, filters, Context(text, variables, tick))

    def apply(
        self, document: Document, *, matched_filter: Filter | None = None, is_insert: bool = False
    ) -> Applied:
        """The result for a document.

        Args:
            document: It is not changed. The new version may share parts with it.
            matched_filter: The query that it matched, for the `$` of paths.
            is_insert: An upsert inserts it.

        Raises:
            MongoError: As the operator raises; 66, the `_id` would change.
        """
        applied = self._work.apply(document, matched_filter, is_insert)
        old, new = document.get("_id", MISSING), applied.document.get("_id", MISSING)
        if old is not MISSING and old is not new and not equal(old, new):
            raise MongoError(
                66, "Performing an update on the path '_id' would modify the immutable field '_id'"
            )
        return applied

    def upserted(self, query: Filter) -> dict[str, Any]:
        """The document of an upsert without a match: first the query's equalities, then the update.

        It has no `_id` if neither of them has one.

        Raises:
            MongoError: 54, the query has two values for one path; 111, for a replacement it has only a part of the `_id`; and as
                for `apply`.
        """
        base = _document_of_query(query, only_id=self.is_replacement)
        document = self.apply(base, matched_filter=None, is_insert=True).document
        return {"_id": document["_id"], **document} if "_id" in document else document


def _document_of_query(query: Filter, *, only_id: bool) -> dict[str, Any]:
    edit = DocumentEditor({})
    seen: list[tuple[str, ...]] = []
    for path, value in query.equalities:
        parts = split(path)
        if only_id:
            if parts[0] != "_id":
                continue
            if len(parts) > 1:
                raise MongoError(
                    111, f"field at '_id' must be exactly specified, field at sub-path '{path}'found"
                )
        for other in seen:
            if parts[: len(other)] == other[: len(parts)]:
                raise MongoError(54, f"cannot infer query fields to set, path '{path}' is matched twice")
        seen.append(parts)
        edit.change(parts, Modifier(_always(value)), Moment())
    return edit.document


def _always(value: Any) -> Callable[[Any, Moment], Any]:
    return lambda old, moment: value


# -----------------------------------------------------------------------------------------------------------
# Replacements and pipelines


class _Replacement:
    def __init__(self, spec: Document) -> None:
        for name in spec:
            if name.startswith("$"):
                raise MongoError(
                    52,
                    f"The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an update's "
                    "replacement document. Consider using an aggregation pipeline with $replaceWith.",
                )
        self._spec = dict(spec)

    def apply(self, document: Document, matched_filter: Filter | None, is_insert: bool) -> Applied:
        return Applied(_with_id_of(document, self._spec), None, is_replacement=True)


class _Pipeline:
    def __init__(self, spec: list[Any], variables: Mapping[str, Any], text: Any) -> None:
        # Imported here because most updates are no pipelines.
        from reactdb.dialects.mongodb.stages import UPDATE_STAGES, Pipeline, Setting

        setting = Setting(variables=dict(variables), text=text)
        self._pipeline = Pipeline(spec, setting, allowed=UPDATE_STAGES, refusal=72, within="an update")

    def apply(self, document: Document, matched_filter: Filter | None, is_insert: bool) -> Applied:
        made = _with_id_of(document, self._pipeline.apply(dict(document)) or {})
        if is_insert:
            return Applied(made, None, is_replacement=False)
        if identical(document, made):
            return Applied(dict(document), None, is_replacement=False)
        description = difference(document, made)
        return Applied(made, description, is_replacement=description is None)


def _with_id_of(document: Document, made: Document) -> dict[str, Any]:
    if "_id" not in document:
        return dict(made)
    return {"_id": made.get("_id", document["_id"]), **{n: v for n, v in made.items() if n != "_id"}}


# -----------------------------------------------------------------------------------------------------------
# Operators


class _Change(NamedTuple):
    """One operator at one path.

    Attributes:
        source: The other path, of a `$rename`.
        needs_insert: Its field name begins with `$`, which is allowed only in an inserted document.
    """

    parts: tuple[str, ...]
    modifier: Modifier | None
    source: tuple[str, ...] = ()
    needs_insert: bool = False


class _Operators:
    def __init__(self, spec: Document, filters: ArrayFilters, context: Context) -> None:
        self._filters = filters
        changes = [change for name, fields in spec.items() for change in _changes(name, fields, context)]
        if len(changes) > 1:
            _check_conflicts([change.parts for change in changes] + [c.source for c in changes if c.source])
            changes.sort(key=lambda change: [_part_order(part) for part in change.parts])
        self._changes = changes
        dynamic = [
            part for change in changes for part in change.parts if part == "$" or part.startswith("$[")
        ]
        self._is_dynamic = bool(dynamic)
        named = [part[2:-1] for part in dynamic if part.startswith("$[") and part != "$[]"]
        filters.check(named)
        self._now, self._tick = context.variables.get("NOW"), context.tick

    def apply(self, document: Document, matched_filter: Filter | None, is_insert: bool) -> Applied:
        edit = DocumentEditor(document)
        moment = Moment(self._now, self._tick)
        for parts, change in self._concrete(document, matched_filter):
            if change.needs_insert and not is_insert:
                _refuse_dollar(parts)
            if change.modifier is None:
                edit.rename(change.source, parts)
            elif is_insert or not change.modifier.only_inserts:
                edit.change(parts, change.modifier, moment)
        if not edit.is_changed:
            same = document if type(document) is dict else dict(document)
            return Applied(same, None, is_replacement=False)
        return Applied(edit.document, None if is_insert else edit.description(), is_replacement=False)

    def _concrete(self, document: Document, matched: Filter | None) -> list[tuple[tuple[str, ...], _Change]]:
        if not self._is_dynamic:
            return [(change.parts, change) for change in self._changes]
        changes = [
            (parts, change)
            for change in self._changes
            for parts in self._elements(document, matched, change.parts, document, ())
        ]
        _check_conflicts([parts for parts, _ in changes])
        return changes

    def _elements(
        self,
        document: Document,
        matched: Filter | None,
        parts: Sequence[str],
        value: Any,
        reached: tuple[str, ...],
    ) -> Iterator[tuple[str, ...]]:
        """The concrete paths in this document for a path with `$`, `$[]` or `$[name]`."""
        for number in range(len(reached), len(parts)):
            part = parts[number]
            if part == "$":
                index = None if matched is None else matched.position(document, ".".join(reached))
                if index is None:
                    raise MongoError(
                        2, "The positional operator did not find the match needed from the query."
                    )
                part = str(index)
            elif part.startswith("$["):
                for index in self._indexes(part, value, reached):
                    yield from self._elements(document, matched, parts, value[index], (*reached, str(index)))
                return
            value = _below(value, part)
            reached = (*reached, part)
        yield reached

    def _indexes(self, part: str, value: Any, reached: tuple[str, ...]) -> list[int]:
        if value is MISSING:
            raise MongoError(
                2,
                f"The path '{'.'.join(reached)}' must exist in the document in order to apply array updates.",
            )
        if type(value) is not list:
            raise MongoError(
                2, f"Cannot apply array updates to non-array element {reached[-1]}: {value!r:.60}"
            )
        spend_value(value)
        if part == "$[]":
            return list(range(len(value)))
        return [index for index, element in enumerate(value) if self._filters.matches(part[2:-1], element)]


def _below(value: Any, part: str) -> Any:
    if type(value) is dict:
        return value.get(part, MISSING)
    if type(value) is list and is_place(part) and int(part) < len(value):
        return value[int(part)]
    return MISSING


def _part_order(part: str) -> tuple[int, int, str]:
    return (0, int(part), "") if is_place(part) else (1, 0, part)


def _changes(name: str, fields: Any, context: Context) -> Iterator[_Change]:
    if name != "$rename" and name not in OPERATORS:
        raise MongoError(
            9,
            f"Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an array",
        )
    if not is_document(fields):
        raise MongoError(
            9,
            f"Modifiers operate on fields but we found type {type_name(fields)} instead. "
            f"For example: {{$mod: {{<field>: ...}}}} not {{{name}: {fields!r:.60}}}",
        )
    for path, operand in fields.items():
        parts = _check_path(path)
        if name == "$rename":
            yield _rename(path, parts, operand)
        else:
            modifier = OPERATORS[name](path, operand, context)
            yield _Change(
                parts, modifier, needs_insert=parts[0].startswith("$") and name not in _DOLLAR_ALLOWED
            )


# They make no field in an existing document.
_DOLLAR_ALLOWED: Final = frozenset({"$setOnInsert", "$unset"})


def _refuse_dollar(parts: tuple[str, ...]) -> None:
    raise MongoError(
        52, f"The dollar ($) prefixed field '{parts[0]}' in '{'.'.join(parts)}' is not valid for storage."
    )


def _check_path(path: str) -> tuple[str, ...]:
    if "\0" in path:
        raise MongoError(9867600, "An update path cannot contain a null byte")
    if not path:
        raise MongoError(56, "An empty update path is not valid.")
    parts = split(path)
    if not all(parts):
        raise MongoError(56, f"The update path '{path}' contains an empty field name, which is not allowed.")
    if parts.count("$") > 1:
        raise MongoError(2, f"Too many positional (i.e. '$') elements found in path '{path}'")
    for number, part in enumerate(parts):
        if not part.startswith("$"):
            continue
        is_position = part == "$" or (part.startswith("$[") and part.endswith("]"))
        if is_position and number == 0:
            raise MongoError(
                2,
                f"Cannot have array filter or positional (i.e. '$') element in the first position in path '{path}'",
            )
    return parts


def _rename(path: str, source: tuple[str, ...], operand: Any) -> _Change:
    if type(operand) is not str:
        raise MongoError(2, f"The 'to' field for $rename must be a string: {path}: {operand!r:.60}")
    target = _check_path(operand)
    if target[0].startswith("$"):
        _refuse_dollar(target)
    if path == operand:
        raise MongoError(2, f'The source and target field for $rename must differ: {path}: "{operand}"')
    for which, parts in (("source", source), ("destination", target)):
        if any(part == "$" or part.startswith("$[") for part in parts):
            raise MongoError(2, f"The {which} field for $rename may not be dynamic: {'.'.join(parts)}")
    if source == target[: len(source)] or target == source[: len(target)]:
        raise MongoError(
            2, f'The source and target field for $rename must not be on the same path: {path}: "{operand}"'
        )
    return _Change(target, None, source)


def _check_conflicts(paths: list[tuple[str, ...]]) -> None:
    """
    Raises:
        MongoError: 40, two paths are equal, or one is below the other.
    """
    seen: set[tuple[str, ...]] = set()
    above: set[tuple[str, ...]] = set()
    for parts in paths:
        prefixes = [parts[:length] for length in range(1, len(parts))]
        met = parts if parts in seen or parts in above else next((p for p in prefixes if p in seen), None)
        if met is not None:
            raise MongoError(
                40, f"Updating the path '{'.'.join(parts)}' would create a conflict at '{'.'.join(met)}'"
            )
        seen.add(parts)
        above.update(prefixes)
