"""Without a binding of Qt the tests of the models cannot be read: `test_bindings` says so."""

from __future__ import annotations

import os
from importlib.util import find_spec

BINDING = "PyQt6" if os.environ.get("QT_API", "").lower() == "pyqt6" else "PySide6"

if find_spec(BINDING) is None:
    collect_ignore = ["test_models.py", "test_model_laws.py", "test_undo_actions.py"]
