"""RethinkDB's dialect and server."""
