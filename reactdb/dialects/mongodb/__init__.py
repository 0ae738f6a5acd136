"""MongoDB's documents, queries, updates and change streams, on a reactdb file.

In reading order:

    errors                   errors of commands and statements
    field_names              field names without a BSON form
    natives, ids             values without a Python type, in documents; `_id`s that cannot be keys
    values                   BSON documents and native documents, exact inverses of each other
    bson_order, collation    order and equality of BSON values; of texts under a collation
    paths                    the values at a dotted path of a document
    numeric, times, zones    arithmetic of BSON's numbers; its dates; calendars
    patterns, pattern_bounds, unicode_classes
                             regular expressions; the bound of their running time; characters of the Unicode categories
    expressions/             expressions of aggregation
    filters, conditions, schemas
                             queries; the test of one operator on one value; `$jsonSchema`
    sort, shapes, projection
                             sort orders; kept and computed fields; projections of find
    accumulators, totals, windows, window_totals, window_functions, stages/
                             one value from many documents; one value for each document from its window; pipelines
    updates, array_filters, document_editor, operators
                             update arguments; the elements of `$[name]`; how an update walks its paths; the new value of one
                             operator
    diff                     the difference of two versions, for change events
    names, option_checks, options, namespaces
                             valid names; options of collections, one by one and together; databases and collections as tables
    entries                  stored documents, and the description of an update in the log
    index_keys, partial, indexes, hint, native_filters, partial_index, query_plan, raw_filter
                             entries of an index, hints, filters as native expressions, partial indexes that cover a query,
                             the choice of an index; tests of encoded documents
    validation_error, rules, capped_collections, tailable
                             validators and their reasons, capped collections: the write hook of tables with such rules
    natural                  the order of insertion
    command_fields           checks of the fields of commands
    targets, transactions, retries, find, counts, index_walk, write_statements, bulk_write, ttl_sweep, variables,
    collection, view_graph, pipeline_result, views
                             the work of the commands, without the wire
    tokens, points, clock, scopes, recent, pages, events, images, split_events, stream_options, stream_conditions, stream_stages,
    routing, streams, stream_waiters
                             change streams, and the index from a change's values to its streams
    mongodb, embedded/       `reactdb.mongodb(db)`: PyMongo's names in the process
    commands/                the commands of drivers

There are no sockets and no threads here; `reactdb.servers.mongodb` adds them.
"""

from __future__ import annotations

from reactdb.dialects.mongodb import ids as _ids
from reactdb.dialects.mongodb import natives as _natives
from reactdb.dialects.mongodb.errors import MongoError

# A process that imports the dialect knows its value types.
_TYPES = (*_natives.__all__, *_ids.__all__)

__all__ = ["MongoError"]
