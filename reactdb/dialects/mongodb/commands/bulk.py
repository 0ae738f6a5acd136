"""bulkWrite: writes to several collections in one command.

Rule of this file: which statement goes where, and what is told of it. The statements are those of the other commands.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.commands.continuing import first_batch
from reactdb.dialects.mongodb.commands.cursors import FIRST_BATCH, Results
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.sessions import session_key
from reactdb.dialects.mongodb.commands.table import command
from reactdb.dialects.mongodb.commands.writing import is_ordered, statements
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import check_database_name, namespace_of

COUNTS = ("nInserted", "nMatched", "nModified", "nUpserted", "nDeleted")
UPDATE_FIELDS = ("multi", "upsert", "arrayFilters", "collation", "hint", "sort")


@command(
    "bulkWrite",
    fields="ops nsInfo ordered errorsOnly let bypassDocumentValidation bypassEmptyTsReplacement cursor",
    is_write=True,
)
def bulk_write(request: CommandRequest) -> dict[str, Any]:
    if request.database != "admin":
        raise MongoError(13, "bulkWrite may only be run against the admin database.")
    works = collections(request)
    ordered = is_ordered(request)
    variables = request.get("let", dict)
    counts = dict.fromkeys(COUNTS, 0)
    told: list[dict[str, Any]] = []
    errors = 0
    # One commit, so that a thousand statements wait for the disk once.
    session = request.deployment.spaces.session
    with nullcontext() if request.transaction is not None else session.transaction():
        for place, one in enumerate(statements(request, "ops")):
            answer, changed = carried_out(one, works, variables)
            for name, number in changed.items():
                counts[name] += number
            errors += answer["ok"] == 0.0
            if answer["ok"] == 0.0 or not request.body.get("errorsOnly"):
                told.append({"ok": answer.pop("ok"), "idx": place, **answer})
            if errors and (ordered or request.transaction is not None):
                break
    cursor = Results("admin.$cmd.bulkWrite", iter(told), session_key(request))
    asked = request.get("cursor", dict, {}).get("batchSize", FIRST_BATCH)
    return {**first_batch(request, cursor, asked), "nErrors": errors, **counts}


def collections(request: CommandRequest) -> list[CollectionWork]:
    """What can be done with each collection that the statements name by its number."""
    found = []
    for one in statements(request, "nsInfo"):
        place = namespace_of(str(one.get("ns", "")))
        check_database_name(place.db)
        if not place.coll:
            raise MongoError(73, f"Invalid namespace specified for bulkWrite: '{one.get('ns')}'")
        found.append(CollectionWork(request.deployment.spaces, place, request.transaction))
    return found


def carried_out(
    one: dict[str, Any], works: list[CollectionWork], variables: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[str, int]]:
    """What is told of one statement, and what it adds to the counts."""
    kind = next(iter(one), "")
    number = one.get(kind)
    if kind not in ("insert", "update", "delete"):
        raise MongoError(9, f"'{kind}' is no statement of bulkWrite")
    if not isinstance(number, int) or not 0 <= number < len(works):
        raise MongoError(2, f"BulkWrite ops entry has an invalid nsInfo index {number}")
    work = works[number]
    if kind == "insert":
        done = work.insert([one.get("document", {})])
        return told_of(done, {"nInserted": done["n"]})
    if kind == "delete":
        statement = {"q": one.get("filter", {}), "limit": 0 if one.get("multi") else 1}
        statement |= {name: one[name] for name in ("collation", "hint") if name in one}
        done = work.delete([statement], variables=variables)
        return told_of(done, {"nDeleted": done["n"]})
    statement = {"q": one.get("filter", {}), "u": one.get("updateMods")}
    statement |= {name: one[name] for name in UPDATE_FIELDS if name in one}
    if "constants" in one:
        statement["c"] = one["constants"]
    done = work.update([statement], variables=variables)
    upserted = done.pop("upserted", None)
    counts = {
        "nMatched": done["n"] - bool(upserted),
        "nModified": done["nModified"],
        "nUpserted": bool(upserted),
    }
    if upserted:
        done["upserted"] = {"_id": upserted[0]["_id"]}
    return told_of(done, counts)


def told_of(done: dict[str, Any], counts: dict[str, int]) -> tuple[dict[str, Any], dict[str, int]]:
    errors = done.pop("writeErrors", None)
    if errors:
        error = {name: value for name, value in errors[0].items() if name != "index"}
        return {"ok": 0.0, **error, "n": 0}, counts
    return {"ok": 1.0, **done}, counts
