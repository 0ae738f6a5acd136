"""Options of collections: the arguments of `create` and `collMod`, and the entries of `listCollections`.

Rule of this file: the same over the wire and in the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import is_text
from reactdb.dialects.mongodb.collation import expand_collation, text_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.namespaces import ID_INDEX, IMAGES, CollectionInfo
from reactdb.dialects.mongodb.option_checks import (
    capped_size,
    check_clustered,
    check_document,
    check_id_index,
    check_images,
    check_number,
    choice,
    flag,
    most_documents,
)
from reactdb.dialects.mongodb.stages import Pipeline, Setting

__all__ = [
    "CREATE_FIELDS",
    "MODIFY_FIELDS",
    "creation_options",
    "description",
    "fields_of_event",
    "merge_options",
    "read_options",
]

OPTIONS: Final = (
    "capped size max validator validationLevel validationAction collation storageEngine indexOptionDefaults "
    f"expireAfterSeconds clusteredIndex {IMAGES}"
).split()
"""Stored options of a collection. Of these, the images, the validator and the cap have an effect here."""

CREATE_FIELDS: Final = " ".join(OPTIONS) + (
    " timeseries viewOn pipeline autoIndexId idIndex encryptedFields flags temp"
)
"""The fields of `create` beside the common fields of commands."""


MODIFIED: Final = f"validator validationLevel validationAction expireAfterSeconds {IMAGES}".split()
MODIFY_FIELDS: Final = " ".join(MODIFIED) + " cappedSize cappedMax viewOn pipeline index dryRun timeseries"
"""The fields of `collMod` beside the common fields of commands."""


def read_options(given: Mapping[str, Any], command: str) -> dict[str, Any]:
    """The options to store, out of a command's fields.

    Raises:
        MongoError: 14, an option has the wrong type; 40414 and 40415, the option for images has no field `enabled`, or another
            field; 2 and others, the validator is no query, or a choice is unknown.
    """
    images = given.get(IMAGES)
    if images is not None:
        check_images(f"{command}.{IMAGES}", images)
    options = {name: given[name] for name in OPTIONS if given.get(name) is not None}
    for name in ("storageEngine", "indexOptionDefaults", "validator"):
        if name in options:
            check_document(f"{command}.{name}", options[name])
    if "expireAfterSeconds" in options and not is_text(options["expireAfterSeconds"]):
        check_number(f"{command}.expireAfterSeconds", options["expireAfterSeconds"])
    if options.get("validator"):
        Filter(options["validator"])
    for name, known in _CHOICES.items():
        if name in options:
            options[name] = choice(f"{command}.{name}", options[name], known)
    return options


_CHOICES: Final = {
    "validationLevel": ("off", "strict", "moderate"),
    "validationAction": ("error", "warn", "errorAndLog"),
}


def _check_cap(options: dict[str, Any]) -> None:
    """Check the cap of a new collection, and round its size up."""
    size, most = options.pop("size", None), options.pop("max", None)
    sizes = None if size is None else capped_size("create.size", size)
    documents = most_documents("create.max", most)
    if not flag("create.capped", options.pop("capped", None)):
        if size is not None or most is not None:
            raise MongoError(
                72, "the 'capped' field needs to be true when either the 'size' or 'max' fields are present"
            )
        return
    if sizes is None:
        raise MongoError(72, "the 'size' field is required when 'capped' is true")
    options.update({"capped": True, "size": sizes})
    if documents is not None:
        options["max"] = documents


def merge_options(given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a collection or view after a `collMod`.

    Args:
        options: The options before.

    Raises:
        MongoError: As `creation_options`; 72, it is not capped, it is no view, or it is a view.
    """
    if "timeseries" in given:
        raise MongoError(72, "timeseries: the collection is no time series, and there are none here")
    changed = read_options({name: given[name] for name in MODIFIED if name in given}, "collMod")
    is_view = "viewOn" in options
    viewed = {name: given[name] for name in ("viewOn", "pipeline") if given.get(name) is not None}
    if "viewOn" in viewed and not is_text(viewed["viewOn"]):
        raise MongoError(14, "BSON field 'collMod.viewOn' is the wrong type, expected type 'string'")
    if viewed.get("viewOn") == "":
        raise MongoError(2, "collMod's viewOn cannot be empty")
    if (viewed and not is_view) or (is_view and (changed or given.get("index") is not None)):
        raise MongoError(
            72, "collMod changes viewOn and pipeline of a view, and other options of a collection"
        )
    if is_view:
        return creation_options({**options, **viewed}) if viewed else {}
    if "expireAfterSeconds" in changed and "clusteredIndex" not in options:
        raise MongoError(72, "expireAfterSeconds is of clustered collections and time series")
    cap = {
        name: given[argument]
        for argument, name in (("cappedSize", "size"), ("cappedMax", "max"))
        if given.get(argument) is not None
    }
    if cap and not options.get("capped"):
        raise MongoError(72, "Collection must be capped")
    if cap:
        capped = {"capped": True, "size": options["size"], "max": options.get("max"), **cap}
        _check_cap(capped)
        changed |= {"size": capped["size"], "max": capped.get("max")}
    return changed


def fields_of_event(
    given: Mapping[str, Any], options: Mapping[str, Any], *, has_told_of_index: bool
) -> Mapping[str, Any]:
    """The fields of a `collMod` in the event of change streams: for a collection as given, and for a view all of them.

    Args:
        options: The changed options.
        has_told_of_index: The index has changed, and has its own event.
    """
    if "viewOn" in options:
        return options
    names = {*MODIFIED, "cappedSize", "cappedMax"} | (set() if has_told_of_index else {"index"})
    return {name: value for name, value in given.items() if name in names and value is not None}


def creation_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options to store for a new collection, or for a new view: `viewOn` and `pipeline`.

    Raises:
        MongoError: As `read_options`, and as `text_key`; 115, it is a time series; 14 and 72, it is no view, or its size is no
            number; 167, the view's pipeline writes; and errors of the pipeline.
    """
    if "timeseries" in given:
        raise MongoError(115, "timeseries: there are no time series here")
    options = read_options(given, "create")
    texts = options.pop("collation", None)
    if texts == {}:
        raise MongoError(40414, "BSON field 'collation.locale' is missing but a required field")
    own = {} if text_key(texts) is None else {"collation": texts}
    view_on = given.get("viewOn")
    if given.get("idIndex") is not None:
        check_id_index(given["idIndex"])
        if view_on or "clusteredIndex" in options:
            raise MongoError(72, "'idIndex' is not allowed with 'viewOn' or 'clusteredIndex'")
    if "clusteredIndex" in given:
        options["clusteredIndex"] = check_clustered(given["clusteredIndex"])
    if view_on:
        return _view(view_on, given.get("pipeline"), options) | own
    if given.get("pipeline") is not None:
        raise MongoError(72, "'pipeline' requires 'viewOn' to also be specified")
    if "expireAfterSeconds" in options and "clusteredIndex" not in options:
        raise MongoError(72, "expireAfterSeconds is of clustered collections and time series")
    if "clusteredIndex" in options and options.get("max") is not None:
        raise MongoError(6049204, "'max' is not allowed with 'clusteredIndex'")
    _check_cap(options)
    for name in ("storageEngine", "indexOptionDefaults"):
        if not options.get(name):
            options.pop(name, None)
    if not options.get(IMAGES, {}).get("enabled"):
        options.pop(IMAGES, None)
    if "clusteredIndex" in options and "capped" in options:
        raise MongoError(6049200, "'capped' is not allowed with 'clusteredIndex'")
    return options | own


def _view(view_on: Any, pipeline: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options to store for a view.

    Args:
        options: Its other options.

    Raises:
        MongoError: 14, 72, 167, 73, the view is invalid; and errors of its pipeline.
    """
    if not is_text(view_on):
        raise MongoError(14, "BSON field 'create.viewOn' is the wrong type, expected type 'string'")
    if not isinstance(pipeline, list | None):
        raise MongoError(14, "BSON field 'create.pipeline' is the wrong type, expected type 'array'")
    if "clusteredIndex" in options:
        raise MongoError(6026500, "'clusteredIndex' is not allowed with 'viewOn'")
    has_images = options.get(IMAGES, {}).get("enabled")
    if options.keys() & {"validator", "capped"} or has_images:
        raise MongoError(72, "a view has no validator and no images, and is not capped")
    if view_on.startswith("$") or "\0" in view_on:
        raise MongoError(73, f"Invalid namespace of a view: '{view_on}'")
    for stage in pipeline or []:
        if not isinstance(stage, Mapping):
            continue
        if not _NOT_IN_VIEWS.isdisjoint(stage):
            raise MongoError(167, f"a view's pipeline cannot have {next(iter(stage))}")
        if not _WITHOUT_COLLECTION.isdisjoint(stage):
            raise MongoError(
                73, f"a view's pipeline cannot have {next(iter(stage))}, because it reads no collection"
            )
    # Only a readable view is stored.
    Pipeline(pipeline or [], Setting(variables={"NOW": None}))
    return {"viewOn": view_on, "pipeline": pipeline or []}


_NOT_IN_VIEWS: Final = frozenset({"$out", "$merge", "$changeStream"})
_WITHOUT_COLLECTION: Final = frozenset({"$documents", "$currentOp", "$listSessions", "$listLocalSessions"})


def description(info: CollectionInfo) -> dict[str, Any]:
    """A collection, or a view, as `listCollections` shows it."""
    options = dict(info.options)
    if "collation" in options:
        options["collation"] = expand_collation(options["collation"])
    shown = {"name": info.namespace.coll, "type": "collection", "options": options}
    if "viewOn" in info.options:
        return {**shown, "type": "view", "info": {"readOnly": True}}
    return {**shown, "info": {"readOnly": False, "uuid": info.uuid}, "idIndex": dict(ID_INDEX)}
