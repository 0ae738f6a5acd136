"""The listening side of a server: who can reach an address, a socket, and the system's errors as sentences.

Rule of this file: addresses and sockets only, and no protocol.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from reactdb.errors import CannotListen, InvalidOption
from reactdb.servers.users import Credentials

__all__ = ["BACKLOG", "as_cannot_listen", "check_access", "check_path", "is_loopback", "listen"]

BACKLOG: Final = 1_024
"""Clients that wait in the system to be accepted. A further client would try again only after a second."""


def is_loopback(host: object) -> bool:
    """Whether only programs of this machine reach a server at this address or name."""
    if not isinstance(host, str):
        return False
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_access(host: str, credentials: Credentials | None, *, allow_anonymous: bool) -> None:
    """Check that a server does not give other machines access without credentials.

    Args:
        allow_anonymous: Whether this is intended.

    Raises:
        InvalidOption: It would.
    """
    has_users = credentials is not None and credentials.has_password
    if not (has_users or allow_anonymous or is_loopback(host)):
        raise InvalidOption(
            f"Listening on {host} gives other machines access: give credentials with a password, listen on 127.0.0.1, "
            "or allow everybody with allow_anonymous=True."
        )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `port` 0 takes any free port.

    Raises:
        CannotListen: The address is not this machine's, or the port is in use.
    """
    with as_cannot_listen(f"port {port} on {host}", host, port):
        addresses = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = addresses[0]
        # asyncio sends at once (TCP_NODELAY) if the socket names its protocol. A socket of `socket.create_server` does not: then
        # the second half of an answer waited 40 ms for the client to confirm the first.
        listening = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except BaseException:
            listening.close()
            raise
        return listening


def check_path(path: str) -> None:
    """Check that a Unix socket can be made at `path`. A socket file without a listening process may be replaced.

    asyncio would take the path from a server in use, and that server would then wait for clients in vain.

    Raises:
        CannotListen: There is a server, or another file, or no socket can be made there.
    """
    with as_cannot_listen(f"the socket {path}", path), socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            # It listens, and has more clients waiting than it can take at once.
            pass
        except ConnectionRefusedError:
            if not stat.S_ISSOCK(os.stat(path).st_mode):
                raise FileExistsError(errno.EEXIST, "it is a file") from None
            return
        except FileNotFoundError:
            probe.bind(path)
            os.unlink(path)
            return
        raise OSError(errno.EADDRINUSE, "a server listens there")


@contextmanager
def as_cannot_listen(place: str, host: str, port: int | None = None) -> Iterator[None]:
    """Turns the system's errors within the block into CannotListen.

    Args:
        place: The place in words.
        host: The address, or the path of a Unix socket, which has no `port`.
    """
    try:
        yield
    except OSError as error:
        reason, option = f"{place} cannot be listened on: {error.strerror or error}", None
        if error.errno == errno.EADDRINUSE:
            reason, option = f"{place} is in use", None if port is None else "port"
        elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
            reason, option = f"{host} is no address of this machine", "host"
        raise CannotListen(host, port or 0, reason, option, error.errno) from error
