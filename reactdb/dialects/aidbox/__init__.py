"""Aidbox's Changes API, and enough of its resources to feed it, on a reactdb file.

    aidbox                   the resource types of a file: `aidbox(db)`
    changes                  `$changes`: the changes since a version
    resources                one resource: read, made, replaced, patched, deleted
    search, bundles          many resources: found by dot expressions; written in one commit
    parameters               the parameters of a request
    dot_expressions, patch, fhir, names
                             conditions, patches, FHIR's format, and the form of documents
    errors                   the errors of the dialect

There are no sockets and no threads here; `reactdb.servers.http` adds them.
"""

from __future__ import annotations

from reactdb.dialects.aidbox.aidbox import Aidbox, ResourceType, aidbox
from reactdb.dialects.aidbox.errors import AidboxError

__all__ = ["Aidbox", "AidboxError", "ResourceType", "aidbox"]
