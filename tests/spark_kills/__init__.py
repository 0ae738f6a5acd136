"""Streaming queries that are killed with `kill -9` at random moments, and what their sinks have in the end.

    python -m tests.spark_kills --kills 10

Three queries read the change log of one database, while another writer goes on changing it:

    parquet     all changes to a folder of Parquet files
    log         all changes to a table of a reactdb file, keyed by seq: a batch that came twice would fail as a duplicate
    replica     the documents to another table of it: upserts and deletions

The process that runs the first, or the one that runs the other two, is killed in turn, with its workers or without, and
started again; `--kills` is how often each. In the end all three must have each change exactly once, which is compared by a
hash of their content.
"""
