"""RethinkDB's polyglot test files: reading them, running them with its own driver, and comparing.

The format only looks like YAML: it has lines, indentation, and raw text. Commands and expectations are Python, which is
evaluated here with the driver and the matchers in scope.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rethinkdb
from rethinkdb import errors as driver_errors
from rethinkdb.ast import ReQLEncoder, RqlQuery

import reactdb
from reactdb.dialects.rethinkdb import Session
from reactdb.dialects.rethinkdb.embedded import SessionWire
from reactdb.servers.rethinkdb import serve_in_thread
from reactdb.testing.rethinkdb import rethinkdb_connection
from tests.dialects.rethinkdb.acceptance import FOLDER
from tests.dialects.rethinkdb.acceptance.probes import squash_of

ENTRY = re.compile(r"^(\s*)- (py|rb|js|cd|def|ot)\s*:\s?(.*)$")
KEY = re.compile(r"^(\s+)(py|rb|js|cd|def|ot|runopts|testopts|[a-z_]+)\s*:(?:\s(.*))?$")
ASSIGNMENT = re.compile(r"^\s*(\w+)\s*=(?!=)\s*(.*)$", re.DOTALL)


@dataclass
class Case:
    """One entry of a file: commands, or a definition; what is expected, as text; options."""

    line: int
    parts: dict[str, Any] = field(default_factory=dict)

    def chosen(self, name: str) -> str | None:
        """The Python spelling of a part; None where there is only another language's."""
        value = self.parts.get(name)
        if isinstance(value, dict):
            return value.get("py", value.get("cd"))
        return value


def read(path: Path) -> tuple[list[str], list[Case]]:
    """The names of the tables that a file wants, and its cases."""
    tables: list[str] = []
    cases: list[Case] = []
    case: Case | None = None
    base, current, inner = 0, "", None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.startswith("table_variable_name:"):
            tables = re.split(r"[\s,]+", line.split(":", 1)[1].strip())
            continue
        entry = ENTRY.match(line)
        if entry:
            case = Case(number)
            cases.append(case)
            base, current, inner = len(entry[1]) + 2, entry[2], None
            case.parts[current] = entry[3]
            continue
        if case is None:
            continue
        key = KEY.match(line)
        if (
            key
            and len(key[1]) <= base + 1
            and key[2] in ("py", "rb", "js", "cd", "def", "ot", "runopts", "testopts")
        ):
            current, inner = key[2], None
            case.parts[current] = key[3] or ""
        elif key and (isinstance(case.parts[current], dict) or not case.parts[current]):
            if not isinstance(case.parts[current], dict):
                case.parts[current] = {}
            inner = key[2]
            case.parts[current][inner] = key[3] or ""
        elif inner is not None:
            case.parts[current][inner] += "\n" + line
        else:
            case.parts[current] += "\n" + line
    return tables, cases


# ---------------------------------------------------------------------------------------------------------------
# Matchers


class Matcher:
    def check(self, found: Any) -> None:
        raise NotImplementedError


class Mismatch(AssertionError):
    pass


def same(expected: Any, found: Any, *, partial: bool = False) -> bool:
    try:
        check(expected, found, partial=partial)
    except Mismatch:
        return False
    return True


def check(expected: Any, found: Any, *, partial: bool = False) -> None:
    """Raise Mismatch where `found` is not what was expected."""
    if isinstance(expected, Matcher):
        expected.check(found)
    elif isinstance(found, Exception):
        raise Mismatch(f"expected {expected!r}, found {found!r}")
    elif isinstance(expected, dict):
        if not isinstance(found, dict):
            raise Mismatch(f"expected {expected!r}, found {found!r}")
        if set(expected) - set(found) or (set(found) - set(expected) and not partial):
            raise Mismatch(f"expected the keys of {expected!r}, found {found!r}")
        for name in expected:
            check(expected[name], found[name], partial=partial)
    elif isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)):
            raise Mismatch(f"expected {expected!r}, found {found!r}")
        if partial:
            check_some(expected, found)
            return
        if len(expected) != len(found):
            raise Mismatch(f"expected {len(expected)} elements {expected!r}, found {found!r}")
        for one, other in zip(expected, found, strict=True):
            check(one, other)
    elif isinstance(expected, bool) or expected is None:
        if expected is not found:
            raise Mismatch(f"expected {expected!r}, found {found!r}")
    elif isinstance(expected, float) and isinstance(found, (int, float)):
        if abs(expected - found) > 1e-9 * max(1.0, abs(expected)):
            raise Mismatch(f"expected {expected!r}, found {found!r}")
    elif expected != found or (isinstance(found, bool) and not isinstance(expected, bool)):
        raise Mismatch(f"expected {expected!r}, found {found!r}")


def check_some(expected: Any, found: Any, *, all_of_them: bool = False, partial: bool = True) -> None:
    left = list(found)
    for one in expected:
        for place, other in enumerate(left):
            if same(one, other, partial=partial):
                del left[place]
                break
        else:
            raise Mismatch(f"expected {one!r} among {found!r}")
    if all_of_them and left:
        raise Mismatch(f"did not expect {left!r}")


class Bag(Matcher):
    def __init__(self, values: Any) -> None:
        self.values = list(values)

    def check(self, found: Any) -> None:
        if not isinstance(found, list):
            raise Mismatch(f"expected a bag of {self.values!r}, found {found!r}")
        check_some(self.values, found, all_of_them=True, partial=False)


class Partial(Matcher):
    def __init__(self, value: Any) -> None:
        self.value = value

    def check(self, found: Any) -> None:
        check(self.value, found, partial=True)


class Anything(Matcher):
    def check(self, found: Any) -> None:
        if isinstance(found, Exception):
            raise Mismatch(f"expected no error, found {found!r}")


class Length(Matcher):
    def __init__(self, length: int, thing: Any = None) -> None:
        self.length = length
        self.thing = thing

    def check(self, found: Any) -> None:
        if not isinstance(found, list) or len(found) != self.length:
            raise Mismatch(f"expected {self.length} elements, found {found!r}")
        if self.thing is not None:
            for one in found:
                check(self.thing, one)


class Pattern(Matcher):
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def check(self, found: Any) -> None:
        if not isinstance(found, str) or re.match(self.pattern, found) is None:
            raise Mismatch(f"expected {self.pattern!r}, found {found!r}")


class Failure(Matcher):
    def __init__(self, kind: str, message: str | None = None, *_: Any, is_pattern: bool = False) -> None:
        self.kind = kind
        self.message = message
        self.is_pattern = is_pattern

    def check(self, found: Any) -> None:
        kind = getattr(driver_errors, self.kind.replace("Rql", "Reql", 1))
        if not isinstance(found, kind):
            raise Mismatch(f"expected {self.kind} {self.message!r}, found {found!r}")
        message = str(getattr(found, "message", found))
        if self.is_pattern:
            if re.match(self.message or "", message) is None:
                raise Mismatch(f"expected {self.message!r}, found {message!r}")
        elif self.message is not None and first_part(message) != first_part(self.message):
            raise Mismatch(f"expected {self.message!r}, found {message!r}")


def first_part(message: str) -> str:
    """The message without the value that it shows."""
    return re.sub(r"(?: in)?:\n.*", ":", message.strip(), flags=re.DOTALL)


# ---------------------------------------------------------------------------------------------------------------
# Running


class JumpingWire(SessionWire):
    """A wire at a virtual time: whoever would wait for it finds that it has passed."""

    def __init__(self, db: Any) -> None:
        super().__init__(db)
        self.now = 0.0
        self.session = Session(db, self._is_woken.set, clock=lambda: self.now)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while True:
            for frame in self.session.poll():
                self._out += frame.pack()
            due = self.session.wait_s
            if due is None or self.now + due > until:
                break
            self.now += max(due, 0.001)
        self.now = until

    def _wait(self, deadline: float | None) -> None:
        due = self.session.wait_s
        left = None if deadline is None else deadline - time.time()
        if due is not None and (left is None or due <= max(left, 0.6)):
            self.now += max(due, 0.001)
            return
        raise self.timeout_error("localhost", 28015)


class Runner:
    """One file against an empty database: at a virtual time, or behind a server in real time."""

    def __init__(self, path: Path, *, is_served: bool = False) -> None:
        self.path = path
        self.is_served = is_served
        self.tables, self.cases = read(path)
        self.translations = translations(path)
        self.failures: list[tuple[int, str, str]] = []
        self.checked = 0

    def run(self) -> None:
        r = rethinkdb.RethinkDB()
        with ExitStack() as stack:
            db = stack.enter_context(reactdb.connect(":memory:", durability="soft"))
            if self.is_served:
                server = stack.enter_context(serve_in_thread(db))
                self.connection = stack.enter_context(r.connect(server.host, server.port))
            else:
                self.connection = stack.enter_context(rethinkdb_connection(db, wire=JumpingWire))
            scope = self.scope(r)
            for name in self.tables:
                db.table_create(f"{name}_table")
                scope[name] = r.table(f"{name}_table")
            for case in self.cases:
                self.case(case, scope)

    def scope(self, r: Any) -> dict[str, Any]:
        return {
            "r": r, "null": None, "nil": None, "true": True, "false": False,
            "fetch": self.fetch, "wait": self.wait, "bag": Bag, "partial": Partial, "anything": Anything,
            "arrlen": Length, "regex": Pattern, "err": Failure,
            "err_regex": lambda kind, message, *_: Failure(kind, message, is_pattern=True),
            "uuid": lambda: Pattern(r"[0-9a-f]{8}-"), "int_cmp": lambda value: value, "float_cmp": lambda value: value,
        }  # fmt: skip

    def wait(self, seconds: float) -> None:
        if self.is_served:
            time.sleep(seconds)
            return
        self.connection._instance._socket.pass_time(seconds)

    def fetch(self, cursor: Any, limit: int | None = None, timeout: float = 0.2) -> list[Any]:
        found: list[Any] = []
        while limit is None or len(found) < limit:
            try:
                found.append(self.next_of(cursor))
            except driver_errors.ReqlTimeoutError as error:
                if limit is not None:
                    found.append(error)
                break
            except driver_errors.ReqlCursorEmpty:
                break
        return found

    def next_of(self, cursor: Any) -> Any:
        try:
            return cursor.next(wait=0)
        except driver_errors.ReqlTimeoutError:
            if not self.is_served:
                raise
        squash_s = squash_of(json.loads(ReQLEncoder().encode(cursor.query.term)))
        if squash_s:
            # Nothing is asked meanwhile: it might wake a server that sleeps for too long.
            return cursor.next(wait=squash_s + 5)
        # A question is answered after whatever there is to tell.
        rethinkdb.RethinkDB().expr([]).is_empty().run(self.connection)
        return cursor.next(wait=0)

    def all_of(self, cursor: Any) -> Iterator[Any]:
        """To its end. One that has none, a feed, raises when it has nothing more to tell."""
        while True:
            try:
                yield self.next_of(cursor)
            except driver_errors.ReqlCursorEmpty:
                return

    def case(self, case: Case, scope: dict[str, Any]) -> None:
        if "def" not in case.parts:
            self.commands(case, scope)
            return
        # A definition stands before the command that uses it, or after the one that makes it possible.
        is_first = next(iter(case.parts)) == "def"
        if not is_first:
            self.commands(case, scope)
        text = case.chosen("def")
        if text is not None:
            self.define(text, scope, is_shared="rb" not in self.path.name)
        if is_first and set(case.parts) & {"py", "cd"}:
            self.commands(case, scope)

    def commands(self, case: Case, scope: dict[str, Any]) -> None:
        text = case.chosen("py" if "py" in case.parts else "cd")
        if text is None:
            text = self.translations.get(case.line) if "rb" in case.parts else None
            if text is None and set(case.parts) & {"rb", "js"}:
                return
        if text is None:
            # An expectation of nothing: the official runner skips it too.
            return
        for command in commands(text):
            self.command(command, case, scope)

    def command(self, text: str, case: Case, scope: dict[str, Any]) -> None:
        expected_text = case.chosen("ot")
        match = ASSIGNMENT.match(text)
        name, code = (match[1], match[2]) if match is not None else (None, text)
        try:
            found = self.evaluated(code.strip(), case, scope, keep=name is not None)
        except Exception as error:
            found = error
        if name is not None:
            scope[name] = found
            if expected_text is None and not isinstance(found, Exception):
                return
        self.checked += 1
        try:
            check(Anything() if expected_text is None else self.expected(expected_text, scope), found)
        except Exception as error:
            self.failures.append((case.line, text, str(error)[:600]))

    def expected(self, text: str, scope: dict[str, Any]) -> Any:
        plain = text.strip()
        with warnings.catch_warnings():
            # The files escape as regular expressions do.
            warnings.simplefilter("ignore")
            return eval(plain.replace("=>", ":"), scope)

    def define(self, text: str, scope: dict[str, Any], *, is_shared: bool) -> None:
        match = ASSIGNMENT.match(text)
        if match is not None:
            try:
                scope[match[1]] = eval(match[2].strip(), scope)
            except Exception:
                # A definition in a Ruby file may be Ruby.
                if is_shared:
                    raise

    def evaluated(self, code: str, case: Case, scope: dict[str, Any], *, keep: bool) -> Any:
        found = eval(code, scope)
        if isinstance(found, RqlQuery):
            found = found.run(self.connection, **self.run_options(case, scope))
        if not keep and hasattr(found, "_get_next"):
            return list(self.all_of(found))
        return found

    def run_options(self, case: Case, scope: dict[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {"max_batch_rows": 3}
        given = case.parts.get("runopts")
        if isinstance(given, dict):
            options.update({name: eval(value.strip(), scope) for name, value in given.items()})
        return options


def commands(text: str) -> list[str]:
    """Several commands may hang under one key as a list."""
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and all(re.match(r"^\s*- ", line) for line in lines):
        return [re.sub(r"^\s*- ", "", line) for line in lines]
    return [text]


def translations(path: Path) -> dict[int, str]:
    """Python for the lines that are only in Ruby, as they were recorded."""
    recorded = FOLDER / "recorded" / f"{path.name.removesuffix('.yaml')}.json"
    if not recorded.exists():
        return {}
    found: dict[int, str] = {}
    for case in json.loads(recorded.read_text())["cases"]:
        if case.get("lang") == "rb" and case.get("py") and "line" in case:
            code = case["py"]
            found[case["line"]] = f"{case['assign']} = {code}" if case.get("assign") else code
    return found
