"""Laws: after each commit, a live result is its query, its edits lead from answer to answer, and an observation is its function
called again."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import desc, row
from reactdb.feeds.difference import compute_difference, identify
from reactdb.feeds.livelist import apply
from tests.support.feed_kinds import ROWS, act, do, little_room, prepare, some_writes
from tests.support.replica import exactly
from tests.support.scaling import examples

SCRIPTS = st.lists(some_writes(4), max_size=6)

# Selections that never fail on a document.
ASKED: list[Any] = [
    lambda t: t,
    lambda t: t.filter(row["a"] == 1),
    lambda t: t.filter({"v": 1}),
    lambda t: t.get_all(0, 1, "a"),
    lambda t: t.get_all(1, 2, index="a"),
    lambda t: t.between(1, 3, index="a"),
    lambda t: t.between(1, 5),
    lambda t: t.order_by(index="a"),
    lambda t: t.order_by(index=desc("a")).limit(3),
    lambda t: t.order_by(desc("v")).limit(2),
    lambda t: t.distinct("v"),
    lambda t: t.group("v").count(),
    lambda t: t.limit(2),
    lambda t: t.filter(row["v"] == 0).union(t.filter(row["v"] == 1)),
]
VALUES: list[Any] = [
    lambda t: t.get(1),
    lambda t: t.count(),
    lambda t: t.filter(row["a"] == 1).count(),
    lambda t: t.sum("v"),
    lambda t: t.max("v"),
    lambda t: t.between(1, 3, index="a").count(),
]


def read_by_a_flag(db: Any) -> Any:
    """What it reads depends on what it has read."""
    games = db.table("games")
    flag = games.get(0).run()
    if flag is None:
        return db.table("others").count().run()
    if flag.get("v") == 1:
        return games.order_by(index="a").limit(2).run()
    return [games.get(key).run() for key in (1, 2, "a")]


OBSERVED: list[Any] = [
    read_by_a_flag,
    *[lambda db, ask=ask: ask(db.table("games")).run() for ask in (*ASKED, *VALUES)],
    lambda db: db.table_list(),
    lambda db: db.table("games").get_all(*[]).run(),
    lambda db: db.table("games").filter(reactdb.row["id"].is_in([0, 2, 5])).run(),
    lambda db: db.table("games").order_by(index="a").limit(2).run(),
    lambda db: (db.table("games").get(1).run(), db.table("others").get(1).run()),
    lambda db: db.seq,
]


@settings(max_examples=examples(40))
@given(
    ask=st.sampled_from(ASKED),
    then=st.sampled_from(ASKED),
    rows=ROWS,
    script=SCRIPTS,
    switch_at=st.integers(0, 6),
)
def test_a_live_list_is_its_query_and_its_edits_lead_from_answer_to_answer(
    ask: Any, then: Any, rows: list[Any], script: list[Any], switch_at: int
) -> None:
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        games = db.table("games")
        with ask(games).live() as board:
            model = list(board)

            def take(edits: Any) -> None:
                for edit in edits:
                    if edit["old_offset"] is not None:
                        assert exactly(model[edit["old_offset"]]) == exactly(edit["old_val"])
                    apply(edit, model)

            board.subscribe(take)
            for number, writes in enumerate(script):
                if number == switch_at:
                    board.selection = then(games)
                act(db, writes)
                asked = board.selection
                assert exactly(model) == exactly(list(board))
                assert sorted(map(repr, map(exactly, board))) == sorted(map(repr, map(exactly, asked.run())))
                assert "live" == board.state


@settings(max_examples=examples(30))
@given(ask=st.sampled_from(VALUES), rows=ROWS, script=SCRIPTS)
def test_a_live_value_is_its_query(ask: Any, rows: list[Any], script: list[Any]) -> None:
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        with ask(db.table("games")).live() as one:
            heard = [one.value]
            one.subscribe(heard.append)
            for writes in script:
                act(db, writes)
                assert exactly(ask(db.table("games")).run()) == exactly(one.value) == exactly(heard[-1])


@settings(max_examples=examples(120))
@given(function=st.sampled_from(OBSERVED), rows=ROWS, script=SCRIPTS)
def test_an_observation_is_its_function_called_again(
    function: Any, rows: list[Any], script: list[Any]
) -> None:
    with little_room(), reactdb.connect(":memory:") as db:
        prepare(db)
        do(db, ("insert", rows))
        with db.observe(function) as observation:
            heard = [observation.value]
            observation.subscribe(heard.append)
            for writes in script:
                act(db, writes)
                assert exactly(function(db)) == exactly(observation.value) == exactly(heard[-1])


KEYED = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1)), max_size=7, unique_by=lambda pair: pair[0])


@settings(max_examples=examples(100))
@given(before=KEYED, after=KEYED)
def test_the_difference_leads_from_one_list_to_the_other_and_moves_few(before: Any, after: Any) -> None:
    old = [{"id": key, "v": v} for key, v in before]
    new = [{"id": key, "v": v} for key, v in after]
    edits = compute_difference(old, new, identify(old, "id"), identify(new, "id"))
    model = list(old)
    for edit in edits:
        if edit["old_offset"] is not None:
            assert model[edit["old_offset"]] == edit["old_val"]
        apply(edit, model)
        assert len(model) <= max(len(old), len(new))

    assert new == model
    kept = {one["id"] for one in old} & {one["id"] for one in new}
    if [one["id"] for one in old if one["id"] in kept] == [one["id"] for one in new if one["id"] in kept]:
        # Nothing has changed its place among the others: what came, what went and what changed is told, and no more.
        unchanged = sum(one in new for one in old)
        assert len(edits) == len(old) + len(new) - len(kept) - unchanged
