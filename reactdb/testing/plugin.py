"""The pytest plugin: fixtures for code that uses reactdb, RethinkDB's driver, PyMongo, or CouchDB's HTTP.

    reactdb_memory      an empty database in memory
    reactdb_file        an empty database in a file, at `reactdb_file.path`
    reactdb_seeded      a copy of a database that `reactdb_seed`, a fixture of yours, has filled once
    reactdb_clock       a VirtualClock, which stands still until the test advances it; the other fixtures' databases follow it
    reactdb_recorder    reactdb_recorder(feed) records the events of a feed
    reactdb_rethinkdb   a connection of RethinkDB's driver to an empty database, without a server
    reactdb_mongodb     a client of PyMongo, connected to an empty database, with `watch()` and transactions
    reactdb_couchdb     a client of httpx, connected to an empty database over CouchDB's HTTP

pytest imports this file in every run, also for tests that do not use reactdb, so it imports only pytest until a fixture is
used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from reactdb import Database
    from reactdb.testing.clock import VirtualClock
    from reactdb.testing.recorder import Recorder


def _find_clock(request: pytest.FixtureRequest) -> VirtualClock | None:
    """The test's `reactdb_clock`; None if it uses none."""
    if "reactdb_clock" not in request.fixturenames:
        return None
    clock: VirtualClock = request.getfixturevalue("reactdb_clock")
    return clock


@pytest.fixture
def reactdb_memory(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database in memory, closed afterwards. It follows `reactdb_clock`, if the test uses it."""
    import reactdb

    with reactdb.connect(":memory:", clock=_find_clock(request)) as db:
        yield db


@pytest.fixture
def reactdb_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database in a file of its own, closed afterwards; soft durability, because a test need not survive a power cut. It
    follows `reactdb_clock`, if the test uses it."""
    import reactdb

    with reactdb.connect(tmp_path / "reactdb.db", durability="soft", clock=_find_clock(request)) as db:
        yield db


@pytest.fixture(scope="session")
def reactdb_seed() -> Callable[[Database], object]:
    """Define your own fixture with this name, for the whole session: it returns a function that fills an empty database for
    `reactdb_seeded`."""
    pytest.fail(
        "reactdb_seeded needs a fixture of yours, reactdb_seed with scope='session', which returns a function that fills the "
        "database that it gets",
        pytrace=False,
    )


@pytest.fixture(scope="session")
def reactdb_templates() -> Iterator[dict[Callable[[Database], object], Database]]:
    """The filled databases of this session, by the function that has filled them. For `reactdb_seeded`."""
    templates: dict[Callable[[Database], object], Database] = {}
    yield templates
    for template in templates.values():
        template.close()


@pytest.fixture
def reactdb_seeded(
    request: pytest.FixtureRequest,
    reactdb_seed: Callable[[Database], object],
    reactdb_templates: dict[Callable[[Database], object], Database],
) -> Iterator[Database]:
    """A database in memory, filled by the function of `reactdb_seed`, closed afterwards. The function runs once in a session, and
    in each worker of pytest-xdist; each test has its own copy. It follows `reactdb_clock`, if the test uses it."""
    import reactdb
    from reactdb.clock import SYSTEM
    from reactdb.testing.clock import VirtualClock

    template = reactdb_templates.get(reactdb_seed)
    if template is None:
        # The times in it are the same in every run, and never ahead of a test's clock.
        template = reactdb.connect(":memory:", clock=VirtualClock())
        try:
            reactdb_seed(template)
        except BaseException:
            template.close()
            raise
        reactdb_templates[reactdb_seed] = template
    with template.copy(clock=_find_clock(request) or SYSTEM) as db:
        yield db


@pytest.fixture
def reactdb_clock() -> VirtualClock:
    """A clock that stands still until the test advances it. The databases of the other fixtures follow it. It is a scheduler of
    Rx, too: `feed.subscribe(..., scheduler=reactdb_clock)`."""
    from reactdb.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def reactdb_recorder() -> Iterator[Callable[..., Recorder]]:
    """A function that subscribes to a feed and keeps its events; all subscriptions are closed afterwards."""
    from reactdb.testing.recorder import Recorder

    recorders: list[Recorder] = []

    def record(feed: Any, *, scheduler: Any = None) -> Recorder:
        recorders.append(Recorder(feed, scheduler=scheduler))
        return recorders[-1]

    yield record
    for recorder in recorders:
        recorder.close()


@pytest.fixture
def reactdb_rethinkdb(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A connection of RethinkDB's driver to an empty database in memory, without a server. Needs `pip install rethinkdb`."""
    pytest.importorskip("rethinkdb")
    import reactdb
    from reactdb.testing.rethinkdb import rethinkdb_connection

    with (
        reactdb.connect(":memory:", clock=_find_clock(request)) as db,
        rethinkdb_connection(db) as connection,
    ):
        yield connection


@pytest.fixture
def reactdb_mongodb(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A `MongoClient` that is connected to an empty database in memory, over a socket of this machine. Needs
    `pip install 'reactdb[mongodb]'`. Other drivers connect to the same place: `"mongodb://{}:{}".format(*client.address)`."""
    pymongo = pytest.importorskip("pymongo")
    import reactdb
    from reactdb.servers.mongodb import serve_in_thread

    with reactdb.connect(":memory:", clock=_find_clock(request)) as db, serve_in_thread(db) as server:
        client = pymongo.MongoClient(server.uri)
        yield client
        # If the test has closed it, PyMongo cannot tell the server to close open cursors, and raises an error when it is closed
        # again. The cursors end with the server.
        with suppress(pymongo.errors.InvalidOperation):
            client.close()


@pytest.fixture
def reactdb_couchdb(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A `httpx.Client` that is connected to an empty database in memory, over CouchDB's HTTP and a port of this machine. Needs
    `pip install 'reactdb[server]' httpx`. Other clients connect to the same place: `str(client.base_url)`."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    import reactdb
    from reactdb.servers.http import serve_in_thread

    with (
        reactdb.connect(":memory:", clock=_find_clock(request)) as db,
        serve_in_thread(db) as server,
        httpx.Client(base_url=f"http://{server.host}:{server.port}") as client,
    ):
        yield client
