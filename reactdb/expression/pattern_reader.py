"""The reader of patterns: translates RE2's syntax for Python's `re`, and bounds how many steps a match may take.

Syntax that RE2 lacks (references to groups, lookahead and lookbehind, possessive repetition) is refused in RE2's
words. Syntax with another meaning in `re` is translated: `\\d`, `\\w` and `\\s` are ASCII, `$` is the end of the text
only, and flags hold from their place on. Unicode's classes (`\\pL`) and the flag U cannot be translated for `re`:
they need RE2. `pattern_steps` computes how many steps a part takes on a text.

Source: RE2's page "Syntax" for the syntax; its parser's error codes for the sentences.

Rule of this file: text in, a subpattern out. `pattern` decides how to use it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from reactdb.expression.pattern_steps import (
    ONE_STEP,
    Measure,
    Subject,
    steps_of_alternatives,
    steps_of_optional,
    steps_of_repeated,
    steps_of_run,
    steps_of_search,
    steps_of_sequence,
)

# RE2's own: how often something may be repeated, also by repetitions within repetitions, and how deep groups may nest.
MAX_REPEATS: Final = 1_000
MAX_DEPTH: Final = 200
LAST_CHARACTER: Final = 0x10FFFF
# How many sets of first characters are compared with each other: each of them with all before.
MOST_FIRSTS: Final = 256
# How many characters are checked singly.
MOST_GAPS: Final = 256

Ranges = tuple[tuple[int, int], ...]

_EVERYTHING: Final[Ranges] = ((0, LAST_CHARACTER),)
_ALL_BUT_LINE_END: Final[Ranges] = ((0, 9), (11, LAST_CHARACTER))
_DIGITS: Final[Ranges] = ((48, 57),)
_WORDS: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACES: Final[Ranges] = ((9, 10), (12, 13), (32, 32))
_CLASSES: Final[dict[str, Ranges]] = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_POSIX: Final[dict[str, Ranges]] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": _DIGITS,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": _WORDS,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_CONTROLS: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_REPEAT: Final = re.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")
_CLASS_NAME: Final = re.compile(r"\{\^?\w+\}|\w")
_GROUP_NAME: Final = re.compile(r"\?P?<([A-Za-z_][A-Za-z0-9_]*)>")
_FLAGS: Final = re.compile(r"\?([imsU]*)(?:-([imsU]+))?([:)])")


class UnreadablePattern(Exception):
    """The fault of the pattern, in RE2's words: `reason: portion`."""


class TooLarge(Exception):
    """The pattern needs more room than there is."""


@dataclass(slots=True)
class Subpattern:
    """A part of a pattern, as its syntax cuts it.

    Attributes:
        source: Its text, translated for `re`.
        is_bounded: The ways in which it may match from one place are at most a power of the text's length.
        is_single: It matches in one way at most from one place.
        measure: How many steps it takes, where it is bounded.
        positions: The characters and anchors in it; repeated ones count as often as they may occur.
        atoms: The same, each counted once.
        literal: Its single literal character; empty for any other subpattern.
        is_loose_run: It is a repetition of one character, which may end at several places.
        firsts: The characters that a match can begin with; None if they are not known, or if it may match the empty text.
        characters: The characters that a match can hold; None if they are not known.
        is_one: It always matches exactly one character.
        is_flexible: Its matches differ in length.
        repeats: The greatest number of repetitions within it, among those with a bound.
        pieces: The subpatterns of a sequence.
    """

    source: str
    is_bounded: bool = True
    is_single: bool = True
    measure: Measure = ONE_STEP
    positions: int = 1
    atoms: int = 1
    literal: str = ""
    is_loose_run: bool = False
    firsts: Ranges | None = None
    characters: Ranges | None = ()
    is_one: bool = False
    is_flexible: bool = False
    may_be_empty: bool = False
    repeats: int = 1
    pieces: list[Subpattern] = field(default_factory=list)


def search_steps(part: Subpattern) -> Callable[[Subject], float]:
    """The steps of a search for a whole pattern in a text."""
    pieces = part.pieces or [part]
    prefix = "".join(piece.literal for piece in takewhile(lambda piece: piece.literal, pieces))
    return steps_of_search(part.measure, prefix, is_anchored=pieces[0].source == r"\A")


def begins_with_anything(part: Subpattern) -> bool:
    """Whether a pattern begins with `.*`: without a match from the beginning of a line it matches nowhere in that
    line."""
    first = (part.pieces or [part])[0]
    return first.is_loose_run and first.may_be_empty and first.characters in (_EVERYTHING, _ALL_BUT_LINE_END)


def read(text: str, *, max_repeats: int = MAX_REPEATS, is_for_re2: bool = False) -> Subpattern:
    """The pattern, translated for `re`.

    Args:
        text: The pattern.
        max_repeats: How often something may be repeated, also by repetitions within repetitions.
        is_for_re2: It is only measured: syntax that needs RE2 is read too, and nothing is translated.

    Raises:
        UnreadablePattern: It is not a pattern.
        TooLarge: It is too large.
    """
    return _Reader(text, max_repeats, is_for_re2=is_for_re2).whole()


class _Reader:
    """Reads one pattern from left to right."""

    def __init__(self, text: str, max_repeats: int, *, is_for_re2: bool) -> None:
        self._text = text
        self._max_repeats = max_repeats
        self._is_for_re2 = is_for_re2
        self._at = 0
        self._depth = 0
        self._flags = frozenset[str]()

    def whole(self) -> Subpattern:
        part = self._alternatives()
        if self._at < len(self._text):
            raise UnreadablePattern(f"unexpected ): {self._text}")
        return part

    # -----------------------------------------------------------------------------------------------------------
    # Structure

    def _alternatives(self) -> Subpattern:
        """Sequences, up to the end of the pattern or of the group. Flags that are set in it end with it."""
        flags = self._flags
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooLarge("nested too deeply")
        sequences = [self._sequence()]
        while self._next_is("|"):
            self._at += 1
            sequences.append(self._sequence())
        self._depth -= 1
        self._flags = flags
        return sequences[0] if len(sequences) == 1 else match_either(sequences)

    def _sequence(self) -> Subpattern:
        parts: list[Subpattern] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            start = self._at
            part = self._atom()
            if part is not None:
                parts.append(self._repeat(part, start))
            elif parts:
                # Only flags were set: a repetition after them applies to the part before.
                parts[-1] = self._repeat(parts[-1], start)
        return sequence(parts)

    def _repeat(self, part: Subpattern, start: int) -> Subpattern:
        repetition = self._repetition()
        if repetition is None:
            return part
        low, high, spelled = repetition
        if self._next_is("?"):
            self._at += 1
            spelled += "?"
        end = self._at
        if self._repetition() is not None:
            operators = self._text[start : self._at].removeprefix(self._text[start : end - len(spelled)])
            raise UnreadablePattern(f"bad repetition operator: {operators}")
        if part.repeats * max(high or low, 1) > self._max_repeats:
            raise TooLarge(f"bad repetition operator: {spelled}")
        return repeat(part, low, high, spelled)

    def _repetition(self) -> tuple[int, int | None, str] | None:
        """The repetition at this place, if there is one: least, most or None, and its spelling."""
        rest = self._text[self._at : self._at + 1]
        if rest and rest in "*+?":
            self._at += 1
            return {"*": (0, None, "*"), "+": (1, None, "+"), "?": (0, 1, "?")}[rest]
        match = _REPEAT.match(self._text, self._at)
        if match is None:
            return None
        low = int(match[1])
        high = low if match[2] is None else int(match[3]) if match[3] else None
        if low > self._max_repeats or (high is not None and not low <= high <= self._max_repeats):
            raise TooLarge(f"invalid repetition size: {match[0]}")
        self._at = match.end()
        return low, high, match[0]

    def _atom(self) -> Subpattern | None:
        """One character, set, anchor or group; None where only flags are set."""
        character = self._text[self._at]
        start = self._at
        if self._repetition() is not None:
            raise UnreadablePattern(f"no argument for repetition operator: {self._text[start : self._at]}")
        self._at += 1
        if character == "(":
            return self._group(start)
        if character == "[":
            return self._set(start)
        if character == "\\":
            return self._escape(start)
        if character == ".":
            return match_one_of(_EVERYTHING if "s" in self._flags else _ALL_BUT_LINE_END, self._flags)
        if character == "^":
            return Subpattern("(?m:^)" if "m" in self._flags else r"\A", may_be_empty=True)
        if character == "$":
            return Subpattern("(?m:$)" if "m" in self._flags else r"\Z", may_be_empty=True)
        return match_one_of(((ord(character), ord(character)),), self._flags)

    def _group(self, start: int) -> Subpattern | None:
        before = self._flags
        opening = "("
        if self._next_is("?"):
            name = _GROUP_NAME.match(self._text, self._at)
            flags = _FLAGS.match(self._text, self._at)
            if name is not None:
                self._at = name.end()
            elif flags is None:
                raise UnreadablePattern(f"invalid perl operator: {self._text[start : start + 3]}")
            else:
                self._at = flags.end()
                added, removed = flags[1], flags[2] or ""
                if "U" in added + removed and not self._is_for_re2:
                    raise UnreadablePattern(f"the flag U needs google-re2: {self._text[start : self._at]}")
                self._flags = (self._flags | set(added)) - set(removed)
                if flags[3] == ")":
                    return None
                opening = "(?:"
        inner = self._alternatives()
        if not self._next_is(")"):
            raise UnreadablePattern(f"missing ): {self._text}")
        self._at += 1
        self._flags = before
        inner.source = f"{opening}{inner.source})"
        return inner

    # -----------------------------------------------------------------------------------------------------------
    # Characters

    def _escape(self, start: int) -> Subpattern:
        character = self._next(start)
        if character in "bB":
            # By default `re` has Unicode's words here.
            return Subpattern(f"(?a:\\{character})", may_be_empty=True)
        if character in "Az":
            return Subpattern(r"\A" if character == "A" else r"\Z", may_be_empty=True)
        if character == "Q":
            end = self._text.find("\\E", self._at)
            literal = self._text[self._at : end if end >= 0 else len(self._text)]
            self._at = end + 2 if end >= 0 else len(self._text)
            return sequence([match_one_of(((ord(one), ord(one)),), self._flags) for one in literal])
        if character.lower() in _CLASSES:
            return match_one_of(self._class(character), frozenset())
        if self._is_for_re2 and character in "pPC":
            self._skip_class(character)
            return Subpattern("", characters=None, is_one=True)
        code = self._character_code(character, start)
        return match_one_of(((code, code),), self._flags)

    def _skip_class(self, character: str) -> None:
        """Go past the name of a class of Unicode's, or past `\\C`, whose letter has been read."""
        match = _CLASS_NAME.match(self._text, self._at) if character in "pP" else None
        self._at = self._at if match is None else match.end()

    @staticmethod
    def _class(character: str) -> Ranges:
        ranges = _CLASSES[character.lower()]
        return ranges if character.islower() else invert_ranges(ranges)

    def _character_code(self, character: str, start: int) -> int:
        """The code of an escaped character; `character` is the one after the backslash."""
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character == "x":
            match = re.compile(r"\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2})").match(self._text, self._at)
            code = int(match[1] or match[2], 16) if match else LAST_CHARACTER + 1
            if match and code <= LAST_CHARACTER:
                self._at = match.end()
                return code
        elif character in "01234567":
            match = re.compile(r"[0-7]{1,3}").match(self._text, self._at - 1)
            assert match is not None
            if character == "0" or len(match[0]) > 1:
                self._at = match.end()
                return int(match[0], 8)
        elif character in "pP":
            raise UnreadablePattern(f"Unicode's classes need google-re2: {self._text[start : self._at]}")
        elif not character.isalnum() and character.isascii() and character != "_":
            return ord(character)
        raise UnreadablePattern(f"invalid escape sequence: {self._text[start : self._at]}")

    def _set(self, start: int) -> Subpattern:
        is_negated = self._next_is("^")
        self._at += is_negated
        ranges: list[tuple[int, int]] = []
        is_first = True
        while is_first or not self._next_is("]"):
            if self._at >= len(self._text):
                raise UnreadablePattern(f"missing ]: {self._text[start:]}")
            is_first = False
            posix = re.compile(r"\[:(\^?)(\w+):\]").match(self._text, self._at)
            if posix is not None:
                if posix[2] not in _POSIX:
                    raise UnreadablePattern(f"invalid character class range: {posix[0]}")
                self._at = posix.end()
                ranges += invert_ranges(_POSIX[posix[2]]) if posix[1] else _POSIX[posix[2]]
                continue
            begin = self._at
            low = self._member()
            if isinstance(low, tuple):
                ranges += low
                continue
            high: int | Ranges = low
            if self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 : self._at + 2] not in (
                "]",
                "",
            ):
                self._at += 1
                high = self._member()
            if isinstance(high, tuple) or high < low:
                raise UnreadablePattern(f"invalid character class range: {self._text[begin : self._at]}")
            ranges.append((low, high))
        self._at += 1
        merged = _merge_ranges(ranges)
        if is_negated and "i" in self._flags:
            # An excluded character is excluded in both cases: so cases are added before the set is inverted.
            source = f"(?i:[^{_format_ranges(merged)}])"
            others = invert_ranges(merged)
            own = in_either_case(others, f"[{_format_ranges(others)}]")
            return Subpattern(source, firsts=own, characters=own, is_one=True)
        return match_one_of(invert_ranges(merged) if is_negated else merged, self._flags)

    def _member(self) -> int | Ranges:
        """One character of a set, or a class within it."""
        start = self._at
        character = self._next(start)
        if character != "\\":
            return ord(character)
        character = self._next(start)
        if character.lower() in _CLASSES:
            return self._class(character)
        if self._is_for_re2 and character in "pP":
            self._skip_class(character)
            return _EVERYTHING
        return self._character_code(character, start)

    def _next(self, start: int) -> str:
        if self._at >= len(self._text):
            if self._text[start] == "\\":
                raise UnreadablePattern("trailing \\")
            raise UnreadablePattern(f"missing ]: {self._text[start:]}")
        self._at += 1
        return self._text[self._at - 1]

    def _next_is(self, character: str) -> bool:
        return self._text.startswith(character, self._at)


# ---------------------------------------------------------------------------------------------------------------
# Parts out of parts


def match_one_of(ranges: Ranges, flags: frozenset[str]) -> Subpattern:
    """One character out of these."""
    source = f"[{_format_ranges(ranges)}]" if ranges else "(?!)"
    if "i" in flags and any(chr(low).lower() != chr(high).upper() for low, high in ranges):
        own, source = in_either_case(ranges, source), f"(?i:{source})"
    else:
        own = ranges
    is_literal = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    literal = chr(ranges[0][0]) if is_literal else ""
    return Subpattern(source, firsts=own, characters=own, is_one=True, literal=literal)


# The other cases of ASCII's letters, beyond the letter of the other case.
_OTHER_CASES: Final = {"i": (0x130, 0x131), "s": (0x17F,), "k": (0x212A,)}


def in_either_case(ranges: Ranges, source: str) -> Ranges | None:
    """The characters, and their other cases; None if they are not known. `source`: as `re` writes them."""
    if all(high < 128 for _, high in ranges):
        all_ranges = list(ranges)
        for low, high in ranges:
            for letter in map(chr, range(low, high + 1)):
                if letter.isalpha():
                    other = letter.swapcase()
                    codes = (ord(other), *_OTHER_CASES.get(letter.lower(), ()))
                    all_ranges += [(code, code) for code in codes]
        return _merge_ranges(all_ranges)
    gaps = invert_ranges(ranges)
    if sum(high - low + 1 for low, high in gaps) > MOST_GAPS:
        return None
    belongs = re.compile(source, re.IGNORECASE).fullmatch
    return _merge_ranges(
        [
            *ranges,
            *((code, code) for low, high in gaps for code in range(low, high + 1) if belongs(chr(code))),
        ]
    )


def sequence(parts: list[Subpattern]) -> Subpattern:
    """One part after the other."""
    if len(parts) == 1:
        return parts[0]
    return Subpattern(
        "".join(part.source for part in parts),
        is_bounded=all(part.is_bounded for part in parts),
        is_single=all(part.is_single for part in parts),
        measure=steps_of_sequence([(part.measure, part.literal, part.is_loose_run) for part in parts]),
        positions=sum(part.positions for part in parts),
        atoms=sum(part.atoms for part in parts),
        firsts=parts[0].firsts if parts else None,
        characters=_all_characters(parts),
        is_flexible=any(part.is_flexible for part in parts),
        may_be_empty=all(part.may_be_empty for part in parts),
        repeats=max((part.repeats for part in parts), default=1),
        pieces=parts,
    )


def _all_characters(parts: list[Subpattern]) -> Ranges | None:
    if any(part.characters is None for part in parts):
        return None
    return tuple(one for part in parts for one in part.characters or ())


def match_either(parts: list[Subpattern]) -> Subpattern:
    """One of the alternatives."""
    firsts: list[tuple[int, int]] | None = []
    for part in parts:
        if (
            firsts is None
            or part.firsts is None
            or len(firsts) > MOST_FIRSTS
            or _overlap(firsts, part.firsts)
        ):
            firsts = None
            break
        firsts += part.firsts
    # Where no two alternatives begin alike, at most one of them gets beyond its first character.
    is_certain = firsts is not None
    return Subpattern(
        "|".join(part.source for part in parts),
        is_bounded=all(part.is_bounded for part in parts),
        is_single=is_certain and all(part.is_single for part in parts),
        measure=steps_of_alternatives([part.measure for part in parts], is_certain=is_certain),
        positions=sum(part.positions for part in parts),
        atoms=sum(part.atoms for part in parts),
        firsts=None if firsts is None else tuple(firsts),
        characters=_all_characters(parts),
        is_flexible=True,
        may_be_empty=any(part.may_be_empty for part in parts),
        repeats=max(part.repeats for part in parts),
    )


def repeat(part: Subpattern, low: int, high: int | None, spelled: str) -> Subpattern:
    """A part several times; at most `high` times, if `high` is not None."""
    source = part.source if _is_closed(part) else f"(?:{part.source})"
    is_certain = part.is_single and not part.is_flexible
    if high == 1:
        # Once, or also not at all.
        is_bounded, measure = part.is_bounded, part.measure if low == 1 else steps_of_optional(part.measure)
    else:
        # For a part that matches in several ways, even a few repetitions are a great many ways.
        is_bounded = (
            part.is_bounded
            and not part.may_be_empty
            and (is_certain or (part.is_single and part.firsts is not None) or _is_separated(part))
        )
        run = steps_of_run(part.source, low, high)
        measure = run if part.is_one else steps_of_repeated(part.atoms, low, high)
    return Subpattern(
        source + spelled,
        is_bounded=is_bounded,
        is_single=part.is_single and low == high and (low == 1 or is_certain),
        measure=measure,
        positions=part.positions * max(high or low, 1) + 1,
        atoms=part.atoms + 1,
        is_loose_run=part.is_one and low != high,
        firsts=part.firsts if low else None,
        characters=part.characters,
        is_flexible=low != high or part.is_flexible,
        may_be_empty=not low or part.may_be_empty,
        repeats=part.repeats * max(high or low, 1),
    )


def _is_closed(part: Subpattern) -> bool:
    return part.is_one or (part.source.startswith("(") and part.source.endswith(")") and not part.pieces)


def _is_separated(part: Subpattern) -> bool:
    """Whether each turn begins or ends with a character that occurs nowhere else in it, and goes in one way between
    two of them."""
    for separator, rest in ((part.pieces[:1], part.pieces[1:]), (part.pieces[-1:], part.pieces[:-1])):
        if not separator or not separator[0].is_one or not separator[0].characters:
            continue
        is_apart = all(
            piece.characters is not None and not _overlap(separator[0].characters, piece.characters)
            for piece in rest
        )
        flexible = [piece for piece in rest if piece.is_flexible]
        one_at_most = len(flexible) <= 1 and all(_is_run(piece) for piece in flexible)
        if is_apart and one_at_most:
            return True
    return False


def _is_run(part: Subpattern) -> bool:
    """Whether it matches a given stretch of text in one way at most: a repetition of one character."""
    return part.is_bounded and not part.pieces and "|" not in part.source


# ---------------------------------------------------------------------------------------------------------------
# Sets of characters


def invert_ranges(ranges: Ranges) -> Ranges:
    """The characters that are not among these."""
    gaps = []
    start = 0
    for low, high in _merge_ranges(ranges):
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST_CHARACTER:
        gaps.append((start, LAST_CHARACTER))
    return tuple(gaps)


def _merge_ranges(ranges: Ranges | list[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _overlap(some: Iterable[tuple[int, int]], others: Ranges) -> bool:
    return any(low <= last and first <= high for low, high in some for first, last in others)


def _format_ranges(ranges: Ranges) -> str:
    return "".join(f"\\U{low:08x}" if low == high else f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
