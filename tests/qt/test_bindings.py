"""The choice of the binding, each in a process of its own; and the tests of the models once more, with PyQt6."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
IN_PROCESS = ["test_models.py", "test_model_laws.py", "test_undo_actions.py"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "QT_API"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen", **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def choose(before: str = "", **environment: str) -> str:
    """The binding, or the last line of the error."""
    # The choice alone: loading a binding takes longer than the rest of the test.
    done = run("-c", f"{before}\nimport reactdb.qt.binding as b; print(b.BINDING)", **environment)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def test_the_models_are_tested_with_pyside6():
    if find_spec("PySide6") is None:
        pytest.skip("PySide6 is not installed: the models are not tested in this process")


HIDE = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in {hidden} else find(name, *rest)
"""


def test_without_a_binding_one_sentence_says_what_to_install():
    assert (
        "reactdb.errors.MissingExtra: reactdb.qt needs PySide6 or PyQt6: python -m pip install 'reactdb[qt]',"
        " or in a checkout: python -m pip install -e '.[qt]'"
        == choose(HIDE.format(hidden=("PySide6", "PyQt6")))
    )


def test_a_binding_that_reactdb_does_not_know_is_refused():
    assert (
        "reactdb.errors.UsageError: the environment variable QT_API is 'pyqt5', and reactdb.qt works with pyside6 and pyqt6"
        == choose(QT_API="pyqt5")
    )


@pytest.mark.skipif(find_spec("PyQt6") is None, reason="PyQt6 is not installed")
@pytest.mark.slow
class TestPyQt6:
    def test_the_environment_variable_chooses(self):
        assert "PyQt6" == choose(QT_API="PyQt6")

    def test_the_binding_that_the_program_has_imported_is_used(self):
        assert "PyQt6" == choose("import PyQt6.QtCore", QT_API="pyside6")

    def test_the_models_pass_their_tests(self):
        done = run(
            *["-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"],
            *[str(Path(__file__).parent / name) for name in IN_PROCESS],
            QT_API="pyqt6",
        )

        assert 0 == done.returncode, done.stdout + done.stderr
        assert " skipped" not in done.stdout
