"""The logger of the library, `logging.getLogger("reactdb")`, which is imported when it is first asked for something.

Most programs never hear of it, and importing `logging` takes longer than opening a file.

Rule of this file: it says nothing itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any


def _say_nothing(*arguments: Any, **options: Any) -> None:
    pass


if TYPE_CHECKING:
    import logging

    logger: logging.Logger
else:

    class LazyLogger:
        """What a logger of this name has, when it is asked for."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "debug" and "logging" not in sys.modules:
                # Nobody keeps a log. (To import it while another thread forks makes Python complain of a lock.)
                return _say_nothing
            import logging

            return getattr(logging.getLogger(self._name), attribute)

    logger = LazyLogger("reactdb")
