"""Options of collections: what `create` and `collMod` take, and how a collection is listed.

Rule of this file: the same over the wire and in the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.namespaces import ID_INDEX, IMAGES, CollectionInfo

__all__ = ["CREATE_FIELDS", "OPTIONS", "checked_options", "creation_options", "description"]

OPTIONS: Final = (
    "capped size max validator validationLevel validationAction collation storageEngine indexOptionDefaults "
    f"expireAfterSeconds clusteredIndex {IMAGES}"
).split()
"""Options of a collection that are kept. Of those, `changeStreamPreAndPostImages` has an effect here."""

CREATE_FIELDS: Final = " ".join(OPTIONS) + (
    " timeseries viewOn pipeline autoIndexId idIndex encryptedFields flags temp"
)
"""The fields of `create` beside those of all commands."""


def checked_options(given: Mapping[str, Any], command: str) -> dict[str, Any]:
    """The options that are kept, of those that a command says.

    Raises:
        MongoError: 14, `changeStreamPreAndPostImages` is neither enabled nor disabled.
    """
    images = given.get(IMAGES)
    if images is not None and not (
        isinstance(images, Mapping) and images.keys() == {"enabled"} and isinstance(images["enabled"], bool)
    ):
        raise MongoError(14, f"BSON field '{command}.{IMAGES}' is {{enabled: true}} or {{enabled: false}}")
    return {name: given[name] for name in OPTIONS if given.get(name) is not None}


def creation_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a new collection, or of a new view: `viewOn` and `pipeline`.

    Raises:
        MongoError: As `checked_options`; 115, it is a time series; 14 and 72, it is no view.
    """
    if "timeseries" in given:
        raise MongoError(115, "timeseries: there are no time series here")
    options = checked_options(given, "create")
    view_on, pipeline = given.get("viewOn"), given.get("pipeline")
    if view_on:
        if not isinstance(view_on, str):
            raise MongoError(14, "BSON field 'create.viewOn' is the wrong type, expected type 'string'")
        if not isinstance(pipeline, list | None):
            raise MongoError(14, "BSON field 'create.pipeline' is the wrong type, expected type 'array'")
        return {"viewOn": view_on, "pipeline": pipeline or []}
    if "pipeline" in given:
        raise MongoError(72, "'pipeline' requires 'viewOn' to also be specified")
    return options


def description(found: CollectionInfo) -> dict[str, Any]:
    """A collection, or a view, as `listCollections` shows it."""
    shown = {"name": found.namespace.coll, "type": "collection", "options": dict(found.options)}
    if "viewOn" in found.options:
        return {**shown, "type": "view", "info": {"readOnly": True}}
    return {**shown, "info": {"readOnly": False, "uuid": found.uuid}, "idIndex": dict(ID_INDEX)}
