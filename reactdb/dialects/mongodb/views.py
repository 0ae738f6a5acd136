"""Views: `find`, `count` and `distinct` read a view like a collection, through an aggregation of its source.

    ViewingWork(spaces, MongoNamespace("shop", "cheap")).find({"filter": {"n": 1}})

Rule of this file: a view differs from a collection only in the source of its documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reactdb.dialects.mongodb.collation import SIMPLE
from reactdb.dialects.mongodb.collection import CollectionWork
from reactdb.dialects.mongodb.find import FilterSelection
from reactdb.dialects.mongodb.variables import SYSTEM_VARIABLES

__all__ = ["ViewingWork"]


class ViewingWork(CollectionWork):
    """The work on a collection, or on a read-only view. Any thread, except with a transaction."""

    def find(self, command: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """As for a collection. The projection of a view becomes a stage of its pipeline, so it can only have a stage's operators.

        Raises:
            MongoError: 31324, 31325, 28667 or 28724: it has other operators.
        """
        fields = command.get("projection")
        if fields and self.spaces.view(self.namespace) is not None:
            from reactdb.dialects.mongodb.projection import check_stage_projection

            check_stage_projection(fields)
        return super().find(command)

    def of_view(self, selection: FilterSelection, hint: Any) -> Iterator[dict[str, Any]] | None:
        """The matching documents of a view, in the view's order; None if the namespace is no view."""
        if self.spaces.view(self.namespace) is None:
            return None
        # Imported here because most collections are no views.
        from reactdb.dialects.mongodb.pipeline_result import aggregate

        return aggregate(
            self.spaces,
            self.namespace,
            [{"$match": selection.spec}],
            # They are values by now, and the system's own is made anew.
            variables={
                name: {"$literal": value}
                for name, value in (selection.variables or {}).items()
                if name not in SYSTEM_VARIABLES
            },
            collation=selection.collation or SIMPLE,
            transaction=self.transaction,
            hint=hint,
        )
