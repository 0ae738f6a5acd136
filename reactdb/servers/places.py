"""Places: the connections of one port, and the choice of the connection that has to leave when there is no room.

A connection is a stranger until its client is authenticated, or, without credentials, until it has sent the protocol's first
message. Strangers have only a share of the places. When the share is used up, the longest silent stranger is closed; so silent
connections, however many, never keep a client out. A known connection keeps its place, except while it is idle. Only HTTP has
idle connections: their clients connect again by themselves.

    enter(one)     take a place, as a stranger; False: all places are taken by known connections
    touch(one)     it has sent bytes
    admit(one)     it is known now
    estrange(one)  it is a stranger again
    rest(one)      it is known, and may be closed if its place is needed; `admit` ends that
    leave(one)     it is gone

Rule of this file: it counts. All of it is called on the loop, and costs the same however many connections there are.
"""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["Occupant", "Places"]


class Occupant(Protocol):
    """A connection, as far as places know it."""

    def abort(self) -> None:
        """End at once. Called on the loop, perhaps before the connection has a transport."""


class Places:
    """See the head of this file.

    Attributes:
        most: The limit of connections.
        most_strangers: The limit of strangers among them.
        is_closed: The port is closed: the system may still hand over connections that it accepted before.
    """

    def __init__(self, most: int, most_strangers: int) -> None:
        self.most: Final = most
        self.most_strangers: Final = min(most, most_strangers)
        self.is_closed = False
        # Dicts keep an order: the longest silent connection is the first.
        self._strangers: dict[Occupant, None] = {}
        self._resting: dict[Occupant, None] = {}
        self._known: set[Occupant] = set()

    def __len__(self) -> int:
        return len(self._strangers) + len(self._resting) + len(self._known)

    @property
    def members(self) -> list[Occupant]:
        return [*self._strangers, *self._resting, *self._known]

    def enter(self, one: Occupant) -> bool:
        """Give a new connection a place. False: there is no place for it."""
        if len(self._strangers) >= self.most_strangers:
            self._evict(self._strangers)
        elif len(self) >= self.most:
            evictable = self._strangers or self._resting
            if not evictable:
                return False
            self._evict(evictable)
        self._strangers[one] = None
        return True

    def touch(self, one: Occupant) -> None:
        """A stranger has sent something, so others have been silent for longer."""
        if one in self._strangers:
            del self._strangers[one]
            self._strangers[one] = None

    def admit(self, one: Occupant) -> None:
        if self._is_here(one):
            self.leave(one)
            self._known.add(one)

    def demote(self, one: Occupant) -> None:
        if self._is_here(one):
            self.leave(one)
            self._strangers[one] = None

    def rest(self, one: Occupant) -> None:
        if one in self._known:
            self.leave(one)
            self._resting[one] = None

    def leave(self, one: Occupant) -> None:
        self._strangers.pop(one, None)
        self._resting.pop(one, None)
        self._known.discard(one)

    def _is_here(self, one: Occupant) -> bool:
        """False for a connection that had to leave: it may not have ended yet."""
        return one in self._strangers or one in self._known or one in self._resting

    @staticmethod
    def _evict(some: dict[Occupant, None]) -> None:
        one = next(iter(some))
        del some[one]
        one.abort()
