"""Options of collections: what `create` and `collMod` take, and how a collection is listed.

Rule of this file: the same over the wire and in the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.collation import text_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.namespaces import ID_INDEX, IMAGES, CollectionInfo
from reactdb.dialects.mongodb.stages import Pipeline, Setting

__all__ = [
    "CREATE_FIELDS",
    "MODIFY_FIELDS",
    "checked_options",
    "creation_options",
    "description",
    "modified_options",
]

OPTIONS: Final = (
    "capped size max validator validationLevel validationAction collation storageEngine indexOptionDefaults "
    f"expireAfterSeconds clusteredIndex {IMAGES}"
).split()
"""Options of a collection that are kept. Of those, the images, the validator and what caps it have an effect here."""

CREATE_FIELDS: Final = " ".join(OPTIONS) + (
    " timeseries viewOn pipeline autoIndexId idIndex encryptedFields flags temp"
)
"""The fields of `create` beside those of all commands."""


MODIFIED: Final = f"validator validationLevel validationAction expireAfterSeconds {IMAGES}".split()
MODIFY_FIELDS: Final = " ".join(MODIFIED) + " cappedSize cappedMax viewOn pipeline index"
"""The fields of `collMod` beside those of all commands."""


def checked_options(given: Mapping[str, Any], command: str) -> dict[str, Any]:
    """The options that are kept, of those that a command says.

    Raises:
        MongoError: 14, one of them is of another type; 40414 and 40415, what is said of images has no field `enabled`, or another
            one; 2 and others, the validator is no query, or there is no such choice.
    """
    images = given.get(IMAGES)
    if images is not None:
        _check_images(images, f"{command}.{IMAGES}")
    options = {name: given[name] for name in OPTIONS if given.get(name) is not None}
    _check_validator(options, command)
    return options


def _check_images(images: Any, field: str) -> None:
    if not isinstance(images, Mapping):
        raise MongoError(14, f"BSON field '{field}' is the wrong type, expected type 'object'")
    for name, value in images.items():
        if name != "enabled":
            raise MongoError(40415, f"BSON field '{field}.{name}' is an unknown field.")
        if not isinstance(value, bool):
            raise MongoError(14, f"BSON field '{field}.enabled' is the wrong type, expected type 'bool'")
    if not images:
        raise MongoError(40414, f"BSON field '{field}.enabled' is missing but a required field")


def _check_validator(options: Mapping[str, Any], command: str) -> None:
    validator = options.get("validator")
    if validator is not None and not isinstance(validator, Mapping):
        raise MongoError(14, f"BSON field '{command}.validator' is the wrong type, expected type 'object'")
    if validator:
        Filter(validator)
    for name, known in _CHOICES.items():
        if name in options and options[name] not in known:
            raise MongoError(
                2,
                f"Enumeration value '{options[name]}' for field '{command}.{name}' is not a valid value: {known}",
            )


_CHOICES: Final = {"validationLevel": ("off", "strict", "moderate"), "validationAction": ("error", "warn")}


def _check_cap(options: dict[str, Any]) -> None:
    """Check what caps a new collection, and round its size up."""
    if not options.get("capped"):
        if "size" in options or "max" in options:
            raise MongoError(
                72, "the 'capped' field needs to be true when either the 'size' or 'max' fields are present"
            )
        options.pop("capped", None)
        return
    for name in ("size", "max"):
        value = options.get(name) or 0
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_BYTES:
            raise MongoError(14, f"BSON field 'create.{name}' is a number from 0 to 2 ** 50")
    if not options.get("size"):
        raise MongoError(72, "the 'size' field is required when 'capped' is true")
    options["size"] = -(-int(options["size"]) // STEP_BYTES) * STEP_BYTES
    if not options.get("max"):
        options.pop("max", None)


STEP_BYTES: Final = 256
"""The size of a capped collection is rounded up to a multiple of it."""
_MOST_BYTES: Final = 1 << 50


def modified_options(given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """What `collMod` changes of a collection's options, or of a view's.

    Args:
        options: As they are.

    Raises:
        MongoError: As `creation_options`; 72, it is not capped, or no view, or one.
    """
    changed = checked_options({name: given[name] for name in MODIFIED if name in given}, "collMod")
    is_view, says_view = "viewOn" in options, bool({"viewOn", "pipeline"} & given.keys())
    if is_view != says_view:
        raise MongoError(
            72, "collMod changes viewOn and pipeline of a view, and other options of a collection"
        )
    if is_view:
        return creation_options(
            {**options, **{name: given[name] for name in ("viewOn", "pipeline") if name in given}}
        )
    cap = {
        name: given[said] for said, name in (("cappedSize", "size"), ("cappedMax", "max")) if said in given
    }
    if cap and not options.get("capped"):
        raise MongoError(72, "Collection must be capped")
    if cap:
        capped = {"capped": True, "size": options["size"], "max": options.get("max"), **cap}
        _check_cap(capped)
        changed |= {"size": capped["size"], "max": capped.get("max")}
    return changed


def creation_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a new collection, or of a new view: `viewOn` and `pipeline`.

    Raises:
        MongoError: As `checked_options`, and as `text_key`; 115, it is a time series; 14 and 72, it is no view, or its size is no
            number; 167, a view that writes; and what its pipeline raises.
    """
    if "timeseries" in given:
        raise MongoError(115, "timeseries: there are no time series here")
    options = checked_options(given, "create")
    texts = options.pop("collation", None)
    own = {} if text_key(texts) is None else {"collation": texts}
    view_on, pipeline = given.get("viewOn"), given.get("pipeline")
    if view_on:
        if not isinstance(view_on, str):
            raise MongoError(14, "BSON field 'create.viewOn' is the wrong type, expected type 'string'")
        if not isinstance(pipeline, list | None):
            raise MongoError(14, "BSON field 'create.pipeline' is the wrong type, expected type 'array'")
        if options.keys() & {"validator", "capped", IMAGES}:
            raise MongoError(72, "a view has no validator and no images, and is not capped")
        for stage in pipeline or []:
            if isinstance(stage, Mapping) and not {"$out", "$merge"}.isdisjoint(stage):
                raise MongoError(167, f"a view's pipeline cannot have {next(iter(stage))}")
        # Only what can be read is kept.
        Pipeline(pipeline or [], Setting(variables={"NOW": None}))
        return {"viewOn": view_on, "pipeline": pipeline or [], **own}
    if "pipeline" in given:
        raise MongoError(72, "'pipeline' requires 'viewOn' to also be specified")
    _check_cap(options)
    return options | own


def description(found: CollectionInfo) -> dict[str, Any]:
    """A collection, or a view, as `listCollections` shows it."""
    shown = {"name": found.namespace.coll, "type": "collection", "options": dict(found.options)}
    if "viewOn" in found.options:
        return {**shown, "type": "view", "info": {"readOnly": True}}
    return {**shown, "info": {"readOnly": False, "uuid": found.uuid}, "idIndex": dict(ID_INDEX)}
