"""View graph: what a view stands on, and how many views stand on each other.

    check_views(spaces, stands_on(view, below, pipeline), made=view)

A view stands on the collection, or view, that it is of, and on those that its pipeline reads beside. What these are is said by
the stages themselves when the pipeline is compiled, so that no second reader of pipelines can be of another opinion.

Rule of this file: it reads what is kept of views, and no document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace, namespace_of
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.stages import Pipeline, Setting

__all__ = ["MOST_VIEWS", "check_views", "stands_on", "too_deep"]

MOST_VIEWS: Final = 20
"""How many views may stand on each other."""


def stands_on(
    view: MongoNamespace, below: MongoNamespace, pipeline: Sequence[Mapping[str, Any]]
) -> set[MongoNamespace]:
    """The collections, and views, that a view is of (`below`) or reads beside.

    Raises:
        MongoError: The pipeline is none.
    """
    setting = Setting(namespace=str(view), variables={"NOW": None})
    Pipeline(pipeline, setting)
    return {below, *map(namespace_of, setting.reads)}


def check_views(
    spaces: Namespaces, below: Iterable[MongoNamespace], made: MongoNamespace | None = None
) -> None:
    """Look that views can be read to their end.

    Args:
        below: What is read, or what the view that is to be stands on.
        made: The view that is to be.

    Raises:
        MongoError: 5, it would stand on itself; 165, too many views stand on each other, as those of a circle do.
    """
    # Each is looked at once: the ways through views that read several others are many more than the views.
    heights: dict[MongoNamespace, int] = {}

    def height(namespace: MongoNamespace, above: int) -> int:
        """How many views stand on each other from here down. `above`: how many stand on this one, on the way here."""
        if namespace == made:
            raise MongoError(5, f"View cycle detected: {made} stands on itself")
        if namespace not in heights:
            view = spaces.view(namespace)
            if view is not None and above == MOST_VIEWS:
                raise too_deep()
            heights[namespace] = (
                0 if view is None else 1 + max(height(one, above + 1) for one in stands_on(namespace, *view))
            )
        if above + heights[namespace] > MOST_VIEWS:
            raise too_deep()
        return heights[namespace]

    for one in below:
        height(one, 0 if made is None else 1)


def too_deep() -> MongoError:
    """The error of views of which too many stand on each other."""
    return MongoError(165, f"View depth too deep or view cycle detected. Max depth is {MOST_VIEWS}")
