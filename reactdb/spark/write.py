"""Writing: `df.write.format("reactdb")` and `df.writeStream.format("reactdb")`.

The tasks make documents of their rows and stage them in parallel. The driver then stores all of them in one transaction, so a
batch is stored whole or not at all, and feeds see one commit. In the same transaction, a batch of a stream leaves a receipt in
the file: an idempotency key. If Spark does not know how a commit ended, it sends the batch again; a batch with a receipt is
skipped.

Rule of this file: tasks never open the database, and abort never undoes a commit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import reactdb
from reactdb.arrow.rows import ROWS_AT_ONCE
from reactdb.change import DELETE, REPLACE
from reactdb.documents.write import Prepared, Write, insert, prepare
from reactdb.errors import CannotOpen, DuplicateKey, InvalidKey, InvalidOption, UsageError
from reactdb.session import session_of
from reactdb.spark import staging
from reactdb.spark.options import WriteOptions, parse_write
from reactdb.spark.row_documents import RowDocuments, WholeDocuments
from reactdb.spark.staging import Page, Part, PartWriter
from reactdb.store.engine import EMPTY
from reactdb.store.file import files
from reactdb.store.positions import give_receipt, read_last_receipt
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec

if TYPE_CHECKING:
    import pyarrow as pa


class BatchWriter(DataSourceArrowWriter):
    """One `df.write`. It is created on the driver, then copied to every task and to the commit.

    Args:
        options: The options of the write.
        schema: The schema of its rows.
        overwrite: The rows replace everything in the table.

    Raises:
        InvalidOption, InvalidName: Before anything runs.
    """

    is_stream = False

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self.options = parse_write(options)
        self.schema = schema
        self.overwrite = overwrite
        if self.is_stream and self.options.sender is not None:
            raise InvalidOption(
                "txnAppId and txnVersion are for batches: those of a stream have the query's id and Spark's number"
            )
        self.primary_key = key_field(self.options)
        is_whole = self.options.document != "struct"
        if not is_whole and self.primary_key not in schema.names:
            raise InvalidOption(
                f"the rows have no column {self.primary_key!r}, the primary key of table {self.options.table!r}; they have "
                f"{', '.join(schema.names)}"
            )
        deletes = self.options.delete_field
        if deletes is not None and (
            deletes not in schema.names or schema[deletes].dataType.typeName() != "boolean"
        ):
            raise InvalidOption(f"deleteField names {deletes!r}, which is not a boolean column of the rows")
        if deletes is not None and (overwrite or self.options.conflict == "error"):
            raise InvalidOption(
                "deleteField goes with conflict=replace or conflict=update: the others delete nothing"
            )
        self._maker()
        # A stream has one batch at a time, so the folder belongs to the query, and an abort finds it even if no task has
        # reported.
        job = self.options.checkpoint if self.is_stream else ""
        self.folder = staging.make_folder(self.options.path, self.options.staging_path, job)

    def _maker(self) -> RowDocuments | WholeDocuments:
        form = self.options.document
        if form == "struct":
            return RowDocuments(self.schema)
        return WholeDocuments(self.schema, form, self.options.delete_field)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the documents of a task's rows. Runs in the task."""
        from pyspark import TaskContext

        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
        maker = self._maker()
        with PartWriter(self.folder) as part:
            for batch in iterator:
                for start in range(0, batch.num_rows, ROWS_AT_ONCE):
                    part.add(*self._encode(maker.documents(batch.slice(start, ROWS_AT_ONCE))))
            return part.part(query or "")

    def _encode(self, documents: list[dict[str, Any]]) -> tuple[list[bytes], list[bytes]]:
        """The keys and bytes of documents; a document that deletes its key has no bytes."""
        primary_key, delete_field = self.primary_key, self.options.delete_field
        for document in documents:
            if document.get(primary_key) is None:
                has_none = (
                    "a row has null in" if self.options.document == "struct" else "a document has nothing in"
                )
                raise InvalidKey(
                    f"{has_none} {primary_key!r}, the primary key of table {self.options.table!r}: every row needs a key"
                )
        is_deleted = (
            [] if delete_field is None else [document.pop(delete_field, False) for document in documents]
        )
        prepared = prepare(documents, primary_key)
        bodies = prepared.bodies
        if is_deleted:
            bodies = [b"" if deleted else body for body, deleted in zip(bodies, is_deleted, strict=True)]
        return prepared.keys, bodies

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int | None = None) -> None:
        """Store all staged documents in one transaction. Runs on the driver.

        Raises:
            DatabaseBusy, DuplicateKey and the other errors of `Table.insert`: Nothing was written.
            OutcomeUnknown: The commit may have succeeded; it is safe to send a delivery again.
        """
        parts = [message for message in messages if isinstance(message, Part)]
        if len(parts) != len(messages):
            raise UsageError("a task of the write has not reported its staged documents; nothing was written")
        sender, delivery = self.options.sender, self.options.delivery
        if batchId is not None:
            # A query keeps its id as long as its checkpoint.
            sender = next((part.query for part in parts if part.query), None)
            if sender is None:
                raise UsageError(
                    "Spark has not told the tasks which query they belong to, so a batch that comes again could not be known; "
                    "nothing was written: use foreachBatch, with txnAppId and txnVersion"
                )
            delivery = batchId
        # Each commit opens the file anew, which costs 8 ms and an epoch of 54 bytes; compaction removes it with its changes.
        with reactdb.connect(
            self.options.path, busy_timeout=self.options.busy_timeout_s, origin=self.options.origin
        ) as db:
            session_of(db).transact(
                lambda transaction: self._store(transaction, parts, sender, delivery),
                operation="write from Spark",
            )
        self._clean(parts)

    def _store(
        self, transaction: WriteTransaction, parts: Sequence[Part], sender: str | None, delivery: int
    ) -> None:
        """Write all parts in their order, unless the sender's delivery has a receipt in the file."""
        options = self.options
        if sender is not None:
            # The receipt is for this table, because one application may write several tables in one delivery.
            sender = f"{sender} {options.table}"
            last = read_last_receipt(transaction.connection, sender)
            if last is not None and delivery <= last:
                return
            give_receipt(transaction, sender, delivery)
        table = transaction.catalogue.live.get(options.table)
        if table is None:
            table = transaction.create_table(options.table, self.primary_key)
        elif table.primary_key != self.primary_key:
            raise UsageError(
                f"table {options.table!r} was made again with the primary key {table.primary_key!r} while the rows were on "
                "their way; nothing was written"
            )
        write = Write.begun(transaction, table)
        pages = (page for part in parts for page in staging.pages(part))
        if self.overwrite:
            overwrite_table(write, pages, options.conflict)
        else:
            for page in pages:
                insert_page(write, page, options)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int | None = None) -> None:
        """Remove the staged files. Runs on the driver. Committed documents stay: the commit may have succeeded although
        Spark does not know it, and its receipt says so when the batch comes again."""
        self._clean([message for message in messages if isinstance(message, Part)])

    def _clean(self, parts: Iterable[Part]) -> None:
        # If Spark does not name the query, the job's folder here differs from the tasks' folder.
        for folder in {self.folder, *(part.folder for part in parts)}:
            staging.remove_folder(folder)


class StreamWriter(BatchWriter, DataSourceStreamArrowWriter):
    """One micro-batch of `df.writeStream`. Spark creates a new one for the tasks and for the commit of each batch."""

    is_stream = True


def key_field(options: WriteOptions) -> str:
    """The primary key of the target table, whether or not it exists yet.

    Raises:
        InvalidOption: The table has another primary key than the options.
        CannotOpen: The folder is missing, or does not permit creating the file.
    """
    chosen = options.primary_key or "id"
    # This check comes before the staging folder is created, so that a wrong path leaves no folder behind.
    files.check_path(options.path, read_only=False)
    try:
        # The file is empty while another process creates it, or if that process was killed.
        if not os.path.exists(options.path) or not os.path.getsize(options.path):
            return chosen
        with reactdb.connect(options.path, read_only=True, busy_timeout=options.busy_timeout_s) as db:
            if options.table not in db.table_list():
                return chosen
            there = db.table(options.table).primary_key
    except CannotOpen as error:
        if error.reason != EMPTY:
            raise
        return chosen
    if options.primary_key not in (None, there):
        raise InvalidOption(
            f"table {options.table!r} has the primary key {there!r}, but primaryKey is {options.primary_key!r}"
        )
    return there


# ---------------------------------------------------------------------------------------------------------------
# The commit


def insert_page(write: Write, page: Page, options: WriteOptions) -> None:
    if options.conflict != "replace" and options.delete_field is None:
        insert(write, Prepared(write.table.primary_key, *page), options.conflict)
        return
    for key, body in zip(*page, strict=True):
        if options.conflict == "replace" or not body:
            write.put(key, write.head(key), body or None, REPLACE)
        else:
            insert(write, Prepared(write.table.primary_key, [key], [body]), options.conflict)


def overwrite_table(write: Write, pages: Iterable[Page], conflict: str) -> None:
    """Replace everything in the table. Unchanged documents are not logged, so feeds see only the difference."""
    kept: set[bytes] = set()
    for keys, bodies in pages:
        for key, body in zip(keys, bodies, strict=True):
            head = write.head(key)
            if key in kept and conflict == "error":
                raise DuplicateKey(
                    write.table.primary_key,
                    codec.pretty(codec.decode(head[1] if head else body)),
                    codec.pretty(codec.decode(body)),
                )
            kept.add(key)
            write.put(key, head, body or None, REPLACE)
    start = b""
    while rows := write.transaction.snapshot().rows(write.table, start, limit=ROWS_AT_ONCE):
        for row in rows:
            if row.key not in kept:
                write.put(row.key, write.head(row.key), None, DELETE)
        start = rows[-1].key + b"\0"
