"""The problems of a database file, as `reactdb doctor` prints them."""

from __future__ import annotations

from pathlib import Path

from reactdb.store.tools import doctor


def problems(path: str | Path) -> list[str]:
    """Everything that the doctor calls a problem; empty if the file is whole."""
    return [
        finding.message
        for _, findings in doctor.examine(str(path))
        for finding in findings
        if finding.level == "problem"
    ]
