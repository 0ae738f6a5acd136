"""JSON of requests, decoded without a long stop for other clients.

    read_json(text)        the value of a body's bytes, with at most MOST_LEVELS nested levels
    decode_json(text)      the value; a long text is decoded in pieces, and each piece spends the budget

Python's decoders work in C and give no other thread a turn: a body of 60 MB stopped the whole process for seconds. So a long text
is read in windows of some kilobytes. The decoder of `json` gets all complete elements of a list in a window at once. If they are
not easy to see, it gets one element after the other. An element longer than a window is split into its own elements.

Rule of this file: text in, value out, for every dialect. The value equals the result of `json.loads`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]
from json.scanner import make_scanner
from typing import Any, Final

from reactdb.budget import STEP_BYTES, current, spend
from reactdb.errors import ResourceLimit
from reactdb.json import MOST_LEVELS, finite_float, is_deeper, read_plain, refuse_constant, too_deep

__all__ = ["SHORT", "decode_json", "read_json"]

SHORT: Final = 256 * 1024
"""Characters of a text to decode at once: it takes some milliseconds."""

WINDOW: Final = 32 * 1024

MOST_CONTAINERS: Final = 1_000_000
"""Objects and arrays of one text. Python's garbage collector visits all of them from time to time, which takes 0.1 s for so many,
and gives no other thread a turn meanwhile."""

# Possessive: no backtracking is stored, for a string of any length.
_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_BETWEEN: Final = re.compile(r"[ \t\n\r]*([,\]}])[ \t\n\r]*")
_COLON: Final = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")

Convert = Callable[[str], Any]


def read_json(text: bytes) -> Any:
    """
    Raises:
        InvalidDocument, ValueError: As of `read_plain`.
        ResourceLimit, Stopped: As of `decode_json`.
    """
    if len(text) <= SHORT:
        return read_plain(text)
    try:
        value = decode_json(text.decode(), parse_constant=refuse_constant, parse_float=finite_float)
    except RecursionError:
        raise too_deep() from None
    if is_deeper(value, MOST_LEVELS):
        raise too_deep()
    return value


def decode_json(
    text: str, *, parse_constant: Convert | None = None, parse_float: Convert | None = None
) -> Any:
    """
    Args:
        parse_constant, parse_float: As of `json.loads`.

    Raises:
        ValueError, RecursionError: As of `json.loads`.
        ResourceLimit: It has more than MOST_CONTAINERS objects and arrays.
        Stopped: The budget is spent.
    """
    decoder = json.JSONDecoder(parse_constant=parse_constant, parse_float=parse_float)
    if len(text) <= SHORT:
        return decoder.decode(text)
    if text.startswith("\ufeff"):
        raise json.JSONDecodeError("Unexpected UTF-8 BOM (decode using utf-8-sig)", text, 0)
    _check_containers(text)
    return _LongText(text, make_scanner(decoder)).decoded()  # type: ignore[arg-type]


def _check_containers(text: str) -> None:
    """
    Raises:
        ResourceLimit: See `decode_json`.
    """
    # Brackets in strings are counted first, too. Only if there are too many, the strings are left out.
    if text.count("{") + text.count("[") <= MOST_CONTAINERS:
        return
    count = place = 0
    while place < len(text):
        quote = text.find('"', place)
        end = len(text) if quote < 0 else quote
        spend(1 + (end - place) // STEP_BYTES)
        count += text.count("{", place, end) + text.count("[", place, end)
        if count > MOST_CONTAINERS:
            sentence = (
                f"the JSON has more than {MOST_CONTAINERS} objects and arrays: send it in several requests"
            )
            raise ResourceLimit(sentence)
        string = _STRING.match(text, end)
        if string is None:
            # It ends here, or is malformed; the decoder will raise the error.
            return
        place = string.end()


class _LongText:
    """A text that is decoded once, from its beginning to its end."""

    def __init__(self, text: str, scan: Callable[[str, int], tuple[Any, int]]) -> None:
        self._text = text
        self._scan = scan
        # `window` is the text from `start` on.
        self._start = 0
        self._window = text[:WINDOW]
        self._budget = current.get()

    def decoded(self) -> Any:
        value, end = self._value(self._after_space(0))
        end = self._after_space(end)
        if end != len(self._text):
            raise self._malformed("Extra data", end)
        return value

    def _value(self, place: int) -> tuple[Any, int]:
        """The value at a place, and its end."""
        result = self._from_window(place)
        if result is not None:
            return result
        first = self._text[place]
        if first == "{":
            return self._object(place)
        if first == "[":
            return self._array(place)
        if first == '"':
            return scanstring(self._text, place + 1, True)  # type: ignore[no-any-return]
        # A number, of any length.
        return self._scan_value(self._text, place, 0)

    def _from_window(self, place: int) -> tuple[Any, int] | None:
        """The same; None where it is longer than a window."""
        at = place - self._start
        if at < len(self._window):
            result = self._scan_in_window(at)
            if result is not None:
                return result
        if at == 0:
            return None
        self._start, self._window = place, self._text[place : place + WINDOW]
        return self._scan_in_window(0)

    def _scan_in_window(self, at: int) -> tuple[Any, int] | None:
        start, window = self._start, self._window
        if start + len(window) == len(self._text):
            return self._scan_value(window, at, start)
        try:
            value, end = self._scan(window, at)
        except (StopIteration, ValueError):
            # It is cut off. If it is wrong, the split into elements shows that.
            return None
        # A number at the end may be cut off: `1e+5` looks like 1.
        if end > len(window) - 3:
            return None
        self._spend(end - at)
        return value, start + end

    def _scan_value(self, text: str, at: int, start: int) -> tuple[Any, int]:
        try:
            value, end = self._scan(text, at)
        except StopIteration as stop:
            raise self._malformed("Expecting value", start + stop.value) from None
        except json.JSONDecodeError as error:
            raise self._malformed(error.msg, start + error.pos) from None
        self._spend(end - at)
        return value, start + end

    def _spend(self, characters: int) -> None:
        if self._budget is not None:
            self._budget.spend(1 + characters // STEP_BYTES)

    def _array(self, place: int) -> tuple[list[Any], int]:
        elements: list[Any] = []
        place = self._after_space(place + 1)
        if self._text[place : place + 1] == "]":
            return elements, place + 1
        is_last = False
        many_from = 0
        while not is_last:
            if place >= many_from:
                # Once for each window.
                place = self._many(place, elements)
                many_from = place + WINDOW // 2
            value, place = self._value(self._must_go_on(place))
            elements.append(value)
            is_last, place = self._next(place, "]")
        return elements, place

    def _many(self, place: int, elements: list[Any]) -> int:
        """Add the complete elements of an array in the next windows, except the last. Returns the begin of the next element."""
        while True:
            window = self._text[place : place + WINDOW]
            cut = next((cut for mark in ("},", "],", ",") if (cut := self._cut(window, mark, elements))), 0)
            if not cut:
                return place
            place = self._after_space(place + cut)

    def _cut(self, window: str, mark: str, array: list[Any]) -> int:
        """Add the elements of a window up to the last mark. How long they are with it; 0 where no element ends there."""
        cut = window.rfind(mark) + len(mark)
        if cut < len(mark):
            return 0
        try:
            # The text of a list in brackets is a sequence of complete elements.
            elements, end = self._scan(f"[{window[: cut - 1]}]", 0)
        except (StopIteration, ValueError):
            return 0
        if end != cut + 1 or not elements:
            return 0
        array += elements
        self._spend(cut)
        return cut

    def _object(self, place: int) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        # As in `json`: the same name is the same object.
        names: dict[str, str] = {}
        place = self._after_space(place + 1)
        if self._text[place : place + 1] == "}":
            return members, place + 1
        is_last = False
        while not is_last:
            if self._text[place : place + 1] != '"':
                raise self._malformed("Expecting property name enclosed in double quotes", place)
            name, place = scanstring(self._text, place + 1, True)
            colon = _COLON.match(self._text, place)
            if colon is None:
                raise self._malformed("Expecting ':' delimiter", place)
            value, place = self._value(self._must_go_on(colon.end()))
            members[names.setdefault(name, name)] = value
            is_last, place = self._next(place, "}")
        return members, place

    def _next(self, place: int, closing: str) -> tuple[bool, int]:
        """Whether the container ends after an element, and the place of the next element, or the place behind the container."""
        between = _BETWEEN.match(self._text, place)
        if between is None or between[1] not in (",", closing):
            raise self._malformed("Expecting ',' delimiter", place)
        is_last = between[1] == closing
        return is_last, between.end(1) if is_last else between.end()

    def _must_go_on(self, place: int) -> int:
        if place >= len(self._text):
            raise self._malformed("Expecting value", place)
        return place

    def _after_space(self, place: int) -> int:
        match = _SPACE.match(self._text, place)
        assert match is not None
        return match.end()

    def _malformed(self, sentence: str, place: int) -> json.JSONDecodeError:
        return json.JSONDecodeError(sentence, self._text, place)
