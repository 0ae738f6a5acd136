"""FlushedFileIO: the files that pyiceberg writes, flushed to the disk when they are closed.

pyiceberg leaves flushing to the system, and its catalogue, an SQLite file, flushes its own commits. So a power cut could leave a
catalogue that names a metadata file without content, and the table would be lost. With this class, every file that a commit names
is on the disk before the catalogue names it.

Rule of this file: pyiceberg imports it by its name. It writes local files only.
"""

from __future__ import annotations

import io
import os
from typing import Any, Final

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from reactdb.lake.parts import flush

__all__ = ["NAME", "FlushedFileIO"]

NAME: Final = f"{__name__}.FlushedFileIO"
"""The value of the property `py-io-impl` of a catalogue."""


class FlushedFileIO(PyArrowFileIO):
    """See the head of this file."""

    def new_output(self, location: str) -> FlushedFile:
        _, _, path = self.parse_location(location, self.properties)
        return FlushedFile(location, path, self.fs_by_scheme("file", None))


class FlushedFile(PyArrowFile):
    """A file whose stream flushes."""

    def create(self, overwrite: bool = False) -> Any:
        """A stream for writing.

        Raises:
            FileExistsError: There is such a file, and it is not to be overwritten.
        """
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        return FlushedWriter(self._path, "w" if overwrite else "x")


class FlushedWriter(io.BufferedWriter):
    """Its `close` returns when the content, and the names of the file and its folder, are on the disk."""

    def __init__(self, path: str, mode: str) -> None:
        self._path = path
        super().__init__(io.FileIO(path, mode))

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
        finally:
            super().close()
        folder = os.path.dirname(self._path)
        flush(folder)
        flush(os.path.dirname(folder))
