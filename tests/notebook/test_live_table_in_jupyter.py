"""The live table in a real kernel of Jupyter, with the messages of a front end that the test plays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

# Jupyter's packages warn about each other's future.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

BEGIN = """
import reactdb
from reactdb import desc
from reactdb.notebook import LiveTable
db = reactdb.connect(":memory:", durability="soft")
games = db.table_create("games")
games.insert([{"id": number, "score": number} for number in range(100)])
"""
SHOW = "LiveTable(games.order_by(desc('score')), rows=5)"
WRITE = """
import time
for number in range(1_000):
    games.get(number % 100).update({"score": number})
    if number % 100 == 99:
        time.sleep(0.1)
"""


class FrontEnd:
    """A client of the kernel."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.on_comm: Callable[[dict[str, Any]], None] = lambda content: None

    def run(self, code: str, cell: str | None = None) -> dict[str, Any]:
        """Run a cell, and return the data of its result."""
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False}
        message = self.client.session.msg(
            "execute_request", content, metadata={"cellId": cell} if cell else {}
        )
        self.client.shell_channel.send(message)
        result: dict[str, Any] = {}
        while True:
            came = self.next()
            if came["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            if came["msg_type"] == "error":
                pytest.fail("\n".join(came["content"]["traceback"]))
            if came["msg_type"] in ("execute_result", "display_data"):
                result = came["content"]["data"]
            if came["msg_type"] == "status" and came["content"]["execution_state"] == "idle":
                return result

    def next(self) -> Any:
        came = self.client.get_iopub_msg(timeout=60)
        if came["msg_type"] == "comm_msg":
            data = came["content"]["data"]
            if data.get("method") == "custom":
                self.on_comm({"comm": came["content"]["comm_id"], **data["content"]})
        return came

    def send(self, model: str, **content: Any) -> None:
        """A message of a view to the table."""
        data = {"method": "custom", "content": content}
        self.client.shell_channel.send(self.client.session.msg("comm_msg", {"comm_id": model, "data": data}))


@pytest.fixture(scope="module")
def kernel() -> Iterator[FrontEnd]:
    manager = pytest.importorskip("jupyter_client.manager")
    pytest.importorskip("ipykernel")
    running, client = manager.start_new_kernel(kernel_name="python3", startup_timeout=120)
    front_end = FrontEnd(client)
    try:
        front_end.run(BEGIN)
        yield front_end
    finally:
        client.stop_channels()
        running.shutdown_kernel(now=True)


def model_of(data: dict[str, Any]) -> str:
    return str(data["application/vnd.jupyter.widget-view+json"]["model_id"])


def test_a_view_is_kept_current_while_a_cell_writes(kernel):
    """1,000 writes of a running cell: the messages come before the cell has ended, and give the query's rows."""
    model = model_of(kernel.run(SHOW))
    page: dict[str, Any] = {}
    numbers: list[int] = []

    def take(message: dict[str, Any]) -> None:
        numbers.append(message["number"])
        if message["kind"] == "page":
            page.update(message)
        else:
            for place, row in message["rows"].items():
                page["rows"][int(place)] = row

    kernel.on_comm = take
    kernel.send(model, kind="ask", view="v", offset=0, count=5)
    while not page:
        kernel.next()
    assert ["=99", ["99", "99"]] == page["rows"][0]

    kernel.run(WRITE)
    during = len(numbers)
    while page["rows"][0][1][1] != "999":
        kernel.next()

    assert during > 1
    assert [["=99", ["99", "999"]], ["=98", ["98", "998"]]] == page["rows"][:2]
    assert list(range(1, len(numbers) + 1)) == numbers
    kernel.on_comm = lambda message: None


def test_30_runs_of_a_cell_leave_one_feed(kernel):
    kernel.run("other = reactdb.connect(':memory:'); things = other.table_create('things')")
    for _ in range(30):
        model = model_of(kernel.run("LiveTable(things)", cell="the same"))
        kernel.send(model, kind="ask", view="v", offset=0, count=5)
        answers: list[Any] = []
        kernel.on_comm = answers.append
        while not answers:
            kernel.next()
    kernel.on_comm = lambda message: None

    assert "1" == kernel.run("len(other.subscriptions())")["text/plain"]
