"""RethinkDB's query language over its own wire format: terms in, responses out.

    wire, terms, parse       JSON to a tree of terms, and values to JSON
    values, functions        what terms evaluate to
    evaluator                how
    selecting, ordering, transforming, joining, aggregating, control, writing, hooks, changing, administering, configuring
                             the terms themselves
    tables, system           which tables there are, and those that are computed
    serialized               index functions and write hooks as RethinkDB's archives have them
    jobs, printing           what goes on, and how it is shown
    streams                  feeds and what happens to their events
    session                  one connection: queries by token, batches, feeds

There are no sockets and no threads here; `reactdb.servers.rethinkdb` brings those, `reactdb.testing` does without.
"""

from __future__ import annotations

from reactdb.dialects.rethinkdb import administering as _administering
from reactdb.dialects.rethinkdb import aggregating as _aggregating
from reactdb.dialects.rethinkdb import changing as _changing
from reactdb.dialects.rethinkdb import configuring as _configuring
from reactdb.dialects.rethinkdb import control as _control
from reactdb.dialects.rethinkdb import hooks as _hooks
from reactdb.dialects.rethinkdb import joining as _joining
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
    _joining,
    _ordering,
    _selecting,
    _transforming,
    _writing,
)

__all__ = ["Session"]
