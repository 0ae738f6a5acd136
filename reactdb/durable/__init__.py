"""Durable consumers: workers that continue after a restart where they were, because their position is in the file.

consumer             DurableConsumer: create, describe, reset, skip and remove a consumer
worker               one worker: its leases, and the batches of changes that it gets
partitions           the log as events of a consumer, each change in the partition of its key
dead_letters         the changes that a consumer could not process, in a table of the file
materialized_views   tables that are kept equal to a selection, by a consumer's lease and a view
keyed_result         the result of a selection as documents by key, for these tables

Rule of this folder: a position is in the file and nowhere else, so a crash, a rollback or another worker makes nothing wrong.
"""
