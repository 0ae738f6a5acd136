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

import hashlib
import hmac
import json
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any, Final

from reactdb.errors import InvalidOption

VERSION: Final = 0x34C2BDC3
# Older protocols, which drivers before 2.3 speak. They get the error as plain text.
OLD_VERSIONS: Final = frozenset((0x3F61BA36, 0x723081E1, 0x5F75E83E, 0x400C2D20))
SERVER_VERSION: Final = "2.4.4-reactdb"
MAX_MESSAGE_BYTES: Final = 8 * 1024
ITERATIONS: Final = 4096
"""RFC 7677's least. The password guards a loopback port; more would only slow connecting down."""

WRONG_PASSWORD: Final = 12
MAX_PASSWORD_CHARACTERS: Final = 1_024
BAD_MESSAGE: Final = 3
UNSUPPORTED: Final = 1


class HandshakeFailed(Exception):
    """The connection is over; `answer` is to be sent first."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.answer = message_bytes({"success": False, "error": message, "error_code": code})


class Credentials:
    """A user's name, and what SCRAM keeps instead of the password, which is kept nowhere.

    Raises:
        InvalidOption: A name or a password that is no text, or one that UTF-8 cannot carry.
    """

    def __init__(self, user: str = "admin", password: str = "") -> None:
        for name, text in (("user", user), ("password", password)):
            # The message does not repeat it: it may be a password.
            if not isinstance(text, str) or len(text) > MAX_PASSWORD_CHARACTERS or not is_utf8(text):
                raise InvalidOption(f"{name} is a text of at most {MAX_PASSWORD_CHARACTERS:,} characters")
        self.user = user
        self.salt = secrets.token_bytes(18)
        self._secret = secrets.token_bytes(32)
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), self.salt, ITERATIONS)
        client_key = _hmac(salted, b"Client Key")
        self.stored_key = hashlib.sha256(client_key).digest()
        self.server_key = _hmac(salted, b"Server Key")

    def is_user(self, name: str) -> bool:
        return hmac.compare_digest(name.encode("utf-8", "replace"), self.user.encode())

    def salt_of(self, name: str) -> bytes:
        """The salt that the name is told. A stranger's is made up, and the same whenever he asks: so it does not give away that
        there is no such user, and neither does the time that it takes."""
        made_up = _hmac(self._secret, name.encode("utf-8", "replace"))[: len(self.salt)]
        return self.salt if self.is_user(name) else made_up


def is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Handshake:
    """One connection's handshake: `receive` what comes, send what it gives, until `is_done`."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._state = self._version
        self._client_first = ""
        self._server_first = ""
        self._nonce = ""
        self._is_known = False
        self._buffer = b""
        self.is_done = False

    def receive(self, data: bytes) -> bytes:
        """What to send for what came. What comes after the last message is in `rest`.

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
        if not self.is_done and len(self._buffer) > MAX_MESSAGE_BYTES:
            raise HandshakeFailed("The handshake message is too long.", BAD_MESSAGE)
        return answer

    @property
    def rest(self) -> bytes:
        """Bytes that came after the handshake."""
        return self._buffer

    def _message(self) -> dict[str, Any] | None:
        text, end, rest = self._buffer.partition(b"\0")
        if not end:
            return None
        self._buffer = rest
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise HandshakeFailed("The handshake message is not JSON.", BAD_MESSAGE) from None
        if not isinstance(found, dict):
            raise HandshakeFailed("The handshake message is not an object.", BAD_MESSAGE)
        return found

    def _version(self) -> bytes | None:
        if len(self._buffer) < 4:
            return None
        number = int.from_bytes(self._buffer[:4], "little")
        if number in OLD_VERSIONS:
            raise HandshakeFailed(
                "Only protocol V1_0 is spoken here: use a driver of RethinkDB 2.3 or later.", UNSUPPORTED
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
        text = message.get("authentication")
        if not isinstance(text, str) or not text.startswith("n,,"):
            raise HandshakeFailed("Invalid encoding: channel binding is not supported.", BAD_MESSAGE)
        self._client_first = text[3:]
        fields = read_fields(self._client_first)
        user, nonce = fields.get("n", ""), fields.get("r", "")
        if not nonce:
            raise HandshakeFailed("Invalid encoding: a nonce is missing.", BAD_MESSAGE)
        name = user.replace("=2C", ",").replace("=3D", "=")
        self._is_known = self._credentials.is_user(name)
        self._nonce = nonce + b64encode(secrets.token_bytes(18)).decode()
        salt = b64encode(self._credentials.salt_of(name)).decode()
        self._server_first = f"r={self._nonce},s={salt},i={ITERATIONS}"
        self._state = self._last
        return message_bytes({"success": True, "authentication": self._server_first})

    def _last(self) -> bytes | None:
        message = self._message()
        if message is None:
            return None
        text = message.get("authentication")
        if not isinstance(text, str):
            raise HandshakeFailed("Invalid encoding: the proof is missing.", BAD_MESSAGE)
        fields = read_fields(text)
        if not same_text(fields.get("r", ""), self._nonce) or fields.get("c") != "biws":
            raise HandshakeFailed("Invalid nonce from client", BAD_MESSAGE)
        without_proof = text.rpartition(",p=")[0]
        signed = f"{self._client_first},{self._server_first},{without_proof}".encode("utf-8", "replace")
        signature = _hmac(self._credentials.stored_key, signed)
        try:
            proof = b64decode(fields.get("p", ""), validate=True)
        except (Base64Error, ValueError):
            raise HandshakeFailed("Invalid encoding: the proof is not base64.", BAD_MESSAGE) from None
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=False))
        is_right = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._credentials.stored_key)
        # Everything has been computed by now, for an unknown user too, and both get the same answer.
        if not (is_right and self._is_known and len(proof) == len(signature)):
            raise HandshakeFailed("Wrong password", WRONG_PASSWORD)
        self.is_done = True
        verifier = b64encode(_hmac(self._credentials.server_key, signed)).decode()
        return message_bytes({"success": True, "authentication": f"v={verifier}"})


def same_text(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def read_fields(text: str) -> dict[str, str]:
    """`a=1,b=2` as a dict."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise HandshakeFailed("Invalid encoding", BAD_MESSAGE)
        found[name] = value
    return found


def message_bytes(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\0"


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()
