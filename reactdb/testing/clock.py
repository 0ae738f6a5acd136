"""VirtualClock: a scheduler on which time passes only when a test advances it.

    clock = VirtualClock()
    games.changes(squash=1.0).subscribe(heard.append, scheduler=clock)
    games.insert({"id": 1})
    clock.advance_by(1.0)

Rule of this file: it is Rx's own virtual scheduler, in seconds from 0.
"""

from __future__ import annotations

from reactivex.scheduler import VirtualTimeScheduler


class VirtualClock(VirtualTimeScheduler):
    """See the head of this file. `now_s` is the time in seconds; `advance_by` and `advance_to` advance it."""

    def __init__(self) -> None:
        super().__init__(0.0)

    @property
    def now_s(self) -> float:
        """Seconds since the clock was made."""
        return float(self.clock)

    def advance_by(self, time: float) -> None:  # type: ignore[override]
        """Advance the time by `time` seconds, and run the actions that fall due."""
        super().advance_to(self.now_s + time)
