"""StreamPipeline: the stages after `$changeStream`, applied to one event.

    $match $project $addFields $set $unset $replaceRoot $replaceWith $redact $fill     as in any pipeline
    $changeStreamSplitLargeEvent                                                       once, and last

Before an image is looked up, those conditions of the leading `$match` stages are tested that depend neither on it nor on one
that is looked up later (`stream_conditions`). So a `$match` keeps events whose images are required, and missing, from being an
error. An event that has all its images goes through the stages as they are.

Rule of this file: a stage that could drop the token, or change it, ends the stream, and that is found out event by event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

import bson

from reactdb.dialects.mongodb.collation import text_key
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.stages import KNOWN_STAGES, Pipeline, Setting
from reactdb.dialects.mongodb.stream_conditions import conjuncts, depends_on

Document = dict[str, Any]
Step = Callable[[Document], "Document | None"]

ALLOWED: Final = frozenset(
    {
        "$match",
        "$project",
        "$addFields",
        "$set",
        "$unset",
        "$replaceRoot",
        "$replaceWith",
        "$redact",
        "$fill",
    }
)
ELSEWHERE: Final = frozenset(
    {
        "$queryStats",
        "$querySettings",
        "$shardedDataDistribution",
        "$score",
        "$listSampledQueries",
    }
)
"""Stages that MongoDB has, and no pipeline may have here."""
SPLIT: Final = "$changeStreamSplitLargeEvent"
CHANGE_STREAM: Final = "$changeStream"
MISSING_TOKEN: Final = "Cannot provide resume functionality when the resume token is missing."
"""What drivers say where a server has not noticed it."""


class TokenMissing(MongoError):
    """A stage has removed the token of an event."""


class EarlyTest(NamedTuple):
    """A condition that is tested before an image is looked up.

    Attributes:
        step: As a stage.
        is_in_turn: So are all conditions that come before it in the pipeline.
    """

    step: Step
    is_in_turn: bool


class StreamPipeline:
    """See the head of this file.

    Attributes:
        is_empty: There is no stage but, perhaps, that which splits.
        splits: Large events are split.
        matches: The filters of the `$match` stages that it begins with.
    """

    def __init__(
        self,
        stages: Sequence[Mapping[str, Any]],
        collation: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        *,
        lookups: Sequence[str] = (),
    ) -> None:
        """
        Args:
            stages: Without the `$changeStream` that they follow.
            variables: The values of the command's `let`.
            lookups: The fields of the images that events are given, in the order in which these are looked up.

        Raises:
            MongoError: A stage that there is not, or not here; or what the stage itself refuses.
        """
        _check(stages)
        setting = Setting(text=text_key(collation), variables=dict(variables or {}))
        self.splits = bool(stages) and SPLIT in stages[-1]
        steps = [stage for stage in stages if SPLIT not in stage]
        self.is_empty = not steps
        self.matches = [stage["$match"] for stage in takewhile(lambda stage: "$match" in stage, steps)]
        self._steps = [_step(stage, setting) for stage in steps]
        self._early = {
            image: _early_tests(self.matches, lookups[place:], setting) for place, image in enumerate(lookups)
        }

    def takes(self, event: Document, image: str) -> bool:
        """Whether an event goes on to the lookup of an image, as far as that can be told before.

        Raises:
            MongoError: What a condition says.
        """
        for test in self._early[image]:
            try:
                if test.step(event) is None:
                    return False
            except MongoError:
                if test.is_in_turn:
                    raise
                # It is an error only if the conditions before it let the event through, which is seen when all are tested.
                return True
        return True

    def apply(self, event: Document) -> Document | None:
        """What becomes of an event that goes on, once it has its images; None where it does not.

        Raises:
            MongoError: 280, the token is not what it was; or what a stage says.
        """
        if not self._steps:
            return event
        token = event["_id"]
        found = event
        for step in self._steps:
            following = step(found)
            if following is None:
                return None
            found = following
        if "_id" not in found or not _is_same(found["_id"], token):
            kind, why = (MongoError, "") if "_id" in found else (TokenMissing, f"{MISSING_TOKEN} ")
            raise kind(
                280,
                f"{why}Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. "
                "Modifying the _id field of an event makes it impossible to resume the stream from that point. Only "
                "transformations that retain the unmodified _id field are allowed. "
                f"Expected: {token} but found: {found.get('_id', 'nothing')}",
            )
        return found


def _is_same(found: Any, token: Any) -> bool:
    # In the order of its fields, too.
    return found is token or (isinstance(found, Mapping) and bson.encode(found) == bson.encode(token))


def _step(stage: Mapping[str, Any], setting: Setting) -> Step:
    pipeline = Pipeline([stage], setting)
    if pipeline.is_of_one:
        return pipeline.apply
    return lambda document: next(pipeline.run((document,)), None)


def _early_tests(
    matches: Sequence[Mapping[str, Any]], missing: Collection[str], setting: Setting
) -> list[EarlyTest]:
    """The conditions that can be tested while these images are missing."""
    found: list[EarlyTest] = []
    is_in_turn = True
    for condition in (one for match in matches for one in conjuncts(match)):
        if depends_on(condition, missing):
            is_in_turn = False
        else:
            found.append(EarlyTest(_step({"$match": condition}, setting), is_in_turn))
    return found


def _check(stages: Sequence[Any]) -> None:
    for place, stage in enumerate(stages):
        if not isinstance(stage, Mapping):
            raise MongoError(14, "Each element of the 'pipeline' array must be an object")
        if len(stage) != 1:
            raise MongoError(40323, "A pipeline stage specification object must contain exactly one field.")
        ((name, said),) = stage.items()
        if name == CHANGE_STREAM:
            raise MongoError(40602, "$changeStream is only valid as the first stage in a pipeline")
        if name == SPLIT:
            if place != len(stages) - 1:
                raise MongoError(7182802, f"{SPLIT} must be the last stage in the pipeline")
            if said != {} or not isinstance(said, Mapping):
                raise MongoError(7182800, f"{SPLIT} stage specification must be an empty object")
        elif name not in ALLOWED or (name == "$fill" and isinstance(said, Mapping) and "sortBy" in said):
            if name not in KNOWN_STAGES and name not in ELSEWHERE:
                raise MongoError(40324, f"Unrecognized pipeline stage name: '{name}'")
            raise MongoError(20, f"{name} is not permitted in a $changeStream pipeline")
