"""Fragments: an event of more than 16 MB in parts, each with some of its fields, for `$changeStreamSplitLargeEvent`.

Rule of this file: the same event is split in the same way whenever it is read.
"""

from __future__ import annotations

from typing import Any

import bson

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.tokens import Token

Document = dict[str, Any]


def fragments(event: Document, token: Token, most_bytes: int) -> list[Document]:
    """The parts of an event, each with at most `most_bytes`; a smaller event is returned whole.

    Raises:
        MongoError: 10334, a single field has more bytes.
    """
    if len(bson.encode(event)) <= most_bytes:
        return [event]
    # The additional bytes of each part.
    frame = len(bson.encode({"_id": event["_id"], "splitEvent": {"fragment": 1, "of": 1}}))
    parts: list[Document] = []
    left = 0
    for name, value in event.items():
        if name == "_id":
            continue
        size = len(bson.encode({name: value})) - 5
        if frame + size > most_bytes:
            raise MongoError(
                10334,
                f"the field {name} of an event has {size} bytes, and a part of an event at most {most_bytes}",
            )
        if not parts or size > left:
            parts.append({})
            left = most_bytes - frame
        parts[-1][name] = value
        left -= size
    return [
        {
            "_id": token._replace(fragment=number).document(),
            "splitEvent": {"fragment": number, "of": len(parts)},
            **part,
        }
        for number, part in enumerate(parts, 1)
    ]
