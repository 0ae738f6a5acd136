"""The data source: Spark's entry class, and the modules for its calls.

    spark.read.format("reactdb").option("table", "games").load("arena.db")

For each `load()` Spark creates a source in a Python process of its own, keeps it pickled, and makes readers from copies of it at
any time. So everything that readers must agree about is pickled: the options, and the plan of what is read. The rest is created
when it is used.

Rule of this file: it only dispatches. `batches` reads, `stream` follows, `write` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from reactdb.errors import ReactDBError
from reactdb.spark import schema
from reactdb.spark.batches import BatchMaker
from reactdb.spark.options import Options, parse
from reactdb.spark.plan import FileSlice, Split, pack_slices, plan_slices


class ReactdbSource(DataSource):
    """See the head of this file.

    Attributes:
        is_inferred: The user gave no schema, so it was inferred.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.is_inferred = False
        self._parsed: Options | None = None
        self._slices: list[FileSlice] | ReactDBError | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state that all readers of one DataFrame share.

        If the user gave a schema, Spark calls no other method before it pickles, so this is the last moment to look at the files.
        A failure is kept as well: otherwise a later reader that finds them would disagree with the first. Nothing is raised here,
        because a stream does not need the plan, and goes on without a missing file.
        """
        try:
            self.slices()
        except ReactDBError as error:
            self._slices = error
        return self.__dict__

    @classmethod
    def name(cls) -> str:
        return "reactdb"

    @property
    def parsed(self) -> Options:
        """The options of a read. A write has others, so nothing is parsed before Spark reads."""
        if self._parsed is None:
            # A CaseInsensitiveDict gives the names in lower case, and `parse` ignores case.
            self._parsed = parse(dict(self.options))
        return self._parsed

    def slices(self) -> list[FileSlice]:
        """What is to be read, planned at the first call."""
        if self._slices is None:
            self._slices = plan_slices(self.parsed)
        if isinstance(self._slices, ReactDBError):
            raise self._slices
        return self._slices

    def schema(self) -> StructType:
        """The schema, inferred from a sample. Spark calls this only if the user gave none."""
        self._parsed, found, self._slices = schema.infer(self.parsed)
        self.is_inferred = True
        return found

    def complete_options(self, wanted: StructType, *, is_stream: bool = False) -> Options:
        """The options of a read, completed from the names of the user's columns."""
        if self.is_inferred:
            return self.parsed
        given = {name.lower() for name in self.options}
        return schema.complete_options(self.parsed, given, set(wanted.fieldNames()), is_stream=is_stream)

    def reader(self, schema: StructType) -> DataSourceReader:
        parsed = self.complete_options(schema)
        return BatchReader(schema, parsed, self.slices(), is_inferred=self.is_inferred)

    def streamReader(self, schema: StructType) -> Any:
        from reactdb.spark.stream import StreamReader

        return StreamReader(
            schema, self.complete_options(schema, is_stream=True), is_inferred=self.is_inferred
        )

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        from reactdb.spark.write import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        from reactdb.spark.write import StreamWriter

        return StreamWriter(self.options, schema, overwrite)


class BatchReader(DataSourceReader):
    """A batch read: gives partitions on the driver and rows on the executors."""

    def __init__(
        self, wanted: StructType, options: Options, slices: Sequence[FileSlice], *, is_inferred: bool
    ) -> None:
        self.rows = partial(BatchMaker, wanted, options, is_inferred=is_inferred)
        # A wrong schema raises now, and not later on an executor.
        self.rows()
        self.splits = pack_slices(slices, options.partition_bytes)

    def partitions(self) -> Sequence[InputPartition]:
        # An empty read has an empty partition, because Spark makes one up if there is none.
        return self.splits or [Split(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Split)
        return self.rows().batches(partition.slices)
