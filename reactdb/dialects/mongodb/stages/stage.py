"""What a stage of a pipeline is, what it stands on, and the register of stages.

A stage is a function of an iterator of documents. One that works on each document alone says so (`of_one`), and may then be used
on a single document, without an iterator: change streams and updates do.

Rule of this file: it knows no stage. A stage never changes a document that it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import bson

from reactdb.budget import current, spend
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Evaluate, Scope
from reactdb.dialects.mongodb.expressions.compiling import compiled
from reactdb.dialects.mongodb.ordering import MISSING, TextKey

__all__ = [
    "MAX_MEMORY_BYTES",
    "STAGES",
    "Collections",
    "Document",
    "MemoryBound",
    "Merging",
    "OfOne",
    "Setting",
    "Stage",
    "each",
    "stage",
    "through",
]

Document = dict[str, Any]
Run = Callable[[Iterator[Document]], Iterator[Document]]
OfOne = Callable[[Document], Document | None]

MAX_MEMORY_BYTES: Final = 256 * 2**20
"""How many bytes of documents a stage holds at most: `$sort`, `$group` and their kin. There is no disk for more."""


@dataclass(slots=True, frozen=True)
class Stage:
    """A stage that is ready. `run` is all that it does; `of_one` the same for one document, of which None is left out."""

    name: str
    run: Run
    of_one: OfOne | None = None


def each(name: str, of_one: OfOne) -> Stage:
    """A stage that works on each document alone."""

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        for document in documents:
            made = of_one(document)
            if made is not None:
                yield made

    return Stage(name, run, of_one)


@dataclass(slots=True, frozen=True)
class Merging:
    """What `$merge` asks for: where to, by which fields, and what to do with a document that is there, or is not.

    `when_matched` is `replace`, `keepExisting`, `merge`, `fail` or a pipeline, which is given `variables` and `$$new`.
    `when_not_matched` is `insert`, `discard` or `fail`.
    """

    namespace: str
    on: tuple[str, ...]
    when_matched: Any
    when_not_matched: str
    variables: Mapping[str, Evaluate] = field(default_factory=dict)


class Collections(Protocol):
    """What stages need of the collections beside: to read them, and to write to one at the end.

    A namespace is `database.collection`.
    """

    def documents(self, namespace: str) -> Iterable[Document]:
        """All documents of a collection; none where it does not exist."""

    def replace(self, namespace: str, documents: Iterable[Document]) -> None:
        """Makes a collection hold these documents and no others, at once (`$out`)."""

    def merge(self, merging: Merging, documents: Iterable[Document]) -> None:
        """Writes each document into a collection (`$merge`)."""

    def statistics(self, stage: str, spec: Mapping[str, Any]) -> Iterable[Document]:
        """What `$collStats`, `$indexStats` and their kin say of the collection."""


class _Alone:
    """No collections beside: a pipeline over one document, or over events."""

    def documents(self, namespace: str) -> Iterable[Document]:
        raise MongoError(20, "this pipeline cannot read other collections")

    def replace(self, namespace: str, documents: Iterable[Document]) -> None:
        raise MongoError(20, "this pipeline cannot write to a collection")

    def merge(self, merging: Merging, documents: Iterable[Document]) -> None:
        raise MongoError(20, "this pipeline cannot write to a collection")

    def statistics(self, stage: str, spec: Mapping[str, Any]) -> Iterable[Document]:
        raise MongoError(20, f"{stage} has no collection here")


@dataclass(slots=True)
class Setting:
    """What the stages of one pipeline share.

    Attributes:
        collections: The collections beside.
        namespace: The collection that the pipeline is run on, `database.collection`.
        variables: The values of variables by name. A join changes them between two runs of its pipeline.
        text: The collation: the key of texts, or None.
        nested: Makes the stages of a pipeline within this one.
        reads: The collections beside that its stages read, and those of the pipelines within: they are said when it is compiled.
        depth: How many pipelines this one lies within.
    """

    collections: Collections = field(default_factory=_Alone)
    namespace: str = "test.test"
    variables: dict[str, Any] = field(default_factory=dict)
    text: TextKey | None = None
    nested: Callable[[Any, Setting], list[Stage]] = field(default=lambda stages, setting: [])
    depth: int = 0
    reads: set[str] = field(default_factory=set)
    max_memory_bytes: int = MAX_MEMORY_BYTES

    @property
    def database(self) -> str:
        """The name of the database."""
        return self.namespace.partition(".")[0]

    def scope(self) -> Scope:
        """What expressions in the pipeline can name."""
        return Scope(frozenset(self.variables), self.text)

    def expression(self, spec: Any) -> Evaluate:
        """A compiled expression."""
        return compiled(spec, self.scope())

    def within(self, names: Iterable[str] = (), namespace: str | None = None) -> Setting:
        """The setting of a pipeline within: with variables of its own, and on another collection, if one is given."""
        return replace(
            self,
            namespace=namespace or self.namespace,
            # The names are known when the pipeline is compiled; their values come with each run.
            variables=self.variables | dict.fromkeys(names, MISSING),
            depth=self.depth + 1,
        )


MOST_NESTED: Final = 100
DOCUMENT_STEPS: Final = 4
"""The steps of the budget that a document counts as, beside its fields, in each stage."""


def through(stages: Iterable[Stage], documents: Iterator[Document]) -> Iterator[Document]:
    """What comes out of stages, one after the other. It is read as it is asked for.

    Each stage asks the one before it, and Python bounds how deep that may go. So of a pipeline with more than 100 stages,
    what comes out of each 100 is read at once.
    """
    for number, one in enumerate(stages):
        if number and number % MOST_NESTED == 0:
            documents = iter(list(documents))
        documents = _spending(one.run(documents))
    return documents


def _spending(documents: Iterator[Document]) -> Iterator[Document]:
    """The documents. Each of them spends the budget that is in force when it is asked for."""
    for document in documents:
        budget = current.get()
        if budget is not None:
            budget.spend(DOCUMENT_STEPS + len(document))
        yield document


class MemoryBound:
    """Counts the bytes that a stage holds, by weighing one document of 32."""

    def __init__(self, name: str, setting: Setting) -> None:
        self._name = name
        self._most = setting.max_memory_bytes
        self._bytes = 0
        self._count = 0

    def add(self, document: Any) -> None:
        """Counts one document more.

        Raises:
            MongoError: They are too many bytes (292).
        """
        spend(DOCUMENT_STEPS)
        if self._count % 32 == 0:
            self._bytes += 32 * _weight(document)
            if self._bytes > self._most:
                raise MongoError(
                    292,
                    f"{self._name} would hold more than {self._most >> 20} MB: select or shorten documents before it",
                )
        self._count += 1

    def counting(self, documents: Iterable[Document]) -> Iterator[Document]:
        """The documents, counted as they pass."""
        for document in documents:
            self.add(document)
            yield document


def _weight(document: Any) -> int:
    try:
        # A document in Python takes about four times what it has in BSON; what counts here is BSON's.
        return len(bson.encode(document if isinstance(document, dict) else {"": document}))
    except (bson.errors.InvalidDocument, OverflowError):
        return 1_024


Compiler = Callable[[Any, Setting], Stage]
STAGES: Final[dict[str, Compiler]] = {}
"""What makes a stage of its specification, by the stage's name."""


def stage(name: str) -> Callable[[Compiler], Compiler]:
    """Registers what makes a stage."""

    def register(compiler: Compiler) -> Compiler:
        STAGES[name] = compiler
        return compiler

    return register
