"""Commits of other processes that this process does not notice for a while.

Rule of this file: only looks are kept back. The feeds of this process, and its writes, go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import reactdb
from reactdb.session import session_of
from reactdb.store.engine import Engine
from reactdb.store.follow import follower
from tests.support.threads import wait_until


@contextmanager
def without_looks(db: reactdb.Database) -> Iterator[None]:
    """Inside, this process does not notice commits of other processes to the file of `db`.

    The first look reads the log whether there is news or not, so it is waited for.
    """
    engine, look = session_of(db).engine, Engine.has_news
    watched = follower._watched.get(id(engine))
    wait_until(lambda: watched is None or not watched._is_behind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "has_news", lambda one: one is not engine and look(one))
        yield
