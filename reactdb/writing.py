"""Writing: what `insert`, `update`, `replace` and `delete` do to documents, inside one write transaction.

A native write that fails raises and leaves nothing behind; a document that would become equal to what is stored is left
alone, so that it makes no log entry and tells nobody. Results are ReQL's counters.

Rule of this file: a function here gets a `WriteTransaction` and prepared documents. Encoding and checking what can be checked
beforehand happens in `prepare`, outside the lock.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from reactdb.change import DELETE, INSERT, REPLACE, UPDATE
from reactdb.errors import (
    DuplicateKey,
    InvalidDocument,
    InvalidKey,
    InvalidOption,
    QueryError,
    ReactDBError,
    UsageError,
    is_one_of,
    word,
)
from reactdb.expression import merge_document
from reactdb.identifiers import new_key
from reactdb.query import Get, Query
from reactdb.reading import run
from reactdb.store.catalogue import TableInfo
from reactdb.store.transaction import KeyTaken, WriteTransaction
from reactdb.values import codec, collation

Conflict = Literal["error", "replace", "update"] | Callable[[Any, dict[str, Any], dict[str, Any]], Any]
Stored = tuple[int, bytes]
Patch = dict[str, Any] | Callable[[dict[str, Any]], Any]
Outcome = tuple[str, bytes | None, bytes | None]
"""What a write did to one document: the counter of it, and the document before and after."""


class Prepared:
    """Documents on their way in: their keys and their bytes, side by side.

    Two lists of bytes and not one of pairs: bytes are nothing to the garbage collector, and a hundred thousand new pairs make
    it look through everything again and again.
    """

    __slots__ = ("bodies", "document", "generated", "keys")

    def __init__(self) -> None:
        # Of one: a copy of ours.
        self.document: dict[str, Any] | None = None
        self.keys: list[bytes] = []
        self.bodies: list[bytes] = []
        self.generated: list[str] = []

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return zip(self.keys, self.bodies, strict=True)


def check_return_changes(return_changes: object) -> None:
    """Raises: InvalidOption."""
    if not isinstance(return_changes, bool) and not is_one_of(return_changes, ("always",)):
        raise InvalidOption(
            f"Invalid return_changes value `{word(return_changes)}` (options are `true`, `false`, and `'always'`.)"
        )


NOTHING = {"deleted": 0, "errors": 0, "inserted": 0, "replaced": 0, "skipped": 0, "unchanged": 0}
"""ReQL's counters of a write that did nothing."""


class Tally:
    """ReQL's counters of one write, and its changes where they are asked for."""

    __slots__ = ("changes", "counts", "generated_keys", "keeps_all")

    def __init__(self, return_changes: bool | str = False) -> None:
        """`return_changes`: as `check_return_changes` lets it pass."""
        self.counts = NOTHING.copy()
        self.generated_keys: list[str] = []
        self.changes: list[dict[str, Any]] | None = [] if return_changes else None
        self.keeps_all = return_changes == "always"

    def add(self, counter: str, old: bytes | None, new: bytes | None) -> None:
        self.counts[counter] += 1
        if self.changes is not None and (self.keeps_all or counter not in ("unchanged", "skipped")):
            self.changes.append(
                {
                    "old_val": None if old is None else codec.decode(old),
                    "new_val": None if new is None else codec.decode(new),
                }
            )

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = self.counts
        if self.generated_keys:
            found["generated_keys"] = self.generated_keys
        if self.changes is not None:
            found["changes"] = self.changes
        return found


# ---------------------------------------------------------------------------------------------------------------
# insert


def prepare(documents: Iterable[Any], primary_key: str) -> Prepared:
    """Documents with their keys, encoded. One without a key gets one.

    Raises:
        InvalidDocument, InvalidKey: Of the first that is not right.
    """
    prepared = Prepared()
    key_of = collation.primary_key_bytes
    if type(documents) is list and len(documents) == 1 and type(documents[0]) is dict:
        # A copy: the bytes must have the key that they are filed under, and another thread may change what is the caller's.
        document = documents[0].copy()
        key = document.get(primary_key)
        if type(key) in PLAIN_KEYS:
            prepared.bodies = [codec.encode(document)]
            prepared.keys = [key_of(key)]
            prepared.document = document
            return prepared
    elif type(documents) is list:
        # The usual bulk: plain dicts that have their keys.
        encoded = codec.encode_many(documents, primary_key)
        if encoded is not None:
            prepared.bodies, keys = encoded
            if PLAIN_KEYS.issuperset(map(type, keys)):
                prepared.keys = collation.primary_keys_bytes(keys)
                return prepared
            prepared = Prepared()
    for document in documents:
        own = as_dict(document)
        if primary_key not in own:
            key = new_key()
            prepared.generated.append(key)
            own = {primary_key: key, **own}
        body = codec.encode(own)
        prepared.keys.append(key_within(own, body, primary_key))
        prepared.bodies.append(body)
    return prepared


PLAIN_KEYS = frozenset({str, int, float, bool, bytes})
"""Types of keys that say the same whenever they are asked."""


def key_within(own: dict[str, Any], body: bytes, primary_key: str) -> bytes:
    """The key's bytes of a document that only we hold, and of which these are the bytes."""
    key = own[primary_key]
    if type(key) not in PLAIN_KEYS:
        # A list may be changed by another thread, a class of the caller's may say something else each time it is asked.
        collation.primary_key_bytes(key)
        key = codec.decode(body)[primary_key]
    return collation.primary_key_bytes(key)


def as_dict(document: Any) -> dict[str, Any]:
    """A plain dict of what the caller's holds now, one level deep, so that it is asked once only."""
    try:
        if isinstance(document, dict):
            found = dict((OrderedDict if isinstance(document, OrderedDict) else dict).items(document))
        elif isinstance(document, Mapping):
            found = dict(document)
        else:
            raise InvalidDocument(not_an_object(document))
    except ReactDBError:
        raise
    except Exception as error:
        raise InvalidDocument(
            f"the {type(document).__name__} cannot be read: {type(error).__name__}"
        ) from error
    # Names that are a str's subclass would make their own rules of what is equal.
    return (
        found if set(map(type, found)) <= {str} else {codec.plain_name(name): found[name] for name in found}
    )


def prepare_again(prepared: Prepared, assumed: str, primary_key: str) -> Prepared:
    """The same documents for another primary key: the table was dropped, and made again, since they were prepared."""
    documents = [codec.decode(body) for body in prepared.bodies]
    generated = set(prepared.generated)
    for document in documents:
        if generated and document[assumed] in generated:
            del document[assumed]
    return prepare(documents, primary_key)


def insert(
    transaction: WriteTransaction, table: TableInfo, documents: Prepared, conflict: Conflict, tally: Tally
) -> None:
    """Add documents; `conflict` says what happens where a key is taken.

    Raises:
        DuplicateKey: conflict="error", and a key is taken or comes twice.
    """
    if conflict == "error":
        insert_free(transaction, table, documents)
        tally.counts["inserted"] += len(documents)
        if tally.changes is not None:
            tally.changes.extend({"old_val": None, "new_val": codec.decode(body)} for _, body in documents)
        return
    for key, body in documents:
        old = transaction.head(table, key)
        if old is None:
            transaction.write(table, key, INSERT, None, body)
            tally.add("inserted", None, body)
        elif conflict == "replace":
            tally.add(*put(transaction, table, key, old, codec.decode(body), REPLACE))
        elif conflict == "update":
            merged = merge_document(codec.decode(old[1]), codec.decode(body))
            tally.add(*put(transaction, table, key, old, merged, UPDATE))
        else:
            assert callable(conflict)
            before = codec.decode(old[1])
            new = asked(transaction, conflict, before[table.primary_key], before, codec.decode(body))
            tally.add(*put(transaction, table, key, old, new, REPLACE))


def insert_free(transaction: WriteTransaction, table: TableInfo, documents: Prepared) -> None:
    """Insert, taking it for granted that every key is free; where that was wrong, find out which and say so."""
    first = transaction.first + transaction.count
    try:
        if len(documents) == 1:
            transaction.insert(table, documents.keys[0], documents.bodies[0])
            if transaction.changes is not None and transaction.count == 1 and documents.document is not None:
                transaction.documents = documents.bodies[0], None, documents.document
        elif len(documents):
            transaction.insert_many(table, documents.keys, documents.bodies)
    except KeyTaken:
        seen: dict[bytes, bytes] = {}
        for key, body in documents:
            stored = seen.get(key)
            if stored is None:
                # What this insert itself has put there does not count: what it took twice is found in `seen`.
                head = transaction.head(table, key)
                stored = None if head is None or head[0] >= first else head[1]
            if stored is not None:
                raise DuplicateKey(
                    table.primary_key, codec.pretty(codec.decode(stored)), codec.pretty(codec.decode(body))
                ) from None
            seen[key] = body
        raise


# ---------------------------------------------------------------------------------------------------------------
# update, replace, delete


def asked(transaction: WriteTransaction, function: Callable[..., Any], *arguments: Any) -> Any:
    """What the caller's function gives.

    Raises:
        UsageError: It has written. The document at hand, its indexes, or its table may not be what they were.
    """
    before = transaction.count, transaction.catalogue
    found = function(*arguments)
    if before != (transaction.count, transaction.catalogue):
        raise UsageError(
            "a function that is given to a write must not write itself: use a transaction around both"
        )
    return found


def matching(
    transaction: WriteTransaction, query: Query, table: TableInfo
) -> list[tuple[bytes, dict[str, Any] | None]]:
    """(key, document) of what a query selects; (key, None) for `get` of a key that is not there."""
    if query.is_point:
        get = query.steps[0]
        assert isinstance(get, Get)
        if len(query.steps) == 1:
            # Whoever asks reads the head next: no need to read it here as well.
            return [(get.key_bytes, {})]
        return [(get.key_bytes, asked(transaction, run, query, transaction.snapshot()))]
    found = asked(transaction, run, query, transaction.snapshot())
    return [(collation.primary_key_bytes(document[table.primary_key]), document) for document in found]


def update(
    transaction: WriteTransaction,
    query: Query,
    table: TableInfo,
    patch: Patch,
    tally: Tally,
    runs_user_code: bool,
) -> None:
    """Merge a patch into every selected document. A missing one (`get`) is skipped."""
    for key, document in matching(transaction, query, table):
        if document is None:
            tally.add("skipped", None, None)
        else:
            tally.add(*update_one(transaction, table, key, patch, runs_user_code))


def update_one(
    transaction: WriteTransaction, table: TableInfo, key: bytes, patch: Patch, runs_user_code: bool
) -> Outcome:
    """Merge a patch, or what it gives for the document, into the document of a key. A missing one is skipped.

    Args:
        runs_user_code: What `patch` does is not known: it may write, and it may change what it is given.
    """
    old = transaction.head(table, key)
    if old is None:
        return "skipped", None, None
    body = old[1]
    document = codec.decode(body)
    if isinstance(patch, dict):
        # A copy, which no other thread can change any more.
        given: Any = patch.copy() if type(patch) is dict else patch
    elif runs_user_code:
        given = asked(transaction, patch, document)
        document = codec.decode(body)
    else:
        given = patch(document)
    if codec.is_flat(given) and table.primary_key not in given:
        count = len(document)
        before = None if transaction.changes is None or transaction.count else document.copy()
        document.update(given)
        new = codec.encode_again(document)
        # Where no field was added, they are where they were: equal documents have equal bytes then.
        if new == body or (len(document) != count and codec.same_bytes(body, new)):
            return "unchanged", body, body
        transaction.write(table, key, UPDATE, old, new)
        if before is not None:
            transaction.documents = new, before, document
        return "replaced", body, new
    if not isinstance(given, Mapping):
        raise QueryError(not_an_object(given))
    codec.check_extent(given)
    try:
        merged = merge_document(document, given)
    except RuntimeError:
        raise InvalidDocument("the patch was changed while it was being read") from None
    return put(transaction, table, key, old, merged, UPDATE)


def replace(
    transaction: WriteTransaction, query: Query, table: TableInfo, new: Callable[[Any], Any], tally: Tally
) -> None:
    """Put `new(document)` in the place of every selected document; None deletes. A missing one (`get`) is inserted."""
    for key, _ in matching(transaction, query, table):
        old = transaction.head(table, key)
        document = asked(transaction, new, None if old is None else codec.decode(old[1]))
        tally.add(*put(transaction, table, key, old, document, REPLACE))


def delete(transaction: WriteTransaction, query: Query, table: TableInfo, tally: Tally) -> None:
    for key, _ in matching(transaction, query, table):
        tally.add(*put(transaction, table, key, transaction.head(table, key), None, DELETE))


def put(
    transaction: WriteTransaction, table: TableInfo, key: bytes, old: Stored | None, document: Any, kind: int
) -> Outcome:
    """Make `document` (None: nothing) the content of `key`.

    Raises:
        InvalidDocument, InvalidKey: The document, or a primary key that differs from the one selected.
    """
    old_body = None if old is None else old[1]
    if document is None:
        if old is None:
            return "skipped", None, None
        transaction.write(table, key, DELETE, old, None)
        return "deleted", old_body, None
    body = checked_body(table, key, old_body, document)
    if old is None:
        transaction.write(table, key, INSERT, None, body)
        return "inserted", None, body
    if codec.same_bytes(old[1], body):
        return "unchanged", old_body, old_body
    transaction.write(table, key, kind, old, body)
    return "replaced", old_body, body


def checked_body(table: TableInfo, key: bytes, old_body: bytes | None, document: Any) -> bytes:
    """The document encoded, after a look at its primary key."""
    if not isinstance(document, Mapping):
        raise InvalidDocument(not_an_object(document))
    own = dict(document) if type(document) is dict else as_dict(document)
    body = codec.encode(own)
    if table.primary_key not in own:
        raise InvalidDocument(
            f"Inserted object must have primary key `{table.primary_key}`:\n{codec.pretty(codec.decode(body))}"
        )
    if key_within(own, body, table.primary_key) != key:
        new = codec.pretty(codec.decode(body))
        if old_body is None:
            raise InvalidKey(
                f"Primary key `{table.primary_key}` of the document is not the key that was selected:\n{new}"
            )
        old = codec.pretty(codec.decode(old_body))
        raise InvalidKey(f"Primary key `{table.primary_key}` cannot be changed (`{old}` -> `{new}`).")
    return body


def not_an_object(value: Any) -> str:
    """ReQL's sentence, which prints the value; what is no value at all is only named."""
    try:
        value = codec.decode_value(codec.encode_value(value))
    except InvalidDocument:
        return f"Inserted value must be an OBJECT (got {type(value).__name__})"
    return f"Inserted value must be an OBJECT (got {collation.type_name(value)}):\n{codec.pretty(value)}"
