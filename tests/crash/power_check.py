"""Judging images: each is written to a folder, opened with reactdb as after a power cut, and compared with what is legal.

`judge` returns a sentence for each requirement that an image does not meet:

- open, without help, and pass every check of `reactdb doctor`;
- hold one of the legal contents: documents, tables, indexes, seq and log;
- take every token that was handed out before the cut and whose position it has, and refuse every other with HistoryDiverged,
  also when a new process has written over that position;
- take a new write, under the next seq, with a token that was never handed out before;
- be closed, and hold the same when it is opened again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import reactdb
from reactdb.change import TableReference
from reactdb.dialects.couchdb.changes import ChangesRequest
from reactdb.dialects.couchdb.couch import Couch
from reactdb.query import Query
from reactdb.session import session_of
from reactdb.store.materialized_tables import MATERIALIZED
from reactdb.store.positions import find_position
from reactdb.store.tools import doctor
from reactdb.table import Table
from tests.support.hooks import JOURNAL, whole_log

from .history import Candidate, Expectation, History
from .images import Disk, Image, image
from .recording import Recording
from .scenarios import EDITED, scenario_of
from .trees import wrong_tables
from .workload import CONSUMER, KEPT, Model, place_of, writes_of

FILE = "a.db"


@dataclass(slots=True, frozen=True)
class Spec:
    """Names an image: the power is cut after `place` events, and `kind` and `repeat` say what the disk has kept."""

    place: int
    kind: int
    repeat: int


@dataclass(slots=True, frozen=True)
class Run:
    """A recording, and what is known of it. It travels to the processes that judge.

    Attributes:
        scenario, seed: What the program did.
        order: Of the writes, those that were committed, in that order.
        base: What the database held before.
        kept, lost: Tokens from before that, which it has or has not.
    """

    scenario: str
    seed: int
    recording: Recording
    order: list[int]
    base: Model = field(default_factory=Model)
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def history(self) -> History:
        scenario = scenario_of(self.scenario)
        writes = writes_of(scenario.steps(Random(f"{self.scenario}/{self.seed}")))
        return History(self.base, writes, self.order, self.kept, self.lost)

    def random(self, spec: Spec) -> Random:
        return Random(f"{self.scenario}/{self.seed}/{spec.place}/{spec.kind}/{spec.repeat}")


@dataclass(slots=True)
class Verdicts:
    """What came of some images.

    Attributes:
        images: Hashes of those that were judged; of each, once.
        failures: (spec, what is wrong with its image).
        lost: Images that did not hold all that had been begun.
    """

    images: set[bytes] = field(default_factory=set)
    failures: list[tuple[Spec, str]] = field(default_factory=list)
    lost: int = 0


def judge_all(run: Run, specs: list[Spec], folder: Path) -> Verdicts:
    """Judge the images in turn; two that are the same, and must hold the same, once."""
    verdicts = Verdicts()
    disk, history = Disk(run.recording), run.history()
    at = 0
    for spec in sorted(specs, key=lambda spec: spec.place):
        while at < spec.place:
            disk.advance(run.recording.events[at])
            at += 1
        made = image(disk, spec.kind, run.random(spec))
        expectation = history.expectation(run.recording.marks, spec.place)
        name = digest(made, expectation)
        if name in verdicts.images:
            continue
        verdicts.images.add(name)
        complaints, held = judge(made, expectation, folder)
        verdicts.failures += [(spec, complaint) for complaint in complaints[:3]]
        if held is not None and held.commits < expectation.candidates[-1].commits:
            verdicts.lost += 1
    return verdicts


def digest(made: Image, expectation: Expectation) -> bytes:
    found = blake2b(f"{expectation.least}/{len(expectation.candidates)}".encode(), digest_size=12)
    for name, content in made.items():
        found.update(f"/{name}/{len(content)}/".encode())
        found.update(content)
    return found.digest()


def put_down(made: Image, folder: Path) -> None:
    """The image's files, and no others, in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in made.items():
        (folder / name).write_bytes(content)


def judge(made: Image, expectation: Expectation, folder: Path) -> tuple[list[str], Candidate | None]:
    """(what is wrong with an image, what it holds)."""
    put_down(made, folder)
    complaints: list[str] = []
    try:
        held = examine(folder / FILE, expectation, complaints)
    except Exception as error:
        complaints.append(f"{type(error).__name__}: {error}")
        held = None
    return complaints, held


def examine(path: Path, expectation: Expectation, complaints: list[str]) -> Candidate | None:
    if expectation.least % 2:
        # By turns the doctor is the first to see the image, and has nobody who puts it right before. (A file that was cut while
        # it was made, and holds nothing yet, it may call empty.)
        complaints += problems_of(path)
    with reactdb.connect(path) as database:
        if not expectation.least % 2:
            complaints += problems_of(path)
        if complaints:
            return None
        content = content_of(database)
        found = [one for one in expectation.candidates if is_held(one, content)]
        if not found:
            complaints.append(what_is_lost(content, expectation))
            return None
        held = found[-1]
        complaints += wrong_log(database, held)
        complaints += wrong_position(database)
        complaints += wrong_view(database)
        complaints += wrong_trees(database)
        head = held.picture.seq
        complaints += wrong_tokens(database, expectation, held)
        # A new process begins to write, over the positions that were lost.
        if "games" not in database.table_list():
            database.table_create("games")
            head += 1
        database.table("games").insert({"id": "after", "step": 0})
        if database.seq != head + 1:
            complaints.append(f"after seq {head} came seq {database.seq}")
        if database.token in {one.token for one in expectation.tokens}:
            complaints.append(f"the position {database.token} was given twice")
        complaints += wrong_tokens(database, expectation, held)
        after = content_of(database)
    with reactdb.connect(path, read_only=True) as database:
        if content_of(database) != after:
            complaints.append("after it was closed and opened again, it holds something else")
    return held


def problems_of(path: Path) -> Iterator[str]:
    for _, findings in doctor.examine(str(path)):
        for finding in findings:
            if finding.level == "problem":
                yield f"doctor, {finding.check}: {finding.message}"


Content = tuple[int, dict[TableReference, tuple[dict[Any, Any], list[str]]]]


def content_of(database: Any) -> Content:
    """With hidden tables: what was written to those is not lost either."""
    with session_of(database).read() as snapshot:
        names = list(snapshot.catalogue.live)
    tables = {}
    for name in names:
        table = Table(session_of(database), Query(name))
        key = session_of(database).info(name).primary_key
        tables[name] = ({place_of(document[key]): document for document in table.run()}, table.index_list())
    return database.seq, tables


def is_held(candidate: Candidate, content: Content) -> bool:
    return (candidate.picture.seq, candidate.picture.tables) == content


def what_is_lost(content: Content, expectation: Expectation) -> str:
    least, last = expectation.candidates[0], expectation.candidates[-1]
    return (
        f"it holds seq {content[0]} with tables {sorted(map(str, content[1]))}, which is no prefix of the commits:"
        f" acknowledged were {expectation.least} commits up to seq {least.picture.seq}, begun those up to seq {last.picture.seq}"
    )


def wrong_log(database: Any, held: Candidate) -> Iterator[str]:
    """What is left of the log is what was written to it."""
    try:
        entries = whole_log(database)
    except reactdb.HistoryLost as error:
        entries = whole_log(database, since=error.oldest - 1)
    live = set(held.picture.tables)
    for change in entries:
        table, key, document = held.log[change.seq - 1]
        # Of a table that was dropped and compacted away, the name is gone.
        if change.table not in (table, f"#{change.table_id}") and table in live:
            yield f"log entry {change.seq} is of table {change.table}, and was of {table}"
        if (change.key, change.new_val) != (key, document):
            yield f"log entry {change.seq} is {change!r} with {change.new_val}, and was {document} under {key!r}"
        # What a write hook derived is in the entry, and in the one after it, of the table beside.
        beside = held.log[change.seq : change.seq + 1]
        if not beside or beside[0][0] != JOURNAL:
            continue
        if change.meta is not None and change.meta != (beside[0][2] or {}).get("revision"):
            yield f"log entry {change.seq} has revision {change.meta!r}, and beside it is {held.log[change.seq]}"


def wrong_position(database: Any) -> Iterator[str]:
    """What a consumer has acknowledged is done, each change once, and nothing else is."""
    done = (
        sorted(document["id"] for document in database.table("done"))
        if "done" in database.table_list()
        else []
    )
    position = max((one["seq"] for one in database.consumers() if one["name"] == CONSUMER), default=0)
    due = (
        [
            change.seq
            for change in database.log(until=position)
            if change.table == "games" and change.catalogue is None
        ]
        if position
        else []
    )
    if done != due:
        yield f"the consumer is at {position}, which has {due} before it, and what is done is {done}"


def wrong_view(database: Any) -> Iterator[str]:
    """A materialized view is its selection as of its position."""
    with session_of(database).read() as snapshot:
        found = find_position(snapshot.connection, MATERIALIZED, KEPT)
    if found is None or found.position is None:
        return
    held, right = database.table(KEPT).run(), database.at(found.position).table("games").run()
    if held != right:
        yield f"the view at {found.position} has {held}, and its selection is {right}"


def wrong_trees(database: Any) -> Iterator[str]:
    """The tables of CouchDB's documents agree, and every attachment has its bytes."""
    if EDITED not in database.table_list():
        return
    notes = Couch(database).open(EDITED)
    yield from wrong_tables(notes)
    for row in notes.changes(ChangesRequest()).rows():
        notes.open_revs(row["id"], "all", revs=True, attachments=True)


def wrong_tokens(database: Any, expectation: Expectation, held: Candidate) -> Iterator[str]:
    """`held`: what the image held. Of the many tokens, those on both sides of its end are asked for, and the last."""
    head = held.picture.seq
    database_id = database.token.partition(".")[0]
    tokens = expectation.tokens
    kept = [one for one in tokens if one.seq <= head and one.commits <= held.commits][-1:]
    lost = [one for one in tokens if one.seq > head or one.commits > held.commits][:1]
    for one in dict.fromkeys((*kept, *lost, *tokens[-1:])):
        is_same = one.seq <= head and held.log[: one.seq] == expectation.log[: one.seq]
        if not one.token.startswith(database_id):
            # The file itself was lost; that it may be is the business of `candidates`.
            is_same = False
        refusal = refused(database, one.token)
        if is_same and one.commits <= held.commits and isinstance(refusal, reactdb.HistoryDiverged):
            yield f"the position {one.token} is there, but is refused: {refusal}"
        elif not is_same and not isinstance(refusal, reactdb.HistoryDiverged):
            yield f"the position {one.token} was lost in the cut, and is not refused as such ({refusal})"
    for token in expectation.lost[:1]:
        if not isinstance(refused(database, token), reactdb.HistoryDiverged):
            yield f"the position {token} was lost in an earlier cut, and is taken"


def refused(database: Any, token: str) -> reactdb.ReactDBError | None:
    try:
        database.changes(since=token).cursor().close()
    except (reactdb.HistoryDiverged, reactdb.HistoryLost) as error:
        return error
    return None
