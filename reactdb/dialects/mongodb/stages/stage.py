"""Stage: one step of a pipeline, with the context of a pipeline and the register of stages.

A stage is a function of an iterator of documents. A stage that treats each document alone has `of_one`, and can be used on a
single document without an iterator: change streams and updates do.

Rule of this file: it knows no stage. A stage never changes a given document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import bson

from reactdb.budget import current, spend
from reactdb.dialects.mongodb.bson_order import MISSING, TextKey
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.expressions import Evaluate, Scope
from reactdb.dialects.mongodb.expressions.compile import compile_value

__all__ = [
    "MAX_MEMORY_BYTES",
    "STAGES",
    "Collections",
    "Document",
    "MemoryBound",
    "MergeTarget",
    "OfOne",
    "Setting",
    "Stage",
    "each",
    "run_stages",
    "stage",
]

Document = dict[str, Any]
Run = Callable[[Iterator[Document]], Iterator[Document]]
OfOne = Callable[[Document], Document | None]

MAX_MEMORY_BYTES: Final = 256 * 2**20
"""How many bytes of documents a stage holds at most: `$sort`, `$group` and similar stages. There is no disk for more."""


@dataclass(slots=True, frozen=True)
class Stage:
    """A compiled stage. `run` maps an iterator of documents; `of_one` maps a single document, and None removes it."""

    name: str
    run: Run
    of_one: OfOne | None = None


def each(name: str, of_one: OfOne) -> Stage:
    """A stage that treats each document alone."""

    def run(documents: Iterator[Document]) -> Iterator[Document]:
        for document in documents:
            made = of_one(document)
            if made is not None:
                yield made

    return Stage(name, run, of_one)


@dataclass(slots=True, frozen=True)
class MergeTarget:
    """The target of `$merge`: the collection, the matching fields, and the actions for matched and unmatched documents.

    `when_matched` is `replace`, `keepExisting`, `merge`, `fail` or a pipeline with `variables` and `$$new`.
    `when_not_matched` is `insert`, `discard` or `fail`.
    """

    namespace: str
    on: tuple[str, ...]
    when_matched: Any
    when_not_matched: str
    variables: Mapping[str, Evaluate] = field(default_factory=dict)


class Collections(Protocol):
    """The collections for stages: they read other collections, and write to one at the end.

    A namespace is `database.collection`.
    """

    def documents(self, namespace: str) -> Iterable[Document]:
        """All documents of a collection; none if it does not exist."""

    def replace(self, namespace: str, documents: Iterable[Document]) -> None:
        """Makes a collection hold these documents and no others, at once (`$out`)."""

    def merge(self, merging: MergeTarget, documents: Iterable[Document]) -> None:
        """Writes each document into a collection (`$merge`)."""

    def statistics(self, stage: str, spec: Mapping[str, Any]) -> Iterable[Document]:
        """The output of `$collStats`, `$indexStats` and similar stages for the collection."""


class _Alone:
    """No other collections: for a pipeline over one document, or over events."""

    def documents(self, namespace: str) -> Iterable[Document]:
        raise MongoError(20, "this pipeline cannot read other collections")

    def replace(self, namespace: str, documents: Iterable[Document]) -> None:
        raise MongoError(20, "this pipeline cannot write to a collection")

    def merge(self, merging: MergeTarget, documents: Iterable[Document]) -> None:
        raise MongoError(20, "this pipeline cannot write to a collection")

    def statistics(self, stage: str, spec: Mapping[str, Any]) -> Iterable[Document]:
        raise MongoError(20, f"{stage} has no collection here")


@dataclass(slots=True)
class Setting:
    """The shared context of the stages of one pipeline.

    Attributes:
        collections: The other collections.
        namespace: The pipeline's own collection, `database.collection`.
        variables: The values of variables by name. A join changes them between two runs of its pipeline.
        text: The collation: the key of texts, or None.
        nested: Makes the stages of a pipeline within this one.
        reads: The other collections read by its stages and by nested pipelines; filled by the compilation.
        depth: The nesting depth of the pipeline.
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
        """The scope of expressions in the pipeline."""
        return Scope(frozenset(self.variables), self.text)

    def expression(self, spec: Any) -> Evaluate:
        """A compiled expression."""
        return compile_value(spec, self.scope())

    def within(self, names: Iterable[str] = (), namespace: str | None = None) -> Setting:
        """The context of a nested pipeline: with its own variables, and on another collection, if given."""
        return replace(
            self,
            namespace=namespace or self.namespace,
            # The names are known when the pipeline is compiled; each run sets their values.
            variables=self.variables | dict.fromkeys(names, MISSING),
            depth=self.depth + 1,
        )


MOST_NESTED: Final = 100
DOCUMENT_STEPS: Final = 4
"""The budget's steps for one document in each stage, beside its fields."""


def run_stages(stages: Iterable[Stage], documents: Iterator[Document]) -> Iterator[Document]:
    """The output of stages, one after the other. It is lazy.

    Each stage reads from the one before it, and Python limits the depth of calls. So in a pipeline with more than 100 stages, the
    output after each 100 stages is read completely.
    """
    for number, one in enumerate(stages):
        if number and number % MOST_NESTED == 0:
            documents = iter(list(documents))
        documents = _spending(one.run(documents))
    return documents


def _spending(documents: Iterator[Document]) -> Iterator[Document]:
    """The documents. Each of them spends the budget in force at the time of its read."""
    for document in documents:
        budget = current.get()
        if budget is not None:
            budget.spend(DOCUMENT_STEPS + len(document))
        yield document


class MemoryBound:
    """Counts the bytes held by a stage. It weighs one document of 32."""

    def __init__(self, name: str, setting: Setting) -> None:
        self._name = name
        self._most = setting.max_memory_bytes
        self._bytes = 0
        self._count = 0

    def add(self, document: Any) -> None:
        """Counts one more document.

        Raises:
            MongoError: The stage holds too many bytes (292).
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
        # A document in Python takes about four times its size in BSON; the limit counts BSON.
        return len(bson.encode(document if isinstance(document, dict) else {"": document}))
    except (bson.errors.InvalidDocument, OverflowError):
        return 1_024


Compiler = Callable[[Any, Setting], Stage]
STAGES: Final[dict[str, Compiler]] = {}
"""The compiler of each stage, by the stage's name."""


def stage(name: str) -> Callable[[Compiler], Compiler]:
    """Registers a stage's compiler."""

    def register(compiler: Compiler) -> Compiler:
        STAGES[name] = compiler
        return compiler

    return register
