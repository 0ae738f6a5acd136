"""Type variables for type checkers: `Table[Todo]`, `Selection[Todo]`, `Feed[ChangeEvent[Todo]]`.

A type checker takes `TypeVar` with defaults from typing_extensions, which it knows without an installed package. At
run time there are no defaults: `typing` has none before Python 3.13, and would refuse `Selection[Todo]` because of its second
variable.
"""

from __future__ import annotations

from types import GenericAlias
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Generic as Generic

    from typing_extensions import TypeVar

    Document = TypeVar("Document", default=dict[str, Any])
    """The documents of a table. Without a type, they are dicts."""
    Result = TypeVar("Result", default=list[Document])
    """The result of `run()`: a list of the documents, where nothing else is said."""
    Event = TypeVar("Event", default=Any)
    """The events of a feed."""
    Recorded = TypeVar("Recorded", default=Any)
    """The documents of an entry of the log."""
else:
    from typing import TypeVar

    class Generic:
        """A base for classes that can be subscripted, with any number of types."""

        __slots__ = ()

        __class_getitem__ = classmethod(GenericAlias)

    Document = TypeVar("Document")
    Result = TypeVar("Result")
    Event = TypeVar("Event")
    Recorded = TypeVar("Recorded")
