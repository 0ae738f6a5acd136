"""Viewing: views are read as collections are, by `find`, `count` and `distinct`; what they are of is aggregated for it.

    ViewingWork(spaces, MongoNamespace("shop", "cheap")).find({"filter": {"n": 1}})

Rule of this file: a view differs from a collection only in where its documents come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reactdb.dialects.mongodb.aggregating import aggregate
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.reading import FilterSelection

__all__ = ["ViewingWork"]


class ViewingWork(CollectionWork):
    """The work on a collection, or on a view, which is read alone. Any thread, unless it is given a transaction."""

    def matching(
        self, selection: FilterSelection, hint: Any = None, *, field: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """The documents that match, in the order in which the view has them."""
        if self.spaces.view(self.namespace) is None:
            return super().matching(selection, hint, field=field)
        return aggregate(
            self.spaces,
            self.namespace,
            [{"$match": selection.spec}],
            # They are values by now.
            variables={name: {"$literal": value} for name, value in (selection.variables or {}).items()},
            collation=selection.collation,
            transaction=self.transaction,
        )
