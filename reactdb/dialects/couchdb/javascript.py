"""JavaScript: the functions of design documents, run by QuickJS (the extra `couchdb-js`) in a process of its own.

Each function has its own context, without files, network or a clock to wait on, and with limits of time and memory. It receives
documents by the hundred, as JSON, because a call costs more than most functions do. After a function ran out of memory, its
context cannot be relied on, and perhaps the process has ended: the next call makes a new context.

Rule of this file: a script changes only its own context. Any exception of a script becomes a CouchError.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final
from weakref import finalize

from reactdb.dialects.couchdb.errors import CouchError
from reactdb.dialects.couchdb.script_process import (
    Life,
    ScriptFailed,
    ScriptsEnded,
    ScriptsGone,
    forget,
    hold_within_budget,
    new_number,
    script_process,
)
from reactdb.errors import how_to_install
from reactdb.json import read_plain

__all__ = ["DocumentFunction", "MapFunction"]

CALL_S: Final = 5.0
"""CPU time of one call: CouchDB's own limit. A call has up to `DOCUMENTS` documents."""

ANSWER_S: Final = 60.0
"""The longest wait for a call, for any reason: a busy machine, or a regular expression, which QuickJS does not interrupt."""

MEMORY_BYTES: Final = 64 << 20
"""Memory of one context, with the documents of a call."""

DOCUMENTS: Final = 100
CALL_CHARACTERS: Final = 1 << 20
"""A call gets documents up to this many characters of JSON, and at least one document."""

# QuickJS's messages when a context reaches its limits. Full memory may leave no room for a message.
_ENDS: Final = {
    "InternalError: interrupted": "it takes too long",
    "InternalError: out of memory": "it needs too much memory",
    "null": "it needs too much memory",
}

# Makes `run`, which takes the documents of a call as JSON and returns JSON: [true, one boolean for each document], or [false, the
# name of an error, its message]. For a map function there is a list of [key, value] for each document instead.
# Functions for the use of design documents are made global.
_PRELUDE: Final = r"""
(function () {
  "use strict";
  var parse = JSON.parse, stringify = JSON.stringify, evaluate = eval, Internal = InternalError, emitted = [];
  var names = {
    emit: function (key, value) { emitted.push([key, value]); },
    log: function () {},
    isArray: Array.isArray,
    toJSON: stringify,
    sum: function (values) { return values.reduce(function (one, other) { return one + other; }, 0); }
  };
  for (var name in names) globalThis[name] = names[name];

  function told(error) {
    if (error instanceof Error) return [false, String(error.name), String(error.message)];
    return [false, "error", typeof error === "string" ? error : stringify(error)];
  }

  // A module is a text inside of the design document, named by the members on the way to it.
  function required(design) {
    var loaded = {};
    function load(path, folder) {
      var steps = path.split("/"), place = steps[0] === "." || steps[0] === ".." ? folder.slice() : [];
      steps.forEach(function (step) {
        if (step === "..") place.pop();
        else if (step !== ".") place.push(step);
      });
      var key = place.join("/"), source = design;
      place.forEach(function (step) { source = source === undefined ? undefined : source[step]; });
      if (typeof source !== "string") throw new Error("require('" + path + "') names no text in the design document");
      if (!Object.prototype.hasOwnProperty.call(loaded, key)) {
        var module = { id: key, exports: {} };
        loaded[key] = module.exports;
        evaluate("(function (module, exports, require) { " + source + "\n})").call(
          {}, module, module.exports, function (inner) { return load(inner, place.slice(0, -1)); });
        loaded[key] = module.exports;
      }
      return loaded[key];
    }
    return function (path) { return load(path, []); };
  }

  // The rows of one document, as JSON. One at which the function fails has none, but a context at its bounds is at its end.
  function rows(call, document) {
    emitted = [];
    try {
      call(document);
      return stringify(emitted);
    } catch (error) {
      if (error === null || (error instanceof Internal && error.message !== "stack overflow")) throw error;
      return "[]";
    }
  }

  return function (sourceText, designText, requestText, hasRows) {
    try {
      var design = parse(designText), request = parse(requestText), call;
      globalThis.require = required(design);
      // A function alone, with or without a semicolon after it.
      call = evaluate("(" + sourceText.replace(/;\s*$/, "") + "\n)");
      if (typeof call !== "function") throw new Error("Expression does not eval to a function.");
    } catch (error) {
      return stringify(told(error));
    }
    // Read by whoever made this context, and no longer than until the function has its first turn.
    globalThis.__run = function (documents) {
      try {
        if (hasRows) {
          return "[true,[" + parse(documents).map(function (document) { return rows(call, document); }).join(",") + "]]";
        }
        return stringify([true, parse(documents).map(request === null ? function (document) {
          emitted = [];
          call(document);
          return emitted.length > 0;
        } : function (document) {
          return Boolean(call.apply(design, [document, request]));
        })]);
      } catch (error) {
        return stringify(told(error));
      }
    };
    return stringify([true, []]);
  };
})()
"""


class _Function:
    """A function in its context. Thread safety: one call at a time; a call from another thread waits."""

    def __init__(
        self,
        name: str,
        source: str,
        design: dict[str, Any],
        request: dict[str, Any] | None = None,
        *,
        has_rows: bool = False,
    ) -> None:
        self._name = name
        self._texts = (source, _json(design), _json(request))
        self._has_rows = has_rows
        self._lock = Lock()
        # The function's number in the process. A function that is made again replaces the earlier function of this number.
        self._number = new_number()
        finalize(self, forget, self._number).atexit = False
        # The process's life in which the function was made; None: it has to be made again.
        self._life: Life | None = None
        with self._lock:
            self._begin()

    def _answers(self, documents: Iterable[dict[str, Any]]) -> Iterator[Any]:
        """The function's result for each document. A batch is computed when its first result is needed."""
        for batch in _batches(map(_json, documents)):
            with hold_within_budget(self._lock):
                given = self._called(f"[{','.join(batch)}]")
            if not (isinstance(given, list) and len(given) == len(batch)):
                raise self._refusal("it did not answer for each document")
            yield from given

    def _called(self, documents: str) -> Any:
        while True:
            if self._life is None:
                self._begin()
            try:
                return self._ask("call", self._number, documents, life=self._life)[0]
            except ScriptsGone:
                # Another function has ended the process.
                self._life = None

    def _begin(self) -> None:
        """A new context, with the function in it."""
        if find_spec("quickjs") is None:
            raise CouchError(
                501,
                "not_implemented",
                f"Functions in JavaScript need QuickJS: {how_to_install('couchdb-js')}",
            )
        given = [*self._texts, self._has_rows]
        try:
            _, self._life = self._ask("make", self._number, _PRELUDE, MEMORY_BYTES, CALL_S, given)
        except CouchError as error:
            self._life = None
            raise CouchError(500, "compilation_error", f"{error.reason} ({self._texts[0]})") from None

    def _ask(self, *message: Any, life: Life | None = None) -> tuple[Any, Life]:
        now = life or (0, 0)
        try:
            text, now = script_process().request(ANSWER_S, *message, life=life)
            answer = read_plain(text)
        except ScriptFailed as error:
            answer = [False, "error", str(error)]
        except ValueError as error:
            answer = [False, "error", f"its result cannot be read: {error}"]
        except ScriptsEnded as end:
            self._life = None
            raise self._refusal("it takes too long" if end.is_late else "it needs too much memory") from None
        if isinstance(answer, list) and len(answer) == 2 and answer[0] is True:
            return answer[1], now
        kind, content = (
            answer[1:] if isinstance(answer, list) and len(answer) == 3 else ("error", "it did not answer")
        )
        shown = content if kind == "error" else f"{kind}: {content}"
        if shown in _ENDS:
            self._life = None
        raise self._refusal(_ENDS.get(shown, shown))

    def _refusal(self, reason: str) -> CouchError:
        return CouchError(500, "error", f"{self._name} failed: {reason}")


class DocumentFunction(_Function):
    """A function of a design document: a filter, with a result for each document; or with `request` None a map function, which
    passes a document if it emits anything.

    Thread safety: one call at a time; a call from another thread waits.

    Args:
        name: For errors: `filters/by_type of _design/app`.
        source: The function's text.
        design: The design document: `this` in a filter, and the place of `require`'s modules.
        request: A filter's second argument.

    Raises:
        CouchError: There is no JavaScript here (501), or the text is no function (500).
    """

    def __init__(
        self, name: str, source: str, design: dict[str, Any], request: dict[str, Any] | None = None
    ) -> None:
        super().__init__(name, source, design, request)

    def passes(self, document: dict[str, Any]) -> bool:
        """Whether the filter says yes, or the map function emits."""
        return self.passes_many([document])[0]

    def passes_many(self, documents: Sequence[dict[str, Any]]) -> list[bool]:
        """The same for each of many documents.

        Raises:
            CouchError: The function threw something, or took too long or too much memory (500).
        """
        return list(map(bool, self._answers(documents)))


class MapFunction(_Function):
    """The map function of a view, with its emitted rows. Arguments and errors are those of `DocumentFunction`."""

    def __init__(self, name: str, source: str, design: dict[str, Any]) -> None:
        super().__init__(name, source, design, has_rows=True)

    def rows(self, documents: Iterable[dict[str, Any]]) -> Iterator[list[list[Any]]]:
        """For each document its emitted [key, value] pairs, none if the function throws.

        Raises:
            CouchError: The function took too long or too much memory (500).
        """
        for emitted in self._answers(documents):
            if not (
                isinstance(emitted, list) and all(isinstance(row, list) and len(row) == 2 for row in emitted)
            ):
                raise self._refusal("it did not answer with keys and values")
            yield emitted


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Documents in batches for one call each: bounded in number and in characters."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == DOCUMENTS or characters + len(text) > CALL_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch
