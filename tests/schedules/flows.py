"""Flows: tasks, generators and greenlets that share a thread, run step by step in every order.

A program of a flow is a list of operations (see `Op`). Between two of them it may be another flow's turn, so a schedule is a list
of names: whose turn is next. All of them are run, or a sample, always the same one. Nothing happens by chance, and there are
neither threads nor time.

The law: nobody sees, keeps or loses another's write. What each operation must do is worked out beside, by a model (`Model`) that
knows sets of names, and nothing of reactdb. After each schedule the table, the commits of the log and what a feed was told must
be those of the model.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import greenlet

import reactdb
from reactdb import TransactionOwned, UsageError
from reactdb.errors import TransactionEnded, TransactionRolledBack

SEED = 12
# Turns of the loop in which a task surely comes to its next operation.
TURNS = 8
# Schedules of each scenario that are run with the other tests.
SHORT_RUNS = 12
# Schedules that break the law after which a scenario is given up.
MOST_FAILURES = 5

TASK, GREENLET, GENERATOR = "task", "greenlet", "generator"


@dataclass(slots=True, frozen=True)
class Op:
    """One operation of a flow.

    Attributes:
        name: `write`, `read`, `block`, `part` (a block by the object that was given), `share`, `give` (the object of the
            innermost own block), `through` (a write through the given object), `step` and `close` (an async generator), `cancel`
            (a task).
        of: What is written; or the name of the generator or task.
        inside: The operations inside of a block.
        fails: The block ends with an exception.
        is_exclusive: The block is.
    """

    name: str
    of: str = ""
    inside: tuple[Op, ...] = ()
    fails: bool = False
    is_exclusive: bool = False


Program = tuple[Op, ...]


@dataclass(slots=True)
class FlowScenario:
    """Flows that are at work on one database.

    Attributes:
        flows: The kind and the program of each flow, by its name.
        generators: The programs of async generators, by name. Each is begun by the flow that steps it first.
    """

    name: str
    flows: dict[str, tuple[str, Program]]
    generators: dict[str, Program] = field(default_factory=dict)


class Failed(Exception):
    """An exception of the program's own, inside of a block."""


# -----------------------------------------------------------------------------------------------------------------
# The model


class ModelBlock:
    def __init__(self, owner: str, outer: ModelBlock | None, is_exclusive: bool) -> None:
        self.owner = owner
        self.outer = outer
        self.root: ModelBlock = self if outer is None else outer.root
        self.is_exclusive = is_exclusive or (outer is not None and outer.is_exclusive)
        self.written: set[str] = set()
        self.is_over = False
        # Of the outermost one: those who share it, in the order in which they and the blocks inside began.
        self.entries: list[ModelBlock | ModelShare] = []
        self.is_shared = False


class ModelShare:
    def __init__(self, owner: str, root: ModelBlock) -> None:
        self.owner = owner
        self.root = root


Outcome = type[BaseException] | None


class Model:
    """What must be, in sets of names.

    Attributes:
        commits: What was written, commit by commit.
        blocks: Those that are open, the outermost first.
        stranded: Blocks and shares that their flows believe to be in, though the transaction has ended.
    """

    def __init__(self) -> None:
        self.commits: list[set[str]] = []
        self.blocks: list[ModelBlock] = []
        self.stranded: list[ModelBlock | ModelShare] = []

    @property
    def committed(self) -> set[str]:
        return {one for commit in self.commits for one in commit}

    def _is_member(self, flow: str) -> bool:
        block = self.blocks[-1]
        return not block.is_exclusive and flow in {one.owner for one in block.root.entries}

    def _check(self, flow: str, given: ModelBlock | None) -> Outcome:
        """Whether a flow may write, where a transaction is open or was given to it."""
        if given is not None:
            if given.is_over:
                return TransactionEnded
            given.root.is_shared |= flow != given.root.owner
        else:
            if any(one.owner == flow for one in self.stranded):
                return TransactionEnded
            if self.blocks and not self._is_member(flow):
                return TransactionOwned
        if self.blocks:
            last = self.blocks[-1]
            if last.root.is_shared and last is not last.root and last.owner != flow:
                return TransactionOwned
        return None

    def write(self, flow: str, name: str, given: ModelBlock | None = None) -> Outcome:
        refused = self._check(flow, given)
        if refused is None:
            if self.blocks:
                self.blocks[-1].written.add(name)
            else:
                self.commits.append({name})
        return refused

    def read(self, flow: str) -> set[str]:
        seen = self.committed
        if self.blocks and self._is_member(flow):
            for block in self.blocks:
                seen |= block.written
        return seen

    def begin(
        self, flow: str, is_exclusive: bool, given: ModelBlock | None = None
    ) -> tuple[Outcome, ModelBlock | None]:
        refused = self._check(flow, given)
        if refused is not None:
            return refused, None
        outer = given or (self.blocks[-1] if self.blocks else None)
        block = ModelBlock(flow, outer, is_exclusive)
        block.root.is_shared |= flow != block.root.owner
        block.root.entries.append(block)
        self.blocks.append(block)
        return None, block

    def end(self, flow: str, block: ModelBlock, fails: bool) -> Outcome:
        if block.is_over:
            self.stranded = [one for one in self.stranded if one is not block]
            return Failed if fails else TransactionEnded
        outcome: Outcome = Failed if fails else None
        if not fails:
            inside = self.blocks[-1] is not block or (
                block is block.root and any(isinstance(one, ModelShare) for one in block.entries)
            )
            if flow != block.owner or inside:
                outcome = TransactionRolledBack
        place = self.blocks.index(block)
        ended: list[ModelBlock | ModelShare] = list(self.blocks[place:])
        del self.blocks[place:]
        if outcome is None:
            if block.outer is None:
                self.commits += [block.written] if block.written else []
            else:
                self.blocks[-1].written |= block.written
        if block is block.root:
            ended += [one for one in block.entries if isinstance(one, ModelShare)]
        for one in ended:
            if isinstance(one, ModelBlock):
                one.is_over = True
        block.root.entries = [one for one in block.root.entries if one not in ended]
        self.stranded += [one for one in ended if one is not block and one.owner != block.owner]
        return outcome

    def share(self, flow: str, given: ModelBlock) -> tuple[Outcome, ModelShare | None]:
        if given.is_over:
            return TransactionEnded, None
        given.root.is_shared |= flow != given.root.owner
        if given.is_exclusive:
            return UsageError, None
        share = ModelShare(flow, given.root)
        given.root.entries.append(share)
        return None, share

    def leave(self, share: ModelShare, fails: bool) -> Outcome:
        self.stranded = [one for one in self.stranded if one is not share]
        share.root.entries = [one for one in share.root.entries if one is not share]
        if fails:
            return Failed
        return TransactionEnded if share.root.is_over else None


# -----------------------------------------------------------------------------------------------------------------
# One schedule


class World:
    """A database, its model, and the flows that are at work on both.

    Attributes:
        running: The flow that has its turn. Generators that no task runs are one flow: Python cannot tell them apart.
    """

    def __init__(self, scenario: FlowScenario) -> None:
        self.db = reactdb.connect(":memory:")
        self.table = self.db.table_create("t")
        self.model = Model()
        self.told: list[str] = []
        self.table.changes().subscribe(lambda event: self.told.append(event["new_val"]["id"]))
        self.running = ""
        self.given: tuple[reactdb.OpenTransaction, ModelBlock] | None = None
        self.loop = asyncio.new_event_loop()
        self.gates: dict[str, asyncio.Future[None]] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.generators: dict[str, AsyncGenerator[None, None]] = {}
        self.programs = scenario.generators
        self.steps: dict[str, Callable[[], bool]] = {
            name: {TASK: self._task, GREENLET: self._greenlet, GENERATOR: self._generator}[kind](
                name, program
            )
            for name, (kind, program) in scenario.flows.items()
        }

    def step(self, name: str) -> bool:
        """Let a flow go on to its next operation. Whether there is one."""
        return self.steps[name]()

    def _turn(self, until: Callable[[], bool]) -> None:
        for _ in range(TURNS):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
            if until():
                return
        raise AssertionError("a task waits for what is not its turn")

    def _task(self, name: str, program: Program) -> Callable[[], bool]:
        async def work() -> None:
            await self._gate(name)
            running = self.interpret(program, [])
            try:
                for awaited in running:
                    if awaited is not None:
                        await self._drive(*awaited)
                    else:
                        await self._gate(name)
            except asyncio.CancelledError as error:
                # Where it stands inside of its blocks.
                running.throw(error)

        task = self.tasks[name] = self.loop.create_task(work(), name=name)
        self._turn(lambda: name in self.gates)

        def step() -> bool:
            if task.done():
                return False
            self.running = name
            gate = self.gates.pop(name)
            if not gate.done():
                gate.set_result(None)
            self._turn(lambda: task.done() or name in self.gates)
            if task.done() and not task.cancelled():
                task.result()
            return not task.done()

        return step

    async def _gate(self, name: str) -> None:
        gate = self.gates[name] = self.loop.create_future()
        await gate

    async def _drive(self, op: Op, name: str) -> None:
        """Step or close an async generator."""
        generator = self.generators.get(name)
        if generator is None:
            if op.name == "close":
                return

            async def rows() -> AsyncGenerator[None, None]:
                running = self.interpret(self.programs[name], [])
                try:
                    for _ in running:
                        yield
                except GeneratorExit as error:
                    try:
                        running.throw(error)
                    except GeneratorExit:
                        return

            generator = self.generators[name] = rows()
        if op.name == "close":
            await generator.aclose()
        else:
            await anext(generator, None)

    def _greenlet(self, name: str, program: Program) -> Callable[[], bool]:
        driver = greenlet.getcurrent()

        def work() -> None:
            for _ in self.interpret(program, []):
                driver.switch()

        running = greenlet.greenlet(work)

        def step() -> bool:
            self.running = name
            if not running.dead:
                running.switch()
            return not running.dead

        return step

    def _generator(self, name: str, program: Program) -> Callable[[], bool]:
        running = self.interpret(program, [])

        def step() -> bool:
            self.running = ""
            return next(running, self) is not self

        return step

    # -------------------------------------------------------------------------------------------------------------
    # What a program does, and must do

    def interpret(self, program: Program, own: list[Any]) -> Generator[Any, None, None]:
        """Carry out a program, with a yield where it may be another's turn. `own`: its open blocks, with their objects."""
        for op in program:
            match op.name:
                case "write":
                    expected = self.model.write(self.running, op.of)
                    self._compare(op, expected, lambda op=op: self.table.insert({"id": op.of}))  # type: ignore[misc]
                case "through" if self.given is not None:
                    transaction, block = self.given
                    expected = self.model.write(self.running, op.of, block)
                    self._compare(
                        op,
                        expected,
                        lambda op=op, inside=transaction: inside.table("t").insert({"id": op.of}),  # type: ignore[misc]
                    )
                case "read":
                    seen = {one["id"] for one in self.table.run()}
                    must = self.model.read(self.running)
                    assert seen == must, f"{self.running} sees {sorted(seen)}, and must see {sorted(must)}"
                    assert self.table.count().run() == len(must)
                case "give" if own:
                    self.given = own[-1]
                case "block":
                    yield from self._block(op, own, None)
                case "part" if self.given is not None:
                    yield from self._block(op, own, self.given)
                case "share" if self.given is not None:
                    yield from self._share(op, own, *self.given)
                case "step" | "close":
                    yield op, op.of
                case "cancel":
                    self.tasks[op.of].cancel()
            yield

    def _compare(self, op: Op, expected: Outcome, act: Callable[[], object]) -> None:
        found: Outcome = None
        try:
            act()
        except UsageError as error:
            found = type(error)
        assert found is expected, f"{op.name} {op.of} of {self.running}: {found}, and must be {expected}"

    def _block(
        self, op: Op, own: list[Any], given: tuple[reactdb.OpenTransaction, ModelBlock] | None
    ) -> Generator[Any, None, None]:
        place = None if given is None else given[1]
        begun = self.running
        expected, block = self.model.begin(begun, op.is_exclusive, place)
        found: Outcome = None
        database = self.db if given is None else given[0]
        try:
            with database.transaction(exclusive=op.is_exclusive) as transaction:
                assert block is not None, f"{begun} is let in, and must not be: {expected}"
                try:
                    yield
                    yield from self.interpret(op.inside, [*own, (transaction, block)])
                except BaseException as error:
                    if not isinstance(error, AssertionError):
                        self.model.end(self.running, block, True)
                    raise
                expected = self.model.end(self.running, block, op.fails)
                if op.fails:
                    raise Failed
        except Failed:
            found = Failed
        except UsageError as error:
            found = type(error)
        assert found is expected, f"{op.name} of {begun}: {found}, and must be {expected}"

    def _share(
        self, op: Op, own: list[Any], transaction: reactdb.OpenTransaction, block: ModelBlock
    ) -> Generator[Any, None, None]:
        expected, share = self.model.share(self.running, block)
        found: Outcome = None
        try:
            with transaction.share():
                assert share is not None, f"{self.running} shares what it must not: {expected}"
                try:
                    yield
                    yield from self.interpret(op.inside, own)
                except BaseException as error:
                    if not isinstance(error, AssertionError):
                        self.model.leave(share, True)
                    raise
                expected = self.model.leave(share, op.fails)
                if op.fails:
                    raise Failed
        except Failed:
            found = Failed
        except UsageError as error:
            found = type(error)
        assert found is expected, f"share of {self.running}: {found}, and must be {expected}"

    def check_end(self) -> None:
        """All flows have ended."""
        self.running = "main"
        for generator in self.generators.values():
            self.loop.run_until_complete(generator.aclose())
        assert not self.model.blocks, "the scenario leaves a block open"
        there = sorted(one["id"] for one in self.table.run())
        assert there == sorted(self.model.committed), f"{there} are there, not {sorted(self.model.committed)}"
        commits: dict[int, set[str]] = {}
        for change in self.db.log(table="t"):
            if change.kind == "insert":
                commits.setdefault(change.commit, set()).add(change.key)
        assert list(commits.values()) == self.model.commits, f"commits {commits}, not {self.model.commits}"
        assert sorted(self.told) == there, f"a feed was told {self.told}"
        self.table.insert({"id": "end"})
        assert self.told[-1] == "end"

    def close(self) -> None:
        for task in self.tasks.values():
            # Where a law was broken: nobody goes on with it.
            task.cancel()
        if self.tasks:
            self.loop.run_until_complete(asyncio.wait(self.tasks.values()))
        for task in self.tasks.values():
            if not task.cancelled():
                # Or the loop says that nobody has looked.
                task.exception()
        self.loop.close()
        self.db.close()


@dataclass(slots=True)
class FlowReport:
    """What the schedules of one scenario came to. `failures`: (schedule, broken law)."""

    runs: int = 0
    left: int = 0
    failures: list[tuple[tuple[str, ...], str]] = field(default_factory=list)


def run_flows(scenario: FlowScenario, schedule: Sequence[str] = ()) -> tuple[list[str], list[list[str]], str]:
    """Run it. What `schedule` does not say goes the simplest way: the first flow that can goes on.

    Returns:
        Whose turn it was, who could have had it, and the law that was broken, or "".
    """
    world = World(scenario)
    alive = list(scenario.flows)
    turns: list[str] = []
    options: list[list[str]] = []
    try:
        while alive:
            name = schedule[len(turns)] if len(turns) < len(schedule) else alive[0]
            turns.append(name)
            options.append(list(alive))
            if not world.step(name):
                alive.remove(name)
        world.check_end()
    except AssertionError as error:
        return turns, options, f"law broken: {error}"
    except Exception as error:
        return turns, options, f"{world.running} raised {error!r}"
    finally:
        world.close()
    return turns, options, ""


def explore_flows(scenario: FlowScenario, most_runs: int | None = None) -> FlowReport:
    """Run it under all schedules, or a sample of them."""
    report = FlowReport()
    waiting: list[tuple[str, ...]] = [()]
    chance = random.Random(SEED)
    while waiting and report.runs != most_runs and len(report.failures) < MOST_FAILURES:
        if most_runs is not None:
            place = chance.randrange(len(waiting))
            waiting[place], waiting[-1] = waiting[-1], waiting[place]
        schedule = waiting.pop()
        turns, options, broken = run_flows(scenario, schedule)
        report.runs += 1
        if broken:
            report.failures.append((tuple(turns), broken))
        for step in range(len(schedule), len(turns)):
            waiting += [(*turns[:step], other) for other in options[step] if other != turns[step]]
    report.left = len(waiting)
    return report


# -----------------------------------------------------------------------------------------------------------------
# The scenarios


def write(name: str) -> Op:
    return Op("write", name)


def through(name: str) -> Op:
    return Op("through", name)


def block(*inside: Op, fails: bool = False, is_exclusive: bool = False) -> Op:
    return Op("block", "", inside, fails, is_exclusive)


def part(*inside: Op, fails: bool = False) -> Op:
    return Op("part", "", inside, fails)


def share(*inside: Op, fails: bool = False) -> Op:
    return Op("share", "", inside, fails)


READ, GIVE = Op("read"), Op("give")


def of_kind(kind: str, **programs: Program) -> dict[str, tuple[str, Program]]:
    return {name: (kind, program) for name, program in programs.items()}


def scenarios_of(kind: str) -> list[FlowScenario]:
    """What two and three flows of one kind do to each other."""
    many = f"{kind}s"
    return [
        FlowScenario(
            f"{many}: one is rolled back, the other writes",
            of_kind(
                kind, a=(block(write("a1"), write("a2"), fails=True),), b=(write("b1"), READ, write("b2"))
            ),
        ),
        FlowScenario(
            f"{many}: two transactions interleave",
            of_kind(
                kind, a=(block(write("a1"), READ), write("a2")), b=(block(write("b1"), fails=True), READ)
            ),
        ),
        FlowScenario(
            f"{many}: parts that fail alone",
            of_kind(
                kind,
                a=(block(write("a1"), block(write("a2"), fails=True), write("a3")),),
                b=(block(block(write("b1")), READ),),
            ),
        ),
        FlowScenario(
            f"{many}: the object is handed over",
            of_kind(kind, a=(block(GIVE, write("a1")), READ), b=(through("b1"), READ, through("b2"))),
        ),
        FlowScenario(
            f"{many}: it is shared",
            of_kind(
                kind,
                a=(block(GIVE, write("a1"), write("a2")), write("a3")),
                b=(share(write("b1"), READ, write("b2")), write("b3")),
            ),
        ),
        FlowScenario(
            f"{many}: it is shared, and fails",
            of_kind(
                kind,
                a=(block(GIVE, write("a1"), fails=True), write("a2")),
                b=(share(write("b1"), write("b2")), write("b3")),
            ),
        ),
        FlowScenario(
            f"{many}: a part is another flow's",
            of_kind(
                kind,
                a=(block(GIVE, write("a1"), block(write("a2")), READ),),
                b=(part(write("b1"), fails=True), through("b2")),
            ),
        ),
        FlowScenario(
            f"{many}: it is exclusive",
            of_kind(
                kind,
                a=(block(GIVE, through("a1"), write("a2"), READ, is_exclusive=True),),
                b=(write("b1"), through("b2"), READ),
            ),
        ),
        FlowScenario(
            f"{many}: three",
            of_kind(
                kind,
                a=(block(write("a1"), fails=True), READ),
                b=(write("b1"), READ),
                c=(block(write("c1"), READ),),
            ),
        ),
        FlowScenario(
            f"{many}: three, and two of them share",
            of_kind(
                kind,
                a=(block(GIVE, write("a1"), READ), write("a2")),
                b=(share(write("b1")), READ),
                c=(part(write("c1"), fails=True), write("c2")),
            ),
        ),
    ]


FLOW_SCENARIOS = [
    *scenarios_of(TASK),
    *scenarios_of(GREENLET),
    *scenarios_of(GENERATOR),
    FlowScenario(
        "tasks: one is cancelled between two writes",
        of_kind(
            TASK,
            a=(block(write("a1"), block(write("a2")), write("a3")), write("a4")),
            b=(write("b1"), Op("cancel", "a"), READ),
        ),
    ),
    FlowScenario(
        "tasks: an async generator is begun in one, and closed in another",
        of_kind(
            TASK,
            a=(Op("step", "g"), write("a1"), Op("step", "g")),
            b=(write("b1"), Op("step", "g"), Op("close", "g"), READ),
        ),
        {"g": (block(write("g1"), write("g2")),)},
    ),
    FlowScenario(
        "tasks: two async generators between three",
        of_kind(
            TASK,
            a=(Op("step", "g"), Op("step", "h"), write("a1")),
            b=(Op("step", "h"), Op("close", "g"), READ),
            c=(Op("step", "g"), write("c1")),
        ),
        {"g": (block(write("g1")),), "h": (write("h0"), block(write("h1")))},
    ),
    FlowScenario(
        "a task, a greenlet and a generator",
        {
            "a": (TASK, (block(GIVE, write("a1")), READ)),
            "b": (GREENLET, (block(write("b1"), fails=True), through("b2"))),
            "c": (GENERATOR, (write("c1"), block(write("c2")))),
        },
    ),
]
