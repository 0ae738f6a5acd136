"""The schedule: what is done to the processes and the files in each round, and when, from one seed.

Rule of this file: nothing but the seed and the number of the round decides, so that a seed gives the same schedule each time.
What the processes are doing when an action comes is another matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

ROUND_S = 4.0

# What there is one process of, all the time. Two share the ledger, so that one takes over where the other was stopped or killed.
WORKERS = (
    "native-a",
    "native-b",
    "server",
    "clients",
    "ledger-a",
    "ledger-b",
    "outbox",
    "follower",
    "there",
    "syncer",
)
# They end last, because the others need them to end.
SERVERS = ("server", "there")
# Those that do one thing and end, and are killed in the middle of it now and then.
TASK = "task"

KILL, STOP, GO_ON = "kill", "stop", "go on"
DISK_FULL, DISK_FREE = "disk full", "disk free"
SLOW_FLUSHES, CLOCK = "slow flushes", "clock"
COMPACT, RETAIN, CHECKPOINT, BACKUP, EXPORT = "compact", "retain", "checkpoint", "backup", "export"
TASKS = frozenset((COMPACT, RETAIN, CHECKPOINT, BACKUP, EXPORT))

HOUR_S = 3_600


@dataclass(frozen=True)
class Action:
    """One action: `at_s` seconds into the round; `who`: the process that it is done to; `value`: seconds of CLOCK and
    SLOW_FLUSHES, the call that fails of DISK_FULL, what is kept of COMPACT and RETAIN."""

    at_s: float
    what: str
    who: str = ""
    value: float | str | None = None

    def __str__(self) -> str:
        words = [f"{self.at_s:6.3f} s", self.what, self.who, "" if self.value is None else repr(self.value)]
        return "  ".join(word for word in words if word)


@dataclass(frozen=True)
class Round:
    """The actions of a round in the order of their times; `is_killed`: all processes are killed at its end, and not closed."""

    number: int
    actions: tuple[Action, ...]
    is_killed: bool

    def __str__(self) -> str:
        end = "all are killed" if self.is_killed else "all are closed"
        lines = [f"round {self.number}", *map(str, self.actions), f"{ROUND_S:6.3f} s  {end}"]
        return "\n".join(lines)


def round_of(seed: int, number: int) -> Round:
    """A round of the schedule with this seed."""
    chance = Random(f"swarm {seed} {number}")

    def moment(latest: float = ROUND_S) -> float:
        return round(chance.uniform(0, latest), 3)

    actions = [Action(moment(), KILL, chance.choice(WORKERS)) for _ in range(chance.randrange(4, 12))]
    for _ in range(chance.randrange(4)):
        who, begin = chance.choice(WORKERS), moment()
        end = round(min(begin + chance.uniform(0.05, 1.0), ROUND_S), 3)
        actions += [Action(begin, STOP, who), Action(end, GO_ON, who)]
    if chance.random() < 0.5:
        begin = moment(ROUND_S - 1)
        call = chance.choice(("write", "write", "short write", "truncate"))
        actions.append(Action(begin, DISK_FULL, value=call))
        actions.append(Action(round(begin + chance.uniform(0.05, 0.8), 3), DISK_FREE))
    if chance.random() < 0.5:
        begin = moment(ROUND_S - 1)
        actions.append(Action(begin, SLOW_FLUSHES, value=round(chance.uniform(0.005, 0.1), 3)))
        actions.append(Action(round(begin + chance.uniform(0.1, 1.0), 3), SLOW_FLUSHES, value=0.0))
    for _ in range(chance.randrange(3)):
        ahead = chance.choice((1, -1)) * chance.choice((2, 60, HOUR_S, 100 * 24 * HOUR_S))
        actions.append(Action(moment(), CLOCK, value=ahead))
    for _ in range(chance.randrange(5)):
        actions.append(Action(moment(), COMPACT, value=chance.choice((0, 0, 20, 200, "1 s", "vacuum"))))
    if chance.random() < 0.5:
        actions.append(Action(moment(), RETAIN, value=chance.choice(("auto", "all", 0, 100, "1 s"))))
    for what in (CHECKPOINT, BACKUP, EXPORT):
        actions += [Action(moment(), what) for _ in range(chance.randrange(3))]
    # Shortly after a task began: in the middle of it.
    begun = [action.at_s for action in actions if action.what in TASKS]
    for at_s in chance.sample(begun, min(len(begun), chance.randrange(3))):
        actions.append(Action(round(at_s + chance.uniform(0.005, 0.05), 3), KILL, TASK))
    return Round(
        number, tuple(sorted(actions, key=lambda action: action.at_s)), is_killed=chance.random() < 0.7
    )
