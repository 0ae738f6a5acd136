"""Converting: a collection is made a capped one, as `convertToCapped` does.

It becomes another collection: its newest documents are inserted into a capped one, which then takes its name. So streams of the
collection are told of that, its indexes are gone but for that of `_id`, and its documents lie in the order that they had without
a sort.

Rule of this file: it is one commit. What does not fit is deleted with the collection before.
"""

from __future__ import annotations

from collections import deque
from typing import Any
from uuid import uuid4

from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.options import creation_options
from reactdb.dialects.mongodb.reading import FilterSelection
from reactdb.dialects.mongodb.values import encode

__all__ = ["convert"]


def convert(spaces: Namespaces, namespace: MongoNamespace, size: float) -> None:
    """Make a collection capped.

    Args:
        size: Its bytes of BSON.

    Raises:
        MongoError: 26, there is none; 166, it is a view; and as for `create`.
    """
    with spaces.session.transaction():
        before = spaces.find(namespace)
        if before is None:
            raise MongoError(26, f"source collection {namespace} does not exist")
        if before.record.is_view:
            raise MongoError(166, f"cannot make the view {namespace} a capped collection")
        options = creation_options({**before.options, "capped": True, "size": size, "max": None})
        own = MongoNamespace(namespace.db, f"tmp.convertToCapped.{uuid4()}")
        newest: deque[tuple[dict[str, Any], int]] = deque()
        total = 0
        for document in CollectionWork(spaces, namespace).matching(FilterSelection({})):
            newest.append((document, len(encode(document))))
            total += newest[-1][1]
            while total > options["size"]:
                total -= newest.popleft()[1]
        spaces.create(own, options)
        if newest:
            # They are there already: nothing in them is new.
            work = CollectionWork(spaces, own, bypasses=True, keeps_empty=True)
            answer = work.insert([document for document, _ in newest])
            for error in answer.get("writeErrors", ()):
                raise MongoError(error["code"], error["errmsg"])
        spaces.rename(own, namespace, drop_target=True)
