"""Other values for constants of the store, in the processes that are killed or recorded: their files are small."""

from __future__ import annotations

import sys


def set_in_store(name: str, value: int) -> None:
    """In every module that knows it."""
    modules = [
        module
        for module_name, module in list(sys.modules.items())
        if module_name.startswith("reactdb.") and hasattr(module, name)
    ]
    if not modules:
        raise LookupError(f"no module of the store has {name}")
    for module in modules:
        setattr(module, name, value)
