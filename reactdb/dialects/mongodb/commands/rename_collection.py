"""The command `renameCollection`: the check of its arguments, and of the new name.

Rule of this file: names and their checks. `namespaces` renames the collection.
"""

from __future__ import annotations

from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import is_text, type_name
from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace, namespace_of
from reactdb.dialects.mongodb.namespaces import Namespaces

_MOST_BYTES: Final = 255


@command("renameCollection", fields="to dropTarget stayTemp", is_write=True)
def rename_collection(request: CommandRequest) -> dict[str, Any]:
    if request.database != "admin":
        raise MongoError(13, "renameCollection may only be run against the admin database.")
    source = check_namespace("renameCollection", request.value)
    target = check_namespace("to", request.body.get("to"))
    if request.body.get("stayTemp") is not None:
        request.boolean("stayTemp")
    spaces = request.deployment.spaces
    drops = request.boolean("dropTarget")
    check_case(spaces, target.db)
    spaces.rename(source, target, drop_target=drops)
    return {}


def check_namespace(field: str, name: Any) -> MongoNamespace:
    """The namespace in a field: the old name or the new one.

    Raises:
        MongoError: 40414, it is missing; 14, it is no text; 73, it is no collection's name; 20, this collection cannot be
            renamed.
    """
    if name is None:
        raise MongoError(40414, f"BSON field 'renameCollection.{field}' is missing but a required field")
    if not is_text(name):
        raise MongoError(
            14,
            f"BSON field 'renameCollection.{field}' is the wrong type '{type_name(name)}', expected type 'string'",
        )
    namespace = namespace_of(name)
    if not namespace.db or not namespace.coll:
        raise MongoError(73, f"Invalid namespace specified '{name}'")
    if (
        "$" in name
        or namespace.coll.startswith("system.")
        or len(name.encode(errors="replace")) > _MOST_BYTES
    ):
        raise MongoError(
            20, f"error with namespace: '{name}' cannot be renamed, or be the new name of another"
        )
    return namespace


def check_case(spaces: Namespaces, database: str) -> None:
    """Raises: MongoError: 13297, a database with the same letters in another case exists."""
    known = spaces.databases()
    if database in known:
        return
    for one in known:
        if one.lower() == database.lower():
            raise MongoError(
                13297,
                f"db already exists with different case already have: [{one}] trying to create [{database}]",
            )
