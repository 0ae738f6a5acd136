"""TLS: a server's certificate and key, from files.

Rule of this file: any problem with a file is one sentence with the file's name.
"""

from __future__ import annotations

import os
import ssl
from typing import NoReturn

from reactdb.errors import InvalidOption

__all__ = ["tls_context"]


def tls_context(certificate: str | os.PathLike[str], key: str | os.PathLike[str]) -> ssl.SSLContext:
    """The context of a server with TLS 1.2 or newer.

    Args:
        certificate: A PEM file with the certificate, and behind it its issuers' certificates, if clients do not know them.
        key: A PEM file with the private key, not encrypted.

    Raises:
        InvalidOption: A file cannot be read, or is no such file, or the key is not the certificate's.
    """
    for name, path in (("certificate", certificate), ("key", key)):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise InvalidOption(f"the {name} {path} cannot be read: {error.strerror}") from None

    def encrypted() -> NoReturn:
        raise InvalidOption(f"the key {key} is encrypted; a server needs it decrypted")

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, encrypted)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise InvalidOption(f"the key {key} is not that of the certificate {certificate}") from None
        raise InvalidOption(
            f"the certificate {certificate} and the key {key} are not a certificate and a private key in PEM"
        ) from None
    return context
