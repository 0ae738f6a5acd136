"""python -m docs.pictures: makes the pictures of the pages anew, from the present version.

    python -m docs.pictures                     all of them, in about a minute
    python -m docs.pictures architecture        one of them

    moving           a write in one program and a list in another, recorded from both
    architecture     the way of a write to its feeds, drawn
    growth           the size of a file under updates, measured
    latency          the time from a write to a callback, measured

Needs the extra `dev`, for the terminal of the recording.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from docs.pictures import architecture, growth, latency, moving

FOLDER: Final = Path(__file__).resolve().parent
PICTURES: Final = {
    "architecture": architecture.draw,
    "growth": growth.draw,
    "latency": latency.draw,
    "moving": moving.draw,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m docs.pictures", description="Make the pictures of the pages."
    )
    parser.add_argument("names", nargs="*", help=", ".join(PICTURES))
    for name in parser.parse_args().names or PICTURES:
        path = FOLDER / f"{name}.svg"
        path.write_text(PICTURES[name](), encoding="utf-8")
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
