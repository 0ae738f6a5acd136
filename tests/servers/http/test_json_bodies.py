"""JSON that is decoded in pieces is the value that `json.loads` gives, also where it is malformed, and it gives way."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from reactdb import budget
from reactdb.budget import Budget, Stopped
from reactdb.errors import ResourceLimit
from reactdb.servers.http import json_bodies
from reactdb.servers.http.json_bodies import decode_json

SCALARS = (
    1,
    -5,
    10**30,
    1.5,
    1e300,
    -0.0,
    True,
    False,
    None,
    "",
    'a"b',
    "\\",
    "[{",
    "y" * 40,
    "\ud800",
    "é€😀",
)
DAMAGES = (*',"}][{:1x\\ ', "")


def any_value(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(9)
    if kind < 2 and depth:
        return [any_value(chance, depth - 1) for _ in range(chance.randrange(6))]
    if kind < 4 and depth:
        names = ("a", "b", 'é"', "\\", "x" * chance.randrange(60))
        return {chance.choice(names): any_value(chance, depth - 1) for _ in range(chance.randrange(6))}
    return chance.choice(SCALARS)


def outcome(decode: Any, text: str) -> str | None:
    """As text, because NaN and -0.0 are told apart so; None for what is refused."""
    try:
        return repr(decode(text))
    except ValueError:
        return None


@pytest.mark.parametrize("window", [1, 2, 3, 5, 8, 40])
def test_pieces_give_what_json_gives(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_bodies, "SHORT", 0)
    monkeypatch.setattr(json_bodies, "WINDOW", window)
    chance = random.Random(window)
    for _ in range(2_000):
        text = json.dumps(
            any_value(chance, 5), ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1])
        )
        if chance.random() < 0.5:
            place = chance.randrange(len(text))
            text = text[:place] + chance.choice(DAMAGES) + text[place + chance.randrange(3) :]

        assert outcome(json.loads, text) == outcome(decode_json, text), text


def test_a_text_that_is_nested_too_deep_is_refused_as_json_refuses_it() -> None:
    with pytest.raises(RecursionError):
        decode_json("[" * 300_000)


def test_a_long_text_spends_the_budget() -> None:
    spent = Budget(0)
    outer = budget.current.set(spent)
    try:
        with pytest.raises(Stopped):
            decode_json("[" + "[]," * 500_000 + "[]]")
    finally:
        budget.current.reset(outer)


def test_brackets_in_strings_are_not_counted() -> None:
    text = json.dumps({"text": "[{" * 600_000, "quotes": '\\"[{' * 10})

    assert json.loads(text) == decode_json(text)


def test_more_objects_than_python_handles_well_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_bodies, "SHORT", 0)
    monkeypatch.setattr(json_bodies, "MOST_CONTAINERS", 20)
    most = "{" + ",".join(f'"{number}":{{}}' for number in range(19)) + ',"]":"[{"}'

    assert json.loads(most) == decode_json(most)
    with pytest.raises(ResourceLimit, match="more than 20 objects and arrays"):
        decode_json(f"[{most}]")
