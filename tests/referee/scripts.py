"""Scripts: what both copies have to do, made from a seed.

A script is a list of steps, each a list of plain values that begins with a verb; `actor` has a method for each verb.
Most steps make sense and some do not, because error messages are compared, too. Keys and values are few, so that
steps meet each other.

Rule of this file: plain values only, so that a script can be kept, shortened and sent.
"""

from __future__ import annotations

import random
from typing import Any, Final

Step = list[Any]

TABLES: Final = ["games", "others"]
INDEXES: Final[dict[str, Any]] = {
    "score": None,
    "room": None,
    "tags": "multi",
    "room_score": ["room", "score"],
    "double": "expression",
}
KEYS: Final = [0, 1, 2, 3, 4, 5, "a", "b", True, [1, "x"]]
SCORES: Final = [0, 1, 2, 3, 5, 8, 8, 0.5, -0.0, None, "x", [1], False]
ROOMS: Final = ["red", "blue", 5, None]
NAMES: Final = ["Ann", "Bob", "Cy", "ä", ""]


class Author:
    """Makes one script. The same seed makes the same script."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._feeds = 0
        self._tokens = 0

    def script(self, steps: int) -> list[Step]:
        made: list[Step] = [["table_create", table, "id"] for table in TABLES]
        made += [
            ["index_create", "games", index, INDEXES[index]] for index in ("score", "tags", "room_score")
        ]
        made.append(["insert", "games", [{"id": key, "score": key, "room": "red"} for key in range(4)], {}])
        made.extend(self._step() for _ in range(steps))
        return made

    # -----------------------------------------------------------------------------------------------------------
    # Steps

    def _step(self) -> Step:
        kinds = {
            self._insert: 20,
            self._write: 24,
            self._transaction: 8,
            self._read: 20,
            self._open_feed: 12,
            self._take: 24,
            self._close_feed: 2,
            self._catalogue: 3,
            self._past: 6,
            self._upkeep: 1,
        }
        return self._random.choices(list(kinds), list(kinds.values()))[0]()

    def _table(self) -> str:
        return self._random.choices([*TABLES, "missing"], [80, 17, 3])[0]

    def _document(self) -> dict[str, Any]:
        some = self._random
        document: dict[str, Any] = {}
        if some.random() < 0.95:
            document["id"] = some.choice(KEYS)
        if some.random() < 0.8:
            document["score"] = some.choice(SCORES)
        if some.random() < 0.6:
            document["room"] = some.choice(ROOMS)
        if some.random() < 0.4:
            document["tags"] = some.sample(["p", "q", "r"], some.randint(0, 3))
        if some.random() < 0.3:
            document["who"] = {"name": some.choice(NAMES), "age": some.randint(0, 3)}
        if some.random() < 0.04:
            # Larger than what is buffered, queued or kept in small pieces anywhere.
            document["text"] = "x" * 20_000
        return document

    def _options(self) -> dict[str, Any]:
        some = self._random
        options: dict[str, Any] = {}
        if some.random() < 0.4:
            options["return_changes"] = some.choices([True, "always", "sometimes"], [6, 3, 1])[0]
        if some.random() < 0.1:
            options["durability"] = some.choices(["hard", "soft", "none"], [4, 4, 1])[0]
        return options

    def _insert(self) -> Step:
        some = self._random
        documents: Any = self._document()
        if some.random() < 0.35:
            documents = [self._document() for _ in range(some.randint(0, 6))]
        options = self._options()
        if some.random() < 0.7:
            options["conflict"] = some.choices(
                ["replace", "update", "error", "keep old", "wrong"], [40, 40, 10, 10, 2]
            )[0]
        return ["insert", self._table(), documents, options]

    def _write(self) -> Step:
        some = self._random
        verb = some.choice(["update", "update", "update", "replace", "delete"])
        if verb == "delete":
            return ["delete", self._written(), None, self._options()]
        patches: list[Any] = [
            {"score": some.choice(SCORES)},
            {"who": {"age": some.randint(0, 3)}},
            {"room": some.choice(ROOMS), "extra": [1, {"x": 2}]},
            ["add", "score", 1],
            ["callable", "score"],
            ["failing"],
            5,
        ]
        if verb == "replace":
            patches = [
                self._document(),
                *[["merge", {"score": value}] for value in SCORES[:4]],
                ["nothing"],
                5,
            ]
        return [verb, self._written(), some.choice(patches), self._options()]

    def _written(self) -> Step:
        """A selection that may be written, most of the time: one document, or a table, a range or a filter."""
        some = self._random
        if some.random() < 0.05:
            return self._selection()
        way = ["get", some.choice(KEYS)] if some.random() < 0.6 else self._way_in()
        is_filtered = way[0] != "get" and some.random() < 0.5
        return ["selection", self._table(), way, [["filter", self._condition()]] if is_filtered else []]

    def _transaction(self) -> Step:
        some = self._random
        inner = [some.choice([self._insert, self._write, self._read])() for _ in range(some.randint(1, 6))]
        if some.random() < 0.2:
            inner.append(["transaction", [self._insert(), self._write()], some.choice(["commit", "raise"])])
        return ["transaction", inner, some.choice(["commit", "commit", "commit", "raise"])]

    def _catalogue(self) -> Step:
        some = self._random
        table = some.choice(TABLES)
        index = some.choice(list(INDEXES))
        return some.choice(
            [
                ["table_create", table, "id"],
                ["table_drop", some.choices(["others", "games"], [12, 1])[0]],
                ["index_create", table, index, INDEXES[index]],
                ["index_create", table, index, INDEXES[index]],
                ["index_drop", table, index],
                ["tables"],
            ]
        )

    def _past(self) -> Step:
        some = self._random
        return some.choice(
            [
                ["log", some.randint(0, 40), some.choice([None, "games", "missing"])],
                ["history", some.choice(TABLES), some.choice(KEYS)],
                ["at", some.randint(0, 60), self._selection()],
                ["keep token", self._next_token(), None],
                ["keep token", self._next_token(), self._recent_feed()],
            ]
        )

    def _upkeep(self) -> Step:
        some = self._random
        return some.choice([["compact", some.choice([0, 5, 20])], ["reopen"]])

    def _next_token(self) -> int:
        self._tokens += 1
        return self._tokens

    # -----------------------------------------------------------------------------------------------------------
    # Queries

    def _selection(self) -> Step:
        """A table, a way in, and up to three steps after it."""
        steps = [self._query_step() for _ in range(self._random.choice([0, 0, 1, 1, 2, 3]))]
        return ["selection", self._table(), self._way_in(), steps]

    def _way_in(self) -> Step:
        some = self._random
        low, high = some.choice(SCORES), some.choice(SCORES)
        ways: list[Any] = [
            ["all"],
            ["all"],
            ["all"],
            ["get", some.choice(KEYS)],
            ["get", some.choice(KEYS)],
            ["get_all", some.sample(KEYS, some.randint(0, 3)), None],
            ["get_all", [some.choice(SCORES)], "score"],
            ["get_all", ["p"], "tags"],
            ["between", low, high, "score", some.choice(["open", "closed"])],
            ["between", some.choice(KEYS), some.choice(KEYS), None, "closed"],
            ["between", "minval", high, "score", "open"],
        ]
        way: Step = some.choice(ways)
        return way

    def _watched(self) -> Step:
        """A selection that may be watched, most of the time."""
        some = self._random
        if some.random() < 0.15:
            return self._selection()
        way = self._way_in()
        steps: list[Step] = [["filter", self._condition()]] if some.random() < 0.3 and way[0] != "get" else []
        limit = ["limit", some.choice([1, 2, 3])]
        ends: list[list[Step]] = [
            [],
            [],
            [["map", "score"]],
            [["pluck", "score"]],
            [["merge", {"extra": 1}]],
            [["order_by", "score", some.choice(["asc", "desc"]), None], limit],
            [["order_by", None, some.choice(["asc", "desc"]), "score"], limit],
            [["order_by", None, "desc", "score"], ["skip", 1], limit],
            [["count"]],
            [["sum", "score"]],
            [["min", "score"]],
            [["group", "room"], ["count"]],
            [["group", "room"]],
            [["distinct"]],
        ]
        end = some.choice(ends)
        if end and end[0][:2] == ["order_by", None]:
            way, steps = ["all"], []
        return ["selection", self._table(), way, steps + (end if way[0] != "get" else [])]

    def _query_step(self) -> Step:
        some = self._random
        return some.choice(
            [
                ["filter", self._condition()],
                ["filter", self._condition()],
                ["order_by", some.choice(["score", "room"]), some.choice(["asc", "desc"]), None],
                [
                    "order_by",
                    None,
                    some.choice(["asc", "desc"]),
                    some.choice(["score", "room", "room_score"]),
                ],
                ["limit", some.choice([0, 1, 2, 3, 10])],
                ["skip", some.choice([0, 1, 2])],
                ["pluck", some.choice(["score", "room", "id"])],
                ["without", some.choice(["score", "room"])],
                ["map", "score"],
                ["merge", {"extra": 1}],
                ["count"],
                ["sum", "score"],
                ["avg", "score"],
                ["min", "score"],
                ["max", "score"],
                ["group", "room"],
                ["distinct"],
                ["has_fields", "room"],
                ["concat_map", "tags"],
            ]
        )

    def _condition(self) -> Any:
        some = self._random
        return some.choice(
            [
                {"room": some.choice(ROOMS)},
                ["compare", some.choice([">", ">=", "<", "==", "!="]), "score", some.choice(SCORES)],
                ["and", "score", some.randint(0, 3), "room", some.choice(ROOMS)],
                ["callable", "room", some.choice(ROOMS)],
                ["nested", "who", "age", some.randint(0, 3)],
            ]
        )

    def _read(self) -> Step:
        return ["read", self._selection()]

    # -----------------------------------------------------------------------------------------------------------
    # Feeds

    def _open_feed(self) -> Step:
        some = self._random
        options: dict[str, Any] = {}
        for name in ("include_initial", "include_states", "include_types", "include_seq"):
            if some.random() < 0.35:
                options[name] = True
        if some.random() < 0.3:
            options["squash"] = some.choices([True, -1, "x"], [8, 1, 1])[0]
        if some.random() < 0.2:
            options["changefeed_queue_size"] = some.choices([1, 2, 5, 0], [3, 3, 3, 1])[0]
            options["on_overflow"] = some.choice(["drop", "error", "spill"])
        if some.random() < 0.25:
            options.pop("include_initial", None)
            is_token = self._tokens and some.random() < 0.6
            options["since"] = ["token", some.randint(1, self._tokens)] if is_token else some.randint(0, 40)
        self._feeds += 1
        kind = some.choice(["callback", "callback", "cursor", "cursor", "list"])
        source = ["everything"] if some.random() < 0.1 else self._watched()
        if ["limit"] in [step[:1] for step in source[-1]] and some.random() < 0.6:
            options["include_offsets"] = True
        return ["open", self._feeds, kind, source, options, self._feed_terms()]

    def _feed_terms(self) -> list[Step]:
        some = self._random
        if some.random() < 0.75:
            return []
        return [
            some.choice(
                [
                    ["filter_new", "score", 1],
                    ["pluck", "new_val"],
                    ["map", "new_val"],
                    ["limit", 3],
                    ["without", "old_val"],
                ]
            )
        ]

    def _take(self) -> Step:
        return ["take", self._recent_feed(), self._random.choice([1, 2, 100])]

    def _recent_feed(self) -> int:
        return max(1, self._feeds - self._random.randint(0, 5))

    def _close_feed(self) -> Step:
        return ["close", self._random.randint(0, max(self._feeds, 1))]


def make_script(seed: int, steps: int = 60) -> list[Step]:
    """The script of this seed."""
    return Author(seed).script(steps)
