"""The process that runs JavaScript: scripts may end it, and cost nobody else more than a moment."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

pytest.importorskip("quickjs")

from reactdb import budget
from reactdb.budget import Budget, Stopped
from reactdb.dialects.couchdb import javascript
from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.javascript import DocumentFunction
from reactdb.dialects.couchdb.script_process import ScriptProcess, ScriptsGone, script_process

DESIGN = {"_id": "_design/d"}
# QuickJS 1.19.4 reads a null pointer in some of these.
HUNGRY = (
    "function(doc) { if (doc.n) return true; var all = []; while (true) all.push(new Array(1000).fill(1)); }"
)
# Of a regular expression QuickJS knows no end.
PATIENT = "function(doc) { return doc.n || /^(a+)+$/.test(new Array(60).join('a') + 'b'); }"


def function(source: str) -> DocumentFunction:
    return DocumentFunction("f", source, DESIGN, {})


@pytest.mark.slow
def test_a_script_that_fills_its_memory_ends_no_process_of_ours() -> None:
    mine = function("function(doc) { return doc.n > 1; }")
    for _ in range(12):
        hungry = function(HUNGRY)
        with pytest.raises(CouchError, match=r"^f failed: it needs too much memory$"):
            hungry.passes({})

        assert hungry.passes({"n": 1})
        assert [False, True] == mine.passes_many([{"n": 1}, {"n": 2}])


@pytest.mark.skipif(sys.platform == "win32", reason="there a pipe cannot be waited for with an end")
def test_a_regular_expression_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, patient = function("function(doc) { return true; }"), function(PATIENT)
    monkeypatch.setattr(javascript, "ANSWER_S", 0.2)
    with pytest.raises(CouchError, match=r"^f failed: it takes too long$"):
        patient.passes({})
    monkeypatch.undo()

    assert patient.passes({"n": 1})
    assert mine.passes({})


def test_a_process_that_was_killed_is_started_again() -> None:
    mine = function("function(doc) { return true; }")
    script_process().close()

    assert mine.passes({})
    assert mine.passes({})


def test_functions_of_threads_survive_the_end_of_the_process() -> None:
    functions = [function("function(doc) { return doc.n > 50; }") for _ in range(4)]
    answers: list[list[bool]] = []

    def ask(one: DocumentFunction) -> None:
        documents = [{"n": number} for number in range(101)]
        answers.extend(one.passes_many(documents) for _ in range(10))

    threads = [threading.Thread(target=ask, args=(one,)) for one in functions]
    for thread in threads:
        thread.start()
    for _ in range(5):
        with pytest.raises(CouchError):
            function(HUNGRY).passes({})
    for thread in threads:
        thread.join()

    assert [[number > 50 for number in range(101)]] * 40 == answers


def test_what_nobody_needs_any_more_is_forgotten() -> None:
    mine = function("function(doc) { return true; }")
    assert mine.passes({})
    number, life = mine._number, mine._life
    del mine
    gc.collect()

    # What is dropped goes with the next request.
    assert function("function(doc) { return true; }").passes({})
    with pytest.raises(Exception, match=str(number)):
        script_process().request(60.0, "call", number, "[]", life=life)
    with pytest.raises(ScriptsGone):
        script_process().request(60.0, "call", number, "[]", life=(os.getpid(), 0))


def test_a_function_that_was_ended_leaves_no_context_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is made again takes the place of the one before, whose memory would else be held as long as it is used."""
    made: list[Any] = []
    ask = ScriptProcess.request

    def noting(self: ScriptProcess, within_s: float, *message: Any, **options: Any) -> Any:
        if message[0] == "make":
            made.append(message[1])
        return ask(self, within_s, *message, **options)

    monkeypatch.setattr(ScriptProcess, "request", noting)
    monkeypatch.setattr(javascript, "CALL_S", 0.2)
    slow = function("function(doc) { while (!doc.n) {} return true; }")
    for _ in range(2):
        with pytest.raises(CouchError, match=r"^f failed: it takes too long$"):
            slow.passes({})

        assert slow.passes({"n": 1})

    assert 3 == len(made)
    assert 1 == len(set(made))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
def test_each_side_of_a_fork_has_a_process_of_its_own() -> None:
    program = """
import os
from reactdb.dialects.couchdb.javascript import DocumentFunction
mine = DocumentFunction("f", "function(doc) { return doc.n > 1; }", {"_id": "_design/d"}, {})
assert mine.passes({"n": 2})
child = os.fork()
for _ in range(50):
    assert [False, True] == mine.passes_many([{"n": 1}, {"n": 2}])
if child:
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert mine.passes({"n": 2})
    print("both")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )

    assert ("both\n", "") == (done.stdout, done.stderr)


def test_a_function_ends_with_the_budget_of_its_request() -> None:
    """Another one runs afterwards."""
    endless = "function (doc) { while (true) {} }"
    outer = budget.current.set(Budget(0.2))
    try:
        with pytest.raises(Stopped):
            DocumentFunction("f", endless, {}, {}).passes({})
    finally:
        budget.current.reset(outer)

    assert DocumentFunction("f", "function (doc) { return true; }", {}, {}).passes({})
