"""Catalogue: the tables and indexes of a file, as an immutable value. Any change of a table or an index replaces it
as a whole.

The fact `catalogue` in the file counts every change, so that a process notices another's with one small read.

Rule of this file: it reads. Tables and indexes are made and dropped in `transaction`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from reactdb.change import HiddenTable, TableReference
from reactdb.errors import CorruptDatabase, IncompatibleFormat, InvalidKey, InvalidName, QueryError
from reactdb.expression import Expression, check_known, compile_value, from_data
from reactdb.expression.markers import absent
from reactdb.store.file.sqlite import Connection
from reactdb.store.schema import CatalogueRows, check_catalogue, read_catalogue_rows, read_fact
from reactdb.values import codec, collation

# Bytes that a hidden entry keeps of its value: a large object in an indexed field must not be in the file once more.
HIDDEN_VALUE_BYTES = 128

# Of these types, values that are equal are the same. (0.0 and -0.0 are not.)
_EXACT = frozenset((str, int, bool, bytes))

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}", re.ASCII)


def check_name(kind: str, name: object) -> str:
    """The name itself, or InvalidName. `kind` is "Table" or "Index", for the sentence."""
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise InvalidName(kind, name)
    return str(name)


def check_text(kind: str, name: object) -> None:
    """Raises: InvalidName, for a value other than a text. A text that cannot be a table's name means a missing
    table."""
    if not isinstance(name, str):
        raise InvalidName(kind, name)


class IndexInfo:
    """One secondary index. `value_of` computes the indexed value of a document; a QueryError means that there is
    none.

    Where this process does not know an operation of the expression, `value_of` and `check` raise IncompatibleFormat, because no
    entry can be made or removed without it. The index can still be listed, renamed and dropped.

    A value that ReQL leaves out of an index (null, an object, an array with one of those, NaN, an infinity) has a
    hidden entry. Operations that name the index never see hidden entries: get_all, between, order_by, min and max. A
    filter finds them, because comparisons hold between all types, and objects are above all numbers.

    In a unique index (see `unique`) each value that is not hidden belongs to at most one document.
    """

    __slots__ = (
        "_fields",
        "_is_known",
        "expression",
        "id",
        "is_unique",
        "multi",
        "name",
        "table_id",
        "value_of",
    )

    def __init__(
        self,
        id: int,
        table_id: int,
        name: str,
        expression: Expression,
        multi: bool,
        is_unique: bool = False,
    ) -> None:
        self.id = id
        self.table_id = table_id
        self.name = name
        self.expression = expression
        self.multi = multi
        self.is_unique = is_unique
        self.value_of: Callable[[dict[str, Any]], Any] = self._first_value_of
        self._is_known = False
        # The fields that decide the value; None where they are not known.
        self._fields: frozenset[str] | None = None

    def check(self) -> None:
        """Raises: IncompatibleFormat: The expression has an operation that this process does not know."""
        if not self._is_known:
            try:
                check_known(self.expression)
            except IncompatibleFormat as error:
                raise IncompatibleFormat(f"index `{self.name}`: {error}") from None
            self._is_known = True

    def _first_value_of(self, document: dict[str, Any]) -> Any:
        # Not when the list of indexes is read: a process need not know all of them.
        self.check()
        self.value_of = compile_value(self.expression)
        # Imported here because many programs have no index.
        from reactdb.expression import fields_read

        self._fields = fields_read(self.expression)
        return self.value_of(document)

    def entries(self, document: dict[str, Any]) -> list[tuple[bytes, int]]:
        """The document's places in this index as (value bytes, tag), without the hidden ones.

        A simple index has one, a multi index one for each element of an array, told apart by their tags; there is
        none where the value is missing or fails.
        """
        return [(key, tag) for index_id, key, tag in self.stored_entries(document) if index_id > 0]

    def is_untouched(self, old: dict[str, Any], new: dict[str, Any]) -> bool:
        """Whether both documents surely have the same entries, without computing them."""
        if self._fields is None:
            return False
        for name in self._fields:
            one, other = old.get(name, absent), new.get(name, absent)
            if one is not other and not (type(one) is type(other) in _EXACT and one == other):
                return False
        return True

    def stored_entries(self, document: dict[str, Any]) -> list[tuple[int, bytes, int]]:
        """The document's rows in the table `entries`, as (index_id, value bytes, tag), with the hidden ones.

        Hidden rows have the index's number negated, so that a scan of the others meets none of them. Their value
        bytes are cut.
        """
        rows = []
        try:
            value = self.value_of(document)
            for tag, element in enumerate(value if self.multi and isinstance(value, list) else (value,)):
                key = collation.index_key_bytes(element)
                if key is None:
                    rows.append((-self.id, collation.key_bytes(element)[:HIDDEN_VALUE_BYTES], tag))
                else:
                    rows.append((self.id, key, tag))
        except (QueryError, InvalidKey):
            return []
        return rows


class TableInfo:
    """One table.

    Attributes:
        created, dropped: Seqs: the table has changes in created < seq <= dropped.
        owner: None for an ordinary table; else the table is hidden, and belongs to the engine or the dialect of that name.
        hook: The name of its write hook (see `hooks`); None where it has none.
        reference: The key for look-ups: its name; for a hidden table also its owner.
    """

    __slots__ = ("created", "dropped", "hook", "id", "indexes", "name", "owner", "primary_key", "reference")

    def __init__(
        self,
        id: int,
        name: str,
        primary_key: str,
        created: int,
        dropped: int | None,
        indexes: dict[str, IndexInfo],
        owner: str | None = None,
        hook: str | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.owner = owner
        self.hook = hook
        self.reference: TableReference = name if owner is None else HiddenTable(owner, name)
        self.primary_key = primary_key
        self.created = created
        self.dropped = dropped
        self.indexes = indexes

    @property
    def has_unique(self) -> bool:
        """The table has a unique index."""
        return any(index.is_unique for index in self.indexes.values())

    def copy_renamed(self, name: str | None) -> TableInfo:
        """A copy with another name; None: the table itself."""
        if name is None:
            return self
        others = (self.primary_key, self.created, self.dropped, self.indexes, self.owner, self.hook)
        return TableInfo(self.id, name, *others)


class Catalogue:
    """All tables of the file, at one version of the list.

    Attributes:
        live: The tables that are not dropped, also hidden ones, by their references.
        by_id: All, by number.
        has_hidden: There is, or was, a hidden table.
        unique: The unique indexes of tables that are not dropped, by number.
    """

    __slots__ = ("by_id", "has_hidden", "live", "unique", "version")

    def __init__(self, version: int, by_id: dict[int, TableInfo]) -> None:
        self.version = version
        self.live: dict[TableReference, TableInfo] = {
            info.reference: info for info in by_id.values() if info.dropped is None
        }
        self.by_id = by_id
        self.has_hidden = any(info.owner is not None for info in by_id.values())
        self.unique: dict[int, IndexInfo] = {
            index.id: index
            for info in self.live.values()
            for index in info.indexes.values()
            if index.is_unique
        }

    def table(self, name: TableReference) -> TableInfo | None:
        """The table of this name, if it is not dropped."""
        return self.live.get(name)

    def ordinary(self) -> dict[str, TableInfo]:
        """The tables that users see: neither dropped nor hidden, sorted by name."""
        return dict(sorted((info.name, info) for info in self.live.values() if info.owner is None))

    def index_ids(self) -> frozenset[int]:
        """The numbers of all indexes."""
        return frozenset(index.id for info in self.by_id.values() for index in info.indexes.values())

    def copy_renamed(self, names: Mapping[int, str]) -> Catalogue:
        """The same with other names of some tables, by number."""
        return Catalogue(
            self.version,
            {number: info.copy_renamed(names.get(number)) for number, info in self.by_id.items()},
        )

    def at(self, name: TableReference, seq: int) -> TableInfo | None:
        """The table that had this name at `seq`; of several, the newest."""
        matches = [
            info
            for info in self.by_id.values()
            if info.reference == name and info.created <= seq and (info.dropped is None or seq < info.dropped)
        ]
        return max(matches, key=lambda info: info.id) if matches else None

    def after(self, name: TableReference, seq: int) -> TableInfo | None:
        """The first table of this name that was made after `seq`, also where it was dropped since."""
        matches = [info for info in self.by_id.values() if info.reference == name and info.created > seq]
        return min(matches, key=lambda info: info.id) if matches else None


def load(connection: Connection, *, is_checked: bool = True) -> Catalogue:
    """Read the catalogue.

    Raises:
        CorruptDatabase: The rows do not match their checksum (unless not `is_checked`), or cannot be understood.
    """
    if connection.in_transaction:
        return _load(connection, is_checked)
    connection.execute("BEGIN")
    try:
        return _load(connection, is_checked)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _load(connection: Connection, is_checked: bool) -> Catalogue:
    rows = read_catalogue_rows(connection)
    if is_checked:
        check_catalogue(connection, rows)
    return build_catalogue(int(read_fact(connection, "catalogue") or 0), rows)


def build_catalogue(version: int, rows: CatalogueRows) -> Catalogue:
    """The catalogue of the lists that the file has.

    Raises:
        CorruptDatabase: They do not agree, or cannot be understood.
    """
    tables, indexes = rows
    by_id = {
        table_id: TableInfo(table_id, name, primary_key, created, dropped, {}, owner, hook)
        for table_id, name, primary_key, created, dropped, owner, hook in tables
    }
    for index_id, table_id, name, expression, multi, is_unique in indexes:
        if table_id not in by_id:
            raise CorruptDatabase(f"index {name!r} belongs to table {table_id}, which is not listed")
        by_id[table_id].indexes[name] = make_index(
            index_id, table_id, name, expression, bool(multi), bool(is_unique)
        )
    return Catalogue(version, by_id)


def make_index(
    index_id: int, table_id: int, name: str, data: bytes, multi: bool, is_unique: bool = False
) -> IndexInfo:
    return IndexInfo(index_id, table_id, name, from_data(codec.decode_value(data)), multi, is_unique)
