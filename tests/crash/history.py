"""History: the legal contents of a database after a power cut, from the order of the commits and the marks before the cut.

After the cut it must have exactly the first k commits. k is at least the place of every commit that was acknowledged (or
delivered to a feed) under `hard`, because everything that was committed before is on the disk with it; and at most the
place of the last commit that was begun. A write that failed in COMMIT may be there as if it had succeeded, unless a later
commit must be there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .recording import Mark
from .workload import Change, Model, Picture, Write


@dataclass(slots=True, frozen=True)
class Candidate:
    """One thing that the database may hold: the first `commits` commits, and perhaps a write that failed after them."""

    commits: int
    picture: Picture
    log: Sequence[Change]


@dataclass(slots=True, frozen=True)
class Handed:
    """A token that was handed out before the cut: after so many commits."""

    token: str
    commits: int

    @property
    def seq(self) -> int:
        return int(self.token.rpartition(".")[2])


@dataclass(slots=True, frozen=True)
class Expectation:
    """What is legal after one cut.

    Attributes:
        least: Commits that must be there.
        candidates: The legal contents, those with the fewest commits first.
        tokens: Handed out before the cut.
        log: Of the whole run; a token's position is that after the changes up to its seq here.
        lost: Tokens of a future that an earlier cut has undone.
    """

    least: int
    candidates: list[Candidate]
    tokens: list[Handed]
    log: Sequence[Change]
    lost: Sequence[str]


class History:
    """See the head of this file.

    Attributes:
        order: The numbers of the writes that were committed, in that order.
    """

    def __init__(
        self,
        base: Model,
        writes: Iterable[Write],
        order: Sequence[int],
        kept: Sequence[str] = (),
        lost: Sequence[str] = (),
    ) -> None:
        """`base`: what the database held before; `kept` and `lost`: tokens from before that, which it has or has not."""
        self.order = order
        self._kept = [Handed(token, 0) for token in kept]
        self._lost = lost
        self._base = base
        self._writes = {write.number: write for write in writes}
        model = base.copy()
        self._candidates = [Candidate(0, model.picture(), model.log)]
        for number in order:
            self._writes[number].effect(model)
            # One log for all of them: it is only added to, and each picture knows how far it goes.
            self._candidates.append(Candidate(len(self._candidates), model.picture(), model.log))
        self._places = {number: place for place, number in enumerate(order, 1)}

    def model(self, commits: int) -> Model:
        """After so many commits."""
        model = self._base.copy()
        for number in self.order[:commits]:
            self._writes[number].effect(model)
        return model

    def expectation(self, marks: Iterable[Mark], place: int) -> Expectation:
        """What is legal when the power is cut after `place` events."""
        # Of each write that was begun, how many had been acknowledged by then.
        begun: dict[int, int] = {}
        failed: list[int] = []
        tokens = list(self._kept)
        least = done = 0
        for mark in marks:
            if mark.place > place:
                break
            said = mark.said
            if "begin" in said:
                begun[said["begin"]] = done
                continue
            if "failed" in said:
                failed.append(said["failed"])
                continue
            number = said.get("done", said.get("told"))
            if "token" in said:
                tokens.append(Handed(said["token"], self._places[number]))
                done += 1
            if number in self._writes and self._writes[number].durability == "hard":
                least = max(least, self._places[number])
        most = least
        while most < len(self.order) and self.order[most] in begun:
            most += 1
        candidates = self._candidates[least : most + 1]
        # Those that failed, and one that was begun last and is about to fail.
        in_doubt = [number for number in begun if number in failed or number not in self._places]
        candidates += [
            self._with_failed(number, begun[number]) for number in in_doubt if begun[number] >= least
        ]
        return Expectation(least, candidates, tokens, self._candidates[-1].log, self._lost)

    def _with_failed(self, number: int, commits: int) -> Candidate:
        """Only where writes are made one after the other is it known how many commits there were before."""
        model = self.model(commits)
        self._writes[number].effect(model)
        return Candidate(commits, model.picture(), model.log)
