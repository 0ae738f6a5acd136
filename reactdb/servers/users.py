"""Credentials: the users of a server, with salted hashes in place of passwords.

    python -m reactdb.servers.users FILE NAME       adds the user, or changes the password; it prompts for the password

A line of the file is one user: the name, a colon, and SCRAM-SHA-256's hash of the password, in PostgreSQL's form. Empty lines and
lines that begin with `#` are ignored. To remove a user, delete the line.

    ann:SCRAM-SHA-256$100000:SALT$STORED_KEY:SERVER_KEY

One hash serves every protocol: SCRAM compares proofs with it, and a password from a client is hashed again.

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

from reactdb.errors import InvalidOption, ReactDBError, format_value

__all__ = ["Credentials", "User", "hmac_sha256"]

MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 100_000
"""For a hash in a file: a guess costs a thief 30 ms. Each connection costs its client as much."""

QUICK_ITERATIONS: Final = 4_096
"""RFC 7677's minimum, for a hash in memory only: more would only slow connecting down."""

MAX_TEXT_CHARACTERS: Final = 1_024
MAX_ITERATIONS: Final = 10_000_000
SALT_BYTES: Final = 18
HASH_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class User:
    """A name, and the hash of its password."""

    name: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, name: str, password: str, iterations: int = ITERATIONS) -> User:
        """
        Raises:
            InvalidOption: A name or a password is no text, too long, or impossible in UTF-8.
        """
        for what, text in (("user", name), ("password", password)):
            # The message does not repeat it: it may be a password.
            if not isinstance(text, str) or len(text) > MAX_TEXT_CHARACTERS or not is_utf8(text):
                raise InvalidOption(f"{what} is a text of at most {MAX_TEXT_CHARACTERS:,} characters")
        salt = secrets.token_bytes(SALT_BYTES)
        return cls(name, iterations, salt, *derive_keys(password, salt, iterations))

    def line(self) -> str:
        """The user as a line of a file.

        Raises:
            InvalidOption: The name is empty, or has a character that a line cannot hold.
        """
        if not self.name or self.name[0] in "# " or ":" in self.name or not self.name.isprintable():
            raise InvalidOption(
                "a user's name in a file is not empty, begins with no `#` or space and has no `:`, "
                f"unlike {format_value(self.name)}"
            )
        salt, stored, server = (
            b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"{self.name}:{MECHANISM}${self.iterations}:{salt}${stored}:{server}"

    @classmethod
    def from_line(cls, line: str) -> User:
        """
        Raises:
            ValueError: The line does not have that form.
        """
        name, _, rest = line.partition(":")
        mechanism, parameters, keys = rest.split("$")
        iterations, salt = parameters.split(":")
        stored, server = (b64decode(part, validate=True) for part in keys.split(":"))
        is_known = mechanism == MECHANISM and 1 <= int(iterations) <= MAX_ITERATIONS
        if not (name and is_known and len(stored) == len(server) == HASH_BYTES):
            raise ValueError("a line that is no user")
        return cls(name, int(iterations), b64decode(salt, validate=True), stored, server)


class Credentials:
    """The users of a server: by default `admin` without a password; `from_file` for several.

    Attributes:
        has_password: Whether a password is needed, as far as is known: a file has only hashes of passwords.

    Raises:
        InvalidOption: A name or a password is no text, or impossible in UTF-8.

    Thread safety: any thread.
    """

    def __init__(self, user: str = "admin", password: str = "") -> None:
        self._keep([User.of(user, password, QUICK_ITERATIONS)])
        self.has_password = password != ""

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Credentials:
        """The users of a file.

        Raises:
            InvalidOption: The file cannot be read, or has no users, or a wrong line; the error names the file and the line.
        """
        users = read_users(Path(path))
        if not users:
            raise InvalidOption(
                f"the file of users {path} has no users; add one with `python -m reactdb.servers.users {path} NAME`"
            )
        credentials = cls.__new__(cls)
        credentials._keep(list(users.values()))
        credentials.has_password = True
        return credentials

    def _keep(self, users: list[User]) -> None:
        # Names are found by a keyed hash, so the time of a search gives no hint about similar names. The key comes from the
        # users, so that a stranger's salt stays the same over restarts, as a user's salt does.
        self._key = hashlib.sha256(b"".join(user.server_key for user in users)).digest()
        self._users = {self._place(user.name): user for user in users}
        self._iterations = users[0].iterations
        self._session_key = secrets.token_bytes(HASH_BYTES)
        # Place of a user -> keyed hash of the right password. It saves 30 ms if a client sends the password with each request.
        self._verified: dict[bytes, bytes] = {}

    def _place(self, name: str) -> bytes:
        return hmac_sha256(self._key, name.encode("utf-8", "replace"))

    def find(self, name: str) -> User:
        """The user of that name. For an unknown name, a made-up user: always the same, and without any right password."""
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
        """Whether this is the user's password, for protocols in which clients send it. The first time for a user it takes 30 ms,
        so call it in a thread."""
        if self.was_right(name, password):
            return True
        user = self.find(name)
        stored_key, _ = derive_keys(password, user.salt, user.iterations)
        if not hmac.compare_digest(stored_key, user.stored_key):
            return False
        self._verified[self._place(name)] = self._cache_key(password)
        return True

    def was_right(self, name: str, password: str) -> bool:
        """Whether `is_right` has found this password to be the user's before. It takes some microseconds."""
        return hmac.compare_digest(self._verified.get(self._place(name), b""), self._cache_key(password))

    def _cache_key(self, password: str) -> bytes:
        return hmac_sha256(self._session_key, password.encode("utf-8", "replace"))


def derive_keys(password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """(the key for checking a client's proof, the key for the server's own proof)."""
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
    users: dict[str, User] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            user = User.from_line(line.rstrip())
        except (ValueError, Base64Error):
            # The line is not repeated: it may contain a password.
            raise InvalidOption(
                f"line {number} of the file of users {path} is not in the form that `python -m reactdb.servers.users` writes"
            ) from None
        if user.name in users:
            raise InvalidOption(f"line {number} of the file of users {path} names {user.name} again")
        users[user.name] = user
    return users


def write_user(path: Path, user: User) -> bool:
    """Add a user to the file, or change the line of an existing user. Other lines stay as they are.

    A new file can be read by its owner only. The file is replaced as a whole, so a crash leaves the old or the new file.

    Returns:
        Whether the user is new.
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


def read_password(name: str) -> str:
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
        password = read_password(given.name)
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
