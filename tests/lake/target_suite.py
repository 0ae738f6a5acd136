"""What every target of a lake must do: the same tests for each format, against answers in plain Python.

A format's test class inherits `TargetSuite` and says how its target is made and how another program reads its table.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from reactdb.errors import DatabaseBusy, UsageError
from reactdb.lake.parts import DatabasePosition
from reactdb.lake.target import InexactNumber, LakeTable, Note

ROOT = Path(__file__).resolve().parent.parent.parent
LAST_COMMIT = 6
SETTINGS = {"mode": "current", "table": "t", "fleet": False}
DATABASE = "d0"

PLACE = pa.struct([("zip", pa.int64()), ("lines", pa.list_(pa.struct([("text", pa.string())])))])
EVERYTHING = pa.schema(
    [
        ("id", pa.int64()),
        ("whole", pa.int64()),
        ("real", pa.float64()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("exact", pa.decimal128(38, 18)),
        ("huge", pa.decimal128(38, 0)),
        ("yes", pa.bool_()),
        ("list", pa.list_(pa.int64())),
        ("place", PLACE),
        ("map", pa.map_(pa.string(), pa.list_(pa.float64()))),
    ]
)
# Values that have been changed by one format or library or another.
VALUES: dict[str, list[Any]] = {
    "whole": [2**63 - 1, -(2**63), 0, None],
    "real": [1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf, -0.0, 0.0, None],
    "text": ["", "\0", "a\0b", "é", "e\u0301", "\U0001f600", "null", " ", "x" * 5_000, None],
    "raw": [b"", b"\0", b"\xff\xfe", b"null", None],
    "day": [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), None],
    "moment": [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(1500, 2, 28, 1, 2, 3, 4, UTC),
        None,
    ],
    "exact": [Decimal("12345678901234567890.123456789012345678"), Decimal("-0.000000000000000001"), None],
    "huge": [Decimal(10**38 - 1), Decimal(-(10**37)), None],
    "yes": [True, False, None],
    "list": [[], [None], [1, None, 2**63 - 1], None],
    "place": [
        None,
        {"zip": None, "lines": None},
        {"zip": None, "lines": []},
        {"zip": 1, "lines": [None]},
        {"zip": 1, "lines": [{"text": None}, {"text": ""}]},
    ],
    "map": [[], [("", None)], [("k", []), ("l", [None, -0.0])], None],
}
ODD_NAMES = [
    *("a b", "a.b", "A", "é", 'a"b', "a`b", "'x'", "select", ",;{}()\n\t=", "_key", "_conflicts", "日本"),
    *("a-b", "$x", "x\\y", "%2F", "#", "/", "..", "0", "__index__"),
]


def note(seq: int, settings: dict[str, Any] = SETTINGS, epoch: str = "e0", **others: int) -> Note:
    positions = {DATABASE: DatabasePosition("/d0.db", epoch, seq, {"t": 1})}
    positions |= {name: DatabasePosition(f"/{name}.db", epoch, other) for name, other in others.items()}
    return Note(settings, positions)


def table_of(rows: Iterable[dict[str, Any]], schema: pa.Schema = EVERYTHING) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)


def batches_of(rows: Iterable[dict[str, Any]], schema: pa.Schema = EVERYTHING) -> Iterator[pa.RecordBatch]:
    return iter(table_of(rows, schema).to_batches(max_chunksize=3))


def keys_of(values: Iterable[Any], schema: pa.Schema = EVERYTHING, name: str = "id") -> pa.Table:
    return table_of(({name: value} for value in values), pa.schema([schema.field(name)]))


def odd_row(id_: int, chance: random.Random) -> dict[str, Any]:
    return {"id": id_, **{name: chance.choice(values) for name, values in VALUES.items()}}


def exact(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Rows as texts, which differ where the values do: also 0.0 and -0.0, or NaN and null. In the order of the texts."""
    return sorted(repr({name: _exact(value) for name, value in sorted(row.items())}) for row in rows)


def _exact(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, dict):
        return {name: _exact(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_exact(inner) for inner in value]
    return value


class TargetSuite:
    """Tests of one format."""

    format: str

    def make(self, folder: Path) -> LakeTable:
        """A new handle of the table in a folder."""
        raise NotImplementedError

    def read(self, folder: Path) -> pa.Table:
        """The table as another program reads it."""
        raise NotImplementedError

    def rows(self, folder: Path) -> list[str]:
        return exact(self.read(folder).to_pylist())

    def seq(self, folder: Path, epochs: tuple[str, ...] = ("e1", "e0")) -> int:
        state = self.make(folder).state({DATABASE: epochs})
        assert state is not None
        return state.positions[DATABASE].seq

    def filled(self, folder: Path, rows: list[dict[str, Any]], schema: pa.Schema = EVERYTHING) -> LakeTable:
        target = self.make(folder)
        with target.lock():
            assert target.state({}) is None
            assert len(rows) == target.create(schema, batches_of(rows, schema), note(1))
        return target

    # -----------------------------------------------------------------------------------------------------------
    # Rows

    def test_a_folder_that_is_not_there_has_no_state(self, tmp_path: Path) -> None:
        target = self.make(tmp_path / "t")

        assert target.state({}) is None
        assert not (tmp_path / "t").exists()

    def test_created_rows_come_back_as_they_were(self, tmp_path: Path) -> None:
        chance = random.Random(1)
        rows = [odd_row(number, chance) for number in range(200)]

        self.filled(tmp_path / "t", rows)

        assert exact(rows) == self.rows(tmp_path / "t")
        assert 1 == self.seq(tmp_path / "t")

    def test_a_table_may_begin_without_rows(self, tmp_path: Path) -> None:
        self.filled(tmp_path / "t", [])

        target = self.make(tmp_path / "t")
        state = target.state({DATABASE: ["e0"]})
        assert state is not None
        assert state.schema.equals(EVERYTHING)
        assert [] == self.rows(tmp_path / "t")
        with target.lock():
            target.state({})
            target.merge(table_of([{"id": 1}]), keys_of([]), ["id"], note(2))
        assert exact(table_of([{"id": 1}]).to_pylist()) == self.rows(tmp_path / "t")

    def test_a_table_follows_its_model_through_random_commits(self, tmp_path: Path) -> None:
        """Merge, widen, replace, look up and scan agree with a dict, and each commit has its position."""
        chance = random.Random(2)
        folder = tmp_path / "t"
        model = {number: odd_row(number, chance) for number in range(50)}
        self.filled(folder, list(model.values()))
        schema = EVERYTHING
        for seq in range(2, 14):
            target = self.make(folder)
            if seq == 6:
                schema = schema.append(pa.field("later", pa.struct([("x", pa.int64())])))
                model = {key: {**row, "later": None} for key, row in model.items()}
            with target.lock():
                target.state({})
                if seq == 6:
                    target.widen(schema)
                if seq == 10:
                    model = {number: odd_row(number, chance) for number in range(40, 60)}
                    schema = EVERYTHING
                    target.replace(schema, batches_of(model.values()), note(seq))
                    continue
                gone = chance.sample(sorted(model), 5)
                new = [odd_row(chance.randrange(80), chance) for _ in range(10)]
                rows = {row["id"]: row for row in new if row["id"] not in gone}
                if "later" in schema.names:
                    rows = {key: {**row, "later": {"x": seq}} for key, row in rows.items()}
                target.merge(table_of(rows.values(), schema), keys_of([*gone, 999]), ["id"], note(seq))
            model = {key: row for key, row in {**model, **rows}.items() if key not in gone}

            assert exact(model.values()) == self.rows(folder)
            assert seq == self.seq(folder)
            reader = self.make(folder)
            state = reader.state({})
            assert state is not None
            assert schema.equals(state.schema)
            assert exact(model.values()) == exact(row for batch in reader.scan() for row in batch.to_pylist())
            wanted = [3, 50, 70, 999]
            expected = exact(model[key] for key in wanted if key in model)
            assert expected == exact(reader.lookup(keys_of(wanted), False).to_pylist())

    @pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.binary(), pa.decimal128(38, 0)], ids=str)
    def test_rows_are_merged_by_keys_of_a_type(self, tmp_path: Path, kind: pa.DataType) -> None:
        values: list[Any] = {
            pa.int64(): [-(2**63), -1, 0, 1, 2**63 - 1],
            pa.string(): ["", "\0", "1", "é", "z" * 300],
            pa.binary(): [b"", b"\0", b"\x80", b"\xff" * 300, b"1"],
            pa.decimal128(38, 0): [Decimal(10**37), Decimal(-1), Decimal(0), Decimal(1), Decimal(2)],
        }[kind]
        schema = pa.schema([("k", kind), ("v", pa.int64())])
        target = self.filled(tmp_path / "t", [{"k": value, "v": 0} for value in values[:4]], schema)

        with target.lock():
            target.state({})
            changed = [{"k": value, "v": 1} for value in (values[1], values[4])]
            target.merge(table_of(changed, schema), keys_of(values[:1], schema, "k"), ["k"], note(2))

        expected = [{"k": value, "v": int(at in (1, 4))} for at, value in enumerate(values) if at]
        assert exact(expected) == self.rows(tmp_path / "t")

    def test_two_databases_with_the_same_keys_keep_their_rows_apart(self, tmp_path: Path) -> None:
        schema = pa.schema([("_database", pa.string()), ("id", pa.int64()), ("v", pa.int64())])
        names = ["_database", "id"]
        key_schema = pa.schema([schema.field(name) for name in names])
        model = {(database, key): 0 for database in ("a", "b", "c") for key in range(100)}

        def rows(of: dict[tuple[str, int], int]) -> list[dict[str, Any]]:
            return [{"_database": database, "id": key, "v": value} for (database, key), value in of.items()]

        target = self.filled(tmp_path / "t", rows(model), schema)
        with target.lock():
            target.state({})
            changed = {("a", 5): 1, ("b", 6): 1, ("d", 5): 1}
            gone = [{"_database": "a", "id": 6}, {"_database": "c", "id": 5}, {"_database": "d", "id": 6}]
            target.merge(table_of(rows(changed), schema), table_of(gone, key_schema), names, note(2))

        del model["a", 6], model["c", 5]
        assert exact(rows({**model, **changed})) == self.rows(tmp_path / "t")
        found = self.make(tmp_path / "t")
        found.state({})
        expected = exact(rows({("a", 5): 1, ("b", 5): 0}))
        wanted = [{"_database": name, "id": 5} for name in "abc"]
        assert expected == exact(found.lookup(table_of(wanted, key_schema), False).to_pylist())

    def test_a_look_up_may_give_current_rows_only(self, tmp_path: Path) -> None:
        schema = pa.schema([("id", pa.int64()), ("seq", pa.int64()), ("is_current", pa.bool_())])
        rows = [{"id": id_, "seq": seq, "is_current": seq == 3} for id_ in range(5) for seq in (1, 2, 3)]
        target = self.filled(tmp_path / "t", rows, schema)
        target.state({})

        assert exact(row for row in rows if row["id"] in (2, 4) and row["seq"] == 3) == exact(
            target.lookup(keys_of([2, 4, 9], schema), True).to_pylist()
        )
        assert 6 == target.lookup(keys_of([2, 4, 9], schema), False).num_rows

    def test_columns_and_fields_may_have_any_name(self, tmp_path: Path) -> None:
        inner = pa.struct([(name, pa.int64()) for name in ODD_NAMES])
        columns = [(name, pa.string()) for name in ODD_NAMES]
        schema = pa.schema([*columns, ("struct", inner), ("list", pa.list_(inner))])

        def row(key: str, value: int) -> dict[str, Any]:
            struct = dict.fromkeys(ODD_NAMES, value)
            return {**dict.fromkeys(ODD_NAMES, key), "struct": struct, "list": [struct, None]}

        target = self.filled(tmp_path / "t", [row("a", 1), row("b", 2), row("c", 3)], schema)
        with target.lock():
            target.state({})
            gone = pa.table({name: ["b"] for name in ODD_NAMES})
            target.merge(table_of([row("a", 3), row("d", 4)], schema), gone, ODD_NAMES, note(2))

        assert exact([row("a", 3), row("c", 3), row("d", 4)]) == self.rows(tmp_path / "t")

    # -----------------------------------------------------------------------------------------------------------
    # Schemas

    def test_a_wider_schema_has_new_columns_and_fields(self, tmp_path: Path) -> None:
        narrow = pa.schema(
            [
                ("id", pa.int64()),
                ("s", pa.struct([("x", pa.int64())])),
                ("l", pa.list_(pa.struct([("x", pa.int64())]))),
                ("m", pa.map_(pa.string(), pa.struct([("x", pa.int64())]))),
            ]
        )
        inner = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))])
        wide = pa.schema(
            [
                ("id", pa.int64()),
                ("s", inner),
                ("l", pa.list_(inner)),
                ("m", pa.map_(pa.string(), inner)),
                ("n", pa.binary()),
            ]
        )
        target = self.filled(
            tmp_path / "t",
            [
                {"id": 1, "s": {"x": 1}, "l": [{"x": 2}, None], "m": [("k", {"x": 3})]},
                {"id": 2, "s": None, "l": None, "m": None},
            ],
            narrow,
        )
        with target.lock():
            target.state({})
            target.widen(wide)
            assert 1 == self.seq(tmp_path / "t")
            added = {
                "id": 3,
                "s": {"x": None, "y": [""]},
                "l": [{"x": 1, "y": []}],
                "m": [("", None)],
                "n": b"",
            }
            target.merge(table_of([added], wide), keys_of([], wide), ["id"], note(2))

        first = {
            "id": 1,
            "s": {"x": 1, "y": None},
            "l": [{"x": 2, "y": None}, None],
            "m": [("k", {"x": 3, "y": None})],
            "n": None,
        }
        assert exact([first, {"id": 2, "s": None, "l": None, "m": None, "n": None}, added]) == exact(
            row for batch in self.scan(tmp_path / "t") for row in batch.to_pylist()
        )

    def scan(self, folder: Path) -> Iterator[pa.RecordBatch]:
        target = self.make(folder)
        target.state({})
        return target.scan()

    def test_ints_become_doubles_at_any_depth(self, tmp_path: Path) -> None:
        def schema(number: pa.DataType) -> pa.Schema:
            inner = pa.struct([("x", number), ("l", pa.list_(number))])
            return pa.schema(
                [("id", pa.int64()), ("a", number), ("s", inner), ("m", pa.map_(pa.string(), inner))]
            )

        row = {"id": 1, "a": 2**53, "s": {"x": -(2**53), "l": [1, None]}, "m": [("k", {"x": 0, "l": []})]}
        target = self.filled(
            tmp_path / "t", [row, {"id": 2, "a": None, "s": None, "m": None}], schema(pa.int64())
        )
        with target.lock():
            target.state({})
            target.widen(schema(pa.float64()))
            assert 1 == self.seq(tmp_path / "t")
            half = {"id": 3, "a": 0.5, "s": {"x": 0.5, "l": None}, "m": None}
            target.merge(table_of([half], schema(pa.float64())), keys_of([]), ["id"], note(2))

        row = {
            "id": 1,
            "a": 2.0**53,
            "s": {"x": -(2.0**53), "l": [1.0, None]},
            "m": [("k", {"x": 0.0, "l": []})],
        }
        assert exact([row, {"id": 2, "a": None, "s": None, "m": None}, half]) == exact(
            row for batch in self.scan(tmp_path / "t") for row in batch.to_pylist()
        )

    def test_an_int_that_no_double_equals_stops_the_widening(self, tmp_path: Path) -> None:
        schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])
        wide = pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.float64())]))])
        rows = [{"id": number, "s": {"x": 2**53 + (number == 7)}} for number in range(10)]
        target = self.filled(tmp_path / "t", rows, schema)

        with target.lock(), pytest.raises(InexactNumber) as caught:
            target.state({})
            target.widen(wide)

        assert "s.x" == caught.value.path
        state = self.make(tmp_path / "t").state({})
        assert state is not None
        assert schema.equals(state.schema)
        assert exact(rows) == self.rows(tmp_path / "t")

    def test_replaced_rows_may_have_any_schema(self, tmp_path: Path) -> None:
        """The same names with other types, names that are gone, other settings, and databases that are gone."""
        folder = tmp_path / "t"
        target = self.make(folder)
        schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("w", pa.int64())])
        with target.lock():
            target.create(schema, batches_of([{"id": 1, "v": "a", "w": 5}], schema), note(5, gone=7))
        other = pa.schema([("_key", pa.string()), ("id", pa.string()), ("v", pa.list_(pa.int64()))])
        rows = [{"_key": "1", "id": "one", "v": [1]}, {"_key": "2", "id": None, "v": None}]

        with target.lock():
            target.state({})
            target.replace(other, batches_of(rows, other), note(3, {"mode": "scd2"}, epoch="e1"))

        state = self.make(folder).state({DATABASE: ["e1", "e0"], "gone": ["e0"]})
        assert state is not None
        assert {"mode": "scd2"} == state.settings
        assert {DATABASE: ("e1", 3)} == {name: (at.epoch, at.seq) for name, at in state.positions.items()}
        assert exact(rows) == self.rows(folder)

    # -----------------------------------------------------------------------------------------------------------
    # Positions, runs and folders

    def test_positions_alone_can_be_kept(self, tmp_path: Path) -> None:
        target = self.filled(tmp_path / "t", [{"id": 1}])
        with target.lock():
            target.state({})
            target.advance(note(9, other=4))

        state = self.make(tmp_path / "t").state({DATABASE: ["e0"], "other": ["e0"], "never": ["e0"]})
        assert state is not None
        assert {DATABASE: 9, "other": 4} == {name: at.seq for name, at in state.positions.items()}
        assert SETTINGS == state.settings
        assert 1 == len(self.rows(tmp_path / "t"))

    def test_a_position_belongs_to_an_epoch(self, tmp_path: Path) -> None:
        target = self.filled(tmp_path / "t", [{"id": 1}])
        with target.lock():
            target.state({})
            target.advance(note(5, epoch="e1"))

        found = [
            self.make(tmp_path / "t").state({DATABASE: epochs})
            for epochs in (["e1", "e0"], ["e2", "e1", "e0"], ["e0"])
        ]
        epochs = [state.positions[DATABASE].epoch for state in found if state is not None]
        assert ["e1", "e1"] == epochs[:2]
        # The history does not have the epoch: whatever the name is, it is none of the history's.
        assert "e0" != epochs[2]

    def test_a_second_run_is_refused(self, tmp_path: Path) -> None:
        target = self.filled(tmp_path / "t", [{"id": 1}])

        with (
            target.lock(),
            pytest.raises(DatabaseBusy, match="another run"),
            self.make(tmp_path / "t").lock(),
        ):
            pass

        with self.make(tmp_path / "t").lock():
            pass

    def test_rows_that_fail_half_way_leave_nothing(self, tmp_path: Path) -> None:
        schema = pa.schema([("id", pa.int64())])

        def failing() -> Iterator[pa.RecordBatch]:
            yield from batches_of([{"id": 8}], schema)
            raise RuntimeError("the source is gone")

        folder = tmp_path / "t"
        with self.make(folder).lock(), pytest.raises(RuntimeError, match="the source"):
            self.make(folder).create(schema, failing(), note(5))
        assert self.make(folder).state({}) is None

        target = self.filled(folder, [{"id": 1}], schema)
        before = self.files(folder)
        for write in (target.append, target.replace):
            with target.lock(), pytest.raises(RuntimeError, match="the source"):
                target.state({})
                write(schema, failing(), note(5))

        assert before == self.files(folder)
        assert exact([{"id": 1}]) == self.rows(folder)
        assert 1 == self.seq(folder)

    def files(self, folder: Path) -> list[str]:
        """The files with rows in a folder, listed or not."""
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))

    def test_a_folder_with_something_else_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "t").mkdir()
        (tmp_path / "t" / "letter.txt").write_text("dear")
        (tmp_path / "f").write_text("a file")

        for name in ("t", "f"):
            with pytest.raises(UsageError), self.make(tmp_path / name).lock():
                pass
            with pytest.raises(UsageError):
                self.make(tmp_path / name).state({})

        assert ["letter.txt"] == [path.name for path in (tmp_path / "t").iterdir()]
        assert "a file" == (tmp_path / "f").read_text()

    # -----------------------------------------------------------------------------------------------------------
    # Kills and memory, in processes of their own

    @pytest.fixture
    def killed_runs(self, tmp_path: Path) -> Iterator[Callable[[int], tuple[str, int, str]]]:
        """Makes a run that is killed before a step, and gives its exit status, the position after it, and a comparison."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.lake.killed_runs", self.format, str(tmp_path / "t")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

        def run(step: int) -> tuple[str, int, str]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{step}\n")
            process.stdin.flush()
            status, seq, found = process.stdout.readline().split(maxsplit=2)
            return status, int(seq), found.strip()

        with process:
            yield run
            process.communicate()

    def check_kills(self, run: Callable[[int], tuple[str, int, str]]) -> None:
        """Kill runs before each of their steps in turn: the table is as before the run or as after it, rows and position."""
        before, step, kills = 0, 1, 0
        while before < LAST_COMMIT:
            status, after, found = run(step)
            assert "ok" == found, (before, step)
            assert status in ("-9", "0")
            assert after - before in ((1,) if status == "0" else (0, 1))
            kills += status == "-9"
            step = step + 1 if after == before else 1
            before = after
        assert kills > 6 * LAST_COMMIT

    def check_memory(self, folder: Path) -> None:
        """200 MB of rows are written, merged, searched and read with a bounded part of them in memory."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.lake.merged_memory", self.format, str(folder)],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        before, after = map(int, done.stdout.split())
        assert after - before < 170
        assert "" == done.stderr


def names_that_differ_in_case() -> list[pa.Schema]:
    return [
        pa.schema([("id", pa.int64()), ("a", pa.int64()), ("A", pa.int64())]),
        pa.schema([("id", pa.int64()), ("s", pa.list_(pa.struct([("é", pa.int64()), ("É", pa.int64())])))]),
    ]
