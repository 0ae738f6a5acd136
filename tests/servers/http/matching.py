"""What was recorded against what is answered here: the same, where what one server made up goes with what the other did.

Rule of this file: it compares, and asks nobody.
"""

from __future__ import annotations

import json
import re
from typing import Any

SEQ = re.compile(r"\d+-g[12][A-Za-z0-9_-]{20,}")
OWN_SEQ = re.compile(r"\d+-[0-9a-f]+\.[0-9a-f]+\.\d+")
REV = re.compile(r"(\d+)-[0-9a-f]{32}")
ID = re.compile(r"[0-9a-f]{32}")
# Of what headers name, what is made by the server: not the revisions that a test has chosen.
MADE = re.compile(rf"{REV.pattern}|[A-Z0-9]{{20,}}|-*[0-9a-f]{{32}}|[A-Za-z0-9+/]{{22}}==")


class Matches:
    """What of a recording stands for what here: revisions, seqs and made ids."""

    def __init__(self, here: dict[str, str]) -> None:
        self.here = here

    def translated(self, text: str) -> str:
        for recorded in sorted(self.here, key=len, reverse=True):
            text = text.replace(recorded, self.here[recorded])
        return text

    def match(self, recorded: Any, here: Any) -> Any:
        """The recorded value as it would be here, if the two have the same shape: then they are equal."""
        if isinstance(recorded, str) and isinstance(here, str):
            return self._match_text(recorded, here)
        if isinstance(recorded, list) and isinstance(here, list):
            tail = recorded[len(here) :]
            return [self.match(one, other) for one, other in zip(recorded, here, strict=False)] + tail
        if isinstance(recorded, dict) and isinstance(here, dict):
            return {name: self.match(value, here.get(name)) for name, value in recorded.items()}
        return recorded

    def _match_text(self, recorded: str, here: str) -> str:
        known = self.here.get(recorded)
        if known is not None:
            return known
        if SEQ.fullmatch(recorded) and OWN_SEQ.fullmatch(here):
            self.here[recorded] = here
        elif (match := REV.fullmatch(recorded)) and here.startswith(f"{match[1]}-") and REV.fullmatch(here):
            self.here[recorded] = here
            self.here[recorded.partition("-")[2]] = here.partition("-")[2]
        elif ID.fullmatch(recorded) and ID.fullmatch(here):
            self.here[recorded] = here
        return self.here.get(recorded, recorded)


def values(text: str) -> list[Any]:
    """The JSON of a body: one value, or one a line; of server-sent events their data."""
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    found = []
    for line in text.split("\n"):
        line = re.sub(r"^(data|id): ?", "", line.strip())
        if line.startswith("event: heartbeat"):
            continue
        try:
            found.append(json.loads(line.removesuffix(",")))
        except ValueError:
            # The end of a boundary may have come by itself.
            line = line.removesuffix("--") if line.startswith("--") else line
            found += [line] if line else []
    return found


def differences(recorded: Any, here: Any, path: str = "") -> dict[str, Any]:
    """What is here where two values are different, by its path."""
    found: dict[str, Any] = {}
    if isinstance(recorded, dict) and isinstance(here, dict):
        for name in {**recorded, **here}:
            found |= differences(recorded.get(name), here.get(name), f"{path}.{name}".lstrip("."))
    elif isinstance(recorded, list) and isinstance(here, list) and len(recorded) == len(here):
        for place, pair in enumerate(zip(recorded, here, strict=True)):
            found |= differences(*pair, f"{path}[{place}]")
    elif recorded != here:
        found[path] = here
    return found


class Like:
    """A value that is another one each time."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __eq__(self, other: object) -> bool:
        return re.fullmatch(self.pattern, str(other)) is not None

    def __repr__(self) -> str:
        return f"like {self.pattern}"
