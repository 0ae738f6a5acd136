"""StreamPipeline: the stages after `$changeStream`, applied to one event.

    $match $project $addFields $set $unset $replaceRoot $replaceWith $redact $fill     as in any pipeline
    $changeStreamSplitLargeEvent                                                       once, and last

Before an image is looked up, the leading `$match` stages are tested as far as they need neither this image nor a later one
(`stream_conditions`). So a missing required image is no error for an event that the `$match` rejects. An event with all its
images goes through the stages as they are.

Rule of this file: a stage that drops or changes the token ends the stream; this is checked for each event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

import bson

from reactdb.dialects.mongodb.collation import text_key
from reactdb.dialects.mongodb.errors import MongoError, TokenMissing
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
"""Stages of MongoDB that no pipeline may have here."""
SPLIT: Final = "$changeStreamSplitLargeEvent"
CHANGE_STREAM: Final = "$changeStream"
MISSING_TOKEN: Final = "Cannot provide resume functionality when the resume token is missing."
"""The drivers' message if a server has not noticed it."""


class EarlyTest(NamedTuple):
    """A condition for the time before an image is looked up.

    Attributes:
        step: The condition as a stage.
        is_in_turn: All conditions before it in the pipeline are tested early, too.
    """

    step: Step
    is_in_turn: bool


class StreamPipeline:
    """See the head of this file.

    Attributes:
        is_empty: There is no stage, except perhaps the one for splitting.
        splits: Large events are split.
        matches: The filters of the leading `$match` stages.
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
            stages: The stages after `$changeStream`.
            variables: The values of the command's `let`.
            lookups: The fields of the events' images, in the order of their lookup.

        Raises:
            MongoError: A stage is unknown, or not allowed here; or it is invalid.
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
        """Whether an event goes on to the lookup of an image, according to the early tests.

        Raises:
            MongoError: A condition fails.
        """
        for test in self._early[image]:
            try:
                if test.step(event) is None:
                    return False
            except MongoError:
                if test.is_in_turn:
                    raise
                # It is an error only if the earlier conditions accept the event, and only the full test shows that.
                return True
        return True

    def apply(self, event: Document) -> Document | None:
        """The result of the stages for an event with its images; None if they drop it.

        Raises:
            MongoError: 280, the token has changed; or an error of a stage.
        """
        if not self._steps:
            return event
        token = event["_id"]
        document = event
        for step in self._steps:
            following = step(document)
            if following is None:
                return None
            document = following
        if "_id" not in document or not _is_same(document["_id"], token):
            kind, why = (MongoError, "") if "_id" in document else (TokenMissing, f"{MISSING_TOKEN} ")
            raise kind(
                280,
                f"{why}Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. "
                "Modifying the _id field of an event makes it impossible to resume the stream from that point. Only "
                "transformations that retain the unmodified _id field are allowed. "
                f"Expected: {token} but found: {document.get('_id', 'nothing')}",
            )
        return document


def _is_same(value: Any, token: Any) -> bool:
    # In the order of its fields, too.
    return value is token or (isinstance(value, Mapping) and bson.encode(value) == bson.encode(token))


def _step(stage: Mapping[str, Any], setting: Setting) -> Step:
    pipeline = Pipeline([stage], setting)
    if pipeline.is_of_one:
        return pipeline.apply
    return lambda document: next(pipeline.run((document,)), None)


def _early_tests(
    matches: Sequence[Mapping[str, Any]], missing: Collection[str], setting: Setting
) -> list[EarlyTest]:
    """The conditions that can be tested while these images are missing."""
    tests: list[EarlyTest] = []
    is_in_turn = True
    for condition in (one for match in matches for one in conjuncts(match)):
        if depends_on(condition, missing):
            is_in_turn = False
        else:
            tests.append(EarlyTest(_step({"$match": condition}, setting), is_in_turn))
    return tests


def _check(stages: Sequence[Any]) -> None:
    for place, stage in enumerate(stages):
        if not isinstance(stage, Mapping):
            raise MongoError(14, "Each element of the 'pipeline' array must be an object")
        if len(stage) != 1:
            raise MongoError(40323, "A pipeline stage specification object must contain exactly one field.")
        ((name, operand),) = stage.items()
        if name == CHANGE_STREAM:
            raise MongoError(40602, "$changeStream is only valid as the first stage in a pipeline")
        if name == SPLIT:
            if place != len(stages) - 1:
                raise MongoError(7182802, f"{SPLIT} must be the last stage in the pipeline")
            if operand != {} or not isinstance(operand, Mapping):
                raise MongoError(7182800, f"{SPLIT} stage specification must be an empty object")
        elif name not in ALLOWED or (
            name == "$fill" and isinstance(operand, Mapping) and "sortBy" in operand
        ):
            if name not in KNOWN_STAGES and name not in ELSEWHERE:
                raise MongoError(40324, f"Unrecognized pipeline stage name: '{name}'")
            raise MongoError(20, f"{name} is not permitted in a $changeStream pipeline")
