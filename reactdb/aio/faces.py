"""Face: an object whose calls are awaited, over an object of the synchronous library.

A face has the names of the other object. A method in one of the tables below reads or writes, and is awaited. Every other
method only makes something, such as another selection, and is called at once. If a new method of `Database` or `Selection`
reads or writes, add its name to a table; nothing else is needed.

Rule of this file: arguments are passed on, and the synchronous method checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial, wraps
from typing import Any, ClassVar, Final

from reactdb.aio.work import Work
from reactdb.table import Selection, query_of

__all__ = ["AwaitedValue", "Face"]

READS: Final = {
    *(
        "activity",
        "at",
        "attachment",
        "changes_to_arrow",
        "consumers",
        "copy",
        "exists",
        "explain",
        "first",
        "history",
        "index_list",
        "index_wait",
        "one",
    ),
    *("run", "seq_at", "stats", "subscriptions", "table_list", "to_arrow", "to_pandas", "to_polars"),
}
WRITES: Final = {
    *(
        "backup",
        "compact",
        "delete",
        "hold",
        "index_create",
        "index_drop",
        "insert",
        "insert_many",
        "migrate",
        "replace",
    ),
    *("set_expiry", "set_retention", "table_create", "table_drop", "table_rename", "update", "upsert"),
}
READ_PROPERTIES: Final = {"primary_key", "seq", "token", "user_version"}
QUICK: Final = {"exists", "first", "one", "run"}
"""Reads of a selection's documents, which may be few."""


class AwaitedValue:
    """A value that is read when it is awaited: `await adb.seq`."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read

    def __await__(self) -> Generator[Any, None, Any]:
        return self._read().__await__()  # type: ignore[no-any-return]


class Face:
    """See the head of this file. `_other`: the synchronous object; `_work`: where its calls are made."""

    __slots__ = ("_other", "_work")

    # The names that only the synchronous object has, because the methods of their results wait.
    elsewhere: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, other: Any, work: Work) -> None:
        self._other = other
        self._work = work

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
        other, work = self._other, self._work
        if name in self.elsewhere:
            raise AttributeError(
                f"{name} exists only on the synchronous handle, and waits: call it in a thread, as in "
                f"`await asyncio.to_thread(adb.sync.{name}, ...)`",
                name=name,
                obj=self,
            )
        if name in READ_PROPERTIES and hasattr(type(other), name):
            return AwaitedValue(partial(work.read, partial(getattr, other, name)))
        # For a name that is not there, this raises the sentence of the synchronous object.
        method = getattr(other, name)
        if not callable(method):
            return method
        if name in READS or name in WRITES:

            @wraps(method)
            async def act(*arguments: Any, **options: Any) -> Any:
                call = partial(method, *uncover_all(arguments), **uncover_dict(options))
                if name in WRITES:
                    return self._cover(await work.write(call, name))
                query = query_of(other) if name in QUICK and isinstance(other, Selection) else None
                return self._cover(await work.read(call, query))

            return act

        @wraps(method)
        def make(*arguments: Any, **options: Any) -> Any:
            return self._cover(method(*uncover_all(arguments), **uncover_dict(options)))

        return make

    def __dir__(self) -> list[str]:
        names = {name for name in dir(self._other) if not name.startswith("_")}
        return sorted({*object.__dir__(self), *names} - self.elsewhere)

    def _cover(self, result: Any) -> Any:
        """The result, with a face if it needs one."""
        return result


def uncover(argument: Any) -> Any:
    return argument._other if isinstance(argument, Face) else argument


def uncover_all(arguments: Iterable[Any]) -> list[Any]:
    return [uncover(argument) for argument in arguments]


def uncover_dict(options: dict[str, Any]) -> dict[str, Any]:
    return {name: uncover(value) for name, value in options.items()}
