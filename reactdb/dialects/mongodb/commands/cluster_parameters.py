"""Parameters of the whole cluster: `getClusterParameter`, `setClusterParameter`.

There are those that say something true of this server. They can be set to what they are: nothing else would have an effect.

Rule of this file: a table of parameters, and the errors of those that are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bson import Int64

from reactdb.dialects.mongodb.commands.requests import CommandRequest
from reactdb.dialects.mongodb.commands.table import always, command
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.ordering import is_text, sort_key, type_name

__all__: list[str] = []

_PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    # An image is in the log, and stays as long as its entry.
    "changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": "off"}},
    # No command ends after some time unless it says so.
    "defaultMaxTimeMS": {"readOperations": Int64(0)},
}


def _check_database(request: CommandRequest) -> None:
    if request.database != "admin":
        raise MongoError(13, f"{request.name} may only be run against the admin database.")


@command("getClusterParameter", quick=always)
def get_cluster_parameter(request: CommandRequest) -> dict[str, Any]:
    _check_database(request)
    asked = request.value
    if asked == "*":
        names = list(_PARAMETERS)
    elif isinstance(asked, list):
        names = asked
        if not names:
            raise MongoError(2, "getClusterParameter needs the name of a parameter")
    else:
        names = [asked]
    for name in names:
        if not is_text(name):
            raise MongoError(14, f"a cluster parameter has a text as its name, not {type_name(name)}")
        if name not in _PARAMETERS:
            raise MongoError(4, f"Unknown server parameter: {name}")
    return {"clusterParameters": [{"_id": name, **_PARAMETERS[name]} for name in names]}


@command("setClusterParameter", quick=always)
def set_cluster_parameter(request: CommandRequest) -> dict[str, Any]:
    _check_database(request)
    given = request.value
    if given is None:
        raise MongoError(40414, "setClusterParameter needs a parameter")
    if not isinstance(given, dict):
        raise MongoError(14, f"setClusterParameter takes an object, not {type_name(given)}")
    if "writeConcern" in request.body:
        raise MongoError(72, "setClusterParameter takes no write concern")
    if len(given) > 1:
        raise MongoError(72, "setClusterParameter sets one parameter at a time")
    name, value = next(iter(given.items()), ("", None))
    if name not in _PARAMETERS:
        raise MongoError(4, f"Unknown server parameter: {name}")
    if isinstance(value, dict) and any(field.startswith("$") for field in value):
        raise MongoError(52, f"a cluster parameter has no field that begins with '$': {value}")
    if sort_key(value) != sort_key(_PARAMETERS[name]):
        raise MongoError(2, f"{name} can only be {dict(_PARAMETERS[name])} here")
    return {}
