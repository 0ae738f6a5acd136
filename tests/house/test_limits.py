"""The tables of limits on the page of security: each row has a test that is there, and each limit of a server has a row."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from reactdb.servers.http import HTTPLimits
from reactdb.servers.limits import Limits

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
PROTOCOLS = ("HTTP", "MongoDB", "RethinkDB")


def rows(protocol: str) -> list[list[str]]:
    """The cells of each row of a protocol's table."""
    section = PAGE.split(f"\n### {protocol}\n")[1].split("\n### ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_row_names_a_test_that_is_there(protocol: str) -> None:
    found = rows(protocol)

    assert len(found) > 5
    for row in found:
        assert 4 == len(row), row
        path, name = re.fullmatch(r"`(.+\.py)::(test_\w+)`", row[3]).groups()  # type: ignore[union-attr]
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:async )?def {name}\(", text, re.MULTILINE), row[3]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_limit_of_a_server_has_a_row(protocol: str) -> None:
    named = {name for row in rows(protocol) for name in re.findall(r"`(\w+)`", row[2])}
    limits = {field.name for field in fields(HTTPLimits if protocol == "HTTP" else Limits)}

    assert set() == limits - named
