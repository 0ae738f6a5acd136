"""The referee: reads the reports of all actors and the file, and lists what is lost, doubled, out of order or wrong.

The followers' reports together are the log, also of what was compacted since. Everything is compared with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .actors import fingerprint, shard_of


class Told(NamedTuple):
    """One change, as a follower heard of it. Fingerprints, `-` for no document."""

    table: str
    key: str
    old: str
    new: str


def lines_of(path: Path) -> list[str]:
    """The lines that were finished."""
    try:
        return path.read_bytes().decode().split("\n")[:-1]
    except FileNotFoundError:
        return []


def the_log(followers: Iterable[Path], final: int) -> tuple[dict[int, Told], list[str]]:
    """What all followers were told, by seq; and where one was not told the same, all, or once."""
    log: dict[int, Told] = {}
    problems = []
    for path in followers:
        expected = 1
        for line in lines_of(path):
            number, *words = line.split(" ")
            seq, told = int(number), Told(*words)
            if seq != expected:
                problems.append(f"{path.name}: seq {seq} where {expected} was due")
                break
            expected += 1
            if log.setdefault(seq, told) != told:
                problems.append(f"{path.name}: {seq} is {told} here and {log[seq]} elsewhere")
                break
        if expected != final + 1:
            problems.append(f"{path.name}: told up to {expected - 1} of {final}")
    return log, problems


def replay(log: dict[int, Told]) -> tuple[dict[tuple[str, str], str], list[str]]:
    """The documents that the log comes to, and where an old value is not the last new one."""
    documents: dict[tuple[str, str], str] = {}
    problems = []
    for seq in sorted(log):
        told = log[seq]
        place = (told.table, told.key)
        # A table that was dropped and made again begins anew, under the same name.
        if told.table.startswith("own_") and told.old == "-":
            documents = {other: one for other, one in documents.items() if other[0] != told.table}
        if documents.get(place, "-") != told.old:
            problems.append(f"the old value of {seq} is not what {place} was")
        if told.new == "-":
            documents.pop(place, None)
        else:
            documents[place] = told.new
    return documents, problems[:5]


def judge_writers(writers: Iterable[Path], log: dict[int, Told]) -> tuple[int, list[str]]:
    """(acknowledged writes, what is wrong with them)."""
    acknowledged = counted = lives = 0
    problems: list[str] = []
    told = [one for _, one in sorted(log.items())]
    inserted = {one.key: one.new for one in told if one.table == "games" and one.old == "-"}
    deleted = {one.key for one in told if one.table == "games" and one.new == "-"}
    seqs = {one.key: seq for seq, one in log.items() if one.table == "pairs" and one.old == "-"}
    for path in writers:
        for line in lines_of(path):
            if line.startswith("life"):
                lives += 1
                continue
            acknowledged += 1
            key = line[1:]
            if line.startswith("+") and key not in inserted:
                problems.append(f"the acknowledged insert of {key} is not there")
            elif line.startswith("-") and key not in deleted:
                problems.append(f"the acknowledged deletion of {key} is not there")
            elif line.startswith("=") and f"{key}/a" not in seqs:
                problems.append(f"the acknowledged pair {key} is not there")
            elif line == "c":
                counted += 1
    for key, seq in seqs.items():
        other = key[:-1] + ("b" if key.endswith("a") else "a")
        if seqs.get(other) != seq + (1 if key.endswith("a") else -1):
            problems.append(f"of the pair {key[:-2]} a half is there")
    updates = sum(one.table == "games" and one.key == "counter" and one.old != "-" for one in told)
    if not counted <= updates <= counted + lives:
        problems.append(f"{counted} acknowledged and {lives} lives came to {updates} increments")
    return acknowledged, problems[:5]


def judge_shards(path: Path, log: dict[int, Told]) -> list[str]:
    """Whether each of the hundred feeds was told its own, once, and in order."""
    heard: dict[str, list[int]] = {}
    for line in lines_of(path):
        seq, shard, *rest = line.split(" ")
        if rest:
            return [f"{path.name}: {line}"]
        heard.setdefault(shard, []).append(int(seq))
    due: dict[str, list[int]] = {}
    for seq, told in sorted(log.items()):
        if told.table == "games" and told.key != "counter":
            due.setdefault(str(shard_of(told.key)), []).append(seq)
    return [
        f"{path.name}: feed {shard} was told {len(heard.get(shard, []))} of {len(seqs)} changes, or out of order"
        for shard, seqs in due.items()
        if heard.get(shard, []) != seqs
    ][:5]


def judge_file(path: str, log: dict[int, Told], documents: dict[tuple[str, str], str]) -> list[str]:
    """Whether the file holds what the log comes to, and agrees with itself."""
    import reactdb
    from reactdb.store.tools import doctor

    problems = []
    with reactdb.connect(path) as db:
        found = {
            (table, one["id"]): fingerprint(one) for table in db.table_list() for one in db.table(table).run()
        }
        tables = set(db.table_list())
        kept = {place: one for place, one in documents.items() if place[0] in tables}
        if found != kept:
            wrong = {place for place in found.keys() | kept.keys() if found.get(place) != kept.get(place)}
            problems.append(f"{len(wrong)} documents are not what the log comes to: {sorted(wrong)[:3]}")
        counter = db.table("games").get("counter").run()["n"]
        updates = sum(one.key == "counter" and one.old != "-" for one in log.values())
        if counter != updates:
            problems.append(f"the counter is {counter} after {updates} increments")
        seqs = [entry.seq for entry in db.log(since=db.stats()["oldest"])]
        if seqs != list(range(db.stats()["oldest"] + 1, db.seq + 1)):
            problems.append("the log that is left has holes")
    for name, findings in doctor.examine(path):
        problems += [f"doctor, {name}: {one.message}" for one in findings if one.level == "problem"]
    return problems[:10]
