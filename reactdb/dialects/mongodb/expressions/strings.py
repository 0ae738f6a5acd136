"""Operators on texts: joining, cutting, searching, trimming, replacing, regular expressions.

`CP` counts characters, `Bytes` counts bytes of UTF-8.

Rule of this file: a number or a date in place of a text is converted only by the operators for which MongoDB does it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from decimal import ROUND_HALF_EVEN
from typing import Any, Final

from bson.regex import Regex
from bson.timestamp import Timestamp

from reactdb.budget import spend_per_element, spend_value
from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions.compile import (
    Evaluate,
    NamedArguments,
    Scope,
    check_named_parts,
    compile_value,
    function,
    is_nullish,
    syntax,
)
from reactdb.dialects.mongodb.expressions.dates import date_text
from reactdb.dialects.mongodb.expressions.number_text import number_text
from reactdb.dialects.mongodb.numeric import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    decimal_of,
    is_number,
    whole,
)
from reactdb.dialects.mongodb.patterns import (
    BoundedPattern,
    UnreadablePattern,
    compile_pattern,
    option_letters,
)
from reactdb.dialects.mongodb.times import EPOCH, is_date
from reactdb.dialects.mongodb.values import MAX_BSON_BYTES

__all__: list[str] = []

Variables = dict[str, Any]


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _to_text(value: Any) -> str:
    """A value as a text: null is empty; numbers, dates and timestamps are written."""
    if is_text(value):
        spend_value(value)
        return value
    if is_nullish(value):
        return ""
    if isinstance(value, float):
        # Other than `$toString`, these operators write six digits of a double.
        return f"{value:g}"
    if is_number(value):
        return number_text(value)
    if is_date(value):
        return date_text(value)
    if isinstance(value, Timestamp):
        moment = EPOCH + timedelta(seconds=value.time)
        return f"{_MONTHS[moment.month - 1]} {moment.day:2} {moment:%H:%M:%S}:{value.inc}"
    raise MongoError(16007, f"can't convert from BSON type {type_name(value)} to String")


@function("$concat", 0, None)
def concat(*texts: Any) -> Any:
    """The joined texts."""
    for text in texts:
        if is_nullish(text):
            return None
        if not is_text(text):
            raise MongoError(16702, f"$concat only supports strings, not {type_name(text)}")
    joined = "".join(texts)
    if len(joined) * 4 > MAX_BSON_BYTES and len(joined.encode()) >= MAX_BSON_BYTES:
        raise MongoError(16493, "$concat makes texts of less than 16 MB")
    return joined


# Only ASCII letters have two cases here.
_LOWER: Final = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_UPPER: Final = {ord(letter): letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"}


@function("$toLower", 1)
def lower(text: Any) -> str:
    """The text in small letters."""
    return _to_text(text).translate(_LOWER)


@function("$toUpper", 1)
def upper(text: Any) -> str:
    """The text in capital letters."""
    return _to_text(text).translate(_UPPER)


@function("$strcasecmp", 2)
def compare_without_case(left: Any, right: Any) -> int:
    """-1, 0 or 1: the order of two texts without regard to case."""
    one, other = _to_text(left).translate(_UPPER), _to_text(right).translate(_UPPER)
    return (one > other) - (one < other)


@function("$strLenCP", 1)
def length(text: Any) -> int:
    """Its characters."""
    if not is_text(text):
        raise MongoError(34471, f"$strLenCP requires a string argument, found: {type_name(text)}")
    return len(text)


@function("$strLenBytes", 1)
def length_in_bytes(text: Any) -> int:
    """Its bytes of UTF-8."""
    if not is_text(text):
        raise MongoError(34473, f"$strLenBytes requires a string argument, found: {type_name(text)}")
    spend_value(text)
    return len(text.encode())


def _substring_of_bytes(name: str) -> None:
    @function(name, 3)
    def work(text: Any, start: Any, count: Any) -> str:
        encoded = _to_text(text).encode()
        if not is_number(start):
            raise MongoError(16034, f"{name} takes a number as start, not {type_name(start)}")
        if not is_number(count):
            raise MongoError(16035, f"{name} takes a number as length, not {type_name(count)}")
        first, many = _to_int64(start), _to_int64(count)
        if first < 0:
            raise MongoError(50752, f"{name} takes a start of at least 0, not {first}")
        if first < len(encoded) and encoded[first] & 0xC0 == 0x80:
            raise MongoError(28656, f"{name} begins in the middle of a character")
        end = len(encoded) if many < 0 else first + many
        if end < len(encoded) and encoded[end] & 0xC0 == 0x80:
            raise MongoError(28657, f"{name} ends in the middle of a character")
        return encoded[first:end].decode()


def _to_int64(number: Any) -> int:
    if isinstance(number, int):
        return int(number)
    if isinstance(number, float):
        return 0 if math.isnan(number) else int(min(max(number, float(INT64_MIN)), float(INT64_MAX)))
    decimal = decimal_of(number)
    if not decimal.is_finite():
        return INT64_MIN
    whole_number = int(decimal.to_integral_value(ROUND_HALF_EVEN))
    return min(max(whole_number, INT64_MIN), INT64_MAX)


_substring_of_bytes("$substr")
_substring_of_bytes("$substrBytes")


@function("$substrCP", 3)
def substring(text: Any, start: Any, count: Any) -> str:
    """`count` characters from the position `start`."""
    subject = _to_text(text)
    first = _whole_number(start, 34450, 34451)
    many = _whole_number(count, 34452, 34453)
    if many < 0:
        raise MongoError(34454, "$substrCP takes a length of at least 0")
    if first < 0:
        raise MongoError(34455, "$substrCP takes a start of at least 0")
    return subject[first : first + many]


def _whole_number(value: Any, code_type: int, code_whole: int) -> int:
    if not is_number(value):
        raise MongoError(code_type, f"$substrCP takes numbers, not {type_name(value)}")
    number = whole(value)
    if number is None or not INT32_MIN <= number <= INT32_MAX:
        raise MongoError(code_whole, "$substrCP takes whole numbers of 32 bits")
    return number


@function("$split", 2)
def split(text: Any, delimiter: Any) -> Any:
    """The parts between a delimiter."""
    if is_nullish(text) or is_nullish(delimiter):
        return None
    if not is_text(text):
        raise MongoError(
            40085, f"$split requires an expression that evaluates to a string, found: {type_name(text)}"
        )
    if not is_text(delimiter):
        raise MongoError(10503900, f"$split takes a text to split at, not {type_name(delimiter)}")
    if not delimiter:
        raise MongoError(40087, "$split requires a non-empty separator")
    spend_value(text)
    return text.split(delimiter)


def _finds(name: str, measure: Callable[[str], Any], code_text: int, code_part: int) -> None:
    @function(name, 2, 4)
    def work(text: Any, part: Any, *bounds: Any) -> Any:
        if is_nullish(text):
            return None
        if not is_text(text):
            raise MongoError(
                code_text, f"{name} requires a string as the first argument, found: {type_name(text)}"
            )
        if not is_text(part):
            raise MongoError(
                code_part, f"{name} requires a string as the second argument, found: {type_name(part)}"
            )
        numbers = []
        for bound in bounds:
            number = whole(bound)
            if number is None or not INT32_MIN <= number <= INT32_MAX:
                raise MongoError(40096, f"{name} takes whole numbers as bounds, not {type_name(bound)}")
            if number < 0:
                raise MongoError(40097, f"{name} takes bounds of at least 0")
            numbers.append(number)
        spend_value(text)
        subject, wanted = measure(text), measure(part)
        start = numbers[0] if numbers else 0
        end = numbers[1] if len(numbers) > 1 else len(subject)
        # Nothing begins at the very end. In letters, the bounds are for where it begins; in bytes, for all of it.
        place = subject.find(wanted, start)
        if not subject and not wanted and start == 0:
            return 0
        needed = len(wanted) if isinstance(subject, bytes) else 1
        return place if place < len(subject) and place + max(needed, 1) <= end else -1


_finds("$indexOfCP", lambda text: text, 40093, 40094)
_finds("$indexOfBytes", lambda text: text.encode(), 40091, 40092)


# --- Trimming ---

_SPACES: Final = "\0 \t\n\v\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_TRIM: Final = NamedArguments(50696, 50694, {"input": 50695}, ("chars",))


def _trims(name: str, work: Callable[[str, str], str]) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        parts = check_named_parts(name, spec, _TRIM)
        source = compile_value(parts["input"], scope)
        letters = compile_value(parts["chars"], scope) if "chars" in parts else None

        def evaluate(document: Any, variables: Variables) -> Any:
            text = source(document, variables)
            if is_nullish(text):
                return None
            if not is_text(text):
                raise MongoError(50699, f"{name} requires its input to be a string, got {type_name(text)}")
            spend_value(text)
            if letters is None:
                return work(text, _SPACES)
            chars = letters(document, variables)
            if is_nullish(chars):
                return None
            if not is_text(chars):
                raise MongoError(50700, f"{name} requires 'chars' to be a string, got {type_name(chars)}")
            # Python's own functions take an empty set of letters as it is: nothing is trimmed.
            return work(text, chars)

        return evaluate


_trims("$trim", lambda text, letters: text.strip(letters))
_trims("$ltrim", lambda text, letters: text.lstrip(letters))
_trims("$rtrim", lambda text, letters: text.rstrip(letters))


# --- Replacing ---

_REPLACE: Final = NamedArguments(51751, 51750, {"input": 51749, "find": 51748, "replacement": 51747})


def _replaces(name: str, most: int) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        parts = check_named_parts(name, spec, _REPLACE)
        source, find, replacement = (
            compile_value(parts[key], scope) for key in ("input", "find", "replacement")
        )

        def evaluate(document: Any, variables: Variables) -> Any:
            text, wanted, new = (part(document, variables) for part in (source, find, replacement))
            if not is_nullish(text) and not is_text(text):
                raise MongoError(
                    10503904, f"{name} requires that 'input' be a string, found: {type_name(text)}"
                )
            if not is_nullish(wanted) and not is_text(wanted):
                raise MongoError(
                    10503901,
                    f"{name} requires that 'find' be a string, found: {type_name(wanted)}",
                )
            if not is_nullish(new) and not is_text(new):
                raise MongoError(
                    10503902, f"{name} requires that 'replacement' be a string, found: {type_name(new)}"
                )
            if is_nullish(text) or is_nullish(wanted) or is_nullish(new):
                return None
            spend_value(text)
            return text.replace(wanted, new, most)

        return evaluate


_replaces("$replaceOne", 1)
_replaces("$replaceAll", -1)


# --- Regular expressions ---

_REGEX: Final = NamedArguments(51103, 31024, {"input": 31022, "regex": 31023}, ("options",))


def _read_pattern(name: str, pattern: Any, options: str) -> BoundedPattern:
    if isinstance(pattern, Regex | re.Pattern):
        text = pattern.pattern
        letters = option_letters(pattern.flags) or options
    else:
        text, letters = pattern, options
    if isinstance(text, bytes):
        text = text.decode()
    for letter in letters:
        if letter not in "imsxu":
            raise MongoError(51108, f"{name} invalid flag in regex options: {letters}")
    try:
        return compile_pattern(text, letters)
    except UnreadablePattern as error:
        raise MongoError(51111, f"Invalid Regex in {name}: {error}") from None


def _matches(name: str, work: Callable[[BoundedPattern, str], Any], otherwise: Callable[[], Any]) -> None:
    @syntax(name)
    def compiler(spec: Any, scope: Scope) -> Evaluate:
        parts = {
            key: compile_value(value, scope) for key, value in check_named_parts(name, spec, _REGEX).items()
        }

        def evaluate(document: Any, variables: Variables) -> Any:
            text, pattern = parts["input"](document, variables), parts["regex"](document, variables)
            options = parts["options"](document, variables) if "options" in parts else None
            if not is_nullish(pattern) and not (is_text(pattern) or isinstance(pattern, Regex | re.Pattern)):
                raise MongoError(51105, f"{name} needs 'regex' to be of type string or regex")
            if not is_nullish(options) and not is_text(options):
                raise MongoError(51106, f"{name} needs 'options' to be of type string")
            if is_text(pattern) and "\0" in pattern:
                raise MongoError(51109, f"{name}: regular expression cannot contain a null character")
            if is_text(options) and "\0" in options:
                raise MongoError(51110, f"{name}: regular expression options cannot contain a null character")
            if (
                isinstance(pattern, Regex | re.Pattern)
                and not is_nullish(options)
                and option_letters(pattern.flags)
            ):
                raise MongoError(
                    51107, f"{name} found regex option(s) specified in both 'regex' and 'options' fields"
                )
            ready = None if is_nullish(pattern) else _read_pattern(name, pattern, options or "")
            if not is_nullish(text) and not is_text(text):
                raise MongoError(51104, f"{name} needs 'input' to be of type string")
            if ready is None or is_nullish(text):
                return otherwise()
            return work(ready, text)

        return evaluate


def _match_document(match: re.Match[str]) -> dict[str, Any]:
    return {"match": match[0], "idx": match.start(), "captures": list(match.groups())}


def _first(pattern: BoundedPattern, text: str) -> Any:
    match = pattern.search(text)
    return None if match is None else _match_document(match)


def _all(pattern: BoundedPattern, text: str) -> list[dict[str, Any]]:
    matches = pattern.find_all(text)
    # PCRE's loop stops at the end: it finds no empty match there again.
    return [
        _match_document(match)
        for match in spend_per_element(matches)
        if match[0] or match.start() < len(text) or not text
    ]


_matches("$regexMatch", lambda pattern, text: pattern.search(text) is not None, lambda: False)
_matches("$regexFind", _first, lambda: None)
_matches("$regexFindAll", _all, list)
