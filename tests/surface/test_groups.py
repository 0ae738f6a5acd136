"""group and distinct of several fields and of an index, several aggregates at once, and steps on the list of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import reactdb
from reactdb import desc, r, row
from reactdb.aggregates import avg, count
from reactdb.aggregates import max as greatest
from reactdb.aggregates import min as least
from reactdb.aggregates import sum as total
from reactdb.errors import IndexNotFound, QueryError, UnsupportedFeed, UsageError


@pytest.fixture
def games(db: reactdb.Database) -> reactdb.Table:
    games = db.table_create("games")
    games.index_create("team")
    games.index_create("team_year", [row["team"], row["year"]])
    games.index_create("tags", multi=True)
    games.insert(
        [
            {"id": 1, "team": "red", "year": 1, "score": 5, "tags": ["x", "y", None]},
            {"id": 2, "team": "red", "year": 2, "score": 7, "tags": ["y"]},
            {"id": 3, "team": "blue", "year": 1, "score": 1, "tags": "z"},
            {"id": 4, "team": "blue", "year": 1},
            {"id": 5, "team": "red", "year": 2, "score": 7.0},
            {"id": 6, "score": 2, "team": None},
        ]
    )
    return games


class TestFields:
    def test_several_fields_make_a_list_of_values_with_none_for_a_missing_one(
        self, games: reactdb.Table
    ) -> None:
        expected = [
            {"group": ["blue", 1], "reduction": 2},
            {"group": [None, None], "reduction": 1},
            {"group": ["red", 1], "reduction": 1},
            {"group": ["red", 2], "reduction": 2},
        ]

        found = games.group("team", "year").count().run()

        assert sorted(found, key=repr) == sorted(expected, key=repr)

    @pytest.mark.parametrize(
        "fields", [("team", "year"), (["team", "year"],), (("team", row["year"]),), ("team", ["year"])]
    )
    def test_a_list_of_fields_counts_as_those_fields(
        self, games: reactdb.Table, fields: tuple[Any, ...]
    ) -> None:
        assert games.group("team", "year").count().run() == games.group(*fields).count().run()
        assert games.distinct("team", "year").run() == games.distinct(*fields).run()

    def test_a_list_of_one_field_counts_as_that_field(self, games: reactdb.Table) -> None:
        assert games.group("team").count().run() == games.group(["team"]).count().run()
        assert games.distinct("team").run() == games.distinct(["team"]).run()

    def test_distinct_of_several_fields_has_the_documents_with_all_of_them(
        self, games: reactdb.Table
    ) -> None:
        assert games.distinct(["team", "year"]).run() == [["blue", 1], ["red", 1], ["red", 2]]

    def test_distinct_without_fields_has_the_documents(self, games: reactdb.Table) -> None:
        assert games.pluck("team").distinct().count().run() == 3


class TestIndexes:
    def test_distinct_of_an_index_has_its_values_in_order(self, games: reactdb.Table) -> None:
        assert games.distinct(index="team").run() == ["blue", "red"]
        assert games.distinct(index="team_year").run() == [["blue", 1], ["red", 1], ["red", 2]]
        assert games.distinct(index="id").run() == [1, 2, 3, 4, 5, 6]

    def test_distinct_of_a_multi_index_has_the_elements(self, games: reactdb.Table) -> None:
        assert games.distinct(index="tags").run() == ["x", "y", "z"]

    def test_a_range_of_the_index_and_filters_may_come_before(self, games: reactdb.Table) -> None:
        assert games.between("c", "z", index="team").distinct(index="team").run() == ["red"]
        assert games.filter(row["score"] < 2).distinct(index="team").run() == ["blue"]

    def test_group_of_an_index_leaves_out_documents_that_are_not_in_it(self, games: reactdb.Table) -> None:
        assert games.group(index="team").count().run() == [
            {"group": "blue", "reduction": 2},
            {"group": "red", "reduction": 3},
        ]

    def test_a_feed_of_the_values_of_an_index_follows(self, games: reactdb.Table) -> None:
        events: list[Any] = []
        subscription = games.distinct(index="team").changes(include_initial=True).subscribe(events.append)

        games.insert([{"id": 7, "team": "green"}, {"id": 8}])
        subscription.dispose()

        assert events == [{"new_val": "blue"}, {"new_val": "red"}, {"old_val": None, "new_val": "green"}]


class TestSeveralAggregates:
    def test_they_are_one_dict(self, games: reactdb.Table) -> None:
        assert games.filter(row["team"] == "red").aggregate(
            n=count(),
            points=total("score"),
            mean=avg(lambda game: game["score"]),
            best=greatest("score"),
            worst=least(row["score"]),
        ).run() == {
            "n": 3,
            "points": 19.0,
            "mean": 19 / 3,
            "best": games.get(2).run(),
            "worst": games.get(1).run(),
        }

    def test_r_has_them_too(self, games: reactdb.Table) -> None:
        by_function = games.aggregate(
            n=count(), a=total("score"), b=total(row["score"] * 2), c=greatest("score")
        )
        by_term = games.aggregate(n=r.count(), a=r.sum("score"), b=r.sum(row["score"] * 2), c=r.max("score"))

        assert by_function.run() == by_term.run()

    def test_each_equals_the_aggregate_alone(self, games: reactdb.Table) -> None:
        assert games.group("team").aggregate(n=r.count(), points=r.sum("score")).run() == [
            {"group": one["group"], "reduction": {"n": one["reduction"], "points": other["reduction"]}}
            for one, other in zip(games.group("team").count(), games.group("team").sum("score"), strict=True)
        ]

    def test_of_no_documents_they_are_those_of_nothing(self, db: reactdb.Database) -> None:
        empty = db.table_create("empty")

        assert empty.aggregate(n=r.count(), s=r.sum("a"), m=r.avg("a"), least=r.min("a")).run() == {
            "n": 0,
            "s": 0,
            "m": None,
            "least": None,
        }

    def test_a_table_of_many_parts_is_read_once(self, db: reactdb.Database) -> None:
        numbers = db.table_create("numbers")
        numbers.insert({"id": number, "v": (number * 7919) % 1000} for number in range(1000))

        assert numbers.aggregate(n=r.count(), s=r.sum("v"), least=r.min("v"), most=r.max("v")).run() == {
            "n": 1000,
            "s": 499_500,
            "least": numbers.min("v").run(),
            "most": numbers.max("v").run(),
        }

    def test_a_feed_follows_them(self, games: reactdb.Table) -> None:
        events: list[Any] = []
        feed = games.group("team").aggregate(n=r.count(), points=r.sum("score")).changes()
        subscription = feed.subscribe(events.append)

        games.get(4).update({"score": 3})
        subscription.dispose()

        assert events == [
            {"group": "blue", "old_val": {"n": 2, "points": 1}, "new_val": {"n": 2, "points": 4}}
        ]

    def test_a_document_that_one_of_them_cannot_take_is_in_the_others(self, games: reactdb.Table) -> None:
        feed = games.aggregate(points=r.sum("score"), n=r.count()).changes()
        events: list[Any] = []
        subscription = feed.subscribe(events.append)

        games.insert({"id": 7, "score": "many"})
        games.get(7).delete()
        assert feed.stats()["failed"] == 1
        subscription.dispose()

        assert [event["new_val"] for event in events] == [{"points": 22.0, "n": 7}, {"points": 22.0, "n": 6}]

    def test_a_materialized_view_has_a_field_for_each(
        self, db: reactdb.Database, games: reactdb.Table
    ) -> None:
        query = games.filter(row["team"] == "red").group("team").aggregate(n=r.count(), points=r.sum("score"))
        with db.materialize(query, into="teams"):
            assert db.table("teams").run() == [{"id": "red", "n": 3, "points": 19.0}]

    @pytest.mark.parametrize("name", ["id", "group"])
    def test_a_materialized_view_keeps_the_names_of_the_group(
        self, db: reactdb.Database, games: reactdb.Table, name: str
    ) -> None:
        with pytest.raises(UnsupportedFeed, match="give the aggregate another name"):
            db.materialize(games.group("team").aggregate(**{name: r.count()}), into="teams")


class TestStepsOnGroups:
    def test_groups_are_ordered_and_cut(self, games: reactdb.Table) -> None:
        assert games.group("team").count().order_by(desc("reduction")).limit(1).run() == [
            {"group": "red", "reduction": 3}
        ]

    def test_groups_are_filtered_mapped_and_counted(self, games: reactdb.Table) -> None:
        big = games.group("team").count().filter(row["reduction"] > 1)

        assert big.run() == [{"group": "blue", "reduction": 2}, {"group": "red", "reduction": 3}]
        assert big["group"].run() == ["blue", "red"]
        assert big.count().run() == 2
        assert big.max("reduction").run() == {"group": "red", "reduction": 3}
        assert big.skip(1).pluck("group").run() == [{"group": "red"}]

    def test_a_list_of_a_map_may_be_changed(self, games: reactdb.Table) -> None:
        constant = games.group("team").count().map([1, 2]).run()
        constant[0].append(3)

        assert games.group("team").count().map([1, 2]).run()[0] == [1, 2]

    def test_explain_names_the_steps(self, games: reactdb.Table) -> None:
        assert games.group("team").count().order_by("reduction").limit(1).explain()["steps"] == [
            "group",
            "count",
            "orderby",
            "limit",
        ]

    def test_the_first_groups_are_live(self, games: reactdb.Table) -> None:
        events: list[Any] = []
        first = games.group("team").count().order_by(desc("reduction")).limit(1)
        subscription = first.changes(include_initial=True).subscribe(events.append)

        games.insert([{"id": 7, "team": "blue"}, {"id": 8, "team": "blue"}])
        subscription.dispose()

        assert events == [
            {"new_val": {"group": "red", "reduction": 3}},
            {"old_val": {"group": "red", "reduction": 3}, "new_val": None},
            {"old_val": None, "new_val": {"group": "blue", "reduction": 3}},
            {"old_val": {"group": "blue", "reduction": 3}, "new_val": {"group": "blue", "reduction": 4}},
        ]

    def test_a_group_of_null_is_in_the_list_of_a_feed(self, games: reactdb.Table) -> None:
        with games.group("team").max("nothing").filter({"group": "green"}).changes().cursor() as cursor:
            games.insert({"id": 7, "team": "green"})

            assert cursor.next(timeout=1)["new_val"] == {"group": "green", "reduction": None}

    @pytest.mark.parametrize(
        "refused",
        [
            lambda groups: groups.limit(1).filter({"group": 1}),
            lambda groups: groups.count(),
            lambda groups: groups.distinct("reduction"),
            lambda groups: groups["group"].limit(1),
            lambda groups: groups.filter(lambda group: r.random() > 1).map(r.random()),
        ],
    )
    def test_what_cannot_be_kept_up_to_date_is_refused_at_once(
        self, games: reactdb.Table, refused: Callable[[Any], Any]
    ) -> None:
        with pytest.raises(UnsupportedFeed):
            refused(games.group("team").count()).changes()

    def test_a_list_of_groups_has_no_offsets_and_is_not_materialized(
        self, db: reactdb.Database, games: reactdb.Table
    ) -> None:
        first = games.group("team").count().order_by("reduction").limit(1)

        with pytest.raises(UnsupportedFeed, match="Cannot include offsets"):
            first.changes(include_offsets=True)
        with pytest.raises(UnsupportedFeed, match="each group is kept as one document"):
            db.materialize(first, into="first")


class TestFiltersBeforeAnOrder:
    @pytest.mark.parametrize("order", ["team", desc("team"), "id"])
    def test_they_give_the_same_as_after_it(self, games: reactdb.Table, order: Any) -> None:
        before = games.filter(row["year"] == 1).has_fields("score").order_by(index=order)
        after = games.order_by(index=order).filter(row["year"] == 1).has_fields("score")

        assert before.run() == after.run() != []
        assert before.explain() == after.explain()

    def test_the_index_is_walked(self, games: reactdb.Table) -> None:
        plan = games.filter(row["year"] == 1).order_by(index="team").limit(2).explain()

        assert (plan["access"], plan["index"], plan["steps"]) == (
            "every document, in order of index `team`",
            "team",
            ["filter", "limit"],
        )

    def test_a_range_of_the_index_stays_first(self, games: reactdb.Table) -> None:
        selection = games.between("c", "z", index="team").filter(row["year"] == 2).order_by(index="team")

        assert selection["id"].run() == [2, 5]
        assert selection.explain()["access"] == "a range of index `team`, in order of index `team`"

    def test_a_feed_of_the_first_follows(self, games: reactdb.Table) -> None:
        first = games.filter(row["year"] == 1).order_by(index=desc("team")).limit(1)
        with first.changes(include_initial=True, include_offsets=True).cursor() as cursor:
            assert cursor.next(timeout=1)["new_val"]["id"] == 1

            games.get(1).delete()

            assert cursor.next(timeout=1)["new_val"]["id"] == 4

    def test_a_write_may_use_it(self, games: reactdb.Table) -> None:
        assert (
            games.filter(row["year"] == 1).order_by(index="team").limit(1).update({"first": True})["replaced"]
            == 1
        )

    @pytest.mark.parametrize(
        "refused",
        [
            lambda games: games.limit(1).order_by(index="team"),
            lambda games: games.get_all(1).order_by(index="team"),
            lambda games: games.map(row["a"]).filter(row > 1).order_by(index="team"),
            lambda games: games.filter({"a": 1}).order_by(index="team").filter({"b": 1}).order_by(index="id"),
        ],
    )
    def test_other_steps_before_it_are_refused(
        self, games: reactdb.Table, refused: Callable[[Any], Any]
    ) -> None:
        with pytest.raises(QueryError):
            refused(games).run()


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda t: t.aggregate(), UsageError, "aggregate takes aggregates by name"),
        (lambda t: t.aggregate(n="score"), UsageError, "aggregate(n=...) takes r.count()"),
        (lambda t: t.aggregate(n=r.sum([1], "a")), UsageError, "aggregate(n=...) takes r.count()"),
        (lambda t: t.aggregate(n=r.count([1])), UsageError, "aggregate(n=...) takes r.count()"),
        (lambda t: t.group(), UsageError, "group takes fields or an index"),
        (lambda t: t.group([]), UsageError, "group takes fields or an index"),
        (lambda t: t.group("a", index="team"), UsageError, "not both"),
        (lambda t: t.distinct("a", index="team"), UsageError, "not both"),
        (lambda t: t.distinct(index="nope").run(), IndexNotFound, "nope"),
        (lambda t: t.group(index="tags").count().run(), QueryError, "`tags` is multi"),
        (
            lambda t: t.group("a").count().group("group"),
            QueryError,
            "Cannot call `group` on the output of `group`.",
        ),
        (lambda t: t.group("a").count().order_by(index="team"), QueryError, "Expected type TABLE_SLICE"),
        (lambda t: t.group("a").count().union(t), QueryError, "Expected type TABLE_SLICE"),
        (
            lambda t: t.group("a").count().limit(1).delete(),
            QueryError,
            "Expected type SELECTION but found SEQUENCE.",
        ),
        (lambda t: t.aggregate(n=r.count()).limit(1), QueryError, "Cannot convert OBJECT to SEQUENCE"),
    ],
)
def test_a_mistake_is_told(
    games: reactdb.Table, make: Callable[[reactdb.Table], Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        make(games)

    assert sentence in str(caught.value)
