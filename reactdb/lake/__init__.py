"""Lake: documents and changes of reactdb's files as tables of Parquet, Delta Lake or Iceberg, without a JVM.

    import reactdb.lake

    outcome = reactdb.lake.export("arena.db", "games", delta="lake/games")

The exporter:

    exporter, outcome         its arguments; what it has done
    run                       one run: what is read, and what is one commit of the table
    file_reader               documents and changes of one file, page by page
    rows, columns             the rows of a table; columns of documents that widen
    current_rows, change_rows, version_rows
                              the three kinds of rows
    staging                   rows that wait for their final schema

The files that it reads:

    fleet, file_states        the files of a path; the present state of each, compared with what was read

The tables that it writes:

    target                    a table of a lake, as the exporter writes it
    parquet, parts            a folder of Parquet, which changes by whole parts
    format_table              the steps of a table of Delta or Iceberg
    delta, iceberg            how these formats list files and commit
    data_files, schemas       files of Parquet, and their rows by key; the types of a table
    flushed_files             files of pyiceberg, on the disk before the catalogue names them
    folder_lock               one run at a time

Rule of this package: it reads files through the store, and imports neither feeds nor Spark. `import reactdb.lake` does not
import pyarrow, so that it stays quick.
"""

from reactdb.lake.exporter import export
from reactdb.lake.outcome import Outcome

__all__ = ["Outcome", "export"]
