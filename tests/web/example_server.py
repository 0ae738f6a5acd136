"""The server of an example in a process, as a reader of its README starts it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.support.processes import ROOT

PATIENCE_S = 30.0


class ExampleServer:
    """The example's process, which can be killed and started again at the same port."""

    def __init__(self, program: Path, folder: Path, *arguments: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._program, self._folder, self._arguments = program, folder, arguments
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(self._program), "todos.db", str(self.port), *self._arguments],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                httpx.get(self.url, verify=False)
                return
            except httpx.TransportError:
                assert self.process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.02)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def add(self, text: str) -> None:
        """Over the route that a page would use."""
        assert httpx.post(f"{self.url}/todos", json={"text": text}, verify=False).is_success

    def forget_file(self) -> None:
        """Remove its file; it makes another one when it starts."""
        for file in self._folder.glob("todos.db*"):
            file.unlink()
