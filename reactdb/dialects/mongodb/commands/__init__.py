"""MongoDB's commands: a document in, a document out.

    table                    the commands by name
    requests                 one command; a later reply
    deployment               the shared state of a server's clients; one client
    cursors, fail_points     results read in batches; failures for tests
    profiler                 the record of commands in `system.profile`
    dispatch, concerns, stable_api, error_replies
                             the common part of all commands; read and write concerns; the versions of the stable API; errors in
                             MongoDB's terms
    session_states           the state of each driver's session: its transaction, and the reply to its newest retryable write
    hello, authentication, sessions, get_more, find, writes, tailable_cursors, plans, change_streams, collections,
    profile, rename_collection, statistics
                             the commands themselves

There are no sockets and no threads here; `reactdb.servers.mongodb` adds them.
"""

from __future__ import annotations

from reactdb.dialects.mongodb.commands import collections as _collections
from reactdb.dialects.mongodb.commands import find as _find
from reactdb.dialects.mongodb.commands import get_more as _get_more
from reactdb.dialects.mongodb.commands import hello as _hello
from reactdb.dialects.mongodb.commands import profile as _profile
from reactdb.dialects.mongodb.commands import rename_collection as _rename_collection
from reactdb.dialects.mongodb.commands import sessions as _sessions
from reactdb.dialects.mongodb.commands import statistics as _statistics
from reactdb.dialects.mongodb.commands import writes as _writes
from reactdb.dialects.mongodb.commands.deployment import Client, Deployment
from reactdb.dialects.mongodb.commands.dispatch import execute_command, is_quick, poll
from reactdb.dialects.mongodb.commands.requests import AwaitedReply, HangUp

# Importing them puts their commands into the table.
_COMMANDS = (
    _collections,
    _get_more,
    _hello,
    _statistics,
    _profile,
    _find,
    _rename_collection,
    _sessions,
    _writes,
)

__all__ = ["AwaitedReply", "Client", "Deployment", "HangUp", "execute_command", "is_quick", "poll"]
