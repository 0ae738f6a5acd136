"""The anomalies of a history, by the names of Adya's and Elle's papers.

Each transaction has two moments: that of its reads, and that of its commit. Of a serializable one they are the same; of one
that was promised a snapshot the first is before the second. What was seen puts the moments in an order:

    ww   b appended next after a:        a's commit is before b's reads, for nobody else may write between b's reads and commit
    wr   b has read what a appended:     a's commit is before b's reads
    rw   a has not read what b appended: a's reads are before b's commit
    rt   a was acknowledged before b began (real time): a's commit is before b's reads

A history keeps its promises if and only if this order has no cycle, where the lists fit together at all. So write skew is a
cycle among serializable transactions, and none among those with snapshots. In a mixed history a cycle is allowed only where two
`rw` meet at a transaction with a snapshot.

Rule of this file: no database, no clock, no chance. A history goes in, and its anomalies come out.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from tests.isolation.history import ABORTED, COMMITTED, DOUBT, SERIALIZABLE, Append, Read, Transaction

WW: Final = "ww"
WR: Final = "wr"
RW: Final = "rw"
REAL_TIME: Final = "rt"
WITHIN: Final = "within"
"""From the reads of a transaction to its commit."""

Moment = tuple[int, bool]
"""A transaction's number, and whether this is its commit."""


class Anomaly(NamedTuple):
    """What must not be. `transactions`: the names of those that have a part in it."""

    name: str
    sentence: str
    transactions: tuple[str, ...]


class Edge(NamedTuple):
    """One moment is before another one. `key`: of the list that shows it; empty where no list does."""

    source: Moment
    target: Moment
    kind: str
    key: str = ""


def find_anomalies(history: Sequence[Transaction]) -> list[Anomaly]:
    """What a history has that its transactions were promised not to have. Transactions that were aborted are held to their reads.

    Returns:
        An empty list where every promise was kept. Of each kind of cycle at most one in each group of transactions that depend
        on each other.

    Raises:
        ValueError: A value was appended twice to a key, so the history cannot be judged.
    """
    lists = _Lists(history)
    return [*lists.anomalies, *_cycles(history, lists.edges())]


class _Lists:
    """What the lists show: the order of each key's values, and what does not fit together.

    Attributes:
        seen: Of each transaction, by key, the values of others that it has read, where its reads of the key agree.
        order: Of each key, its values in their order: the longest list that was read.
    """

    def __init__(self, history: Sequence[Transaction]) -> None:
        self.history = history
        self.anomalies: list[Anomaly] = []
        self.writers: dict[tuple[str, str], int] = {}
        self.appends: list[dict[str, list[str]]] = []
        for number, one in enumerate(history):
            own: dict[str, list[str]] = defaultdict(list)
            for operation in one.operations:
                if isinstance(operation, Append):
                    place = (operation.key, operation.value)
                    if place in self.writers:
                        raise ValueError(f"{operation.value} was appended twice to {operation.key}")
                    self.writers[place] = number
                    own[operation.key].append(operation.value)
            self.appends.append(dict(own))
        self.seen = [self._seen_by(number) for number in range(len(history))]
        self.order = self._orders()
        self.writer_order = {
            key: [self.writers[key, value] for value in values if (key, value) in self.writers]
            for key, values in self.order.items()
        }
        observed = {number for numbers in self.writer_order.values() for number in numbers}
        self.is_there = [
            one.state == COMMITTED or (one.state == DOUBT and number in observed)
            for number, one in enumerate(history)
        ]
        self.unseen = self._unseen()
        for number, seen in enumerate(self.seen):
            for key, values in seen.items():
                self._check_read(number, key, values)
        for key in self.order:
            self._check_order(key)
        self._check_lost()

    def _report(self, name: str, sentence: str, *numbers: int) -> None:
        found = Anomaly(name, sentence, tuple(self.history[number].name for number in dict.fromkeys(numbers)))
        if found not in self.anomalies:
            self.anomalies.append(found)

    def _seen_by(self, number: int) -> dict[str, tuple[str, ...]]:
        one = self.history[number]
        own: dict[str, list[str]] = defaultdict(list)
        seen: dict[str, tuple[str, ...]] = {}
        for operation in one.operations:
            key = operation.key
            if isinstance(operation, Append):
                own[key].append(operation.value)
                continue
            cut = max(0, len(operation.values) - len(own[key]))
            others, mine = operation.values[:cut], operation.values[cut:]
            if list(mine) != own[key] or any(self.writers.get((key, value)) == number for value in others):
                self._report(
                    "internal",
                    f"{one.name} read {_shown(operation)}, after it had appended {own[key]}",
                    number,
                )
                others = tuple(value for value in others if self.writers.get((key, value)) != number)
            if key not in seen:
                seen[key] = others
            elif seen[key] != others:
                self._report(
                    "internal", f"{one.name} read {key} twice: {list(seen[key])}, then {list(others)}", number
                )
        return seen

    def _orders(self) -> dict[str, tuple[str, ...]]:
        longest: dict[str, tuple[str, ...]] = {}
        readers: dict[str, int] = {}
        for number, seen in enumerate(self.seen):
            for key, values in seen.items():
                if key not in longest or len(values) > len(longest[key]):
                    longest[key], readers[key] = values, number
        for number, seen in enumerate(self.seen):
            for key, values in seen.items():
                if longest[key][: len(values)] != values:
                    # As much as both agree about is known; the longest list stands for the rest.
                    self._report(
                        "incompatible order",
                        f"{self.history[number].name} read {key} as {list(values)}, "
                        f"{self.history[readers[key]].name} as {list(longest[key])}",
                        number,
                        readers[key],
                    )
        return longest

    def _unseen(self) -> dict[str, list[int]]:
        """Of each key, the transactions that are there and whose values no list has."""
        found: dict[str, list[int]] = defaultdict(list)
        for number, own in enumerate(self.appends):
            for key, values in own.items():
                if self.is_there[number] and not set(values) & set(self.order.get(key, ())):
                    found[key].append(number)
        return found

    def _check_read(self, number: int, key: str, values: tuple[str, ...]) -> None:
        reader = self.history[number].name
        if len(set(values)) < len(values):
            self._report("duplicate append", f"{reader} read {key} as {list(values)}", number)
        there = set(values)
        judged = {number}
        for value in values:
            writer = self.writers.get((key, value))
            if writer is None:
                self._report("unknown value", f"{reader} read {value} in {key}: nobody appended it", number)
                continue
            if writer in judged:
                continue
            judged.add(writer)
            name = self.history[writer].name
            if self.history[writer].state == ABORTED:
                self._report(
                    "G1a", f"{reader} read {value} in {key}, of {name}, which was aborted", number, writer
                )
            elif not there.issuperset(self.appends[writer][key]):
                self._report(
                    "G1b",
                    f"{reader} read {key} as {list(values)}, where {name} has appended {self.appends[writer][key]}",
                    number,
                    writer,
                )

    def _check_order(self, key: str) -> None:
        values = self.order[key]
        places = {value: place for place, value in enumerate(values)}
        for aborted, then in pairwise(self.writer_order[key]):
            if self.history[aborted].state == ABORTED and self.is_there[then]:
                names = [self.history[number].name for number in (aborted, then)]
                self._report(
                    "dirty update",
                    f"{names[1]} appended to {key} after {names[0]}, which was aborted",
                    aborted,
                    then,
                )
        for number in dict.fromkeys(self.writer_order[key]):
            own = [value for value in self.appends[number][key] if value in places]
            name = self.history[number].name
            if own != sorted(own, key=places.__getitem__):
                self._report("incompatible order", f"{name} appended {own} to {key}: {list(values)}", number)
            before = values[: places[own[0]]]
            seen = self.seen[number].get(key)
            if self.is_there[number] and seen is not None and seen != before and before[: len(seen)] == seen:
                self._report(
                    "lost update",
                    f"{name} read {key} as {list(seen)} and appended {own[0]} to {list(before)}",
                    number,
                    *(
                        self.writers[key, value]
                        for value in before[len(seen) :]
                        if (key, value) in self.writers
                    ),
                )

    def _check_lost(self) -> None:
        latest: dict[str, int] = {}
        for number, seen in enumerate(self.seen):
            for key in seen:
                if key not in latest or self.history[number].began > self.history[latest[key]].began:
                    latest[key] = number
        for number, own in enumerate(self.appends):
            one = self.history[number]
            for key, values in own.items():
                reader = latest.get(key)
                if one.state != COMMITTED or reader is None or self.history[reader].began <= one.ended:
                    continue
                missing = set(values) - set(self.order[key])
                if missing and reader != number:
                    self._report(
                        "lost append",
                        f"{one.name} was acknowledged, and {self.history[reader].name} read {key} later without "
                        f"{sorted(missing)}",
                        number,
                        reader,
                    )

    def _reads(self, number: int) -> Moment:
        return number, self.history[number].promise == SERIALIZABLE

    def edges(self) -> Iterator[Edge]:
        """The order of the moments, as far as it was seen."""
        for number in range(len(self.history)):
            if self._reads(number) != (number, True):
                yield Edge(self._reads(number), (number, True), WITHIN)
        for key, order in self.writer_order.items():
            there = [number for number in order if self.is_there[number]]
            pairs = list(pairwise(there))
            pairs += [(there[-1], number) for number in self.unseen[key]] if there else []
            for one, other in pairs:
                if one != other:
                    yield Edge((one, True), self._reads(other), WW, key)
        for number, seen in enumerate(self.seen):
            for key, values in seen.items():
                yield from self._edges_of_read(number, key, values)
        yield from self._real_time()

    def _edges_of_read(self, number: int, key: str, values: tuple[str, ...]) -> Iterator[Edge]:
        if values:
            writer = self.writers.get((key, values[-1]))
            if writer is not None and self.is_there[writer]:
                yield Edge((writer, True), self._reads(number), WR, key)
        order = self.order[key]
        if order[: len(values)] != values:
            return
        following = [self.writers.get((key, value)) for value in order[len(values) :]]
        after = [writer for writer in following if writer is not None and self.is_there[writer]]
        for writer in after[:1] or self.unseen[key]:
            if writer != number:
                yield Edge(self._reads(number), (writer, True), RW, key)

    def _real_time(self) -> Iterator[Edge]:
        """Only the edges from which all others follow: an edge over a third transaction in between is left out."""
        moments: list[tuple[int, bool, int]] = []
        for number, one in enumerate(self.history):
            moments.append((one.began, True, number))
            if one.state == COMMITTED:
                # At one and the same time nothing is known, so who begins is first.
                moments.append((one.ended, False, number))
        moments.sort(key=lambda moment: (moment[0], not moment[1]))
        newest: set[int] = set()
        before: dict[int, set[int]] = {}
        for _, is_begin, number in moments:
            if is_begin:
                before[number] = set(newest)
                for earlier in newest:
                    yield Edge((earlier, True), self._reads(number), REAL_TIME)
            else:
                newest -= before[number]
                newest.add(number)


# ---------------------------------------------------------------------------------------------------------------
# Cycles


def _cycles(history: Sequence[Transaction], edges: Iterable[Edge]) -> Iterator[Anomaly]:
    ways: dict[Moment, list[Edge]] = defaultdict(list)
    for edge in edges:
        ways[edge.source].append(edge)
    for group in _groups(ways):
        known: set[str] = set()
        inside = {moment: [edge for edge in ways.get(moment, ()) if edge.target in group] for moment in group}
        for more in ((), (REAL_TIME,)):
            for kinds, last in (((WW,), WW), ((WW, WR), WR), ((WW, WR), RW), ((WW, WR, RW), RW)):
                for cycle in _cycles_with(inside, {*kinds, *more, WITHIN}, last):
                    name = _name(cycle)
                    if name not in known:
                        known.add(name)
                        yield _anomaly(history, name, cycle)


def _cycles_with(ways: dict[Moment, list[Edge]], kinds: set[str], last: str) -> Iterator[list[Edge]]:
    """For each edge of the kind `last` a shortest cycle that it closes, where there is one."""
    for edges in ways.values():
        for closing in edges:
            if closing.kind == last:
                path = _path(ways, closing.target, closing.source, kinds)
                if path is not None:
                    yield [closing, *path]


def _path(
    ways: dict[Moment, list[Edge]], source: Moment, target: Moment, kinds: set[str]
) -> list[Edge] | None:
    came: dict[Moment, Edge | None] = {source: None}
    waiting = deque([source])
    while waiting:
        moment = waiting.popleft()
        if moment == target:
            path: list[Edge] = []
            while (edge := came[moment]) is not None:
                path.append(edge)
                moment = edge.source
            return path[::-1]
        for edge in ways.get(moment, ()):
            if edge.kind in kinds and edge.target not in came:
                came[edge.target] = edge
                waiting.append(edge.target)
    return None


def _name(cycle: Sequence[Edge]) -> str:
    kinds = [edge.kind for edge in cycle if edge.kind != WITHIN]
    count = kinds.count(RW)
    if count == 0:
        name = "G1c" if WR in kinds else "G0"
    elif count == 1:
        name = "G-single"
    elif any(one == other == RW for one, other in zip(kinds, [*kinds[1:], kinds[0]], strict=True)):
        name = "G2-item"
    else:
        name = "G-nonadjacent"
    return f"{name}-realtime" if REAL_TIME in kinds else name


def _anomaly(history: Sequence[Transaction], name: str, cycle: Sequence[Edge]) -> Anomaly:
    steps = [
        f"-{edge.kind}{f' {edge.key}' if edge.key else ''}-> {history[edge.target[0]].name}"
        for edge in cycle
        if edge.kind != WITHIN
    ]
    words = [history[cycle[0].source[0]].name, *steps]
    names = tuple(dict.fromkeys(history[edge.source[0]].name for edge in cycle))
    return Anomaly(name, " ".join(words), names)


def _groups(ways: dict[Moment, list[Edge]]) -> Iterator[set[Moment]]:
    """The strongly connected components with more than one moment, by Tarjan's algorithm without recursion."""
    index: dict[Moment, int] = {}
    low: dict[Moment, int] = {}
    path: list[Moment] = []
    on_path: set[Moment] = set()
    for root in list(ways):
        if root in index:
            continue
        work = [(root, iter(ways.get(root, ())))]
        index[root] = low[root] = len(index)
        path.append(root)
        on_path.add(root)
        while work:
            moment, edges = work[-1]
            for edge in edges:
                target = edge.target
                if target not in index:
                    index[target] = low[target] = len(index)
                    path.append(target)
                    on_path.add(target)
                    work.append((target, iter(ways.get(target, ()))))
                    break
                if target in on_path:
                    low[moment] = min(low[moment], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[moment])
                if low[moment] == index[moment]:
                    group: set[Moment] = set()
                    while moment not in group:
                        group.add(path.pop())
                    on_path -= group
                    if len(group) > 1:
                        yield group


def _shown(read: Read) -> str:
    return f"{read.key} as {list(read.values)}"
