"""Random values as JSON has them, and random changes of values and of bytes.

Deep nesting is a value of its own here (`Deep`): written as text it has as many levels as it says,
and no Python object of so many
levels is ever made.

Rule of this file: a function of the random numbers that it is given, and of nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

LEVELS = (50, 99, 100, 101, 199, 200, 201, 400, 500, 700, 900, 990, 1_000, 1_500, 5_000)
NUMBERS = (
    0, 1, -1, 2, 7, 100, 1.5, -0.0, 1e-9, 1e300, -1e300, 5e-324, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**53 + 1,
    2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 10**400,
)  # fmt: skip
TEXTS = (
    "", " ", "a", "id", "_id", "é", "\0", "a\0b", "\ud800", "\U0010ffff", "a.b", ".", "..", "a..b", "$", "$a", "_a", "/",
        "0", "1",
    "-1", "true", "null", "nan", "1e999", "9" * 5_000, "x" * 300, "(", "[", "\\", "*", "%", '"', "'", "\n", "\r\n", "{}", "[]",
    "2013-01-01T10:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "now", "1-a", "0-0", "1-" + "a" * 32,
)  # fmt: skip


class Deep:
    """Arrays or objects inside of each other, of so many levels."""

    def __init__(self, levels: int, *, is_object: bool) -> None:
        self.levels = levels
        self.is_object = is_object

    def text(self) -> str:
        if self.is_object:
            return '{"a":' * self.levels + "1" + "}" * self.levels
        return "[" * self.levels + "]" * self.levels


def scalar(random: Random, texts: Sequence[str] = TEXTS) -> Any:
    kind = random.randrange(10)
    if kind < 4:
        return random.choice(texts)
    if kind < 7:
        return random.choice(NUMBERS)
    return random.choice((None, True, False))


def value(random: Random, texts: Sequence[str] = TEXTS, names: Sequence[str] = TEXTS, depth: int = 3) -> Any:
    """A value that JSON has, or a Deep."""
    kind = random.randrange(12)
    if kind == 0:
        return Deep(random.choice(LEVELS), is_object=random.random() < 0.5)
    if kind < 6 or depth == 0:
        return scalar(random, texts)
    count = random.choice((0, 1, 1, 2, 3))
    if kind < 9:
        return [value(random, texts, names, depth - 1) for _ in range(count)]
    return {random.choice(names): value(random, texts, names, depth - 1) for _ in range(count)}


def changed(found: Any, random: Random, make: Callable[[Random], Any]) -> Any:
    """The value with one change somewhere in it. `make`: gives what is put into it."""
    kind = random.randrange(8)
    if isinstance(found, dict) and found and kind:
        name = random.choice(list(found))
        if kind == 1:
            return {known: inner for known, inner in found.items() if known != name}
        if kind == 2:
            other = make(random)
            # BSON's code is a text, too, and no key.
            return {**found, other if type(other) is str else name: make(random)}
        return {**found, name: changed(found[name], random, make)}
    if isinstance(found, list) and found and kind:
        place = random.randrange(len(found))
        if kind == 1:
            return found[:place] + found[place + 1 :]
        if kind == 2:
            return [*found, make(random)]
        return [*found[:place], changed(found[place], random, make), *found[place + 1 :]]
    if kind == 7 and not isinstance(found, Deep):
        return random.choice(([found], {"a": found}, [found, found]))
    return make(random)


def much_changed(found: Any, random: Random, make: Callable[[Random], Any]) -> Any:
    """The same with none, one or several changes; mostly with one."""
    for _ in range(random.choice((0, 1, 1, 1, 2, 4))):
        found = changed(found, random, make)
    return found


def json_text(found: Any, separators: tuple[str, str] = (",", ":")) -> str:
    """The value as JSON; a Deep with all its levels."""
    held: list[Deep] = []

    def put(deep: Any) -> Any:
        held.append(deep)
        return f"<deep {len(held) - 1}>"

    text = json.dumps(found, default=put, separators=separators)
    for number, deep in enumerate(held):
        text = text.replace(f'"<deep {number}>"', deep.text(), 1)
    return text


def mutated(data: bytes, random: Random, words: Sequence[bytes], others: Sequence[bytes] = ()) -> bytes:
    """Bytes with a few changes. `others`: inputs of which a part may be put into this one."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        place, kind = random.randrange(len(found) + 1), random.randrange(9)
        end = min(len(found), place + random.choice((1, 1, 2, 4, 16, 64)))
        if kind == 0 and found:
            found[place % len(found)] ^= 1 << random.randrange(8)
        elif kind == 1 and found:
            found[place % len(found)] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
        elif kind == 2:
            del found[place:end]
        elif kind == 3:
            found[place:place] = found[place:end] * random.choice((1, 1, 2, 100))
        elif kind == 4 and words:
            found[place:place] = random.choice(words)
        elif kind == 5 and words:
            found[place:end] = random.choice(words)
        elif kind == 6:
            del found[place:]
        elif kind == 7 and others:
            other = random.choice(others)
            begin = random.randrange(len(other) + 1)
            found[place:end] = other[begin : begin + random.choice((4, 16, 64, 1_000))]
        else:
            found[place:place] = random.randbytes(random.choice((1, 2, 4, 8)))
    return bytes(found[:100_000])
