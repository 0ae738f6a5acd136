"""The examples with a window of Qt run offscreen, print what they have shown, and end without a word on stderr."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
HIDE_QT = "import sys; sys.modules['PySide6'] = None; import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"
DRIVE = """
import runpy, sys
example = runpy.run_path(sys.argv[1])
from PySide6 import QtCore, QtWidgets
application = QtWidgets.QApplication([])
ada, bo = example["Window"](sys.argv[2], "Ada"), example["Window"](sys.argv[2], "Bo")

def run_until(is_so):
    timer = QtCore.QElapsedTimer()
    timer.start()
    while not is_so():
        assert timer.elapsed() < 60_000
        application.processEvents(QtCore.QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 20)

def titles(window):
    return [window.model.document(row)["title"] for row in range(window.model.rowCount())]

for title in ("tea", "milk"):
    ada.entry.setText(title)
    ada.add()
run_until(lambda: titles(ada) == titles(bo) == ["tea", "milk"])
bo.model.setData(bo.model.index(0, 1), "green tea")
bo.view.selectRow(1)
bo.delete()
run_until(lambda: titles(ada) == ["green tea"])
run_until(lambda: bo.undo.text() == "Undo delete")
bo.undo.trigger()
run_until(lambda: titles(ada) == ["green tea", "milk"])
ada.model.setData(ada.model.index(1, 0), QtCore.Qt.CheckState.Checked, QtCore.Qt.ItemDataRole.CheckStateRole)
bo.show_only("Done")
run_until(lambda: titles(bo) == ["milk"])
ada.undo.trigger()
run_until(lambda: titles(bo) == [])
print("right")
for window in (ada, bo):
    window.model.close()
    window.db.close()
"""


PROGRAM_OF_THE_PAGE = """
import pathlib, re, runpy, sys
page = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
pathlib.Path("orders.py").write_text(re.search(r"```python file=orders.py\\n(.*?)```", page, re.DOTALL)[1])
program = runpy.run_path("orders.py", run_name="page")
program["orders"].insert({"customer": "Ada", "hours": 1})
from PySide6 import QtCore
timer = QtCore.QElapsedTimer()
timer.start()
while not (program["model"].rowCount() == 3 and program["undo"].isEnabled()):
    assert timer.elapsed() < 60_000
    program["application"].processEvents(QtCore.QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 20)
print(program["model"].data(program["model"].index(0, 0)))
"""


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def main_of(name: str) -> str:
    return str(ROOT / "examples" / name / "main.py")


@pytest.mark.slow
class TestWithQt:
    @pytest.fixture(autouse=True)
    def qt(self):
        pytest.importorskip("PySide6.QtWidgets", reason="PySide6 is not installed")

    @pytest.mark.parametrize(
        ("name", "printed"),
        [
            ("qt_todo", r"4 to-dos in the first window, 4 in the file\n"),
            ("qt_departures", r"18 flights on the board, \d+ in the database, \d+ changes\n"),
        ],
    )
    def test_an_example_shows_its_window(self, name, printed):
        done = run(main_of(name), "--seconds", "3")

        # The platform without a screen says so.
        said = done.stderr.replace("This plugin does not support propagateSizeHints()\n", "")
        assert (0, "") == (done.returncode, said)
        assert re.fullmatch(printed, done.stdout), done.stdout

    def test_two_windows_of_the_to_do_list_agree_and_undo_only_their_own_edits(self, tmp_path):
        done = run("-c", DRIVE, main_of("qt_todo"), str(tmp_path / "todo.db"))

        assert (0, "", "right\n") == (done.returncode, done.stderr, done.stdout)

    def test_the_program_of_the_page_runs_and_ends_without_being_closed(self, tmp_path):
        """Nobody closes its model or its database: also then the end is quiet."""
        done = run("-c", PROGRAM_OF_THE_PAGE, str(ROOT / "docs" / "how-to" / "qt.md"), cwd=tmp_path)

        said = done.stderr.replace("This plugin does not support propagateSizeHints()\n", "")
        assert (0, "", "Ada\n") == (done.returncode, said, done.stdout)


@pytest.mark.parametrize("name", ["qt_todo", "qt_departures"])
def test_without_qt_an_example_says_in_one_sentence_what_to_install(name):
    done = run("-c", HIDE_QT, main_of(name))

    assert 1 == done.returncode
    assert 'This example needs Qt: python -m pip install -e ".[qt]"\n' == done.stderr


@pytest.mark.parametrize("name", ["qt_todo", "qt_departures"])
def test_an_example_has_a_readme_of_three_lines(name):
    lines = (ROOT / "examples" / name / "README.md").read_text(encoding="utf-8").splitlines()

    assert 3 == len([line for line in lines if line])
