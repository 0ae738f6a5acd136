"""The fixtures of the plugin, also where the package is not installed."""

from __future__ import annotations

from reactdb.testing.plugin import (  # noqa: F401
    reactdb_clock,
    reactdb_couchdb,
    reactdb_file,
    reactdb_memory,
    reactdb_mongodb,
    reactdb_recorder,
    reactdb_rethinkdb,
    reactdb_seed,
    reactdb_seeded,
    reactdb_templates,
)
