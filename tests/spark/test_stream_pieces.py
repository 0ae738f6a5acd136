"""Streams without a session: offsets, limits, restarts, and files that have changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

import reactdb
from reactdb.errors import CannotOpen, HistoryDiverged, HistoryLost, InvalidOption
from reactdb.spark.options import parse
from reactdb.spark.positions import Position, from_offset, shares, to_offset
from reactdb.spark.stream import StreamReader

SCHEMA = StructType([StructField("seq", LongType())])
ALL = ReadAllAvailable()


def reader(path: Path, **options: Any) -> StreamReader:
    given = {"path": str(path), "read": "changes"} | {name: str(value) for name, value in options.items()}
    return StreamReader(SCHEMA, parse(given))


def carried(offset: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from a checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def seqs(stream: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """The seqs of a batch, in the order in which they are read."""
    return [
        seq
        for split in stream.partitions(carried(start), carried(end))
        for batch in stream.read(split)
        for seq in batch.column(0).to_pylist()
    ]


def ends(offset: dict[str, Any]) -> dict[str, int]:
    return {Path(path).name: position.seq for path, position in from_offset(offset).items()}


def batches(stream: StreamReader, start: dict[str, Any], limit: Any = None) -> list[list[int]]:
    """All batches until there is nothing new."""
    found = []
    while True:
        end = stream.latestOffset(carried(start), limit or stream.getDefaultReadLimit())
        if end == start:
            return found
        found.append(seqs(stream, start, end))
        start = end


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with eleven commits of one change: a table, and ten documents."""
    file = tmp_path / "a.db"
    make(file, 10)
    return file


def make(file: Path, count: int, first: int = 0) -> None:
    with reactdb.connect(file, durability="soft") as db:
        games = db.table_create("games", exist_ok=True)
        for number in range(first, first + count):
            games.insert({"id": number})


class TestBatches:
    def test_a_stream_begins_with_the_first_change_and_goes_on_where_it_was(self, path: Path):
        stream = reader(path)
        start = stream.initialOffset()
        end = stream.latestOffset(start, ALL)
        make(path, 2, first=10)
        later = stream.latestOffset(carried(end), ALL)

        assert [*range(2, 12)] == seqs(stream, start, end)
        assert [12, 13] == seqs(stream, end, later)

    def test_where_there_is_nothing_new_the_offset_is_the_same(self, path: Path):
        stream = reader(path)
        end = stream.latestOffset(stream.initialOffset(), ALL)

        assert end == stream.latestOffset(carried(end), ALL)
        assert [] == stream.partitions(end, end)

    def test_a_limit_holds_while_a_writer_appends(self, path: Path):
        stream = reader(path, maxChangesPerTrigger=4)
        start = stream.initialOffset()
        sizes, total = [], []
        for round_ in range(6):
            end = stream.latestOffset(carried(start), stream.getDefaultReadLimit())
            found = seqs(stream, start, end)
            sizes.append(len(found))
            total += found
            make(path, 3, first=10 + 3 * round_)
            start = end

        # The first change of all made the table.
        assert [3, 4, 4, 4, 4, 4] == sizes
        assert [*range(2, 25)] == total

    def test_a_limit_cuts_between_commits_where_it_can(self, tmp_path: Path):
        path = tmp_path / "a.db"
        with reactdb.connect(path) as db:
            games = db.table_create("games")
            for size in (3, 3, 9, 1):
                games.insert([{} for _ in range(size)])

        assert [3, 3, 5, 5] == [
            len(found)
            for found in batches(reader(path, maxChangesPerTrigger=5), reader(path).initialOffset())
        ]

    def test_without_a_limit_the_option_is_not_asked(self, path: Path):
        stream = reader(path, maxChangesPerTrigger=4)

        assert {"a.db": 11} == ends(stream.latestOffset(stream.initialOffset(), ALL))

    def test_available_now_reads_what_was_there_when_it_began(self, path: Path, tmp_path: Path):
        stream = reader(tmp_path, maxChangesPerTrigger=4)
        stream.prepareForTriggerAvailableNow()
        start = stream.initialOffset()
        make(path, 5, first=10)
        make(tmp_path / "b.db", 5)

        assert [[2, 3, 4], [5, 6, 7, 8], [9, 10, 11]] == batches(stream, start)

    def test_the_same_batch_after_a_restart_has_the_same_changes(self, path: Path):
        before = reader(path)
        start = before.initialOffset()
        end = before.latestOffset(start, ALL)
        make(path, 5, first=10)

        assert seqs(before, start, end) == seqs(reader(path), start, end)

    def test_the_first_batch_after_a_restart_begins_where_it_began(self, path: Path):
        """Spark keeps no beginning: it asks for it again, and `now` is somewhere else by then."""
        stream = reader(path, start="now")
        start = stream.initialOffset()
        make(path, 3, first=10)
        end = stream.latestOffset(start, ALL)
        make(path, 3, first=13)

        again = reader(path, start="now")
        assert [12, 13, 14] == seqs(again, again.initialOffset(), end)
        assert [12, 13, 14] == seqs(stream, start, end)

    def test_the_trigger_reports_what_it_saw(self, path: Path):
        stream = reader(path, maxChangesPerTrigger=4)
        assert stream.reportLatestOffset() is None
        stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())

        assert {"a.db": 11} == ends(stream.reportLatestOffset() or {})


class TestBeginnings:
    @pytest.mark.parametrize(
        ("options", "first"),
        [
            ({}, 2),
            ({"start": 0}, 2),
            ({"start": "Now"}, 12),
            ({"start": 4}, 4),
            ({"start": 12}, 12),
            ({"start": "2020-01-01"}, 2),
        ],
    )
    def test_a_stream_begins_where_it_is_told(self, path: Path, options: dict[str, Any], first: int):
        stream = reader(path, **options)
        start = stream.initialOffset()
        make(path, 2, first=10)

        assert [[*range(first, 14)]] == batches(stream, start)

    def test_a_compacted_file_begins_with_what_is_left(self, path: Path):
        with reactdb.connect(path) as db:
            db.table("games").delete()
            db.compact(keep=4)

        assert [18, 19, 20, 21] == batches(reader(path), reader(path).initialOffset())[0]
        with pytest.raises(HistoryLost):
            reader(path, start=3).initialOffset()

    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"start": 50}, "start 50 is in the future of .*: its newest change has seq 11"),
            ({"start": "2999-01-01"}, "start is a time in the future: .* start=now for later writes only"),
            ({"read": "documents", "asOf": 3}, "leave out asOf, and choose the first change with start"),
            ({"maxChangesPerTrigger": 0}, "maxChangesPerTrigger is a whole number of at least 1"),
            ({"start": "middle"}, "start is a seq, an ISO 8601 time such as .*, or now, not middle"),
            ({"startingOffsets": "latest"}, "startingOffsets was removed: .* give start=now"),
            ({"end": 3}, "a stream has no end"),
            ({"read": "documents"}, "a stream reads changes"),
        ],
    )
    def test_a_wrong_option_is_told(self, path: Path, options: dict[str, Any], sentence: str):
        with pytest.raises(InvalidOption, match=sentence):
            reader(path, **options).initialOffset()

    def test_a_limit_that_there_is_none_of_is_told(self, path: Path):
        stream = reader(path)
        with pytest.raises(InvalidOption, match="ReadMaxBytes"):
            stream.latestOffset(stream.initialOffset(), ReadMaxBytes(1))


class TestFleets:
    def test_a_file_that_comes_is_read_from_its_beginning(self, path: Path, tmp_path: Path):
        stream = reader(tmp_path)
        start = stream.latestOffset(stream.initialOffset(), ALL)
        make(tmp_path / "b.db", 3)
        end = stream.latestOffset(carried(start), ALL)

        assert [2, 3, 4] == seqs(reader(tmp_path), start, end)
        assert {"a.db": 11, "b.db": 4} == ends(end)

    def test_a_limit_is_shared_among_the_files(self, path: Path, tmp_path: Path):
        for name in ("b.db", "c.db"):
            make(tmp_path / name, 10)
        stream = reader(tmp_path, maxChangesPerTrigger=9)
        start = stream.initialOffset()

        assert {"a.db": 3, "b.db": 3, "c.db": 3} == ends(stream.latestOffset(start, ReadMaxRows(9)))
        # Three of the first nine changes made the tables.
        assert [6, 9, 9, 6] == [len(found) for found in batches(stream, start)]

    def test_no_file_starves_where_the_limit_is_below_their_number(self, path: Path, tmp_path: Path):
        make(path, 90, first=10)
        make(tmp_path / "b.db", 2)
        stream = reader(tmp_path, maxChangesPerTrigger=1)
        offset = stream.initialOffset()
        for _ in range(5):
            offset = stream.latestOffset(carried(offset), stream.getDefaultReadLimit())

        assert 2 == ends(offset)["b.db"]

    @given(
        st.dictionaries(st.text(max_size=2), st.integers(0, 50), max_size=6),
        st.integers(0, 120),
    )
    def test_shares_use_up_the_limit_and_no_more(self, available: dict[str, int], limit: int):
        taken = shares(available, limit)

        assert min(limit, sum(available.values())) == sum(taken.values())
        assert all(0 <= taken[path] <= available[path] for path in available)

    def test_a_file_that_is_gone_is_told(self, path: Path, tmp_path: Path):
        make(tmp_path / "b.db", 3)
        stream = reader(tmp_path)
        end = stream.latestOffset(stream.initialOffset(), ALL)
        reactdb.delete_database(tmp_path / "b.db")

        with pytest.raises(CannotOpen, match="the stream has read it up to seq 4"):
            stream.latestOffset(carried(end), ALL)
        assert end == reader(tmp_path, failOnDataLoss="false").latestOffset(carried(end), ALL)


class TestHistories:
    def end(self, path: Path) -> dict[str, Any]:
        stream = reader(path)
        return carried(stream.latestOffset(stream.initialOffset(), ALL))

    def both(self, path: Path, end: dict[str, Any], **options: Any) -> None:
        """Whether a trigger goes on from there, or a restart asks for the batch that ended there: both look at the file."""
        reader(path, **options).latestOffset(end, ALL)

    def test_a_log_that_was_cut_off_is_told_with_both_sides(self, path: Path):
        end = self.end(path)
        with reactdb.connect(path) as db:
            db.table("games").delete()
            db.compact(keep=4)

        with pytest.raises(
            HistoryLost,
            match=r"a\.db: changes since seq 11 are gone; the log starts at seq 18 .*failOnDataLoss",
        ):
            reader(path).latestOffset(end, ALL)
        with pytest.raises(HistoryLost, match="changes since seq 0 are gone"):
            reader(path).partitions({"version": 1, "files": {}}, end)

    def test_where_data_may_be_lost_a_stream_goes_on_with_the_oldest(self, path: Path):
        end = self.end(path)
        with reactdb.connect(path) as db:
            db.table("games").delete()
            db.compact(keep=4)
        stream = reader(path, failOnDataLoss="false")

        assert [[18, 19, 20, 21]] == batches(stream, end)
        assert [] == seqs(stream, {"version": 1, "files": {}}, end)

    @pytest.mark.parametrize("lost", ["true", "false"])
    def test_compaction_between_the_plan_and_the_read(self, path: Path, lost: str):
        stream = reader(path, failOnDataLoss=lost)
        with reactdb.connect(path) as db:
            db.table("games").delete()
        (split,) = stream.partitions({"version": 1, "files": {}}, self.end(path))
        with reactdb.connect(path) as db:
            db.compact(keep=4)

        if lost == "true":
            with pytest.raises(HistoryLost):
                list(stream.read(split))
        else:
            assert [18, 19, 20, 21] == [
                seq for batch in stream.read(split) for seq in batch.column(0).to_pylist()
            ]

    @pytest.mark.parametrize("count", [3, 10, 30])
    def test_another_database_in_its_place_is_told(self, path: Path, count: int):
        end = self.end(path)
        reactdb.delete_database(path)
        make(path, count)

        for lost in ("true", "false"):
            stream = reader(path, failOnDataLoss=lost)
            with pytest.raises(
                HistoryDiverged, match=r"is database [0-9a-f]+ now; the stream has read database [0-9a-f]+"
            ):
                stream.latestOffset(end, ALL)
            with pytest.raises(HistoryDiverged):
                stream.partitions({"version": 1, "files": {}}, end)

    def put_back(self, path: Path) -> dict[str, Any]:
        """The end of a stream that has read five more changes; then a copy without them is in the file's place."""
        kept = path.parent / "kept" / "a.db"
        kept.parent.mkdir()
        shutil.copy(path, kept)
        make(path, 5, first=10)
        end = self.end(path)
        reactdb.delete_database(path)
        shutil.copy(kept, path)
        return end

    def test_an_older_copy_in_its_place_is_told(self, path: Path):
        end = self.put_back(path)

        with pytest.raises(
            HistoryDiverged, match="was read up to seq 16, and ends at seq 11 now: an older copy"
        ):
            reader(path).latestOffset(end, ALL)

    def test_an_older_copy_that_has_grown_since_is_told(self, path: Path):
        end = self.put_back(path)
        make(path, 20, first=100)

        with pytest.raises(
            HistoryDiverged,
            match=r"was read up to seq 16 in a part of its history \(epoch [0-9a-f]+\) that it does not have any more.*"
            "; put that file back, or begin again with a new checkpoint",
        ):
            reader(path).latestOffset(end, ALL)

    def test_an_older_copy_of_the_same_epoch_that_has_grown_since_is_told(self, path: Path, tmp_path: Path):
        kept = tmp_path / "kept"
        kept.mkdir()
        with reactdb.connect(path, durability="soft") as db:
            db.table("games").insert({"id": 100})
            for file in tmp_path.glob("a.db*"):
                shutil.copy(file, kept)
            db.table("games").insert([{"id": number} for number in range(101, 105)])
        end = self.end(path)
        reactdb.delete_database(path)
        for file in kept.iterdir():
            shutil.copy(file, tmp_path)
        make(path, 20, first=200)

        with pytest.raises(
            HistoryDiverged,
            match="was read up to seq 16, and its history went on from seq 12 without it; put",
        ):
            reader(path).latestOffset(end, ALL)

    def test_other_processes_that_write_are_one_history(self, path: Path):
        """Each begins an epoch; so does each opening here."""
        stream = reader(path)
        offset = stream.initialOffset()
        found: list[int] = []
        for number in range(5):
            end = stream.latestOffset(carried(offset), ReadMaxRows(3))
            found += seqs(stream, offset, end)
            offset = end
            make(path, 1, first=10 + number)

        assert [*range(2, 16)] == found


class TestOffsets:
    def test_an_offset_comes_back_as_it_was(self):
        positions = {"/b": Position("d", "e", 1, 2), "/a": Position("d", "f", 0, 0)}

        assert positions == from_offset(carried(to_offset(positions)))
        assert ["/a", "/b"] == list(to_offset(positions)["files"])

    @pytest.mark.parametrize(
        "offset",
        [
            {},
            {"seq": 3},
            {"version": 1, "files": {"/a": {"seq": 3}}},
            {"version": 1, "files": {"/a": {"database": "d", "epoch": "e", "from": 4, "seq": 3}}},
            {"version": 1, "files": []},
        ],
    )
    def test_what_is_no_offset_is_told(self, offset: dict[str, Any]):
        with pytest.raises(InvalidOption, match="not from reactdb"):
            from_offset(offset)

    def test_an_offset_of_a_newer_version_is_told(self):
        with pytest.raises(InvalidOption, match="offsets of version 2, this reactdb reads 1: upgrade it"):
            from_offset({"version": 2, "files": {}})
