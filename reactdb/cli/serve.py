"""`reactdb serve`: a database file behind another database's wire protocol."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
from typing import Any

import click

from reactdb.cli.files import file_argument
from reactdb.database import connect
from reactdb.servers.rethinkdb import Credentials, Limits, RethinkDBServer

LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))


@click.command()
@file_argument
@click.option("--rethinkdb", is_flag=True, help="Speak RethinkDB's protocol, for its official drivers.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=28_015,
    show_default=True,
    help="Port; 0 takes any free one.",
)
@click.option("--user", default="admin", show_default=True, help="Who may connect.")
@click.option(
    "--password-env",
    metavar="NAME",
    help="Name of the environment variable that holds the password. Without it there is none.",
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
    type=click.FloatRange(0, 86_400, min_open=True),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="For a handshake; a request that has begun to come may take three times as long.",
)
@click.option(
    "--query-timeout",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For one query, or one batch of a stream; 0 for none. A feed may wait for ever.",
)
def serve(
    file: str,
    rethinkdb: bool,
    host: str,
    port: int,
    user: str,
    password_env: str | None,
    durability: str,
    max_connections: int,
    max_message: int,
    max_streams: int,
    timeout: float,
    query_timeout: float,
) -> None:
    """Let other databases' clients use a file."""
    if not rethinkdb:
        raise click.UsageError("Say which protocol to speak: --rethinkdb.")
    password = ""
    if password_env is not None:
        password = os.environ.get(password_env, "")
        if not password:
            raise click.UsageError(f"The environment variable {password_env} is not set, or empty.")
    if host not in LOOPBACK and not password:
        raise click.UsageError(
            f"Listening on {host} lets others in: set a password with --password-env, or listen on 127.0.0.1."
        )
    with contextlib.suppress(KeyboardInterrupt):
        limits = Limits(
            message_bytes=max_message,
            connections=max_connections,
            handshake_s=timeout,
            message_s=3 * timeout,
            streams=max_streams,
            query_s=query_timeout,
        )
        # Python's default is 5 ms, so an answer that takes five switches waited 25 ms for each thread that computes. This process
        # is the server's own, so it may change the interval; a server inside another program does not.
        sys.setswitchinterval(0.0005)
        try:
            asyncio.run(_serve(file, host, port, Credentials(user, password), limits, durability))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise click.ClickException(
                f"port {port} on {host} is in use; choose another with --port"
            ) from error


async def _serve(
    file: str, host: str, port: int, credentials: Credentials, limits: Limits, durability: Any
) -> None:
    # A missing file is created, as RethinkDB's server creates its folder.
    with connect(file, durability=durability) as database:
        async with RethinkDBServer(
            database, host=host, port=port, credentials=credentials, limits=limits
        ) as server:
            click.echo(f"serving {file} to RethinkDB drivers on {server.host}:{server.port}")
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(NotImplementedError):
                    # On Windows a loop has no signal handlers; there Ctrl-C raises KeyboardInterrupt.
                    loop.add_signal_handler(number, stopped.set)
            await stopped.wait()
    click.echo("stopped")
