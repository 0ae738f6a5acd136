"""One log tells one story: whatever is written through any way in is told by every way out, in the order of its commits.

Live and from the beginning, from any position, through restarts, compaction and a table that is dropped and made again.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Any

import pytest

from tests.one_story.story import TABLE, Model, steps
from tests.one_story.ways import WAYS, Way, connected, same

COMMITS = 24


@pytest.fixture
def path(tmp_path: Any) -> Any:
    return tmp_path / "story.db"


def play(chance: random.Random, ways: list[Way], model: Model, count: int, after: Any = None) -> None:
    """Random steps, each through a way in that can carry it."""
    for step in steps(chance, count):
        able = [way for way in ways if way.has_commits or len(step) == 1]
        way = chance.choice(able)
        way.write(step)
        model.apply(way.in_order(step))
        if after is not None:
            after()


@pytest.mark.parametrize("seed", range(3))
def test_every_way_out_tells_what_came_by_every_way_in(path, seed):
    chance, model = random.Random(seed), Model()
    with connected(path, WAYS) as (_, ways), ExitStack() as stack:
        waits = [(way, stack.enter_context(way.listening())) for way in ways]
        play(chance, ways, model, COMMITS)

        for way, wait in waits:
            same(way, model.told, wait(len(model.told)))
        for way in ways:
            if way.has_positions:
                same(way, model.told, way.since(way.beginning()))
            if (commits := way.commits()) is not None:
                assert (way.name, model.commits) == (way.name, commits)
            assert (way.name, model.documents) == (way.name, way.numbers())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_from_any_position_the_rest_is_told_also_after_a_restart(path, seed):
    chance, model = random.Random(seed), Model()
    positions: list[tuple[int, dict[str, Any]]] = []
    for _ in range(3):
        with connected(path, WAYS) as (_, ways):

            def remember(ways: list[Way] = ways) -> None:
                at = {way.name: way.position() for way in ways if way.has_positions}
                positions.append((len(model.told), at))

            remember()
            play(chance, ways, model, COMMITS // 3, remember)

    with connected(path, WAYS) as (_, ways):
        for count, at in positions:
            for way in ways:
                if way.has_positions:
                    same(way, model.told[count:], way.since(at[way.name]))


def test_after_compaction_what_is_kept_is_told_from_where_it_begins(path):
    chance, model = random.Random(7), Model()
    with connected(path, WAYS) as (db, ways):
        play(chance, ways, model, COMMITS)
        before = len(model.told)
        at = {way.name: way.position() for way in ways if way.has_positions}
        db.compact(keep=0)
        play(chance, ways, model, COMMITS)

        for way in ways:
            if way.has_positions:
                same(way, model.told[before:], way.since(at[way.name]))
        assert model.documents == {document["_id"]: document["n"] for document in db.table(TABLE)}


def test_a_table_that_is_dropped_and_made_again_begins_anew(path):
    chance, model = random.Random(11), Model()
    with connected(path, WAYS) as (db, ways):
        play(chance, ways, model, COMMITS // 2)
        db.table_drop(TABLE)
        db.table_create(TABLE, primary_key="_id")
        for way in ways:
            way.begin()
        model.clear()
        play(chance, ways, model, COMMITS // 2)

        for way in ways:
            if way.has_positions:
                same(way, model.told, way.since(way.beginning()))
        assert model.documents == {document["_id"]: document["n"] for document in db.table(TABLE)}


@pytest.mark.slow
def test_spark_writes_and_reads_the_same_story(path, spark):
    from tests.one_story.spark_way import Spark

    chance, model = random.Random(5), Model()
    with connected(path, [*WAYS, Spark]) as (db, ways):
        Spark.session = spark
        other = ways[-1]
        for step in steps(chance, 12):
            able = [way for way in ways if way.has_commits or len(step) == 1]
            # Spark writes every other step: each of its writes is a job.
            way = other if chance.random() < 0.5 else chance.choice(able)
            way.write(step)
            model.apply(way.in_order(step))

        for way in ways:
            if way.has_positions:
                same(way, model.told, way.since(way.beginning()))
        assert model.documents == {document["_id"]: document["n"] for document in db.table(TABLE)}
