"""A sweep of Ctrl-C: a timer strikes at random moments of writes, commits, index builds, feeds and compaction.

Afterwards, each time: no transaction is open, another connection can write at once, what was acknowledged is there, what was
struck is there whole or not at all, and a feed that nobody disturbs has heard every change once, in order.

    python -m tests.interrupts --rounds 5000 [--file PATH] [--seed 1]

Prints one line and ends with status 1 at the first promise that is broken.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import reactdb
from reactdb import row
from reactdb.session import session_of
from reactdb.store.engine import Engine

# Seconds within which another connection must be able to write after a strike.
FREE_S = 5.0


class Struck(KeyboardInterrupt):
    """What the timer raises. A kind of its own, so that a real Ctrl-C still ends the sweep."""


class Strike:
    """A timer that raises `Struck` in the main thread, once."""

    def __init__(self) -> None:
        self.is_armed = False
        signal.signal(signal.SIGALRM, self._on_alarm)

    def _on_alarm(self, number: int, frame: FrameType | None) -> None:
        if self.is_armed:
            self.is_armed = False
            raise Struck

    def during(self, seconds: float, work: Callable[[], Any]) -> bool:
        """Do the work, or as much of it as comes before the timer. Whether it was struck."""
        try:
            self.is_armed = True
            signal.setitimer(signal.ITIMER_REAL, seconds)
            work()
            self.is_armed = False
        except Struck:
            return True
        finally:
            self.is_armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False


class Sweep:
    """The database, what is known of it, and what may be struck.

    Attributes:
        acknowledged: Keys whose insert has returned.
        tried: Keys whose insert was begun, in groups that are there whole or not at all.
    """

    def __init__(self, path: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.path = path
        self.db = reactdb.connect(path, durability="hard", busy_timeout=20)
        self.games = self.db.table_create("games")
        self.games.index_create("n")
        self.heard: list[int] = []
        self.ended: Exception | None = None
        self.resumed = 0
        self.follow()
        self.acknowledged: set[str] = set()
        self.tried: list[list[str]] = []
        self.strikes = 0
        self.number = 0
        self.seq = 0
        self.spare = 0

    def follow(self) -> None:
        """Hear every change, from the last one heard on."""
        since = self.heard[-1] if self.heard else 0

        def end(error: Exception) -> None:
            self.ended = error

        self.db.changes(include_seq=True, include_catalogue=True, since=since).subscribe(
            lambda event: self.heard.append(event["seq"]), end
        )

    def key(self) -> str:
        self.number += 1
        return f"k{self.number}"

    # What may be struck ---------------------------------------------------------------------------------------

    def one(self) -> list[str]:
        key = self.key()
        self.tried.append([key])
        self.games.insert({"id": key, "n": self.number})
        return [key]

    def many(self) -> list[str]:
        keys = [self.key() for _ in range(20)]
        self.tried.append(keys)
        self.games.insert([{"id": key, "n": self.number} for key in keys])
        return keys

    def transaction(self) -> list[str]:
        keys = [self.key() for _ in range(3)]
        self.tried.append(keys)
        with self.db.transaction():
            for key in keys:
                self.games.insert({"id": key})
                self.games.get(key).update({"n": row["n"].default(0) + 1})
        return keys

    def nested(self) -> list[str]:
        keys = [self.key(), self.key()]
        self.tried.append(keys)
        with self.db.transaction():
            self.games.insert({"id": keys[0]})
            try:
                with self.db.transaction():
                    self.games.insert({"id": f"{keys[0]}-never"})
                    raise ZeroDivisionError
            except ZeroDivisionError:
                pass
            self.games.insert({"id": keys[1]})
        return keys

    def index(self) -> list[str]:
        name = f"i{self.random.randrange(3)}"
        if name in self.games.index_list():
            self.games.index_drop(name)
        else:
            self.games.index_create(name, row["n"] % 7)
        return []

    def tables(self) -> list[str]:
        self.spare += 1
        self.db.table_create(f"t{self.spare}").insert([{"id": n} for n in range(5)])
        self.db.table_drop(f"t{self.spare}")
        return []

    def feed(self) -> list[str]:
        with self.games.filter(row["n"] > 5).changes(include_initial=True, squash=True).cursor() as cursor:
            key = self.key()
            self.tried.append([key])
            self.games.insert({"id": key, "n": self.number})
            cursor.next(timeout=1)
        return [key]

    def subscription_of_a_moment(self) -> list[str]:
        subscription = self.games.order_by(index="n").limit(5).changes(include_initial=True).subscribe(len)
        try:
            return self.one()
        finally:
            subscription.dispose()

    def reads(self) -> list[str]:
        self.games.filter(row["n"] > 3).count().run()
        list(self.games.order_by(index="n").limit(3))
        list(self.db.log(since=max(0, self.seq - 50)))
        return []

    def compact(self) -> list[str]:
        self.db.compact(3_000)
        return []

    WORKS = (
        one,
        many,
        transaction,
        nested,
        index,
        tables,
        feed,
        subscription_of_a_moment,
        reads,
        compact,
    )

    # The sweep ------------------------------------------------------------------------------------------------

    def run(self, rounds: int) -> None:
        strike = Strike()
        for number in range(rounds):
            work = self.WORKS[number % len(self.WORKS)]
            done: list[str] = []
            # Most strikes early, where the short works are; some late, in the long ones.
            delay_s = self.random.expovariate(1 / 0.002) + 0.000_01
            is_struck = strike.during(delay_s, lambda work=work, done=done: done.extend(work(self)))  # type: ignore[misc]
            self.strikes += is_struck
            self.acknowledged.update(done)
            assert is_struck or done or work in (Sweep.index, Sweep.tables, Sweep.reads, Sweep.compact)
            self.check_free(number)
            if number % 50 == 49:
                self.check_all()
        self.check_all()

    def check_free(self, number: int) -> None:
        """Nothing is held that others need."""
        engine = session_of(self.db).engine
        assert engine.current_transaction() is None
        begun = time.monotonic()
        if number % 10 == 9 and not engine.is_memory:
            other = Engine(self.path, read_only=False, busy_timeout_s=FREE_S)
            try:
                other.writable().write(lambda transaction: None, durability="soft")
            finally:
                other.close()
        failed: list[BaseException] = []

        def write() -> None:
            try:
                self.games.insert({"id": f"other-{number}"})
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        thread.join(FREE_S)
        if thread.is_alive():
            # To see where it waits, and who has what it waits for.
            faulthandler.dump_traceback(all_threads=True)
        assert not thread.is_alive(), "another thread cannot write"
        assert not failed, failed
        assert time.monotonic() - begun < FREE_S
        self.acknowledged.add(f"other-{number}")

    def check_all(self) -> None:
        found = {document["id"] for document in self.games}
        lost = self.acknowledged - found
        assert not lost, f"acknowledged, and not there: {sorted(lost)[:5]}"
        for keys in self.tried:
            there = [key for key in keys if key in found]
            assert there in ([], keys), f"in part: {there} of {keys}"
        assert not any(key.endswith("-never") for key in found)
        self.tried.clear()
        self.seq = self.db.seq
        wanted = list(range(1, self.seq + 1))
        if self.ended is not None:
            # A strike while views took in a commit ends their feeds, and says so. What they had heard is right as far as it goes.
            assert isinstance(self.ended, reactdb.errors.FeedAborted), self.ended
            self.ended = None
            self.resumed += 1
            self.follow()
        if self.heard != wanted:
            place = next(
                (n for n, (a, b) in enumerate(zip(self.heard, wanted, strict=False)) if a != b),
                min(len(self.heard), len(wanted)),
            )
            raise AssertionError(
                f"the feed heard {len(self.heard)} of {len(wanted)}, wrong from {self.heard[place : place + 3]}"
            )
        for name in self.games.index_list():
            by_index = sum(1 for _ in self.games.order_by(index=name))
            by_scan = sum(1 for document in self.games if "n" in document)
            assert by_index == by_scan, f"index {name} has {by_index} of {by_scan} documents"

    def close(self) -> None:
        self.db.close()
        with reactdb.connect(self.path) if self.path != ":memory:" else reactdb.connect(":memory:") as db:
            if self.path != ":memory:":
                assert len(self.acknowledged) <= db.table("games").count().run()
        end = time.monotonic() + FREE_S
        while (ours := find_our_threads()) and time.monotonic() < end:
            ours[0].join(end - time.monotonic())
        assert not ours, f"threads are left: {ours}"


def find_our_threads() -> list[threading.Thread]:
    """The library's threads that run. Python also lists a thread for ever that was struck before the system started it."""
    return [
        thread for thread in threading.enumerate() if thread.name.startswith("reactdb") and thread.is_alive()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Strike with Ctrl-C at random moments.")
    parser.add_argument("--rounds", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", default=None, help="a new file, or :memory:")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or str(Path(folder) / "a.db")
        sweep = Sweep(path, options.seed)
        sweep.run(options.rounds)
        sweep.close()
    print(
        f"{options.rounds} rounds, {sweep.strikes} struck, {len(sweep.acknowledged)} acknowledged and there, "
        f"the feed resumed {sweep.resumed} times"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
