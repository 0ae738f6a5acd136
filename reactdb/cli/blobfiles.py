"""Blobs beside an export: a folder with the blobs of the exported documents, each as a file with its digest as the name.

Rule of this file: a file with such a name is complete, and its bytes are compared with its name before a document refers to it.
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


def write_blobs_beside(
    blobs: Blobs, documents: Iterator[T], folder: str | None, counts: dict[str, int]
) -> Iterator[T]:
    """The same documents; the blobs of each are in the folder, and counted, before it is given. None: as they are."""
    if folder is None:
        yield from documents
        return
    os.makedirs(folder, exist_ok=True)
    counts["blobs"] = 0
    for one in documents:
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
    """Store the blobs of documents that the database lacks, from their files; without a folder, nothing. A blob without a file is
    left to the write of its document, which will refuse it.

    Raises:
        ClickException: A file's bytes do not match its name.
    """
    if folder is None:
        return
    for blob in {blob for one in documents if isinstance(one, dict) for blob in blobs_of(one)}:
        path = os.path.join(folder, blob.digest)
        if blob in blobs or not os.path.exists(path):
            continue
        with open(path, "rb") as source:
            is_own = blobs.put(source) == blob
        if not is_own:
            raise click.ClickException(
                f"{path} does not match the digest in its name: it was changed, or cut off"
            )
