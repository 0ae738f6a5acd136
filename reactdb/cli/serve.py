"""`reactdb serve`: a database file behind another database's wire protocol.

Rule of this file: options become limits, users and a certificate; whatever would let strangers in is refused with a sentence.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import ssl
import sys
from typing import Any

import click

from reactdb.cli.files import file_argument
from reactdb.database import connect
from reactdb.servers.rethinkdb import Credentials, Limits, RethinkDBServer
from reactdb.servers.tls import tls_context

LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))
DEFAULT_PORT = 28_015
DEFAULT_USER = "admin"


@click.command()
@file_argument
@click.option("--rethinkdb", is_flag=True, help="Speak RethinkDB's protocol, for its official drivers.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help=f"Port of the protocol, where there is one; 0 takes any free one.  [default: {DEFAULT_PORT}]",
)
@click.option("--rethinkdb-port", type=click.IntRange(0, 65_535), help="Port of RethinkDB's protocol.")
@click.option("--certificate", metavar="FILE", help="Certificate in PEM: speak TLS. Needs --key.")
@click.option("--key", metavar="FILE", help="The certificate's private key in PEM.")
@click.option("--users", metavar="FILE", help="Who may connect: a file of names and salted hashes.")
@click.option("--user", help=f"Who may connect, if it is only one.  [default: {DEFAULT_USER}]")
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
    host: str,
    port: int | None,
    rethinkdb_port: int | None,
    certificate: str | None,
    key: str | None,
    users: str | None,
    user: str | None,
    password_env: str | None,
    durability: str,
    max_connections: int,
    max_message: int,
    max_streams: int,
    timeout: float,
    query_timeout: float,
    query_memory: int,
) -> None:
    """Let other databases' clients use a file."""
    if not rethinkdb:
        raise click.UsageError("Say which protocol to speak: --rethinkdb.")
    if port is not None and rethinkdb_port is not None:
        raise click.UsageError(
            "--port and --rethinkdb-port say the same where one protocol is spoken; give one."
        )
    if (certificate is None) != (key is None):
        raise click.UsageError("TLS needs both --certificate and --key.")
    if users is not None and (user is not None or password_env is not None):
        raise click.UsageError(
            "--users names everybody who may connect; leave --user and --password-env out."
        )
    if host not in LOOPBACK and users is None and password_env is None:
        raise click.UsageError(
            f"Listening on {host} lets others in: set a password with --password-env or name --users, or listen on 127.0.0.1."
        )
    chosen = next((one for one in (rethinkdb_port, port) if one is not None), DEFAULT_PORT)
    with contextlib.suppress(KeyboardInterrupt):
        limits = Limits(
            message_bytes=max_message,
            connections=max_connections,
            handshake_s=timeout,
            message_s=3 * timeout,
            streams=max_streams,
            query_s=query_timeout,
            query_bytes=query_memory,
        )
        credentials = _credentials(users, user, password_env)
        tls = None if certificate is None or key is None else tls_context(certificate, key)
        # Python's default is 5 ms, so an answer that takes five switches waited 25 ms for each thread that computes. This process
        # is the server's own, so it may change the interval; a server inside another program does not.
        sys.setswitchinterval(0.0005)
        try:
            asyncio.run(_serve(file, host, chosen, credentials, limits, tls, durability))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                sentence = f"port {chosen} on {host} is in use; choose another with --port"
            elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
                sentence = f"{host} is no address of this machine; choose another with --host"
            else:
                raise
            raise click.ClickException(sentence) from error


def _credentials(users: str | None, user: str | None, password_env: str | None) -> Credentials:
    if users is not None:
        return Credentials.from_file(users)
    password = ""
    if password_env is not None:
        password = os.environ.get(password_env, "")
        if not password:
            raise click.UsageError(f"The environment variable {password_env} is not set, or empty.")
    return Credentials(user or DEFAULT_USER, password)


async def _serve(
    file: str,
    host: str,
    port: int,
    credentials: Credentials,
    limits: Limits,
    tls: ssl.SSLContext | None,
    durability: Any,
) -> None:
    # A missing file is created, as RethinkDB's server creates its folder.
    with connect(file, durability=durability) as database:
        async with RethinkDBServer(
            database, host=host, port=port, credentials=credentials, limits=limits, tls=tls
        ) as server:
            over = "" if tls is None else " over TLS"
            click.echo(f"serving {file} to RethinkDB drivers{over} on {server.host}:{server.port}")
            stopped = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(NotImplementedError):
                    # On Windows a loop has no signal handlers; there Ctrl-C raises KeyboardInterrupt.
                    loop.add_signal_handler(number, stopped.set)
            await stopped.wait()
    click.echo("stopped")
