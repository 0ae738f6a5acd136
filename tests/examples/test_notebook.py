"""The example `examples/notebook`: the notebook of Jupyter by nbclient, that of marimo by its own export."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent.parent / "examples/notebook"

pytestmark = pytest.mark.slow


def outputs(notebook: Any, cell: str) -> dict[str, Any]:
    """The data of the last output of a cell."""
    (found,) = [one for one in notebook.cells if one.id == cell]
    return dict(found.outputs[-1].data)


# Jupyter's packages warn about each other's future.
@pytest.mark.filterwarnings("ignore")
def test_the_notebook_of_jupyter_runs():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(FOLDER / "games.ipynb", as_version=4)
    assert [] == [one for cell in notebook.cells for one in cell.get("outputs", [])]

    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()

    assert "1 table" in outputs(notebook, "open")["text/html"]
    table = outputs(notebook, "table")
    assert "20 of 1,000 documents" in table["text/html"]
    assert "Table games · 20 of 1,000 documents" == table["text/plain"].splitlines()[0]
    assert "5 documents" in outputs(notebook, "selection")["text/plain"]
    live = outputs(notebook, "live-table")
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} == set(live)
    assert "the first 10 documents" in live["text/plain"]
    assert "score" in outputs(notebook, "write")["text/plain"]
    # The saved notebook has the widget, its module and its last page.
    states = notebook.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    (state,) = [one["state"] for one in states.values() if "page" in one["state"]]
    assert 10 == len(state["page"]["rows"])
    assert "function render" in state["_esm"]


def test_the_notebook_of_marimo_runs(tmp_path):
    pytest.importorskip("marimo")
    page = tmp_path / "games.html"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "marimo",
            "-q",
            "-y",
            "export",
            "html",
            str(FOLDER / "games_marimo.py"),
            "-o",
            str(page),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(FOLDER.parent.parent), "PYTHONDONTWRITEBYTECODE": "1"},
    )

    assert 0 == done.returncode, done.stderr
    text = page.read_text(encoding="utf-8")
    assert "20 of 1,000 documents" in text
    assert "marimo-anywidget" in text


def test_without_anywidget_the_notebook_says_what_to_install():
    script = (
        "import sys, json; sys.modules['anywidget'] = None\n"
        f"cells = json.load(open({str(FOLDER / 'games.ipynb')!r}))['cells']\n"
        "exec(''.join(next(one['source'] for one in cells if one['id'] == 'open')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert ["reactdb.notebook needs anywidget"] == [line.split(":")[0] for line in done.stderr.splitlines()]
