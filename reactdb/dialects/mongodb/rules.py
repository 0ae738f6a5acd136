"""Rules: the requirements of a collection's options on its documents, for all writers.

    validator, validationLevel, validationAction      a document has to match a query, or `$jsonSchema`
    capped, size, max                                 the oldest documents go (`capped_collections`)

A table with such options has the write hook RULES. So the rules apply to every write of every process and dialect; if a validator
refuses it, that is code 121 with `errInfo`. A process without the `mongodb` extra cannot write such a table.

Rule of this file: it decides, and returns the additional writes. The transaction writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from bson.timestamp import Timestamp

from reactdb.dialects.mongodb.capped_collections import Cap, derive_place
from reactdb.dialects.mongodb.clock import mentions_cluster_time
from reactdb.dialects.mongodb.entries import document_of
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.filters import Filter
from reactdb.dialects.mongodb.namespaces import COLLECTIONS, RULES, record_of, row_key
from reactdb.dialects.mongodb.tokens import INCREMENTS
from reactdb.logs import logger
from reactdb.store.catalogue import Catalogue, TableInfo
from reactdb.store.hooks import Derived, Draft, register_hook

__all__ = ["RuleOptions", "Rules", "rules_of", "write_options"]

Document = dict[str, Any]


class RuleOptions(NamedTuple):
    """The dialect's options of a write.

    Attributes:
        meta: The metadata of the version.
        bypasses: The validator is skipped.
    """

    meta: bytes | None = None
    bypasses: bool = False


def write_options(table: TableInfo, meta: bytes | None, *, bypasses: bool) -> RuleOptions | None:
    """The options of a table's write; None if the table has no rules."""
    return RuleOptions(meta, bypasses) if table.hook == RULES else None


class Rules:
    """The rules of one collection, from its options.

    Attributes:
        cap: Its size limits; None if it is not capped.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        validator = options.get("validator")
        self._filter = Filter(validator) if validator else None
        self._is_timed = mentions_cluster_time(validator)
        self._level = options.get("validationLevel", "strict")
        self._warns = options.get("validationAction", "error") == "warn"
        self.cap: Cap | None = None
        if options.get("capped"):
            most = options.get("max")
            self.cap = Cap(int(options["size"]), int(most) if most else None)

    def check(self, table: TableInfo, body: bytes, before: bytes | None, time_ms: int) -> None:
        """Validate a version of a document.

        Args:
            body, before: The stored document, and the stored version before it.
            time_ms: The time of the commit.

        Raises:
            MongoError: 121, it is refused.
        """
        own = self._filter
        if own is None or self._level == "off":
            return
        variables = None
        if self._is_timed:
            # The increment of a commit in progress is not known. Earlier writes are below the end of its second.
            variables = {"CLUSTER_TIME": Timestamp(time_ms // 1_000, INCREMENTS - 1)}
            own = Filter(own.spec, variables=variables)
        document = document_of(table, body)
        if own.matches(document):
            return
        if self._level == "moderate" and before is not None and not own.matches(document_of(table, before)):
            return
        # Imported here because most documents are valid.
        from reactdb.dialects.mongodb.validation_error import details

        why = {"failingDocumentId": document["_id"], "details": details(own.spec, document, variables)}
        if self._warns:
            logger.warning("a document of %s does not pass the validator: %s", table.name, why)
            return
        raise MongoError(121, "Document failed validation", errInfo=why)


@lru_cache(maxsize=256)
def _rules_in(body: bytes) -> Rules:
    return Rules(record_of(body).options)


def rules_of(catalogue: Catalogue, table: TableInfo, stored: Any) -> Rules | None:
    """The rules of a collection; None without rules. `read_document`: a function from a table and a key to the row."""
    rows = catalogue.live.get(COLLECTIONS)
    if table.hook != RULES or rows is None:
        return None
    body = stored(rows, row_key(table.id))
    return None if body is None else _rules_in(body)


def keep_rules(draft: Draft) -> Derived:
    """The write hook."""
    options: RuleOptions = draft.asked if type(draft.asked) is RuleOptions else _NOTHING
    body = draft.read_document(draft.beside(COLLECTIONS), row_key(draft.table.id))
    if body is None:
        return Derived(options.meta)
    rules = _rules_in(body)
    if draft.new_bytes is not None and not options.bypasses:
        rules.check(draft.table, draft.new_bytes, draft.old_bytes, draft.time)
    if rules.cap is None:
        return Derived(options.meta)
    return derive_place(draft, rules.cap, options.meta)


_NOTHING: Final = RuleOptions()

register_hook(RULES, keep_rules)
