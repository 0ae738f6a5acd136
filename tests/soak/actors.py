"""The actors: the work of each process of the soak, and the evidence that it leaves behind.

An actor gets orders, opens the file, works until the file `stop` appears, and writes each promise that it gets as a line to its
report, at once, so that SIGKILL does not remove anything that was written.

Rule of this file: an actor judges nothing; the referee reads the reports.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reactdb.session import session_of

SHARDS = 100
SHARED_KEYS = 50
# Documents of its own that a writer keeps: so the file, and with it every cache, stays small.
KEPT = 100


@dataclass(frozen=True)
class Orders:
    """What an actor is to do. `life` counts its restarts; `is_plain`: with the standard library's SQLite, whatever is there."""

    role: str
    name: str
    folder: str
    seed: int
    life: int = 0
    durability: str = "hard"
    pause_s: float = 0.0
    has_bad_clock: bool = False
    keep: int = 20_000
    is_plain: bool = False

    @property
    def path(self) -> str:
        return os.path.join(self.folder, "soak.db")

    @property
    def report(self) -> Path:
        return Path(self.folder, f"{self.name}.report")

    @property
    def begun(self) -> Path:
        """Is there when it has the file open."""
        return Path(self.folder, f"{self.name}.{self.life}.begun")


def fingerprint(document: Any) -> str:
    """Of a document; `-` where there is none."""
    return "-" if document is None else f"{zlib.crc32(json.dumps(document, sort_keys=True).encode()):08x}"


def shard_of(key: str) -> int:
    return zlib.crc32(key.encode()) % SHARDS


def document(key: str, n: int, name: str) -> dict[str, Any]:
    return {"id": key, "n": n, "by": name, "shard": shard_of(key), "text": "x" * (n % 300)}


class Report:
    """Lines that are there when the call returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())


def run(orders: Orders) -> None:
    """Do it, to the end."""
    if orders.is_plain:
        sys.modules["pysqlite3"] = None  # type: ignore[assignment]
    ROLES[orders.role](orders)


def is_over(orders: Orders) -> bool:
    return os.path.exists(os.path.join(orders.folder, "stop"))


def _connect(orders: Orders, **options: Any) -> Any:
    import reactdb

    db = reactdb.connect(orders.path, durability=orders.durability, busy_timeout=30, **options)
    orders.begun.touch()
    return db


# ---------------------------------------------------------------------------------------------------------------
# Who writes


def write(orders: Orders) -> None:
    """Writes of every kind. Notes each that was acknowledged: `+key` inserted, `-key` deleted, `=key` a pair, `c` counted."""
    from reactdb import row

    chance = random.Random(f"{orders.seed} {orders.name} {orders.life}")
    if orders.has_bad_clock:
        _spoil_the_clock(chance)
    report = Report(orders.report)
    report.note(f"life {orders.life}")
    with _connect(orders, origin=orders.name) as db:
        games, pairs = db.table("games"), db.table("pairs")
        mine: list[str] = []
        n = 0
        while not is_over(orders):
            n += 1
            key = f"{orders.name}.{orders.life}.{n}"
            kind = chance.random()
            if kind < 0.35:
                games.insert(document(key, n, orders.name))
                report.note(f"+{key}")
                mine.append(key)
            elif kind < 0.55:
                shared = f"shared-{chance.randrange(SHARED_KEYS)}"
                games.insert(document(shared, n, orders.name), conflict="replace")
            elif kind < 0.75:
                games.get("counter").update({"n": row["n"] + 1})
                report.note("c")
            elif kind < 0.95:
                with db.transaction(durability=chance.choice(("hard", "soft"))):
                    pairs.insert({"id": f"{key}/a", "n": n})
                    pairs.insert({"id": f"{key}/b", "n": n})
                report.note(f"={key}")
                pairs.get_all(f"{key}/a", f"{key}/b").delete()
            elif kind < 0.97:
                _change_the_catalogue(db, games, orders.name, chance)
            else:
                games.insert([document(f"{key}-{m}", m, orders.name) for m in range(20)])
                games.get_all(*[f"{key}-{m}" for m in range(20)]).delete()
            if len(mine) > KEPT:
                games.get(mine[0]).delete()
                report.note(f"-{mine.pop(0)}")
            if orders.pause_s:
                time.sleep(orders.pause_s * chance.random())


def _change_the_catalogue(db: Any, games: Any, name: str, chance: random.Random) -> None:
    from reactdb import row

    index, table = f"by_{name}", f"own_{name}"
    if index in games.index_list():
        games.index_drop(index)
    else:
        games.index_create(index, row["n"])
    if table in db.table_list():
        db.table_drop(table)
    else:
        db.table_create(table).insert({"id": f"{chance.random()}"})


def _spoil_the_clock(chance: random.Random) -> None:
    """A clock that is set, back and forth, by up to an hour, in this process."""
    real, state = time.time_ns, [0]

    def wrong() -> int:
        if chance.random() < 0.01:
            state[0] = chance.randrange(-3600, 3600) * 1_000_000_000
        return real() + state[0]

    time.time_ns = wrong  # type: ignore[assignment]


# ---------------------------------------------------------------------------------------------------------------
# Who follows


def _last_seq(orders: Orders) -> int:
    """How far it had got in an earlier life. A line that was not finished does not count."""
    try:
        lines = orders.report.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return 0
    return int(lines[-1].split()[0]) if lines else 0


def _is_done(orders: Orders, seq: int) -> bool:
    """The writers have stopped, and this is their last change."""
    try:
        return seq >= int(Path(orders.folder, "final").read_text() or "-1")
    except (FileNotFoundError, ValueError):
        return False


def follow(orders: Orders) -> None:
    """Every change, as a feed tells it: `seq table key old new`; of a table or an index `seq #catalogue kind - -`."""
    report = Report(orders.report)
    seq = _last_seq(orders)
    with _connect(orders, read_only=orders.life % 2 == 1) as db:
        feed = db.changes(
            since=seq,
            include_seq=True,
            include_catalogue=True,
            on_overflow="spill",
            changefeed_queue_size=200,
        )
        with feed.cursor() as cursor:
            while not _is_done(orders, seq):
                try:
                    event = cursor.next(timeout=0.1)
                except TimeoutError:
                    continue
                seq = event["seq"]
                if "kind" in event:
                    report.note(f"{seq} #catalogue {event['kind']} - -")
                else:
                    old, new = event["old_val"], event["new_val"]
                    key = (new or old)["id"]
                    report.note(f"{seq} {event['table']} {key} {fingerprint(old)} {fingerprint(new)}")
                if orders.pause_s and not is_over(orders):
                    time.sleep(orders.pause_s)


def shards(orders: Orders) -> None:
    """A hundred feeds in one process, told on its threads: `seq shard`. Others come and go all the time."""
    from reactdb import row

    report = Report(orders.report)
    with _connect(orders) as db:
        games = db.table("games")
        newest, told_at = [0], [time.monotonic()]

        def listen(shard: int) -> Any:
            def on_next(event: Any) -> None:
                told_at[0] = time.monotonic()
                report.note(f"{event['seq']} {shard}")

            def on_error(error: Exception) -> None:
                report.note(f"0 error {error!r}")

            feed = games.filter(row["shard"] == shard).changes(
                since=0, include_seq=True, on_overflow="spill", changefeed_queue_size=1000
            )
            return feed.subscribe(on_next, on_error)

        def note_newest(event: Any) -> None:
            newest[0] = event["seq"]

        kept = [listen(shard) for shard in range(SHARDS)]
        kept.append(db.changes(since=0, include_seq=True, on_overflow="spill").subscribe(note_newest))
        # To the last change, and a second more in which nothing was told.
        while not _is_done(orders, newest[0]) or time.monotonic() - told_at[0] < 1.0:
            passing = games.filter(row["n"] > 100).changes().subscribe(lambda event: None)
            time.sleep(0.02)
            passing.dispose()
        for one in kept:
            one.dispose()


# ---------------------------------------------------------------------------------------------------------------
# Who tidies up


def prune(orders: Orders) -> None:
    """Compaction, now and then with a vacuum."""
    n = 0
    with _connect(orders) as db:
        while not is_over(orders):
            n += 1
            db.compact(keep=orders.keep, vacuum=n % 10 == 0)
            time.sleep(0.2)


def checkpoint(orders: Orders) -> None:
    """Checkpoints without end. Notes how many succeeded."""
    report = Report(orders.report)
    with _connect(orders) as db:
        writer = session_of(db).engine.writer
        while not is_over(orders):
            report.note(str(int(writer.run_in_turn(writer.checkpoints.run))))
            time.sleep(0.05)


def dawdle(orders: Orders) -> None:
    """A reader that takes its time: a second in one snapshot, over and over."""
    with _connect(orders, read_only=True) as db:
        while not is_over(orders):
            with session_of(db).engine.snapshot() as snapshot:
                first = snapshot.seq
                time.sleep(1.0)
                assert first == snapshot.seq
            time.sleep(0.2)


ROLES = {
    "write": write,
    "follow": follow,
    "slow": follow,
    "shards": shards,
    "prune": prune,
    "checkpoint": checkpoint,
    "dawdle": dawdle,
}


def as_text(orders: Orders) -> str:
    return json.dumps(asdict(orders))


if __name__ == "__main__":
    run(Orders(**json.loads(sys.argv[1])))
