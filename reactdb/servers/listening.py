"""Where a server listens: a socket, and what the system says against it in a sentence.

Rule of this file: sockets only; what is spoken there is others'.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from reactdb.errors import CannotListen

__all__ = ["listen", "told_where"]


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; `port` 0 takes any free one.

    Raises:
        CannotListen: The address is not this machine's, or the port is in use.
    """
    with told_where(host, port):
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        # asyncio sends at once (TCP_NODELAY) where the socket names its protocol, which one of `socket.create_server` does not:
        # then the second half of an answer waited 40 ms for the client to confirm the first.
        listening = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(1_024)
        except BaseException:
            listening.close()
            raise
        return listening


@contextmanager
def told_where(host: str, port: int) -> Iterator[None]:
    """What the system raises within the block, as CannotListen."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason, option = f"port {port} on {host} is in use", "port"
        elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
            reason, option = f"{host} is no address of this machine", "host"
        else:
            reason, option = f"port {port} on {host} cannot be listened on: {error.strerror or error}", None
        raise CannotListen(host, port, reason, option, error.errno) from error
