"""FeedOptions: the checked options of `changes()`.

Numbers and sentences are ReQL's; the native API wants real booleans, where the wire takes anything that ReQL calls true.

Rule of this file: values only, refused as early as can be, in ReQL's order: squash first, and the queue's size only after the
query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from reactdb.errors import InvalidKey, InvalidOption, format_value, is_one_of
from reactdb.values.collation import type_name
from reactdb.values.value import Value

MAX_SQUASH_S = 86_400.0
# A year. Python's own locks take no more than some centuries.
MAX_TIMEOUT_S = 31_536_000
DEFAULT_QUEUE_SIZE = 100_000
OVERFLOWS = ("drop", "error", "spill")
PREDICATE_ERRORS = ("skip", "raise")


class FeedOptions(Value):
    """See `FeedSource.changes`.

    Attributes:
        include_meta: Events have `meta`, the result of the table's write hook (bytes or None), and a change of the
            metadata alone is an event, too. Only for dialects, through the session.
        squash_s: None delivers every change; 0 the net difference whenever the subscriber is free; more: at most once
            in so many seconds.
        queue_size: Changes kept for a subscriber that lags.
        batches: Each event is the list of the changes of one commit.
        skip_origin: Changes of this origin are left out; None for none.
        on_overflow: One of OVERFLOWS.
        is_overflow_asked: The caller said which.
        since: A seq or a token, or None for now.
        on_predicate_error: One of PREDICATE_ERRORS.
    """

    squash_s: float | None
    queue_size: int
    include_initial: bool
    include_states: bool
    include_offsets: bool
    include_types: bool
    include_seq: bool
    include_catalogue: bool
    include_commit: bool
    include_origin: bool
    include_meta: bool
    batches: bool
    since: int | str | None
    on_overflow: str
    on_predicate_error: str
    skip_origin: str | None
    is_overflow_asked: bool

    __slots__ = tuple(__annotations__)

    def __init__(self, **fields: Any) -> None:
        """`fields`: every field by its name."""
        for name in self.__slots__:
            setattr(self, name, fields[name])


BOOLEANS: Final = tuple(
    name
    for name, kind in FeedOptions.__annotations__.items()
    if kind == "bool" and name != "is_overflow_asked"
)
NAMES: Final = (
    "squash",
    "changefeed_queue_size",
    "since",
    "on_overflow",
    "on_predicate_error",
    "skip_origin",
    *BOOLEANS,
)
"""The options of `changes()`. Those that are true or false have the names of their fields."""


def check_options(options: Mapping[str, Any], check_query: Callable[[FeedOptions], None]) -> FeedOptions:
    """Make a value of options by name; missing options have their defaults.

    Args:
        check_query: Called with the options before the queue's size is looked at, which has its default there.

    Raises:
        InvalidOption: With ReQL's sentence where it has one. Also every error of `check_query`.
    """
    others = dict(options)
    size = others.pop("changefeed_queue_size", DEFAULT_QUEUE_SIZE)
    try:
        checked = _check_cached(**others)
    except TypeError:
        # A value that cannot be hashed is wrong for every option. The check without the cache raises its error.
        checked = _check_others(**others)
    check_query(checked)
    if type(size) is int and size == DEFAULT_QUEUE_SIZE:
        return checked
    return _with_queue_size(checked, check_queue_size(size))


@lru_cache(maxsize=64)
def _with_queue_size(options: FeedOptions, queue_size: int) -> FeedOptions:
    return options if queue_size == options.queue_size else options.copy_with(queue_size=queue_size)


def _check_others(**options: Any) -> FeedOptions:
    """The options but the queue's size, which has its default."""
    for name in options:
        if name not in NAMES:
            raise InvalidOption(f"Unrecognized optional argument `{name}`.")
    squash_s = _squash_s(options.get("squash", False))
    flags: dict[str, Any] = {name: _check_flag(name, options.get(name, False)) for name in BOOLEANS}
    since = options.get("since")
    if since is not None and (isinstance(since, bool) or not isinstance(since, (int, str))):
        raise InvalidOption(f"since is a seq or a token, not {_type_name(since)}")
    if isinstance(since, int) and since < 0:
        raise InvalidOption(f"since is a seq from 0 on, or a token, not {format_value(since)}")
    if since is not None and flags["include_initial"]:
        raise InvalidOption(
            "since and include_initial exclude each other: a resumed feed continues as an uninterrupted one would"
        )
    on_overflow = options.get("on_overflow")
    flags["is_overflow_asked"] = on_overflow is not None
    if on_overflow is None:
        # A list built from offsets is wrong for good after a lost event; so is a half of a whole commit.
        on_overflow = "spill" if flags["include_offsets"] or flags["batches"] else "drop"
    elif not is_one_of(on_overflow, OVERFLOWS):
        raise InvalidOption(
            f'on_overflow is "drop", "error", "spill" or None, not {format_value(on_overflow)}'
        )
    flags["on_predicate_error"] = check_predicate_error(options.get("on_predicate_error", "skip"))
    flags["skip_origin"] = _skip_origin(options.get("skip_origin"), has_offsets=flags["include_offsets"])
    fields = flags | {"squash_s": squash_s, "since": since, "on_overflow": on_overflow}
    return FeedOptions(queue_size=DEFAULT_QUEUE_SIZE, **fields)


# Very many feeds have the same options, so these are checked once, and the feeds share one value. Typed, because `True` may be
# right for an option for which `1` is wrong.
_check_cached = lru_cache(maxsize=64, typed=True)(_check_others)


def check_predicate_error(value: Any) -> str:
    """Raises: InvalidOption."""
    if not is_one_of(value, PREDICATE_ERRORS):
        raise InvalidOption(f'on_predicate_error is "skip" or "raise", not {format_value(value)}')
    return str(value)


def check_union(members: Sequence[FeedOptions], *, has_terms: bool) -> None:
    """Whether feeds with these options can be united. `has_terms`: there are terms after some of them.

    Raises:
        InvalidOption.
    """
    if not any(one.batches for one in members):
        return
    if not all(one.batches for one in members):
        raise InvalidOption(
            "batches is for all members of a union of feeds, or for none: all members deliver a commit together"
        )
    if any(one.squash_s is not None for one in members):
        raise InvalidOption(
            "members of a union of feeds with batches cannot squash: watch the union of the selections, "
            "`a.union(b).changes(batches=True, squash=True)`"
        )
    if any(one.on_overflow == "drop" for one in members):
        raise InvalidOption(
            'members of a union of feeds with batches cannot drop changes of a commit: on_overflow is "spill" or "error"'
        )
    if has_terms:
        raise InvalidOption(
            "terms come after a union of feeds with batches, and not inside: each gets the whole commit"
        )


def _skip_origin(value: Any, *, has_offsets: bool) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidOption(
            f"skip_origin is the origin of a writer, which is a string, or None, not {format_value(value)}"
        )
    if has_offsets:
        raise InvalidOption(
            "skip_origin and include_offsets exclude each other: offsets are places in a list with all changes; "
            "a live list leaves out your own edits with selection.live(skip_origin=...)"
        )
    return value


def _squash_s(value: Any) -> float | None:
    if value is False:
        return None
    if value is True:
        return 0.0
    if not isinstance(value, (int, float, Decimal)):
        raise InvalidOption(f"Expected BOOL or NUMBER but found {_type_name(value)}.")
    if not _is_finite(value):
        raise InvalidOption(f"Expected BOOL or a positive NUMBER but found a non-finite NUMBER ({value}).")
    if value < 0:
        raise InvalidOption("Expected BOOL or a positive NUMBER but found a negative NUMBER.")
    if value > MAX_SQUASH_S:
        raise InvalidOption(
            f"Expected BOOL or a positive NUMBER of at most {MAX_SQUASH_S:.0f} seconds but found {format_value(value)}."
        )
    return float(value)


def _check_flag(name: str, value: Any) -> bool:
    if value is True or value is False:
        return value
    raise InvalidOption(f"Expected type BOOL but found {_type_name(value)} for `{name}`.")


def check_queue_size(value: Any) -> int:
    """Raises: InvalidOption, in ReQL's words."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise InvalidOption(f"Expected type NUMBER but found {_type_name(value)}.")
    if not _is_finite(value) or value != int(value):
        raise InvalidOption(f"Number not an integer: {value}")
    if value < 1:
        raise InvalidOption(f"Illegal changefeed queue size `{format_value(int(value))}`.  (Must be >= 1.)")
    return int(value)


def check_timeout(value: Any) -> float | None:
    """Raises: InvalidOption."""
    return None if value is None else check_seconds("timeout", value, ", or None")


def check_seconds(name: str, value: Any, also: str = "") -> float:
    """Raises: InvalidOption, which names the option `name` and lists its other values in `also`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_TIMEOUT_S:
        raise InvalidOption(
            f"{name} is a number of seconds from 0 to {MAX_TIMEOUT_S:,}{also}, not {format_value(value)}"
        )
    return value


def _is_finite(value: float | Decimal) -> bool:
    # An int is finite, however large: as a float it might overflow. Only a method of Decimal recognizes its NaNs.
    return value.is_finite() if isinstance(value, Decimal) else isinstance(value, int) or isfinite(value)


def _type_name(value: Any) -> str:
    try:
        return type_name(value)
    except InvalidKey:
        return type(value).__name__
