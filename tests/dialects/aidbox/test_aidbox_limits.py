"""What a request to Aidbox's dialect may cost: work that has no bound of its own ends with its budget."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import reactdb
from reactdb import budget
from reactdb.budget import CALL_STEPS, Budget, Stopped, WritesTooLong
from reactdb.dialects.aidbox.errors import AidboxError
from reactdb.servers.aidbox.media_types import read_body, render

YAML = {"content-type": "text/yaml", "accept": "text/yaml"}


class StepsBudget(Budget):
    """One of so many steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise Stopped


@contextmanager
def in_force(one: Budget) -> Iterator[None]:
    outer = budget.current.set(one)
    try:
        yield
    finally:
        budget.current.reset(outer)


@pytest.fixture
def box() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        yield reactdb.aidbox(db)


def bundle_of(kind: str, count: int) -> dict[str, Any]:
    entries = [
        {"request": {"method": "POST", "url": "Patient"}, "resource": {"id": f"p{number}"}}
        for number in range(count)
    ]
    return {"type": kind, "entry": entries}


def test_a_patch_that_doubles_what_is_there_again_and_again(box: Any) -> None:
    """Forty operations of a few bytes would fill all memory."""
    box["Patient"].create({"id": "a", "x": ["y"]})
    doubling = [{"op": "copy", "from": "/x", "path": "/x/-"} for _ in range(40)]

    with in_force(StepsBudget(200_000)), pytest.raises(Stopped):
        box["Patient"].patch("a", doubling)

    assert ["y"] == box["Patient"].read("a")["x"]


def test_a_transaction_that_holds_others_up_for_too_long_writes_nothing(
    box: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "MOST_WRITING_S", 0.0)

    with in_force(Budget()), pytest.raises(WritesTooLong):
        box.bundle(bundle_of("transaction", 1_000))

    assert [] == box.types()


def test_without_a_server_a_transaction_may_be_of_any_size(box: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_WRITING_S", 0.0)

    assert 1_000 == len(box.bundle(bundle_of("transaction", 1_000))["entry"])


def test_of_a_batch_that_is_cut_off_the_first_entries_stay(box: Any) -> None:
    box.bundle(bundle_of("batch", 1))

    with in_force(StepsBudget(4_000)), pytest.raises(Stopped):
        box.bundle({**bundle_of("batch", 50), "entry": bundle_of("batch", 50)["entry"][1:]})

    assert 1 < box["Patient"].search(None, total="accurate")["total"] < 50


def test_yaml_that_is_read_or_written_spends_the_budget() -> None:
    text = b"a: [" + b"1, " * 2_000 + b"1]"
    with in_force(StepsBudget(10_000)), pytest.raises(Stopped):
        read_body(text, YAML)

    with in_force(StepsBudget(10_000)), pytest.raises(Stopped):
        render({"a": [1] * 2_000}, YAML)


@pytest.mark.parametrize(
    ("begin", "end", "calls"),
    [(b"[", b"]", 200), (b"{a: ", b"}", 500), (b"[{a: ", b"}]", 400), (b"- ", b"", 500)],
)
def test_yaml_that_is_nested_too_deep_is_refused_before_it_is_read_to_its_end(
    begin: bytes, end: bytes, calls: int
) -> None:
    """In brackets, PyYAML would first read 1,024 characters ahead at each level, which takes more calls than these."""
    text = begin * 20_000 + b"1" + end * 20_000

    with (
        in_force(StepsBudget(calls * CALL_STEPS)),
        pytest.raises(AidboxError, match="nested more than 150 levels"),
    ):
        read_body(text, YAML)
