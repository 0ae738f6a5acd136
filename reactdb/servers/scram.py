"""Scram: the server's side of SCRAM-SHA-256, with which a client proves a password without sending it.

    client-first   n,,n=user,r=nonce
    server-first   r=nonce and more,s=salt,i=iterations
    client-final   c=biws,r=...,p=proof
    server-final   v=signature

The protocol wraps these texts. An unknown user gets the same exchange as a known user, and the same error at its end.

Rule of this file: text in, text out.

Source: RFC 5802 and RFC 7677.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from binascii import Error as Base64Error

from reactdb.servers.users import Credentials, hmac_sha256

__all__ = ["Scram", "ScramFailed", "WrongPassword"]


class ScramFailed(Exception):
    """The client broke the exchange; the text says how."""


class WrongPassword(ScramFailed):
    """The user or the password is wrong; the error does not say which."""


class Scram:
    """One client's exchange: `first` with its first message, then `last` with its last.

    Attributes:
        user: The client's name; it is proven once `last` has returned.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.user = ""

    def first(self, message: str) -> str:
        """The answer to the client's first message.

        Raises:
            ScramFailed.
        """
        if not message.startswith("n,,"):
            raise ScramFailed("Invalid encoding: channel binding is not supported.")
        self._client_first = message[3:]
        fields = read_fields(self._client_first)
        nonce = fields.get("r", "")
        if not nonce:
            raise ScramFailed("Invalid encoding: a nonce is missing.")
        self._user = self._credentials.find(fields.get("n", "").replace("=2C", ",").replace("=3D", "="))
        # Not the client's spelling: if `find` takes two spellings for one user, the user of the proven password counts.
        self.user = self._user.name
        self._nonce = nonce + b64encode(secrets.token_bytes(18)).decode()
        salt = b64encode(self._user.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._user.iterations}"
        return self._server_first

    def last(self, message: str) -> str:
        """The answer to the client's last message, with the server's own proof.

        Raises:
            ScramFailed; WrongPassword.
        """
        fields = read_fields(message)
        if not same_text(fields.get("r", ""), self._nonce) or fields.get("c") != "biws":
            raise ScramFailed("Invalid nonce from client")
        without_proof = message.rpartition(",p=")[0]
        signed = f"{self._client_first},{self._server_first},{without_proof}".encode("utf-8", "replace")
        stored_key = self._user.stored_key
        signature = hmac_sha256(stored_key, signed)
        try:
            proof = b64decode(fields.get("p", ""), validate=True)
        except (Base64Error, ValueError):
            raise ScramFailed("Invalid encoding: the proof is not base64.") from None
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=False))
        is_right = hmac.compare_digest(hashlib.sha256(client_key).digest(), stored_key)
        # Everything has been computed by now, for an unknown user too, and both get the same answer.
        if not (is_right and len(proof) == len(signature)):
            raise WrongPassword("Wrong password")
        return "v=" + b64encode(hmac_sha256(self._user.server_key, signed)).decode()


def same_text(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def read_fields(text: str) -> dict[str, str]:
    """`a=1,b=2` as a dict."""
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise ScramFailed("Invalid encoding")
        fields[name] = value
    return fields
