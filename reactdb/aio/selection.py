"""AsyncSelection: a selection, or a table, whose reads and writes are awaited.

    await games.insert({"id": 1, "score": 12})
    best = await games.order_by(desc("score")).limit(3).run()
    async for game in games.filter(row["score"] > 10): ...
    async for change in games.changes(): ...

Rule of this file: it has the special methods of Python, such as `async for`. All other methods come from `faces`.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from reactdb.aio.faces import Face
from reactdb.errors import NotAValue, UsageError
from reactdb.feeds.feed import Feed
from reactdb.table import Selection, query_of

# Documents of a loop after which the other tasks have a turn.
DOCUMENTS_WITHOUT_PAUSE = 1_000


class AsyncSelection(Face):
    """A selection of an AsyncDatabase. It has the methods of `Selection` and `Table`. Methods that read or write, such as `run`,
    `insert`, `update` and `explain`, are awaited, and the others return selections of this kind.
    """

    __slots__ = ()

    def _cover(self, result: Any) -> Any:
        return AsyncSelection(result, self._work) if isinstance(result, Selection) else result

    def changes(self, **options: Any) -> Feed:
        """A feed, for `async for`: see `Selection.changes`.

        Raises:
            UsageError: The selection belongs to a transaction. Feeds deliver commits only.
        """
        return self._work.open_feed(self._other, options)

    def live(self, *, scheduler: Any = None, skip_origin: str | None = None, wait: bool = False) -> Any:
        """A live result, which a thread reads: it is loading at first, and `await selection.live()` returns it when it has the
        answer. The options are those of `Selection.live`, where `wait=True` lets the loop wait.

        Raises:
            UsageError: The selection belongs to a transaction.
        """
        return self._other.live(scheduler=scheduler, skip_origin=skip_origin, wait=wait)

    async def __aiter__(self) -> AsyncIterator[Any]:
        """The documents, of one state: a long loop does not see later writes.

        Raises:
            UsageError: It is one document or one value.
        """
        selection = self._other
        documents = await self._work.read(lambda: list(selection), query_of(selection))
        for count, document in enumerate(documents, 1):
            yield document
            if count % DOCUMENTS_WITHOUT_PAUSE == 0:
                await sleep(0)

    def __getitem__(self, place: Any) -> Any:
        return self._cover(self._other[place])

    def __repr__(self) -> str:
        return f"<AsyncSelection of {self._other!r}>"

    def __iter__(self) -> NoReturn:
        raise UsageError("a selection of an AsyncDatabase is read by `async for`, or `await selection.run()`")

    def __await__(self) -> NoReturn:
        raise UsageError("a selection is read by its methods: `await selection.run()`")

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> NoReturn:
        raise NotAValue("a selection is a query and no result: compare the result of `await selection.run()`")

    __ne__ = __eq__

    def __bool__(self) -> NoReturn:
        raise NotAValue("a selection is a query and no result: test the result of `await selection.run()`")

    def __len__(self) -> NoReturn:
        raise NotAValue("a selection is a query and has no length: use `await selection.count().run()`")

    def __contains__(self, value: object) -> NoReturn:
        raise NotAValue("a selection is a query and no result: look in the result of `await selection.run()`")
