"""The views that a notebook shows of databases, tables and selections, from a short look into the file.

    selection                                        rows
    -----------------------------------------------  ------------------------------------------------------------------
    of tables with at most 500 documents together    its result, and the number of its documents
    of a larger table, without filters               the first 20
    of a larger table, with filters                  those of the first 500 documents that pass
    one that needs all documents, such as an order   none, and a sentence about it
    with a function of the program in it             none: the function may be slow, or do more than compute

A look ends after 50 ms, and then the view has no rows.

Rule of this file: it reads with a limit, or not at all.
"""

from __future__ import annotations

from typing import Any, Final, TypeGuard

from reactdb.budget import Budget, Stopped, current
from reactdb.cell_text import cell_text
from reactdb.documents.access_path import find_table
from reactdb.documents.extent import concerns_few
from reactdb.documents.read import evaluate
from reactdb.errors import MissingValue
from reactdb.expression import Expression
from reactdb.feeds.query_text import text_with_steps
from reactdb.html_view import MOST_ROWS, Preview, preview_of_documents, preview_of_fields
from reactdb.query import (
    Between,
    ConcatMap,
    Filter,
    GetAll,
    HasFields,
    Limit,
    Map,
    Nth,
    OrderBy,
    Query,
    Skip,
    Step,
    Union,
)
from reactdb.session import PastSession, Session
from reactdb.store.snapshot import Snapshot

__all__ = ["describe_query", "preview_of_database", "preview_of_selection"]

MOST_READ: Final = 500
MOST_COUNTED: Final = 50_000
MOST_COUNTED_EACH: Final = 10_000
MOST_S: Final = 0.05

_STREAMING: Final = (Filter, HasFields, Map, ConcatMap, Limit, Skip)
_PASSING: Final = (Filter, HasFields)


def describe_query(query: Query) -> str:
    """The table and the steps, about as they are written: `'games'.filter(row['score'] > 10).limit(3)`."""
    return text_with_steps(repr(query.table), query)


def preview_of_database(session: Session, name: str) -> Preview:
    """The tables of a database, with their numbers of documents as far as these are cheap to count."""
    if _is_far(session):
        return Preview(
            "Database", name, (f"as of seq {session.seq:,}",), note="not read: many changes lie between"
        )
    with session.read() as snapshot:
        infos = sorted(snapshot.catalogue.live.values(), key=lambda info: info.name)
        tables = [info for info in infos if info.owner is None]
        rows = []
        for info in tables[:MOST_ROWS]:
            count = snapshot.count_at_most(info, MOST_COUNTED_EACH + 1)
            indexes = ", ".join(sorted(info.indexes))
            rows.append(
                [info.name, _count_words(count, MOST_COUNTED_EACH), info.primary_key, cell_text(indexes)]
            )
        facts = [f"{len(tables):,} {'table' if len(tables) == 1 else 'tables'}", f"seq {snapshot.seq:,}"]
    if len(tables) > MOST_ROWS:
        facts[0] = f"{MOST_ROWS} of {facts[0]}"
    return Preview(
        "Database", name, facts, ("table", "documents", "primary key", "indexes"), rows, frozenset((1,))
    )


def _count_words(count: int, most: int) -> str:
    return f"{count:,}" if count <= most else f"more than {most:,}"


def preview_of_selection(session: Session, query: Query, kind: str, name: str) -> Preview:
    """The first rows of a selection, or of a whole table. See the head of this file.

    Raises:
        TableNotFound, IndexNotFound, and errors of the file.
    """
    if _is_far(session):
        return Preview(
            kind, name, note=f"not read: it is of the past, as of seq {session.seq:,}; run() reads it"
        )
    budget = current.set(Budget(MOST_S))
    try:
        with session.read() as snapshot:
            return _look(query, snapshot, kind, name)
    except Stopped:
        return Preview(
            kind, name, note=f"not read: it takes more than {MOST_S * 1_000:.0f} ms; run() reads it"
        )
    finally:
        current.reset(budget)


def _is_far(session: Session) -> TypeGuard[PastSession]:
    """Whether it is a view of the past with many changes since then: reading it undoes them."""
    return isinstance(session, PastSession) and session.engine.publisher.published - session.seq > MOST_READ


def _look(query: Query, snapshot: Snapshot, kind: str, name: str) -> Preview:
    info = find_table(query.table, snapshot)
    primary_key = info.primary_key
    if _has_functions(query):
        return Preview(kind, name, note="not read: it calls a function of the program; run() reads it")
    if query.is_point or concerns_few(query, snapshot, MOST_READ):
        return _preview_of_result(_evaluate(query, snapshot), kind, name, primary_key)
    if not query.steps:
        count = snapshot.count_at_most(info, MOST_COUNTED + 1)
        documents = list(evaluate(query.then(Limit(MOST_ROWS)), snapshot))
        words = _count_words(count, MOST_COUNTED)
        return preview_of_documents(
            kind, name, documents, primary_key, [f"{len(documents)} of {words} documents"]
        )
    bounded, is_sampled = _bound(query)
    if bounded is None or (
        _reads_index_keys(query) and snapshot.count_at_most(info, MOST_COUNTED + 1) > MOST_COUNTED
    ):
        return Preview(
            kind, name, note="not read: it needs many documents; run() reads it, and live() follows it"
        )
    documents = list(evaluate(bounded, snapshot))
    count = len(documents)
    if count > MOST_ROWS:
        return preview_of_documents(kind, name, documents, primary_key, [f"the first {MOST_ROWS}"])
    wanted = [step.count for step in query.steps if isinstance(step, Limit)]
    if is_sampled and (not wanted or count < min(wanted)):
        fact = f"{count} found in the first {MOST_READ} documents"
        return preview_of_documents(kind, name, documents, primary_key, [fact], "run() reads all")
    return preview_of_documents(kind, name, documents, primary_key, [_documents_of(count)])


def _has_functions(query: Query) -> bool:
    """Whether a function of the program is called for a document."""
    for step in query.steps:
        if isinstance(step, _PASSING) and step.predicate.node is None:
            return True
        if isinstance(step, (Map, ConcatMap)) and not isinstance(step.function, Expression):
            return True
        if isinstance(step, Union) and any(_has_functions(other) for other in step.others):
            return True
    return False


def _bound(query: Query) -> tuple[Query | None, bool]:
    """The query for its first rows that reads at most 500 documents, and whether filters may find more beyond them. None:
    there is no such query."""
    steps = list(query.steps)
    place = 0
    while place < len(steps) and _is_source(steps[place]):
        place += 1
    rest = steps[place:]
    if any(not isinstance(step, _STREAMING) for step in rest):
        return None, False
    if any(isinstance(step, Skip) and step.count > MOST_READ for step in rest):
        return None, False
    is_sampled = any(isinstance(step, _PASSING) for step in rest)
    if is_sampled:
        rest.insert(0, Limit(MOST_READ))
    return Query(query.table, (*steps[:place], *rest, Limit(MOST_ROWS + 1))), is_sampled


def _reads_index_keys(query: Query) -> bool:
    """Whether it reads all keys of some values of an index before the first document."""
    first = query.steps[0]
    return isinstance(first, GetAll) and first.index is not None


def _is_source(step: Step) -> bool:
    """Whether the step is read in its order from the table or from an index."""
    if isinstance(step, OrderBy):
        return not step.keys
    return isinstance(step, (GetAll, Between))


def _evaluate(query: Query, snapshot: Snapshot) -> Any:
    try:
        return evaluate(query, snapshot)
    except MissingValue:
        if any(isinstance(step, Nth) for step in query.steps):
            return None
        raise


def _preview_of_result(result: Any, kind: str, name: str, primary_key: str) -> Preview:
    if isinstance(result, dict):
        return preview_of_fields(kind, name, result, ())
    if result is None:
        return Preview(kind, name, ("no document",))
    if isinstance(result, (str, bytes)) or not hasattr(result, "__iter__"):
        return Preview(kind, name, (cell_text(result),))
    documents = list(result)
    count = len(documents)
    fact = f"{MOST_ROWS} of {count:,} documents" if count > MOST_ROWS else _documents_of(count)
    return preview_of_documents(kind, name, documents, primary_key, [fact])


def _documents_of(count: int) -> str:
    return f"{count:,} {'document' if count == 1 else 'documents'}"
