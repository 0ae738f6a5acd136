"""The law of models: whatever is written, the model has the list that the query gives; what is selected stays selected."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import reactdb
from reactdb import desc, row
from reactdb.qt import FeedModel
from reactdb.qt import models as models_module
from reactdb.qt import row_steps as row_steps_module
from reactdb.qt.row_steps import (
    Rearrangement,
    RowChanged,
    RowMoved,
    RowsInserted,
    RowsRemoved,
    steps_between,
)
from tests.qt.window import QtCore, application, check, documents, run_until

KEYS = st.integers(0, 11)
DOCUMENTS = st.builds(lambda key, score: {"id": key, "score": score}, KEYS, st.integers(0, 5))
COMMITS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(DOCUMENTS, min_size=1, max_size=8)),
        st.tuples(st.just("delete"), st.lists(KEYS, min_size=1, max_size=4)),
        st.tuples(st.just("follow"), st.integers(0, 3)),
    ),
    max_size=6,
)


@pytest.fixture(autouse=True, scope="module")
def app():
    return application()


def is_settled(model: Any, selection: Any) -> bool:
    return model.state == "live" and documents(model) == selection.run()


def selections_of(games: Any) -> list[Any]:
    return [
        games.order_by("score"),
        games.order_by(desc("score")).limit(4),
        games.filter(row["score"] > 2),
        games,
    ]


@pytest.mark.parametrize("most_steps", [200, 2], ids=["step by step", "rearranged"])
def test_the_model_has_the_list_that_the_query_gives(most_steps, monkeypatch):
    monkeypatch.setattr(row_steps_module, "MOST_STEPS", most_steps)
    # Commits are taken at once, and not in the next frame.
    monkeypatch.setattr(models_module, "FRAME_MS", 0)

    @seed(20261128)
    @settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(COMMITS)
    def law(commits):
        with reactdb.connect(":memory:") as db:
            games = db.table_create("games")
            games.insert([{"id": key, "score": key % 4} for key in range(8)])
            selection = selections_of(games)[0]
            model = FeedModel(selection, ["score"])
            run_until(lambda: model.state == "live")
            tester = check(model)
            # Persistent indexes stand for what a user has selected.
            marks = {
                model.key(at): QtCore.QPersistentModelIndex(model.index(at, 0))
                for at in range(model.rowCount())
            }
            for kind, value in commits:
                if kind == "put":
                    games.insert(value, conflict="replace")
                elif kind == "delete":
                    games.get_all(*value).delete()
                else:
                    model.selection = selection = selections_of(games)[value]
                run_until(partial(is_settled, model, selection))
                for key, mark in list(marks.items()):
                    if model.row_of(key) < 0:
                        assert not mark.isValid()
                        del marks[key]
                    else:
                        assert key == model.key(mark.row())
            model.close()
            del tester

    law()


LISTS = st.lists(DOCUMENTS, max_size=12, unique_by=lambda document: document["id"])


def carry_out(steps: list[Any], rows: list[Any]) -> list[Any]:
    for step in steps:
        if isinstance(step, RowsInserted):
            rows[step.row : step.row] = step.documents
        elif isinstance(step, RowsRemoved):
            del rows[step.row : step.row + step.number]
        elif isinstance(step, RowMoved):
            rows.insert(step.new_row, rows.pop(step.old_row))
        elif isinstance(step, RowChanged):
            rows[step.row] = step.document
        else:
            rows = carry_out_rearrangement(step, rows)
    return rows


def carry_out_rearrangement(step: Rearrangement, rows: list[Any]) -> list[Any]:
    placed: list[Any] = [None] * len(step.documents)
    for old, place in zip([*rows, *step.arriving], step.places, strict=True):
        if place is not None:
            placed[place] = old
    assert step.leaving == [row for row, place in enumerate(step.places) if place is None]
    for first, last in step.changed:
        placed[first : last + 1] = step.documents[first : last + 1]
    assert placed == step.documents
    return placed


@pytest.mark.parametrize("most_steps", [200, 0])
def test_steps_lead_from_any_list_to_any_other(most_steps, monkeypatch):
    monkeypatch.setattr(row_steps_module, "MOST_STEPS", most_steps)

    @seed(20261128)
    @settings(max_examples=100, deadline=None, database=None)
    @given(LISTS, LISTS)
    def law(old, new):
        assert new == carry_out(steps_between(list(old), list(new), "id", "id"), list(old))

    law()
