"""`python -m benchmarks ... --markdown | python -m benchmarks.readme NAME`: puts a table into its place in README.md.

The place is the text between `<!-- NAME -->` and `<!-- end of NAME -->`.
"""

from __future__ import annotations

import sys
from pathlib import Path

README = Path(__file__).with_name("README.md")


def placed(page: str, name: str, table: str) -> str:
    """The page with the table in its place.

    Raises:
        ValueError: The page has no such place.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"{README.name} has no place called {name}")
    return f"{before}{begin}\n\n{table.strip()}\n\n{end}{after}"


if __name__ == "__main__":
    README.write_text(placed(README.read_text(), sys.argv[1], sys.stdin.read()))
