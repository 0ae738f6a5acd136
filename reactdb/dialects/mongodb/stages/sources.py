"""Source stages: `$documents`, and the descriptions of a collection: `$collStats`, `$indexStats` and similar stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.bson_order import type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.stages.stage import STAGES, Document, Setting, Stage, stage

__all__ = ["FIRST_STAGES"]

FIRST_STAGES: Final = frozenset(
    {
        "$documents",
        "$collStats",
        "$indexStats",
        "$planCacheStats",
        "$currentOp",
        "$listSessions",
        "$listLocalSessions",
    }
)
"""Stages that are allowed only at the beginning of a pipeline."""


@stage("$documents")
def _documents(spec: Any, setting: Setting) -> Stage:
    evaluate = setting.expression(spec)

    def run(_documents: Iterator[Document]) -> Iterator[Document]:
        made = evaluate({}, setting.variables)
        if not isinstance(made, list):
            raise MongoError(5858203, f"$documents takes an array, not {type_name(made)}")
        for document in made:
            if not isinstance(document, dict):
                raise MongoError(
                    40228,
                    f"$documents takes an array of objects; one of its elements is {type_name(document)}",
                )
        return iter(made)

    return Stage("$documents", run)


def _statistics(name: str, *, may_have_options: bool, code: int) -> None:
    def compiler(spec: Any, setting: Setting) -> Stage:
        if not isinstance(spec, Mapping) or (spec and not may_have_options):
            raise MongoError(code, f"{name} takes an object, not {type_name(spec)}")
        return Stage(name, lambda _documents: iter(setting.collections.statistics(name, spec)))

    STAGES[name] = compiler


_statistics("$collStats", may_have_options=True, code=5447000)
_statistics("$indexStats", may_have_options=False, code=28803)
_statistics("$planCacheStats", may_have_options=True, code=50932)
_statistics("$currentOp", may_have_options=True, code=9)
_statistics("$listSessions", may_have_options=True, code=9)
_statistics("$listLocalSessions", may_have_options=True, code=9)


def _unsupported(name: str, why: str, code: int = 238) -> None:
    def compiler(_spec: Any, _setting: Setting) -> Stage:
        raise MongoError(code, f"{name} is not there: {why}")

    STAGES[name] = compiler


_unsupported("$geoNear", "it requires a 2d or 2dsphere index, and there are none here", 27)
for _name in ("$search", "$searchMeta", "$vectorSearch", "$rankFusion", "$scoreFusion", "$listSearchIndexes"):
    _unsupported(_name, "there is no search engine", 31082)
