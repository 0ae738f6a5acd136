"""`reactdb serve`: what the process does for itself. What it serves is tested with the servers."""

from __future__ import annotations

from typing import Any

import pytest

from reactdb.cli import serve


@pytest.fixture
def limits() -> Any:
    """The system's limits of this process, which are put back."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield resource
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_server_may_have_as_many_files_open_as_it_has_connections(limits: Any) -> None:
    _, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    limits.setrlimit(limits.RLIMIT_NOFILE, (512, hard))

    serve.allow_open_files(700)
    assert (700, hard) == limits.getrlimit(limits.RLIMIT_NOFILE)
    serve.allow_open_files(600)
    assert (700, hard) == limits.getrlimit(limits.RLIMIT_NOFILE)


def test_more_than_the_system_allows_is_not_asked_for(limits: Any) -> None:
    limits.setrlimit(limits.RLIMIT_NOFILE, (512, limits.getrlimit(limits.RLIMIT_NOFILE)[1]))

    serve.allow_open_files(2**40)

    soft, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    assert soft == hard or hard == limits.RLIM_INFINITY
