"""Aggregation pipelines: `Pipeline`, and a file for each group of stages.

pipeline                 a sequence of stages, and their allowed places
stage                    a stage and its context, and the register of stages
select_sort              $match, $sort, $limit, $skip, $sample, $redact, $unwind
project                  $project, $addFields, $set, $unset, $replaceRoot, $replaceWith
group, preferred_numbers  $group, $sortByCount, $count, $bucket, $bucketAuto
lookup                   $lookup, $graphLookup, $unionWith, $facet
set_window_fields        $setWindowFields
fill_densify             $fill, $densify
out_merge                $out, $merge
sources                  $documents, $collStats, $indexStats
"""

from __future__ import annotations

from reactdb.dialects.mongodb.stages.pipeline import KNOWN_STAGES, UPDATE_STAGES, Pipeline, stage_name
from reactdb.dialects.mongodb.stages.stage import Collections, MergeTarget, Setting

__all__ = ["KNOWN_STAGES", "UPDATE_STAGES", "Collections", "MergeTarget", "Pipeline", "Setting", "stage_name"]
