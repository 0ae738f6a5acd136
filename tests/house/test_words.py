"""The thermometer of prose counts what it says."""

from __future__ import annotations

from pathlib import Path

from tests.house.words import (
    Reading,
    prose_of_code,
    prose_of_page,
    read,
    readings_of_code,
    readings_of_pages,
    table,
)

CODE = '''"""Who writes is told."""

LIMIT = 5
"""One of those."""


def add(which: str) -> str:
    """What `that` is."""
    # Nobody waits.  noqa is a word here
    return "whoever"  # noqa: S105
'''


def test_both_kinds_of_words_are_counted_whatever_their_case():
    assert Reading(words=8, relative=2, pointing=3) == read("Who waits for those that nobody, whoever, saw?")


def test_a_part_of_a_word_and_code_do_not_count():
    assert Reading(words=5, relative=0, pointing=0) == read("Somewhat oneself: `that` thatch 5 ``which one``")


def test_the_prose_of_code_is_its_docstrings_and_comments():
    lines = prose_of_code(CODE).splitlines()

    assert [
        "Who writes is told.",
        "One of those.",
        "What `that` is.",
        " Nobody waits.  noqa is a word here",
    ] == lines


def test_the_prose_of_a_page_is_its_text_and_the_cells_of_its_tables():
    page = "# Feeds\n\nSee [that](who.md).\n\n```python\nwhich = 1\n```\n\n| a | b |\n| --- | --- |\n| c | what |\n"

    assert ["#", "Feeds", "See", "[that].", "|", "a", "|", "b", "|", "|", "c", "|", "what", "|"] == (
        prose_of_page(page).split()
    )


def test_rooms_and_pages_are_printed_with_the_worst_first(tmp_path: Path):
    for name, text in {
        "reactdb/table.py": '"""Plain words only here."""',
        "reactdb/store/log.py": '"""Who that what one."""',
        "reactdb/store/file/wal.py": '"""Four words of which."""',
        "docs/index.md": "Which one",
        "README.md": "Ten plain words",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    lines = list(table("code", readings_of_code(tmp_path, by_file=False)))

    assert ["code", "store", "store/file", "(trunk)", "all"] == [line.split()[0] for line in lines]
    assert ["store", "4", "75.0", "25.0"] == lines[1].split()
    assert ["all", "12", "33.3", "8.3"] == lines[-1].split()
    assert {"README.md", "docs/index.md"} == set(readings_of_pages(tmp_path))
    assert "store/file/wal.py" in readings_of_code(tmp_path, by_file=True)
