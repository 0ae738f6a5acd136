"""Table: the selection of all documents of a table, and what only a table can do: keys, inserts, indexes.

Rule of this file: as of `selection`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reactdb.access import find_table
from reactdb.errors import (
    IndexExists,
    IndexNotFound,
    InvalidKey,
    InvalidOption,
    MissingValue,
    QueryError,
    is_one_of,
    shown,
    word,
)
from reactdb.expression import Expression, compile_value, expr, is_deterministic, row, to_data
from reactdb.point_selection import PointSelection
from reactdb.query import GetAll
from reactdb.selection import Selection, check_given, check_index, live_table
from reactdb.store.catalogue import check_name, check_text
from reactdb.store.transaction import WriteTransaction
from reactdb.values import codec, collation
from reactdb.values.collation import primary_key_bytes
from reactdb.writing import Conflict, Tally, check_return_changes, insert, prepare, prepare_again


class Table(Selection):
    """A table: the selection of all its documents, and what can be done to it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return self._query.table

    def __repr__(self) -> str:
        return f"<Table {self.name!r}>"

    @property
    def primary_key(self) -> str:
        """The name of the field that is the key."""
        with self._database._snapshot() as snapshot:
            return find_table(self.name, snapshot).primary_key

    def get(self, key: Any) -> PointSelection:
        """The document with this primary key. 1 and 1.0 are one key.

        Raises:
            InvalidKey: The value cannot be a key; MissingValue for None.
        """
        data = primary_key_bytes(key) if type(key) is str else key_of(key)
        return PointSelection(self._database, self._query.table, key, data)

    def get_all(self, *keys: Any, index: str | None = None) -> Selection:
        """The documents with these keys, in the order asked for; of the primary key or of an index.

        A key that is listed twice gives its documents twice, as in ReQL.
        """
        check_index(index)
        encoded = tuple(key_of(key) if index is None else index_key_of(key) for key in keys)
        return self._then(GetAll(tuple(keys), encoded, index))

    def insert(
        self,
        documents: Any,
        *,
        conflict: Conflict = "error",
        durability: str | None = None,
        return_changes: bool | str = False,
    ) -> dict[str, Any]:
        """Add a document, or an iterable of them, at once and as one commit.

        Args:
            documents: A dict, or dicts. One without a primary key gets a UUID string that sorts by time.
            conflict: Where the key is taken: "error" raises, "replace" puts the new document in its place, "update" merges
                it in, and a callable gets (key, old, new) and gives the document to store, or None to delete.
            durability, return_changes: As for `update`.

        Returns:
            ReQL's counters, and `generated_keys` where keys were generated.

        Raises:
            DuplicateKey, InvalidDocument, InvalidKey: Nothing was written then, not even the documents before it.
        """
        if (
            (type(conflict) is not str or conflict != "error")
            and not callable(conflict)
            and not is_one_of(conflict, ("error", "replace", "update"))
        ):
            raise InvalidOption(
                f'Conflict option `{word(conflict)}` unrecognized (options are "error", "replace" and "update").'
            )
        given = [documents] if type(documents) is dict or isinstance(documents, Mapping) else documents
        if type(given) is not list and (isinstance(given, (str, bytes)) or not hasattr(given, "__iter__")):
            raise QueryError(f"insert takes a dict, or an iterable of dicts, not {type(documents).__name__}")
        if return_changes is not False:
            check_return_changes(return_changes)
        name = self._query.table
        primary_key = self._database._primary_key(name)
        prepared = prepare(given, primary_key)

        def one(transaction: WriteTransaction) -> dict[str, Any]:
            table = live_table(transaction, name)
            ready = prepared
            if table.primary_key != primary_key:
                ready = prepare_again(prepared, primary_key, table.primary_key)
            tally = Tally(return_changes)
            insert(transaction, table, ready, conflict, tally)
            tally.generated_keys = ready.generated
            return tally.result()

        return self._database._write(one, durability, not callable(conflict), "insert")

    # -----------------------------------------------------------------------------------------------------------
    # Indexes

    def index_create(self, name: str, expression: Any = None, multi: bool = False) -> dict[str, int]:
        """Make an index and fill it, as one commit.

        Args:
            name: Letters, digits, `_`, `.` and `-`; not the primary key's name.
            expression: What is indexed: an expression, or a function that builds one from its argument (`lambda d: d["a"]`);
                a list of them makes a compound index. Default: the field called `name`.
            multi: The value is a list, and the document is found under each of its elements.

        Raises:
            IndexExists, InvalidName, QueryError.
        """
        check_name("Index", name)
        if not isinstance(multi, bool):
            raise InvalidOption(f"multi is True or False, not {shown(multi)}")
        tree = row[name] if expression is None else index_expression(expression)
        compile_value(tree)
        if not is_deterministic(tree):
            # The entry of a document is worked out again when the document goes, and has to be the same then.
            raise QueryError(
                "Could not prove function deterministic.  Index functions must be deterministic."
            )
        data = codec.encode_value(to_data(tree))

        def one(transaction: WriteTransaction) -> None:
            table = live_table(transaction, self.name)
            if name in table.indexes or name == table.primary_key:
                raise IndexExists(name, self.name)
            transaction.create_index(table, name, data, multi)

        self._database._write(one, None, False, "index_create")
        return {"created": 1}

    def index_drop(self, name: str) -> dict[str, int]:
        """Remove an index. Feeds that need it end with an error that names it."""
        check_text("Index", name)

        def one(transaction: WriteTransaction) -> None:
            table = live_table(transaction, self.name)
            if name not in table.indexes:
                raise IndexNotFound(name, self.name)
            transaction.drop_index(table, name)

        self._database._write(one, None, False, "index_drop")
        return {"dropped": 1}

    def index_list(self) -> list[str]:
        """The names of the indexes, sorted."""
        with self._database._snapshot() as snapshot:
            return sorted(find_table(self.name, snapshot).indexes)

    def index_wait(self, *names: str) -> list[dict[str, Any]]:
        """What the named indexes (default: all) are. They are always ready: an index is filled when it is made.

        Returns:
            Dicts with `index`, `ready`, `multi` and `outdated`.
        """
        with self._database._snapshot() as snapshot:
            table = find_table(self.name, snapshot)
        for name in names:
            check_text("Index", name)
            if name not in table.indexes:
                raise IndexNotFound(name, self.name)
        return [
            {"index": name, "ready": True, "multi": table.indexes[name].multi, "outdated": False}
            for name in sorted(names or table.indexes)
        ]


def key_of(key: Any) -> bytes:
    if key is None:
        raise MissingValue("Keys cannot be NULL.")
    check_given(key)
    return collation.primary_key_bytes(key)


def index_key_of(key: Any) -> bytes:
    if key is None:
        raise MissingValue("Keys cannot be NULL.")
    check_given(key)
    found = collation.index_key_bytes(key)
    if found is None:
        raise InvalidKey(
            f"Secondary keys must be a number, string, bool, pseudotype, or array (got type {collation.type_name(key)})."
        )
    return found


def index_expression(expression: Any) -> Expression:
    """The expression of an index. A callable is called once, with `row`: an index is stored in the file, code is not."""
    if isinstance(expression, (list, tuple)):
        if not expression:
            raise QueryError("a compound index takes at least one expression")
        return expr([index_expression(part) for part in expression])
    if isinstance(expression, Expression):
        return expression
    if isinstance(expression, str):
        return row[expression]
    if callable(expression):
        return expr(expression(row))
    raise QueryError(f"an index takes an expression or a list of them, not {type(expression).__name__}")
