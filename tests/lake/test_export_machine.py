"""Law: after any run of writes, exports, kills and reopens, a table of the lake equals the documents, the log or the versions."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

pytest.importorskip("pyarrow")

import reactdb
from reactdb.lake import export, run
from tests.lake import answers
from tests.lake.small_chunks import small_chunks

KEYS = st.one_of(st.integers(0, 6))
MIXED_KEYS = st.one_of(KEYS, st.sampled_from(["0", "1", "k"]), st.just(2.5))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**53 + 1, 2**63 - 1, 2**70, 0.5, -0.0, 1e300]),
    st.sampled_from(["", "a", "é"]),
    st.just(b"\x00"),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2)
    ),
    max_leaves=3,
)
DOCUMENTS = st.dictionaries(
    st.sampled_from(["a", "b", "place", "_conflicts", "_key", "document"]), VALUES, max_size=3
)


class Killed(BaseException):
    pass


class ExportMachine(RuleBasedStateMachine):
    """One file and its three tables, in one format."""

    keys: Any = KEYS
    format = "parquet"

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lake-"))
        self.db = reactdb.connect(self.folder / "a.db", durability="soft")
        self.games = self.db.table_create("games")
        self.other = self.db.table_create("other")

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.db.close()
            shutil.rmtree(self.folder)

    @rule(data=st.data(), documents=st.lists(DOCUMENTS, min_size=1, max_size=4))
    def put(self, data: Any, documents: list[dict[str, Any]]) -> None:
        keys = [data.draw(self.keys) for _ in documents]
        rows = {repr(key): {"id": key, **one} for key, one in zip(keys, documents, strict=True)}
        self.games.insert(list(rows.values()), conflict="replace")

    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        self.games.get(data.draw(self.keys)).delete()

    @rule()
    def write_another_table(self) -> None:
        self.other.insert({"text": "x"})

    @rule()
    def write_one_big_commit(self) -> None:
        with self.db.transaction():
            self.games.insert([{"id": n, "a": n} for n in range(7)], conflict="replace")
            self.games.get(3).delete()

    @rule()
    def make_the_table_again(self) -> None:
        self.db.table_drop("games")
        self.games = self.db.table_create("games")
        self.games.insert({"id": 1, "a": "again"})

    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.db = reactdb.connect(self.folder / "a.db", durability="soft")
        self.games, self.other = self.db.table("games"), self.db.table("other")

    @rule(mode=st.sampled_from(["current", "changes", "scd2"]), commits=st.integers(0, 2))
    def export_and_die(self, mode: str, commits: int) -> None:
        """A run that ends after some of its commits, which are small."""
        left = [commits]
        real = run.ExportRun._commit

        def commit(this: Any, *arguments: Any) -> None:
            real(this, *arguments)
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run.ExportRun, "_commit", commit)
            try:
                with small_chunks(40):
                    self.export(mode)
            except Killed:
                pass

    def export(self, mode: str) -> Any:
        folder = str(self.folder / mode)
        return export(self.db, "games", mode=mode, **{self.format: folder})

    def rows(self, outcome: Any) -> list[dict[str, Any]]:
        if not Path(outcome.path).exists():
            return []
        return answers.read(outcome.path, self.format)

    @rule(chunk_bytes=st.sampled_from([1, 100, 10**6]), page_rows=st.sampled_from([1, 3, 2_000]))
    def export_all_and_compare(self, chunk_bytes: int, page_rows: int) -> None:
        with small_chunks(chunk_bytes, page_rows):
            current, changes, versions = (self.export(mode) for mode in ("current", "changes", "scd2"))
        assert answers.wanted_current(self.db) == answers.current(self.rows(current))
        assert answers.wanted_changes(self.db) == answers.changes(self.rows(changes))
        assert answers.wanted_versions(self.db) == answers.versions(self.rows(versions))
        assert [0, 0, 0] == [self.export(mode).rows for mode in ("current", "changes", "scd2")]


class MixedKeys(ExportMachine):
    """Numbers and texts, whole numbers and others."""

    keys = MIXED_KEYS


class LongExport(ExportMachine):
    """The same, for longer."""


TestExport = ExportMachine.TestCase
TestExport.settings = settings(max_examples=5, stateful_step_count=8, deadline=None)
TestLongExport = pytest.mark.slow(LongExport.TestCase)
TestLongExport.settings = settings(max_examples=30, stateful_step_count=12, deadline=None)
TestMixedKeys = pytest.mark.slow(MixedKeys.TestCase)
TestMixedKeys.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
