"""The handshake of protocol V1_0: it authenticates a client by SCRAM-SHA-256, message by message.

    client   4 bytes 0x34c2bdc3, then {"protocol_version": 0, "authentication_method": ..., "authentication": "n,,n=user,r=nonce"}
    server   {"success": true, "min_protocol_version": 0, "max_protocol_version": 0, "server_version": ...}
    server   {"success": true, "authentication": "r=...,s=salt,i=iterations"}
    client   {"authentication": "c=biws,r=...,p=proof"}
    server   {"success": true, "authentication": "v=signature"}

Every message is JSON and ends with a zero byte. A failure is sent as {"success": false, "error": ..., "error_code": ...}.

Rule of this file: bytes in, bytes out; no socket.

Source: RethinkDB, "Writing RethinkDB drivers"; RFC 5802 and RFC 7677.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from reactdb.servers.scram import Scram, ScramFailed, WrongPassword
from reactdb.servers.users import Credentials

VERSION: Final = 0x34C2BDC3
# Older protocols, of drivers before 2.3. Their clients get the error as plain text.
OLD_VERSIONS: Final = frozenset((0x3F61BA36, 0x723081E1, 0x5F75E83E, 0x400C2D20))
SERVER_VERSION: Final = "2.4.4-reactdb"
MAX_MESSAGE_BYTES: Final = 8 * 1024
WRONG_PASSWORD: Final = 12
BAD_MESSAGE: Final = 3
UNSUPPORTED: Final = 1


class HandshakeFailed(Exception):
    """The connection is over; `answer` is to be sent first."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.answer = message_bytes({"success": False, "error": message, "error_code": code})


class Handshake:
    """One connection's handshake: pass received bytes to `receive`, and send its result, until `is_done`."""

    def __init__(self, credentials: Credentials) -> None:
        self._scram = Scram(credentials)
        self._state = self._version
        self._buffer = b""
        self.is_done = False

    def receive(self, data: bytes) -> bytes:
        """The bytes to send. Bytes after the last message are in `rest`.

        Raises:
            HandshakeFailed.
        """
        self._buffer += data
        answer = b""
        while not self.is_done:
            step = self._state()
            if step is None:
                break
            answer += step
        return answer

    @property
    def user(self) -> str:
        """The client's user name."""
        return self._scram.user

    @property
    def rest(self) -> bytes:
        """Bytes after the handshake."""
        return self._buffer

    def _message(self) -> dict[str, Any] | None:
        text, end, rest = self._buffer.partition(b"\0")
        if len(text) > MAX_MESSAGE_BYTES:
            raise HandshakeFailed("The handshake message is too long.", BAD_MESSAGE)
        if not end:
            return None
        self._buffer = rest
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise HandshakeFailed("The handshake message is not JSON.", BAD_MESSAGE) from None
        if not isinstance(message, dict):
            raise HandshakeFailed("The handshake message is not an object.", BAD_MESSAGE)
        return message

    def _version(self) -> bytes | None:
        if len(self._buffer) < 4:
            return None
        number = int.from_bytes(self._buffer[:4], "little")
        if number in OLD_VERSIONS:
            raise HandshakeFailed(
                "Only protocol V1_0 is supported here: use a driver of RethinkDB 2.3 or later.", UNSUPPORTED
            )
        if number != VERSION:
            raise HandshakeFailed(
                "Received an unsupported protocol version. This port is for RethinkDB queries.", UNSUPPORTED
            )
        self._buffer = self._buffer[4:]
        self._state = self._first
        return message_bytes(
            {
                "success": True,
                "min_protocol_version": 0,
                "max_protocol_version": 0,
                "server_version": SERVER_VERSION,
            }
        )

    def _first(self) -> bytes | None:
        message = self._message()
        if message is None:
            return None
        if message.get("protocol_version") != 0:
            raise HandshakeFailed("Unsupported `protocol_version`.", UNSUPPORTED)
        if message.get("authentication_method") != "SCRAM-SHA-256":
            raise HandshakeFailed("Unsupported `authentication_method`.", UNSUPPORTED)
        answer = self._exchange(
            self._scram.first, message, "Invalid encoding: channel binding is not supported."
        )
        self._state = self._last
        return answer

    def _last(self) -> bytes | None:
        message = self._message()
        if message is None:
            return None
        answer = self._exchange(self._scram.last, message, "Invalid encoding: the proof is missing.")
        self.is_done = True
        return answer

    @staticmethod
    def _exchange(step: Callable[[str], str], message: dict[str, Any], missing: str) -> bytes:
        text = message.get("authentication")
        if not isinstance(text, str):
            raise HandshakeFailed(missing, BAD_MESSAGE)
        try:
            return message_bytes({"success": True, "authentication": step(text)})
        except WrongPassword as error:
            raise HandshakeFailed(str(error), WRONG_PASSWORD) from None
        except ScramFailed as error:
            raise HandshakeFailed(str(error), BAD_MESSAGE) from None


def message_bytes(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\0"
