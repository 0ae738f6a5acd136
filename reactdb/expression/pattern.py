"""Regular expressions for `match`: RE2's syntax, and a bound on the cost of matching.

ReQL has RE2, which is linear for every pattern. Where `google-re2` is installed (the extra `re2`), it does the work.
Elsewhere Python's `re` does, which tries one way to match after the other: `(a+)+$` on forty letters would
practically never end, and a feed runs its condition for every change. Neither can be stopped while it matches, and no
other thread of the process runs during the match. So a pattern is read before an engine gets it (`pattern_reader`),
and its greatest cost on a text is known before the match:

    RE2     the positions of the pattern, counted as often as they may be repeated, times the length of the text;
            its compiler takes the square of the positions
    `re`    the steps of all ways to match (`pattern_steps`)

A cost above `MAX_STEPS`, which is well below a second, or without a bound, raises `ResourceLimit`; where RE2 would
help, with the name of the extra.

Unlike in ReQL, positions count characters and not bytes of UTF-8: so they fit `slice`, as a reader would expect.

Rule of this file: nothing is matched before its cost is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol

from reactdb.budget import CALL_STEPS, spend
from reactdb.errors import QueryError, ResourceLimit, how_to_install
from reactdb.expression.pattern_steps import Subject

MAX_PATTERN_CHARACTERS: Final = 1_000
# A step takes either engine up to 10 ns, and RE2 a hundredth of that for a pattern with few states.
MAX_STEPS: Final = 40_000_000
# To compile 5,000 positions takes RE2 0.05 s, and 100,000 of them 20 s.
MAX_POSITIONS: Final = 5_000
# The memory that RE2 may use for one pattern: its own default. For a pattern that cannot be read here, the amount for
# 10,000 positions.
MAX_MEMORY_BYTES: Final = 8 << 20
MAX_UNREAD_BYTES: Final = 1 << 18
LITERAL: Final = re.compile(r"[^\\.^$*+?()\[\]{}|]*")

_REMEDY: Final = (
    "parts of it can match in very many ways. Install google-re2, to which none of this applies:"
    f" {how_to_install('re2')}"
)

Spans = list[tuple[int, int]]


class Pattern(Protocol):
    """A pattern, and the way to match it within bounds."""

    def search(self, subject: str) -> Spans | None:
        """Where the first match and its groups begin and end, (-1, -1) for a group without part in it; or None.

        Raises:
            ResourceLimit: The string is too long for this pattern.
        """


@lru_cache(maxsize=256)
def read_pattern(text: str) -> Pattern:
    """The pattern, compiled by RE2 if installed, otherwise by `re`.

    Raises:
        QueryError: It is no pattern in RE2's syntax.
        ResourceLimit: It is too large, or could take too long without RE2.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise ResourceLimit(f"The regexp is too large: more than {MAX_PATTERN_CHARACTERS} characters.")
    try:
        import re2
    except ImportError:
        return PythonPattern(text)
    # Other packages have a module of this name, too, which is used in another way.
    return Re2Pattern(text, re2) if hasattr(re2, "Options") else PythonPattern(text)


class Re2Pattern:
    """A pattern of `google-re2`: linear in the text."""

    def __init__(self, text: str, re2: Any) -> None:
        positions = _positions(text)
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_UNREAD_BYTES if positions is None else MAX_MEMORY_BYTES
        spend(CALL_STEPS + (positions or len(text)))
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise _refusal(text, error.args[0]) from None
        self._text = text
        size = self._compiled.programsize if positions is None else positions
        if LITERAL.fullmatch(text):
            # A text without operators has one state for each character, which RE2 always keeps: then it takes 1 step
            # a character.
            size = 1
        self._max_characters = MAX_STEPS // max(size, 1)

    def search(self, subject: str) -> Spans | None:
        if len(subject) > self._max_characters:
            raise ResourceLimit(
                f"The regexp `{self._text}` is too large for a string of {len(subject)} characters:"
                f" it may have at most {self._max_characters}."
            )
        spend(CALL_STEPS + len(subject))
        match = self._compiled.search(subject)
        return match and [match.span(group) for group in range(self._compiled.groups + 1)]


def _positions(text: str) -> int | None:
    """The positions of a pattern, or None if RE2 may know a syntax that is unknown here.

    Raises:
        ResourceLimit: They are too many.
    """
    from reactdb.expression.pattern_reader import TooLarge, UnreadablePattern, read

    try:
        positions = read(text, is_for_re2=True).positions
    except (TooLarge, UnreadablePattern):
        return None
    if positions > MAX_POSITIONS:
        raise ResourceLimit(
            f"The regexp is too large: with what it repeats it has {positions} positions, and {MAX_POSITIONS} are allowed."
        )
    return positions


def _refusal(text: str, reason: bytes | str) -> QueryError | ResourceLimit:
    """RE2's message about a pattern, `reason: portion`, in ReQL's sentence."""
    message = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
    kind, _, portion = message.partition(": ")
    if kind.startswith(("pattern too large", "invalid repetition size", "expression nests too deeply")):
        return ResourceLimit(f"The regexp is too large: {message}.")
    return QueryError(f"Error in regexp `{text}` (portion `{portion}`): {message}")


class PythonPattern:
    """A pattern of Python's `re`, used for texts that are short enough for the number of ways in which it may
    match."""

    def __init__(self, text: str) -> None:
        from reactdb.expression.pattern_reader import TooLarge, UnreadablePattern, read, search_steps

        spend(CALL_STEPS + len(text))
        try:
            pattern = read(text)
            self._compiled = re.compile(pattern.source)
        except TooLarge as error:
            raise ResourceLimit(f"The regexp is too large: {error}.") from None
        except UnreadablePattern as error:
            raise _refusal(text, str(error)) from None
        except (re.error, OverflowError, RecursionError) as error:
            raise QueryError(f"Error in regexp `{text}`: {error}") from None
        if not pattern.is_bounded:
            raise ResourceLimit(f"The regexp `{text}` can take too long: {_REMEDY}")
        self._text = text
        self._steps = search_steps(pattern)
        self._max_characters = safe_length(self._steps, MAX_STEPS)

    def search(self, subject: str) -> Spans | None:
        spend(CALL_STEPS + len(subject))
        if len(subject) > self._max_characters and self._steps(Subject(len(subject), subject)) > MAX_STEPS:
            raise ResourceLimit(
                f"The regexp `{self._text}` can take too long for a string of {len(subject)} characters: {_REMEDY}"
            )
        match = self._compiled.search(subject)
        return None if match is None else list(match.regs)


def safe_length(steps: Callable[[Subject], float], most: float) -> int:
    """How long any text may be for at most so many steps, whatever its content; -1 if even the empty text is not
    safe."""
    safe, unsafe = -1, int(most) + 1
    while unsafe - safe > 1:
        middle = (safe + unsafe) // 2
        if steps(Subject(middle)) > most:
            unsafe = middle
        else:
            safe = middle
    return safe
