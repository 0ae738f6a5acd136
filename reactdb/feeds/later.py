"""Later: a context that is entered inside another one and outlives it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from reactdb.store.snapshot import Snapshot


class Later:
    """See the head of this file.

    Not an ExitStack: one that is interrupted while it exits keeps itself, and the snapshot, until the garbage collector comes.
    """

    __slots__ = ("_inner",)

    def __init__(self) -> None:
        self._inner: AbstractContextManager[Snapshot] | None = None

    def enter(self, inner: AbstractContextManager[Snapshot]) -> Snapshot:
        snapshot = inner.__enter__()
        self._inner = inner
        return snapshot

    def __enter__(self) -> Later:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._inner is not None:
            self._inner.__exit__(kind, error, trace)
