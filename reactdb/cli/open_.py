"""`reactdb open`: a page in the browser that shows a file at work.

The page is served on the loopback. Its address has a token, and whoever has the token can read the file, so it is printed for the
user and given to no log. The browser gets another token, which works once: its command line can be seen by other users.

Rule of this file: it opens the file, prints the address, and waits for a signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import threading
import webbrowser
from importlib import import_module

import click

from reactdb.cli.files import file_argument, open_database
from reactdb.cli.terminal import safe
from reactdb.database import Database
from reactdb.servers.sockets import is_loopback


def check_host(context: click.Context, parameter: click.Parameter, host: str) -> str:
    if not is_loopback(host):
        raise click.BadParameter(
            f"{host} is no address of this machine alone. To show the page to others, mount "
            "reactdb.servers.http.inspector(db) in a program that asks for a login.",
            context,
            parameter,
        )
    return host


@click.command("open")
@file_argument
@click.option("--write", is_flag=True, help="Let the page insert, edit, delete and undo.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, help="Port to listen on.  [default: any free one]"
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    callback=check_host,
    help="Address to listen on: of this machine.",
)
@click.option("--no-browser", is_flag=True, help="Only print the address.")
def open_(file: str, write: bool, port: int, host: str, no_browser: bool) -> None:
    """See a file at work, in the browser.

    A page with the tables, their documents, the changes while they happen, the open feeds, and every moment of the past. It reads
    only, unless --write is given. The address is for this machine, and has a token: who has it can read the file. Ctrl-C ends it.

    In Python: reactdb.servers.http.inspector(db), an ASGI application
    """
    import_module("reactdb.servers.http")
    with open_database(file, write=write) as database:
        asyncio.run(_serve(database, write=write, host=host, port=port, has_browser=not no_browser))


async def _serve(database: Database, *, write: bool, host: str, port: int, has_browser: bool) -> None:
    # Imported here because they need the extra `server`.
    from reactdb.servers.inspector.server import InspectorServer

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            # On Windows a loop has no signal handlers; there Ctrl-C raises KeyboardInterrupt.
            loop.add_signal_handler(number, stopped.set)
    token = secrets.token_urlsafe(24)
    async with InspectorServer(database, token=token, write=write, host=host, port=port) as server:
        click.echo(f"{server.url}?token={token}")
        can = "which it may edit" if write else "which it only reads"
        click.echo(f"the page above shows {safe(database.path)}, {can}; Ctrl-C ends it", err=True)
        if has_browser:
            address = f"{server.url}?token={server.make_one_time_token()}"
            # A browser in the terminal does not return before it ends.
            threading.Thread(
                target=open_browser, args=(address,), name="reactdb: browser", daemon=True
            ).start()
        await stopped.wait()


def open_browser(address: str) -> None:
    """Open the browser of the system. Without one the printed address is enough."""
    with contextlib.suppress(webbrowser.Error, OSError):
        webbrowser.open(address)
