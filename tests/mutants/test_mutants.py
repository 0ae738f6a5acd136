"""The mutants of `python -m tests.mutants` fit the code: those that are kept by hand, and those of changed lines."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.generate import changed_lines, find_tests, mutants_of
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.patterns import PLACEHOLDER, find_places, replace
from tests.mutants.project import ROOT, locate


def names_in(source: str) -> set[str]:
    """The variables and attributes that some code reads; not those that it makes."""
    nodes = list(ast.walk(ast.parse(source)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return (names - made) | attributes


def module_of(mutant: Mutant) -> tuple[str, ast.Module, list[str]]:
    """The source of the module that a mutant changes, its syntax tree, and the scope of the place in it."""
    file, scope = locate(mutant.place)
    return *parsed(file), scope


@cache
def parsed(file: Path) -> tuple[str, ast.Module]:
    source = (ROOT / file).read_text(encoding="utf-8")
    return source, ast.parse(source)


class TestKeptByHand:
    def test_a_mutant_changes_one_place(self) -> None:
        places = {
            mutant.name: find_places(*module_of(mutant)[1:], mutant.pattern, mutant.replacement)
            for mutant in MUTANTS
            if mutant.pattern != mutant.replacement
        }

        assert len(MUTANTS) == len(places)
        assert {} == {name: len(found) for name, found in places.items() if len(found) != 1}

    def test_a_mutant_uses_only_names_that_its_module_has(self) -> None:
        """With a name that was renamed the mutant would fail every test, and prove nothing."""
        known = set(dir(builtins)) | set(dir(list)) | set(dir(dict))

        assert [] == [
            f"{mutant.name}: {name}"
            for mutant in MUTANTS
            for name in sorted(names_in(mutant.replacement) - names_in(mutant.pattern) - known)
            if not PLACEHOLDER.fullmatch(name) and not re.search(rf"\b{name}\b", module_of(mutant)[0])
        ]

    def test_each_name_is_given_once(self) -> None:
        names = [mutant.name for mutant in MUTANTS]

        assert sorted(set(names)) == sorted(names)

    def test_the_find_tests_a_mutant_exist(self) -> None:
        named = {test for mutant in MUTANTS for test in mutant.tests}
        files = {file: (ROOT / file).read_text() for file in {test.split("::")[0] for test in named}}

        assert [] == [
            test
            for test in sorted(named)
            for name in test.split("::")[1:]
            if f"class {name}:\n" not in files[test.split("::")[0]]
            and f"def {name}(" not in files[test.split("::")[0]]
        ]


class TestPatterns:
    SOURCE = """
class Queue:
    def add(self, item):
        self.count += 1
        if self.count > self.limit:
            self.dropped += 1
            log(item)
        return max(self.count, 0)
"""

    def replaced(self, pattern: str, replacement: str) -> list[str]:
        lines = replace(self.SOURCE, ["Queue", "add"], pattern, replacement).splitlines()
        return [line.strip() for line in lines[2:]]

    def test_placeholders_stand_for_names_and_can_be_repeated(self) -> None:
        assert "if self.count >= self.limit:" in self.replaced("_1 > self._2", "_1 >= self._2")

    def test_a_statement_is_left_out(self) -> None:
        assert "log(item)" not in self.replaced("log(_)", "")

    def test_a_block_that_is_left_without_a_statement_passes(self) -> None:
        assert ["if self.count > self.limit:", "pass"] == self.replaced("self._ += 1\nlog(_)", "")[2:4]

    def test_the_rest_of_a_block_is_kept(self) -> None:
        expected = ["self.dropped += 1", "log(item)"]

        assert expected == self.replaced("if _:\n    ...", "if True:\n    ...")[3:5]

    def test_the_same_placeholder_means_the_same_code(self) -> None:
        with pytest.raises(LookupError, match="has 0 places"):
            self.replaced("_1 > _1", "True")

    def test_a_pattern_with_two_places_is_refused(self) -> None:
        with pytest.raises(LookupError, match="has 2 places"):
            self.replaced("self._ += 1", "")

    def test_a_function_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(LookupError, match=r"there is no Queue\.take"):
            replace(self.SOURCE, ["Queue", "take"], "_", "None")


class TestOfChangedLines:
    SOURCE = '''"""A module."""

__all__ = ["take"]


def take(queue: list[int], limit: int = 5) -> int:
    """Documentation."""
    if not queue or len(queue) < limit:
        raise ValueError("the queue is short")
    queue.taken += 1
    return queue["first"] + 1
'''

    def changes(self, *lines: int) -> list[str]:
        made = mutants_of("reactdb/a.py", self.SOURCE, lines or range(1, 100))
        return [f"{one.line} {one.before} -> {one.after}" for one in made]

    def test_a_condition_is_changed_in_each_way(self) -> None:
        assert [
            "8 if not queue or len(queue) < limit: -> if not (not queue or len(queue) < limit):",
            "8 not queue or len(queue) < limit -> not queue and len(queue) < limit",
            "8 not queue -> queue",
            "8 len(queue) < limit -> len(queue) <= limit",
        ] == self.changes(8)

    def test_statements_are_left_out(self) -> None:
        assert [
            "9 raise ValueError('the queue is short') -> ",
            "10 queue.taken += 1 -> ",
            "10 1 -> 2",
        ] == self.changes(9, 10)

    def test_results_and_constants_are_changed(self) -> None:
        assert [
            "11 return queue['first'] + 1 -> return None",
            "11 queue['first'] + 1 -> queue['first'] - 1",
            "11 'first' -> 'first_'",
            "11 1 -> 2",
        ] == self.changes(11)

    def test_defaults_are_changed_and_annotations_documentation_and_exports_are_not(self) -> None:
        assert ["6 5 -> 6"] == self.changes(1, 2, 3, 4, 5, 6, 7)

    def test_each_mutant_is_another_program(self) -> None:
        made = mutants_of("reactdb/a.py", self.SOURCE, range(1, 100))

        assert len(made) == len({one.source for one in made} - {ast.unparse(ast.parse(self.SOURCE))})
        for one in made:
            compile(one.source, one.file, "exec")

    def test_a_mutant_is_named_by_its_place(self) -> None:
        (mutant,) = mutants_of("reactdb/a.py", self.SOURCE, [6])

        assert "reactdb/a.py:6 take: `5` became `6`" == str(mutant)

    def test_changed_lines_are_those_of_the_difference_and_of_new_files(self, tmp_path: Path) -> None:
        def git(*arguments: str) -> None:
            identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"]
            subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

        package = tmp_path / "reactdb"
        package.mkdir()
        (package / "a.py").write_text("a = 1\nb = 2\nc = 3\n")
        (package / "same.py").write_text("a = 1\n")
        git("init", "-q")
        git("add", ".")
        git("commit", "-q", "-m", "first")
        (package / "a.py").write_text("a = 1\nb = 5\nb = 6\nc = 3\n")
        (package / "new.py").write_text("a = 1\n")

        found = changed_lines("HEAD", tmp_path)

        assert {"reactdb/a.py", "reactdb/new.py"} == set(found)
        assert {2, 3} == found["reactdb/a.py"]
        assert 1 in found["reactdb/new.py"]

    def test_the_tests_of_a_module_are_those_that_import_it(self, tmp_path: Path) -> None:
        for name, text in {
            "test_one.py": "from reactdb.store.log import append",
            "test_two.py": "from reactdb.store import log",
            "test_three.py": "import reactdb",
        }.items():
            folder = tmp_path / "tests" / "store"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

        assert ["tests/store/test_one.py", "tests/store/test_two.py"] == find_tests(
            "reactdb/store/log.py", tmp_path
        )
        assert ["tests/store"] == find_tests("reactdb/store/file/other.py", tmp_path)
        assert ["tests/surface"] == find_tests("reactdb/query.py", tmp_path)


def test_the_command_lists_the_kept_mutants(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["tests.mutants", "--list"])

    assert main() == 0

    assert capsys.readouterr().out.splitlines() == [one.name for one in MUTANTS]


def test_the_command_chooses_the_mutants_of_changed_lines(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "tests.mutants.__main__.run_changed", lambda *how, only_list: asked.append((*how, only_list)) or 0
    )
    monkeypatch.setattr("sys.argv", ["tests.mutants", "--changed", "main", "--most", "5", "--list"])

    assert main() == 0

    assert asked == [("main", [], 5, True)]
