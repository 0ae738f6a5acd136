"""Kept tables: whatever is written, crashes, takes over or is compacted, the table is the selection as of its position.

The machine has one table for each kind of selection, and two handles on the file: one that is abandoned and opened again, as a
process that dies, and another one that writes and may take over. What is right is worked out from the documents alone, as of the
position that the file says.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import reactdb
from reactdb import row
from reactdb.database import Database
from reactdb.durable.keyed_result import ALL, row_of, value_of
from reactdb.durable.materialized_views import Materialized, Reading
from reactdb.session import session_of
from reactdb.values import codec
from reactdb.values.collation import key_bytes
from tests.support.scaling import examples

KEYS = st.integers(0, 7)
SCORES = st.sampled_from([-1, 0, 1, 2, 2.0, 3, 0.1, 0.2, 10**16])
# What a document is in the group of: of one order and two spellings, no key, no field.
PLAYERS = st.sampled_from(["ann", "ben", 1, 1.0, None, b"raw", {"a": 1}, "missing"])

Kind = tuple[Callable[[Any], Any], Callable[[Any], dict[bytes, bytes]]]


def rows(selection: Any) -> dict[bytes, bytes]:
    found = {}
    for document in selection.run():
        found[key_bytes(document["id"])] = codec.encode(document)
    return found


def plucked(selection: Any) -> dict[bytes, bytes]:
    """Each with the key that pluck leaves out."""
    documents = selection.filter(row["score"] > 0)
    return {
        key_bytes(one["id"]): row_of("id", key_bytes(one["id"]), {"score": one["score"]})
        for one in documents.run()
    }


def mapped(selection: Any) -> dict[bytes, bytes]:
    return {
        key_bytes(one["id"]): codec.encode({"id": one["id"], "value": one["score"]})
        for one in selection.run()
        if one["score"] is not None
    }


def one(kind: str) -> Callable[[Any], dict[bytes, bytes]]:
    def expected(games: Any) -> dict[bytes, bytes]:
        value = games.count().run() if kind == "count" else getattr(games, kind)("score").run()
        return {} if value is None else dict([keyed(ALL, "group", {kind: value})])

    return expected


def grouped(kind: str) -> Callable[[Any], dict[bytes, bytes]]:
    def expected(games: Any) -> dict[bytes, bytes]:
        groups = games.group("player")
        found = groups.count().run() if kind == "count" else getattr(groups, kind)("score").run()
        return dict(
            keyed(one["group"], "group", {kind: one["reduction"]})
            for one in found
            if one["reduction"] is not None
        )

    return expected


def distinct(games: Any) -> dict[bytes, bytes]:
    return dict(keyed(value, "value", {}) for value in games.distinct("player").run() if value is not None)


def keyed(value: Any, field: str, fields: dict[str, Any]) -> tuple[bytes, bytes]:
    key, document = value_of(value, field, fields)
    return key, codec.encode(document)


KINDS: dict[str, Kind] = {
    "copy": (lambda games: games, rows),
    "high": (
        lambda games: games.filter(row["score"] > 1),
        lambda games: rows(games.filter(row["score"] > 1)),
    ),
    "plucked": (lambda games: games.filter(row["score"] > 0).pluck("score"), plucked),
    "mapped": (lambda games: games.map(row["score"]), mapped),
    "some": (lambda games: games.get_all(1, 2, 2), lambda games: rows(games.get_all(1, 2))),
    "one": (
        lambda games: games.get(3),
        lambda games: {} if games.get(3).run() is None else rows(games.get_all(3)),
    ),
    "part": (
        lambda games: games.between(1, 3, index="score"),
        lambda games: rows(games.between(1, 3, index="score")),
    ),
    "top": (
        lambda games: games.order_by(reactdb.desc("score")).limit(2),
        lambda games: rows(games.order_by(reactdb.desc("score")).limit(2)),
    ),
    "first": (
        lambda games: games.order_by(index="score").limit(2),
        lambda games: rows(games.order_by(index="score").limit(2)),
    ),
    **{kind: (lambda games, kind=kind: getattr(games, kind)("score"), one(kind)) for kind in ("sum", "avg")},
    "least": (lambda games: games.min("score"), one("min")),
    "most": (lambda games: games.max("score"), one("max")),
    "number": (lambda games: games.count(), one("count")),
    "players": (lambda games: games.distinct("player"), distinct),
    "numbers": (lambda games: games.group("player").count(), grouped("count")),
    "sums": (lambda games: games.group("player").sum("score"), grouped("sum")),
    "means": (lambda games: games.group("player").avg("score"), grouped("avg")),
    "best": (lambda games: games.group("player").max("score"), grouped("max")),
    "worst": (lambda games: games.group("player").min("score"), grouped("min")),
}


class Kept(RuleBasedStateMachine):
    """See the head of this file."""

    @initialize(kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=4, unique=True))
    def begin(self, kinds: list[str]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "a.db"
        self.kinds = kinds
        self.kept: dict[str, Materialized] = {}
        self.others: dict[str, Materialized] = {}
        self.db = self.open()
        games = self.db.table_create("games")
        games.index_create("score")
        self.db.table_create("others")
        games.insert([{"id": key, "score": key % 3, "player": "ann"} for key in range(3)])

    def open(self) -> Database:
        return reactdb.connect(self.path, durability="soft")

    def keeper(self, kind: str, *, follow: bool) -> Materialized:
        return self.db.materialize(KINDS[kind][0](self.db.table("games")), into=f"kept.{kind}", follow=follow)

    # What happens around them

    @rule(key=KEYS, score=SCORES, player=PLAYERS)
    def write(self, key: int, score: Any, player: Any) -> None:
        self.db.table("games").insert(document(key, score, player), conflict="replace")

    @rule(key=KEYS)
    def delete(self, key: int) -> None:
        self.db.table("games").get(key).delete()

    @rule()
    def delete_the_best(self) -> None:
        self.db.table("games").filter(row["score"] > 1).delete()

    @rule(writes=st.lists(st.tuples(KEYS, SCORES, PLAYERS), min_size=2, max_size=6), fails=st.booleans())
    def write_several(self, writes: list[tuple[int, Any, Any]], fails: bool) -> None:
        try:
            with self.db.transaction():
                for key, score, player in writes:
                    self.db.table("games").insert(document(key, score, player), conflict="replace")
                self.db.table("games").get(writes[0][0]).delete()
                if fails:
                    raise KeyError
        except KeyError:
            pass

    @rule(key=KEYS)
    def write_elsewhere(self, key: int) -> None:
        self.db.table("others").insert({"id": key}, conflict="replace")

    @rule(keep=st.integers(0, 10), held=st.sampled_from([0, 3, 1_000]))
    def compact(self, keep: int, held: int) -> None:
        self.db.hold(held)
        self.db.compact(keep=keep)

    @rule()
    def open_again(self) -> None:
        """All workers die at once."""
        self.db.close()
        self.kept.clear()
        self.others.clear()
        self.db = self.open()

    @rule(number=st.integers(0, 3))
    def make_the_index_anew(self, number: int) -> None:
        games = self.db.table("games")
        games.index_drop("score")
        games.index_create("score")

    @rule(number=st.integers(0, 3))
    def move_the_consumer(self, number: int) -> None:
        """By hand: nothing is passed over all the same."""
        name = f"materialized.kept.{self.kinds[number % len(self.kinds)]}"
        if any(found["name"] == name for found in self.db.consumers()):
            from reactdb.durable.consumer import reset

            reset(session_of(self.db), name)

    # What workers do

    @rule(number=st.integers(0, 3), follow=st.booleans())
    def keep(self, number: int, follow: bool) -> None:
        kind = self.kinds[number % len(self.kinds)]
        if kind not in self.kept:
            self.kept[kind] = self.keeper(kind, follow=follow)

    @rule(number=st.integers(0, 3))
    def catch_up(self, number: int) -> None:
        kind = self.kinds[number % len(self.kinds)]
        if kind in self.kept:
            self.kept[kind].catch_up()
            self.is_now(kind)
            assert self.kept[kind].lag == 0

    @rule(number=st.integers(0, 3))
    def take_over(self, number: int) -> None:
        """Another worker, that goes on existing."""
        kind = self.kinds[number % len(self.kinds)]
        if kind not in self.others:
            self.others[kind] = self.keeper(kind, follow=False)
        self.others[kind].catch_up()
        self.is_now(kind)

    @rule(number=st.integers(0, 3))
    def forget(self, number: int) -> None:
        """It dies, without closing."""
        self.kept.pop(self.kinds[number % len(self.kinds)], None)

    @rule(number=st.integers(0, 3))
    def close(self, number: int) -> None:
        found = self.kept.pop(self.kinds[number % len(self.kinds)], None)
        if found is not None:
            found.close()

    @rule(number=st.integers(0, 3))
    def die_while_building(self, number: int) -> None:
        """Whatever was begun is no table."""
        kind = self.kinds[number % len(self.kinds)]
        keeper = self.kept.pop(kind, None) or self.keeper(kind, follow=False)
        begin_to_build(self.db, keeper)
        keeper.close()
        self.others.pop(kind, None)

    @rule(number=st.integers(0, 3))
    def drop(self, number: int) -> None:
        kind = self.kinds[number % len(self.kinds)]
        if f"kept.{kind}" in self.db.table_list():
            self.db.table_drop(f"kept.{kind}")

    # What is right

    def is_now(self, kind: str) -> None:
        assert contents(self.db, kind) == KINDS[kind][1](self.db.table("games"))

    @invariant()
    def each_table_is_its_selection_as_of_its_position(self) -> None:
        if not hasattr(self, "db"):
            return
        oldest = self.db.stats()["oldest"]
        for kind in self.kinds:
            with session_of(self.db).read() as snapshot:
                from reactdb.store.positions import find_position

                found = find_position(snapshot.connection, "materialized", f"kept.{kind}")
            seq = None if found is None else found.position
            if seq is None or seq < oldest:
                continue
            past = self.db.at(seq)
            assert contents(self.db, kind) == KINDS[kind][1](past.table("games")), kind

    @invariant()
    def followers_follow(self) -> None:
        for kind, keeper in getattr(self, "kept", {}).items():
            assert keeper.error is None or "index" in str(keeper.error), kind

    def teardown(self) -> None:
        if not hasattr(self, "db"):
            return
        try:
            for kind in self.kinds:
                keeper = self.keeper(kind, follow=False)
                keeper.catch_up()
                self.is_now(kind)
        finally:
            self.db.close()
            shutil.rmtree(self.folder)


def begin_to_build(db: Database, keeper: Materialized) -> None:
    """What a build in steps has done before its first step."""
    with session_of(db).read() as snapshot:
        reading = Reading(session_of(db), keeper._query, snapshot)
    session_of(db).transact(lambda transaction: keeper._begin(transaction, keeper._building, reading))


def document(key: int, score: Any, player: Any) -> dict[str, Any]:
    found = {"id": key, "score": score, "player": player}
    if player == "missing":
        del found["player"]
    return found


def contents(db: Database, kind: str) -> dict[bytes, bytes]:
    return {key_bytes(one["id"]): codec.encode(one) for one in db.table(f"kept.{kind}").run()}


TestKept = Kept.TestCase
TestKept.settings = settings(max_examples=examples(200), stateful_step_count=30)
