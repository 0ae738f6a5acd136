"""Patterns of `_find` over the socket: one that is large for its text is refused or does not match, and others are answered."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import pytest

import reactdb
from reactdb.servers.http import serve_in_thread


@pytest.mark.parametrize(
    ("pattern", "status"), [("a{0,1000}" * 20 + "$", 400), ("(a|b){0,400}$", 200), ("(a{0,400}){1}b?$", 200)]
)
def test_a_pattern_of_find_ends_while_another_client_is_answered(pattern: str, status: int) -> None:
    answers: list[httpx.Response] = []
    longest_s = 0.0
    with reactdb.connect(":memory:") as db:
        db.table_create("todo", primary_key="_id").insert({"_id": "a", "text": "a" * 400_000 + "c"})
        with serve_in_thread(db) as server:
            address = f"http://127.0.0.1:{server.port}/todo"

            def attack() -> None:
                selector: dict[str, Any] = {"text": {"$regex": pattern}}
                answers.append(httpx.post(f"{address}/_find", json={"selector": selector}, timeout=60))

            attacker = threading.Thread(target=attack)
            with httpx.Client(timeout=60, verify=False) as good:
                assert 200 == good.get(f"{address}/_local_docs").status_code
                attacker.start()
                while attacker.is_alive():
                    began = time.monotonic()
                    assert 200 == good.get(f"{address}/_local_docs").status_code
                    longest_s = max(longest_s, time.monotonic() - began)
            attacker.join()

    assert [status] == [answer.status_code for answer in answers]
    assert longest_s < 1.5
