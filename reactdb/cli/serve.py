"""`reactdb serve`: a database file behind another database's wire protocol.

Rule of this file: options become limits, users and a certificate; an option that would give strangers access is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click

from reactdb.cli.files import Finite, file_argument
from reactdb.database import Database, connect
from reactdb.errors import CannotListen
from reactdb.servers.rethinkdb import Credentials, Limits, RethinkDBServer
from reactdb.servers.sockets import check_path, is_loopback, listen
from reactdb.servers.tls import tls_context
from reactdb.servers.workers import Workers

DEFAULT_PORT = 28_015
DEFAULT_HTTP_PORT = 5_984
DEFAULT_MONGODB_PORT = 27_017
DEFAULT_USER = "admin"
# The collector examines the youngest objects after so many new containers. Python's default is 700.
GARBAGE = 20_000
# Beside the connections: the database, temporary files of requests, the loop.
OTHER_FILES = 512
FLAGS = {"rethinkdb": "--rethinkdb", "http": "--couchdb or --aidbox", "mongodb": "--mongodb"}
DEFAULT_PORTS = {"rethinkdb": DEFAULT_PORT, "http": DEFAULT_HTTP_PORT, "mongodb": DEFAULT_MONGODB_PORT}


@click.command()
@file_argument
@click.option("--rethinkdb", is_flag=True, help="Serve RethinkDB's protocol, for its official drivers.")
@click.option(
    "--couchdb", is_flag=True, help="Serve CouchDB's HTTP interface, for PouchDB and CouchDB itself."
)
@click.option("--aidbox", is_flag=True, help="Serve Aidbox's HTTP interface, with $changes.")
@click.option("--mongodb", is_flag=True, help="Serve MongoDB's protocol, for its official drivers.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Port of the protocol, where there is one; 0 takes any free one.  "
    f"[default: {DEFAULT_PORT}; of HTTP {DEFAULT_HTTP_PORT}; of MongoDB {DEFAULT_MONGODB_PORT}]",
)
@click.option("--rethinkdb-port", type=click.IntRange(0, 65_535), help="Port of RethinkDB's protocol.")
@click.option("--http-port", type=click.IntRange(0, 65_535), help="Port of HTTP.")
@click.option("--mongodb-port", type=click.IntRange(0, 65_535), help="Port of MongoDB's protocol.")
@click.option(
    "--mongodb-socket", metavar="PATH", help="A Unix socket for MongoDB's protocol, in place of a port."
)
@click.option(
    "--fail-points",
    is_flag=True,
    help="Let MongoDB's clients order failures, as the tests of its drivers do.",
)
@click.option(
    "--sweep",
    type=Finite(0, 86_400, min_open=True),
    metavar="SECONDS",
    help="How often the server deletes expired documents, besides once a second.  [default: never]",
)
@click.option("--read-only", is_flag=True, help="Over HTTP, refuse writes.")
@click.option(
    "--cors-origin",
    metavar="ORIGIN",
    multiple=True,
    help="Over HTTP, an origin whose pages may read and write, such as https://app.example.org, or `none`; can be repeated.  "
    "[default: all; with users none]",
)
@click.option(
    "--host-name",
    metavar="NAME",
    multiple=True,
    help="Over HTTP, a name by which clients reach the server, such as db.example.org, or `*` for any; can be repeated.  "
    "[default: only those of this machine; with users any]",
)
@click.option("--certificate", metavar="FILE", help="Certificate in PEM: speak TLS. Needs --key.")
@click.option("--key", metavar="FILE", help="The certificate's private key in PEM.")
@click.option(
    "--users", metavar="FILE", help="The users that may connect: a file of names and salted hashes."
)
@click.option("--user", help=f"The user that may connect, if there is only one.  [default: {DEFAULT_USER}]")
@click.option(
    "--password-env",
    metavar="NAME",
    help="Name of the environment variable that holds that user's password. Without it there is none.",
)
@click.option(
    "--durability",
    type=click.Choice(["hard", "soft"]),
    default="hard",
    show_default=True,
    help="Whether a write is acknowledged after the disk has it, or before.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    default=1_024,
    show_default=True,
    help="Clients at a time; more are turned away.",
)
@click.option(
    "--max-strangers",
    type=click.IntRange(1),
    default=512,
    show_default=True,
    help="Clients at a time that are not authenticated yet; for one more, the longest silent client is disconnected.",
)
@click.option(
    "--max-message",
    type=click.IntRange(1_024, 1024 * 1024 * 1024),
    default=64 * 1024 * 1024,
    show_default=True,
    metavar="BYTES",
    help="Of one request.",
)
@click.option(
    "--max-streams",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Open cursors and feeds of one client.",
)
@click.option(
    "--timeout",
    type=Finite(0, 86_400, min_open=True),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="For a handshake; a request that has begun to come may take three times as long.",
)
@click.option(
    "--query-timeout",
    type=Finite(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For one query, or one batch of a stream; 0 for none. A feed may wait for ever.",
)
@click.option(
    "--query-memory",
    type=click.IntRange(0),
    default=2 * 1024 * 1024 * 1024,
    show_default=True,
    metavar="BYTES",
    help="For one query, or one batch of a stream; 0 for no limit.",
)
def serve(
    file: str,
    rethinkdb: bool,
    couchdb: bool,
    aidbox: bool,
    mongodb: bool,
    host: str,
    port: int | None,
    rethinkdb_port: int | None,
    http_port: int | None,
    mongodb_port: int | None,
    mongodb_socket: str | None,
    fail_points: bool,
    sweep: float | None,
    read_only: bool,
    cors_origin: tuple[str, ...],
    host_name: tuple[str, ...],
    certificate: str | None,
    key: str | None,
    users: str | None,
    user: str | None,
    password_env: str | None,
    durability: str,
    max_connections: int,
    max_strangers: int,
    max_message: int,
    max_streams: int,
    timeout: float,
    query_timeout: float,
    query_memory: int,
) -> None:
    """Let other databases' clients use a file.

    In Python: with reactdb.servers.mongodb.serve_in_thread(db) as server: ...
    """
    dialects = tuple(name for name, is_asked in (("couchdb", couchdb), ("aidbox", aidbox)) if is_asked)
    is_served = {"rethinkdb": rethinkdb, "http": bool(dialects), "mongodb": mongodb}
    ports = _ports(is_served, port, {"rethinkdb": rethinkdb_port, "http": http_port, "mongodb": mongodb_port})
    if (mongodb_socket or fail_points or sweep) and not mongodb:
        raise click.UsageError("--mongodb-socket, --fail-points and --sweep need --mongodb.")
    if not dialects:
        _check_no_http(read_only, cors_origin, host_name)
    _check_access(host, certificate, key, users, user, password_env)
    with contextlib.suppress(KeyboardInterrupt):
        limits = Limits(
            message_bytes=max_message,
            connections=max_connections,
            strangers=max_strangers,
            handshake_s=timeout,
            message_s=3 * timeout,
            streams=max_streams,
            query_s=query_timeout,
            query_bytes=query_memory,
        )
        credentials = _credentials(users, user, password_env)
        tls = None if certificate is None or key is None else tls_context(certificate, key)
        tune_process()
        options = ServeOptions(
            host,
            ports,
            credentials,
            limits,
            tls,
            read_only,
            () if cors_origin == ("none",) else cors_origin or None,
            host_name or None,
            dialects,
            mongodb_socket,
            fail_points,
            sweep,
        )
        _check(options)
        allow_open_files(len(ports) * limits.connections + OTHER_FILES)
        asyncio.run(_serve(file, options, durability))


def _check_no_http(read_only: bool, cors_origin: tuple[str, ...], host_name: tuple[str, ...]) -> None:
    """
    Raises:
        UsageError: An option of HTTP is given.
    """
    if read_only or cors_origin:
        raise click.UsageError(
            "--read-only and --cors-origin are about HTTP; they need --couchdb or --aidbox."
        )
    if host_name:
        raise click.UsageError("--host-name is about HTTP; it needs --couchdb or --aidbox.")


def tune_process() -> None:
    """Set the right values for a process that only serves. A server inside another program leaves both alone."""
    # Python's default is 5 ms, so an answer with five switches waited 25 ms for each thread that computes.
    sys.setswitchinterval(0.0005)
    # The garbage collector examined an answer of some thousand documents again and again while it was made, for cycles that it
    # cannot have: a third of the time.
    gc.set_threshold(GARBAGE)


def allow_open_files(count: int) -> None:
    """Raise this process's limit of open files and connections, as far as it may. Often the limit is 1,024: strangers on three
    ports would use that up, and then the database's file could not be opened."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # A system may allow less than it says.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _check_access(
    host: str,
    certificate: str | None,
    key: str | None,
    users: str | None,
    user: str | None,
    password_env: str | None,
) -> None:
    """
    Raises:
        UsageError: Options contradict each other, or would let strangers in.
    """
    if (certificate is None) != (key is None):
        raise click.UsageError("TLS needs both --certificate and --key.")
    if users is not None and (user is not None or password_env is not None):
        raise click.UsageError(
            "--users names everybody who may connect; leave --user and --password-env out."
        )
    if not is_loopback(host) and users is None and password_env is None:
        raise click.UsageError(
            f"Listening on {host} lets others in: set a password with --password-env or name --users, or listen on 127.0.0.1."
        )


def _check(options: ServeOptions) -> None:
    """Checks before the file is made: a failing command leaves no file behind.

    Raises:
        MissingExtra: A package for HTTP or MongoDB's protocol is not installed; ClickException: A port is not free;
            CannotListen: The same for a Unix socket.
    """
    if "http" in options.ports:
        import_module("reactdb.servers.http")
    if "mongodb" in options.ports:
        import_module("reactdb.servers.mongodb")
    with contextlib.ExitStack() as held:
        for name, port in options.ports.items():
            if name == "mongodb" and options.socket is not None:
                check_path(options.socket)
                continue
            try:
                # All at the same time, because two protocols may have been given the same port.
                held.enter_context(listen(options.host, port))
            except CannotListen as error:
                option = "port" if len(options.ports) == 1 else f"{name}-port"
                advice = {"port": f"; choose another with --{option}", "host": "; choose another with --host"}
                raise click.ClickException(error.reason + advice.get(error.option or "", "")) from error


def _ports(is_served: dict[str, bool], port: int | None, own: dict[str, int | None]) -> dict[str, int]:
    """The port of each requested protocol.

    Args:
        asked: Protocol -> whether it is requested.
        own: Protocol -> its own port option.

    Raises:
        UsageError: No protocol is requested, or a port is given twice, or for a protocol that is not served.
    """
    names = [name for name, is_asked in is_served.items() if is_asked]
    if not names:
        raise click.UsageError(
            "Choose a protocol: --rethinkdb, --couchdb, --aidbox, --mongodb, or several of them."
        )
    for name, number in own.items():
        if number is not None and name not in names:
            raise click.UsageError(f"--{name}-port needs {FLAGS[name]}.")
    if port is not None and len(names) > 1:
        several = " and ".join(f"--{name}-port" for name in names)
        raise click.UsageError(f"Of several protocols each has its port: {several}.")
    for name in names:
        if port is not None and own[name] is not None:
            raise click.UsageError(
                f"--port and --{name}-port mean the same for a single protocol; give only one."
            )
    return {
        name: next(one for one in (own[name], port, DEFAULT_PORTS[name]) if one is not None) for name in names
    }


def _credentials(users: str | None, user: str | None, password_env: str | None) -> Credentials | None:
    """The users with access; None if none were named."""
    if users is not None:
        return Credentials.from_file(users)
    if password_env is None:
        return None if user is None else Credentials(user)
    password = os.environ.get(password_env, "")
    if not password:
        raise click.UsageError(f"The environment variable {password_env} is not set, or empty.")
    return Credentials(user or DEFAULT_USER, password)


@dataclass(frozen=True)
class ServeOptions:
    """The common options of all servers of one call; for HTTP alone `read_only`, `origins`, `host_names` and `dialects`, for
    MongoDB `socket`, `fail_points` and `sweep_s`. None: the servers' defaults."""

    host: str
    ports: dict[str, int]
    credentials: Credentials | None
    limits: Limits
    tls: ssl.SSLContext | None
    read_only: bool
    origins: tuple[str, ...] | None
    host_names: tuple[str, ...] | None
    dialects: tuple[str, ...]
    socket: str | None
    fail_points: bool
    sweep_s: float | None


async def _serve(file: str, options: ServeOptions, durability: Any) -> None:
    # A missing file is created, as RethinkDB's server creates its folder.
    with connect(file, durability=durability) as database:
        async with contextlib.AsyncExitStack() as stack:
            workers = Workers(options.limits.queries)
            stack.callback(workers.close)
            for line in [await start(stack, database, options, workers) for start in _starts(options)]:
                click.echo(f"serving {file} to {line}")
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(NotImplementedError):
                    # On Windows a loop has no signal handlers; there Ctrl-C raises KeyboardInterrupt.
                    loop.add_signal_handler(number, stopped.set)
            await stopped.wait()
    click.echo("stopped")


Start = Callable[[contextlib.AsyncExitStack, Database, ServeOptions, Workers], Awaitable[str]]


def _starts(options: ServeOptions) -> list[Start]:
    known: dict[str, Start] = {"rethinkdb": _start_rethinkdb, "http": _start_http, "mongodb": _start_mongodb}
    return [known[name] for name in options.ports]


async def _start_rethinkdb(
    stack: contextlib.AsyncExitStack, database: Database, options: ServeOptions, workers: Workers
) -> str:
    server = await stack.enter_async_context(
        RethinkDBServer(
            database,
            host=options.host,
            port=options.ports["rethinkdb"],
            credentials=options.credentials,
            limits=options.limits,
            tls=options.tls,
            workers=workers,
        )
    )
    over = "" if options.tls is None else " over TLS"
    return f"RethinkDB drivers{over} on {server.host}:{server.port}"


async def _start_http(
    stack: contextlib.AsyncExitStack, database: Database, options: ServeOptions, workers: Workers
) -> str:
    from reactdb.servers.http import HTTPLimits, HTTPServer

    limits = options.limits
    server = await stack.enter_async_context(
        HTTPServer(
            database,
            host=options.host,
            port=options.ports["http"],
            dialects=options.dialects,
            credentials=options.credentials,
            origins=options.origins,
            hosts=options.host_names,
            read_only=options.read_only,
            limits=HTTPLimits(
                head_s=limits.handshake_s,
                body_bytes=limits.message_bytes,
                feeds=limits.streams,
                request_s=limits.query_s or 86_400.0,
                memory_bytes=limits.query_bytes,
            ),
            connections=limits.connections,
            strangers=limits.strangers,
            tls=options.tls,
            workers=workers,
        )
    )
    scheme = "http" if options.tls is None else "https"
    host = f"[{server.host}]" if ":" in server.host else server.host
    names = {"couchdb": "CouchDB clients", "aidbox": "Aidbox clients"}
    at = {name: "" if len(options.dialects) == 1 else f"{name}/" for name in options.dialects}
    return ", ".join(f"{names[name]} on {scheme}://{host}:{server.port}/{path}" for name, path in at.items())


async def _start_mongodb(
    stack: contextlib.AsyncExitStack, database: Database, options: ServeOptions, workers: Workers
) -> str:
    from reactdb.servers.mongodb import MongoDBServer

    server = await stack.enter_async_context(
        MongoDBServer(
            database,
            host=options.host,
            port=options.ports["mongodb"],
            path=options.socket,
            credentials=options.credentials,
            limits=options.limits,
            tls=options.tls,
            workers=workers,
            for_testing=options.fail_points,
            sweep_s=options.sweep_s,
        )
    )
    over = "" if options.tls is None else " over TLS"
    return f"MongoDB drivers{over} on {server.uri}"
