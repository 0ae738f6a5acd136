"""RethinkDB's query language over its own wire format: terms in, responses out.

    wire, terms, parse       JSON to a tree of terms, and values to JSON
    keys                     primary keys that ReQL cannot say
    values, functions        the values of terms
    evaluator                the evaluation of terms
    errors                   kinds of errors, with the path to the term at fault
    selecting, ordering, transforming, aggregating, control, writing, hooks, changing, administering, configuring
                             the terms themselves
    storing                  checks of documents before a write
    tables, system           existing tables, and the computed tables
    serialized               index functions and write hooks as in RethinkDB's archives
    jobs, printing           running queries, and queries as text
    profiling                evaluated terms, and the time of each
    streams                  feeds, and operators on their events
    netting                  the events of one commit on a limit feed as one difference
    feeding                  one open feed of a connection
    session                  one connection: queries by token, batches, feeds
    embedded                 `reactdb.rethinkdb(db)`: the driver in the process, without a server

There are no sockets and no threads here; `reactdb.servers.rethinkdb` adds them.
"""

from __future__ import annotations

from reactdb.dialects.rethinkdb import administering as _administering
from reactdb.dialects.rethinkdb import aggregating as _aggregating
from reactdb.dialects.rethinkdb import changing as _changing
from reactdb.dialects.rethinkdb import configuring as _configuring
from reactdb.dialects.rethinkdb import control as _control
from reactdb.dialects.rethinkdb import hooks as _hooks
from reactdb.dialects.rethinkdb import ordering as _ordering
from reactdb.dialects.rethinkdb import selecting as _selecting
from reactdb.dialects.rethinkdb import transforming as _transforming
from reactdb.dialects.rethinkdb import writing as _writing
from reactdb.dialects.rethinkdb.session import Session

# Importing them registers their terms.
_TERMS = (
    _administering,
    _aggregating,
    _changing,
    _configuring,
    _control,
    _hooks,
    _ordering,
    _selecting,
    _transforming,
    _writing,
)

__all__ = ["Session"]
