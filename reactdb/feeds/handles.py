"""Handles: a program's handle of a subscription, a cursor or a reader. It ends when it is closed or unreferenced.

Rule of this file: nothing here takes an event.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import is_finalizing
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from reactdb.errors import UsageError
from reactdb.feeds.consumers import BaseConsumer, Flow

Consumer = TypeVar("Consumer", bound=BaseConsumer)


class Stays:
    """A handle that belongs to its process."""

    def __reduce__(self) -> Any:
        raise UsageError(
            "a feed belongs to its process and cannot be pickled or copied: pass the database's path and the feed's token, "
            "and open it where they arrive"
        )


class Listening(Stays, Generic[Consumer]):
    """A subscription that ends when it is forgotten."""

    def __init__(self, consumer: Consumer, flow: Flow) -> None:
        self._consumer = consumer
        self._flow = flow

    def close(self) -> None:
        """End it. Any thread; a second call does nothing. A thread that waits for an event of it continues at
        once."""
        self._consumer.close()
        self._consumer.settle()

    def drop(self) -> None:
        """The same, from a finalizer: it waits for nothing."""
        self._consumer.close()

    def __del__(self, _is_finalizing: Callable[[], bool] = is_finalizing) -> None:
        # When the program ends, there is no hub to unsubscribe from, and Python may have removed the names of this
        # module already. So the function is bound as a default.
        consumer = getattr(self, "_consumer", None)
        if consumer is not None and not _is_finalizing():
            consumer.close()


class ListeningInBlock(Listening[Consumer]):
    """It ends with its `with` block, too."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
