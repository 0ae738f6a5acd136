"""The files of the page: each file of the folder `page`, read once, with its type.

Rule of this file: names of files that exist, and no paths.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from reactdb.servers.http.responses import Answer

__all__ = ["INDEX", "file_names", "page_file"]

INDEX: Final = "index.html"
TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}


@cache
def file_names() -> frozenset[str]:
    return frozenset(
        one.name
        for one in files(__package__).joinpath("page").iterdir()
        if one.is_file() and one.name.rpartition(".")[2] in TYPES
    )


@cache
def _content(name: str) -> bytes:
    return files(__package__).joinpath("page", name).read_bytes()


def page_file(name: str) -> Answer | None:
    """The answer with the file of this name, or None if the page has no such file."""
    if name not in file_names():
        return None
    return Answer(200, _content(name), TYPES[name.rpartition(".")[2]])
