"""Terms: writes. Each statement is one commit; a document with an error is counted, and the others are written.

A native write differs: it raises, and writes nothing. The difference is a policy: `Counting` checks documents with ReQL's error
messages, counts mistakes in `errors` and keeps the first message in `first_error`. `reactdb.documents.write` does the rest.

Rule of this file: handlers, and their functions for one document.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from reactdb.budget import CALL_STEPS, WorkStopped, bind_budget, spend
from reactdb.change import DELETE, REPLACE, UPDATE
from reactdb.dialects.rethinkdb import tables
from reactdb.dialects.rethinkdb.errors import OperationFailed, Terminated, with_path
from reactdb.dialects.rethinkdb.evaluator import Evaluator, TermCall, cannot_convert, handles
from reactdb.dialects.rethinkdb.functions import Function, is_deterministic
from reactdb.dialects.rethinkdb.hooks import Hook, hook_of
from reactdb.dialects.rethinkdb.jobs import TERMINATED, jobs_of
from reactdb.dialects.rethinkdb.keys import is_spelled, shown_document, shown_event, stored_key
from reactdb.dialects.rethinkdb.terms import FUNC
from reactdb.dialects.rethinkdb.terms_config import configure, is_configuration
from reactdb.dialects.rethinkdb.values import (
    Sequence,
    Single,
    TableName,
    cut,
    expected,
    expected_kind,
    stray_literal,
)
from reactdb.dialects.rethinkdb.wire import RESPELLING
from reactdb.dialects.rethinkdb.write_checks import (
    MAX_ARRAY_ON_DISK,
    body_of,
    check_arrays,
    check_object,
    check_storable,
    message_of,
    primary_key,
)
from reactdb.documents.write import COUNTERS, SKIPPED, Policy, Prepared, Write
from reactdb.documents.write import insert as insert_together
from reactdb.errors import InvalidKey, QueryError, ReactDBError, TableNotFound
from reactdb.expression.checks import array_limit, is_number, truth
from reactdb.expression.markers import Literal
from reactdb.expression.operations.objects import merge_patch
from reactdb.identifiers import new_key
from reactdb.session import session_of
from reactdb.store.catalogue import TableInfo
from reactdb.values import codec, collation
from reactdb.values.codec import pretty
from reactdb.values.shown_values import restore

JOBS: Final = TableName(tables.SYSTEM, "jobs")
NO_WRITE: Final = "FOR_EACH expects one or more basic write queries."
NOT_ATOMIC: Final = "Could not prove argument deterministic.  Maybe you want to use the non_atomic flag?"


# ---------------------------------------------------------------------------------------------------------------
# Options


def return_changes(call: TermCall) -> bool | str:
    if call.has_option("return_vals"):
        raise QueryError("Error: encountered obsolete optarg `return_vals`.  Use `return_changes` instead.")
    if not call.has_option("return_changes"):
        return False
    value = call.option("return_changes")
    if isinstance(value, str):
        if value != "always":
            error = QueryError(
                f"Invalid return_changes value `{value}` (options are `true`, `false`, and `'always'`.)"
            )
            raise with_path(error, call.path)
        return value
    return truth(value)


# ---------------------------------------------------------------------------------------------------------------
# A statement


class Counting(Policy):
    """A document with an error is counted, and the others are written."""

    counts_errors = True

    def __init__(self, evaluator: Evaluator) -> None:
        self._array_limit = evaluator.options.array_limit

    def encode(self, table: TableInfo, key: bytes, old_body: bytes | None, document: Any) -> bytes:
        check_object(document)
        name = table.primary_key
        if name not in document:
            raise QueryError(f"Inserted object must have primary key `{name}`:\n{cut(pretty(document))}")
        check_storable(document)
        given = document[name]
        # It is the key itself, where it was prepared or a function has it of the old document; else as a driver sends it.
        is_itself = is_spelled(given) and collation.key_bytes(given) == key
        if not is_itself and primary_key(given) != key:
            if old_body is None:
                raise QueryError(f"Primary key `{name}` cannot be changed (null -> {pretty(document)})")
            raise QueryError(
                f"Primary key `{name}` cannot be changed (`{pretty(codec.decode(old_body))}` -> `{pretty(document)}`)."
            )
        if is_spelled(given):
            # Of keys that are equal, the document keeps its own.
            own = given if is_itself else stored_key(given)
            document = {**document, name: own if old_body is None else codec.decode(old_body)[name]}
        if document and self._array_limit > MAX_ARRAY_ON_DISK:
            check_arrays(document)
        return body_of(document)

    def sentence(self, error: ReactDBError) -> str:
        return message_of(error)


def carry_out(
    call: TermCall,
    table: TableName,
    work: Callable[[Write, Hook | None], None],
    wanted: bool | str,
    *,
    is_pure: bool,
) -> dict[str, Any]:
    """Execute one write statement as one commit. The query's limits apply to it, in any thread.

    Args:
        work: The statement's work; it also gets the table's write hook.
        wanted: Which changes to return.
        is_pure: The work reads no tables, so that it may join another thread's commit.

    Raises:
        Stopped: The work took too long. Nothing is written.
    """
    native = call.evaluator.native
    primary_key = tables.table_info(native, table).primary_key
    chosen = (
        call.durability()
        or call.evaluator.options.durability
        or (tables.SETTINGS.get(native, table) or {}).get("durability")
    )
    hook = None if call.flag("ignore_write_hook") else hook_of(call.evaluator, table)
    limit = array_limit.get()

    def limited(write: Write) -> None:
        outer = array_limit.set(limit)
        try:
            work(write, hook)
        finally:
            array_limit.reset(outer)

    try:
        done = session_of(native).write(
            table.file_name,
            bind_budget(limited),
            Counting(call.evaluator),
            return_changes=wanted,
            durability=chosen,
            is_shareable=is_pure and hook is None,
        )
        return with_shown_changes(done, primary_key) if wanted else done
    except WorkStopped as failed:
        raise failed.stopped from None
    except TableNotFound:
        # The table was dropped after it had been looked up.
        tables.table_info(native, table)
        raise QueryError(f"Table `{table}` does not exist.") from None


def with_shown_changes(done: dict[str, Any], primary_key: str) -> dict[str, Any]:
    """The answer to a write, with the keys of the documents in it as they are shown."""
    changes = done.get("changes")
    if not isinstance(changes, list):
        return done
    return {
        **done,
        "changes": [shown_event(one, lambda it: shown_document(it, primary_key)) for one in changes],
    }


def change(write: Write, hook: Hook | None, key: bytes, compute: Callable[[Any], Any], kind: int) -> None:
    """Replace a document by the result of `compute`. A write hook gets this result, and its own result is stored instead."""
    spend(CALL_STEPS)
    if hook is None:
        write.change(key, compute, kind)
        return

    def hooked(old: Any) -> Any:
        document = compute(old)
        return document if document is SKIPPED else hook(key, old, document)

    write.change(key, hooked, kind)


def change_each(
    call: TermCall,
    table: TableName,
    keys: list[bytes],
    compute: Callable[[Any], Any],
    kind: int,
    wanted: bool | str,
    *,
    is_pure: bool,
) -> dict[str, Any]:
    """The statement for these documents, with one function for each."""

    def work(write: Write, hook: Hook | None) -> None:
        for key in keys:
            change(write, hook, key, compute, kind)

    return carry_out(call, table, work, wanted, is_pure=is_pure)


# ---------------------------------------------------------------------------------------------------------------
# insert


@handles("insert")
def insert(call: TermCall) -> Any:
    table = call.table()
    assert table.table is not None
    if tables.is_computed(table.table):
        raise OperationFailed(f"The system table `{table.table}` doesn't support inserting.")
    if call.has_option("upsert"):
        raise QueryError("Error: encountered obsolete optarg `upsert`.  Use `conflict` instead.")
    wanted = return_changes(call)
    conflict = conflict_of(call)
    name = tables.table_info(call.evaluator.native, table.table).primary_key
    generated: list[str] = []
    rows = [prepare_document(document, name, generated) for document in read_documents(call)]
    bodies = encode_bodies(rows) if conflict == "error" and len(rows) > 1 else None
    may_come_back = conflict in ("replace", "update") and is_sent(call)

    def work(write: Write, hook: Hook | None) -> None:
        write.generated_keys = generated
        # These mistakes are found before anything is written, so they come first.
        write.first_error = next((row for key, row in rows if key is None), None)
        is_plain = hook is None and write.table.hook is None and not write.table.has_unique
        if bodies is not None and is_plain and call.evaluator.options.array_limit <= MAX_ARRAY_ON_DISK:
            keys = [key for key, _ in rows if key is not None]
            if not any(write.head(key) is not None for key in keys):
                insert_together(write, Prepared(write.table.primary_key, keys, bodies, generated))
                return
        for key, row in rows:
            if key is None:
                write.count("errors", None, None, row)
            else:
                compute = partial(resolve_conflict, name, conflict, row)
                change(write, hook, key, with_restoring(compute) if may_come_back else compute, REPLACE)

    return carry_out(call, table.table, work, wanted, is_pure=not callable(conflict))


def encode_bodies(rows: list[tuple[bytes | None, Any]]) -> list[bytes] | None:
    """The documents' bytes, encoded before the write lock is taken; None if a document cannot be stored, or two have the same
    key."""
    keys = {key for key, _ in rows}
    if len(keys) < len(rows) or None in keys:
        return None
    try:
        return [body_of(document) for _, document in rows]
    except ReactDBError:
        return None


def read_documents(call: TermCall) -> list[Any]:
    value = call.values[1]
    if isinstance(value, Sequence):
        return list(call.elements(1))
    datum = call.datum(1)
    if isinstance(datum, list):
        return datum
    if not isinstance(datum, dict):
        # A single value that is not an object fails the statement; in an array it is counted as a wrong document.
        raise cannot_convert(datum)
    return [datum]


def prepare_document(document: Any, name: str, generated: list[str]) -> tuple[bytes | None, Any]:
    """(key, document), with a generated key if the document had none; (None, message) if it cannot be stored."""
    spend(CALL_STEPS)
    try:
        check_object(document)
        if name not in document:
            key = new_key()
            document = {**document, name: key}
            generated.append(key)
        given = document[name]
        if is_spelled(given):
            document = {**document, name: stored_key(given)}
        return primary_key(given), document
    except (QueryError, InvalidKey) as error:
        return None, str(error)


def conflict_of(call: TermCall) -> Any:
    """The treatment of an existing key: a word, or a function."""
    term = call.term.options.get("conflict")
    if term is None:
        return "error"
    value = call.evaluator.run(term, call.scope)
    if isinstance(value, Function):
        if len(value.parameters) not in (0, 3):
            raise QueryError("The conflict function passed to `insert` should expect 3 arguments.")
        if not value.is_deterministic:
            raise QueryError("The conflict function passed to `insert` must be deterministic.")
        return value
    if not isinstance(value, str):
        raise with_path(expected_kind("STRING", value), call.option_path("conflict"))
    if value not in ("error", "replace", "update"):
        error = QueryError(
            f'Conflict option `{value}` unrecognized (options are "error", "replace" and "update").'
        )
        raise with_path(error, call.option_path("conflict"))
    return value


def resolve_conflict(name: str, conflict: Any, new: dict[str, Any], old: Any) -> Any:
    """The document to store if `new` is inserted and `old` has its key."""
    if old is None:
        return new
    if conflict == "error":
        raise QueryError(f"Duplicate primary key `{name}`:\n{cut(pretty(old))}\n{cut(pretty(new))}")
    if conflict == "replace":
        return new
    if conflict == "update":
        return merge_patch(old, new)
    result = conflict(new[name], old, new)
    if result is not None and not isinstance(result, dict):
        raise QueryError(
            f"Inserted value must be an OBJECT (got {collation.type_name(result)}):\n{cut(pretty(result))}"
        )
    return result


# ---------------------------------------------------------------------------------------------------------------
# update, replace, delete


def read_target(call: TermCall) -> tuple[TableName, list[bytes]]:
    """The table and the keys of the documents to write."""
    value = call.values[0]
    if isinstance(value, (Single, Sequence)) and tables.is_computed(value.table):
        raise OperationFailed(f"The system table `{value.table}` is computed, and cannot be written.")
    if isinstance(value, Single):
        if value.error is not None:
            raise value.error
        if value.key is not None:
            return value.table, [value.key]
        document = value.document()
        if document is None:
            return value.table, []
        return value.table, [key_of(call, value.table, document)]
    if not isinstance(value, Sequence) or value.table is None:
        raise with_path(expected("SELECTION", value), call.paths[0])
    return value.table, [key_of(call, value.table, document) for document in call.elements(0)]


def key_of(call: TermCall, table: TableName, document: dict[str, Any]) -> bytes:
    name = tables.table_info(call.evaluator.native, table).primary_key
    return collation.key_bytes(stored_key(document[name]))


def check_atomic(call: TermCall) -> bool:
    """Whether the function reads only its document. Raises if it does not, and `non_atomic` is not given."""
    is_pure = is_deterministic(call.term.arguments[1])
    if not is_pure and not call.flag("non_atomic"):
        raise with_path(QueryError(NOT_ATOMIC), call.path)
    return is_pure


def evaluate_target(call: TermCall) -> TermCall:
    """The call with only its first argument evaluated: the new value is computed for each document, and may fail for
    each of them."""
    evaluator, first = call.evaluator, call.term.arguments[0]
    return TermCall(evaluator, call.term, call.scope, [evaluator.run(first, call.scope)], [first.path])


def new_value(call: TermCall) -> Callable[[Any], Any]:
    """The second argument as a function of the document."""
    evaluator, term, scope = call.evaluator, call.term.arguments[1], call.scope
    if term.type is FUNC:
        return Function(evaluator, term, scope)
    if term.is_constant:
        return lambda _document: term.value
    return lambda _document: evaluator.datum(term, scope)


@handles("update", lazy=True)
def update(call: TermCall) -> Any:
    wanted = return_changes(call)
    is_pure = check_atomic(call)
    patch = new_value(call)
    source = evaluate_target(call)
    selected = source.values[0]
    if is_configuration(selected):
        documents = [selected.document()] if isinstance(selected, Single) else list(source.elements(0))
        return configure(call, documents, patch, wanted)
    table, keys = read_target(source)
    may_come_back = is_sent(call)

    def compute(old: Any) -> Any:
        if old is None:
            return SKIPPED
        given = patch(old)
        if isinstance(given, Literal):
            raise stray_literal()
        new = merge_patch(old, check_patch(given))
        return restore_unsendable(new, old) if may_come_back else new

    return change_each(call, table, keys, compute, UPDATE, wanted, is_pure=is_pure)


def is_sent(call: TermCall) -> bool:
    """Whether the second argument comes from the client, and is not computed from a document."""
    term = call.term.arguments[1]
    return term.type is not FUNC and not call.scope and is_deterministic(term)


def restore_unsendable(new: Any, old: Any) -> Any:
    """A document from the client, perhaps computed from the old document: values that ReQL lacks stay unchanged if they come back
    in the form that the client saw.
    """
    return restore(new, old, RESPELLING) if isinstance(old, dict) and isinstance(new, dict) else new


def with_restoring(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda old: restore_unsendable(compute(old), old)


def check_patch(value: Any) -> Any:
    """The patch of an update: an object or null; null changes nothing."""
    return {} if value is None else check_object(value)


@handles("replace", lazy=True)
def replace(call: TermCall) -> Any:
    wanted = return_changes(call)
    is_pure = check_atomic(call)
    new = new_value(call)
    table, keys = read_target(evaluate_target(call))
    compute = with_restoring(new) if is_sent(call) else new
    return change_each(call, table, keys, compute, REPLACE, wanted, is_pure=is_pure)


@handles("delete")
def delete(call: TermCall) -> Any:
    wanted = return_changes(call)
    selected = call.values[0]
    if isinstance(selected, (Single, Sequence)) and selected.table == JOBS:
        return end_jobs(call, selected)
    table, keys = read_target(call)
    return change_each(call, table, keys, lambda _old: None, DELETE, wanted, is_pure=True)


def end_jobs(call: TermCall, selected: Single | Sequence) -> dict[str, Any]:
    """End the queries whose rows in the table of jobs are deleted. A query ends only itself, as on a real server."""
    documents = [selected.document()] if isinstance(selected, Single) else list(call.elements(0))
    jobs = jobs_of(call.evaluator.native)
    running = [job for job in map(jobs.find, (one["id"] for one in documents if one)) if job is not None]
    if call.evaluator.job in running:
        raise Terminated(TERMINATED)
    for job in running:
        job.kill()
    skipped = len(documents) - len(running)
    return {**COUNTERS, "deleted": len(running), "skipped": skipped}


@handles("for_each")
def for_each(call: TermCall) -> Any:
    """Execute a write for each element and add up the answers: a write of documents, databases, tables or indexes."""
    value = call.values[1]
    limit, total, warnings = call.evaluator.options.array_limit, dict[str, Any](), set[str]()
    for element in call.elements(0):
        if isinstance(value, Function):
            result, path = value.value(element), value.body.path
        else:
            # A write that is not a function was executed once, before; its answer counts for each element.
            result, path = value, call.paths[1]
        try:
            answers = call.evaluator.as_datum(result, path)
        except ReactDBError:
            raise with_path(QueryError(NO_WRITE), path) from None
        if not isinstance(answers, (dict, list)):
            sentence = f"{NO_WRITE}  Expected type ARRAY but found {collation.type_name(answers)}."
            raise with_path(QueryError(sentence), path)
        for answer in answers if isinstance(answers, list) else [answers]:
            add_up(total, check_answer(answer), limit, warnings)
    if warnings:
        total["warnings"] = [*total.get("warnings", []), *sorted(warnings)]
    return total


def check_answer(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise QueryError(f"{NO_WRITE}  Expected type OBJECT but found {collation.type_name(answer)}.")
    return answer


def add_up(total: dict[str, Any], answer: dict[str, Any], limit: int, warnings: set[str]) -> None:
    """Add an answer to the total: numbers are added, lists are concatenated, and of texts (`first_error`) the first is kept."""
    spend(1 + len(answer))
    for name, value in answer.items():
        if name not in total:
            total[name] = value
            continue
        before = total[name]
        if is_number(before) and is_number(value):
            total[name] = before + value
        elif isinstance(before, list) and isinstance(value, list):
            total[name] = [*before, *value]
            if len(total[name]) > limit:
                del total[name][limit:]
                warnings.add(f"Too many changes, array truncated to {limit}.")
        elif not (isinstance(before, str) and isinstance(value, str)):
            raise QueryError(
                f"{NO_WRITE}  Cannot merge statistics `{cut(pretty(before))}` (type {collation.type_name(before)}) and "
                f"`{cut(pretty(value))}` (type {collation.type_name(value)})."
            )
