"""What every protocol gets from the ground of the servers, over real sockets, in the clear and over TLS.

The protocol is that of `lines`. Nothing sleeps: each wait is for an answer, for the end of a connection, or for a state.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from reactdb.errors import CannotListen, InvalidOption
from reactdb.servers.connection import HIGH_WATER_BYTES
from reactdb.servers.limits import Limits
from reactdb.servers.server import in_thread
from reactdb.servers.tls import tls_context
from reactdb.servers.workers import Workers
from tests.servers.lines import PIECE, Lines, LinesServer, Room
from tests.support.certificates import Certificate, make_certificate
from tests.support.threads import PATIENCE_S, started, wait_until


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: Any) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificates"))


class Client:
    """A socket that sends lines, or anything."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="127.0.0.1")
        self._buffer = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def line(self) -> bytes:
        while b"\n" not in self._buffer:
            data = self.socket.recv(65_536)
            assert data, "the server has closed the connection"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def ask(self, request: bytes) -> bytes:
        self.send(request + b"\n")
        return self.line()

    def everything(self) -> bytes:
        """All bytes until the server closes, or resets the connection."""
        found, self._buffer = self._buffer, b""
        try:
            while data := self.socket.recv(65_536):
                found += data
        except (ConnectionError, ssl.SSLEOFError):
            pass
        return found

    def close(self) -> None:
        self.socket.close()


class Ground:
    """One server of lines, and its clients."""

    def __init__(self, server: LinesServer, client_tls: ssl.SSLContext | None) -> None:
        self.server = server
        self.room = server.room
        self.tls = client_tls
        self.clients: list[Client] = []
        # Threads that read what the server sends while it stops.
        self.readers: list[threading.Thread] = []

    def client(self, *, greets: bool = True) -> Client:
        client = Client(self.server.port, self.tls)
        self.clients.append(client)
        if greets:
            assert b"hello" == client.ask(b"hello")
        return client

    def conversation(self, place: int) -> Lines:
        return self.room.conversations[place]

    def is_deserted(self) -> bool:
        return self.server.connection_count == 0


@pytest.fixture(params=["plain", "tls"])
def opened(request: Any, certificate: Certificate) -> Callable[..., Any]:
    """Opens a server with limits: `with opened(message_s=0.2) as ground`."""
    is_tls = request.param == "tls"

    @contextmanager
    def open_ground(**limits: Any) -> Iterator[Ground]:
        tls = tls_context(certificate.certificate, certificate.key) if is_tls else None
        server = LinesServer(Room(), limits=Limits(**{"stop_s": 0.2, **limits}), tls=tls)
        ground = Ground(server, certificate.client() if is_tls else None)
        try:
            with in_thread(server):
                yield ground
        finally:
            for reader in ground.readers:
                reader.join(PATIENCE_S)
            ground.room.gate.set()
            for client in ground.clients:
                client.close()
        assert ground.is_deserted()
        assert all(conversation.is_closed.is_set() for conversation in ground.room.conversations)
        assert not server.workers.jobs

    return open_ground


def fill_its_buffer(server: LinesServer) -> None:
    """Tell the only client, who listens, two lines that are more than sockets hold. Over TLS asyncio does not count the first."""
    (connection,) = server._connections
    (conversation,) = server.room.conversations
    for _ in range(2):
        server.room.shout(b"x" * 10_000_000)
        wait_until(lambda: not conversation.heard or connection._is_writing_paused)
    wait_until(lambda: connection._is_writing_paused)


# ---------------------------------------------------------------------------------------------------------------
# Requests and answers


def test_requests_that_come_together_are_answered_one_after_the_other(opened: Any) -> None:
    with opened() as ground:
        client = ground.client()
        client.send(b"echo 1\nthink 2\necho 3\nthink 4\necho 5\n")

        assert [b"1", b"2", b"3", b"4", b"5"] == [client.line() for _ in range(5)]


def test_a_request_may_come_letter_by_letter(opened: Any) -> None:
    with opened() as ground:
        client = ground.client()
        for letter in b"think twice\necho x":
            client.send(bytes([letter]))

        assert b"twice" == client.line()
        client.send(b"\n")
        assert b"x" == client.line()


def test_a_long_request_of_one_client_does_not_delay_another(opened: Any) -> None:
    with opened() as ground:
        busy, other = ground.client(), ground.client()
        busy.send(b"wait\n")
        wait_until(lambda: bool(ground.server.workers.jobs))

        assert b"quick" == other.ask(b"echo quick")
        assert b"thought" == other.ask(b"think thought")
        ground.room.gate.set()
        assert b"waited" == busy.line()


def test_a_client_that_sends_much_ahead_does_not_keep_the_others_waiting(opened: Any) -> None:
    """Both have sent when the loop is free again; the one has a thousand quick requests."""
    with opened() as ground:
        greedy, modest = ground.client(), ground.client()
        greedy.send(b"block\n" + b"echo x\n" * 1_000)
        modest.send(b"echo modest\n")
        ground.room.gate.set()

        assert b"modest" == modest.line()
        wait_until(lambda: len(ground.room.done) == 1_004)
        assert ground.room.done.index(b"echo modest") < 900


def test_who_is_woken_is_told_without_a_request(opened: Any) -> None:
    """By another client's request on the loop, by one in a thread, and by a thread that is no server's."""
    with opened() as ground:
        listener, other = ground.client(), ground.client()
        assert b"listening" == listener.ask(b"listen")

        assert b"shouted" == other.ask(b"shout from the loop")
        assert b"from the loop" == listener.line()
        ground.room.shout(b"from outside")
        assert b"from outside" == listener.line()
        for number in range(100):
            ground.room.shout(b"%d" % number)
        assert [b"%d" % number for number in range(100)] == [listener.line() for _ in range(100)]


def test_who_is_woken_while_a_request_runs_is_told_after_its_answer(opened: Any) -> None:
    with opened() as ground:
        listener = ground.client()
        listener.ask(b"listen")
        listener.send(b"wait\n")
        wait_until(lambda: bool(ground.server.workers.jobs))

        ground.room.shout(b"meanwhile")
        ground.room.gate.set()

        assert [b"waited", b"meanwhile"] == [listener.line(), listener.line()]


def test_what_is_due_at_a_moment_is_sent_then(opened: Any) -> None:
    with opened() as ground:
        client = ground.client()
        client.send(b"later on\n")

        assert b"on" == client.line()


def test_an_answer_in_pieces_is_made_as_the_client_reads_it(opened: Any) -> None:
    """A server that made it all at once would hold 64 MiB here."""
    with opened() as ground:
        client = ground.client()
        client.send(b"pour 1000\necho after\n")
        conversation = ground.conversation(0)
        made = [0]

        def is_stalled() -> bool:
            before, made[0] = made[0], conversation.poured
            return made[0] == before > 0

        # The client reads nothing; what the sockets hold is a few MiB.
        stalls = [0]

        def has_stalled() -> bool:
            stalls[0] = stalls[0] + 1 if is_stalled() else 0
            return stalls[0] >= 20

        wait_until(has_stalled)
        assert 1 <= conversation.poured < 500
        for _ in range(1_000):
            assert PIECE[:-1] == client.line()
        assert b"after" == client.line()
        assert HIGH_WATER_BYTES < 1_000 * len(PIECE)


# ---------------------------------------------------------------------------------------------------------------
# The client goes


def test_a_client_that_goes_in_the_middle_of_a_request_cancels_it(opened: Any) -> None:
    with opened() as ground:
        client, other = ground.client(), ground.client()
        client.send(b"wait\n")
        wait_until(lambda: bool(ground.server.workers.jobs))
        client.close()

        assert ground.conversation(0).is_closed.wait(PATIENCE_S)
        assert ground.conversation(0).is_cancelled.is_set()
        wait_until(lambda: ground.server.connection_count == 1)
        assert b"here" == other.ask(b"echo here")


def test_a_client_that_goes_in_the_middle_of_an_answer_leaves_nothing(opened: Any) -> None:
    with opened() as ground:
        client = ground.client()
        client.send(b"pour 10000\n")
        client.line()
        client.close()

        wait_until(ground.is_deserted)
        assert ground.conversation(0).poured < 10_000


def test_a_request_that_waits_for_a_thread_is_not_begun_when_its_client_has_gone(opened: Any) -> None:
    with opened(queries=1) as ground:
        busy, client = ground.client(), ground.client()
        busy.send(b"wait\n")
        wait_until(lambda: bool(ground.server.workers.jobs))
        client.send(b"think in vain\n")
        wait_until(lambda: len(ground.server.workers.jobs) == 2)
        client.close()
        assert ground.conversation(1).is_cancelled.wait(PATIENCE_S)
        ground.room.gate.set()

        assert b"waited" == busy.line()
        wait_until(lambda: ground.server.connection_count == 1)
        assert b"think in vain" not in ground.room.done


def test_a_client_that_sends_nothing_more_and_reads_nothing_does_not_hold_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half closed, it could be written to; but as a client that has gone it has little time."""
    monkeypatch.setattr("reactdb.servers.connection.CLOSING_S", 0.1)
    server = LinesServer(Room())
    with in_thread(server):
        client = Client(server.port)
        client.ask(b"hello")
        client.ask(b"listen")
        fill_its_buffer(server)
        client.socket.shutdown(socket.SHUT_WR)

        wait_until(lambda: server.connection_count == 0)
        client.close()


# ---------------------------------------------------------------------------------------------------------------
# Limits


def test_a_message_above_the_limit_is_answered_while_the_client_still_sends(opened: Any) -> None:
    """A connection that were closed at once would be reset, and the answer lost. Over TLS it is closed at once."""
    with opened(message_bytes=10_000) as ground:
        client = ground.client()
        client.send(b"echo " + b"x" * (20_000_000 if ground.tls is None else 20_000))

        assert b"too long\n" == client.everything()
        client.close()
        wait_until(ground.is_deserted)


def test_a_goodbye_is_the_last_answer(opened: Any) -> None:
    with opened() as ground:
        client = ground.client()
        client.send(b"echo 1\nbye\necho 2\n")

        assert b"1\nbye\n" == client.everything()
        client.close()
        wait_until(ground.is_deserted)
        assert b"echo 2" not in ground.room.done


@pytest.mark.slow
def test_what_a_client_sends_ahead_does_not_pile_up(opened: Any) -> None:
    with opened(message_bytes=100_000) as ground:
        client = ground.client()
        client.send(b"wait\n")
        line = b"count " + b"x" * 50_000 + b"\n"
        sender, outcome = started(lambda: client.send(line * 400))
        conversation = ground.conversation(0)
        wait_until(lambda: conversation.buffered_bytes > 100_000)
        seen = []
        for _ in range(100):
            seen.append(conversation.buffered_bytes)
            ground.client().close()
        # What asyncio reads at a time comes on top.
        assert max(seen) < 100_000 + 2 * 256 * 1024
        assert sender.is_alive()

        ground.room.gate.set()
        # A TLS socket of Python's is for one thread at a time, so what is sent is all gone before the answers are read.
        sender.join(PATIENCE_S)
        assert [None] == outcome
        assert b"waited" == client.line()
        assert [b"50000"] * 400 == [client.line() for _ in range(400)]


def test_a_client_that_is_never_let_in_is_sent_away(opened: Any) -> None:
    with opened(handshake_s=0.2) as ground:
        client = ground.client(greets=False)
        client.send(b"echo")

        assert b"" == client.everything()
        wait_until(ground.is_deserted)


def test_half_a_request_does_not_hold_a_connection_but_silence_may(opened: Any) -> None:
    with opened(message_s=0.2, handshake_s=PATIENCE_S) as ground:
        half, silent = ground.client(), ground.client()
        silent.ask(b"listen")
        half.send(b"echo ha")

        assert b"" == half.everything()
        wait_until(lambda: ground.server.connection_count == 1)
        ground.room.shout(b"still there?")
        assert b"still there?" == silent.line()


@pytest.mark.slow
def test_a_request_that_has_come_while_its_client_read_nothing_came_in_time(opened: Any) -> None:
    """It is the server that has not looked at the rest of it."""
    with opened() as ground:
        client = ground.client()
        client.ask(b"listen")
        client.send(b"echo ha")
        (connection,) = ground.server._connections
        wait_until(lambda: "message" in connection._timers)
        fill_its_buffer(ground.server)
        client.send(b"lf\n")
        wait_until(lambda: ground.conversation(0).buffered_bytes == len(b"echo half\n"))

        connection._loop.call_soon_threadsafe(
            connection._run_timer, "message", connection._see_whether_it_sends
        )

        assert b"half" in [client.line() for _ in range(3)]


def test_a_client_that_reads_nothing_is_sent_away(opened: Any) -> None:
    with opened(write_s=0.2) as ground:
        client = ground.client()
        client.send(b"pour 1000\n")

        wait_until(ground.is_deserted)


def test_one_connection_too_many_is_sent_away(opened: Any) -> None:
    with opened(connections=2) as ground:
        for client in (ground.client(), ground.client()):
            assert b"x" == client.ask(b"echo x")
        if ground.tls is None:
            sentence = b"There are 2 connections already, which is the limit.\n"
            assert sentence == ground.client(greets=False).everything()
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                ground.client(greets=False)
        ground.clients[0].close()
        wait_until(lambda: ground.server.connection_count == 1)
        assert b"again" == ground.client().ask(b"echo again")


def test_a_mistake_of_the_protocol_ends_one_connection_and_is_logged(
    opened: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with opened() as ground:
        client, other = ground.client(), ground.client()
        client.send(b"crash\n")

        assert b"" == client.everything()
        wait_until(lambda: ground.server.connection_count == 1)
        assert b"here" == other.ask(b"echo here")
    assert "a mistake of the protocol's" in caplog.text


# ---------------------------------------------------------------------------------------------------------------
# The server stops


def test_a_server_that_stops_answers_what_it_has_received(opened: Any) -> None:
    """Also what was sent ahead; half a request is no request. The gate opens when the server has stopped listening."""
    with opened(stop_s=PATIENCE_S) as ground:
        busy, listener, pouring, idle = (ground.client() for _ in range(4))
        listener.ask(b"listen")
        pouring.send(b"pour 1000\n")
        pouring.line()
        busy.send(b"wait\nthink of it\necho last\nech")
        received = b"think of it\necho last\nech"
        wait_until(lambda: ground.conversation(0).buffered_bytes == len(received))
        answers: list[bytes] = []

        def read_to_the_end() -> None:
            # The others are told at once; only then may the request go on.
            ground.room.shout(b"last words")
            for client in (listener, idle, busy, pouring):
                answers.append(client.everything())
                # Over TLS the server waits for this.
                client.close()
                if client is idle:
                    ground.room.gate.set()

        ground.readers.append(started(read_to_the_end)[0])
    assert b"last words\nthe server stops\n" == answers[0]
    assert b"the server stops\n" == answers[1]
    assert b"waited\nof it\nlast\nthe server stops\n" == answers[2]
    assert answers[3].endswith(b"x\nthe server stops\n")


def test_a_server_that_stops_does_not_wait_for_ever(opened: Any) -> None:
    """Neither for a request, nor for a client that reads nothing."""
    with opened(stop_s=0.1) as ground:
        busy, deaf = ground.client(), ground.client()
        busy.send(b"wait\n")
        deaf.send(b"pour 1000\n")
        wait_until(lambda: bool(ground.server.workers.jobs) and ground.conversation(1).poured > 0)

    assert ground.conversation(0).is_cancelled.is_set()
    assert ground.conversation(1).poured < 1_000


def test_nobody_connects_to_a_server_that_has_stopped(opened: Any) -> None:
    with opened() as ground:
        ground.client()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ground.server.port), timeout=1)


@pytest.mark.parametrize("rounds", range(8))
@pytest.mark.parametrize("is_tls", [False, True])
def test_a_client_that_connects_while_the_server_stops_is_disconnected(
    certificate: Certificate, rounds: int, is_tls: bool
) -> None:
    """Whatever asyncio has done for it by then: it accepts a client, asks for its connection and says so in three rounds of its
    loop."""
    tls = tls_context(certificate.certificate, certificate.key) if is_tls else None
    server = LinesServer(Room(), limits=Limits(stop_s=0.2), tls=tls)

    async def stop_while_it_connects() -> None:
        await server.start()
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as client:
            for _ in range(rounds):
                await asyncio.sleep(0)
            await server.close()
            assert 0 == server.connection_count
            assert {asyncio.current_task()} == asyncio.all_tasks()
            with suppress(ConnectionError):
                while client.recv(100):  # Words of farewell.
                    pass

    asyncio.run(stop_while_it_connects())
    # A transport that nobody closed says so here.
    gc.collect()


# ---------------------------------------------------------------------------------------------------------------
# Servers side by side


def test_servers_side_by_side_have_one_thread_and_wake_each_other() -> None:
    room, workers = Room(), Workers(4)
    servers = [LinesServer(room, workers=workers) for _ in range(2)]
    before = {thread.name for thread in threading.enumerate()}
    with in_thread(*servers):
        assert {"reactdb-servers"} == {thread.name for thread in threading.enumerate()} - before
        one, other = (Client(server.port) for server in servers)
        assert b"listening" == one.ask(b"listen")
        assert b"shouted" == other.ask(b"shout over there")
        assert b"over there" == one.line()
        one.close()
        other.close()
    workers.close()


def test_a_port_in_use_is_an_error_at_once_and_leaves_no_thread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        first, second = LinesServer(Room()), LinesServer(Room(), port=port)
        with pytest.raises(OSError, match="in use"), in_thread(first, second):
            raise AssertionError("it listens")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", first.port), timeout=1)
    assert "reactdb-servers" not in {thread.name for thread in threading.enumerate()}


def test_a_path_where_a_server_listens_is_not_taken_from_it(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    with in_thread(LinesServer(Room(), path=path)):
        with (
            pytest.raises(CannotListen, match=rf"^the socket {path} is in use$"),
            in_thread(LinesServer(Room(), path=path)),
        ):
            raise AssertionError("it listens")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE_S)
            client.connect(path)
            client.sendall(b"hello\n")
            assert client.recv(100)


def test_a_socket_that_a_killed_server_has_left_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    with in_thread(LinesServer(Room(), path=path)), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing/s.sock", "cannot be listened on: No such file or directory"),
        ("notes.txt", "cannot be listened on: it is a file"),
        ("x" * 200, "cannot be listened on: AF_UNIX path too long"),
    ],
    ids=["folder", "file", "length"],
)
def test_a_path_that_can_be_no_socket_is_named(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("text")
    path = str(tmp_path / name)
    with (
        pytest.raises(CannotListen, match=rf"^the socket {path} {words}$"),
        in_thread(LinesServer(Room(), path=path)),
    ):
        raise AssertionError("it listens")
    assert "text" == (tmp_path / "notes.txt").read_text()


# ---------------------------------------------------------------------------------------------------------------
# TLS


def test_a_client_that_speaks_no_tls_is_disconnected(certificate: Certificate) -> None:
    server = LinesServer(Room(), tls=tls_context(certificate.certificate, certificate.key))
    with in_thread(server):
        client = Client(server.port)
        client.send(b"hello\n" * 100)
        assert b"hello" not in client.everything()
        client.close()
        wait_until(lambda: server.connection_count == 0)
    assert [] == server.room.conversations


def test_a_client_that_does_not_finish_its_tls_handshake_counts_and_is_sent_away(
    certificate: Certificate,
) -> None:
    tls = tls_context(certificate.certificate, certificate.key)
    server = LinesServer(Room(), tls=tls, limits=Limits(handshake_s=0.3))
    with in_thread(server):
        client = Client(server.port)
        wait_until(lambda: server.connection_count == 1)
        assert b"" == client.everything()
        wait_until(lambda: server.connection_count == 0)
        client.close()


def test_a_client_in_its_tls_handshake_does_not_hold_up_a_stop(certificate: Certificate) -> None:
    tls = tls_context(certificate.certificate, certificate.key)
    server = LinesServer(Room(), tls=tls, limits=Limits(stop_s=PATIENCE_S))
    with in_thread(server):
        client = Client(server.port)
        wait_until(lambda: server.connection_count == 1)
    assert b"" == client.everything()
    client.close()


def test_what_comes_in_one_packet_with_the_end_of_the_tls_handshake_is_heard(
    certificate: Certificate,
) -> None:
    """It is there before the server has been told that the handshake is over."""
    server = LinesServer(Room(), tls=tls_context(certificate.certificate, certificate.key))
    with in_thread(server):
        client = Client(server.port)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = certificate.client().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        is_over = False
        while not is_over:
            try:
                tls.do_handshake()
                is_over = True
                tls.write(b"hello\n")
            except ssl.SSLWantReadError:
                pass
            client.send(outgoing.read())
            if not is_over:
                incoming.write(client.socket.recv(65_536))
        answer = b""
        while not answer:
            data = client.socket.recv(65_536)
            assert data, "the server has closed the connection"
            incoming.write(data)
            try:
                answer = tls.read()
            except ssl.SSLWantReadError:
                pass
        assert b"hello\n" == answer
        client.close()


def test_a_client_that_does_not_trust_the_certificate_says_so(certificate: Certificate) -> None:
    server = LinesServer(Room(), tls=tls_context(certificate.certificate, certificate.key))
    with in_thread(server):
        with pytest.raises(ssl.SSLCertVerificationError):
            Client(server.port, ssl.create_default_context())
        wait_until(lambda: server.connection_count == 0)
        old = certificate.client()
        old.minimum_version = ssl.TLSVersion.TLSv1_2
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        client = Client(server.port, old)
        assert b"hello" == client.ask(b"hello")
        client.close()


def test_files_that_are_no_certificate_and_key_are_refused_by_name(
    certificate: Certificate, tmp_path: Any
) -> None:
    hidden = make_certificate(tmp_path, "hidden", password="sesame")
    other = make_certificate(tmp_path, "other")
    nothing, text = tmp_path / "nothing.pem", tmp_path / "text.pem"
    text.write_text("no certificate")
    for sentence, files in (
        ("nothing.pem cannot be read: No such file", (nothing, certificate.key)),
        ("nothing.pem cannot be read: No such file", (certificate.certificate, nothing)),
        ("are not a certificate and a private key in PEM", (text, certificate.key)),
        ("are not a certificate and a private key in PEM", (certificate.certificate, text)),
        ("other.key is not that of the certificate", (certificate.certificate, other.key)),
        ("hidden.key is encrypted; a server needs it decrypted", (hidden.certificate, hidden.key)),
    ):
        with pytest.raises(InvalidOption, match=sentence):
            tls_context(*files)
