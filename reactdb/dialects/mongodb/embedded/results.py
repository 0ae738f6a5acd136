"""The results of writes, with the attributes of PyMongo's.

    isinstance(orders.insert_one({}), pymongo.results.InsertOneResult)      true

A write without an error does not import PyMongo, so these classes do not inherit from PyMongo's. They name PyMongo's as their
`__class__` once PyMongo is imported; a program that compares has imported it. A copy or a pickle of a result is PyMongo's own.

Rule of this file: a class has the name, the arguments and the attributes of PyMongo's class. All writes are acknowledged.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pymongo.results import DeleteResult as DeleteResult
    from pymongo.results import InsertManyResult as InsertManyResult
    from pymongo.results import InsertOneResult as InsertOneResult
    from pymongo.results import UpdateResult as UpdateResult
else:

    class _WriteResult:
        """The common part of all results. `_value`: PyMongo's first argument."""

        __slots__ = ("_value", "acknowledged")

        def __init__(self, value: Any, acknowledged: bool) -> None:
            self._value = value
            self.acknowledged = acknowledged

        @property
        def __class__(self) -> type:
            # `isinstance` reads this if the type alone does not decide.
            pymongos = sys.modules.get("pymongo.results")
            return getattr(pymongos, type(self).__name__, type(self))

        def __repr__(self) -> str:
            return f"{type(self).__name__}({self._value!r}, acknowledged={self.acknowledged})"

        def __reduce__(self) -> tuple[Any, ...]:
            from pymongo import results

            return getattr(results, type(self).__name__), (self._value, self.acknowledged)

    class InsertOneResult(_WriteResult):
        """The result of `insert_one`."""

        __slots__ = ()

        @property
        def inserted_id(self) -> Any:
            """The `_id` of the document."""
            return self._value

    class InsertManyResult(_WriteResult):
        """The result of `insert_many`."""

        __slots__ = ()

        @property
        def inserted_ids(self) -> list[Any]:
            """The `_id`s of the documents, in their order."""
            return self._value

    class UpdateResult(_WriteResult):
        """The result of an update or a replacement."""

        __slots__ = ()

        @property
        def raw_result(self) -> dict[str, Any]:
            """The reply of the command: `n`, `nModified`, `ok`, `updatedExisting`, and `upserted` after an upsert."""
            return self._value

        @property
        def matched_count(self) -> int:
            """The number of matching documents; 0 after an upsert."""
            return 0 if self.upserted_id is not None else self._value["n"]

        @property
        def modified_count(self) -> int:
            """The number of changed documents."""
            return self._value["nModified"]

        @property
        def upserted_id(self) -> Any:
            """The `_id` of the inserted document; None if none was inserted."""
            return self._value.get("upserted")

        @property
        def did_upsert(self) -> bool:
            """A document was inserted."""
            return "upserted" in self._value

    class DeleteResult(_WriteResult):
        """The result of `delete_one` and `delete_many`."""

        __slots__ = ()

        @property
        def raw_result(self) -> dict[str, Any]:
            """The reply of the command: `n` and `ok`."""
            return self._value

        @property
        def deleted_count(self) -> int:
            """The number of deleted documents."""
            return self._value["n"]
