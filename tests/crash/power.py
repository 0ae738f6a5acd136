"""Power cuts: what a run asked of the disk is recorded, and every image that a cut could have left of it must be as promised.

Run it with `python -m tests.crash --power-images 20000`, or `python -m tests.crash.power --images 20000 --seed 1 --jobs 2`.

**Method.** A program carries out a scenario (`scenarios.py`) with reactdb and the standard library's SQLite, under a small
shared object (`recorder.c`, built with the C compiler that is there). This writes down, in one order for all threads and
processes, each call that changes a file of the database: create, write, resize, flush, flush of the folder, unlink, rename. The
program adds marks of what it begins, what is acknowledged to it, which token it is given, and what its feeds are told
(`recorded.py`). Afterwards the power is cut after any of the calls, and images of the disk are made (`images.py`). Each is opened
with reactdb, in a folder in memory, and judged (`power_check.py`) against a model in plain Python (`workload.py`, `history.py`).

**Legal images.** A disk has what was flushed, and of all else anything. So for each file, of the calls since its last flush:

    everything          all of them
    nothing             none of them
    all but one         any one is missing
    only one            any one is there alone
    only the last       the newest few, without those before them
    first few           in order, up to any one
    some                any subset
    torn at sector      one is there in part, by sectors of 512 bytes; those after it are all there or all missing
    torn at byte        one is there up to any byte
    any sectors         each sector is as it was at some moment, whatever the others are: writes in any order
    grown with zeros    the file has its new size, and zeros where it grew
    garbage             sectors that were being written hold neither the old nor the new, where these differ

and one more kind where each file has another of these. A name that was made, removed or renamed leads to what it led to at any
moment since the last flush of the folder: flushing a file does not make its name last. When a flush has failed, what it was to
flush stays in doubt also after later flushes that succeed, until it is written again. `-shm` is in no image.

What no image has: a flushed byte that is lost, and changed bytes outside of the range of a write. Drives that do that lie, and
SQLite counts on it as reactdb does (https://sqlite.org/psow.html).

**What must be.** The image opens without help and passes `reactdb doctor`. It holds the first k commits, whole: documents,
indexes and log. Among them is every commit that was acknowledged under `hard`, or that a feed was told of under `hard`, also
where the answer was that nothing had to be changed; and none that was not begun. Under `soft` k is any number. A token whose
position the image has is taken; any other raises HistoryDiverged, also once another process has written over that position; and
no position is given twice. What a durable consumer has acknowledged in a transaction is done, and nothing else is. The next write
gets the next seq, and is still there when the file is opened again.

**Twice.** What is done with an image, from its opening on, is recorded in turn, and cut again.

**That it can fail** is shown by `mutants.py`: stores that do not flush, treat hard as soft, commit a log entry apart from its
head, tell feeds too early, or forget that a flush has failed. Each is found out by a few dozen images.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from random import Random

from .images import KINDS, Disk, image
from .power_check import Run, Spec, Verdicts, judge, judge_all
from .recorder import Job, NoRecorder, Recorder
from .recording import Operation
from .scenarios import SCENARIOS, recovery, scenario_of
from .workload import writes_of

FLUSHES = (Operation.SYNC, Operation.SYNC_FOLDER, Operation.SYNC_FAILED)
# Images from one recording before another one, with another seed, is made.
IMAGES_PER_RECORDING = 700
# Images whose recovery is recorded and cut again, for each that is wanted.
IMAGES_PER_RECOVERY = 60
CHUNK_IMAGES = 64
# A recording that gives the same images over and over is asked so often for others.
ROUNDS = 6


@dataclass(slots=True)
class Result:
    """What came of the images of one scenario."""

    name: str
    recordings: int = 0
    events: int = 0
    flushes: int = 0
    images: int = 0
    lost: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.name:26} {self.recordings:3} runs {self.events:6} calls {self.flushes:5} flushes"
            f" {self.images:6} images {self.lost:6} without the newest {len(self.failures):4} wrong {self.seconds:6.1f} s"
        )

    def add(self, run: Run) -> None:
        self.recordings += 1
        self.events += len(run.recording.events)
        self.flushes += sum(event.operation in FLUSHES for event in run.recording.events)


class Workshop:
    """A folder in memory, a recorder, and processes that judge images."""

    def __init__(self, folder: Path, recorder: Recorder, judges: Executor | None) -> None:
        self._folder = folder
        self._recorder = recorder
        self._judges = judges
        self._runs = 0

    def record(
        self, scenario: str, seed: int, *, mutant: str = "", files: dict[str, bytes] | None = None
    ) -> Run:
        """Record a scenario, from an empty folder or from the files of an image."""
        self._runs += 1
        folder = self._folder / f"run{self._runs}"
        folder.mkdir()
        for name, content in (files or {}).items():
            (folder / name).write_bytes(content)
        trace, result = self._folder / "trace", self._folder / "result"
        job = Job(scenario, seed, str(folder), str(trace), str(result), mutant)
        recording, found = self._recorder.record(job)
        shutil.rmtree(folder)
        return Run(scenario, seed, recording, found["order"])

    def judge(self, run: Run, images: int, result: Result) -> None:
        """Make and judge so many images of a recording, or as many as it has."""
        self._runs += 1
        path = self._folder / f"run{self._runs}.pickle"
        path.write_bytes(pickle.dumps(run))
        seen: set[bytes] = set()
        for repeat in range(ROUNDS):
            wanted = images - len(seen)
            if wanted <= 0:
                break
            specs = chosen(run, wanted, repeat)
            chunks = [specs[start : start + CHUNK_IMAGES] for start in range(0, len(specs), CHUNK_IMAGES)]
            for verdicts in self._all(path, chunks):
                seen |= verdicts.images
                result.lost += verdicts.lost
                result.failures += [
                    f"{run.scenario}, seed {run.seed}, {spec}: {what}" for spec, what in verdicts.failures
                ]
        result.images += len(seen)
        path.unlink()

    def _all(self, path: Path, chunks: list[list[Spec]]) -> Iterator[Verdicts]:
        if self._judges is None:
            yield from (judge_chunk(path, chunk) for chunk in chunks)
            return
        futures: list[Future[Verdicts]] = [self._judges.submit(judge_chunk, path, chunk) for chunk in chunks]
        yield from (future.result() for future in futures)

    def image_of(self, run: Run, spec: Spec) -> tuple[list[str], tuple[dict[str, bytes], Run] | None]:
        """(what is wrong with an image, the image and the run with what is known of a database that goes on from there). None
        for the second, where the image holds a write that failed in COMMIT: as legal, but the run does not know of it."""
        disk = Disk(run.recording)
        for event in run.recording.events[: spec.place]:
            disk.advance(event)
        files = image(disk, spec.kind, run.random(spec))
        history = run.history()
        expectation = history.expectation(run.recording.marks, spec.place)
        complaints, held = judge(files, expectation, self._folder / "image")
        if complaints or held is None or held.commits > len(run.order) or held.log is not expectation.log:
            return complaints, None
        kept = tuple(one.token for one in expectation.tokens if one.commits <= held.commits)
        lost = tuple(one.token for one in expectation.tokens if one.seq > held.picture.seq)
        model = history.model(held.commits)
        return complaints, (files, replace(run, base=model, kept=kept, lost=lost))


@lru_cache(maxsize=2)
def load(path: Path) -> Run:
    run = pickle.loads(path.read_bytes())
    assert isinstance(run, Run)
    return run


def judge_chunk(path: Path, specs: list[Spec]) -> Verdicts:
    return judge_all(load(path), specs, path.parent / f"judge{os.getpid()}")


def chosen(run: Run, images: int, repeat: int) -> list[Spec]:
    """Which images to make: half of them right before and after a flush, the others anywhere."""
    random = Random(f"{run.scenario}/{run.seed}/{repeat}")
    events = run.recording.events
    near, elsewhere = [], []
    disk = Disk(run.recording)
    for place in range(len(events) + 1):
        kinds = [0] if disk.is_settled else range(KINDS)
        is_near = any(event.operation in FLUSHES for event in events[max(place - 1, 0) : place + 1])
        (near if is_near else elsewhere).extend(Spec(place, kind, repeat) for kind in kinds)
        if place < len(events):
            disk.advance(events[place])
    random.shuffle(near)
    random.shuffle(elsewhere)
    half = max(images // 2, images - len(elsewhere))
    return [*near[:half], *elsewhere[: images - min(half, len(near))]]


@contextmanager
def workshop(jobs: int) -> Iterator[Workshop]:
    """One with so many judges; 1: this process judges.

    Raises:
        NoRecorder: Calls cannot be recorded here.
    """
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="reactdb-power-", dir=memory if memory.is_dir() else None
    ) as name:
        folder = Path(name).resolve()
        with Recorder(folder) as recorder:
            if jobs <= 1:
                yield Workshop(folder, recorder, None)
                return
            with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as judges:
                yield Workshop(folder, recorder, judges)


def cut(shop: Workshop, scenario: str, images: int, *, seed: int, mutant: str = "") -> Result:
    """Record a scenario, with as many seeds as it takes, and judge so many of its images."""
    result = Result(scenario)
    start = time.monotonic()
    runs = -(-images // IMAGES_PER_RECORDING)
    for number in range(runs):
        run = shop.record(scenario, seed * 1_000 + number, mutant=mutant)
        result.add(run)
        shop.judge(run, images * (number + 1) // runs - images * number // runs, result)
    result.seconds = time.monotonic() - start
    return result


def cut_twice(shop: Workshop, images: int, *, seed: int) -> Result:
    """Record what is done with images of other scenarios, from their opening on, and cut the power again."""
    result = Result("cut while recovering")
    start = time.monotonic()
    random = Random(f"twice/{seed}")
    names = sorted(SCENARIOS)
    number = 0
    while result.images < images and number <= 3 * images // IMAGES_PER_RECOVERY:
        name = random.choice(names)
        first = shop.record(name, seed * 1_000 + 500 + number)
        number += 1
        spec = Spec(random.randrange(len(first.recording.events)), random.randrange(KINDS), 0)
        complaints, found = shop.image_of(first, spec)
        result.failures += [f"{name}, seed {first.seed}, {spec}, to recover: {what}" for what in complaints]
        if found is None:
            continue
        files, base = found
        steps = scenario_of(name).steps(Random(f"{name}/{first.seed}"))
        next_number = max(write.number for write in writes_of(steps)) + 1
        second = shop.record(recovery(next_number, random.choice(("hard", "soft"))), first.seed, files=files)
        second = replace(second, base=base.base, kept=base.kept, lost=base.lost)
        result.add(second)
        shop.judge(second, min(IMAGES_PER_RECOVERY, images - result.images), result)
    result.seconds = time.monotonic() - start
    return result


def run(images: int, *, seed: int, jobs: int) -> int:
    """Judge so many images, over all scenarios, and print a line for each. Returns: The exit code, 0 where all is well."""
    try:
        with workshop(jobs) as shop:
            results = list(all_results(shop, images, seed))
    except NoRecorder as error:
        print(f"power cuts: not tested: {error}")
        return 0
    failures = [failure for result in results for failure in result.failures]
    total = sum(result.images for result in results)
    seconds = sum(result.seconds for result in results)
    print(f"power cuts: {total} images, {len(failures)} wrong, {seconds:.0f} s")
    for failure in failures[:20]:
        print(f"  {failure}")
    return 1 if failures else 0


def all_results(shop: Workshop, images: int, seed: int) -> Iterator[Result]:
    """As they come, printed. What one scenario does not have images for, the next ones make up."""
    left = images
    names = list(SCENARIOS)
    for place, name in enumerate(names):
        result = cut(shop, name, left // (len(names) + 1 - place), seed=seed)
        left -= result.images
        print(result, flush=True)
        yield result
    result = cut_twice(shop, left, seed=seed)
    print(result, flush=True)
    yield result


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Cut the power in recorded runs of reactdb, and judge what is left."
    )
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    return run(arguments.images, seed=arguments.seed, jobs=arguments.jobs)


if __name__ == "__main__":
    sys.exit(main())
