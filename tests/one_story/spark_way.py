"""Spark, which writes a file and reads its log as a DataFrame, with the file as its only door."""

from __future__ import annotations

from typing import Any

from reactdb.session import session_of
from tests.one_story.story import TABLE, Step, Told
from tests.one_story.ways import Way, told_of

ROWS = "_id string, n bigint, gone boolean"


class Spark(Way):
    """`Spark.session` is set by the test that has one."""

    name = "spark"
    session: Any = None

    def write(self, step: Step) -> None:
        rows = self.session.createDataFrame([(key, n, n is None) for key, n in step], ROWS).coalesce(1)
        options = {"table": TABLE, "primaryKey": "_id", "conflict": "replace", "deleteField": "gone"}
        rows.write.format("reactdb").mode("append").options(**options).save(str(self.db.path))

    def position(self) -> Any:
        return self.db.seq

    def beginning(self) -> Any:
        # The position at which the table was made.
        return session_of(self.db).info(TABLE).created

    def since(self, position: Any) -> list[Told]:
        options = {"read": "changes", "table": TABLE, "start": str(position + 1)}
        frame = self.session.read.format("reactdb").options(**options).load(str(self.db.path))
        rows = frame.orderBy("seq").collect()
        return [
            told_of(*(None if one is None else one.asDict() for one in (row.old, row.new)), row.key)
            for row in rows
        ]
