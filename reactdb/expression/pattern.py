"""Regular expressions for `match`: RE2's syntax, and a bound on what matching costs.

ReQL has RE2, which is linear whatever the pattern. Where `google-re2` is installed (the extra `re2`), it does the
work. Elsewhere Python's `re` does, which tries one way to match after the other: `(a+)+$` on forty letters takes
longer than anybody waits, and a feed runs its condition for every change. So a pattern is read before `re` gets it
(`pattern_reader`), and its cost is bounded by the ways in which its parts may match from one place, n being the
length of the text:

    one character, a set, an anchor             1
    a, then b                                   the ways of a, times those of b
    a|b                                         the sum of both; the larger if their first characters differ
    a up to k times, where a has 1 way          k; n if there is no limit
    a several times, where a separator begins   as above: where one turn ends and the next begins is certain
      or ends each turn
    a several times, where a has several ways   not bounded

With c * n**k ways at each of n places, `re` is used while c * n**(k + 1) is at most `MAX_TRIES`, which is well below
a second. What is above that, or not bounded, raises `ResourceLimit` with the name of the extra.

Unlike in ReQL, positions count characters and not bytes of UTF-8: so they fit `slice`, as a reader would expect.

Rule of this file: nothing is matched before its cost is known.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, Protocol

from reactdb.budget import CALL_STEPS, spend
from reactdb.errors import QueryError, ResourceLimit

MAX_PATTERN_CHARACTERS: Final = 1_000
MAX_TRIES: Final = 20_000_000
# What RE2 may use for one pattern: its own default.
MAX_MEMORY_BYTES: Final = 8 << 20

_REMEDY: Final = (
    "parts of it can match in very many ways. Install google-re2, to which none of this applies:"
    ' pip install "reactdb[re2]"'
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
    """The pattern, compiled by RE2 where that is installed, otherwise by `re`.

    Raises:
        QueryError: It is not one, in RE2's syntax.
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
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_MEMORY_BYTES
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise _refusal(text, error.args[0]) from None

    def search(self, subject: str) -> Spans | None:
        spend(CALL_STEPS + len(subject))
        found = self._compiled.search(subject)
        return found and [found.span(group) for group in range(self._compiled.groups + 1)]


def _refusal(text: str, reason: bytes | str) -> QueryError | ResourceLimit:
    """What RE2 says of a pattern, `reason: portion`, in ReQL's sentence."""
    said = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
    kind, _, portion = said.partition(": ")
    if kind.startswith(("pattern too large", "invalid repetition size", "expression nests too deeply")):
        return ResourceLimit(f"The regexp is too large: {said}.")
    return QueryError(f"Error in regexp `{text}` (portion `{portion}`): {said}")


class PythonPattern:
    """A pattern of Python's `re`, used for texts that are short enough for the number of ways in which it may match."""

    def __init__(self, text: str) -> None:
        from reactdb.expression.pattern_reader import TooLarge, UnreadablePattern, read

        try:
            source, ways = read(text)
            self._compiled = re.compile(source)
        except TooLarge as error:
            raise ResourceLimit(f"The regexp is too large: {error}.") from None
        except UnreadablePattern as error:
            raise _refusal(text, str(error)) from None
        except (re.error, OverflowError, RecursionError) as error:
            raise QueryError(f"Error in regexp `{text}`: {error}") from None
        if ways is None:
            raise ResourceLimit(f"The regexp `{text}` can take too long: {_REMEDY}")
        self._text = text
        self._max_characters = int((MAX_TRIES / ways.factor) ** (1 / (ways.power + 1)))

    def search(self, subject: str) -> Spans | None:
        if len(subject) > self._max_characters:
            raise ResourceLimit(
                f"The regexp `{self._text}` can take too long for a string of {len(subject)} characters: {_REMEDY}"
            )
        spend(CALL_STEPS + len(subject))
        found = self._compiled.search(subject)
        return None if found is None else list(found.regs)
