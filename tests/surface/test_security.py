"""Security: data never becomes code, names never become SQL, and a stranger cannot keep a server busy."""

from __future__ import annotations

import ast
import json
import re
import socket
import struct
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reactdb
from reactdb import row
from reactdb.dialects.rethinkdb.errors import INTERNAL
from reactdb.dialects.rethinkdb.session import MAX_ARRAY_LIMIT, Session
from reactdb.dialects.rethinkdb.terms import TERM_TYPES
from reactdb.expression import compile as generated
from reactdb.servers import scram as scrams
from reactdb.servers import users
from reactdb.servers.rethinkdb import Credentials, Limits, serve_in_thread
from reactdb.servers.rethinkdb.handshake import VERSION, Handshake, HandshakeFailed
from reactdb.store.file import sqlite
from tests.support.rethinkdb import Raw, subscriptions
from tests.support.scaling import examples
from tests.support.threads import wait_until

PACKAGE = Path(reactdb.__file__).parent

# ---------------------------------------------------------------------------------------------------------------
# No code out of data

# What makes objects or code of bytes or text, and what starts programs.
FORBIDDEN_MODULES = {
    "pickle", "cPickle", "_pickle", "marshal", "shelve", "dbm", "yaml", "dill", "cloudpickle", "joblib", "jsonpickle", "code",
    "codeop", "imp", "runpy", "subprocess", "pty", "xmlrpc", "multiprocessing",
}  # fmt: skip
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "execfile", "input"}
FORBIDDEN_METHODS = {
    "system",
    "popen",
    "spawnl",
    "spawnv",
    "execv",
    "execvp",
    "load_extension",
    "enable_load_extension",
}
# The one place where code is made: of the shape of an expression, with every value bound by a name. And the prompt, which runs
# the code that its user types.
GENERATES = {
    ("expression/compile.py", "exec"),
    ("expression/compile.py", "compile"),
    ("cli/shell.py", "code"),
    ("cli/shell.py", "codeop"),
}
# Where programs are started: Java, to ask for its version, Python with the program that runs JavaScript, and the user's PAGER.
# Nothing of a document or a query is in a command.
STARTS = {
    ("spark/environment.py", "subprocess"),
    ("dialects/couchdb/script_process.py", "subprocess"),
    ("cli/shell.py", "subprocess"),
}
# Where YAML is read: by a loader that knows what JSON can say, and no anchors.
READS = {("servers/aidbox/media_types.py", "yaml")}


def forbidden(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in FORBIDDEN_MODULES)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0 and (node.module or "").split(".")[0] in FORBIDDEN_MODULES:
                yield str(node.module)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
                yield node.func.id
            elif isinstance(node.func, ast.Attribute) and node.func.attr in FORBIDDEN_METHODS:
                yield node.func.attr


def test_nothing_is_unpickled_or_evaluated() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in sorted(PACKAGE.rglob("*.py"))
        for name in forbidden(path)
    }

    assert GENERATES | STARTS | READS == found


WORDS = st.one_of(
    st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=8, max_size=12).map(lambda word: f"zz{word}"),
    st.sampled_from(
        ["__import__('os')", "zz'); import os; ('", 'zz"""', "zz\n  return 1\n", "zz\\", "row[zz", "{zzzz}"]
    ),
)


@settings(max_examples=examples(60))
@given(words=st.lists(WORDS, min_size=4, max_size=4), number=st.one_of(st.floats(), st.integers()))
def test_generated_code_has_no_word_of_the_callers_in_it(words: list[str], number: Any) -> None:
    """Its source is made of fixed words and numbered names; every constant and field is bound to one of those."""
    first, second, third, fourth = words
    sources: list[str] = []
    original = generated._code

    def recorded(source: str) -> Any:
        sources.append(source)
        return original(source)

    expressions = [
        (row[first] == second) & (row[third][fourth] > number) | ~(row[first] < second),
        row[first].default(second) + third,
        reactdb.r.branch(
            row[first] == second, third, row[fourth] != number, {first: row[second]}, [row[third]]
        ),
        row[first].map(lambda element: element[second] == third),
        row.merge({first: {second: row[third]}}).pluck(fourth),
        row.has_fields({first: {second: True}}),
        row[first].match("zz[a-z]+").default(fourth),
        reactdb.r.expr({first: row[second], third: number})[first],
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generated, "_code", recorded)
        document = {first: second, third: {fourth: 5}, "id": 1}
        for expression in expressions:
            for make in (generated.value_function, generated.truth_function):
                try:
                    make(expression.node)(document)
                except reactdb.errors.QueryError:
                    pass
        reactdb.expression.as_predicate({first: second, third: {fourth: number}}, False)(document)

    assert sources
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant):
                assert node.value is None or type(node.value) in (bool, int)
            elif isinstance(node, ast.Name):
                assert re.fullmatch(
                    r"[a-z]\d+|row|run|truth|type|int|float|str|KeyError|TypeError|MissingValue", node.id
                )
            else:
                assert not isinstance(
                    node, (ast.Import, ast.ImportFrom, ast.Attribute, ast.JoinedStr, ast.Global)
                )


# ---------------------------------------------------------------------------------------------------------------
# The file


def test_every_connection_distrusts_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    connect = sqlite.sqlite3.connect

    def noted(*arguments: Any, **options: Any) -> Any:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite.sqlite3, "connect", noted)
    with (
        reactdb.connect(tmp_path / "a.db") as db,
        reactdb.connect(tmp_path / "a.db", read_only=True) as reader,
    ):
        games = db.table_create("games")
        games.insert({"id": 1})
        games.run()
        reader.table("games").run()
        in_use = []
        for connection in opened:
            try:
                connection.execute("SELECT 1")
            except sqlite.sqlite3.ProgrammingError:
                continue
            in_use.append(connection)
        assert len(in_use) >= 3
        for connection in in_use:
            settings_of = {
                name: connection.execute(f"PRAGMA {name}").fetchone()
                for name in ("trusted_schema", "cell_size_check", "mmap_size")
            }
            assert (0,) == settings_of["trusted_schema"]
            assert (1,) == settings_of["cell_size_check"]
            assert settings_of["mmap_size"] in (None, (0,))
            with pytest.raises(sqlite.SQLiteError, match="not authorized"):
                connection.execute("SELECT load_extension('libm.so.6')")


def test_bytes_that_would_unpack_to_something_huge_are_refused_or_bounded() -> None:
    """A header that promises more than there is gets nothing for it."""
    from reactdb.values import codec

    for head in (
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ):
        with pytest.raises(reactdb.CorruptDatabase):
            codec.decode(b"\x81\xa1a" + head)
        with pytest.raises(reactdb.CorruptDatabase):
            codec.decode(b"\x81\xa1a" + (b"\xdd" + struct.pack(">I", 90_000)) * 500 + b"\x80" * 100_000)
    for depth in (1_100, 5_000, 100_000):
        with pytest.raises(reactdb.CorruptDatabase):
            codec.decode(b"\x81\xa1a" + b"\x91" * depth + b"\xc0")


# ---------------------------------------------------------------------------------------------------------------
# The server: who comes in


@pytest.fixture
def games_db() -> Iterator[Any]:
    with reactdb.connect(":memory:") as db:
        db.table_create("games")
        yield db


def exchange(credentials: Credentials, user: str, password: str, salt: bytes | None = None) -> str:
    """What the last answer of a handshake says; `salt`: what is used for the one that was told."""
    import hashlib
    import hmac
    from base64 import b64decode

    shaking = Handshake(credentials)
    shaking.receive(struct.pack("<L", VERSION))
    first = f"n={user},r=abc"
    try:
        answer = shaking.receive(
            json.dumps(
                {
                    "protocol_version": 0,
                    "authentication_method": "SCRAM-SHA-256",
                    "authentication": f"n,,{first}",
                }
            ).encode()
            + b"\0"
        )
        server_first = json.loads(answer[:-1])["authentication"]
        fields = dict(part.split("=", 1) for part in server_first.split(","))
        used = salt or b64decode(fields["s"])
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), used, int(fields["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        without = f"c=biws,r={fields['r']}"
        signature = hmac.digest(
            hashlib.sha256(key).digest(), f"{first},{server_first},{without}".encode(), "sha256"
        )
        proof = b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        shaking.receive(json.dumps({"authentication": f"{without},p={proof}"}).encode() + b"\0")
    except HandshakeFailed as error:
        return str(error)
    return "welcome" if shaking.is_done else "?"


def test_a_stranger_and_a_wrong_password_are_told_the_same_after_the_same_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    credentials = Credentials("ann", "sesame")
    compared: list[int] = []
    hashed: list[int] = []
    compare, sign = scrams.hmac.compare_digest, scrams.hmac_sha256

    def comparing(one: Any, other: Any) -> bool:
        compared.append(1)
        return compare(one, other)

    def signing(key: bytes, message: bytes) -> bytes:
        hashed.append(1)
        return sign(key, message)

    monkeypatch.setattr(scrams.hmac, "compare_digest", comparing)
    monkeypatch.setattr(scrams, "hmac_sha256", signing)
    monkeypatch.setattr(users, "hmac_sha256", signing)
    work = []
    for user, password in (("ann", "guess"), ("bob", "sesame"), ("bob", "guess"), ("", "")):
        compared.clear()
        hashed.clear()
        assert "Wrong password" == exchange(credentials, user, password)
        work.append((len(compared), len(hashed)))
    assert 1 == len(set(work))
    assert "welcome" == exchange(credentials, "ann", "sesame")


def test_a_stranger_who_knows_the_password_and_the_right_salt_stays_one() -> None:
    credentials = Credentials("ann", "sesame")

    salt = credentials.find("ann").salt

    assert "Wrong password" == exchange(credentials, "bob", "sesame", salt)
    assert "welcome" == exchange(credentials, "ann", "sesame", salt)


def test_a_strangers_salt_is_the_same_each_time_and_nobody_elses() -> None:
    credentials = Credentials("ann", "sesame")

    salts = [credentials.find(name).salt for name in ("ann", "bob", "eve", "bob")]

    assert salts[1] == salts[3]
    assert 3 == len(set(salts))
    assert 1 == len({len(salt) for salt in salts})


def test_the_password_is_kept_nowhere() -> None:
    credentials = Credentials("ann", "sesame-open")
    assert credentials.is_right("ann", "sesame-open")

    assert "sesame-open" not in repr(vars(credentials))


@pytest.mark.parametrize(
    ("user", "password"), [(5, ""), ("ann", None), ("ann", "\ud800"), ("x" * 2_000, ""), (b"a", "")]
)
def test_credentials_that_could_never_match_are_refused_without_being_shown(user: Any, password: Any) -> None:
    with pytest.raises(reactdb.InvalidOption) as caught:
        Credentials(user, password)
    assert "\ud800" not in str(caught.value)


@settings(max_examples=examples(200))
@given(messages=st.lists(st.one_of(st.binary(max_size=60), st.text(max_size=40).map(str.encode)), max_size=4))
@example(
    messages=[
        b'{"protocol_version":0,"authentication_method":"SCRAM-SHA-256","authentication":"n,,n=\\ud800,r=a"}\0'
    ]
)
@example(
    messages=[
        b'{"protocol_version":0,"authentication_method":"SCRAM-SHA-256","authentication":"n,,n=admin,r=\\ud800"}\0',
        b'{"authentication":"c=biws,r=\\ud800,p=AA=="}\0',
    ]
)
@example(messages=[b"[" * 5_000 + b"\0"])
@example(messages=[b"9" * 5_000 + b"\0"])
def test_any_bytes_are_a_handshake_or_the_end_of_it(messages: list[bytes]) -> None:
    shaking = Handshake(Credentials("admin", "sesame"))
    answers = b""
    try:
        answers += shaking.receive(struct.pack("<L", VERSION))
        for message in messages:
            answers += shaking.receive(message)
    except HandshakeFailed as error:
        answers += error.answer
    assert all("success" in json.loads(answer) for answer in answers.split(b"\0")[:-1])
    assert not shaking.is_done


# ---------------------------------------------------------------------------------------------------------------
# The server: how much


def is_closed_within(client: Raw, seconds: float) -> bool:
    client.socket.settimeout(seconds)
    try:
        while client.socket.recv(65_536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


def test_a_client_that_never_shakes_hands_is_sent_away(games_db: Any) -> None:
    with serve_in_thread(games_db, limits=Limits(handshake_s=0.2)) as server:
        with Raw((server.host, server.port)) as client:
            assert is_closed_within(client, 10)
        wait_until(lambda: server.connection_count == 0)


def test_a_client_that_shakes_hands_letter_by_letter_is_sent_away(games_db: Any) -> None:
    with (
        serve_in_thread(games_db, limits=Limits(handshake_s=0.3)) as server,
        Raw((server.host, server.port)) as client,
    ):
        began = time.monotonic()
        client.socket.settimeout(0.02)
        is_over = False
        for letter in struct.pack("<L", VERSION) + b'{"protocol_version": 0' + b" " * 10_000:
            try:
                client.send(bytes([letter]))
                is_over = client.socket.recv(4_096) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                is_over = True
            if is_over:
                break
        assert is_over
        assert time.monotonic() - began < 10


def test_half_a_message_does_not_hold_a_connection(games_db: Any) -> None:
    with (
        serve_in_thread(games_db, limits=Limits(message_s=0.2)) as server,
        Raw((server.host, server.port)) as client,
    ):
        client.shake_hands()
        client.send(struct.pack("<qL", 1, 1_000) + b"[1,")
        assert is_closed_within(client, 10)
        wait_until(lambda: server.connection_count == 0)


def test_a_silent_connection_with_a_feed_may_stay(games_db: Any) -> None:
    with (
        serve_in_thread(games_db, limits=Limits(message_s=0.05, handshake_s=5)) as server,
        Raw((server.host, server.port)) as client,
    ):
        client.shake_hands()
        client.frame(1, b'[1,[152,[[15,["games"]]]]]')
        client.response()
        client.frame(1, b"[2]")
        assert not is_closed_within(client, 0.5)
        client.socket.settimeout(5)
        games_db.table("games").insert({"id": 1})
        assert [{"new_val": {"id": 1}, "old_val": None}] == client.response()[1]["r"]


def test_one_connection_too_many_is_told_so(games_db: Any) -> None:
    with serve_in_thread(games_db, limits=Limits(connections=2)) as server:
        address = (server.host, server.port)
        with Raw(address) as one, Raw(address) as two:
            one.shake_hands()
            two.shake_hands()
            with Raw(address) as three:
                answer = three.everything()
            assert b"2 connections already" in answer
        wait_until(lambda: server.connection_count == 0)
        with Raw(address) as again:
            again.shake_hands()


def test_one_stream_too_many_is_an_error_and_the_others_go_on(games_db: Any) -> None:
    games = games_db.table("games")
    games.insert([{"id": number} for number in range(10)])
    with (
        serve_in_thread(games_db, limits=Limits(streams=3)) as server,
        Raw((server.host, server.port)) as client,
    ):
        client.shake_hands()
        for token in range(3):
            client.frame(token, b'[1,[152,[[15,["games"]]]]]')
            assert 3 == client.response()[1]["t"]
        for body in (b'[1,[152,[[15,["games"]]]]]', b'[1,[15,["games"]],{"max_batch_rows":2}]'):
            client.frame(9, body)
            answer = client.response()[1]
            assert (18, 2_000_000) == (answer["t"], answer["e"])
            assert "3 open streams" in answer["r"][0]
        client.frame(0, b"[3]")
        client.response()
        client.frame(9, b'[1,[152,[[15,["games"]]]]]')
        assert 3 == client.response()[1]["t"]
        assert 3 == subscriptions(games_db)


def test_a_message_above_the_limit_is_refused_before_it_is_read(games_db: Any) -> None:
    with (
        serve_in_thread(games_db, limits=Limits(message_bytes=1_000)) as server,
        Raw((server.host, server.port)) as client,
    ):
        client.shake_hands()
        client.send(struct.pack("<qL", 1, 1_001))
        assert "the limit is 1000 bytes" in client.response()[1]["r"][0]
        assert is_closed_within(client, 10)


@pytest.mark.slow
def test_what_a_client_sends_ahead_does_not_pile_up(games_db: Any) -> None:
    """While one request waits, the next ones stay in the client once there are more of them than one message may have."""
    document = b'[1,[56,[[15,["games"]],{"text":"%b"}]]]' % (b"x" * 100_000)
    with (
        serve_in_thread(games_db, limits=Limits(message_bytes=300_000)) as server,
        Raw((server.host, server.port)) as client,
    ):
        client.shake_hands()
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        client.socket.settimeout(1)
        sent = 0
        with games_db.transaction(), pytest.raises(TimeoutError):
            for token in range(1_000):
                client.frame(token, document)
                sent += 1
        assert sent < 200


def test_a_client_that_reads_nothing_is_sent_away(games_db: Any) -> None:
    games_db.table("games").insert([{"id": number, "text": "x" * 10_000} for number in range(200)])
    with (
        serve_in_thread(games_db, limits=Limits(write_s=0.3)) as server,
        Raw((server.host, server.port)) as client,
    ):
        client.shake_hands()
        for token in range(40):
            client.frame(token, b'[1,[15,["games"]]]')
        wait_until(lambda: server.connection_count == 0, 20)


@pytest.mark.parametrize(
    "limit", ["message_bytes", "connections", "handshake_s", "message_s", "write_s", "streams"]
)
@pytest.mark.parametrize("value", [0, -1, True, None, "5", float("nan"), float("inf"), 10**30])
def test_a_limit_is_a_number_above_zero(limit: str, value: Any) -> None:
    with pytest.raises(reactdb.InvalidOption, match=f"the limit {limit} is"):
        Limits(**{limit: value})


# ---------------------------------------------------------------------------------------------------------------
# The wire: what a query may be


class Asking:
    """A session, and its answers."""

    def __init__(self, db: Any) -> None:
        self.session = Session(db)
        self._token = 0

    def raw(self, body: bytes) -> dict[str, Any]:
        self._token += 1
        frames = self.session.receive(self._token, body)
        assert [self._token] == [frame.token for frame in frames]
        answer: dict[str, Any] = json.loads(frames[0].body)
        self.session.poll()
        if answer["t"] == 3:
            self.session.receive(self._token, b"[3]")
        return answer

    def __call__(self, term: Any, **options: Any) -> dict[str, Any]:
        return self.raw(json.dumps([1, term, options]).encode())


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with reactdb.connect(":memory:") as db:
        games = db.table_create("games")
        games.index_create("a")
        games.insert([{"id": number, "a": "text", "b": [1, {"c": 2}]} for number in range(3)])
        yield Asking(db)


@pytest.mark.parametrize(("number", "name"), [(11, "javascript"), (153, "http")])
def test_a_term_that_would_run_code_or_ask_the_network_is_refused(
    asking: Asking, number: int, name: str
) -> None:
    answer = asking([number, ["1 + 1"]])

    assert answer["t"] in (16, 17, 18)
    assert "1 + 1" not in answer["r"][0]


@pytest.mark.parametrize(
    "body", [b"NaN", b"Infinity", b"-Infinity", b'{"a":NaN}', b"[2,[1,NaN]]", b"1e999", b"1" * 400]
)
def test_a_number_that_json_has_not_is_an_error(asking: Asking, body: bytes) -> None:
    answer = asking.raw(b'[1,[56,[[15,["games"]],{"id":9,"a":%b}]]]' % body)

    assert 18 == answer["t"] or answer["r"][0].get("errors") == 1
    assert 3 == asking([43, [[15, ["games"]]]])["r"][0]


def test_a_lone_surrogate_is_stored_nowhere(asking: Asking) -> None:
    for document in (
        {"id": 9, "a": "\ud800"},
        {"id": 9, "\udfff": 1},
        {"id": "\ud800"},
        {"id": 9, "a": {"b": ["\ud800"]}},
    ):
        answer = asking([56, [[15, ["games"]], document]])
        assert answer["t"] in (16, 17, 18) or answer["r"][0]["errors"] == 1
    assert asking([15, ["\ud800"]])["t"] in (16, 17, 18)
    assert 3 == asking([43, [[15, ["games"]]]])["r"][0]


def test_of_two_equal_names_the_last_one_counts(asking: Asking) -> None:
    """One parser reads a request, so there is no other that could have meant the first."""
    assert [{"a": 2}] == asking.raw(b'[1,{"a":1,"a":2}]')["r"]


@pytest.mark.parametrize("depth", [90, 170, 200, 900, 5_000, 100_000])
def test_what_is_nested_too_deeply_is_an_error(asking: Asking, depth: int) -> None:
    for opening, inside, closing in (
        (b"[2,[", b"1", b"]]"),
        (b'{"a":', b"1", b"}"),
        (b"[", b"", b"]"),
        (b"[24,[", b"1", b",1]]"),
    ):
        answer = asking.raw(b"[1," + opening * depth + inside + closing * depth + b"]")
        assert INTERNAL != answer.get("e"), answer
        if depth > 180:
            assert answer["t"] in (16, 17, 18)
    assert [5] == asking(5)["r"]


def test_the_clients_own_limits_have_limits(asking: Asking) -> None:
    answer = asking([152, [[15, ["games"]]], {"changefeed_queue_size": 10**15}])
    assert 3 == answer["t"]
    answer = asking([51, [[173, [200_000]], "ARRAY"]])
    assert 2_000_000 == answer["e"]
    limits = reactdb.dialects.rethinkdb.session.run_options(asking.session.database, {"array_limit": 10**15})
    assert MAX_ARRAY_LIMIT == limits.array_limit


def test_a_pattern_that_explodes_elsewhere_answers_here(asking: Asking) -> None:
    answer = asking([97, ["a" * 60 + "!", "(a+)+$"]])

    assert [None] == answer["r"]


NUMBERS = st.one_of(st.sampled_from(sorted(TERM_TYPES)), st.integers(0, 200))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**53, 2**63, -(2**64), 1e308, 0.5, -0.0, 10**400]),
    st.sampled_from(
        [
            "games",
            "a",
            "id",
            "",
            "\ud800",
            "\0",
            "x" * 200,
            "(a+)+$",
            "test",
            "rethinkdb",
            "ARRAY",
            "$reql_type$",
        ]
    ),
    st.text(max_size=4),
    st.just([15, ["games"]]),
    st.just([14, ["test"]]),
    st.just([16, [[15, ["games"]], 1]]),
    st.just([13, []]),
    st.just([69, [[2, [1]], [10, [1]]]]),
    st.just([152, [[15, ["games"]]]]),
    st.just({"$reql_type$": "TIME", "epoch_time": 1e300, "timezone": "+00:00"}),
    st.just({"$reql_type$": "BINARY", "data": "!"}),
    st.just({"$reql_type$": ["x"]}),
)
OPTION_NAMES = st.sampled_from(
    [
        "index",
        "squash",
        "conflict",
        "default",
        "multi",
        "return_changes",
        "left_bound",
        "changefeed_queue_size",
        "a",
        "id",
    ]
)
# Waiting, ending and endless terms are no test of what is read: an endless range, a sample of it, a sleep.
TERMS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(NUMBERS, st.lists(inner, max_size=3)).map(list),
        st.tuples(NUMBERS, st.lists(inner, max_size=3), st.dictionaries(OPTION_NAMES, inner, max_size=2)).map(
            list
        ),
        st.dictionaries(st.one_of(OPTION_NAMES, st.text(max_size=3)), inner, max_size=2),
        st.lists(inner, max_size=3),
    ),
    max_leaves=10,
)


def is_endless(term: Any) -> bool:
    """Whether a `range` without an end is somewhere in it, which answers only after ten million elements."""
    if isinstance(term, list):
        return (len(term) > 0 and term[0] == 173) or any(map(is_endless, term))
    return isinstance(term, dict) and any(map(is_endless, term.values()))


@settings(max_examples=examples(400))
@given(term=TERMS)
def test_any_tree_of_terms_gets_one_answer_that_is_no_internal_error(term: Any) -> None:
    if is_endless(term):
        return
    with reactdb.connect(":memory:") as db:
        db.table_create("games").insert([{"id": 1, "a": "text"}, {"id": 2, "a": [1, 2]}])
        asking = Asking(db)
        answer = asking(term)
        assert answer["t"] in (1, 2, 3, 16, 17, 18)
        assert INTERNAL != answer.get("e"), answer
        assert [5] == asking(5)["r"]
        asking.session.close()


@settings(max_examples=examples(200))
@given(
    request=st.one_of(
        st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace"))
    )
)
@example(request=b"[1,5,[]]")
@example(request=b'[1,5,{"array_limit":[]}]')
@example(request=b'[1,5,{"db":5}]')
@example(request=b"[true]")
@example(request=b"[1.0]")
@example(request=b"[1e400]")
@example(request=b"[" + b"9" * 5_000 + b"]")
def test_any_bytes_as_a_request_get_one_answer(asking: Asking, request: bytes) -> None:
    answer = asking.raw(request)

    assert INTERNAL != answer.get("e"), answer


def test_a_server_listens_where_only_this_machine_hears_it(games_db: Any) -> None:
    with serve_in_thread(games_db) as server:
        assert "127.0.0.1" == server.host
        assert threading.active_count() > 1
