"""A unique index under kills: processes insert, swap, delete and make the index again, all with the same few values.

Before a process changes a document of its own it says so, and says the value afterwards, in a file of its own.

After each round of kills: the doctor finds no problem, so no value is in two documents; and every document of which a process
has said the value, and announced nothing since, has this value.

Rule of this file: what the processes do, and what must be true of the file. How they are killed is in `killing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import reactdb
from reactdb.errors import DuplicateIndexKey
from reactdb.store.tools import doctor

from .killing import Say, rounds, told

VALUES = 40
"""So few that most inserts meet a taken one."""
KILLS_OF_ONE = 60


def work(db: reactdb.Database, say: Say, name: str, random: Random) -> None:
    """What a process does until it is killed."""
    users = db.table("users")
    own: dict[str, int] = {}
    for number in count():
        try:
            one_step(db, users, own, say, f"{name}-{number}", random)
        except DuplicateIndexKey:
            # Nothing has changed.
            for id, value in own.items():
                say("has", id, value)


def one_step(db: Any, users: Any, own: dict[str, int], say: Say, id: str, random: Random) -> None:
    what = random.random()
    value = random.randrange(VALUES)
    if what < 0.5 or len(own) < 2:
        users.insert({"id": id, "email": value})
        own[id] = value
        say("has", id, value)
        return
    if what < 0.6:
        pair = {f"{id}a": value, f"{id}b": random.randrange(VALUES)}
        with db.transaction():
            for key, email in pair.items():
                users.insert({"id": key, "email": email})
        own |= pair
        for key, email in pair.items():
            say("has", key, email)
        return
    one, other = random.sample(sorted(own), 2)
    if what < 0.75:
        say("will", one)
        say("will", other)
        with db.transaction():
            users.get(one).update({"email": own[other]})
            users.get(other).update({"email": own[one]})
        own[one], own[other] = own[other], own[one]
        say("has", one, own[one])
        say("has", other, own[other])
    elif what < 0.95:
        say("will", one)
        users.get(one).delete()
        del own[one]
    else:
        with db.transaction():
            users.index_drop("email")
            users.index_create("email", unique=True)


def run(folder: Path, *, seed: int, kills: int, workers: int = 3) -> Iterator[str]:
    """So many kills, and what was wrong after any of them."""
    for begun in range(0, kills, KILLS_OF_ONE):
        inside = folder / str(begun)
        inside.mkdir()
        random = Random(seed + begun)
        path = inside / "users.db"
        with reactdb.connect(path) as db:
            db.table_create("users").index_create("email", unique=True)
        for said, failed in rounds(
            work, path, random, kills=min(KILLS_OF_ONE, kills - begun), workers=workers
        ):
            yield from failed
            yield from wrong(path, said)
            # Room for the next processes, whose values would all be taken.
            with reactdb.connect(path) as db:
                db.table("users").delete()


def wrong(path: Path, said: list[list[Any]]) -> Iterator[str]:
    expected: dict[str, int] = {}
    for word, id, *value in said:
        if word == "has":
            expected[id] = value[0]
        else:
            expected.pop(id, None)
    with reactdb.connect(path) as db:
        for _, findings in doctor.examine(str(path)):
            yield from (f"doctor: {one.message}" for one in findings if one.level == "problem")
        found = {one["id"]: one["email"] for one in db.table("users")}
        if len(set(found.values())) < len(found):
            yield f"a value is in two documents: {found}"
        for id, value in expected.items():
            if found.get(id) != value:
                yield f"{id} has {found.get(id)}, and {value} was acknowledged"


def main(kills: int, *, seed: int) -> int:
    return told(run, kills, seed, "processes with a unique index: no value was taken twice, nothing was lost")
