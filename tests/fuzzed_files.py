"""Damaged files: damages them, and reads everything from them. `test_fuzzed_files` judges the results.

    python -m tests.fuzzed_files [--cases N] [--seed N]      many more cases than the suite has; prints their results

Rule of this file: the damage is a function of the seed, and the content of a file before it is known.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import reactdb
from reactdb import row
from reactdb.cli import main
from reactdb.values import codec

PAGE = 4096

# What reading a damaged file may raise: trouble with the file, a table or an index whose name is not listed any more, history
# that is not there.
ALLOWED = (
    reactdb.errors.StorageError,
    reactdb.TableNotFound,
    reactdb.errors.IndexNotFound,
    reactdb.HistoryLost,
    # SQLite's answer to a header that names a newer way of writing.
    reactdb.errors.ReadOnlyDatabase,
)


@dataclass
class Truth:
    """What a file holds: the documents, and every version of each that there ever was. Documents are encoded, keys in words."""

    path: Path
    documents: dict[str, dict[str, bytes]] = field(default_factory=dict)
    versions: dict[str, dict[str, set[bytes]]] = field(default_factory=dict)
    log: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    keys: dict[str, list[Any]] = field(default_factory=dict)


def make(folder: Path, *, in_wal: bool) -> Truth:
    """A small file with several tables, indexes, deletions and versions; closed, or with most of it in the write-ahead log."""
    folder.mkdir(parents=True, exist_ok=True)
    work = folder / f"work-{in_wal}.db"
    path = folder / ("wal.db" if in_wal else "closed.db")
    reactdb.connect(work).close()
    reader = reactdb.connect(work, read_only=True) if in_wal else None
    with reactdb.connect(work, origin="fuzz") as db:
        fill(db)
        truth = read_truth(db, path)
        for suffix in ("", "-wal") if in_wal else ():
            shutil.copy(f"{work}{suffix}", f"{path}{suffix}")
    if reader is not None:
        reader.close()
    else:
        shutil.copy(work, path)
    return truth


def fill(db: reactdb.Database) -> None:
    people = db.table_create("people")
    people.index_create("age")
    people.index_create("tags", multi=True)
    people.insert([{"id": n, "name": f"person {n}", "age": n % 9, "tags": ["a", n % 4]} for n in range(60)])
    people.filter(row["age"] == 3).update({"age": row["age"] + 10})
    for n in (5, 6, 7):
        people.get(n).delete()
    people.insert({"id": 5, "name": "back"})
    other = db.table_create("other", primary_key="name")
    other.insert([{"name": f"key {n}", "text": "x" * n * 17} for n in range(25)])
    other.insert({"name": "long", "text": "0123456789" * 1500})
    for n in range(60):
        people.get(n).update({"seen": n})


def read_truth(db: reactdb.Database, path: Path) -> Truth:
    truth = Truth(path)
    for name in db.table_list():
        table = db.table(name)
        documents = table.run()
        truth.keys[name] = [document[table.primary_key] for document in documents]
        truth.documents[name] = {
            repr(key): codec.encode(document)
            for key, document in zip(truth.keys[name], documents, strict=True)
        }
        truth.versions[name] = {}
    for change in db.log(db.stats()["oldest"]):
        truth.log[change.seq] = as_tuple(change)
        if change.new_bytes is not None:
            truth.versions.setdefault(change.table, {}).setdefault(repr(change.key), set()).add(
                change.new_bytes
            )
    return truth


def as_tuple(change: reactdb.Change) -> tuple[Any, ...]:
    return (
        change.table,
        change.key_bytes,
        change.kind_code,
        change.prev,
        change.old_bytes,
        change.new_bytes,
        change.commit,
        change.time,
        change.origin,
    )


# ---------------------------------------------------------------------------------------------------------------
# Damage


def flip(data: bytearray, chance: random.Random) -> str:
    place = chance.randrange(len(data))
    data[place] ^= chance.randrange(1, 256)
    return f"byte {place} flipped"


def flip_many(data: bytearray, chance: random.Random) -> str:
    places = sorted(chance.randrange(len(data)) for _ in range(chance.randrange(2, 30)))
    for place in places:
        data[place] = chance.randrange(256)
    return f"bytes {places} changed"


def zero_page(data: bytearray, chance: random.Random) -> str:
    page = chance.randrange(len(data) // PAGE)
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    return f"page {page + 1} zeros"


def garbage_sector(data: bytearray, chance: random.Random) -> str:
    sector = chance.randrange(len(data) // 512)
    data[sector * 512 : (sector + 1) * 512] = chance.randbytes(512)
    return f"sector {sector} garbage"


def swap_pages(data: bytearray, chance: random.Random) -> str:
    one, two = chance.randrange(len(data) // PAGE), chance.randrange(len(data) // PAGE)
    first, second = data[one * PAGE : (one + 1) * PAGE], data[two * PAGE : (two + 1) * PAGE]
    data[one * PAGE : (one + 1) * PAGE], data[two * PAGE : (two + 1) * PAGE] = second, first
    return f"pages {one + 1} and {two + 1} swapped"


def truncate(data: bytearray, chance: random.Random) -> str:
    size = chance.randrange(len(data))
    del data[size:]
    return f"cut to {size} bytes"


def header(data: bytearray, chance: random.Random) -> str:
    place = chance.randrange(100)
    data[place] ^= chance.randrange(1, 256)
    return f"byte {place} of the header flipped"


DAMAGES: tuple[Callable[[bytearray, random.Random], str], ...] = (
    flip, flip, flip, flip, flip_many, zero_page, garbage_sector, swap_pages, truncate, header
)  # fmt: skip


def damaged(truth: Truth, other: Truth, folder: Path, seed: int) -> tuple[Path, str]:
    """A damaged copy, and what was done to it. `other` is another file, for its write-ahead log."""
    chance = random.Random(seed)
    path = folder / f"case{seed}.db"
    wal = Path(f"{path}-wal")
    shutil.copy(truth.path, path)
    source_wal = Path(f"{truth.path}-wal")
    if source_wal.exists():
        shutil.copy(source_wal, wal)
    way = chance.randrange(10)
    if way == 0 and wal.exists():
        wal.unlink()
        return path, "write-ahead log removed"
    if way == 1:
        shutil.copy(f"{other.path}-wal", wal)
        return path, "write-ahead log of another file"
    if way == 2 and not wal.exists():
        wal.write_bytes(chance.randbytes(chance.randrange(1, 9000)))
        return path, "garbage as write-ahead log"
    victim = wal if wal.exists() and chance.randrange(2) else path
    data = bytearray(victim.read_bytes())
    words = chance.choice(DAMAGES)(data, chance)
    victim.write_bytes(data)
    return path, f"{victim.name.removeprefix(path.name) or 'file'}: {words}"


# ---------------------------------------------------------------------------------------------------------------
# Reading


@dataclass
class Outcome:
    """What reading a file gave: `wrong` must be empty; `missing` are documents that were not given and not told of."""

    wrong: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    raised: Counter[str] = field(default_factory=Counter)
    is_found: bool = False

    def attempt(self, what: str, work: Callable[[], None]) -> bool:
        try:
            work()
        except ALLOWED as error:
            self.raised[f"{type(error).__name__}: {error}"] += 1
            return False
        except Exception as error:
            self.wrong.append(f"{what} raised {type(error).__name__}: {error}")
            return False
        return True


def read_everything(path: Path, truth: Truth, *, may_be_older: bool, read_only: bool) -> Outcome:
    """Open the file, get every document in every way there is, ask the doctor."""
    outcome = Outcome()
    databases: list[reactdb.Database] = []
    if outcome.attempt(
        "connect", lambda: databases.append(reactdb.connect(path, read_only=read_only, busy_timeout=1.0))
    ):
        (db,) = databases
        try:
            for name in truth.documents:
                outcome.attempt(
                    f"scan of {name}", lambda name=name: scan(db, name, truth, outcome, may_be_older)
                )
                outcome.attempt(
                    f"count of {name}", lambda name=name: count(db, name, truth, outcome, may_be_older)
                )
                outcome.attempt(
                    f"index of {name}", lambda name=name: by_index(db, name, truth, outcome, may_be_older)
                )
                for key in truth.keys[name]:
                    outcome.attempt(
                        f"get of {name} {key}",
                        lambda name=name, key=key: get(db, name, key, truth, outcome, may_be_older),
                    )
            outcome.attempt("log", lambda: log(db, truth, outcome, may_be_older))
            if not read_only:
                for name in truth.documents:
                    outcome.attempt(f"write to {name}", lambda name=name: write(db, name))
                outcome.attempt("compaction", lambda: db.compact(keep=10))
        finally:
            outcome.attempt("close", db.close)
    outcome.attempt("doctor", lambda: ask_doctor(path, outcome))
    return outcome


def judge(name: str, key: Any, document: Any, truth: Truth, outcome: Outcome, may_be_older: bool) -> None:
    encoded = codec.encode(document)
    known = (
        truth.versions[name].get(repr(key), set()) if may_be_older else {truth.documents[name].get(repr(key))}
    )
    if encoded not in known:
        outcome.wrong.append(f"{name} {key!r} is {str(document)[:200]}")


def scan(db: reactdb.Database, name: str, truth: Truth, outcome: Outcome, may_be_older: bool) -> None:
    table = db.table(name)
    found = table.run()
    for document in found:
        judge(name, document.get("name" if name == "other" else "id"), document, truth, outcome, may_be_older)
    if len(found) < len(truth.documents[name]) and not may_be_older:
        outcome.missing.append(f"scan of {name}: {len(found)} of {len(truth.documents[name])}")


def count(db: reactdb.Database, name: str, truth: Truth, outcome: Outcome, may_be_older: bool) -> None:
    found = db.table(name).count().run()
    if found != len(truth.documents[name]) and not may_be_older:
        outcome.missing.append(f"count of {name}: {found} of {len(truth.documents[name])}")


def by_index(db: reactdb.Database, name: str, truth: Truth, outcome: Outcome, may_be_older: bool) -> None:
    for index in db.table(name).index_list():
        for document in db.table(name).order_by(index=index).run():
            judge(name, document.get("id"), document, truth, outcome, may_be_older)


def get(
    db: reactdb.Database, name: str, key: Any, truth: Truth, outcome: Outcome, may_be_older: bool
) -> None:
    document = db.table(name).get(key).run()
    if document is not None:
        judge(name, key, document, truth, outcome, may_be_older)
    elif not may_be_older:
        outcome.missing.append(f"get of {name} {key!r}")


def log(db: reactdb.Database, truth: Truth, outcome: Outcome, may_be_older: bool) -> None:
    last = 0
    for change in db.log(db.stats()["oldest"]):
        last = change.seq
        if as_tuple(change) != truth.log.get(change.seq):
            outcome.wrong.append(f"change {change.seq} is {as_tuple(change)}")
    if last < max(truth.log) and not may_be_older:
        outcome.missing.append(f"log ends at {last} of {max(truth.log)}")


def write(db: reactdb.Database, name: str) -> None:
    """An insert, an update and a deletion: what they do to a damaged file is not asked, only what they raise."""
    table = db.table(name)
    table.insert({table.primary_key: "fuzz", "age": 1})
    table.get("fuzz").update({"age": 2})
    for document in table.limit(3).run():
        table.get(document[table.primary_key]).update({"age": 3})
    table.get("fuzz").delete()


def ask_doctor(path: Path, outcome: Outcome) -> None:
    result = CliRunner().invoke(main, ["doctor", str(path)])
    if not isinstance(result.exception, (SystemExit, type(None))):
        outcome.wrong.append(f"doctor raised {result.exception!r}")
    outcome.is_found = result.exit_code == 1


def remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def cases(folder: Path, seeds: range) -> Iterator[tuple[int, str, Outcome]]:
    """Each seed's damage, and what reading the file gave."""
    truths = [make(folder / "made", in_wal=in_wal) for in_wal in (False, True)]
    for seed in seeds:
        truth = truths[seed % 2]
        path, words = damaged(truth, truths[1], folder, seed)
        # What is in the write-ahead log has checksums of SQLite's: from the first frame that is damaged on, it counts as
        # never written.
        outcome = read_everything(
            path, truth, may_be_older=truth is truths[1] or "another" in words, read_only=bool(seed // 2 % 2)
        )
        remove(path)
        yield seed, words, outcome


def run(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzed_files")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    wrong = missing = unseen = raised = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed, words, outcome in cases(Path(folder), range(given.seed, given.seed + given.cases)):
            for what in outcome.wrong[:2]:
                print(f"seed {seed}, {words}: WRONG {what}"[:400])
            if outcome.missing:
                missing += 1
                if not outcome.is_found:
                    unseen += 1
                print(
                    f"seed {seed}, {words}: missing {outcome.missing[:2]}, doctor sees it: {outcome.is_found}"[
                        :300
                    ]
                )
            wrong += bool(outcome.wrong)
            raised += bool(outcome.raised)
    print(
        f"{given.cases} cases: {wrong} wrong, {raised} told, {missing} with something missing ({unseen} the doctor does not see)"
    )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(run())
