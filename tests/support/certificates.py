"""Certificates that are made for a test, by the command `openssl`."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Certificate:
    """A certificate of 127.0.0.1 and localhost that is its own issuer, and its key, as files in PEM."""

    certificate: Path
    key: Path

    def client(self) -> ssl.SSLContext:
        """The context of a client that trusts it, and nobody else."""
        return ssl.create_default_context(cafile=self.certificate)


def make_certificate(folder: Path, name: str = "server", *, password: str | None = None) -> Certificate:
    """Skips the test where there is no `openssl`."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs the command openssl")
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    hidden = ["-nodes"] if password is None else ["-passout", f"pass:{password}"]
    subprocess.run(
        [
            *(program, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-keyout", str(made.key), "-out", str(made.certificate), "-days", "2", *hidden),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        ],
        check=True,
        capture_output=True,
    )
    return made
