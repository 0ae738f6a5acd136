"""The answers of reactdb that differ from the recordings on purpose, kept literally in `deviations.json`.

The test gives the reasons. If an answer changes on purpose, the file is written again, and reviewed before it is
committed:

    cd tests && python -m rethinkdb_acceptance.deviations
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "deviations.json"


@cache
def deviations() -> dict[str, dict[str, Any]]:
    """Name of a scenario -> step -> what reactdb answers there."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    return found


def write() -> None:
    from tests.dialects.rethinkdb.acceptance.probes import read, replay

    found = {probe["id"]: different for probe in read() if (different := replay(probe))}
    lines = [
        f"{json.dumps(name)}: {{\n "
        + ",\n ".join(
            f"{json.dumps(step)}: {json.dumps(answer, sort_keys=True)}" for step, answer in steps.items()
        )
        + "}"
        for name, steps in sorted(found.items())
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(found)} scenarios differ")


if __name__ == "__main__":
    write()
