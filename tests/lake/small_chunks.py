"""Small chunks: the exporter commits every few changes, so that a test with a small file has many commits of the table.

A chunk ends at the end of a page of the log at the earliest, and a page has thousands of rows. So small chunks need small pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from reactdb.lake import run
from reactdb.store import exports


@contextmanager
def small_chunks(chunk_bytes: int = 1, page_rows: int = 1) -> Iterator[None]:
    """Inside, the exporter of this process writes small chunks.

    Args:
        chunk_bytes: A chunk ends after the page with which its documents have this size or more.
        page_rows: The most changes in a page of the log.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "CHUNK_BYTES", chunk_bytes)
        patch.setattr(exports, "changes", partial(exports.changes, limit=page_rows))
        yield
