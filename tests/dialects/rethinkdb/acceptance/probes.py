"""Replaying a probe: a small scenario that was recorded on a real server.

Permitted differences are removed first: names of databases, generated keys, the order within one multi-document write, timings,
and the distribution of items over batches.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import rethinkdb

import reactdb
from tests.dialects.rethinkdb.acceptance import FOLDER
from tests.dialects.rethinkdb.acceptance.client import Client, Clock

r = rethinkdb.RethinkDB()

TYPES = {
    1: "SUCCESS_ATOM",
    2: "SUCCESS_SEQUENCE",
    3: "SUCCESS_PARTIAL",
    16: "CLIENT_ERROR",
    17: "COMPILE_ERROR",
    18: "RUNTIME_ERROR",
}
KINDS = {
    1000000: "ReqlInternalError",
    2000000: "ReqlResourceLimitError",
    3000000: "ReqlQueryLogicError",
    3100000: "ReqlNonExistenceError",
    4100000: "ReqlOpFailedError",
    4200000: "ReqlOpIndeterminateError",
    5000000: "ReqlUserError",
    6000000: "ReqlPermissionError",
}
NOTES = {
    1: "SEQUENCE_FEED",
    2: "ATOM_FEED",
    3: "ORDER_BY_LIMIT_FEED",
    4: "UNIONED_FEED",
    5: "INCLUDES_STATES",
}
DATABASE = re.compile(r"\b(db[123]|mm[012])\b")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SILENCE_S = 0.5


def read() -> list[dict[str, Any]]:
    path = FOLDER / "probes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Difference(AssertionError):
    """An answer is not the recorded one. `found` is what it is, with what may differ made equal."""

    def __init__(self, message: str, found: Any) -> None:
        super().__init__(message)
        self.found = found


class VirtualTime:
    """Sessions without a server, at a time that passes when somebody says so."""

    def __init__(self) -> None:
        self.db = reactdb.connect(":memory:", durability="soft")
        self.clock = Clock()

    def __enter__(self) -> VirtualTime:
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()

    def client(self, *, is_automatic: bool = True) -> Client:
        return Client(self.db, self.clock, is_automatic=is_automatic)

    def querist(self) -> Client:
        """A client for one query."""
        return self.client()

    def wait(self, clients: list[Any], seconds: float, *, is_timed: bool) -> None:
        """Let time pass, stopping wherever somebody is waiting for it."""
        until = self.clock.now + seconds
        while True:
            for client in clients:
                client.pump()
            waits = [client.session.wait_s for client in clients]
            due = min((wait for wait in waits if wait is not None), default=seconds + 1)
            if self.clock.now + due > until:
                break
            self.clock.now += max(due, 0.001)
        self.clock.now = until
        for client in clients:
            client.pump()


def replay(probe: dict[str, Any], world: Any = None) -> dict[str, Any]:
    """Carry out a probe's steps, in virtual time or in another world.

    Returns: What differs from the recording: the name of the step -> what was found.
    """
    with world or VirtualTime() as made:
        made.db.table_create("probe")
        return {name: difference.found for name, difference in Replay(made).run(probe).items()}


class Replay:
    def __init__(self, world: Any) -> None:
        self.world = world
        self.clients: dict[str, Any] = {}
        # Whether what is told depends on when it is asked for.
        self.is_timed = False
        self.written = 0
        self.runs = 0
        self.is_united = False
        self.silence_s = SILENCE_S
        # What differs fetch by fetch, where the client asks by hand: how items are spread over batches is not compared.
        self.totals: dict[str, tuple[list[Any], list[Any], bool]] = {}

    def run(self, probe: dict[str, Any]) -> dict[str, Difference]:
        """To the end, also after a difference: one must not hide another."""
        found: dict[str, Difference] = {}
        for number, step in enumerate(probe["steps"]):
            try:
                self.step(step)
            except Difference as difference:
                found[f"step {number}"] = difference
            self.pump()
        for name, (wanted, got, _) in self.totals.items():
            if not same_bag(wanted, got):
                sentence = f"all of {name}\n  expected {text(wanted)[:3000]}\n  found    {text(got)[:3000]}"
                found[f"all of {name}"] = Difference(sentence, got)
        for client in self.clients.values():
            client.close()
        return found

    def step(self, step: dict[str, Any]) -> None:
        if "run" in step:
            self.query(step)
        elif "open" in step:
            self.open(step)
        elif "fetch" in step:
            self.fetch(step)
        elif "continue" in step:
            self.clients[step["continue"]].ask()
        elif "wait" in step:
            self.wait(float(step["wait"]))
        elif "STOP" in step:
            self.clients[step["STOP"]].stop()
        elif "stop" in step:
            self.clients[step["stop"]].close()

    def pump(self) -> None:
        for client in self.clients.values():
            client.pump()

    def wait(self, seconds: float) -> None:
        self.world.wait(list(self.clients.values()), seconds, is_timed=self.is_timed)

    # -----------------------------------------------------------------------------------------------------------

    def query(self, step: dict[str, Any]) -> None:
        expected = step["result"]
        try:
            query = eval(step["run"], {"r": r, "t": r.table("probe")})
        except Exception as error:
            raise Difference(f"{step['run']}: {error!r}", repr(error)) from None
        client = self.world.querist()
        client.open(json.loads(encoded(query)))
        items = client.drain() if client.batches[-1]["t"] in (2, 3) else client.batches[-1]["r"]
        last = client.batches[-1]
        if last["t"] > 3:
            found: dict[str, Any] = told_error(last)
        else:
            found = (
                {"kind": "atom", "value": items[0]}
                if last["t"] == 1
                else {"kind": "sequence", "value": items}
            )
        client.close()
        self.count(found.get("value"))
        if "value" in expected:
            if expected["value"] == "(omitted)":
                if "value" not in found:
                    raise Difference(f"{step['run']}\n  expected a value\n  found    {found}", normal(found))
                return
            expected = {"kind": expected["kind"], "value": expected["value"]}
        compare(step["run"], expected, found)

    def count(self, value: Any) -> None:
        if isinstance(value, dict):
            self.runs += 1
            self.written += sum(
                int(value.get(name, 0))
                for name in ("inserted", "replaced", "deleted")
                if isinstance(value.get(name, 0), int)
            )

    def open(self, step: dict[str, Any]) -> None:
        mode = step.get("mode") or {}
        client = self.world.client(is_automatic=mode.get("auto", True))
        self.clients[step["open"]] = client
        self.written = self.runs = 0
        if "wire" not in step:
            return
        self.is_united = "union" in step["query"]
        squash_s = squash_of(step["wire"])
        client.is_timed = squash_s > 0
        self.is_timed = self.is_timed or client.is_timed
        # Where a short squash was recorded, so was the silence that it takes.
        self.silence_s = max(SILENCE_S, squash_s + 0.3) if squash_s <= 2 else SILENCE_S
        client.open(step["wire"], **(step.get("runopts") or {}))

    def fetch(self, step: dict[str, Any]) -> None:
        client = self.clients[step["fetch"]]
        found = len(client.batches)
        self.wait(self.silence_s)
        while len(client.batches) > found:
            found = len(client.batches)
            self.wait(self.silence_s)
        batches, client.batches = client.batches, []
        is_bag = self.written > self.runs or self.runs == 0 or self.is_united
        expected, got = step["batches"], [told_batch(one) for one in batches]
        difference: Difference | None = None
        try:
            check_batches(step["fetch"], expected, got, is_bag)
        except Difference as error:
            if client.is_automatic or any("message" in one for one in (*expected, *got)):
                difference = error
            else:
                self.totals.setdefault(step["fetch"], ([], [], is_bag))
        if not client.is_automatic and step["fetch"] not in self.totals:
            self.totals[step["fetch"]] = ([], [], is_bag)
        if step["fetch"] in self.totals:
            wanted, total, _ = self.totals[step["fetch"]]
            wanted.extend(items_of(normal(expected)))
            total.extend(items_of(normal(got)))
        # The last response says whether there is more to ask for.
        client.batches = [{**one, "r": []} for one in batches[-1:] if one["t"] == 3]
        if not client.batches and not client.is_automatic and not batches:
            client.batches = [{"t": 3, "r": []}]
        self.written = self.runs = 0
        if difference is not None:
            raise difference


def squash_of(wire: Any) -> float:
    """The greatest number that any `squash` in the query is."""
    found = 0.0
    if isinstance(wire, list):
        found = max(map(squash_of, wire), default=0.0)
    elif isinstance(wire, dict):
        found = max(map(squash_of, wire.values()), default=0.0)
        squash = wire.get("squash")
        if isinstance(squash, (int, float)) and not isinstance(squash, bool):
            found = max(found, float(squash))
    return found


def encoded(query: Any) -> str:
    from rethinkdb.ast import ReQLEncoder

    return str(ReQLEncoder().encode(query))


def told_error(response: dict[str, Any]) -> dict[str, Any]:
    kind = TYPES[response["t"]]
    name = KINDS.get(response.get("e", 0), {"COMPILE_ERROR": "ReqlCompileError"}.get(kind, "ReqlDriverError"))
    return {"kind": kind, "error": name, "message": response["r"][0], "backtrace": response.get("b")}


def told_batch(response: dict[str, Any]) -> dict[str, Any]:
    kind = TYPES[response["t"]]
    if response["t"] > 3:
        return {"type": kind, **told_error(response)}
    return {"type": kind, "items": response["r"], "notes": [NOTES[note] for note in response.get("n", [])]}


def normal(value: Any) -> Any:
    """The value with generated keys and names of databases made equal."""
    if isinstance(value, dict):
        if value.get("$reql_type$") == "TIME" and value["epoch_time"] > 1_700_000_000:
            return "<now>"
        return {normal(key): normal(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    if isinstance(value, float) and value > 1_700_000_000:
        return "<now>"
    if isinstance(value, str):
        return UUID.sub("<uuid>", DATABASE.sub("test", value))
    return value


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def compare(what: str, expected: Any, found: Any) -> None:
    expected, found = normal(expected), normal(found)
    if expected == found:
        return
    if isinstance(expected.get("value"), dict) and isinstance(found.get("value"), dict):
        one, other = dict(expected["value"]), dict(found["value"])
        for both in (one, other):
            if isinstance(both.get("changes"), list):
                both["changes"] = sorted(both["changes"], key=text)
            if both.get("errors", 0) > 1:
                both.pop("first_error", None)
            both.pop("config_changes", None)
        if one == other:
            return
    if expected.get("kind") == found.get("kind") == "sequence" and same_bag(
        expected["value"], found["value"]
    ):
        return
    raise Difference(f"{what}\n  expected {text(expected)[:1500]}\n  found    {text(found)[:1500]}", found)


def check_batches(
    name: str, expected: list[dict[str, Any]], found: list[dict[str, Any]], is_bag: bool
) -> None:
    expected, found = normal(expected), normal(found)
    wanted, got = summary(expected), summary(found)
    items, others = (wanted.pop("items"), got["items"]), {**got}
    others.pop("items")
    if not (wanted["notes"] and got["notes"]):
        # Only the batches that are there say so.
        wanted.pop("notes"), others.pop("notes")
    if items[0] != items[1]:
        reads = any(
            "state" in one or set(one) <= {"new_val", "type"} for one in items[0] if isinstance(one, dict)
        )
        if not ((is_bag or reads) and (same_bag(*items) or same_after_replay(*items))):
            raise Difference(
                f"fetch {name}\n  expected {text(items[0])[:3000]}\n  found    {text(items[1])[:3000]}", got
            )
    if wanted != others:
        raise Difference(f"fetch {name}\n  expected {wanted}\n  found    {others}", got)


def summary(batches: list[dict[str, Any]]) -> dict[str, Any]:
    """What of some batches counts: how items were spread over them does not."""
    return {
        "items": list(items_of(batches)),
        "errors": [
            {name: value for name, value in one.items() if name != "t"} for one in batches if "message" in one
        ],
        "notes": next((one["notes"] for one in batches if one.get("notes")), []),
        "ended": any(one["type"] == "SUCCESS_SEQUENCE" for one in batches),
    }


def items_of(batches: list[dict[str, Any]]) -> Iterator[Any]:
    for batch in batches:
        yield from batch.get("items", ())


def same_bag(one: list[Any], other: list[Any]) -> bool:
    return sorted(map(text, one)) == sorted(map(text, other))


def same_after_replay(one: list[Any], other: list[Any]) -> bool:
    """Whether both make the same of what they begin with: how entering and leaving are paired is not defined."""

    def left(items: list[Any]) -> list[str] | None:
        held: list[str] = []
        gone: list[str] = []
        for item in items:
            if not isinstance(item, dict) or not {"old_val", "new_val"} <= set(item):
                return None
            if item["old_val"] is not None:
                old = text(item["old_val"])
                held.remove(old) if old in held else gone.append(old)
            if item["new_val"] is not None:
                new = text(item["new_val"])
                gone.remove(new) if new in gone else held.append(new)
        return [*sorted(held), "-", *sorted(gone)]

    first = left(one)
    return first is not None and first == left(other)
