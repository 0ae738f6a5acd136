"""The terms of ReQL: their numbers on the wire, the number of their arguments, and their options.

A term is `[number, [arguments], {options}]` in the driver's JSON. The numbers are public protocol and never change; only
the table below has them.

Rule of this file: data. The handlers of the terms are in other files.

Source: RethinkDB 2.4, ql2.proto and the argument specifications of its terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Path = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class TermType:
    """One line of the table.

    Attributes:
        number: Its number on the wire.
        name: Its name in ql2.proto, in lower case; operations on values are registered under the same name.
        at_least, at_most: Limits of the number of arguments; `at_most` is None if there is none.
        options: Names of the optional arguments.
    """

    number: int
    name: str
    at_least: int
    at_most: int | None
    options: frozenset[str] = frozenset()


class Term:
    """One term of a query, parsed.

    Attributes:
        type: Its line of the table.
        arguments, options: Its arguments, which are terms.
        path: The path to it from the root, as in backtraces: positions and names of options.
        value: The value of a `datum`.
        parameters: The ids of a `func`'s variables, or the id of a `var`.
        is_constant: Whether its value is known before anything runs.
        has_args: Whether `args` is among its arguments, so that their number is known only at evaluation.
    """

    __slots__ = ("arguments", "has_args", "is_constant", "options", "parameters", "path", "type", "value")

    def __init__(
        self,
        type: TermType,
        arguments: tuple[Term, ...] = (),
        options: dict[str, Term] | None = None,
        path: Path = (),
        value: Any = None,
        parameters: tuple[int, ...] = (),
        has_args: bool = False,
    ) -> None:
        self.type = type
        self.arguments = arguments
        self.options: dict[str, Term] = options or {}
        self.path = path
        self.value = value
        self.parameters = parameters
        self.is_constant = type is DATUM
        self.has_args = has_args

    @property
    def name(self) -> str:
        return self.type.name


_WRITE = "durability return_changes return_vals ignore_write_hook"

# number, name, at least, at most (-1: any number), options
_TABLE: Final[tuple[tuple[int, str, int, int, str], ...]] = (
    # values and variables
    (1, "datum", 0, -1, ""),
    (2, "make_array", 0, -1, ""),
    (3, "make_obj", 0, 0, "*"),
    (10, "var", 1, 1, ""),
    (11, "javascript", 1, 1, "timeout"),
    (12, "error", 0, 1, ""),
    (13, "implicit_var", 0, 0, ""),
    (69, "func", 2, 2, ""),
    (154, "args", 1, 1, ""),
    (155, "binary", 1, 1, ""),
    (169, "uuid", 0, 1, ""),
    (153, "http", 1, 1, "*"),
    (180, "minval", 0, 0, ""),
    (181, "maxval", 0, 0, ""),
    (143, "object", 0, -1, ""),
    (137, "literal", 0, 1, ""),
    # databases, tables and indexes
    (14, "db", 1, 1, ""),
    (57, "db_create", 1, 1, ""),
    (58, "db_drop", 1, 1, ""),
    (59, "db_list", 0, 0, ""),
    (15, "table", 1, 2, "read_mode use_outdated identifier_format"),
    (60, "table_create", 1, 2, "primary_key shards replicas primary_replica_tag nonvoting_replica_tags durability"),
    (61, "table_drop", 1, 2, ""),
    (62, "table_list", 0, 1, ""),
    (75, "index_create", 2, 3, "multi geo"),
    (76, "index_drop", 2, 2, ""),
    (77, "index_list", 1, 1, ""),
    (139, "index_status", 1, -1, ""),
    (140, "index_wait", 1, -1, ""),
    (156, "index_rename", 3, 3, "overwrite"),
    (189, "set_write_hook", 2, 2, ""),
    (190, "get_write_hook", 1, 1, ""),
    (174, "config", 1, 1, ""),
    (175, "status", 1, 1, ""),
    (177, "wait", 0, 1, "timeout wait_for"),
    (176, "reconfigure", 1, 1, "*"),
    (179, "rebalance", 0, 1, ""),
    (138, "sync", 1, 1, ""),
    (188, "grant", 2, 3, ""),
    (79, "info", 1, 1, ""),
    # selecting
    (16, "get", 2, 2, ""),
    (78, "get_all", 1, -1, "index"),
    (36, "between_deprecated", 3, 3, "index left_bound right_bound"),
    (182, "between", 3, 3, "index left_bound right_bound"),
    (39, "filter", 2, 2, "default"),
    (41, "order_by", 1, -1, "index"),
    (73, "asc", 1, 1, ""),
    (74, "desc", 1, 1, ""),
    (70, "skip", 2, 2, ""),
    (71, "limit", 2, 2, ""),
    (30, "slice", 2, 3, "left_bound right_bound"),
    (45, "nth", 2, 2, ""),
    (170, "bracket", 2, 2, ""),
    (31, "get_field", 2, 2, ""),
    (81, "sample", 2, 2, ""),
    (152, "changes", 1, 1,
     "squash changefeed_queue_size include_initial include_offsets include_states include_types"),
    # transforming
    (38, "map", 2, -1, ""),
    (40, "concat_map", 2, 2, ""),
    (33, "pluck", 1, -1, ""),
    (34, "without", 1, -1, ""),
    (35, "merge", 1, -1, ""),
    (32, "has_fields", 1, -1, ""),
    (96, "with_fields", 1, -1, ""),
    (44, "union", 0, -1, "interleave"),
    (48, "inner_join", 3, 3, ""),
    (49, "outer_join", 3, 3, ""),
    (50, "eq_join", 3, 3, "index ordered"),
    (72, "zip", 1, 1, ""),
    (87, "offsets_of", 2, 2, ""),
    (42, "distinct", 1, 1, "index"),
    (95, "difference", 2, 2, ""),
    (187, "fold", 3, 3, "emit final_emit"),
    (173, "range", 0, 2, ""),
    # aggregating
    (43, "count", 1, 2, ""),
    (145, "sum", 1, 2, ""),
    (146, "avg", 1, 2, ""),
    (147, "min", 1, 2, "index"),
    (148, "max", 1, 2, "index"),
    (37, "reduce", 2, 2, "base"),
    (144, "group", 1, -1, "index multi"),
    (150, "ungroup", 1, 1, ""),
    (86, "is_empty", 1, 1, ""),
    (93, "contains", 1, -1, ""),
    # writing
    (56, "insert", 2, 2, f"conflict upsert {_WRITE}"),
    (53, "update", 2, 2, f"non_atomic {_WRITE}"),
    (55, "replace", 2, 2, f"non_atomic {_WRITE}"),
    (54, "delete", 1, 1, _WRITE),
    (68, "for_each", 2, 2, ""),
    # control
    (64, "funcall", 1, -1, ""),
    (65, "branch", 3, -1, ""),
    (66, "or", 0, -1, ""),
    (67, "and", 0, -1, ""),
    (92, "default", 2, 2, ""),
    (51, "coerce_to", 2, 2, ""),
    (52, "type_of", 1, 1, ""),
    # values
    (17, "eq", 2, -1, ""),
    (18, "ne", 2, -1, ""),
    (19, "lt", 2, -1, ""),
    (20, "le", 2, -1, ""),
    (21, "gt", 2, -1, ""),
    (22, "ge", 2, -1, ""),
    (23, "not", 1, 1, ""),
    (24, "add", 1, -1, ""),
    (25, "sub", 1, -1, ""),
    (26, "mul", 1, -1, ""),
    (27, "div", 1, -1, ""),
    (28, "mod", 2, 2, ""),
    (183, "floor", 1, 1, ""),
    (184, "ceil", 1, 1, ""),
    (185, "round", 1, 1, ""),
    (151, "random", 0, 2, "float"),
    (191, "bit_and", 1, -1, ""),
    (192, "bit_or", 1, -1, ""),
    (193, "bit_xor", 1, -1, ""),
    (194, "bit_not", 1, 1, ""),
    (195, "bit_sal", 2, 2, ""),
    (196, "bit_sar", 2, 2, ""),
    (29, "append", 2, 2, ""),
    (80, "prepend", 2, 2, ""),
    (82, "insert_at", 3, 3, ""),
    (83, "delete_at", 2, 3, ""),
    (84, "change_at", 3, 3, ""),
    (85, "splice_at", 3, 3, ""),
    (88, "set_insert", 2, 2, ""),
    (89, "set_intersection", 2, 2, ""),
    (90, "set_union", 2, 2, ""),
    (91, "set_difference", 2, 2, ""),
    (94, "keys", 1, 1, ""),
    (186, "values", 1, 1, ""),
    (97, "match", 2, 2, ""),
    (149, "split", 1, 3, ""),
    (141, "upcase", 1, 1, ""),
    (142, "downcase", 1, 1, ""),
    (98, "json", 1, 1, ""),
    (172, "to_json_string", 1, 1, ""),
    # times
    (103, "now", 0, 0, ""),
    (136, "time", 4, 7, ""),
    (99, "iso8601", 1, 1, "default_timezone"),
    (100, "to_iso8601", 1, 1, ""),
    (101, "epoch_time", 1, 1, ""),
    (102, "to_epoch_time", 1, 1, ""),
    (104, "in_timezone", 2, 2, ""),
    (105, "during", 3, 3, "left_bound right_bound"),
    (106, "date", 1, 1, ""),
    (126, "time_of_day", 1, 1, ""),
    (127, "timezone", 1, 1, ""),
    (128, "year", 1, 1, ""),
    (129, "month", 1, 1, ""),
    (130, "day", 1, 1, ""),
    (131, "day_of_week", 1, 1, ""),
    (132, "day_of_year", 1, 1, ""),
    (133, "hours", 1, 1, ""),
    (134, "minutes", 1, 1, ""),
    (135, "seconds", 1, 1, ""),
    # geometry: the names are needed for error messages
    (157, "geojson", 1, 1, ""),
    (158, "to_geojson", 1, 1, ""),
    (159, "point", 2, 2, ""),
    (160, "line", 2, -1, ""),
    (161, "polygon", 3, -1, ""),
    (162, "distance", 2, 2, "geo_system unit"),
    (163, "intersects", 2, 2, ""),
    (164, "includes", 2, 2, ""),
    (165, "circle", 2, 2, "num_vertices geo_system unit fill"),
    (166, "get_intersecting", 2, 2, "index"),
    (167, "fill", 1, 1, ""),
    (168, "get_nearest", 2, 2, "index max_results max_dist geo_system unit"),
    (171, "polygon_sub", 2, 2, ""),
)  # fmt: skip

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip

# Names of days and months are terms without arguments; they are numbers from 1.
CALENDAR: Final = {
    **{107 + place: (name, place + 1) for place, name in enumerate(_WEEKDAYS)},
    **{114 + place: (name, place + 1) for place, name in enumerate(_MONTHS)},
}

# Parsing accepts any option, and the term checks its options itself.
ANY_OPTION: Final = frozenset("*")

TERM_TYPES: Final[dict[int, TermType]] = {
    number: TermType(number, name, low, None if high < 0 else high, frozenset(options.split()))
    for number, name, low, high, options in _TABLE
}

DATUM: Final = TERM_TYPES[1]
MAKE_ARRAY: Final = TERM_TYPES[2]
MAKE_OBJ: Final = TERM_TYPES[3]
FUNC: Final = TERM_TYPES[69]
VAR: Final = TERM_TYPES[10]
IMPLICIT_VAR: Final = TERM_TYPES[13]
ARGS: Final = TERM_TYPES[154]
