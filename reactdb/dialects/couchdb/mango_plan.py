"""The plan of a Mango query: the index for a `_find`, and the reasons of `_explain` against the other indexes.

An index serves if the selector has a condition on each of its fields, and if it gives the requested order. Of several such
indexes, the plan takes the index whose first fields have most of the selector's conditions, then the index with the fewest
fields, then the first by design document and name. The documents in the order of ids serve if no index does.

Rule of this file: it reads no documents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from reactdb.dialects.couchdb.collation import collation_key
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.indexes import Index
from reactdb.dialects.couchdb.mango import Selector
from reactdb.dialects.couchdb.names import DESIGN

__all__ = ["MAX", "MIN", "FieldRange", "FindPlan", "covers", "key_of_bound", "plan"]


class _Bound:
    """Below or above all values."""

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key


MIN: Final = _Bound((-1,))
MAX: Final = _Bound((99,))


@dataclass(frozen=True, slots=True)
class FieldRange:
    """The range of a field's values to read from an index. `low` may be MIN, `high` MAX."""

    low: Any = MIN
    high: Any = MAX
    has_low: bool = False
    has_high: bool = False

    @property
    def is_empty(self) -> bool:
        low, high = key_of_bound(self.low), key_of_bound(self.high)
        return low > high or (low == high and not (self.has_low and self.has_high))

    def narrow(self, operator: str, argument: Any) -> FieldRange:
        """The part of the range that passes this comparison."""
        if operator == "$beginsWith":
            return self.narrow("$gte", argument).narrow("$lte", argument + "\uffff")
        low, high, has_low, has_high = self.low, self.high, self.has_low, self.has_high
        key = key_of_bound(argument)
        if operator in ("$eq", "$gte", "$gt") and (
            key > key_of_bound(low) or (key == key_of_bound(low) and operator == "$gt")
        ):
            low, has_low = argument, operator != "$gt"
        if operator in ("$eq", "$lte", "$lt") and (
            key < key_of_bound(high) or (key == key_of_bound(high) and operator == "$lt")
        ):
            high, has_high = argument, operator != "$lt"
        return FieldRange(low, high, has_low, has_high)


def key_of_bound(value: Any) -> tuple[Any, ...]:
    """The place of a value, or of MIN or MAX, in the order of values."""
    return value.key if isinstance(value, _Bound) else collation_key(value)


@dataclass(slots=True)
class FindPlan:
    """The plan of a `_find`.

    Attributes:
        index: The index that gives the order; None, in an explanation, if there is none.
        ranges: For the index's first fields, as far as the selector has conditions on them. None: no document can match.
        candidates: The other indexes, each with the reason against it.
        warnings: For the client.
    """

    index: Index | None
    ranges: list[FieldRange] | None
    candidates: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plan(known: list[Index], options: dict[str, Any], *, must_serve: bool = True) -> FindPlan:
    """
    Args:
        known: The indexes of the database.
        options: The members of the request.
        must_serve: Refuse a request that no index can serve.

    Raises:
        CouchError: No index gives the order, or the required index does not serve (400).
    """
    selector: Selector = options["selector"]
    sort = list(options["sort"])
    if selector.is_text_search():
        raise CouchError(503, "required index service unavailable", "text")
    named = _select_named(known, options["use_index"])
    # An index that leaves documents out is used only if the request names it.
    considered = [index for index in known if not index.partial or index in named]
    reasons = {id(index): _reasons(index, selector, sort) for index in considered}
    usable = [index for index in considered if not reasons[id(index)]]
    if not usable:
        if must_serve:
            raise CouchError(
                400, "no_usable_index", "No index exists for this sort, try indexing by the sort fields."
            )
        return FindPlan(None, [], _candidates(known, usable, [], [], None, selector, options, reasons))
    chosen = [index for index in usable if index in named]
    if not chosen:
        if not options["allow_fallback"] and (options["use_index"] or len(usable) <= 1):
            raise _unsuitable(options["use_index"])
        chosen = usable
    favoured = [index for index in chosen if not index.is_special] or chosen
    ranges = {
        name: bounds for name in selector.indexable_fields() if (bounds := _range(selector, name)) is not None
    }
    prefixes = {id(index): _prefix(index, ranges) for index in favoured}
    ranked = sorted(
        favoured,
        key=lambda index: (-len(prefixes[id(index)]), len(index.columns), index.design or "", index.name),
    )
    winner = ranked[0]
    prefix = prefixes[id(winner)] or ([FieldRange(None)] if winner.is_special else [])
    made = FindPlan(winner, None if _is_void(selector, prefix) else prefix)
    made.candidates = _candidates(known, usable, chosen, ranked, winner, selector, options, reasons)
    made.warnings = _warnings(winner, named, options["use_index"])
    return made


def _select_named(known: list[Index], use_index: list[str]) -> list[Index]:
    """The indexes that a request selects by design document, and perhaps by name."""
    if not use_index:
        return []
    design = DESIGN + use_index[0].removeprefix(DESIGN)
    return [index for index in known if index.design == design and use_index[1:] in ([], [index.name])]


def _unsuitable(use_index: list[str]) -> CouchError:
    if not use_index:
        return CouchError(400, "invalid_index", "You must specify an index with the `use_index` parameter.")
    reason = f"{_index_names(use_index)} specified by `use_index` could not be found or it is not suitable."
    return CouchError(400, "invalid_index", reason)


def _index_names(use_index: list[str]) -> str:
    return ", ".join([DESIGN + use_index[0].removeprefix(DESIGN), *use_index[1:]])


def _warnings(winner: Index, named: list[Index], use_index: list[str]) -> list[str]:
    warnings = []
    if use_index and winner not in named:
        why = "it is not a valid index" if len(use_index) == 2 else "it does not contain a valid index"
        warnings.append(f"{_index_names(use_index)} was not used because {why} for this query.")
    if winner.is_special:
        warnings.append("No matching index found, create an index to optimize query time.")
    return warnings


def _reasons(index: Index, selector: Selector, sort: list[str]) -> list[str]:
    """Why an index does not serve."""
    if index.is_special:
        if not sort:
            return []
        lacks = "_id" not in selector.indexable_fields()
        return ["field_mismatch"] * lacks + ["sort_order_mismatch"] * (sort != ["_id"])
    # Fields of the sort have to exist anyway; each document has an id and a revision.
    needed = set(index.columns) - set(sort) - {"_id", "_rev"}
    lacks = not needed <= selector.required_fields()
    return ["field_mismatch"] * lacks + ["sort_order_mismatch"] * (not _gives_order(index, selector, sort))


def _gives_order(index: Index, selector: Selector, sort: list[str]) -> bool:
    columns = list(index.columns)
    if not sort:
        return True
    # A field with a constant value does not change the order of the fields after it.
    while columns and columns[0] != sort[0]:
        if not selector.is_constant(columns[0]):
            return False
        del columns[0]
    return columns[: len(sort)] == sort


def _range(selector: Selector, name: str) -> FieldRange:
    bounds = FieldRange()
    for operator, argument in selector.conditions_on(name):
        if operator in ("$lt", "$lte", "$eq", "$gte", "$gt", "$beginsWith"):
            bounds = bounds.narrow(operator, argument)
    return bounds


def _prefix(index: Index, ranges: dict[str, FieldRange]) -> list[FieldRange]:
    prefix = []
    for column in index.columns:
        if column not in ranges:
            break
        prefix.append(ranges[column])
    return prefix


def _is_void(selector: Selector, prefix: list[FieldRange]) -> bool:
    """Whether no document can match: a range is empty, or the selector is one empty list, which CouchDB takes for nothing."""
    ((name, argument),) = list(selector.normal.items()) or [("", None)]
    return any(bounds.is_empty for bounds in prefix) or (name in ("$and", "$or") and argument == [])


def _candidates(
    known: list[Index],
    usable: list[Index],
    chosen: list[Index],
    ranked: list[Index],
    winner: Index | None,
    selector: Selector,
    options: dict[str, Any],
    reasons: dict[int, list[str]],
) -> list[dict[str, Any]]:
    """For each unused index the first reason against it, and a rank. The better the index would serve, the lower the rank."""
    groups: list[tuple[list[Index], bool, str | None]] = [
        ([index for index in chosen if index not in ranked], True, "unfavored_type"),
        ([index for index in usable if index not in chosen], True, "excluded_by_user"),
        ([index for index in known if id(index) in reasons and index not in usable], False, None),
        ([index for index in known if id(index) not in reasons], False, "is_partial"),
    ]
    candidates: list[tuple[Index, bool, str, int]] = []
    width = 0 if winner is None else len(winner.columns)
    best = 0 if winner is None else _count_covered(winner, selector)
    for rank, index in enumerate(ranked[1:], start=1):
        why = "too_many_fields" if len(index.columns) > width else "alphabetically_comes_after"
        candidates.append(
            (index, True, "less_overlap" if _count_covered(index, selector) < best else why, rank)
        )
    rank = max(1, len(ranked))
    for indexes, is_usable, reason in groups:
        candidates += [(index, is_usable, reason or reasons[id(index)][0], rank) for index in indexes]
        rank += bool(indexes)
    return [
        {
            "index": index.as_json(),
            "analysis": {
                "usable": is_usable,
                "reasons": [{"name": reason}],
                "ranking": rank,
                "covering": None if index.is_special else covers(index, options),
            },
        }
        for index, is_usable, reason, rank in candidates
    ]


def _count_covered(index: Index, selector: Selector) -> int:
    return len(_prefix(index, dict.fromkeys(selector.indexable_fields(), FieldRange())))


def covers(index: Index, options: dict[str, Any]) -> bool:
    """Whether an index has all requested fields and all fields of the selector."""
    if index.is_special or not options["fields"]:
        return False
    return {*options["fields"], *options["selector"].fields()} <= {"_id", *index.columns}
