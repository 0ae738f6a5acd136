"""Blobs beside an export: a folder that has the blobs of the exported documents, each as a file whose name is its digest.

Rule of this file: a file with such a name is whole, and what it holds is compared with its name before a document refers to it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from typing import TypeVar

import click

from reactdb.blobs import Blobs
from reactdb.values.blob import Blob, blobs_of

T = TypeVar("T")


def written_beside(
    blobs: Blobs, found: Iterator[T], folder: str | None, counts: dict[str, int]
) -> Iterator[T]:
    """The same documents; the blobs of each are in the folder, and counted, before it is given. None: as they are."""
    if folder is None:
        yield from found
        return
    os.makedirs(folder, exist_ok=True)
    counts["blobs"] = 0
    for one in found:
        for blob in blobs_of(one) if isinstance(one, dict) else ():
            counts["blobs"] += write_blob(blobs, blob, folder)
        yield one


def write_blob(blobs: Blobs, blob: Blob, folder: str) -> bool:
    """Write a blob to its file. Whether there was none of its name."""
    path = os.path.join(folder, blob.digest)
    if os.path.exists(path):
        return False
    part = f"{path}.part"
    try:
        with blobs.open(blob) as source, open(part, "wb") as target:
            shutil.copyfileobj(source, target, 1024 * 1024)
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.unlink(part)
    return True


def put_from(blobs: Blobs, documents: Iterable[object], folder: str | None) -> None:
    """Put the blobs of documents that the database lacks, from their files. The write of a document misses what has no file.

    Raises:
        ClickException: A file is not what its name says.
    """
    found = [one for one in documents if isinstance(one, dict)] if folder is not None else []
    for blob in {blob for document in found for blob in blobs_of(document)}:
        path = os.path.join(folder or "", blob.digest)
        if blob in blobs or not os.path.exists(path):
            continue
        with open(path, "rb") as source:
            is_own = blobs.put(source) == blob
        if not is_own:
            raise click.ClickException(f"{path} is not what its name says: it was changed, or cut off")
