"""Aggregation pipelines: `Pipeline`, and a file for each group of stages.

pipeline                 a sequence of stages, and their allowed places
stage                    a stage and its context, and the register of stages
selecting                $match, $sort, $limit, $skip, $sample, $redact, $unwind
shaping                  $project, $addFields, $set, $unset, $replaceRoot, $replaceWith
grouping, rounding       $group, $sortByCount, $count, $bucket, $bucketAuto
joining                  $lookup, $graphLookup, $unionWith, $facet
windowing                $setWindowFields
filling                  $fill, $densify
writing                  $out, $merge
sources                  $documents, $collStats, $indexStats
"""

from __future__ import annotations

from reactdb.dialects.mongodb.stages.pipeline import KNOWN_STAGES, UPDATE_STAGES, Pipeline, stage_name
from reactdb.dialects.mongodb.stages.stage import Collections, Merging, Setting

__all__ = ["KNOWN_STAGES", "UPDATE_STAGES", "Collections", "Merging", "Pipeline", "Setting", "stage_name"]
