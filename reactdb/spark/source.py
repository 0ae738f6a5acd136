"""The data source: Spark's entry class, and the modules for its calls.

    spark.read.format("reactdb").option("table", "games").load("arena.db")

For each `load()` Spark creates a source in a Python process of its own, keeps it pickled, and makes readers from copies of it at
any time. So everything that readers must agree about is pickled: the options, and the state of each file then. The rest is
created when it is used.

Rule of this file: it only dispatches. `changes` and `snapshot` read, `stream` follows, `write` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from functools import cached_property, partial
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from reactdb.errors import ReactDBError
from reactdb.lake import fleet
from reactdb.spark import schema
from reactdb.spark.change_plan import change_slices, splits_of
from reactdb.spark.changes import ChangeRows
from reactdb.spark.options import Options, parse
from reactdb.spark.partitions import Split
from reactdb.spark.snapshot import DocumentRows, document_splits
from reactdb.store.exports import Pin


class ReactdbSource(DataSource):
    """See the head of this file.

    Attributes:
        is_inferred: The user gave no schema, so it was inferred.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.is_inferred = False
        self._pins: list[Pin] | ReactDBError | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state that all readers of one DataFrame share.

        If the user gave a schema, Spark calls no other method before it pickles, so this is the last moment to pin the files. A
        failure to pin them is kept as well: otherwise a later reader that finds them would disagree with the first. Nothing is
        raised here, because a stream does not need the pins, and goes on without a missing file.
        """
        try:
            self.pins()
        except ReactDBError as error:
            self._pins = error
        return self.__dict__

    @classmethod
    def name(cls) -> str:
        return "reactdb"

    @cached_property
    def parsed(self) -> Options:
        """The options of a read. A write has others, so nothing is parsed before Spark reads."""
        # A CaseInsensitiveDict gives the names in lower case, and `parse` ignores case.
        return parse(dict(self.options))

    def pins(self) -> list[Pin]:
        """The files, pinned at the first call."""
        if self._pins is None:
            self._pins = fleet.pin_files(self.parsed.files)
        if isinstance(self._pins, ReactDBError):
            raise self._pins
        return self._pins

    def schema(self) -> StructType:
        """The schema, inferred from a sample. Spark calls this only if the user gave none."""
        self.is_inferred = True
        with_source = not fleet.is_one_file(self.parsed.paths)
        return schema.infer(self.parsed, self.pins(), with_source=with_source)

    def complete_options(self, wanted: StructType, *, is_stream: bool = False) -> Options:
        """The options of a read, completed from the names of the user's columns."""
        if self.is_inferred:
            return self.parsed
        given = {name.lower() for name in self.options}
        return schema.complete_options(self.parsed, given, set(wanted.fieldNames()), is_stream=is_stream)

    def reader(self, schema: StructType) -> DataSourceReader:
        parsed = self.complete_options(schema)
        return BatchReader(schema, parsed, self.pins(), is_inferred=self.is_inferred or parsed.is_strict)

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
        self, wanted: StructType, options: Options, pins: Sequence[Pin], *, is_inferred: bool
    ) -> None:
        make: type[ChangeRows] | type[DocumentRows] = ChangeRows if options.is_changes else DocumentRows
        self.rows = partial(make, wanted, options, is_inferred=is_inferred)
        # A wrong schema raises now, and not later on an executor.
        self.rows()
        if options.is_changes:
            self.splits = partial(splits_of, options, change_slices(options, pins))
        else:
            self.splits = partial(document_splits, options, schema.table_of(options, pins), pins)

    def partitions(self) -> Sequence[InputPartition]:
        # An empty read has an empty partition, because Spark makes one up if there is none.
        return self.splits() or [Split(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Split)
        return self.rows().batches(partition.slices)  # type: ignore[arg-type]
