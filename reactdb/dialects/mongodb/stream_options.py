"""StreamOptions: the checked arguments of `$changeStream`.

Options are literal BSON, never evaluated. Null counts as missing for a text, a token or a timestamp, and is an error for a
boolean.

Rule of this file: values only; the file is read when the stream is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bson.timestamp import Timestamp

from reactdb.dialects.mongodb import tokens
from reactdb.dialects.mongodb.bson_order import type_name
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.names import INTERNAL, MongoNamespace
from reactdb.dialects.mongodb.scopes import StreamScope
from reactdb.dialects.mongodb.tokens import Token

FULL_DOCUMENT: Final = ("default", "updateLookup", "whenAvailable", "required")
BEFORE_CHANGE: Final = ("off", "whenAvailable", "required")
PRE_IMAGE: Final = "fullDocumentBeforeChange"
POST_IMAGE: Final = "fullDocument"
_BOOLEANS: Final = ("allChangesForCluster", "showExpandedEvents")
# Options of sharded servers, without an effect here.
_PASSED_OVER: Final = (
    "showMigrationEvents",
    "showSystemEvents",
    "showRawUpdateDescription",
    "showCommitTimestamp",
)


class StreamOptions(NamedTuple):
    """See the head of this file.

    Attributes:
        full_document: A value of FULL_DOCUMENT.
        before_change: A value of BEFORE_CHANGE.
        after: The token of `resumeAfter` or `startAfter`.
        is_start_after: The token is from `startAfter`, and may belong to an invalidate event.
        at: `startAtOperationTime`.
        is_expanded: `showExpandedEvents`.
    """

    full_document: str = "default"
    before_change: str = "off"
    after: Token | None = None
    is_start_after: bool = False
    at: Timestamp | None = None
    is_expanded: bool = False

    @property
    def lookups(self) -> tuple[str, ...]:
        """The fields of the wanted images, in the order of MongoDB's look-ups."""
        before = () if self.before_change == "off" else (PRE_IMAGE,)
        return before if self.full_document == "default" else (*before, POST_IMAGE)


def check_options(given: Any, scope: StreamScope) -> StreamOptions:
    """The value of `$changeStream` as options, of a stream of this scope.

    Raises:
        MongoError: An option is invalid. The code depends on the option.
    """
    if not isinstance(given, Mapping):
        raise MongoError(
            6188500, f"the $changeStream stage must be specified as an object, not {type_name(given)}"
        )
    options: dict[str, Any] = {}
    for name, value in given.items():
        options[name] = _check_option(name, value)
    _check_scope(scope, is_of_cluster=bool(options.get("allChangesForCluster")))
    resume, start, at = (options.get(name) for name in ("resumeAfter", "startAfter", "startAtOperationTime"))
    if resume is not None and start is not None:
        raise MongoError(50865, "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage")
    if at is not None and (resume is not None or start is not None):
        raise MongoError(
            40674,
            "Only one type of resume option is allowed, but multiple were found: a token and startAtOperationTime",
        )
    after = start if resume is None else resume
    if after is not None:
        _check_token(after, scope, is_start_after=start is not None)
    return StreamOptions(
        options.get(POST_IMAGE) or "default",
        options.get(PRE_IMAGE) or "off",
        after,
        start is not None,
        at,
        bool(options.get("showExpandedEvents")),
    )


def _check_option(name: str, value: Any) -> Any:
    if name in _BOOLEANS or name in _PASSED_OVER:
        if not isinstance(value, bool):
            raise _wrong_type(name, value, "bool")
        return value
    if name in (POST_IMAGE, PRE_IMAGE):
        allowed = FULL_DOCUMENT if name == POST_IMAGE else BEFORE_CHANGE
        if value is None:
            return None
        if type(value) is not str:
            raise _wrong_type(name, value, "string")
        if value not in allowed:
            raise MongoError(
                2, f"Enumeration value '{value}' for field '$changeStream.{name}' is not a valid value."
            )
        return value
    if name in ("resumeAfter", "startAfter"):
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise _wrong_type(name, value, "object")
        return tokens.parse(value)
    if name == "startAtOperationTime":
        if value is not None and not isinstance(value, Timestamp):
            raise _wrong_type(name, value, "timestamp")
        return value
    raise MongoError(40415, f"BSON field '$changeStream.{name}' is an unknown field.")


def _wrong_type(name: str, value: Any, expected: str) -> MongoError:
    return MongoError(
        14,
        f"BSON field '$changeStream.{name}' is the wrong type '{type_name(value)}', expected type '{expected}'",
    )


def _check_scope(scope: StreamScope, *, is_of_cluster: bool) -> None:
    namespace = scope.namespace
    if is_of_cluster:
        # A stream of everything is opened on `admin`, which otherwise has no streams.
        if namespace is not None and namespace != MongoNamespace("admin"):
            raise MongoError(
                72,
                "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, "
                f"and with no collection name; found '{namespace}'",
            )
        return
    if namespace is None:
        return
    if namespace.db in INTERNAL:
        raise MongoError(73, f"$changeStream may not be opened on the internal {namespace.db} database")
    if namespace.coll is not None and namespace.coll.startswith("system."):
        raise MongoError(73, f"$changeStream may not be opened on the internal {namespace} collection")


def _check_token(token: Token, scope: StreamScope, *, is_start_after: bool) -> None:
    if token.is_invalidate and not is_start_after:
        raise MongoError(
            260,
            "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification",
        )
    if token.is_event and token.uuid is None and scope.is_collection:
        raise MongoError(
            260,
            "Attempted to resume a single-collection stream, but the resume token does not include a UUID",
        )
