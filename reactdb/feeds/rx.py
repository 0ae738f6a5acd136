"""Feeds as Observables of reactivex, without importing reactivex before it is used.

Importing reactivex takes as long as all other work of a program before its first live result (asyncio is in it), and
a callback, a cursor and a loop need nothing of it. So a feed does not inherit from `reactivex.Observable`: it is
registered as one (`abc.ABCMeta.register`). It has the methods that reactivex itself calls on an Observable:
`subscribe`, `pipe` and `lock`. The operators are reached through `pipe`, because many of their names are also ReQL's,
with another meaning.

    isinstance(feed, reactivex.Observable)      true: such a program has imported reactivex
    feed.pipe(ops.map(...))                     reactivex is imported here, if it was not before
    feed.debounce(1.0)                          refused, with the sentence that shows the `pipe`

Rule of this file: it is the only one that imports reactivex, and does so inside functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from reactdb.errors import OperatorNotFound

if TYPE_CHECKING:
    import reactivex
    from reactivex import Observable as Observable
    from reactivex.abc import DisposableBase as DisposableBase
else:

    class Observable:
        """The methods that a feed takes from reactivex's Observable.

        Attributes:
            lock: Operators that combine several Observables take turns with it.
        """

        def __class_getitem__(cls, event: Any) -> type[Observable]:
            return cls

        def __init__(self) -> None:
            self.lock = RLock()

        @property
        def __class__(self) -> type:
            # `isinstance` reads this where the type alone does not decide.
            if "reactivex" in sys.modules:
                _register()
            return type(self)

        def pipe(self, *operators: Callable[[Any], Any]) -> Any:
            """What operators of reactivex make of the feed: `feed.pipe(ops.debounce(1.0), ops.map(...))`, an Observable.

            The operators are in `reactivex.operators`. Without one, the result is the feed itself.
            """
            return _register().pipe(self, *operators)

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and hasattr(_register(), name):
                raise OperatorNotFound(name)
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )

        def __dir__(self) -> list[str]:
            # `lock` is for reactivex; `to_future` is there only to be refused.
            return sorted({*object.__dir__(self)} - {"lock", "to_future"})

    class DisposableBase:
        """The handle of a subscription: `dispose()`, or leaving a `with` block, ends it."""

        __slots__ = ()

        def __enter__(self) -> DisposableBase:
            return self

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None:
            self.dispose()


def _register() -> Any:
    """Return reactivex's Observable, after registering feeds as Observables."""
    import reactivex

    if not issubclass(Observable, reactivex.Observable):
        reactivex.Observable.register(Observable)
        reactivex.abc.DisposableBase.register(DisposableBase)  # type: ignore[type-abstract]
    return reactivex.Observable


def is_observable(value: object) -> bool:
    """Whether the value is an Observable of reactivex, or a feed."""
    if isinstance(value, Observable):
        return True
    return "reactivex" in sys.modules and isinstance(value, _register())


def make_observable(subscribe: Callable[..., Callable[[], None]]) -> reactivex.Observable[Any]:
    """Make an Observable from a function: `subscribe` takes three callbacks (for a value, an error and the end) and
    returns the handle that ends it."""
    import reactivex

    def begin(
        observer: reactivex.abc.ObserverBase[Any], scheduler: reactivex.abc.SchedulerBase | None = None
    ) -> reactivex.abc.DisposableBase:
        return reactivex.disposable.Disposable(
            subscribe(observer.on_next, observer.on_error, observer.on_completed)
        )

    return reactivex.Observable(begin)


if "reactivex" in sys.modules:
    _register()
