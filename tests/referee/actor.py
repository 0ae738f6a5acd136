"""The actor: carries out scripts with the copy of the library that it finds, and writes down what a user could see.

Started as a program, it reads scripts from standard input, one JSON document a line, and answers each with one line:
a list of what came of each step, then what lies in the file. What is random or the time of day is the same in every
run, so that tokens and files can be compared to the letter.

Rule of this file: public names of the library only, and nothing beside it is imported.
"""

from __future__ import annotations

import datetime
import itertools
import json
import logging
import os
import sqlite3
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

_counter = itertools.count()
_MOMENT_NS = 1_790_000_000_000_000_000


class _StillDatetime(datetime.datetime):
    """The type of moments, whose `now` stands still."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(_MOMENT_NS / 1e9, tz)


def _bytes(count: int) -> bytes:
    """So many bytes, never the same twice in one script."""
    return (next(_counter) + 1).to_bytes(max(count, 4), "big")[-count:]


def stop_chance_and_time() -> None:
    """Random numbers count, and the clock stands still, for whatever is imported after this."""
    os.urandom = _bytes
    uuid.uuid4 = lambda: uuid.UUID(bytes=_bytes(16), version=4)
    time.time = lambda: _MOMENT_NS / 1e9
    time.time_ns = lambda: _MOMENT_NS
    datetime.datetime = _StillDatetime  # type: ignore[misc]


class Stop(Exception):
    """What a script raises to take a transaction back."""


class Actor:
    """One database and its feeds. `act` has a method for each verb of a script."""

    def __init__(self, library: Any, path: str) -> None:
        self._library = library
        self._row = library.row
        self._path = path
        self._db = library.connect(path, durability="soft")
        self._feeds: dict[int, Any] = {}
        self._tokens: dict[int, str] = {}

    def act(self, step: list[Any]) -> Any:
        """What came of a step: its answer, or the error and its sentence."""
        verb, *arguments = step
        try:
            return shown(getattr(self, f"_{verb.replace(' ', '_')}")(*arguments))
        except Exception as error:
            return ["raised", type(error).__name__, str(error).replace(self._path, "PATH")]

    def close(self) -> None:
        self._db.close()

    # -----------------------------------------------------------------------------------------------------------
    # Tables

    def _table_create(self, name: str, primary_key: str) -> Any:
        return repr(self._db.table_create(name, primary_key=primary_key))

    def _table_drop(self, name: str) -> Any:
        return self._db.table_drop(name)

    def _tables(self) -> Any:
        return [[name, self._db.table(name).index_list()] for name in self._db.table_list()]

    def _index_create(self, table: str, name: str, kind: Any) -> Any:
        chosen = self._db.table(table)
        if kind == "multi":
            return chosen.index_create(name, multi=True)
        if kind == "expression":
            return chosen.index_create(name, self._row["score"] * 2)
        if isinstance(kind, list):
            return chosen.index_create(name, [self._row[field] for field in kind])
        return chosen.index_create(name)

    def _index_drop(self, table: str, name: str) -> Any:
        return self._db.table(table).index_drop(name)

    # -----------------------------------------------------------------------------------------------------------
    # Writes

    def _insert(self, table: str, documents: Any, options: dict[str, Any]) -> Any:
        if options.get("conflict") == "keep old":
            options = {**options, "conflict": lambda key, old, new: old}
        return self._db.table(table).insert(documents, **options)

    def _update(self, selection: list[Any], patch: Any, options: dict[str, Any]) -> Any:
        return self._select(selection).update(self._patch(patch), **options)

    def _replace(self, selection: list[Any], patch: Any, options: dict[str, Any]) -> Any:
        return self._select(selection).replace(self._patch(patch), **options)

    def _delete(self, selection: list[Any], patch: Any, options: dict[str, Any]) -> Any:
        return self._select(selection).delete(**options)

    def _patch(self, patch: Any) -> Any:
        match patch:
            case ["add", field, amount]:
                return {field: self._row[field] + amount}
            case ["callable", field]:
                return lambda document: {field: [document.get(field)]}
            case ["failing"]:
                return lambda document: document["there is no such field"]
            case ["merge", fields]:
                return self._row.merge(fields)
            case ["nothing"]:
                return lambda document: None
        return patch

    def _transaction(self, steps: list[Any], end: str) -> Any:
        answers: list[Any] = []
        try:
            with self._db.transaction():
                answers.extend(self.act(step) for step in steps)
                if end == "raise":
                    raise Stop
        except Stop:
            answers.append("taken back")
        return answers

    # -----------------------------------------------------------------------------------------------------------
    # Reads

    def _read(self, selection: list[Any]) -> Any:
        chosen = self._select(selection)
        return [repr(chosen), outcome(chosen.run), outcome(chosen.explain)]

    def _log(self, since: int, table: str | None) -> Any:
        return [entry(change) for change in self._db.log(since, table=table)]

    def _history(self, table: str, key: Any) -> Any:
        return [entry(change) for change in self._db.table(table).get(key).history()]

    def _at(self, seq: int, selection: list[Any]) -> Any:
        return self._select(selection, self._db.at(min(seq, self._db.seq))).run()

    def _keep_token(self, number: int, feed: int | None) -> Any:
        source = self._db if feed is None else self._feeds[feed]
        self._tokens[number] = source.token
        return [self._db.seq, self._tokens[number]]

    def _compact(self, keep: int) -> Any:
        return self._db.compact(keep=keep)

    def _reopen(self) -> Any:
        told = [[number, self._take(number, 100)] for number in self._feeds]
        self._db.close()
        ends = [[number, self._take(number, 100)] for number in self._feeds]
        self._feeds.clear()
        if self._path == ":memory:":
            self._tokens.clear()
        self._db = self._library.connect(self._path, durability="soft")
        return [told, ends]

    def _select(self, selection: list[Any], database: Any = None) -> Any:
        _, table, way, steps = selection
        chosen = (database or self._db).table(table)
        match way:
            case ["get", key]:
                chosen = chosen.get(key)
            case ["get_all", keys, index]:
                chosen = chosen.get_all(*keys, **({"index": index} if index else {}))
            case ["between", low, high, index, bound]:
                low = self._library.minval if low == "minval" else low
                chosen = chosen.between(low, high, right_bound=bound, **({"index": index} if index else {}))
        for step in steps:
            chosen = self._query_step(chosen, *step)
        return chosen

    def _query_step(self, chosen: Any, verb: str, *arguments: Any) -> Any:
        if verb == "filter":
            return chosen.filter(self._condition(arguments[0]))
        if verb == "order_by":
            field, direction, index = arguments
            order = getattr(self._library, direction)
            return chosen.order_by(index=order(index)) if index else chosen.order_by(order(field))
        if verb in ("map", "concat_map"):
            return getattr(chosen, verb)(self._row[arguments[0]])
        return getattr(chosen, verb)(*arguments)

    def _condition(self, condition: Any) -> Any:
        row = self._row
        match condition:
            case ["compare", ">", field, value]:
                return row[field] > value
            case ["compare", ">=", field, value]:
                return row[field] >= value
            case ["compare", "<", field, value]:
                return row[field] < value
            case ["compare", "==", field, value]:
                return row[field] == value
            case ["compare", "!=", field, value]:
                return row[field] != value
            case ["and", first, least, second, value]:
                return (row[first] >= least) & (row[second] == value)
            case ["callable", field, value]:
                return lambda document: document.get(field) == value
            case ["nested", outer, inner, value]:
                return row[outer][inner] == value
        return condition

    # -----------------------------------------------------------------------------------------------------------
    # Feeds

    def _open(
        self, number: int, kind: str, source: list[Any], options: dict[str, Any], terms: list[Any]
    ) -> Any:
        options = dict(options)
        if isinstance(options.get("since"), list):
            options["since"] = self._tokens.get(options["since"][1], "no token")
        feed = (self._db if source == ["everything"] else self._select(source)).changes(**options)
        for verb, *arguments in terms:
            if verb == "filter_new":
                feed = feed.filter(self._row["new_val"][arguments[0]] > arguments[1])
            elif verb == "map":
                feed = feed.map(self._row[arguments[0]])
            else:
                feed = getattr(feed, verb)(*arguments)
        explained = outcome(feed.explain)
        self._feeds[number] = Heard(feed) if kind == "callback" else feed.cursor()
        return [repr(feed), explained, self._take(number, 2 if kind == "list" else 0)]

    def _take(self, number: int, most: int) -> Any:
        listener = self._feeds.get(number)
        if listener is None:
            return "no such feed"
        if isinstance(listener, Heard):
            return listener.take()
        told: list[Any] = []
        try:
            while len(told) < most:
                told.append(shown(listener.next(timeout=0)))
        except TimeoutError:
            told.append("nothing more")
        except StopIteration:
            told.append("end")
        except Exception as error:
            told.append(["raised", type(error).__name__, str(error)])
        return told

    def _close(self, number: int) -> Any:
        listener = self._feeds.pop(number, None)
        return listener if listener is None else listener.close()


class Heard:
    """What a callback was told since the last look."""

    def __init__(self, feed: Any) -> None:
        self._feed = feed
        self._told: list[Any] = []
        self._subscription = feed.subscribe(
            lambda event: self._told.append(shown(event)),
            lambda error: self._told.append(["raised", type(error).__name__, str(error)]),
            lambda: self._told.append("end"),
        )

    @property
    def token(self) -> str:
        token: str = self._feed.token
        return token

    def take(self) -> list[Any]:
        told, self._told = self._told, []
        return told

    def close(self) -> None:
        self._subscription.dispose()


def outcome(asked: Any) -> Any:
    """An answer as a plain value, or the error and its sentence."""
    try:
        return shown(asked())
    except Exception as error:
        return ["raised", type(error).__name__, str(error)]


def entry(change: Any) -> Any:
    """What a change of the log says of itself."""
    fields = ("seq", "table", "key", "old_val", "new_val", "origin")
    return [[name, shown(getattr(change, name))] for name in fields if hasattr(change, name)]


def shown(value: Any) -> Any:
    """A value as JSON has it, with what JSON does not tell apart spelled out: 1 and 1.0, True and 1, order of fields."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, float)):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, dict):
        return ["dict", *([shown(key), shown(inner)] for key, inner in value.items())]
    if isinstance(value, (list, tuple)):
        return [shown(inner) for inner in value]
    return repr(value)


def contents(path: str) -> Any:
    """Every table of the file with its rows, in their order."""
    with sqlite3.connect(path) as file:
        tables = file.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        rows = [
            [name, sql, sorted(repr(row) for row in file.execute(f'SELECT * FROM "{name}"'))]
            for name, sql in tables
            if sql and sql.startswith("CREATE TABLE") and not name.startswith("sqlite_stat")
        ]
    file.close()
    return rows


def main() -> None:
    stop_chance_and_time()
    # What the library logs is for people, and comes once for each line of a program.
    logging.disable()
    import reactdb

    for line in sys.stdin:
        global _counter
        _counter = itertools.count()
        task = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            path = ":memory:" if task["in_memory"] else str(Path(folder) / "referee.db")
            actor = Actor(reactdb, path)
            transcript = [actor.act(step) for step in task["script"]]
            transcript.append(actor.act(["reopen"]))
            actor.close()
            transcript.append(None if task["in_memory"] else contents(path))
        sys.stdout.write(json.dumps(transcript) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
