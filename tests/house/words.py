"""python -m tests.house.words: how hard the prose of the project is to read, by room and by page. A thermometer, no test.

    python -m tests.house.words            rooms of the code, and pages, the worst first
    python -m tests.house.words --files    each file of the code instead of rooms

It prints relative pronouns and pointing words per 100 words. Plain English has few of both, because a sentence has a subject
with a name: libraries with good manuals have 1.4 to 2.4 relative pronouns and 0.2 to 0.6 pointing words.

The prose of code is its docstrings and comments. The prose of a page is its text without code and without the targets of links.
What stands in backticks counts as one word.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
RELATIVE: Final = frozenset(["who", "which", "that", "what", "whose", "whom"])
POINTING: Final = frozenset(["told", "one", "ones", "those", "somebody", "nobody", "whoever", "whatever"])

_WORD: Final = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_INLINE_CODE: Final = re.compile(r"``.+?``|`[^`\n]+`")
_FENCE: Final = re.compile(r"^( *)(```|~~~).*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
_TARGET: Final = re.compile(r"\]\([^)\s]*\)")
_RULE: Final = re.compile(r"^ *\|[ |:-]+\| *$", re.MULTILINE)
_DIRECTIVE: Final = re.compile(r"# *(noqa|type:|pragma|fmt:|ruff:)")


class Reading(NamedTuple):
    """How many words some prose has, and how many of them are of the two kinds."""

    words: int = 0
    relative: int = 0
    pointing: int = 0

    def __add__(self, other: Reading) -> Reading:
        return Reading(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def relative_percent(self) -> float:
        return 100 * self.relative / self.words if self.words else 0.0

    @property
    def pointing_percent(self) -> float:
        return 100 * self.pointing / self.words if self.words else 0.0


def read(prose: str) -> Reading:
    words = Counter(word.lower() for word in _WORD.findall(_INLINE_CODE.sub(" code ", prose)))
    return Reading(
        words.total(), sum(words[word] for word in RELATIVE), sum(words[word] for word in POINTING)
    )


def prose_of_code(source: str) -> str:
    """The docstrings and comments of a Python file."""
    return "\n".join([*_docstrings(ast.parse(source)), *_comments(source)])


def _docstrings(tree: ast.Module) -> Iterator[str]:
    """Also of attributes and constants: each string that stands alone."""
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def _comments(source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            yield token.string.lstrip("#")


def prose_of_page(markdown: str) -> str:
    """The text of a page, also in the cells of its tables."""
    return _RULE.sub("", _TARGET.sub("]", _FENCE.sub("", markdown)))


def room_of(file: Path) -> str:
    """The package of a file, at most two folders deep."""
    return "/".join(file.parent.parts[:2]) or "(trunk)"


def readings_of_code(root: Path, *, by_file: bool) -> dict[str, Reading]:
    readings: dict[str, Reading] = {}
    package = root / "reactdb"
    for path in sorted(package.rglob("*.py")):
        file = path.relative_to(package)
        name = file.as_posix() if by_file else room_of(file)
        reading = read(prose_of_code(path.read_text(encoding="utf-8")))
        readings[name] = readings.get(name, Reading()) + reading
    return readings


def readings_of_pages(root: Path) -> dict[str, Reading]:
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    return {
        page.relative_to(root).as_posix(): read(prose_of_page(page.read_text(encoding="utf-8")))
        for page in sorted(pages)
    }


def table(title: str, readings: dict[str, Reading]) -> Iterable[str]:
    """Lines: the worst first, and the sum of all."""
    worst = sorted(readings.items(), key=lambda one: -(one[1].relative_percent + one[1].pointing_percent))
    everything = sum(readings.values(), Reading())
    yield f"{title:48} {'words':>7} {'relative':>9} {'pointing':>9}"
    for name, reading in [*worst, ("all", everything)]:
        yield f"{name:48} {reading.words:7} {reading.relative_percent:9.1f} {reading.pointing_percent:9.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.house.words",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--files", action="store_true", help="each file of the code instead of rooms")
    arguments = parser.parse_args()
    print("\n".join(table("code", readings_of_code(ROOT, by_file=arguments.files))))
    print()
    print("\n".join(table("pages", readings_of_pages(ROOT))))


if __name__ == "__main__":
    main()
