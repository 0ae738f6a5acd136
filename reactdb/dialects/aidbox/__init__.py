"""Aidbox's Changes API, and enough of its resources to feed it, on a reactdb file.

    aidbox                   the resource types of a file: `aidbox(db)`
    changes                  `$changes`: what has happened since a version
    resources                one resource: read, made, replaced, patched, deleted
    searching, bundles       many: found by dot expressions; written in one commit
    asked                    what a request's parameters ask for
    dotted, patching, fhir, spelling
                             conditions, patches, FHIR's format, and how documents are told
    errors                   how a refusal is told

There are no sockets and no threads here; `reactdb.servers.http` adds them.
"""

from __future__ import annotations

from reactdb.dialects.aidbox.aidbox import Aidbox, ResourceType, aidbox
from reactdb.dialects.aidbox.errors import AidboxError

__all__ = ["Aidbox", "AidboxError", "ResourceType", "aidbox"]
