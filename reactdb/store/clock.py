"""LogClock: the time that entries of the log get, also while this machine's clock is wrong.

Times never decrease along the log, so one entry from a clock of the year 2099 lifts the times of all later entries.
With that one time nothing would grow old any more, and retention by age would remove nothing until 2099. So where the
newest entry is ahead of the machine's clock by more than a day, the log has a clock of its own: it continues from the
newest entry at the speed of the machine's clock. Retention by age, and every other age in the file, uses this clock.

A difference of up to a day is left alone, because it ends within a day: until then entries have the time of the
newest entry.

Rule of this file: the caller brings the machine's time, in milliseconds since 1970.
"""

from __future__ import annotations

from reactdb.logs import logger
from reactdb.store.file.sqlite import Connection
from reactdb.store.schema import read_fact, set_fact

# How far the newest entry may be ahead of the machine's clock before either counts as wrong.
DAY_MS = 86_400_000
# The name of the fact with a time of the log's clock, and the machine's time at that moment.
SHOWN = "log_clock"


class LogClock:
    """See the head of this file. Thread safety: the thread at the head of the write queue."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_warned = False

    def time_of_entry(self, connection: Connection, newest_ms: int, now_ms: int) -> int:
        """The time of the next entry, where the machine's clock is behind the newest entry. Inside the transaction
        that writes it.

        Args:
            newest_ms: The time of the newest entry.
        """
        if newest_ms - now_ms <= DAY_MS:
            return newest_ms
        self.warn(newest_ms, now_ms)
        time_ms = read_log_clock(connection, newest_ms, now_ms)
        set_fact(connection, SHOWN, f"{time_ms} {now_ms}")
        return time_ms

    def now(self, connection: Connection, now_ms: int) -> int:
        """The time of the log: the machine's, or the log's own while the machine's is wrong."""
        newest_ms = read_newest_time(connection)
        if newest_ms - now_ms <= DAY_MS:
            return now_ms
        self.warn(newest_ms, now_ms)
        return read_log_clock(connection, newest_ms, now_ms)

    def warn(self, newest_ms: int, now_ms: int) -> None:
        """Log that the machine's clock or the newest entry is wrong, once."""
        if not self._is_warned:
            self._is_warned = True
            logger.warning(
                "the newest change of %s is %.1f days ahead of this machine's clock: one of the two is wrong; ages of changes "
                "are counted from the newest change until the clock has caught up",
                self._path,
                (newest_ms - now_ms) / DAY_MS,
            )


def read_newest_time(connection: Connection) -> int:
    """The time of the newest entry, in milliseconds since 1970; 0 where there is none."""
    row = connection.execute("SELECT time FROM log ORDER BY seq DESC LIMIT 1").fetchone()
    return 0 if row is None else int(row[0])


def measure_clock_lag_ms(connection: Connection, now_ms: int) -> int | None:
    """By how many milliseconds the machine's clock is behind the newest entry; None where it is a day or less."""
    behind = read_newest_time(connection) - now_ms
    return behind if behind > DAY_MS else None


def read_log_clock(connection: Connection, newest_ms: int, now_ms: int) -> int:
    """The time of the log's own clock in milliseconds: the time of entries that are written while the machine's clock is behind
    the log."""
    known = str(read_fact(connection, SHOWN) or "").partition(" ")
    shown_ms, then_ms = int(known[0] or 0), int(known[2] or 0)
    # A newer entry was written while the machine's clock was ahead again. The log's clock restarts at that entry.
    return shown_ms + max(0, now_ms - then_ms) if shown_ms >= newest_ms else newest_ms
