"""Activity: what each process that has a file open does with it: its feeds, and how far each of them is.

A process knows its own feeds only, so the others are asked, by files in a folder of the user's:

    TMPDIR/reactdb-UID/DEVICE-INODE/QUESTION.ask                       made by the asking process
    TMPDIR/reactdb-UID/DEVICE-INODE/QUESTION.ask.PROCESS.json          made by each process that has feeds on this file

A process with feeds has a thread that looks at the file anyway (`follow`). With each rare look this thread also looks into
the folder, and answers. So without a question there is no folder, and a look is one system call. The asking process touches
the write-ahead log, so that the rare look is made now. A process without feeds has no such thread, and nothing to say. The
asking process waits for a moment, reads the answers, and removes everything.

The folder belongs to the user alone, because the temporary folder is shared: another user could put a link there, or read
the selections. If it belongs to somebody else, nobody is asked. So processes of other users, of containers with another
temporary folder or other users' numbers, and of Windows, which has no such numbers, are not seen.

Rule of this file: a question never fails, slows or ends what it asks about.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

from reactdb.clock import time_text
from reactdb.logs import logger
from reactdb.store.engine import Engine
from reactdb.store.file import fork
from reactdb.store.file.identity import read_identity

MOST_FEEDS: Final = 1_000
"""Feeds of one process that are described; of all others only the number is given."""
# After this time a question is no longer answered, and its files may be removed: the process that asked is gone.
STALE_S: Final = 60.0
MOST_BYTES: Final = 16_000_000
QUESTION, ANSWER = ".ask", ".json"

ASKED: Final = "asked"
ONLY_THIS: Final = "wait_s is 0, so only this process is described"
IN_MEMORY: Final = "a database in memory belongs to this process"
NO_USERS: Final = "this system has no user numbers, so processes cannot find each other safely"


class Answers(NamedTuple):
    """
    Attributes:
        others: "asked", or a sentence that says why other processes could not be asked.
        processes: The other processes, by number.
    """

    others: str
    processes: list[dict[str, Any]]


# ---------------------------------------------------------------------------------------------------------------
# This process


def describe_process(engine: Engine) -> dict[str, Any]:
    """This process as an element of `processes` of `Database.activity`."""
    head = engine.newest_seq()
    feeds: list[dict[str, Any]] = []
    number = 0
    since = engine.opened_ms
    for one in (engine, engine.twin):
        if one is None:
            continue
        since = min(since, one.opened_ms)
        listener = one.publisher.listener
        if listener is not None:
            some, found = listener.describe_feeds(MOST_FEEDS - len(feeds), head)
            feeds += some
            number += found
    return {
        "process": os.getpid(),
        "program": name_program(),
        "is_this": True,
        "since": time_text(since),
        "feed_count": number,
        "feeds": feeds,
    }


def name_program() -> str:
    """The running program in a word or two: the last part of `sys.argv[0]`."""
    first = sys.argv[0] if getattr(sys, "argv", None) else ""
    folder, name = os.path.split(first)
    if name == "__main__.py":
        # `python -m package`
        name = os.path.basename(folder)
    return "python -c" if name == "-c" else name or "python"


# ---------------------------------------------------------------------------------------------------------------
# The folder


def find_folder(engine: Engine) -> tuple[str, str] | None:
    """The user's folder, and in it the folder of this file; None where the file is at its path no more."""
    identity = read_identity(engine.path)
    if identity is None:
        return None
    user = user_folder()
    return user, os.path.join(user, f"{identity[0]:x}-{identity[1]:x}")


def user_folder() -> str:
    """The user's folder; it may not be there."""
    return os.path.join(temporary_folder(), f"reactdb-{os.getuid()}")


def temporary_folder() -> str:
    """The system's folder for temporary files. Not `tempfile.gettempdir()`, which writes a file to try it."""
    for name in ("TMPDIR", "TEMP", "TMP"):
        folder = os.environ.get(name)
        if folder and os.path.isdir(folder):
            return os.path.abspath(folder)
    return "/tmp"


def is_safe(folder: str) -> bool:
    """Whether the folder is there, and nobody but this user can look or write into it.

    Raises:
        OSError: It is not there.
    """
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


# ---------------------------------------------------------------------------------------------------------------
# Asking


def ask_others(engine: Engine, wait_s: float) -> Answers:
    """Ask all other processes that have feeds on the file, and wait for their answers."""
    if engine.is_memory:
        return Answers(IN_MEMORY, [])
    if not hasattr(os, "getuid"):
        return Answers(NO_USERS, [])
    try:
        places = find_folder(engine)
        if places is None:
            return Answers("the file is not at its path any more", [])
        user, folder = places
        with suppress(FileExistsError):
            os.mkdir(user, 0o700)
        if not is_safe(user):
            return Answers(f"{user} is no folder of this user's alone, and so it is not used", [])
        question = f"{os.getpid()}-{os.urandom(6).hex()}{QUESTION}"
        path = os.path.join(folder, question)
        _own_questions.add(question)
        try:
            _write_question(folder, path)
            # A process that waits for reports of the system (see `file.file_events`) looks now. Another one looks soon.
            with suppress(OSError):
                os.utime(f"{engine.path}-wal")
            _remove_stale(folder, question)
            time.sleep(wait_s)
            return Answers(ASKED, _read_answers(folder, question))
        finally:
            _own_questions.discard(question)
            _remove(folder, [name for name in os.listdir(folder) if name.startswith(question)])
            # Unless another process is asking.
            with suppress(OSError):
                os.rmdir(folder)
    except OSError as error:
        return Answers(f"the folder of questions cannot be used: {error}", [])


# The questions of this process: it needs no answer of its own.
_own_questions: set[str] = set()


def _write_question(folder: str, path: str) -> None:
    for is_last in (False, False, True):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        try:
            with open(path, "x", encoding="ascii"):
                return
        except FileNotFoundError:
            # Another process had its answers in this moment, and has removed the folder.
            if is_last:
                raise


def _read_answers(folder: str, question: str) -> list[dict[str, Any]]:
    answers = []
    for name in os.listdir(folder):
        if name.startswith(question) and name.endswith(ANSWER):
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    answer = json.loads(file.read(MOST_BYTES))
                if isinstance(answer, dict) and isinstance(answer.get("process"), int):
                    answers.append({**answer, "is_this": False})
            except (OSError, ValueError) as error:
                logger.debug("an answer of another process cannot be read: %s", error)
    return sorted(answers, key=lambda answer: answer["process"])


def _remove(folder: str, names: list[str]) -> None:
    for name in names:
        with suppress(OSError):
            os.unlink(os.path.join(folder, name))


def _remove_stale(folder: str, own: str) -> None:
    """Remove the files of processes that have died while they asked or answered: much older than our own question. (The file
    system's time, because a test may stop ours.)"""
    now = os.lstat(os.path.join(folder, own)).st_mtime
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            if now - os.lstat(os.path.join(folder, name)).st_mtime > STALE_S:
                _remove(folder, [name])


# ---------------------------------------------------------------------------------------------------------------
# Answering

# The questions in a folder that this process has answered. Only the thread that polls files uses it.
_answered: dict[str, set[str]] = {}


def answer_questions(engine: Engine) -> None:
    """Answer new questions of other processes about this file. Called by the thread that polls the file."""
    if not hasattr(os, "getuid"):
        return
    folder = ""
    try:
        # First, because mostly it is not there.
        if not is_safe(user_folder()):
            return
        places = find_folder(engine)
        if places is None:
            return
        folder = places[1]
        names = os.listdir(folder)
    except OSError:
        # Nobody asks.
        _answered.pop(folder, None)
        return
    questions = {name for name in names if name.endswith(QUESTION)}
    # The other engine of this process on the file, which only reads it, may have answered for both.
    new = questions - _answered.get(folder, set()) - _own_questions
    _answered[folder] = questions
    if new:
        answer = json.dumps(describe_process(engine)).encode()
        for question in new:
            try:
                _write_answer(folder, question, answer)
            except OSError as error:
                logger.debug("a question of another process cannot be answered: %s", error)


def _write_answer(folder: str, question: str, answer: bytes) -> None:
    """Write an answer, which appears as a whole; not, if the question was withdrawn, or its process has died."""
    # Two processes may have one number, in containers that share the folder.
    path = os.path.join(folder, f"{question}.{os.getpid()}-{os.urandom(3).hex()}")
    try:
        with open(path, "xb") as file:
            file.write(answer)
        age_s = os.lstat(path).st_mtime - os.lstat(os.path.join(folder, question)).st_mtime
        if age_s <= STALE_S:
            os.rename(path, path + ANSWER)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


@fork.call_in_child
def _forget() -> None:
    """The questions are the parent's, and the child has answered none."""
    _own_questions.clear()
    _answered.clear()
