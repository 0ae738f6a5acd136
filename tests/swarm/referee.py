"""The referee: knows each write that was announced and acknowledged, and says what is wrong with both files after a round.

It is given what the workers say (`hear`). What the file's log has, what the consumer to the outside was given, and what the
follower was told make up one log of the round, also of what compaction has removed since; everything is compared with that.

- Of each lane, the log has the acknowledged writes, in their order, and of the one in doubt all or nothing. It has nothing else.
- Replayed, it gives the documents: natively, by an index, and by every dialect. Each old value is the one before.
- Each dialect tells the changes since the round before, or that they are gone.
- The ledger has each change once. The consumer to the outside was given each at least once, and for the first time in order.
- The feed of a process that writes told it of its own writes, each once, in order, and not later than they were acknowledged.
- The follower was told each once, in order, but for what compaction had removed before it came to it.
- A backup, and an export, has what the log came to at its position.
- Synchronised until nothing is left to do, both files have the same documents in the same revisions.
- The doctor finds no problem in any of the files.

Rule of this file: it knows no process. It opens the files when nobody else has them, without any fault.
"""

from __future__ import annotations

import json
import re
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import reactdb
from reactdb.database import Database
from reactdb.store.tools import doctor
from tests.one_story.story import TABLE, Model, Step, Told, collapsed
from tests.one_story.ways import WAYS, Aidbox, CouchDB, Native, Way, by_key, told_of
from tests.swarm.workers import DONE, LEDGER, OUTBOX, consumer, note, url_of

# The lane of the referee itself, which removes the documents of earlier rounds.
REFEREE = "referee"
SYNCS = 4


class Entry(NamedTuple):
    """One change of the table: the n before and after, None for no document."""

    key: str
    old: int | None
    new: int | None


@dataclass
class Op:
    """One write of a lane. `state`: "doubt" until its lane says "done" or "failed"."""

    number: int
    step: Step
    state: str = "doubt"


@dataclass
class Side:
    """One of the two files: the position, documents and dialects' positions at the beginning of the round, and its log since."""

    path: Path
    head: int = 0
    documents: dict[str, int] = field(default_factory=dict)
    log: dict[int, Entry] = field(default_factory=dict)
    positions: dict[str, Any] = field(default_factory=dict)

    def add(self, source: str, seq: int, entry: Entry) -> Iterator[str]:
        """One change, from any source; all must agree."""
        if seq > self.head and self.log.setdefault(seq, entry) != entry:
            yield f"{source} has {entry} at {seq}, where others have {self.log[seq]}"

    def at(self, seq: int) -> dict[str, int]:
        """The documents at a position of the round."""
        documents = dict(self.documents)
        for one in sorted(self.log):
            if one <= seq:
                put(documents, self.log[one].key, self.log[one].new)
        return documents


def put(documents: dict[str, int], key: str, n: int | None) -> None:
    if n is None:
        documents.pop(key, None)
    else:
        documents[key] = n


def entry_of(old: Any, new: Any) -> Entry:
    return Entry((new or old)["_id"], None if old is None else old["n"], None if new is None else new["n"])


def is_there(lane: str) -> bool:
    """Whether a lane writes to the other file."""
    return lane.startswith("there")


class Referee:
    """See the head of this file. Without CouchDB among the `ways` that it asks, nothing is synchronised. `has_forgotten` is its
    own mistake: it does not know one acknowledged write of each round."""

    def __init__(
        self, folder: Path, ways: Sequence[type[Way]] = tuple(WAYS), *, has_forgotten: bool = False
    ) -> None:
        self.here = Side(folder / "here.db")
        self.there = Side(folder / "there.db")
        self.ways = ways
        self.has_forgotten = has_forgotten
        self.token: str | None = None
        self.trouble: Counter[str] = Counter()
        self.problems: list[str] = []
        self._begin()

    def _begin(self) -> None:
        """Nothing of this round is known yet."""
        self.lanes: dict[str, list[Op]] = {REFEREE: []}
        self.cleaned: set[str] = set()
        self.delivered: list[tuple[int, Entry]] = []
        self.told: list[tuple[int, Entry]] = []
        self.heard: dict[str, list[tuple[int, Entry]]] = defaultdict(list)
        self.unheard: set[str] = set()
        # Ranges of the log that the follower did not get: since < seq <= until. `until` is known when it begins anew.
        self.lost: list[tuple[int, int]] = []
        self.copies: list[tuple[str, str, int]] = []

    # -----------------------------------------------------------------------------------------------------------
    # What is heard

    def hear(self, words: list[Any]) -> None:
        """One message of a worker."""
        match words:
            case ["begin", lane, number, step]:
                step = [(key, n) for key, n in step]
                self.lanes.setdefault(lane, []).append(Op(number, step))
            case ["done" | "failed" | "doubt" as state, lane, number]:
                op = self.lanes[lane][-1]
                assert op.number == number
                op.state = state
            case ["batch", changes]:
                self.delivered += [(seq, Entry(*rest)) for seq, *rest in changes]
            case ["heard", name, seq, key, old, new]:
                self.heard[name].append((seq, Entry(key, old, new)))
            case ["unheard", name]:
                self.trouble["HistoryLost of a writer's feed"] += 1
                self.unheard.add(name)
            case ["told", seq, key, old, new, token]:
                self.told.append((seq, Entry(key, old, new)))
                self.token = token
            case ["begins", token]:
                self._follower_begins(token)
            case ["lost", since, oldest]:
                self.trouble["HistoryLost of the follower"] += 1
                if since >= oldest - 1:
                    self.problems.append(
                        f"the follower lost what is after {since}, of a log from {oldest} on"
                    )
                self.lost.append((since, since))
                self.token = None
            case ["backup", file]:
                self.copies.append(("backup", file, -1))
            case ["export", file, seq]:
                self.copies.append(("export", file, seq))
            case ["trouble", error]:
                self.trouble[re.findall(r"\w+", error)[0]] += 1
            case ["error", text]:
                self.problems.append(f"a process failed: {text}")
            case _:
                raise AssertionError(f"a worker said {words}")

    def _follower_begins(self, token: str) -> None:
        position = int(token.rpartition(".")[2])
        since = self.lost.pop()[0] if self.lost else self.here.head
        self.lost.append((since, position))
        self.token = token

    def writes(self) -> Counter[str]:
        """How many writes of the round are "done", "failed" or in "doubt"."""
        return Counter(op.state for ops in self.lanes.values() for op in ops)

    # -----------------------------------------------------------------------------------------------------------
    # Before the first round, and after each

    def prepare(self) -> None:
        """Make both files, with an empty table that every dialect serves."""
        for side in (self.here, self.there):
            with reactdb.connect(side.path) as db:
                db.table_create(TABLE, primary_key="_id").index_create("n")
                with ExitStack() as stack:
                    for way in self._ways(side, db, stack):
                        way.begin()
                if side is self.here:
                    db.table_create(DONE)
                    for name in (LEDGER, OUTBOX):
                        consumer(db, name).close()
                self._begin_side(side, db)

    def _ways(self, side: Side, db: Database, stack: ExitStack) -> list[Way]:
        """Those that a file is asked by: CouchDB's alone is the other side's."""
        return [way(db, stack) for way in self.ways if side is self.here or way is CouchDB]

    def _begin_side(self, side: Side, db: Database) -> None:
        side.head, side.documents, side.log = db.seq, by_key(db.table(TABLE)), {}
        with ExitStack() as stack:
            for way in self._ways(side, db, stack):
                if way.has_positions:
                    side.positions[way.name] = way.position()

    def judge(self) -> list[str]:
        """What is wrong after the round; then the next one begins."""
        if self.has_forgotten:
            self._forget()
        try:
            # The doctor first: what is damaged may make the rest raise.
            for wrong in self._judge():
                self.problems.append(wrong)
        except Exception:
            self.problems.append(f"the files cannot be compared: {traceback.format_exc()}")
        return self.problems

    def _judge(self) -> Iterator[str]:
        for side in (self.here, self.there):
            yield from examined(side.path)
        with reactdb.connect(self.here.path) as here, reactdb.connect(self.there.path) as there:
            if CouchDB in self.ways:
                yield from self._synchronise(here, there)
            yield from self._collect(here, there)
            yield from self._judge_side(self.here, here)
            yield from self._judge_side(self.there, there)
            yield from self._judge_ledger(here)
            yield from self._judge_outbox()
            yield from self._judge_follower()
            yield from self._judge_feeds()
            yield from self._judge_copies()
            yield from self._judge_dialects(here)
            if not self.problems:
                self._next_round(here, there)

    def _forget(self) -> None:
        ops = next(ops for ops in self.lanes.values() if any(op.state == "done" for op in ops))
        ops.remove(next(op for op in ops if op.state == "done"))

    def _next_round(self, here: Database, there: Database) -> None:
        """The documents of this round go with the next one, by a write of the referee's own."""
        self._begin()
        self._begin_side(self.here, here)
        self._begin_side(self.there, there)
        self.token = here.token
        self.cleaned = set(self.here.documents)
        step: Step = [(key, None) for key in sorted(self.cleaned)]
        if step:
            Native(here, ExitStack()).write(step)
            self.lanes[REFEREE] = [Op(1, step, "done")]

    # -----------------------------------------------------------------------------------------------------------
    # The log

    def _collect(self, here: Database, there: Database) -> Iterator[str]:
        """What the consumers and the follower have still to be given, and all sources as one log."""
        self._drain(here)
        for seq, entry in self.delivered:
            yield from self.here.add("the consumer to the outside", seq, entry)
        for seq, entry in self.told:
            yield from self.here.add("the follower", seq, entry)
        for name, heard in self.heard.items():
            for seq, entry in heard:
                yield from self.here.add(f"the feed of {name}", seq, entry)
        for side, db in ((self.here, here), (self.there, there)):
            since = max(side.head, db.stats()["oldest"])
            for change in db.log(since=since, table=TABLE):
                yield from side.add("the log", change.seq, entry_of(change.old_val, change.new_val))

    def _drain(self, db: Database) -> None:
        with consumer(db, LEDGER) as worker:
            while (batch := worker.poll()) is not None:
                note(db, batch)
        with consumer(db, OUTBOX) as worker:
            while (batch := worker.poll()) is not None:
                with batch:
                    changes = [
                        (change["seq"], entry_of(change["old_val"], change["new_val"])) for change in batch
                    ]
                self.delivered += changes
        if self.token is None:
            self._follower_begins(db.token)
        try:
            with db.table(TABLE).changes(since=self.token, include_seq=True).reader() as reader:
                while events := reader.poll():
                    self.told += [
                        (event["seq"], entry_of(event["old_val"], event["new_val"])) for event in events
                    ]
        except reactdb.HistoryLost as error:
            self.hear(["lost", error.since, error.oldest])
            self._follower_begins(db.token)

    def _judge_side(self, side: Side, db: Database) -> Iterator[str]:
        documents = dict(side.documents)
        by_lane: dict[str, list[Entry]] = defaultdict(list)
        for seq in sorted(side.log):
            entry = side.log[seq]
            if documents.get(entry.key) != entry.old:
                yield f"{side.path.name}: the old value of {seq} is {entry}, and was {documents.get(entry.key)}"
            put(documents, entry.key, entry.new)
            by_lane[self._lane_of(entry.key)].append(entry)
        found = by_key(db.table(TABLE))
        if documents != found:
            yield f"{side.path.name}: the documents are not what the log comes to: {difference(documents, found)}"
        by_index = by_key(db.table(TABLE).order_by(index="n"))
        if found != by_index:
            yield f"{side.path.name}: by the index the documents are others: {difference(found, by_index)}"
        for lane in sorted({*self.lanes, *by_lane}):
            if lane not in self.lanes:
                yield f"{side.path.name}: nobody announced what lane {lane} wrote: {by_lane[lane][:3]}"
            elif is_there(lane) == (side is self.there):
                yield from self._judge_lane(side, lane, by_lane[lane])
            else:
                yield from self._judge_synchronised(side, lane, by_lane[lane])

    def _lane_of(self, key: str) -> str:
        return REFEREE if key in self.cleaned else key.rpartition(".")[0]

    def _judge_lane(self, side: Side, lane: str, found: list[Entry]) -> Iterator[str]:
        """The log of a lane has what was acknowledged, and of what is in doubt all or nothing."""
        ops = [op for op in self.lanes[lane] if op.state != "failed"]
        assert all(op.state == "done" for op in ops[:-1]), f"two in doubt: {lane}"
        told = [told_entry(entry) for entry in found]
        candidates = [ops] if not ops or ops[-1].state == "done" else [ops[:-1], ops]
        expected = [self._told_by(side, lane, candidate) for candidate in candidates]
        if told not in expected:
            yield (
                f"{side.path.name}: lane {lane} has {len(told)} changes, and should have {len(expected[0])}, or with the one in"
                f" doubt {len(expected[-1])}; first difference: {first_difference(expected[0], told)}"
            )

    def _told_by(self, side: Side, lane: str, ops: list[Op]) -> list[Told]:
        model = Model()
        if lane == REFEREE:
            model.documents = {key: n for key, n in side.documents.items() if key in self.cleaned}
        in_order = Aidbox.in_order if lane.startswith(Aidbox.name) else Way.in_order
        for op in ops:
            model.apply(in_order(op.step))
        return model.told

    def _judge_synchronised(self, side: Side, lane: str, found: list[Entry]) -> Iterator[str]:
        """Of a lane of the other file each document has had some of its states, in their order."""
        announced: dict[str, list[int | None]] = defaultdict(list)
        for op in self.lanes[lane]:
            for key, n in op.step:
                if op.state != "failed":
                    announced[key].append(n)
        for entry in found:
            states = announced[entry.key]
            while states and states[0] != entry.new:
                states.pop(0)
            if not states:
                yield f"{side.path.name}: {entry} was synchronised, and was not announced in this place"
                return

    # -----------------------------------------------------------------------------------------------------------
    # What was delivered

    def _seqs(self) -> list[int]:
        return sorted(self.here.log)

    def _judge_ledger(self, db: Database) -> Iterator[str]:
        noted = sorted(seq for document in db.table(DONE) for seq in document["seqs"])
        if noted != self._seqs():
            yield f"the ledger does not have each change once: {first_difference(self._seqs(), noted)}"
        db.table(DONE).delete()

    def _judge_outbox(self) -> Iterator[str]:
        """Each at least once, and for the first time in the order of the log."""
        first: list[int] = []
        for seq, _ in self.delivered:
            if not first or seq > first[-1]:
                first.append(seq)
        if first != self._seqs():
            yield (
                "the consumer to the outside was not given each change, in order:"
                f" {first_difference(self._seqs(), first)}"
            )

    def _judge_follower(self) -> Iterator[str]:
        told = [seq for seq, _ in self.told]
        due = [seq for seq in self._seqs() if not any(since < seq <= until for since, until in self.lost)]
        if told != due:
            yield f"the follower was not told each change once, in order: {first_difference(due, told)}"

    def _judge_feeds(self) -> Iterator[str]:
        """A process that writes has heard of all that was acknowledged to it, and perhaps of the one in doubt."""
        for name, heard in self.heard.items():
            lanes = [lane for lane in self.lanes if lane.startswith(f"{name}.")]
            due = [seq for seq in self._seqs() if self._lane_of(self.here.log[seq].key) in lanes]
            least = sum(
                len(self._told_by(self.here, lane, [op for op in self.lanes[lane] if op.state == "done"]))
                for lane in lanes
            )
            seqs = [seq for seq, _ in heard]
            is_short = len(seqs) < least and name not in self.unheard
            if is_short or seqs != due[: len(seqs)]:
                yield f"the feed of {name} did not tell each of {least} changes once, in order: {first_difference(due, seqs)}"

    # -----------------------------------------------------------------------------------------------------------
    # Other ways to the documents

    def _judge_copies(self) -> Iterator[str]:
        for what, file, seq in self.copies:
            if what == "backup":
                yield from examined(Path(file))
                with reactdb.connect(file, read_only=True) as db:
                    seq, found = db.seq, by_key(db.table(TABLE))
            else:
                found = by_key(map(json.loads, Path(file).read_text().splitlines()))
            if seq >= self.here.head and found != (expected := self.here.at(seq)):
                yield f"a {what} at {seq} has other documents: {difference(expected, found)}"
            Path(file).unlink()

    def _judge_dialects(self, db: Database) -> Iterator[str]:
        documents = by_key(db.table(TABLE))
        told = [told_entry(self.here.log[seq]) for seq in self._seqs()]
        is_whole = db.stats()["oldest"] <= self.here.head
        with ExitStack() as stack:
            for way in self._ways(self.here, db, stack):
                if (found := way.numbers()) != documents:
                    yield f"{way.name} has other documents: {difference(documents, found)}"
                if way.has_positions:
                    yield from self._judge_changes(way, told, is_whole)

    def _judge_changes(self, way: Way, told: list[Told], is_whole: bool) -> Iterator[str]:
        """What a dialect tells since the round before. Where some of that is removed, it may say so."""
        try:
            found = way.since(self.here.positions[way.name])
        except Exception as error:
            if is_whole:
                yield f"{way.name} does not tell the changes: {error!r}"
            return
        if way.tells_each and told != found:
            yield f"{way.name} tells other changes: {first_difference(told, found)}"
        due, newest = collapsed(told), collapsed(found)
        if not way.tells_each:
            if missing := set(due) - set(newest):
                yield f"{way.name} does not tell {list(missing)[:3]}"
            # A document of the other side may have come and gone there between two synchronisations, or come and gone once more:
            # for CouchDB its deletion is a change then, or a later one, and here no document has changed.
            due, newest = (
                [(key, n) for key, n in rows if n is not None or not is_there(key)] for rows in (due, newest)
            )
        if due != newest:
            yield f"{way.name} tells other changes: {first_difference(due, newest)}"

    def _synchronise(self, here: Database, there: Database) -> Iterator[str]:
        with ExitStack() as stack:
            address = CouchDB.serve(there, stack)
            for _ in range(SYNCS):
                done = reactdb.sync(here, TABLE, url_of(address))
                if not any(one is not None and one.docs_read for one in (done.push, done.pull)):
                    break
            else:
                yield f"after {SYNCS} synchronisations there is still something to do: {done}"
            sides = [CouchDB(db, stack).get(f"/{TABLE}/_all_docs").json()["rows"] for db in (here, there)]
        if sides[0] != sides[1]:
            unlike = [one for one in sides[0] if one not in sides[1]]
            unlike += [one for one in sides[1] if one not in sides[0]]
            yield f"{len(unlike)} documents are not the same in both files: {unlike[:4]}"


def examined(path: Path) -> Iterator[str]:
    for _, findings in doctor.examine(str(path)):
        yield from (f"{path.name}: the doctor: {one.message}" for one in findings if one.level == "problem")


def told_entry(entry: Entry) -> Told:
    """As the story tells it."""
    old, new = (None if n is None else {"n": n} for n in (entry.old, entry.new))
    return told_of(old, new, entry.key)


def difference(expected: dict[str, Any], found: dict[str, Any]) -> str:
    """Some of the keys with different values, with both."""
    unlike = [key for key in sorted({*expected, *found}) if expected.get(key) != found.get(key)]
    shown = [f"{key} is {found.get(key)}, not {expected.get(key)}" for key in unlike[:3]]
    return f"{len(unlike)} of {len(expected)}: {'; '.join(shown)}"


def first_difference(expected: list[Any], found: list[Any]) -> str:
    """The first place in which two lists differ."""
    place = next(
        (place for place, (one, other) in enumerate(zip(expected, found, strict=False)) if one != other),
        min(len(expected), len(found)),
    )
    wanted, there = expected[place : place + 1], found[place : place + 1]
    return f"in place {place} of {len(expected)} and {len(found)} it is {there}, and should be {wanted}"
