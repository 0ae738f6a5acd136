"""The logger of the library, `logging.getLogger("reactdb")`, imported at its first use.

Most programs never need it, and importing `logging` takes longer than opening a file.

Rule of this file: it says nothing itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any


def _log_nothing(*arguments: Any, **options: Any) -> None:
    pass


if TYPE_CHECKING:
    import logging

    logger: logging.Logger
else:

    class LazyLogger:
        """The methods of a logger of this name, loaded at their first use."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "debug" and "logging" not in sys.modules:
                # The program keeps no log. (Importing `logging` while another thread forks makes Python complain of a
                # lock.)
                return _log_nothing
            import logging

            return getattr(logging.getLogger(self._name), attribute)

    logger = LazyLogger("reactdb")
