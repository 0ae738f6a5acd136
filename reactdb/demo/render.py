"""The summary of a replay, as text. `screen` draws the boards.

Rule of this file: it only makes text, in English for any locale.
"""

from __future__ import annotations

from datetime import datetime

from reactdb.demo.flights import STATES
from reactdb.demo.replay import TABLE, Result

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def format_date(moment: datetime) -> str:
    return f"{_DAYS[moment.weekday()]} {moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def format_duration(microseconds: float) -> str:
    return f"{microseconds / 1_000:,.2f} ms" if microseconds >= 1_000 else f"{microseconds:.0f} µs"


def summary(result: Result) -> str:
    """The figures, one idea per line."""
    states = ", ".join(f"{result.states.get(state, 0):,} {state}" for state in STATES)
    lines = [
        f"flights    {result.flights:,}: {states}",
        f"written    {result.changes:,} changes in {result.commits:,} commits",
        f"delivered  {result.events:,} events to {result.feeds} live feeds, "
        f"after {format_duration(result.lag_p50_us)} (median) or {format_duration(result.lag_p99_us)} (99 %)",
        f"file       {result.file_bytes / 1e6:.2f} MB, position {result.seq:,}",
        f"took       {result.duration_s:.1f} s",
    ]
    if result.was_stopped:
        until = f" at {result.until:%H:%M}" if result.until else ""
        lines.append(
            f"stopped    by you{until}, {result.changes_planned - result.changes:,} changes before the end"
        )
    if result.is_right:
        lines.append(f"checked    {result.checks} times: boards and counters equal a fresh read of the table")
    else:
        shown = result.mistakes[:3] or ["nothing was compared"]
        more = f" (and {len(result.mistakes) - 3} more)" if len(result.mistakes) > 3 else ""
        lines += [f"WRONG      {mistake}" for mistake in shown[:-1]] + [f"WRONG      {shown[-1]}{more}"]
    return "\n".join(lines)


def next_steps(file: str | None) -> str:
    """Suggested next commands; `file` is None if the database was temporary."""
    shown = _quote(file or "flights.db")
    steps = [
        (f"reactdb open {shown}", "watch it in the browser"),
        (f"reactdb shell {shown}", "a Python prompt on the file"),
        (f"reactdb rows {shown} {TABLE} --limit 5", "documents"),
        (f"reactdb tail {shown} {TABLE}", "all changes, old and new"),
    ]
    if file is None:
        steps.insert(0, (f"reactdb demo --db {shown}", "the same, into a file that stays"))
    longest = max(len(command) for command, _ in steps)
    return "What to try next:\n" + "\n".join(f"  {command:<{longest}}  {words}" for command, words in steps)


def _quote(file: str) -> str:
    return f'"{file}"' if " " in file else file
