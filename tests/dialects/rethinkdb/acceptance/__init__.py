"""Recorded answers of RethinkDB's own server, replayed against reactdb: probes, fuzz traces and its changefeed test files.

The recordings are read in place, beside the project; where that folder is absent, the tests that need it are skipped.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[5] / "shared" / "acceptance" / "rethinkdb"
