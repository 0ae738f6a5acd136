"""What a subscription and its consumer say to each other: the signs that are no events, and what is asked of who polls.

Rule of this file: names only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from reactdb.feeds.fan import OnEvent
    from reactdb.feeds.subscription import Subscription


class _Sentinel:
    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NOTHING: Final = _Sentinel("NOTHING")
ENDED: Final = _Sentinel("ENDED")
COMPLETED: Final = _Sentinel("COMPLETED")


# How a consumer comes by its events: it is called with each; it is woken; it looks before it sleeps; it has a queue of its own.
Way = Literal["called", "woken", "looking", "alone"]


class Consumer(Protocol):
    """Who polls."""

    @property
    def way(self) -> Way:
        """Fixed before it subscribes."""

    def wake(self, subscription: Subscription) -> None:
        """There is something new. Called under the publish lock: it may set flags and release locks, no more."""

    def now(self) -> float:
        """Seconds, on the consumer's clock."""


class Called(Consumer, Protocol):
    """Who is called where the commit is told.

    Attributes:
        error: Why it has ended.
    """

    error: BaseException | None

    @property
    def on_next(self) -> OnEvent | None:
        """What is called in the end."""

    def is_plain(self, subscription: Subscription) -> bool:
        """Whether `on_next` gets each event of this subscription as it is."""

    def run(self) -> None:
        """Poll, and tell, whatever there is."""

    def on_event(self, subscription: Subscription) -> OnEvent:
        """What is called with each event. What that raises is for `broken`."""

    def broken(self, error: Exception) -> None:
        """It raised: its feed ends."""

    def interrupted(self) -> None:
        """Ctrl-C struck while it was called: nobody knows what it has heard, so its feed ends."""
