"""The data source: what Spark calls, and which of our modules answers.

    spark.read.format("reactdb").option("table", "games").load("arena.db")

Spark makes one of these in a Python process of its own for each `load()`, keeps it pickled, and makes readers from copies of it
whenever it likes. So everything that readers must agree about is pickled: the options, and the state that each file had
then. The rest is made when it is used.

Rule of this file: it only dispatches. `changes` and `snapshot` read, `stream` follows, `write` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from reactdb.errors import InvalidOption, ReactDBError
from reactdb.spark import fleet, schema
from reactdb.spark.change_plan import ChangePlan
from reactdb.spark.options import MODES, UPSERT, Options, parse
from reactdb.spark.partitions import Split
from reactdb.spark.snapshot import DocumentPlan
from reactdb.store.exports import Pin

Plan = ChangePlan | DocumentPlan


class ReactdbSource(DataSource):
    """See the head of this file.

    Attributes:
        parsed: The options, checked.
        is_inferred: The schema is ours; the user gave none.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # The names of a CaseInsensitiveDict are in lower case; `parse` knows.
        self.parsed: Options = parse(dict(options))
        self.is_inferred = False
        self._pins: list[Pin] | ReactDBError | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What the readers of one DataFrame have in common.

        With a schema of the user's, Spark calls nothing of ours before it pickles, so this is the last moment to pin the files.
        That they cannot be pinned is kept as well: a later reader that found them would not agree with the first, which did not.
        Nothing is raised here, because a stream does not need the pins, and goes on without a file that is gone.
        """
        try:
            self.pins()
        except ReactDBError as error:
            self._pins = error
        return self.__dict__

    @classmethod
    def name(cls) -> str:
        return "reactdb"

    def pins(self) -> list[Pin]:
        """The files as they were when this was asked first."""
        if self._pins is None:
            self._pins = fleet.pinned(self.parsed)
        if isinstance(self._pins, ReactDBError):
            raise self._pins
        return self._pins

    def schema(self) -> StructType:
        """Inferred from a sample. Spark asks only where the user gave none."""
        self.refuse_upsert()
        self.is_inferred = True
        with_source = not fleet.is_one_file(self.parsed.paths)
        return schema.infer(self.parsed, self.pins(), with_source=with_source)

    def refuse_upsert(self) -> None:
        if self.parsed.mode == UPSERT:
            raise InvalidOption(f"mode={UPSERT} is of writes; of reads, mode is one of {', '.join(MODES)}")

    def meant(self, wanted: StructType, *, is_stream: bool = False) -> Options:
        """The options of a read, and what the names of the user's columns add to them."""
        self.refuse_upsert()
        if self.is_inferred:
            return self.parsed
        given = {name.lower() for name in self.options}
        return schema.meant(self.parsed, given, set(wanted.fieldNames()), is_stream=is_stream)

    def reader(self, schema: StructType) -> DataSourceReader:
        parsed = self.meant(schema)
        make: type[ChangePlan] | type[DocumentPlan] = ChangePlan if parsed.is_changes else DocumentPlan
        return BatchReader(
            make(schema, parsed, self.pins(), is_inferred=self.is_inferred or parsed.is_strict)
        )

    def streamReader(self, schema: StructType) -> Any:
        from reactdb.spark.stream import StreamReader

        return StreamReader(schema, self.meant(schema, is_stream=True), is_inferred=self.is_inferred)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from reactdb.spark.write import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from reactdb.spark.write import StreamWriter

        return StreamWriter(self.options, schema, overwrite)


class BatchReader(DataSourceReader):
    """What a plan comes to: partitions for the driver, rows for the executors."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        # A read of nothing has a partition all the same: without one Spark makes one up.
        return self.plan.splits() or [Split(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Split)
        return self.plan.rows().batches(partition.slices)  # type: ignore[arg-type]
