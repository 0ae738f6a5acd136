"""Users and their salted hashes: the file, the command that writes it, and what is told of whom."""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from reactdb.errors import InvalidOption
from reactdb.servers.scram import Scram
from reactdb.servers.users import ITERATIONS, Credentials, User, main, read_users


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.txt"


def add(file: Path, name: str, password: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(password + "\n"))
    return main([str(file), name])


def test_the_command_adds_users_and_changes_passwords(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert [0, 0] == [
        add(file, name, password, monkeypatch) for name, password in (("ann", "a"), ("bob", "b"))
    ]
    before = file.read_text().splitlines()
    file.write_text("# who may come in\n\n" + file.read_text())
    assert 0 == add(file, "ann", "other", monkeypatch)

    lines = file.read_text().splitlines()
    assert ["# who may come in", ""] == lines[:2]
    assert lines[2].startswith(f"ann:SCRAM-SHA-256${ITERATIONS}:")
    assert before[1:] == lines[3:]
    known = Credentials.from_file(file)
    assert [True, True] == [known.is_right("ann", "other"), known.is_right("bob", "b")]
    assert "added bob in" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")
def test_a_new_file_is_read_by_its_owner_only_and_an_old_one_keeps_its_mode(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(file, "ann", "sesame", monkeypatch)
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    file.chmod(0o640)
    add(file, "bob", "sesame", monkeypatch)

    assert 0o640 == stat.S_IMODE(file.stat().st_mode)
    assert [file] == list(file.parent.iterdir())


def test_neither_the_password_nor_anything_equal_for_two_users_is_in_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(file, "ann", "sesame", monkeypatch)
    add(file, "bob", "sesame", monkeypatch)

    assert "sesame" not in file.read_text()
    ann, bob = read_users(file).values()
    assert (ann.salt, ann.stored_key, ann.server_key) != (bob.salt, bob.stored_key, bob.server_key)
    assert not {ann.salt, ann.stored_key, ann.server_key} & {bob.salt, bob.stored_key, bob.server_key}


@pytest.mark.parametrize(
    ("name", "password", "sentence"),
    [
        ("ann", "", "the password is empty; nothing was written"),
        ("", "a", "a user's name in a file is not empty"),
        ("#ann", "a", "begins with no `#`"),
        ("a:b", "a", "has no `:`"),
        ("a\nb", "a", "a user's name in a file"),
        ("ann", "x" * 2_000, "password is a text of at most 1,024 characters"),
    ],
)
def test_what_a_line_cannot_hold_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, name: str, password: str, sentence: str
) -> None:
    assert 1 == add(file, name, password, monkeypatch)
    assert sentence in capsys.readouterr().err
    assert not file.exists()


def test_two_passwords_that_differ_are_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    typed = iter(("sesame", "seasme"))

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))

    assert 1 == main([str(file), "ann"])
    assert "the two passwords differ; nothing was written" in capsys.readouterr().err


GOOD = User.of("ann", "sesame", 5_000).line()


@pytest.mark.parametrize(
    "line",
    [
        "ann:sesame",
        "ann",
        ":" + GOOD.partition(":")[2],
        GOOD.replace("SHA-256", "SHA-1"),
        GOOD.replace("5000", "0"),
        GOOD.replace("5000", "99999999999"),
        GOOD.replace("5000", "many"),
        GOOD[:-4],
        GOOD + ":x",
        GOOD.replace("$", "$!", 2),
    ],
)
def test_a_line_that_is_none_is_named_by_its_number_and_not_repeated(file: Path, line: str) -> None:
    file.write_text(f"# users\n{GOOD.replace('ann', 'bob')}\n{line}\n")

    with pytest.raises(InvalidOption, match=r"^line 3 of the file of users .*users\.txt") as caught:
        Credentials.from_file(file)
    assert "sesame" not in str(caught.value)


def test_a_file_that_is_missing_empty_or_no_text_is_refused(file: Path) -> None:
    with pytest.raises(InvalidOption, match="cannot be read: No such file"):
        Credentials.from_file(file)
    file.write_text("# nobody\n")
    with pytest.raises(InvalidOption, match="has no users; add one with `python -m"):
        Credentials.from_file(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidOption, match="cannot be read: it is not UTF-8"):
        Credentials.from_file(file)
    file.write_text(f"{GOOD}\n{GOOD}\n")
    with pytest.raises(InvalidOption, match=r"line 2 .* names ann again"):
        Credentials.from_file(file)


def test_a_file_that_is_damaged_is_not_written_over(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file.write_text("what is this?\n")

    assert 1 == add(file, "ann", "sesame", monkeypatch)
    assert "what is this?\n" == file.read_text()
    assert "line 1 of the file of users" in capsys.readouterr().err


def test_only_the_right_password_of_the_right_user_is_right() -> None:
    credentials = Credentials("ann", "sesame")
    for _ in range(2):
        assert credentials.is_right("ann", "sesame")
        for name, password in (("ann", "guess"), ("ann", ""), ("bob", "sesame"), ("", ""), ("ann", "\ud800")):
            assert not credentials.is_right(name, password)


def test_a_name_that_is_taken_for_a_users_is_told_as_that_users() -> None:
    """The name that came has a character that UTF-8 cannot carry: nobody could be shown it."""
    exchange = Scram(Credentials("a?", "sesame"))
    exchange.first("n,,n=a\ud800,r=nonce")

    assert "a?" == exchange.user


def test_a_right_password_is_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends it with each request would pay 30 ms each time. A wrong one is hashed each time."""
    credentials, hashed = Credentials("ann", "sesame"), []
    derived = __import__("reactdb.servers.users", fromlist=["derive_keys"]).derive_keys
    monkeypatch.setattr(
        "reactdb.servers.users.derive_keys", lambda *given: (hashed.append(given[0]), derived(*given))[1]
    )
    answers = [credentials.is_right("ann", password) for password in ("sesame", "sesame", "guess", "guess")]

    assert [True, True, False, False] == answers
    assert ["sesame", "guess", "guess"] == hashed


def test_a_stranger_looks_like_a_user_after_a_restart_too(file: Path) -> None:
    file.write_text(GOOD + "\n")
    first, second = Credentials.from_file(file), Credentials.from_file(file)
    ann, bob = first.find("ann"), first.find("bob")

    assert (ann.salt, ann.iterations) == (second.find("ann").salt, 5_000)
    assert (bob.salt, bob.iterations) == (second.find("bob").salt, 5_000)
    assert len(ann.salt) == len(bob.salt)
    assert bob.stored_key != second.find("bob").stored_key, "no password is a stranger's"


@pytest.mark.parametrize("pressed", [KeyboardInterrupt, EOFError])
def test_a_password_that_is_not_given_writes_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, pressed: type[BaseException]
) -> None:
    """Ctrl-C or Ctrl-D where it is asked for."""

    def ask(_: str) -> str:
        raise pressed

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", ask)

    assert 1 == main([str(file), "ann"])
    assert "reactdb: no password was given; nothing was written" in capsys.readouterr().err
    assert not file.exists()
