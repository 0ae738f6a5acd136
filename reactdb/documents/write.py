"""Writes: the effect of `insert`, `update`, `replace` and `delete` on documents, inside one write transaction.

One statement is a `Write`: a table, its work, a policy, and the counters of the result. The writer calls it with the
transaction. Each operation computes
the new content of a key and gives it to `Write.put`, which compares it with the stored content, gives it to the
transaction and counts it. An unchanged document is left alone, so that it makes no log entry and reaches no feed.
Only an insert that replaces nothing takes another path: it gives its documents to the transaction together.

A policy says which documents may be stored and how mistakes are handled. The native one raises, so that the whole
write leaves nothing behind; a dialect's policy may count the mistake and continue with the next document.

Rule of this file: it is called under the write lock. Encoding and checks that need no lock are done before, by
`prepare`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Self

from reactdb.change import DELETE, INSERT, REPLACE, UPDATE, TableReference
from reactdb.documents.read import run
from reactdb.errors import (
    Conflict,
    DuplicateKey,
    InvalidDocument,
    InvalidKey,
    InvalidOption,
    QueryError,
    ReactDBError,
    TableNotFound,
    UsageError,
    format_word,
    is_one_of,
)
from reactdb.expression import compute_returned, merge_document
from reactdb.identifiers import new_key
from reactdb.query import Get, Query
from reactdb.store.catalogue import TableInfo
from reactdb.store.transaction import Documents, KeyTaken, WriteTransaction
from reactdb.values import codec, collation
from reactdb.values.refusals import explain_document

OnConflict = Literal["error", "replace", "update"] | Callable[[Any, dict[str, Any], dict[str, Any]], Any]
Stored = tuple[int, bytes]
Patch = dict[str, Any] | Callable[[dict[str, Any]], Any]

COUNTERS: Final = {"deleted": 0, "errors": 0, "inserted": 0, "replaced": 0, "skipped": 0, "unchanged": 0}
"""ReQL's counters of a write without any effect."""

SKIPPED: Final = object()
"""A result for `Write.change`: leave the key as it is, and count it as skipped."""


# ---------------------------------------------------------------------------------------------------------------
# A statement


class Policy:
    """The rules for documents, and the handling of mistakes. This policy is native: a mistake is raised.

    Attributes:
        counts_errors: A mistake in one document is counted in `errors`, and the write continues with the next
            document.
        is_same: Whether an encoded document equals the stored document, so that nothing is logged.
            `codec.same_in_order` also compares the order of fields, and so logs a document if only the order has
            changed.
        checks_documents: `encode` looks at the whole document, also where a patch has plain fields only.
    """

    counts_errors = False
    checks_documents = False
    is_same: Callable[[bytes, bytes], bool] = staticmethod(codec.same_bytes)

    def encode(self, table: TableInfo, key: bytes, old_body: bytes | None, document: Any) -> bytes:
        """The bytes of the new document of `key`; `old_body` is the document that it replaces.

        Raises:
            ReactDBError: It cannot be stored, or its primary key differs.
        """
        return encode_checked(table, key, old_body, document)

    def sentence(self, error: ReactDBError) -> str:
        """The text of `first_error` for a counted mistake."""
        return str(error)


RAISE: Final = Policy()


class Write:
    """One write statement: on one table, by one policy. Called with a transaction, it does its work there, and returns ReQL's
    answer; called again, it begins anew. It counts its results.

    Attributes:
        transaction: The transaction that it writes in.
        table: Its table, as the transaction has it.
        counts: ReQL's counters.
        first_error: The first mistake, where mistakes are counted.
        generated_keys: The keys that were made for documents without one.
        return_changes: Which documents to return: none, the changed documents, or "always".
        changes: The documents before and after, if they are to be returned.
    """

    __slots__ = (
        "_name",
        "_work",
        "changes",
        "counts",
        "first_error",
        "generated_keys",
        "policy",
        "return_changes",
        "table",
        "transaction",
    )

    def __init__(
        self,
        name: TableReference,
        work: Callable[[Write], object],
        policy: Policy = RAISE,
        return_changes: bool | str = False,
    ) -> None:
        """
        Args:
            work: Called with the `Write`.
            return_changes: As `check_return_changes` lets it pass.
        """
        self._name = name
        self._work = work
        self.policy = policy
        self.return_changes = return_changes

    @classmethod
    def begun(cls, transaction: WriteTransaction, table: TableInfo, policy: Policy = RAISE) -> Self:
        """A statement in an open transaction whose work is the caller's."""
        write = cls(table.reference, no_work, policy)
        write(transaction)
        return write

    def __call__(self, transaction: WriteTransaction) -> dict[str, Any]:
        """
        Raises:
            TableNotFound; every error of the work. The caller rolls back.
        """
        table = transaction.catalogue.live.get(self._name)
        if table is None:
            raise TableNotFound(str(self._name))
        self.transaction = transaction
        self.table = table
        self.counts = COUNTERS.copy()
        self.first_error: str | None = None
        self.generated_keys: Sequence[str] = ()
        self.changes: list[dict[str, Any]] | None = [] if self.return_changes else None
        self._work(self)
        return self.result()

    def result(self) -> dict[str, Any]:
        """ReQL's answer to a write."""
        answer: dict[str, Any] = self.counts
        if self.first_error is not None:
            answer["first_error"] = self.first_error
        if self.generated_keys:
            answer["generated_keys"] = self.generated_keys
        if self.changes is not None:
            answer["changes"] = self.changes
        return answer

    def count(
        self, counter: str, old: bytes | None = None, new: bytes | None = None, error: str | None = None
    ) -> None:
        """Count one document. `old` and `new`: its bytes before and after; `error`: the reason of a failure."""
        self.counts[counter] += 1
        if error is not None and self.first_error is None:
            self.first_error = error
        if self.changes is not None and (
            self.return_changes == "always" or counter in ("deleted", "inserted", "replaced")
        ):
            change: dict[str, Any] = {
                "old_val": None if old is None else codec.decode(old),
                "new_val": None if new is None else codec.decode(new),
            }
            if error is not None:
                change["error"] = error
            self.changes.append(change)

    def head(self, key: bytes) -> Stored | None:
        """(seq, encoded document) of a key as this transaction sees it, or None."""
        return self.transaction.head(self.table, key)

    def put(
        self,
        key: bytes,
        old: Stored | None,
        body: bytes | None,
        kind: int,
        asked: Any = None,
        meta: bytes | None = None,
        documents: Documents | None = None,
    ) -> None:
        """Make the document with these bytes (None: no document) the content of `key`. `old` is the result of `head`.

        Args:
            kind: REPLACE or UPDATE, for an existing document; the other kinds follow from the stored state.
            asked: A dialect's argument for the table's write hook; with it, the hook runs also for an unchanged
                document.
            meta: A dialect's data about this change, in a table without a hook: the entry's metadata.
            documents: The decoded `old` and `body`, where the caller has them; see `WriteTransaction.write`.

        Raises:
            UsageError: The hook refuses it, or this process does not know the hook; unless the policy counts errors.
        """
        old_body = None if old is None else old[1]
        if body is None:
            if old is None:
                self.count("skipped")
                return
            kind, counter = DELETE, "deleted"
        elif old_body is None:
            kind, counter = INSERT, "inserted"
        elif asked is None and self.policy.is_same(old_body, body):
            self.count("unchanged", old_body, old_body)
            return
        else:
            counter = "replaced"
        before = self.transaction.count
        try:
            if self.policy.counts_errors:
                self.transaction.check_free(self.table, key, old_body, body)
            is_new = self.transaction.write(self.table, key, kind, old, body, asked, meta, documents)
        except UsageError as error:
            # A hook refuses before anything is written. But its rows for other tables are written after the document,
            # and if that fails, the statement is rolled back as a whole.
            if not self.policy.counts_errors or self.transaction.count != before:
                raise
            self.count("errors", old_body, old_body, self.policy.sentence(error))
            return
        self.count(counter if is_new else "unchanged", old_body, body)

    def put_document(
        self, key: bytes, old: Stored | None, document: Any, kind: int, asked: Any = None
    ) -> None:
        """The same for a document that the policy has still to encode.

        Raises:
            ReactDBError: The policy does not take it.
        """
        old_body = None if old is None else old[1]
        body = None if document is None else self.policy.encode(self.table, key, old_body, document)
        self.put(key, old, body, kind, asked)

    def change(self, key: bytes, compute: Callable[[Any], Any], kind: int, asked: Any = None) -> None:
        """Replace the old document (None: there is none) by the result of `compute`.

        Args:
            compute: Gives the new document, None to delete, or SKIPPED.

        Raises:
            ReactDBError: From `compute` or from the policy, unless the policy counts errors.
        """
        old = self.head(key)
        old_body = None if old is None else old[1]
        try:
            document = compute(None if old_body is None else codec.decode(old_body))
            if document is SKIPPED:
                self.count("skipped")
                return
            body = None if document is None else self.policy.encode(self.table, key, old_body, document)
        except ReactDBError as error:
            if not self.policy.counts_errors:
                raise
            self.count("errors", old_body, old_body, self.policy.sentence(error))
            return
        self.put(key, old, body, kind, asked)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function that the caller gave.

        Raises:
            UsageError: The function has written: the document, its indexes or its table may have changed.
        """
        transaction = self.transaction
        before = transaction.count, transaction.catalogue
        result = function(*arguments)
        if before != (transaction.count, transaction.catalogue):
            raise UsageError(
                "a function passed to a write must not write itself: use a transaction around both"
            )
        return result


def no_work(write: Write) -> None:
    """The work of a statement whose caller does it."""


def check_return_changes(return_changes: object) -> None:
    """Raises: InvalidOption."""
    if not isinstance(return_changes, bool) and not is_one_of(return_changes, ("always",)):
        raise InvalidOption(
            f"Invalid return_changes value `{format_word(return_changes)}` (options are `true`, `false`, and `'always'`.)"
        )


# ---------------------------------------------------------------------------------------------------------------
# insert


class Prepared:
    """Documents on their way in: their keys and their bytes, side by side.

    Two lists of bytes and not one of pairs: the garbage collector ignores bytes, while a hundred thousand new pairs
    make it scan everything again and again.

    Attributes:
        primary_key: The field that the keys were taken from.
        generated: The keys that were made for documents without one.
    """

    __slots__ = ("bodies", "generated", "keys", "primary_key")

    def __init__(
        self, primary_key: str, keys: list[bytes], bodies: list[bytes], generated: list[str] | None = None
    ) -> None:
        self.primary_key = primary_key
        self.keys = keys
        self.bodies = bodies
        self.generated = [] if generated is None else generated

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return zip(self.keys, self.bodies, strict=True)


def prepare(documents: Iterable[Any], primary_key: str) -> Prepared:
    """Encode documents, with their keys. A document without a key gets one. Expressions in them are computed.

    Raises:
        InvalidDocument, InvalidKey, QueryError: The first invalid document.
    """
    if type(documents) is list:
        try:
            if len(documents) == 1 and type(documents[0]) is dict:
                # A copy, because another thread may change the caller's document, and its bytes must agree with its key.
                document = documents[0].copy()
                key = document.get(primary_key)
                if type(key) in PLAIN_KEYS:
                    body = codec.encode(document)
                    return Prepared(primary_key, [collation.primary_key_bytes(key)], [body])
            else:
                # The usual bulk: plain dicts that have their keys.
                encoded = codec.encode_many(documents, primary_key)
                if encoded is not None:
                    bodies, keys = encoded
                    if PLAIN_KEYS.issuperset(map(type, keys)):
                        return Prepared(primary_key, collation.primary_keys_bytes(keys), bodies)
        except InvalidDocument:
            # Below, document by document: the first mistake may be an expression, which is none.
            pass
    prepared = Prepared(primary_key, [], [])
    computed = None
    for document in documents:
        own = copy_to_dict(document)
        if primary_key not in own:
            key = new_key()
            prepared.generated.append(key)
            own = {primary_key: key, **own}
        try:
            body = codec.encode(own)
        except InvalidDocument:
            # Imported here because few documents have expressions.
            from reactdb.documents.computed_values import ComputedValues

            computed = computed or ComputedValues()
            own = computed.compute(own)
            body = codec.encode(own)
        prepared.keys.append(key_within(own, body, primary_key))
        prepared.bodies.append(body)
    return prepared


PLAIN_KEYS = frozenset({str, int, float, bool, bytes})
"""Types of immutable values."""


def key_within(
    own: dict[str, Any], body: bytes, primary_key: str, most: int = collation.MAX_KEY_BYTES
) -> bytes:
    """The collation bytes of a document's key, at most `most`. No other code holds `own`; `body` is `own` encoded."""
    key = own[primary_key]
    if type(key) not in PLAIN_KEYS:
        # Another thread may change a list, and an instance of a caller's class may give another value each time.
        collation.primary_key_bytes(key, most)
        key = codec.decode(body)[primary_key]
    return collation.primary_key_bytes(key, most)


def copy_to_dict(document: Any) -> dict[str, Any]:
    """A plain dict with the contents of the caller's document, one level deep. The document is read only once."""
    try:
        if isinstance(document, dict):
            fields = dict((OrderedDict if isinstance(document, OrderedDict) else dict).items(document))
        elif isinstance(document, Mapping):
            fields = dict(document)
        else:
            raise InvalidDocument(not_an_object_message(document))
    except ReactDBError:
        raise
    except Exception as error:
        raise InvalidDocument(
            f"the {type(document).__name__} cannot be read: {type(error).__name__}"
        ) from error
    # A name of a subclass of str could have its own rules of equality.
    return (
        fields
        if set(map(type, fields)) <= {str}
        else {codec.plain_name(name): fields[name] for name in fields}
    )


def prepare_again(prepared: Prepared, primary_key: str) -> Prepared:
    """The same documents for another primary key: the table was dropped, and made again, since they were prepared."""
    documents = [codec.decode(body) for body in prepared.bodies]
    generated = set(prepared.generated)
    for document in documents:
        if generated and document[prepared.primary_key] in generated:
            del document[prepared.primary_key]
    return prepare(documents, primary_key)


def insert(write: Write, documents: Prepared, conflict: OnConflict = "error") -> None:
    """Add documents; `conflict` decides about taken keys.

    Raises:
        DuplicateKey: conflict="error", and a key is taken or occurs twice. Some may be written: the write has to be
            rolled back.
    """
    if documents.primary_key != write.table.primary_key:
        documents = prepare_again(documents, write.table.primary_key)
    write.generated_keys = documents.generated
    if conflict == "error":
        transaction, keys, bodies = write.transaction, documents.keys, documents.bodies
        first = transaction.first + transaction.count
        try:
            if len(keys) == 1:
                transaction.insert(write.table, keys[0], bodies[0])
            elif keys:
                transaction.insert_many(write.table, keys, bodies)
        except KeyTaken:
            raise first_duplicate(write, documents, first) from None
        if write.changes is None:
            write.counts["inserted"] += len(keys)
        else:
            for body in bodies:
                write.count("inserted", None, body)
        return
    for key, body in documents:
        old = write.head(key)
        if old is None or conflict == "replace":
            if conflict == "update" and write.policy.checks_documents:
                # It may be a part of a document, and there is no document to merge it into.
                write.put_document(key, old, codec.decode(body), REPLACE)
            else:
                write.put(key, old, body, REPLACE)
            continue
        before, new = codec.decode(old[1]), codec.decode(body)
        if conflict == "update":
            write.put_document(key, old, merge_document(before, new), UPDATE)
        else:
            assert callable(conflict)
            resolved = write.call(conflict, before[write.table.primary_key], before, new)
            write.put_document(key, old, compute_returned(resolved, before), REPLACE)


def first_duplicate(write: Write, documents: Prepared, first: int) -> DuplicateKey:
    """The error of the first document whose key is taken, or occurs twice. `first`: the seq at which this insert
    began."""
    seen: dict[bytes, bytes] = {}
    for key, body in documents:
        stored = seen.get(key)
        if stored is None:
            # A document of this insert itself does not count: a key that comes twice is found in `seen`.
            head = write.head(key)
            stored = None if head is None or head[0] >= first else head[1]
        if stored is not None:
            name = write.table.primary_key
            return DuplicateKey(name, codec.pretty(codec.decode(stored)), codec.pretty(codec.decode(body)))
        seen[key] = body
    raise AssertionError("no key is taken")


# ---------------------------------------------------------------------------------------------------------------
# update, replace, delete


def select_documents(write: Write, selected: Query | bytes) -> list[tuple[bytes, dict[str, Any] | None]]:
    """(key, document) of the selected documents; (key, None) for `get` of a missing key.

    For a key alone, the document is not read, because the caller reads the head next.
    """
    if isinstance(selected, bytes):
        return [(selected, {})]
    result = write.call(run, selected, write.transaction.snapshot())
    if selected.is_point:
        get = selected.steps[0]
        assert isinstance(get, Get)
        return [(get.key_bytes, result)]
    if selected.is_nth:
        result = [result] if isinstance(result, dict) else []
    # For an existing document, a dialect may have written a longer key than is accepted here.
    return [(collation.key_bytes(document[write.table.primary_key]), document) for document in result]


def check_expected(
    write: Write, selected: Query | bytes, expected: Callable[[Any], bool], operation: str
) -> None:
    """Check that every selected document passes `expected`. A missing one (`get`) does not.

    Raises:
        Conflict: It names the documents that do not pass.
    """
    others = []
    for key, _ in select_documents(write, selected):
        old = write.head(key)
        document = None if old is None else codec.decode(old[1])
        if document is None or not expected(document):
            name = str(write.table.reference)
            others.append({"table": name, "key": collation.key_value(key), "document": document})
    if others:
        raise Conflict(operation, "not as `expect` says", others)


def update(write: Write, selected: Query | bytes, patch: Patch, runs_user_code: bool) -> None:
    """Merge a patch into every selected document. A missing one (`get`) is skipped.

    Args:
        selected: A query, or the key of one document.
        runs_user_code: `patch` is user code with unknown effects: it may write, and it may change its argument.
    """
    for key, document in select_documents(write, selected):
        old = None if document is None else write.transaction.head(write.table, key)
        if old is None:
            write.count("skipped")
        else:
            merge_into(write, key, old, patch, runs_user_code)


def merge_into(write: Write, key: bytes, old: Stored, patch: Patch, runs_user_code: bool) -> None:
    """Merge a patch, or the patch that it computes for the document, into one document."""
    body = old[1]
    # With open feeds, they get the documents of this write, and the documents therefore refuse changes.
    shared = None if write.transaction.changes is None else codec.decode_frozen(body)
    document = codec.decode(body) if shared is None else shared
    if isinstance(patch, dict):
        given: Any = patch
    elif runs_user_code:
        given = write.call(patch, codec.decode(body))
    else:
        given = patch(document)
    if codec.is_flat(given) and write.table.primary_key not in given and not write.policy.checks_documents:
        # Plain fields are the commonest patch, and the rest of the old document needs no check.
        new = {**document, **given}
        documents = None if shared is None else (shared, codec.FrozenDict(new))
        write.put(key, old, codec.encode_again(new), UPDATE, documents=documents)
        return
    if not isinstance(given, Mapping):
        raise QueryError(not_an_object_message(given))
    codec.check_extent(given)
    try:
        merged = merge_document(document, given)
    except RuntimeError:
        raise InvalidDocument("the patch was changed while it was being read") from None
    write.put_document(key, old, merged, UPDATE)


def replace(write: Write, selected: Query | bytes, new: Callable[[Any], Any]) -> None:
    """Replace every selected document by `new(document)`; None deletes. A missing one (`get`) is inserted."""
    for key, _ in select_documents(write, selected):
        write.change(key, lambda document: write.call(new, document), REPLACE)


def delete(write: Write, selected: Query | bytes) -> None:
    for key, _ in select_documents(write, selected):
        write.put(key, write.head(key), None, DELETE)


def encode_checked(table: TableInfo, key: bytes, old_body: bytes | None, document: Any) -> bytes:
    """The document encoded, after its primary key was checked."""
    if not isinstance(document, Mapping):
        raise InvalidDocument(not_an_object_message(document))
    own = dict(document) if type(document) is dict else copy_to_dict(document)
    body = codec.encode(own)
    if table.primary_key not in own:
        raise InvalidDocument(
            f"Inserted object must have primary key `{table.primary_key}`:\n{codec.pretty(codec.decode(body))}"
        )
    if key_within(own, body, table.primary_key, max(len(key), collation.MAX_KEY_BYTES)) != key:
        new = codec.pretty(codec.decode(body))
        if old_body is None:
            raise InvalidKey(
                f"Primary key `{table.primary_key}` of the document is not the key that was selected:\n{new}"
            )
        old = codec.pretty(codec.decode(old_body))
        raise InvalidKey(f"Primary key `{table.primary_key}` cannot be changed (`{old}` -> `{new}`).")
    return body


def not_an_object_message(value: Any) -> str:
    """ReQL's sentence, which prints the value. For a foreign object it names the type, and what to write instead where that is
    known."""
    foreign = explain_document(value)
    if foreign is not None:
        return foreign
    try:
        value = codec.decode_value(codec.encode_value(value))
    except InvalidDocument:
        return f"Inserted value must be an OBJECT (got {type(value).__name__})"
    return f"Inserted value must be an OBJECT (got {collation.type_name(value)}):\n{codec.pretty(value)}"
