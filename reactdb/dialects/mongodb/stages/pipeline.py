"""Pipeline: a sequence of stages over the documents of a collection, over events, or over one document.

    Pipeline([{"$match": {"a": 1}}, {"$sort": {"b": 1}}], setting).run(documents)

A pipeline is compiled once, in its constructor, and errors are raised there. It may run often, one run at a time.

Rule of this file: it knows the allowed places of stages, but not their work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.numeric import whole
from reactdb.dialects.mongodb.sort import Order
from reactdb.dialects.mongodb.stages import fill_densify as _fill_densify
from reactdb.dialects.mongodb.stages import group as _group
from reactdb.dialects.mongodb.stages import lookup as _lookup
from reactdb.dialects.mongodb.stages import out_merge as _out_merge
from reactdb.dialects.mongodb.stages import project as _project
from reactdb.dialects.mongodb.stages import set_window_fields as _set_window_fields
from reactdb.dialects.mongodb.stages.select_sort import sort_of
from reactdb.dialects.mongodb.stages.sources import FIRST_STAGES
from reactdb.dialects.mongodb.stages.stage import STAGES, Document, Setting, Stage, run_stages

__all__ = ["KNOWN_STAGES", "MAX_STAGES", "UPDATE_STAGES", "Pipeline", "stage_name"]

# Importing a group registers its stages.
_GROUPS: Final = (_fill_densify, _group, _lookup, _project, _set_window_fields, _out_merge)

MAX_STAGES: Final = 1_000
_LAST: Final = frozenset({"$out", "$merge"})
_OF_CHANGE_STREAMS: Final = frozenset({"$changeStream", "$changeStreamSplitLargeEvent"})
KNOWN_STAGES: Final = frozenset(STAGES) | _OF_CHANGE_STREAMS
"""The names of all stages, including the stages of change streams."""
UPDATE_STAGES: Final = frozenset({"$addFields", "$set", "$project", "$unset", "$replaceRoot", "$replaceWith"})
"""The stages of an update by a pipeline."""


def stage_name(spec: Any) -> str:
    """The name of a stage.

    Raises:
        MongoError: It is no object (14), does not have exactly one field (40323), or its name is unknown (40324).
    """
    if not isinstance(spec, Mapping):
        raise MongoError(14, f"each element of the 'pipeline' array must be an object, not {type_name(spec)}")
    if len(spec) != 1:
        raise MongoError(40323, "a pipeline stage specification object must contain exactly one field")
    (name,) = spec
    if name not in KNOWN_STAGES:
        raise MongoError(40324, f"Unrecognized pipeline stage name: '{name}'")
    return str(name)


class Pipeline:
    """A pipeline.

    Args:
        stages: The stages, as in an aggregation.
        setting: The other collections, variables and the collation. Without it there are no other collections.
        allowed: The names of the allowed stages; None for all.
        refusal: The error code for a stage that is not allowed.
        within: The name of the surrounding command or stage in that error.

    Raises:
        MongoError: A stage is unknown (40324), not allowed, misplaced (40601, 40602), or invalid.
    """

    def __init__(
        self,
        stages: Iterable[Any],
        setting: Setting | None = None,
        *,
        allowed: frozenset[str] | None = None,
        refusal: int = 20,
        within: str = "this pipeline",
    ) -> None:
        self.setting = setting or Setting()
        self.setting.nested = _compile
        specs = _list_stages(stages)
        for spec in specs:
            name = stage_name(spec)
            if allowed is not None and name not in allowed:
                raise MongoError(refusal, f"{name} is not allowed to be used within {within}")
        self.stages = _compile(specs, self.setting)
        self.is_of_one = all(stage.of_one is not None for stage in self.stages)
        """Whether each stage treats each document alone, so that `apply` can be called."""
        self.writes = bool(self.stages) and self.stages[-1].name in _LAST
        """Whether it ends with `$out` or `$merge`."""
        self._of_one = [stage.of_one for stage in self.stages if stage.of_one is not None]

    def run(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The pipeline's output for these documents, lazily."""
        return run_stages(self.stages, iter(documents))

    def apply(self, document: Document) -> Document | None:
        """The pipeline's result for one document; None if it is filtered out. Only if `is_of_one`."""
        made: Document | None = document
        for of_one in self._of_one:
            made = of_one(made)  # type: ignore[arg-type]
            if made is None:
                return None
        return made


def _list_stages(stages: Any) -> list[Any]:
    if isinstance(stages, Mapping | str | bytes) or not isinstance(stages, Iterable):
        raise MongoError(14, f"a pipeline is an array of stages, not {type_name(stages)}")
    specs = list(stages)
    if len(specs) > MAX_STAGES:
        raise MongoError(7749501, f"a pipeline has at most {MAX_STAGES} stages")
    return specs


def _compile(stages: Any, setting: Setting) -> list[Stage]:
    specs = _list_stages(stages)
    names = [stage_name(spec) for spec in specs]
    made: list[Stage] = []
    for place, (name, spec) in enumerate(zip(names, specs, strict=True)):
        if name in _OF_CHANGE_STREAMS:
            code = 40602 if name == "$changeStream" else 20
            raise MongoError(code, f"{name} is only there in the pipeline of a change stream")
        if name in FIRST_STAGES and place > 0:
            raise MongoError(40602, f"{name} is only valid as the first stage in a pipeline")
        if name == "$geoNear" and place > 0:
            raise MongoError(40603, "$geoNear is only valid as the first stage in a pipeline")
        if name in _LAST and place < len(specs) - 1:
            raise MongoError(40601, f"{name} can only be the final stage in the pipeline")
        made.append(STAGES[name](spec[name], setting))
    return _with_short_sorts(names, specs, made, setting)


def _with_short_sorts(names: list[str], specs: list[Any], made: list[Stage], setting: Setting) -> list[Stage]:
    """A `$sort` before a `$limit` holds no more documents than the limit."""
    for place, name in enumerate(names):
        if name != "$sort":
            continue
        most, following = 0, place + 1
        while following < len(names) and names[following] == "$skip":
            most += int(whole(specs[following]["$skip"]) or 0)
            following += 1
        if following < len(names) and names[following] == "$limit":
            most += int(whole(specs[following]["$limit"]) or 0)
            made[place] = sort_of(Order(specs[place]["$sort"], setting.text), setting, most)
    return made
