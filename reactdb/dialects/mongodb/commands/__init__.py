"""MongoDB's commands: a document in, a document out.

    table                    which there are
    requests                 one command; an answer that comes later
    deployment               what all clients of a server share; one client
    cursors, failing         results read in batches; failures that a test orders
    carrying, telling        what is the same for all commands; errors in MongoDB's terms
    session_states           what is known of each driver's session: its transaction, and the answer to its newest retryable write
    greeting, authenticating, sessions, continuing, reading, writing, tailing, plans, streaming, administering,
    measuring
                             the commands themselves

There are no sockets and no threads here; `reactdb.servers.mongodb` adds them.
"""

from __future__ import annotations

from reactdb.dialects.mongodb.commands import administering as _administering
from reactdb.dialects.mongodb.commands import continuing as _continuing
from reactdb.dialects.mongodb.commands import greeting as _greeting
from reactdb.dialects.mongodb.commands import measuring as _measuring
from reactdb.dialects.mongodb.commands import reading as _reading
from reactdb.dialects.mongodb.commands import sessions as _sessions
from reactdb.dialects.mongodb.commands import writing as _writing
from reactdb.dialects.mongodb.commands.carrying import carry_out, is_quick, poll
from reactdb.dialects.mongodb.commands.deployment import Client, Deployment
from reactdb.dialects.mongodb.commands.requests import AwaitedReply, HangUp

# Importing them puts their commands into the table.
_COMMANDS = (_administering, _continuing, _greeting, _measuring, _reading, _sessions, _writing)

__all__ = ["AwaitedReply", "Client", "Deployment", "HangUp", "carry_out", "is_quick", "poll"]
