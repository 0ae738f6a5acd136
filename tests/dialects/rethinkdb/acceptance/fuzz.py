"""Replaying a fuzz trace: 24 feeds open at once, random writes, and the events of each feed after every write.

The events of a write of one document must be those of the recording. The events of a write of several documents may come in
another order, so only their sum must agree. Events with offsets, applied to a list, must give the list.
"""

from __future__ import annotations

import json
from typing import Any

from tests.dialects.rethinkdb.acceptance import FOLDER
from tests.dialects.rethinkdb.acceptance.probes import VirtualTime, normal, same_after_replay, same_bag, text

TABLE = "fz"


def names() -> list[str]:
    return sorted(path.stem for path in (FOLDER / "fuzz").glob("*.json"))


def trace(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "fuzz" / f"{name}.json").read_text())
    return found


class Followed:
    """A list that is kept by applying what an ordered feed tells."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def apply(self, item: dict[str, Any]) -> None:
        if "state" in item:
            return
        old, new = item.get("old_offset"), item.get("new_offset")
        if old is not None:
            assert self.values[old] == item["old_val"], (item, self.values)
            del self.values[old]
        if new is not None:
            self.values.insert(new, item["new_val"])


class Replay:
    """One trace against an empty database. `squashed` feeds are asked only now and then."""

    def __init__(self, world: Any, recorded: dict[str, Any]) -> None:
        self.recorded = recorded
        self.world = world
        table = world.db.table_create(TABLE)
        for name, options in recorded["indexes"].items():
            table.index_create(name, **options)
        table.insert(recorded["initial_docs"])
        self.feeds: dict[str, Any] = {}
        self.lists: dict[str, Followed] = {}
        self.squashed: dict[str, tuple[Any, Followed]] = {}
        for name, query in recorded["queries"].items():
            self.feeds[name] = self.open(query["wire"])
            if "include_offsets" in query["options"]:
                self.lists[name] = Followed()
                _, arguments, options = query["wire"]
                client = self.open([152, arguments, {**options, "squash": True}], is_automatic=False)
                self.squashed[name] = (client, Followed())

    def open(self, wire: Any, *, is_automatic: bool = True) -> Any:
        client = self.world.client(is_automatic=is_automatic)
        client.open(wire)
        return client

    def heard(self, client: Any) -> list[Any]:
        client.pump()
        found = [item for one in client.batches for item in one["r"]]
        client.batches = client.batches[-1:]
        client.batches = [{**one, "r": []} for one in client.batches]
        return normal(found)

    def run(self) -> list[str]:
        """What differs from the recording, in words; nothing, if all is well."""
        differences = [f"start of {name}" for name in self.feeds if not self.starts_as_recorded(name)]
        for number, step in enumerate(self.recorded["steps"]):
            differences += self.step(number, step)
        for name, (client, followed) in self.squashed.items():
            self.ask(client, followed)
            if not same_bag(followed.values, self.query(name)):
                differences.append(f"squashed {name}")
        for name, expected in self.recorded["final"].items():
            found = self.query(name)
            if not final_as_recorded(expected, found):
                differences.append(
                    f"final {name}: expected {text(expected)[:300]}, found {text(found)[:300]}"
                )
        return differences

    def starts_as_recorded(self, name: str) -> bool:
        found = self.heard(self.feeds[name])
        for item in found if name in self.lists else ():
            self.lists[name].apply(item)
        return same_bag(normal(self.recorded["start"].get(name, [])), found)

    def step(self, number: int, step: dict[str, Any]) -> list[str]:
        client = self.world.querist()
        client.open(step["wire"])
        result = client.batches[0]["r"][0]
        differences = []
        counted = {
            key: value for key, value in step["result"].items() if key not in ("changes", "generated_keys")
        }
        if normal(counted) != normal({key: result[key] for key in counted if key in result}):
            differences.append(f"step {number} {step['op']}: expected {counted}, found {result}")
        changed = sum(int(result.get(counter, 0)) for counter in ("inserted", "replaced", "deleted"))
        for name, feed in self.feeds.items():
            expected, found = normal(step["feeds"].get(name, [])), self.heard(feed)
            for item in found if name in self.lists else ():
                self.lists[name].apply(item)
            agrees = expected == found or (
                (changed > 1 or name in ("union", "multi", "lim_multi", "getall_s", "getall_pk"))
                and (same_bag(expected, found) or same_after_replay(expected, found))
            )
            if not agrees:
                differences.append(
                    f"step {number} {step['op']}, {name}:\n  expected {text(expected)[:600]}\n  found    {text(found)[:600]}"
                )
        if number % 7 == 0:
            for squashed, followed in self.squashed.values():
                self.ask(squashed, followed)
        return differences

    def ask(self, client: Any, followed: Followed) -> None:
        if client.batches:
            for item in self.heard(client):
                followed.apply(item)
        client.ask()
        for item in self.heard(client):
            followed.apply(item)

    def query(self, name: str) -> Any:
        client = self.world.querist()
        client.open(self.recorded["queries"][name]["wire"][1][0])
        first = client.batches[0]
        if first["t"] > 3:
            return {"$error": True, "message": first["r"][0]}
        items = client.drain()
        found: Any = items[0] if first["t"] == 1 else items
        if name in ("min_s", "max_s"):
            found = [] if found is None else [found]
        return normal(found)


def final_as_recorded(expected: Any, found: Any) -> bool:
    expected = normal(expected)
    if isinstance(expected, dict) and "$error" in expected:
        return isinstance(found, dict) and expected.get("message") == found.get("message")
    if isinstance(expected, list) and isinstance(found, list):
        return same_bag(expected, found)
    if isinstance(found, list) and len(found) <= 1:
        return expected == (found[0] if found else None)
    return bool(expected == found)


def differences(name: str, world: Any = None) -> list[str]:
    with world or VirtualTime() as made:
        return Replay(made, trace(name)).run()
