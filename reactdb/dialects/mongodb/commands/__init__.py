"""MongoDB's commands: a document in, a document out.

    table                    which there are
    requests, fields         one command; an answer that comes later; what values fields may have
    deployment               what all clients of a server share; one client
    cursors, fail_points     results read in batches; failures that a test orders
    profiler                 what was asked, in `system.profile`
    dispatch, concerns, stable_api, error_replies
                             what is the same for all commands; read and write concerns; what a version of the stable API has;
                             errors in MongoDB's terms
    session_states           what is known of each driver's session: its transaction, and the answer to its newest retryable write
    hello, authenticating, sessions, get_more, reading, writing, tailing, plans, streaming, administering,
    profiling, renaming, statistics
                             the commands themselves

There are no sockets and no threads here; `reactdb.servers.mongodb` adds them.
"""

from __future__ import annotations

from reactdb.dialects.mongodb.commands import administering as _administering
from reactdb.dialects.mongodb.commands import get_more as _get_more
from reactdb.dialects.mongodb.commands import hello as _hello
from reactdb.dialects.mongodb.commands import profiling as _profiling
from reactdb.dialects.mongodb.commands import reading as _reading
from reactdb.dialects.mongodb.commands import renaming as _renaming
from reactdb.dialects.mongodb.commands import sessions as _sessions
from reactdb.dialects.mongodb.commands import statistics as _statistics
from reactdb.dialects.mongodb.commands import writing as _writing
from reactdb.dialects.mongodb.commands.deployment import Client, Deployment
from reactdb.dialects.mongodb.commands.dispatch import carry_out, is_quick, poll
from reactdb.dialects.mongodb.commands.requests import AwaitedReply, HangUp

# Importing them puts their commands into the table.
_COMMANDS = (
    _administering,
    _get_more,
    _hello,
    _statistics,
    _profiling,
    _reading,
    _renaming,
    _sessions,
    _writing,
)

__all__ = ["AwaitedReply", "Client", "Deployment", "HangUp", "carry_out", "is_quick", "poll"]
