"""View graph: the sources of a view, and the depth of nested views.

    check_views(spaces, stands_on(view, below, pipeline), made=view)

The sources of a view are its collection or view, and the collections that its pipeline reads. The stages themselves list them
when the pipeline is compiled, so there is only one reader of pipelines.

Rule of this file: it reads the records of views, and no document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import MongoNamespace, namespace_of
from reactdb.dialects.mongodb.namespaces import Namespaces
from reactdb.dialects.mongodb.stages import Pipeline, Setting

__all__ = ["MOST_VIEWS", "check_views", "dependencies", "too_deep"]

MOST_VIEWS: Final = 20
"""The greatest depth of nested views."""


def dependencies(
    view: MongoNamespace, below: MongoNamespace, pipeline: Sequence[Mapping[str, Any]]
) -> set[MongoNamespace]:
    """The sources of a view: the collection or view below it (`below`), and the others that it reads.

    Raises:
        MongoError: The pipeline is invalid.
    """
    setting = Setting(namespace=str(view), variables={"NOW": None})
    Pipeline(pipeline, setting)
    return {below, *map(namespace_of, setting.reads)}


def check_views(
    spaces: Namespaces, below: Iterable[MongoNamespace], made: MongoNamespace | None = None
) -> None:
    """Check that views have a limited depth and no circle.

    Args:
        below: The sources of the read, or of a new view.
        made: The new view.

    Raises:
        MongoError: 5, it would be its own source; 165, the views are nested too deeply, as in a circle.
    """
    # Each view is visited once: the paths through views with several sources are many more than the views.
    heights: dict[MongoNamespace, int] = {}

    def height(namespace: MongoNamespace, above: int) -> int:
        """The depth of nested views from here down. `above`: the number of views on the path to this one."""
        if namespace == made:
            raise MongoError(5, f"View cycle detected: {made} reads itself")
        if namespace not in heights:
            view = spaces.view(namespace)
            if view is not None and above == MOST_VIEWS:
                raise too_deep()
            heights[namespace] = (
                0
                if view is None
                else 1 + max(height(one, above + 1) for one in dependencies(namespace, *view))
            )
        if above + heights[namespace] > MOST_VIEWS:
            raise too_deep()
        return heights[namespace]

    for one in below:
        height(one, 0 if made is None else 1)


def too_deep() -> MongoError:
    """The error for views that are nested too deeply."""
    return MongoError(165, f"View depth too deep or view cycle detected. Max depth is {MOST_VIEWS}")
