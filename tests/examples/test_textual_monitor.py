"""The example `examples/textual_monitor`, driven by Textual's pilot."""

from __future__ import annotations

import asyncio
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Label, OptionList, Sparkline

import reactdb
from reactdb.textual import LiveTable

MAIN = Path(__file__).resolve().parent.parent.parent / "examples/textual_monitor/main.py"


async def until(pilot: Any, condition: Callable[[], Any]) -> None:
    for _ in range(2_000):
        if condition():
            return
        await pilot.pause(0.005)
    pytest.fail("it never came to be")


def test_the_monitor_shows_the_tables_their_newest_changes_and_one_table():
    monitor = runpy.run_path(str(MAIN))["Monitor"]

    async def test() -> None:
        with reactdb.connect(":memory:") as db:
            orders, stock = db.table_create("orders"), db.table_create("stock")
            orders.insert([{"id": number, "thing": "[tea]"} for number in range(3)])
            stock.insert({"id": "tea", "pieces": 5})
            application = monitor(db)
            async with application.run_test(size=(100, 30)) as pilot:
                table = application.query_one(LiveTable)
                await until(pilot, lambda: table.state == "live")
                assert 2 == table.cursor_key

                orders.insert({"id": 3, "thing": "[/x]"})
                stock.get("tea").update({"pieces": 4})
                await until(pilot, lambda: table.row_count == 4 and application.newest)
                application.tick()

                prompts = [str(option.prompt) for option in application.query_one(OptionList).options]
                assert ["orders\n  add 3", "stock\n  change tea"] == prompts
                # Two changes, in one half of a second or in two.
                assert 4.0 == sum(application.query_one(Sparkline).data)
                assert "changes a second" in str(application.query_one(Label).render())

                application.query_one(OptionList).focus()
                await pilot.press("down", "enter")
                await until(pilot, lambda: table.row_count == 1 and table.state == "live")
                assert "tea" == table.cursor_key

    asyncio.run(test())


def test_without_textual_the_monitor_says_what_to_install():
    script = (
        "import sys, runpy; sys.modules['textual'] = None; "
        f"runpy.run_path({str(MAIN)!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert 1 == done.returncode
    assert ["reactdb.textual needs textual"] == [line.split(":")[0] for line in done.stderr.splitlines()]


def test_a_file_that_cannot_be_opened_is_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("no database")
    main = runpy.run_path(str(MAIN))["main"]
    for name, reason in (("missing.db", "it does not exist"), ("notes.txt", "is not a reactdb database")):
        monkeypatch.setattr(sys, "argv", ["main.py", str(tmp_path / name)])

        with pytest.raises(SystemExit, match=reason):
            main()
