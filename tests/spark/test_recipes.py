"""The recipes of `docs/how-to/spark-lake.md`, on the demo's week of flights; plain Python on the CSV is the judge.

The registries that the tests reach have no jar of Delta or Iceberg for this version of Spark. So the recipes with a MERGE of
Spark's are checked in two parts: Spark's own parser reads the statement, and what it finds is carried out with a join. The
recipes without a jar, and the pipeline's streaming table, run as they are.

Rule of this file: what is run here is what the page shows, letter for letter.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import reactdb
from reactdb.errors import SparkUnavailable

pytest.importorskip("pyspark")

from reactdb.demo.flights import read_csv
from tests.house.test_docs import blocks_of
from tests.spark import flights_answers as answers
from tests.spark import flights_database as database
from tests.spark import lake_recipes as recipes

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "how-to" / "spark-lake.md"
OPS = ("insert", "update", "replace", "delete")


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """The file, and the documents that are left after every seventh flight was deleted and every other one of these made anew."""
    file = tmp_path_factory.mktemp("flights") / "flights.db"
    steps = database.steps()
    database.write(file, steps[: len(steps) // 2])
    gone = sorted({step.id for step in steps[: len(steps) // 2]})[::7]
    with database.clock() as now, reactdb.connect(file) as db:
        now[0] = int(steps[len(steps) // 2].at.timestamp()) * 1_000_000_000
        table = db.table(database.TABLE)
        early = {key: table.get(key).run() for key in gone}
        table.get_all(*gone).delete()
        table.insert([early[key] for key in gone[::2]])
    left = [step for step in steps[len(steps) // 2 :] if step.id not in gone[1::2]]
    database.write(file, left)
    wanted = answers.state(answers.changes(read_csv().decode()))
    for key in gone[1::2]:
        del wanted[key]
    return file, wanted


def documents(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows of a table of the lake, as the documents that they were."""
    found = {}
    for row in rows:
        assert row["id"] not in found
        found[row["id"]] = {
            name: value.astimezone(UTC) if isinstance(value, datetime) else value
            for name, value in row.items()
            if value is not None and name != "_seq"
        }
    return found


# ---------------------------------------------------------------------------------------------------------------
# The page


def shown() -> str:
    return "\n".join(block.text for block in blocks_of(PAGE))


@pytest.mark.parametrize(
    "recipe",
    [
        recipes.changes,
        recipes.newest,
        recipes.merge_into_delta,
        recipes.merge_into_iceberg,
        recipes.merge_with_delta_rs,
        recipes.merge_with_pyiceberg,
    ],
    ids=lambda recipe: recipe.__name__,
)
def test_the_page_shows_the_recipe_that_is_run(recipe):
    """But for the types and the docstring, which are for the checkers of this project."""
    assert plain(inspect.getsource(recipe)) in plain(shown())


def test_the_page_shows_the_fields_and_the_statement():
    assert recipes.MERGE.strip() in shown()
    assert " ".join(recipes.DOCUMENT.split()) in " ".join(re.sub(r'"\s*"', "", shown()).split())


def plain(source: str) -> str:
    """Without types, docstrings and the width of a line."""
    source = re.sub(r'\n +""".*?"""', "", source, flags=re.DOTALL)
    source = re.sub(r" -> (None|Any|Callable\[\[Any, int\], None\])(?=:)", "", source)
    source = re.sub(r"(\w+): (Any|int|str)(?=[,) ])", r"\1", source).replace("most = ", "most=")
    return "".join(source.split())


# ---------------------------------------------------------------------------------------------------------------
# MERGE


@dataclass
class MergedTable:
    """What the statements of a recipe make of a table, which Spark's own formats cannot merge into.

    Spark's parser finds the conditions and the actions, and a full outer join carries them out.
    """

    spark: Any
    names: list[str]
    rows: list[Any] = field(default_factory=list)
    targets: set[str] = field(default_factory=set)
    commits: int = 0

    def sql(self, statement: str) -> None:
        plan = self.spark._jsparkSession.sessionState().sqlParser().parsePlan(statement)
        assert "MergeIntoTable" == plan.getClass().getSimpleName()
        self.targets.add(plan.targetTable().child().multipartIdentifier().mkString("."))
        columns = ", ".join(f"t.{name} AS t_{name}, s.{name} AS s_{name}" for name in self.names)
        matched = self.branches(plan.matchedActions())
        fresh = self.branches(plan.notMatchedActions())
        assert 0 == plan.notMatchedBySourceActions().size()
        cases = [("t.id IS NOT NULL AND s.id IS NOT NULL", matched), ("t.id IS NULL", fresh)]
        action = " ".join(
            f"WHEN {when} AND {condition} THEN '{name}'"
            for when, branch in cases
            for condition, name in branch
        )
        old = self.spark.createDataFrame(self.rows, self.schema()).createOrReplaceTempView("merged_table")
        assert old is None
        found = self.spark.sql(
            f"SELECT {columns}, CASE {action} ELSE 'stay' END AS action FROM merged_table t FULL OUTER JOIN newest s"
            f" ON {plan.mergeCondition().sql()}"
        ).collect()
        self.rows = [self.after(row) for row in found if self.after(row) is not None]
        self.commits += any(row["action"] != "stay" for row in found)

    def branches(self, actions: Any) -> list[tuple[str, str]]:
        """(condition, kind) of each action, in their order: the first that holds is taken."""
        found = []
        for number in range(actions.size()):
            action = actions.apply(number)
            condition = action.condition()
            found.append(
                (
                    condition.get().sql() if condition.isDefined() else "TRUE",
                    action.getClass().getSimpleName(),
                )
            )
        return found

    def after(self, row: Any) -> list[Any] | None:
        """The row of the target after its action; None if it is not there."""
        side = {"stay": "t", "UpdateStarAction": "s", "InsertStarAction": "s", "DeleteAction": None}[
            row["action"]
        ]
        if side is None or row[f"{side}_id"] is None or (row["action"] == "stay" and row["t_id"] is None):
            return None
        return [row[f"{side}_{name}"] for name in self.names]

    def schema(self) -> str:
        return f"id string, _seq long, {recipes.DOCUMENT}"


@pytest.mark.parametrize("name", ["merge_into_delta", "merge_into_iceberg"])
def test_a_merge_of_the_stream_gives_the_documents_also_if_a_batch_is_repeated(
    spark, week, tmp_path, monkeypatch, name
):
    file, wanted = week
    table = MergedTable(spark, ["id", "_seq", *re.findall(r"(\w+) \w+(?:,|$)", recipes.DOCUMENT)])
    real = type(spark).sql
    settings = []

    def sql(session: Any, statement: str, *more: Any, **named: Any) -> Any:
        if not statement.lstrip().startswith("MERGE"):
            return real(session, statement, *more, **named)
        settings.append(session.conf.get("spark.databricks.delta.write.txnVersion", None))
        table.spark = session
        return table.sql(statement)

    def merge(batch: Any, number: int) -> None:
        getattr(recipes, name)(batch, number)
        before = sorted(table.rows)
        commits = table.commits
        getattr(recipes, name)(batch, number)
        assert before == sorted(table.rows)
        assert commits == table.commits

    monkeypatch.setattr(type(spark), "sql", sql)
    stream = recipes.changes(spark, str(file), 6_000).writeStream.foreachBatch(merge)
    stream.option("checkpointLocation", str(tmp_path / "at")).trigger(
        availableNow=True
    ).start().awaitTermination()

    assert wanted == documents([dict(zip(table.names, row, strict=True)) for row in table.rows])
    assert table.commits >= 3
    if name == "merge_into_delta":
        assert {"flights"} == table.targets
        assert [str(number // 2) for number in range(2 * table.commits)] == settings
    else:
        assert {"lake.demo.flights"} == table.targets


# ---------------------------------------------------------------------------------------------------------------
# Without a jar


def delta_rows(folder: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    return DeltaTable(folder / "delta").to_pyarrow_table().to_pylist()


def iceberg_rows(folder: Path) -> list[dict[str, Any]]:
    return iceberg_table(folder).scan().to_arrow().to_pylist()


def iceberg_table(folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    return catalog.load_table("demo.flights")


def run_recipe(file: Path, folder: Path, moment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.killed_recipe", str(file), str(folder), moment],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "moment",
    [pytest.param("between", marks=pytest.mark.slow), pytest.param("after", marks=pytest.mark.long)],
)
def test_the_merges_without_a_jar_are_exactly_once_through_a_kill_and_a_repeated_batch(
    week, tmp_path, moment
):
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    from deltalake import DeltaTable

    from reactdb.spark import check

    try:
        check()
    except SparkUnavailable as missing:
        pytest.skip(str(missing))
    file, wanted = week
    killed = run_recipe(file, tmp_path, moment)
    assert -9 == killed.returncode, killed.stderr[-3_000:]
    assert ["0"] == sorted(path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]"))
    there = int(iceberg_table(tmp_path).properties["reactdb.batch"])
    assert ((0, 1) if moment == "between" else (1, 1)) == (
        there,
        DeltaTable(tmp_path / "delta").transaction_version("flights of reactdb"),
    )

    ended = run_recipe(file, tmp_path, "never")
    assert 0 == ended.returncode, ended.stderr[-3_000:]

    # One commit a batch, after the one that made the table.
    assert ["0", "1", "2"] == sorted(
        path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]")
    )
    assert 3 == DeltaTable(tmp_path / "delta").version()
    operations = [snapshot.summary.operation.value for snapshot in iceberg_table(tmp_path).snapshots()]
    assert 3 == operations.count("append")
    assert wanted == documents(delta_rows(tmp_path))
    assert wanted == documents(iceberg_rows(tmp_path))


# ---------------------------------------------------------------------------------------------------------------
# Declarative pipelines


def pipeline(folder: Path, action: str) -> str:
    """What `spark-pipelines` prints for the project of the page."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Connect's server takes any free port then: another program of this machine may have the usual one.
        "SPARK_TESTING": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))),
    }
    for name in ("SPARK_REMOTE", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", "import os, pyspark; print(os.path.dirname(pyspark.__file__))"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    command = [
        f"{done.stdout.strip()}/bin/spark-pipelines",
        action,
        "--spec",
        str(folder / "spark-pipeline.yml"),
    ]
    run = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    return run.stdout + run.stderr


def save(folder: Path, *names: str) -> None:
    """Files of the page."""
    for block in blocks_of(PAGE):
        if block.file in names:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            text = block.text.replace("file:///lake", folder.as_uri()).replace(
                "/data/flights.db", str(folder / "flights.db")
            )
            (folder / block.file).write_text(text, encoding="utf-8")


@pytest.fixture
def project(week, tmp_path):
    pytest.importorskip("grpc_status", reason="spark-pipelines needs pyspark[pipelines]")
    with reactdb.connect(week[0], read_only=True) as db:
        db.backup(tmp_path / "flights.db")
    return tmp_path


@pytest.mark.timeout(600)
@pytest.mark.long
def test_a_pipeline_has_every_change_of_the_file_once_in_its_streaming_table(project, week):
    pq = pytest.importorskip("pyarrow.parquet")
    save(project, "spark-pipeline.yml", "tables/changes.py")

    printed = pipeline(project, "run")

    assert "Run is COMPLETED." in printed, printed[-3_000:]
    found = pq.read_table(project / "spark-warehouse" / "flights_changes").to_pylist()
    with reactdb.connect(week[0], read_only=True) as db:
        wanted = {change.seq: change for change in db.log(table="flights") if change.kind in OPS}
    assert len(wanted) == len(found) > 10_000
    for row in found:
        change = wanted[row["seq"]]
        new = change.new_val or {}
        assert (change.key, change.kind, new.get("state"), new.get("delay_min")) == (
            row["id"], row["op"], row["state"], row["delay_min"],
        )  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.long
def test_auto_cdc_of_a_pipeline_lacks_only_a_catalogue_whose_tables_can_do_merge(project):
    save(project, "spark-pipeline.yml", "tables/changes.py", "tables/flights.py")

    printed = pipeline(project, "run")

    # Spark has accepted both flows, their keys, columns and conditions: this error comes when it makes the tables.
    assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in printed, printed[-3_000:]
