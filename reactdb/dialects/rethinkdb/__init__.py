"""RethinkDB's query language over its own wire format: terms in, responses out.

    wire, terms, parse       JSON to a tree of terms, and values to JSON
    keys                     primary keys that ReQL cannot say
    values, functions        the values of terms
    evaluator                the evaluation of terms
    errors                   kinds of errors, with the path to the term at fault
    terms_select, terms_order, terms_transform, terms_aggregate, control, terms_write, hooks, terms_changes, terms_admin,
    terms_config
                             the terms themselves
    write_checks             checks of documents before a write
    tables, system           existing tables, and the computed tables
    serialized_functions     index functions and write hooks as in RethinkDB's archives
    jobs, query_text         running queries, and queries as text
    profiling                evaluated terms, and the time of each
    streams                  feeds, and operators on their events
    commit_difference        the events of one commit on a limit feed as one difference
    open_feed                one open feed of a connection
    session                  one connection: queries by token, batches, feeds
    embedded                 `reactdb.rethinkdb(db)`: the driver in the process, without a server

There are no sockets and no threads here; `reactdb.servers.rethinkdb` adds them.
"""

from __future__ import annotations

from reactdb.dialects.rethinkdb import control as _control
from reactdb.dialects.rethinkdb import hooks as _hooks
from reactdb.dialects.rethinkdb import terms_admin as _terms_admin
from reactdb.dialects.rethinkdb import terms_aggregate as _terms_aggregate
from reactdb.dialects.rethinkdb import terms_changes as _terms_changes
from reactdb.dialects.rethinkdb import terms_config as _terms_config
from reactdb.dialects.rethinkdb import terms_order as _terms_order
from reactdb.dialects.rethinkdb import terms_select as _terms_select
from reactdb.dialects.rethinkdb import terms_transform as _terms_transform
from reactdb.dialects.rethinkdb import terms_write as _terms_write
from reactdb.dialects.rethinkdb.session import Session

# Importing them registers their terms.
_TERMS = (
    _terms_admin,
    _terms_aggregate,
    _terms_changes,
    _terms_config,
    _control,
    _hooks,
    _terms_order,
    _terms_select,
    _terms_transform,
    _terms_write,
)

__all__ = ["Session"]
