"""Automaton: a regular expression matched in time that is linear in the text, whatever the pattern.

All ways to match are followed at once, character by character, in the order in which `re` would try them one after the
other, and no two of them are ever in the same place of the pattern. So the first one that arrives is the match that
`re` finds, and n characters cost n times the size of the pattern at most: about a microsecond for each pair. That is
far slower than `re` at its best, so it is only used for what `re` might be slow for: see `pattern`.

Source: R. Cox, "Regular Expression Matching: the Virtual Machine Approach" (2009), the Pike machine.

Rule of this file: single characters and anchors are left to `re` itself; here is only what is between them.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any, Final

from reactdb.budget import spend
from reactdb.errors import ResourceLimit

_parser: Any = import_module("re._parser")
_compiler: Any = import_module("re._compiler")
_names: Any = import_module("re._constants")

MAX_INSTRUCTIONS: Final = 5_000
MAX_STEPS: Final = 2_000_000

Spans = list[tuple[int, int]]

# Instructions: a number, and one or two operands.
_CHARACTER, _ANCHOR, _SPLIT, _JUMP, _SAVE, _MATCH = range(6)


class _Characters(dict[str, bool]):
    """Which characters one place of the pattern takes; asked once for each."""

    def __init__(self, single: re.Pattern[str]) -> None:
        super().__init__()
        self._single = single

    def __missing__(self, character: str) -> bool:
        taken = self._single.fullmatch(character) is not None
        # A text in many scripts should not be kept for ever.
        if len(self) < 1_000:
            self[character] = taken
        return taken


class Automaton:
    """A pattern as instructions.

    Thread safety: any thread may search; nothing is shared but what `_Characters` remembers.
    """

    def __init__(self, text: str, tree: Any) -> None:
        """`tree` is what `re`'s parser makes of the pattern; `text` is the pattern, for messages."""
        self._text = text
        self._state = tree.state
        self._places = 2 * tree.state.groups
        self._program: list[tuple[int, Any, Any]] = []
        self._write(tree, tree.state.flags)
        self._emit(_MATCH)

    # ----- from the tree to instructions

    def _emit(self, instruction: int, first: Any = None, second: Any = None) -> int:
        if len(self._program) >= MAX_INSTRUCTIONS:
            raise ResourceLimit(
                f"The regexp `{self._text}` is too large: more than {MAX_INSTRUCTIONS} steps."
            )
        self._program.append((instruction, first, second))
        return len(self._program) - 1

    def _set(self, at: int, instruction: int, first: int, second: int | None = None) -> None:
        self._program[at] = (instruction, first, second)

    @property
    def _here(self) -> int:
        return len(self._program)

    def _write(self, tree: Any, flags: int) -> None:
        for code, argument in tree:
            name = str(code)
            if name == "SUBPATTERN":
                self._write_group(argument, flags)
            elif name == "BRANCH":
                self._write_branch(argument[1], flags)
            elif name in ("MAX_REPEAT", "MIN_REPEAT"):
                self._write_repeat(*argument, flags=flags, greedy=name == "MAX_REPEAT")
            else:
                single = _compiler.compile(_parser.SubPattern(self._state, [(code, argument)]), flags)
                if name == "AT":
                    self._emit(_ANCHOR, single)
                else:
                    self._emit(_CHARACTER, _Characters(single))

    def _write_group(self, argument: Any, flags: int) -> None:
        number, added, removed, inner = argument
        if number is None:
            self._write(inner, (flags | added) & ~removed)
            return
        self._emit(_SAVE, 2 * number)
        self._write(inner, (flags | added) & ~removed)
        self._emit(_SAVE, 2 * number + 1)

    def _write_branch(self, alternatives: list[Any], flags: int) -> None:
        jumps = []
        for alternative in alternatives[:-1]:
            split = self._emit(_SPLIT)
            self._write(alternative, flags)
            jumps.append(self._emit(_JUMP))
            self._set(split, _SPLIT, split + 1, self._here)
        self._write(alternatives[-1], flags)
        for jump in jumps:
            self._set(jump, _JUMP, self._here)

    def _write_repeat(self, low: int, high: Any, inner: Any, *, flags: int, greedy: bool) -> None:
        for _ in range(low):
            self._write(inner, flags)
        splits = []
        if high is _names.MAXREPEAT:
            start = self._emit(_SPLIT)
            self._write(inner, flags)
            self._emit(_JUMP, start)
            splits.append(start)
        else:
            for _ in range(high - low):
                splits.append(self._emit(_SPLIT))
                self._write(inner, flags)
        for split in splits:
            inside, outside = split + 1, self._here
            self._set(split, _SPLIT, *((inside, outside) if greedy else (outside, inside)))

    # ----- searching

    def search(self, text: str) -> Spans | None:
        """Where the first match and its groups begin and end, (-1, -1) for a group without part in it; or None.

        Raises:
            ResourceLimit: It takes more than `MAX_STEPS`.
        """
        program, steps = self._program, 0
        found: tuple[int, ...] | None = None
        threads: list[tuple[int, tuple[int, ...]]] = []
        visited: set[int] = set()
        for at in range(len(text) + 1):
            if found is None:
                # A match may also begin here, but one that began before comes first.
                self._follow(0, at, (-1,) * self._places, text, threads, visited)
            elif not threads:
                break
            cost = 1 + len(visited)
            steps += cost
            spend(cost)
            if steps > MAX_STEPS:
                raise ResourceLimit(
                    f"The regexp `{self._text}` is too costly for a string of {len(text)} characters."
                )
            character = text[at : at + 1]
            next_threads: list[tuple[int, tuple[int, ...]]] = []
            visited = set()
            for place, saved in threads:
                instruction, operand, _ = program[place]
                if instruction == _MATCH:
                    found = (saved[0], at, *saved[2:])
                    # Whatever comes after this one would have been tried after it.
                    break
                if character and operand[character]:
                    self._follow(place + 1, at + 1, saved, text, next_threads, visited)
            threads = next_threads
        return None if found is None else list(zip(found[::2], found[1::2], strict=True))

    def _follow(
        self,
        place: int,
        at: int,
        saved: tuple[int, ...],
        text: str,
        threads: list[tuple[int, tuple[int, ...]]],
        visited: set[int],
    ) -> None:
        """Add every way that leads on from a place of the pattern to the next character, in order."""
        program = self._program
        if saved[0] < 0:
            saved = (at, *saved[1:])
        pending = [(place, saved)]
        while pending:
            place, saved = pending.pop()
            if place in visited:
                continue
            visited.add(place)
            instruction, first, second = program[place]
            if instruction == _JUMP:
                pending.append((first, saved))
            elif instruction == _SPLIT:
                pending.append((second, saved))
                pending.append((first, saved))
            elif instruction == _SAVE:
                pending.append((place + 1, (*saved[:first], at, *saved[first + 1 :])))
            elif instruction == _ANCHOR:
                if first.match(text, at) is not None:
                    pending.append((place + 1, saved))
            else:
                threads.append((place, saved))
