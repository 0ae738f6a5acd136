"""moving.svg: a write in one program, and a live list in another. Both programs are real and run while they are recorded.

Each runs in a pseudo-terminal of its own, on the same file. What their screens show at each moment becomes a text that is
visible for that time, by an animation of CSS, which browsers and code hosts play. A reader who wants no motion sees the end.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

import pyte

from docs.pictures.svg import MONO

ROOT: Final = Path(__file__).resolve().parent.parent.parent
COLUMNS, ROWS = 56, 9
KEY_S, PAUSE_S, END_S = 0.035, 1.0, 4.0

BOARD = """\
import reactdb
from reactdb import desc

db = reactdb.connect("arena.db")
best = db["games"].order_by(desc("score")).limit(3).live()

def show(edits=None):
    print("\\033[2J\\033[H")
    for place, game in enumerate(best, 1):
        print(f"  {place}.  {game['id']:8}{game['score']:5}")

show()
best.subscribe(show)
input()
"""
TYPED = [
    "import reactdb",
    'games = reactdb.connect("arena.db")["games"]',
    'games.insert({"id": "Ann", "score": 50})',
    'games.insert({"id": "Bob", "score": 40})',
    'games.insert({"id": "Cem", "score": 70})',
    'games.get("Bob").update({"score": 140})',
    'games.get("Cem").delete()',
]
# The prompt would show the counts of each write.
HIDDEN_RESULTS = "import sys; sys.displayhook = lambda value: None"


class Terminal:
    """A program in a pseudo-terminal, and its screen."""

    def __init__(self, arguments: list[str], folder: str) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)
        master, slave = pty.openpty()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": folder,
            "PYTHONPATH": str(ROOT),
            "TERM": "linux",
            "COLUMNS": str(COLUMNS),
            "LINES": str(ROWS),
            # The old prompt: the new one of Python 3.13 draws each key several times.
            "PYTHON_BASIC_REPL": "1",
            "PYTHONSTARTUP": str(Path(folder, "start.py")),
        }
        self.process = subprocess.Popen(
            arguments,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        os.close(slave)
        self.file = master

    def read(self) -> None:
        while select.select([self.file], [], [], 0)[0]:
            try:
                self._stream.feed(os.read(self.file, 65_536))
            except OSError:
                return

    def type(self, text: str) -> None:
        os.write(self.file, text.encode())

    def lines(self) -> tuple[str, ...]:
        return tuple(line.rstrip() for line in self.screen.display)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.file)


class Moment(NamedTuple):
    at_s: float
    left: tuple[str, ...]
    right: tuple[str, ...]


def record() -> list[Moment]:
    import reactdb

    with tempfile.TemporaryDirectory() as folder:
        with reactdb.connect(Path(folder, "arena.db")) as db:
            db.table_create("games")
        Path(folder, "board.py").write_text(BOARD, encoding="utf-8")
        Path(folder, "start.py").write_text(HIDDEN_RESULTS, encoding="utf-8")
        right = Terminal([sys.executable, "board.py"], folder)
        left = Terminal([sys.executable, "-q"], folder)
        try:
            return watch(left, right)
        finally:
            left.close()
            right.close()


def watch(left: Terminal, right: Terminal) -> list[Moment]:
    """Types the lines, and notes what both screens show after each key."""
    until(lambda: any(">>>" in line for line in left.lines()), left, right)
    moments: list[Moment] = []
    start = time.monotonic()

    def wait(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            left.read()
            right.read()
            if not moments or (left.lines(), right.lines()) != moments[-1][1:]:
                moments.append(Moment(time.monotonic() - start, left.lines(), right.lines()))
            time.sleep(0.005)

    for line in TYPED:
        for key in line:
            left.type(key)
            wait(KEY_S)
        left.type("\n")
        wait(PAUSE_S if line.startswith("games.") else 0.25)
    wait(END_S)
    moments.append(Moment(time.monotonic() - start, left.lines(), right.lines()))
    return moments


def until(condition: Callable[[], bool], *terminals: Terminal) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, [terminal.lines() for terminal in terminals]
        for terminal in terminals:
            terminal.read()
        time.sleep(0.01)


# ---------------------------------------------------------------------------------------------------------------
# The drawing

WIDTH, TOP, LINE_HEIGHT, CHARACTER = 960, 74, 20, 7.85
BACK, PANE, INK, SOFT, TEAL = "#12181f", "#1b232c", "#dbe4ec", "#8795a5", "#4fd1c0"
RIGHT_PANE = 500


def spans(moments: list[Moment], side: int) -> list[tuple[int, str, float, float]]:
    """(row, text, from, to) of each text that a row of one screen shows, times in seconds."""
    found = []
    for row in range(ROWS):
        begun = 0
        for number in range(1, len(moments) + 1):
            before = moments[begun][side][row]
            if number == len(moments) or moments[number][side][row] != before:
                end = moments[-1].at_s if number == len(moments) else moments[number].at_s
                if before:
                    found.append((row, before, moments[begun].at_s if begun else 0.0, end))
                begun = number
    return found


def draw() -> str:
    moments = record()
    whole = moments[-1].at_s
    height = TOP + LINE_HEIGHT * ROWS + 18
    rules, texts = [], []
    for side, x in ((1, 32), (2, RIGHT_PANE + 20)):
        for row, words, start, end in spans(moments, side):
            y = TOP + LINE_HEIGHT * (row + side - 1)
            prompt = 3 if words[:3] in {">>>", "..."} else 0
            shown = f'<tspan fill="{SOFT}">{escape(words[:prompt])}</tspan>' * bool(prompt) + escape(
                words[prompt:]
            )
            size = "15" if side == 2 else "13"
            style = ""
            if end < whole or start > 0:
                name = f"t{len(rules)}"
                a, b = 100 * start / whole, 100 * end / whole
                hidden_again = f"{b:.2f}%{{opacity:0}}" if end < whole else ""
                rules.append(f"@keyframes {name}{{0%{{opacity:0}}{a:.2f}%{{opacity:1}}{hidden_again}}}")
                style = f' class="{"last" if end >= whole else "past"}" style="animation-name:{name}"'
            texts.append(
                f'<text x="{x}" y="{y}" font-size="{size}" xml:space="preserve"{style}>{shown}</text>'
            )
    title = "A program inserts, updates and deletes games; a live list in another program moves at each write"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'role="img" aria-label="{title}" font-family="{MONO}" fill="{INK}">',
            f"<title>{title}</title>",
            "<style>",
            f".last,.past{{animation:{whole:.2f}s step-end infinite}}.past{{opacity:0}}",
            *rules,
            "@media (prefers-reduced-motion:reduce){.last,.past{animation:none!important}}",
            "</style>",
            f'<rect width="{WIDTH}" height="{height}" rx="10" fill="{BACK}"/>',
            *pane(16, RIGHT_PANE - 32, height, "one program writes"),
            *pane(RIGHT_PANE, WIDTH - RIGHT_PANE - 16, height, "another program: board.py"),
            f'<text x="{RIGHT_PANE + 20}" y="{TOP - 4}" font-size="12" fill="{TEAL}">'
            'best = games.order_by(desc("score")).limit(3).live()</text>',
            *texts,
            "</svg>\n",
        ]
    )


def pane(x: int, width: int, height: int, title: str) -> list[str]:
    return [
        f'<rect x="{x}" y="44" width="{width}" height="{height - 60}" rx="6" fill="{PANE}"/>',
        f'<text x="{x + 4}" y="32" font-size="14" fill="{SOFT}">{title}</text>',
    ]
