"""The checker: every acknowledged write is in the file, none is there in part, and the parts of the file agree.

It has three sources: the reports of the processes (`records.Life`), the rows of the file as bare SQLite reads them (`raw.py`),
and the answers of reactdb. The second and the third must both agree with the first.

Rule of this file: every check describes the losses that it finds, and continues; none of them trusts another part of reactdb.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import reactdb
from reactdb import maxval, minval, row
from reactdb.change import CATALOGUE, CATALOGUE_KINDS, KINDS
from reactdb.database import Database
from reactdb.store.tools.doctor import examine
from reactdb.values.collation import key_value
from tests.support.hooks import revision

from .consumer import stamp
from .following import check_following
from .lanes import (
    ACCOUNT_COUNT,
    ACCOUNTS,
    BASE,
    EUROS,
    FORMS,
    FOUNDER,
    HITS,
    NOTES,
    SHARED,
    Document,
    Holding,
    Step,
)
from .records import Entry, Life, Memory, Op, by_lane

ALL_KINDS = {**dict(enumerate(KINDS)), **CATALOGUE_KINDS}

Tables = dict[str, dict[str, Document]]
NOTHING: Step = ["nothing", "", ""]


def check(
    path: Path, raw: dict[str, Any] | None, memory: Memory, lives: list[Life], consumers: Path
) -> list[str]:
    """What was lost, in words; nothing where all is well. Afterwards `memory` knows the file as it is now.

    Args:
        path: The file, which no process has open.
        raw: What `raw.look` found in it.
    """
    losses = [error for life in lives for error in life.errors]
    if raw is None:
        done = [op.name for life in lives for op in life.ops.values() if op.state == "done"]
        if done or memory.is_founded:
            losses.append(f"the file holds no database, but {done[:1]} was acknowledged")
        return losses
    losses += check_rows(raw)
    try:
        with reactdb.connect(path) as db:
            losses += [
                f"doctor: {finding.check}: {finding.message}"
                for name, findings in examine(str(path))
                for finding in findings
                # That the library has a bug is no finding about the file.
                if name != "sqlite"
            ]
            losses += list(Examination(db, raw, memory, lives).run())
            if not losses:
                losses += list(check_following(db, consumers, memory))
    except Exception:
        # Whatever is wrong with the file, somebody stumbles over it here.
        losses.append(f"reading failed: {traceback.format_exc()}")
    return losses


# ---------------------------------------------------------------------------------------------------------------
# The rows


def check_rows(raw: dict[str, Any]) -> Iterator[str]:
    """Heads, graves, chains and positions, computed from the log and compared."""
    if raw["integrity"] != ["ok"]:
        yield f"SQLite: {raw['integrity'][:3]}"
    low = raw["facts"]["low_water"]
    newest: dict[tuple[int, str], tuple[int, bool]] = {}
    before = None
    for seq, table, _, step, prev, key, body, origin in raw["log"]:
        if seq > low and seq != (before[0] if before is not None and before[0] > low else low) + 1:
            yield f"rows: log entry {seq} follows {before and before[0]}, above the low-water mark {low}"
        if step and seq - step > low and (before is None or before[1] != step - 1 or before[2] != origin):
            yield f"rows: log entry {seq} is number {step} of its commit, and does not follow number {step - 1}"
        superseded = newest.get((table, key))
        if superseded is not None and prev != superseded[0]:
            yield f"rows: log entry {seq} supersedes {prev}, but the one before it is {superseded[0]}"
        # Nothing leads to the entries of tables and indexes themselves.
        if table != CATALOGUE:
            newest[table, key] = (seq, body is not None)
        before = (seq, step, origin)
    for what, is_live in (("heads", True), ("graves", False)):
        expected = {(table, key, seq) for (table, key), (seq, live) in newest.items() if live is is_live}
        actual = {tuple(found) for found in raw[what]}
        if expected != actual:
            yield (
                f"rows: {what} and log disagree: {sorted(expected - actual)[:3]} are missing,"
                f" {sorted(actual - expected)[:3]} do not belong there"
            )


# ---------------------------------------------------------------------------------------------------------------
# What reactdb answers


class Examination:
    """One look at an open file. `run` gives the losses, and then takes what it saw into the memory."""

    def __init__(self, db: Database, raw: dict[str, Any], memory: Memory, lives: list[Life]) -> None:
        self.db = db
        self.raw = raw
        self.memory = memory
        self.lives = lives
        self.head = db.seq
        self.low = int(db.stats()["oldest"])
        self.log = list(db.log(since=self.low))
        self.tables: Tables = {
            name: {document["id"]: document for document in db.table(name).run()} for name in db.table_list()
        }
        self.indexes = {name: db.table(name).index_list() for name in self.tables}
        # Whether a write that was under way is there: None where nothing tells.
        self.took: dict[str, bool | None] = {}
        # The seq of the last change of each commit, also where that was of a table or an index.
        self.ends: dict[int, int] = {}

    def run(self) -> Iterator[str]:
        yield from self.check_against_rows()
        yield from self.check_positions()
        yield from self.check_revisions()
        documents, losses = self.fold()
        yield from losses
        lanes, losses = self.check_lanes()
        yield from losses
        totals, losses = self.check_totals()
        yield from losses
        for name in self.tables:
            yield from self.check_indexes(name)
        memory = self.memory
        memory.head, memory.low = self.head, self.low
        memory.entries.update((change.seq, Entry.of(change)) for change in self.log)
        memory.documents, memory.totals = documents, totals
        memory.lanes.update(lanes)
        memory.is_founded = ACCOUNTS in self.tables

    def check_against_rows(self) -> Iterator[str]:
        bodies = {seq: body for seq, _, _, _, _, _, body, _ in self.raw["log"]}
        names = {number: name for number, name, _, dropped in self.raw["tables"] if dropped is None}
        tables: Tables = {name: {} for name in names.values()}
        for number, key, seq in self.raw["heads"]:
            if number in names:
                tables[names[number]][key_value(bytes.fromhex(key))] = bodies[seq]
        if tables != self.tables:
            yield f"rows and answers disagree on the documents: {difference(tables, self.tables)}"
        log = [
            (
                seq,
                key_value(bytes.fromhex(key)),
                ALL_KINDS[kind],
                body if number else None,
                seq - step,
                origin,
            )
            for seq, number, kind, step, _, key, body, origin in self.raw["log"]
            if seq > self.low
        ]
        answers = [(c.seq, c.key, c.kind, c.new_val, c.commit, c.origin) for c in self.log]
        if log != answers:
            yield "rows and answers disagree on the log"

    def check_positions(self) -> Iterator[str]:
        """Positions only grow, have no holes, are never given twice, and history goes only where somebody removes it."""
        memory, low, head = self.memory, self.low, self.head
        if head < memory.head:
            yield f"the log ends at {head}, and ended at {memory.head} before"
        seqs = [change.seq for change in self.log]
        if seqs != list(range(low + 1, head + 1)):
            yield f"the log between {low} and {head} has holes"
        for change in self.log:
            known = memory.entries.get(change.seq)
            if known is not None and known != Entry.of(change):
                yield f"log entry {change.seq} was {known}, and is {Entry.of(change)}"
        for seq, number, kind, _, _, key, body, _ in self.raw["log"]:
            known = memory.entries.get(seq)
            now = (number, key_value(bytes.fromhex(key)), ALL_KINDS[kind], stamp(body if number else None))
            if known is not None and now != (known.table_id, known.key, known.kind, known.new):
                yield f"log entry {seq} was {known}, and is {now}"
        # "auto" keeps what there is room for, which may be nothing.
        keeps = [
            life.retention if isinstance(life.retention, int) else 0 for life in self.lives if life.retention
        ]
        for life in self.lives:
            for op in life.ops.values():
                if op.keep is not None:
                    keeps.append(op.keep)
                if op.oldest is not None and op.oldest > low:
                    yield f"{op.name} said that the log begins after {op.oldest}, but it does after {low}"
                if op.seq is not None and op.seq > head:
                    yield f"{op.name} was acknowledged at {op.seq}, but the log ends at {head}"
                for seq in () if op.seq is None else range(op.seq - len(op.changes) + 1, op.seq + 1):
                    other = memory.places.setdefault(seq, op.name)
                    if other != op.name:
                        yield f"{op.name} was acknowledged at {seq}, and so was {other}"
        if low != memory.low and not memory.low < low <= max(head - min(keeps, default=head), memory.low):
            yield f"the low-water mark went from {memory.low} to {low} of {head}, where {keeps} were to be kept"

    def check_revisions(self) -> Iterator[str]:
        """Each version of a document of the table with a write hook has the revision that follows from the one before."""
        entries = self.memory.entries | {change.seq: Entry.of(change) for change in self.log}
        for change in self.log:
            before = entries.get(change.prev or 0)
            if change.table != NOTES or change.catalogue is not None:
                expected = change.meta is None
            elif change.prev is not None and before is None:
                # Compaction took it before anybody looked.
                expected = change.meta is not None and not change.meta.startswith(b"1-")
            else:
                expected = change.meta == revision(None if before is None else before.meta, change.new_bytes)
            if not expected:
                yield f"log entry {change.seq} of {change.table} has revision {change.meta!r}, after {before}"

    def fold(self) -> tuple[dict[int, dict[str, Document]], list[str]]:
        """The documents, by following the log from what was there at the last look, or else at the low-water mark."""
        losses = []
        memory = self.memory
        live = {number: name for number, name, _, dropped in self.raw["tables"] if dropped is None}
        if self.low <= memory.head:
            since = memory.head
            documents = {number: dict(found) for number, found in memory.documents.items()}
        else:
            since = self.low
            past = self.db.at(since)
            documents = {
                number: {document["id"]: document for document in past.table(name).run()}
                for number, name, created, dropped in self.raw["tables"]
                if created <= since
                and (dropped is None or dropped > since)
                # Made at that very position, perhaps: then it has no documents of then.
                and name in past.table_list()
            }
        for change in self.log:
            if change.seq <= since or change.catalogue is not None:
                continue
            table = documents.setdefault(change.table_id, {})
            if change.old_val != table.get(change.key):
                losses.append(
                    f"log entry {change.seq} has another old value than {change.key} of {change.table} had"
                )
            if change.new_val is None:
                table.pop(change.key, None)
            else:
                table[change.key] = change.new_val
        folded = {name: documents.get(number, {}) for number, name in live.items()}
        if folded != self.tables:
            losses.append(f"the log does not lead to the documents: {difference(folded, self.tables)}")
        return {number: documents.get(number, {}) for number in live}, losses

    # -----------------------------------------------------------------------------------------------------------
    # Lanes

    def check_lanes(self) -> tuple[dict[str, Holding], list[str]]:
        """Of each lane: its acknowledged writes are there, the one under way is there whole or not at all, and nothing else."""
        losses: list[str] = []
        holdings: dict[str, Holding] = {}
        commits = self._commits_by_lane(losses)
        places: list[tuple[int, Op]] = []
        actual = self._holdings(losses)
        lanes = dict(by_lane(self.lives))
        for lane in sorted({*lanes, *actual, *self.memory.lanes, *commits}):
            ops = lanes.get(lane, [])
            before = self.memory.lanes.get(lane, Holding())
            found = actual.get(lane, Holding())
            done = [op for op in ops if op.state == "done"]
            under_way = [op for op in ops if op.state == "open"]
            candidates: list[tuple[bool, list[Op]]] = [(False, done)]
            if under_way:
                candidates.append((True, done + under_way))
            complaints = []
            fitting = []
            for took, candidate in candidates:
                after = before.copy()
                for op in candidate:
                    after.apply(op.steps)
                complaint = "" if lane == FOUNDER else unlike(after, found)
                matched: list[tuple[int, Op]] = []
                complaint = complaint or self._unlike_log(candidate, commits.get(lane, []), matched)
                if complaint:
                    complaints.append(complaint)
                else:
                    fitting.append((took, after, matched))
            if not fitting:
                last = f"; under way: {under_way[0].name} ({under_way[0].kind})" if under_way else ""
                losses.append(f"lane {lane}: " + ", and with the one under way ".join(complaints) + last)
                holdings[lane] = found
                continue
            took, holdings[lane], matched = fitting[0]
            places += matched
            if under_way:
                self.took[under_way[0].name] = took if len(fitting) == 1 else None
        losses += self._check_real_time(places)
        return holdings, losses

    def _commits_by_lane(self, losses: list[str]) -> dict[str, list[list[Any]]]:
        """The commits since the last look that can still be read, by who wrote them."""
        since = max(self.low, self.memory.head)
        groups: dict[int, list[Any]] = {}
        for change in self.log:
            if change.seq > since:
                self.ends[change.commit] = change.seq
                if change.catalogue is None:
                    groups.setdefault(change.commit, []).append(change)
        found: dict[str, list[list[Any]]] = defaultdict(list)
        for group in groups.values():
            owners = {owner_of(change) for change in group}
            if len(owners) > 1:
                losses.append(f"the commit at {group[0].commit} is of {sorted(owners)}")
            found[owners.pop()].append(group)
        return found

    def _holdings(self, losses: list[str]) -> dict[str, Holding]:
        """What each lane has, by the documents and names that carry its own."""
        found: dict[str, Holding] = defaultdict(Holding)
        for table, documents in self.tables.items():
            if table in SHARED:
                continue
            if table not in BASE:
                lane = table.split("_")[1]
                found[lane].own.add(table)
                found[lane].tables.setdefault(table, {})
            for key, document in documents.items():
                if not key.startswith(document["lane"] + ":"):
                    losses.append(f"{table} {key} is filed under another key than its own")
                found[document["lane"]].tables.setdefault(table, {})[key] = document
            for index in self.indexes[table]:
                lane, form = index.split("_")
                found[lane].indexes[table, index] = form
        return found

    def _unlike_log(self, ops: list[Op], commits: list[list[Any]], matched: list[tuple[int, Op]]) -> str:
        """Where the lane's commits are not these writes, in words. `matched` gets (first seq, write)."""
        written = [op for op in ops if op.changes]
        cut = max(0, len(written) - len(commits))
        if len(commits) > len(written):
            return f"the log has {len(commits)} commits, but {len(written)} were announced"
        if cut and self.low <= self.memory.head:
            # Compaction has not been here.
            return f"the log has {len(commits)} of {len(written)} commits"
        for op in written[:cut]:
            if op.seq is not None and op.seq > self.low:
                return f"{op.name}, acknowledged at {op.seq}, is not in the log"
        for op, commit in zip(written[cut:], commits, strict=True):
            complaint = unlike_commit(op, commit, self.low)
            if complaint:
                return f"{op.name} ({op.kind}) at {commit[0].seq}: {complaint}"
            end = self.ends[commit[0].commit]
            if op.seq is not None and end != op.seq:
                return f"{op.name} was acknowledged at {op.seq}, and is at {end}"
            matched.append((commit[0].seq, op))
        return ""

    def _check_real_time(self, places: list[tuple[int, Op]]) -> Iterator[str]:
        """Whoever had finished before another began comes before it in the log."""
        latest: Op | None = None
        for _, op in sorted(places, key=lambda place: place[0]):
            if (
                latest is not None
                and latest.begun is not None
                and op.ended is not None
                and op.ended < latest.begun
            ):
                yield f"{op.name} was acknowledged before {latest.name} was begun, and is after it in the log"
            if op.begun is not None and (latest is None or latest.begun is None or op.begun > latest.begun):
                latest = op

    def check_totals(self) -> tuple[dict[tuple[str, str], int], list[str]]:
        """The numbers that everybody adds to: each acknowledged addition is in them once."""
        losses = []
        totals: dict[tuple[str, str], int] = {}
        if ACCOUNTS not in self.tables:
            return totals, losses
        fields = {(ACCOUNTS, str(number)): "euros" for number in range(ACCOUNT_COUNT)} | {
            (HITS, "all"): "count"
        }
        ops = [op for _, found in by_lane(self.lives) for op in found]
        for (table, key), field in fields.items():
            possible = {self.memory.totals.get((table, key), EUROS if table == ACCOUNTS else 0)}
            for op in ops:
                amount = sum(step[4] for step in op.steps if step[:3] == ["add", table, key])
                took = True if op.state == "done" else self.took.get(op.name, False)
                if took is None:
                    possible |= {total + amount for total in possible}
                elif took:
                    possible = {total + amount for total in possible}
            total = self.tables[table].get(key, {}).get(field)
            if total not in possible:
                losses.append(f"{table} {key} has {total} {field}, and should have {sorted(possible)}")
            totals[table, key] = total
        euros = sum(account["euros"] for account in self.tables[ACCOUNTS].values())
        if euros != ACCOUNT_COUNT * EUROS:
            losses.append(f"there are {euros} euros, and there were {ACCOUNT_COUNT * EUROS}")
        return totals, losses

    # -----------------------------------------------------------------------------------------------------------
    # Indexes

    def check_indexes(self, name: str) -> Iterator[str]:
        """What an index answers is what reading every document answers."""
        table, documents = self.db.table(name), self.tables[name]
        everything = sorted(documents.values(), key=lambda document: str(document["id"]))
        random = Random(len(everything))
        for index in self.indexes[name]:
            form = index.split("_")[1]
            values = {key: values_of(form, document) for key, document in documents.items()}
            expected = sorted((value, key) for key, found in values.items() for value in found)
            ordered = [document["id"] for document in table.order_by(index=index).run()]
            if ordered != [key for _, key in expected]:
                yield f"index {index} of {name}: in order it gives {len(ordered)} documents, or others, of {len(expected)}"
            for value in random.sample(some := sorted({value for value, _ in expected}), min(3, len(some))):
                keys = sorted(key for key, found in values.items() for one in found if one == value)
                asked = list(value) if isinstance(value, tuple) else value
                by_index = sorted(document["id"] for document in table.get_all(asked, index=index).run())
                if by_index != keys:
                    yield f"index {index} of {name}: get_all({asked!r}) gives {by_index[:5]}, not {keys[:5]}"
                by_filter = sorted(document["id"] for document in table.filter(condition(form, value)).run())
                if by_filter != sorted(set(keys)):
                    yield f"filter like {index} of {name}: {asked!r} gives {by_filter[:5]}, not {keys[:5]}"
            count = table.between(minval, maxval, index=index).count().run()
            if count != len(expected):
                yield f"index {index} of {name}: a range of all gives {count} places, not {len(expected)}"


def values_of(form: str, document: Document) -> list[Any]:
    """The values under which an index of this form has a document."""
    if form == "score":
        return [document["score"]]
    if form == "pair":
        return [(document["room"], document["score"])]
    return list(document["tags"])


def condition(form: str, value: Any) -> Any:
    """What is true of the documents that an index of this form has under the value."""
    assert form in FORMS
    if form == "score":
        return row["score"] == value
    if form == "pair":
        return (row["room"] == value[0]) & (row["score"] == value[1])
    return row["tags"].contains(value)


def owner_of(change: Any) -> str:
    """The lane that wrote a change."""
    if change.table in SHARED:
        return str(change.new_val["op"]).split("-")[0]
    return str(change.key).split(":")[0]


def unlike_commit(op: Op, commit: list[Any], low: int) -> str:
    """Where a commit in the log is not what was announced, in words."""
    steps = op.changes
    if commit[0].commit > low and len(commit) != len(steps):
        return f"{len(commit)} of its {len(steps)} changes are in the log"
    # Where compaction has been, the end of a commit may be all that is left of it.
    steps = steps[len(steps) - len(commit) :]
    if op.is_unordered:
        # Of one document they are in order all the same.
        by_key: dict[tuple[str, str], list[Step]] = defaultdict(list)
        for step in op.changes:
            by_key[step[1], step[2]].append(step)
        steps = [
            by_key[change.table, change.key].pop() if by_key[change.table, change.key] else NOTHING
            for change in reversed(commit)
        ]
        steps.reverse()
    for step, change in zip(steps, commit, strict=True):
        if not is_step(step, change, op.name):
            announced = ", ".join(f"{what} {table} {key}" for what, table, key, *_ in steps)
            written = ", ".join(f"{one.kind} {one.table} {one.key}" for one in commit)
            return f"change {change.seq} is not {step[:4]}: announced {announced}; written {written}; the log begins after {low}"
    return ""


def is_step(step: Step, change: Any, op: str) -> bool:
    if step[1:3] != [change.table, change.key]:
        return False
    if step[0] == "put":
        return bool(change.kind == step[3] and change.new_val == step[4])
    if step[0] == "del":
        return bool(change.kind == "delete" and change.new_val is None)
    _, _, _, field, amount = step
    return bool(
        change.kind == "update"
        and change.old_val is not None
        and change.new_val["op"] == op
        and change.new_val[field] == change.old_val[field] + amount
    )


def unlike(expected: Holding, actual: Holding) -> str:
    """Where what a lane has is not what it should have, in words."""
    tables = {name: found for name, found in expected.tables.items() if found or name in expected.own}
    others = {name: found for name, found in actual.tables.items() if found or name in actual.own}
    if tables != others:
        return difference(tables, others)
    if expected.indexes != actual.indexes:
        return f"the indexes are {sorted(actual.indexes)}, and should be {sorted(expected.indexes)}"
    return ""


def difference(expected: Tables, actual: Tables) -> str:
    """The first difference, in words."""
    for name in sorted({*expected, *actual}):
        if (name in expected) != (name in actual):
            return f"table {name} is {'missing' if name in expected else 'there'}"
        wanted, found = expected[name], actual[name]
        for key in sorted({*wanted, *found}):
            if wanted.get(key) != found.get(key):
                return f"{name} {key} is {short(found.get(key))}, and should be {short(wanted.get(key))}"
    return "none"


def short(document: Document | None) -> str:
    if document is None:
        return "missing"
    return str({name: document[name] for name in ("op", "score", "euros", "count") if name in document})
