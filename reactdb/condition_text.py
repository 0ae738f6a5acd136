"""Conditions as typed into a shell: text in, an Expression out. No part of the text is ever executed.

    score>10        player=Bob        room=5 and score>=3        not (address.city="New York" or vip=true)

    condition   = conjunction { "or" conjunction }
    conjunction = test { "and" test }
    test        = "not" test | "(" condition ")" | field comparison value
    field       = name { "." name }                    name: a word, or quoted where it is not one
    comparison  = "=" | "==" | "!=" | "<" | "<=" | ">" | ">="
    value       = a word | "in quotes, as JSON" | 'in quotes, as it is'

A word that JSON reads as a number, `true`, `false` or `null` has that value, and any other word is a string: so `007` and
`2013-01-01` are strings, as they are in CSV. A comparison means what the same expression means in Python: it
follows the one order of all values.

A comparison with a missing field is false, also inside an `or`. ReQL would abandon the whole condition there, which does
not help a search.

Rule of this file: it knows words and expressions, and neither files nor options. Every error names its position, from 1.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from reactdb.errors import QueryError, UsageError
from reactdb.expression import Expression, row

# An expression tree may have 200 levels; a level of parentheses takes up to three of them, and a name one.
MAX_LEVELS: Final = 20
MAX_NAMES: Final = 50

KEYWORDS: Final = ("and", "or", "not")
CONSTANTS: Final = {"true": True, "false": False, "null": None}

COMPARISONS: Final[dict[str, Callable[[Expression, Any], Any]]] = {
    "=": lambda field, value: field == value,
    "==": lambda field, value: field == value,
    "!=": lambda field, value: field != value,
    "<": lambda field, value: field < value,
    "<=": lambda field, value: field <= value,
    ">": lambda field, value: field > value,
    ">=": lambda field, value: field >= value,
}

_SPACE: Final = re.compile(r"\s*")
_COMPARISON: Final = re.compile(r"[=!<>]+")
_NAME: Final = re.compile(r"""[^\s().=!<>"']+""")
_WORD: Final = re.compile(r"""[^\s()=!<>"']+""")
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_JSON: Final = json.JSONDecoder()


def parse_condition(text: str) -> Expression:
    """The expression of the text.

    Raises:
        QueryError: It is not a condition; the message names the position.
    """
    reader = _ConditionReader(text)
    condition = reader.condition(0)
    reader.finish("`and`, `or` or the end")
    return condition


def parse_field(text: str) -> Expression:
    """The field of a name, or of several names with dots between them.

    Raises:
        QueryError: The text is not a field; the message names the position.
    """
    reader = _ConditionReader(text)
    start = reader.place
    names = reader.names()
    reader.finish("a dot or the end")
    return reader.build_at(start, lambda: _field(names))


def _field(names: list[str]) -> Expression:
    field = row[names[0]]
    for name in names[1:]:
        field = field[name]
    return field


def _compare(names: list[str], comparison: str, value: Any) -> Expression:
    """The comparison, after a test that each part of the path is an object.

    In ReQL, brackets after a number are an error, and after a list they mean each of its elements.
    """
    test: Any = COMPARISONS[comparison](_field(names), value)
    for count in range(len(names) - 1, 0, -1):
        test = (_field(names[:count]).type_of() == "OBJECT") & test
    return test  # type: ignore[no-any-return]


class _ConditionReader:
    """Reads the text from its present position: one method for each line of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.place = 0
        self._skip_space()

    # -----------------------------------------------------------------------------------------------------------
    # The grammar

    def condition(self, level: int) -> Expression:
        condition = self._conjunction(level)
        if not self._take_keyword("or"):
            return condition
        # Each side has its own default, so that a field missing on one side does not decide about the other.
        condition = condition.default(False) | self._conjunction(level).default(False)
        while self._take_keyword("or"):
            condition = condition | self._conjunction(level).default(False)
        return condition

    def _conjunction(self, level: int) -> Expression:
        condition = self._test(level)
        while self._take_keyword("and"):
            condition = condition & self._test(level)
        return condition

    def _test(self, level: int) -> Expression:
        if level == MAX_LEVELS:
            self._fail(f"more than {MAX_LEVELS} levels of parentheses and `not`")
        if self._take_keyword("not"):
            return ~self._test(level + 1).default(False)
        if self._take("("):
            condition = self.condition(level + 1)
            if not self._take(")"):
                self._expect("`and`, `or` or `)`")
            return condition
        start = self.place
        names = self.names()
        comparison = self._comparison()
        value = self._value()
        return self.build_at(start, lambda: _compare(names, comparison, value))

    def names(self) -> list[str]:
        names = [self._name()]
        while self._take("."):
            names.append(self._name())
            if len(names) > MAX_NAMES:
                self._fail(f"more than {MAX_NAMES} names")
        return names

    def _name(self) -> str:
        if self._text[self.place : self.place + 1] in ('"', "'"):
            return self._read_quoted()
        match = _NAME.match(self._text, self.place)
        if match is None or match[0] in KEYWORDS:
            self._expect("a field")
        self._move(match.end())
        return match[0]

    def _comparison(self) -> str:
        match = _COMPARISON.match(self._text, self.place)
        if match is None or match[0] not in COMPARISONS:
            self._expect("one of = != < <= > >=")
        self._move(match.end())
        return match[0]

    def _value(self) -> Any:
        if self._text[self.place : self.place + 1] in ('"', "'"):
            return self._read_quoted()
        match = _WORD.match(self._text, self.place)
        if match is None or match[0] in KEYWORDS:
            self._expect("a value")
        value = self._value_of_word(match[0])
        self._move(match.end())
        return value

    def _value_of_word(self, word: str) -> Any:
        if word in CONSTANTS:
            return CONSTANTS[word]
        if _INTEGER.fullmatch(word):
            try:
                return int(word)
            except ValueError:
                # Python refuses more than 4,300 digits, because the time grows with their square.
                self._fail(f"a number of {len(word):,} digits")
        if _FLOAT.fullmatch(word):
            number = float(word)
            if math.isinf(number):
                self._fail(f"{self._describe_next()} is beyond the range of a float")
            return number
        return word

    def _read_quoted(self) -> str:
        if self._text[self.place] == '"':
            try:
                value, end = _JSON.raw_decode(self._text, self.place)
            except json.JSONDecodeError as error:
                self.place = error.pos
                self._fail(f"in quotes: {error.msg.removesuffix(' at').lower()}")
        else:
            end = self._text.find("'", self.place + 1) + 1
            if not end:
                self._fail("the quote is not closed")
            value = self._text[self.place + 1 : end - 1]
        self._move(end)
        return str(value)

    # -----------------------------------------------------------------------------------------------------------
    # The position

    def _move(self, place: int) -> None:
        self.place = place
        self._skip_space()

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self.place)
        assert match is not None
        self.place = match.end()

    def _take(self, sign: str) -> bool:
        if not self._text.startswith(sign, self.place):
            return False
        self._move(self.place + len(sign))
        return True

    def _take_keyword(self, keyword: str) -> bool:
        match = _WORD.match(self._text, self.place)
        return match is not None and match[0] == keyword and self._take(keyword)

    # -----------------------------------------------------------------------------------------------------------
    # Errors

    def finish(self, expected: str) -> None:
        """Raises: QueryError, if there is more text."""
        if self.place < len(self._text):
            self._expect(expected)

    def build_at(self, start: int, build: Callable[[], Expression]) -> Expression:
        """The result of `build`; the position is added to its error."""
        try:
            return build()
        except UsageError as error:
            self.place = start
            self._fail(str(error))

    def _describe_next(self) -> str:
        match = _WORD.match(self._text, self.place) or _COMPARISON.match(self._text, self.place)
        word = self._text[self.place : self.place + 1] if match is None else match[0]
        return f"`{word if len(word) <= 40 else word[:39] + '…'}`" if word else "the end"

    def _expect(self, expected: str) -> NoReturn:
        self._fail(f"expected {expected} but found {self._describe_next()}")

    def _fail(self, sentence: str) -> NoReturn:
        raise QueryError(f"position {self.place + 1}: {sentence}")
