"""Credentials: who may use a server, with salted hashes in place of passwords.

    python -m reactdb.servers.users FILE NAME       adds the user, or changes the password, which is asked for

A line of the file is one user: the name, a colon, and what SCRAM-SHA-256 keeps instead of the password, as PostgreSQL writes it.
Lines that are empty or begin with `#` say nothing. To remove a user, delete the line.

    ann:SCRAM-SHA-256$100000:SALT$STORED_KEY:SERVER_KEY

One hash serves every protocol: SCRAM compares proofs with it, and where a client sends its password, that is hashed again.

Rule of this file: no socket. A password is kept nowhere and is in no message.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import hashlib
import hmac
import os
import secrets
import sys
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reactdb.errors import InvalidOption, ReactDBError, shown

__all__ = ["Credentials", "User", "hmac_sha256"]

MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 100_000
"""For a hash that lies in a file: a guess costs a thief 30 ms. Each connection costs its client as much."""

QUICK_ITERATIONS: Final = 4_096
"""RFC 7677's least, for a hash that is only in memory: more would only slow connecting down."""

MAX_TEXT_CHARACTERS: Final = 1_024
MAX_ITERATIONS: Final = 10_000_000
SALT_BYTES: Final = 18
HASH_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class User:
    """A name, and what is kept instead of the password."""

    name: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, name: str, password: str, iterations: int = ITERATIONS) -> User:
        """
        Raises:
            InvalidOption: A name or a password that is no text, too long, or one that UTF-8 cannot carry.
        """
        for what, text in (("user", name), ("password", password)):
            # The message does not repeat it: it may be a password.
            if not isinstance(text, str) or len(text) > MAX_TEXT_CHARACTERS or not is_utf8(text):
                raise InvalidOption(f"{what} is a text of at most {MAX_TEXT_CHARACTERS:,} characters")
        salt = secrets.token_bytes(SALT_BYTES)
        return cls(name, iterations, salt, *derived(password, salt, iterations))

    def line(self) -> str:
        """The user as a line of a file.

        Raises:
            InvalidOption: The name is empty, or has a character that a line cannot hold.
        """
        if not self.name or self.name[0] in "# " or ":" in self.name or not self.name.isprintable():
            raise InvalidOption(
                "a user's name in a file is not empty, begins with no `#` or space and has no `:`, "
                f"unlike {shown(self.name)}"
            )
        salt, stored, server = (
            b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"{self.name}:{MECHANISM}${self.iterations}:{salt}${stored}:{server}"

    @classmethod
    def from_line(cls, line: str) -> User:
        """
        Raises:
            ValueError: The line is not of that form.
        """
        name, _, rest = line.partition(":")
        mechanism, parameters, keys = rest.split("$")
        iterations, salt = parameters.split(":")
        stored, server = (b64decode(part, validate=True) for part in keys.split(":"))
        is_known = mechanism == MECHANISM and 1 <= int(iterations) <= MAX_ITERATIONS
        if not (name and is_known and len(stored) == len(server) == HASH_BYTES):
            raise ValueError("a line that is none of a user's")
        return cls(name, int(iterations), b64decode(salt, validate=True), stored, server)


class Credentials:
    """The users of a server: by default `admin` without a password; `from_file` for several.

    Attributes:
        has_password: Nobody is let in without one, as far as is known: of a file's users only hashes are.

    Raises:
        InvalidOption: A name or a password that is no text, or one that UTF-8 cannot carry.

    Thread safety: any thread.
    """

    def __init__(self, user: str = "admin", password: str = "") -> None:
        self._keep([User.of(user, password, QUICK_ITERATIONS)])
        self.has_password = password != ""

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Credentials:
        """The users of a file.

        Raises:
            InvalidOption: The file cannot be read, or names nobody, or a line is not one of a user; names the file and the line.
        """
        found = read_users(Path(path))
        if not found:
            raise InvalidOption(
                f"the file of users {path} names nobody; add one with `python -m reactdb.servers.users {path} NAME`"
            )
        credentials = cls.__new__(cls)
        credentials._keep(list(found.values()))
        credentials.has_password = True
        return credentials

    def _keep(self, users: list[User]) -> None:
        # Names are found by a keyed hash, so how long that takes tells nothing about names that are similar. The key comes from
        # the users: a stranger's salt stays the same over restarts, as a user's does.
        self._key = hashlib.sha256(b"".join(user.server_key for user in users)).digest()
        self._users = {self._place(user.name): user for user in users}
        self._iterations = users[0].iterations
        self._session_key = secrets.token_bytes(HASH_BYTES)
        # Place of a user -> keyed hash of the password that was right. It saves those who send it with each request 30 ms.
        self._verified: dict[bytes, bytes] = {}

    def _place(self, name: str) -> bytes:
        return hmac_sha256(self._key, name.encode("utf-8", "replace"))

    def find(self, name: str) -> User:
        """The user of that name. Of a stranger, one is made up: always the same, and without any password that would be right."""
        place = self._place(name)
        stranger = User(
            name,
            self._iterations,
            hmac_sha256(place, b"salt")[:SALT_BYTES],
            hmac_sha256(self._session_key, place),
            place,
        )
        return self._users.get(place, stranger)

    def is_right(self, name: str, password: str) -> bool:
        """Whether this is the user's password, for protocols whose clients send it. The first time for a user it takes 30 ms, so
        ask in a thread."""
        if self.was_right(name, password):
            return True
        user = self.find(name)
        stored_key, _ = derived(password, user.salt, user.iterations)
        if not hmac.compare_digest(stored_key, user.stored_key):
            return False
        self._verified[self._place(name)] = self._kept(password)
        return True

    def was_right(self, name: str, password: str) -> bool:
        """Whether `is_right` has found this password to be the user's before. It takes some microseconds."""
        return hmac.compare_digest(self._verified.get(self._place(name), b""), self._kept(password))

    def _kept(self, password: str) -> bytes:
        return hmac_sha256(self._session_key, password.encode("utf-8", "replace"))


def derived(password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """(the key by which a client's proof is checked, the key by which the server proves itself)."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("utf-8", "replace"), salt, iterations)
    client_key = hmac_sha256(salted, b"Client Key")
    return hashlib.sha256(client_key).digest(), hmac_sha256(salted, b"Server Key")


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


# ---------------------------------------------------------------------------------------------------------------
# The file


def read_users(path: Path) -> dict[str, User]:
    """Name -> user.

    Raises:
        InvalidOption.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidOption(f"the file of users {path} cannot be read: {reason}") from None
    found: dict[str, User] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            user = User.from_line(line.rstrip())
        except (ValueError, Base64Error):
            # The line is not repeated: somebody may have written a password there.
            raise InvalidOption(
                f"line {number} of the file of users {path} is none that `python -m reactdb.servers.users` writes"
            ) from None
        if user.name in found:
            raise InvalidOption(f"line {number} of the file of users {path} names {user.name} again")
        found[user.name] = user
    return found


def write_user(path: Path, user: User) -> bool:
    """Add the user to the file, or change the line. Whether the user is new. Other lines stay as they are.

    A new file can be read by its owner only. The file is replaced whole, so a crash leaves the old one or the new one.
    """
    line = user.line()
    lines = []
    if path.exists():
        read_users(path)
        lines = path.read_text(encoding="utf-8").splitlines()
    places = [place for place, old in enumerate(lines) if old.startswith(f"{user.name}:")]
    for place in places:
        lines[place] = line
    if not places:
        lines.append(line)
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        with open(
            os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write("".join(f"{one}\n" for one in lines))
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.chmod(beside, path.stat().st_mode & 0o777)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    return not places


def asked_password(name: str) -> str:
    """The password from the terminal, asked twice, or else the first line of standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    try:
        password = getpass.getpass(f"Password of {name}: ")
        again = getpass.getpass("Once more: ")
    except (KeyboardInterrupt, EOFError):
        raise InvalidOption("no password was given; nothing was written") from None
    if password != again:
        raise InvalidOption("the two passwords differ; nothing was written")
    return password


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m reactdb.servers.users",
        description="Add a user to a file for `reactdb serve --users FILE`, or change the password.",
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("name")
    given = parser.parse_args(arguments)
    try:
        password = asked_password(given.name)
        if not password:
            raise InvalidOption("the password is empty; nothing was written")
        is_new = write_user(given.file, User.of(given.name, password))
    except (ReactDBError, OSError) as error:
        print(f"reactdb: {error}", file=sys.stderr)
        return 1
    print(f"{'added' if is_new else 'changed the password of'} {given.name} in {given.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
