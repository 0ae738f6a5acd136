"""Bulk writes: PyMongo's requests as statements, in runs of one kind, and their results as one.

Rule of this file: a run is one command, and so one commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.embedded.argument_checks import check_replacement, check_update, ensure_id
from reactdb.dialects.mongodb.embedded.codecs import Codec
from reactdb.dialects.mongodb.embedded.documents import hint_document, order_document

__all__ = ["Bulk", "merge_inserts"]

Document = dict[str, Any]


class Bulk:
    """The requests of one bulk write. PyMongo's requests add themselves to it."""

    def __init__(self, requests: Sequence[Any], codec: Codec) -> None:
        """`codec`: the collection's.

        Raises:
            TypeError: A request has the wrong type. ValueError: It is no valid update or replacement.
        """
        self._codec = codec
        # (kind, statement, the same as errors show it)
        self._statements: list[tuple[str, Document, Document]] = []
        for request in requests:
            add = getattr(request, "_add_to_bulk", None)
            if add is None:
                raise TypeError(f"{request!r} is not a valid request")
            add(self)

    @property
    def command(self) -> str:
        """The name of the first run's command."""
        return self._statements[0][0]

    def add_insert(self, document: Any) -> None:
        ensure_id(document)
        self._statements.append(("insert", self._codec.given(document), document))

    def add_update(
        self,
        selector: Any,
        update: Any,
        multi: bool,
        upsert: bool | None = None,
        collation: Any = None,
        array_filters: Any = None,
        hint: Any = None,
        sort: Any = None,
    ) -> None:
        check_update(update)
        u = self._codec.given_value(update)
        statement = {"q": self._codec.given(selector), "u": u, "multi": multi, "upsert": bool(upsert)}
        if array_filters is not None:
            statement["arrayFilters"] = [self._codec.given(one) for one in array_filters]
        self._add("update", statement, collation, sort, hint)

    def add_replace(
        self,
        selector: Any,
        replacement: Any,
        upsert: bool | None = None,
        collation: Any = None,
        hint: Any = None,
        sort: Any = None,
    ) -> None:
        check_replacement(replacement)
        u = self._codec.given(replacement)
        statement = {"q": self._codec.given(selector), "u": u, "multi": False, "upsert": bool(upsert)}
        self._add("update", statement, collation, sort, hint)

    def add_delete(self, selector: Any, limit: int, collation: Any = None, hint: Any = None) -> None:
        self._add("delete", {"q": self._codec.given(selector), "limit": limit}, collation, None, hint)

    def _add(self, kind: str, statement: Document, collation: Any, sort: Any, hint: Any) -> None:
        if hint is not None:
            statement["hint"] = hint_document(hint)
        if collation is not None:
            statement["collation"] = getattr(collation, "document", collation)
        if sort is not None:
            statement["sort"] = order_document(sort)
        self._statements.append((kind, statement, statement))

    def execute(
        self, work: CollectionWork, *, ordered: bool, variables: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Execute the requests; with `ordered`, until the first error.

        Returns:
            The result in the form of `BulkWriteResult` and `BulkWriteError`.
        """
        result = _empty()
        for kind, places in self._runs(ordered=ordered):
            statements = [self._statements[place][1] for place in places]
            if kind == "insert":
                answer = work.insert(statements, ordered=ordered)
                result["nInserted"] += answer["n"]
            elif kind == "update":
                answer = work.update(statements, ordered=ordered, variables=variables)
                upserted = answer.get("upserted", [])
                result["nUpserted"] += len(upserted)
                result["nMatched"] += answer["n"] - len(upserted)
                result["nModified"] += answer["nModified"]
                result["upserted"] += [
                    {**one, "index": places[one["index"]], "_id": self._codec.read_upserted(one["_id"])}
                    for one in upserted
                ]
            else:
                answer = work.delete(statements, ordered=ordered, variables=variables)
                result["nRemoved"] += answer["n"]
            for error in answer.get("writeErrors", ()):
                place = places[error["index"]]
                result["writeErrors"].append({**error, "index": place, "op": self._statements[place][2]})
            if ordered and result["writeErrors"]:
                break
        result["writeErrors"].sort(key=lambda error: error["index"])
        return result

    def _runs(self, *, ordered: bool) -> list[tuple[str, list[int]]]:
        """The places of the statements of each command."""
        if not ordered:
            by_kind: dict[str, list[int]] = {}
            for place, (kind, _, _) in enumerate(self._statements):
                by_kind.setdefault(kind, []).append(place)
            return list(by_kind.items())
        runs: list[tuple[str, list[int]]] = []
        for place, (kind, _, _) in enumerate(self._statements):
            if runs and runs[-1][0] == kind:
                runs[-1][1].append(place)
            else:
                runs.append((kind, [place]))
        return runs


def _empty() -> dict[str, Any]:
    counts = dict.fromkeys(("nInserted", "nUpserted", "nMatched", "nModified", "nRemoved"), 0)
    return {"writeErrors": [], "writeConcernErrors": [], **counts, "upserted": []}


def merge_inserts(answer: Mapping[str, Any], given: Sequence[Any]) -> dict[str, Any]:
    """The result of inserts with some errors."""
    errors = [{**error, "op": given[error["index"]]} for error in answer["writeErrors"]]
    return {**_empty(), "writeErrors": errors, "nInserted": answer["n"]}
