"""MongoError: an error in MongoDB's terms, which a server sends unchanged, and the names of its codes.

Rule of this file: it holds no messages. Each message is written at the check that fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from reactdb.errors import UsageError

__all__ = ["CODE_NAMES", "MongoError", "TokenMissing", "code_name"]

CODE_NAMES: Final = {
    1: "InternalError",
    2: "BadValue",
    4: "NoSuchKey",
    5: "GraphContainsCycle",
    6: "HostUnreachable",
    7: "HostNotFound",
    8: "UnknownError",
    9: "FailedToParse",
    11: "UserNotFound",
    13: "Unauthorized",
    14: "TypeMismatch",
    15: "Overflow",
    16: "InvalidLength",
    17: "ProtocolError",
    18: "AuthenticationFailed",
    20: "IllegalOperation",
    22: "InvalidBSON",
    26: "NamespaceNotFound",
    27: "IndexNotFound",
    28: "PathNotViable",
    40: "ConflictingUpdateOperators",
    43: "CursorNotFound",
    47: "NoMatchingDocument",
    48: "NamespaceExists",
    50: "MaxTimeMSExpired",
    51: "ManualInterventionRequired",
    52: "DollarPrefixedFieldName",
    53: "InvalidIdField",
    54: "NotSingleValueField",
    55: "InvalidDBRef",
    56: "EmptyFieldName",
    57: "DottedFieldName",
    59: "CommandNotFound",
    63: "StaleShardVersion",
    64: "WriteConcernTimeout",
    66: "ImmutableField",
    67: "CannotCreateIndex",
    68: "IndexAlreadyExists",
    72: "InvalidOptions",
    73: "InvalidNamespace",
    76: "NoReplicationEnabled",
    79: "UnknownReplWriteConcern",
    82: "NoProgressMade",
    85: "IndexOptionsConflict",
    86: "IndexKeySpecsConflict",
    89: "NetworkTimeout",
    91: "ShutdownInProgress",
    96: "OperationFailed",
    100: "UnsatisfiableWriteConcern",
    111: "NotExactValueField",
    112: "WriteConflict",
    115: "CommandNotSupported",
    117: "ConflictingOperationInProgress",
    121: "DocumentValidationFailure",
    123: "NotAReplicaSet",
    125: "CommandFailed",
    133: "FailedToSatisfyReadPreference",
    136: "CappedPositionLost",
    143: "CursorInUse",
    146: "ExceededMemoryLimit",
    150: "StaleEpoch",
    165: "ViewDepthLimitExceeded",
    166: "CommandNotSupportedOnView",
    167: "OptionNotSupportedOnView",
    168: "InvalidPipelineOperator",
    171: "CannotIndexParallelArrays",
    175: "QueryPlanKilled",
    181: "AmbiguousIndexKeyPattern",
    182: "InvalidViewDefinition",
    189: "PrimarySteppedDown",
    197: "InvalidIndexSpecificationOption",
    201: "CannotBuildIndexKeys",
    206: "NoSuchSession",
    207: "InvalidUUID",
    215: "DatabaseDropPending",
    216: "ElectionInProgress",
    217: "IncompleteTransactionHistory",
    218: "UpdateOperationFailed",
    222: "CloseChangeStream",
    223: "IllegalOpMsgFlag",
    224: "QueryFeatureNotAllowed",
    225: "TransactionTooOld",
    226: "AtomicityFailure",
    227: "CannotImplicitlyCreateCollection",
    232: "MaxSubPipelineDepthExceeded",
    233: "TooManyDocumentSequences",
    234: "RetryChangeStream",
    235: "InternalErrorNotSupported",
    237: "CursorKilled",
    238: "NotImplemented",
    239: "SnapshotTooOld",
    241: "ConversionFailure",
    242: "CannotCreateCollection",
    246: "SnapshotUnavailable",
    251: "NoSuchTransaction",
    256: "TransactionCommitted",
    257: "TransactionTooLarge",
    260: "InvalidResumeToken",
    261: "TooManyLogicalSessions",
    262: "ExceededTimeLimit",
    263: "OperationNotSupportedInTransaction",
    266: "FailPointSetFailed",
    267: "PreparedTransactionInProgress",
    276: "IndexBuildAborted",
    279: "ClientDisconnect",
    280: "ChangeStreamFatalError",
    286: "ChangeStreamHistoryLost",
    288: "ChecksumMismatch",
    290: "TransactionExceededLifetimeLimitSeconds",
    291: "NoQueryExecutionPlans",
    292: "QueryExceededMemoryLimitNoDiskUseAllowed",
    322: "APIVersionError",
    323: "APIStrictError",
    324: "APIDeprecationError",
    359: "CannotConvertIndexToUnique",
    361: "CollectionUUIDMismatch",
    9001: "SocketException",
    10107: "NotWritablePrimary",
    10334: "BSONObjectTooLarge",
    11000: "DuplicateKey",
    11600: "InterruptedAtShutdown",
    11601: "Interrupted",
    11602: "InterruptedDueToReplStateChange",
    12586: "BackgroundOperationInProgressForDatabase",
    12587: "BackgroundOperationInProgressForNamespace",
    13113: "MergeStageNoMatchingDocument",
    13297: "DatabaseDifferCase",
    13388: "StaleConfig",
    13435: "NotPrimaryNoSecondaryOk",
    13436: "NotPrimaryOrSecondary",
    14031: "OutOfDiskSpace",
    17280: "KeyTooLong",
}
"""The names of the codes with a name. All others are named by their number: `Location40324`."""

_LABELS_OF_CODES: Final = {
    280: ("NonResumableChangeStreamError",),
    286: ("NonResumableChangeStreamError",),
}
# For these two codes, in the reply to any command, drivers must not resume the stream.


TOO_DEEP: Final = "it is nested too deeply"
"""The message for a document, a query or an expression that is nested too deeply for Python."""


def code_name(code: int) -> str:
    """The name of a code in a reply."""
    return CODE_NAMES.get(code) or f"Location{code}"


class MongoError(UsageError):
    """MongoDB's refusal of a request.

    Attributes:
        code: The error code.
        code_name: Its name.
        message: The message, `errmsg` in a reply.
        labels: The reply's `errorLabels`, in a tuple.
        details: Other fields of the reply by name, such as `keyPattern` and `keyValue` of code 11000.
    """

    def __init__(self, code: int, message: str, *, labels: Iterable[str] = (), **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.code_name = code_name(code)
        self.message = message
        self.labels = tuple(dict.fromkeys((*_LABELS_OF_CODES.get(code, ()), *labels)))
        self.details = details

    def reply(self) -> dict[str, Any]:
        """The whole reply for this error: `ok`, `errmsg`, `code`, `codeName`, details, `errorLabels`."""
        answer = {"ok": 0.0, "errmsg": self.message, "code": self.code, "codeName": self.code_name}
        answer.update(self.details)
        if self.labels:
            answer["errorLabels"] = list(self.labels)
        return answer


class TokenMissing(MongoError):
    """A stage has removed the token of a change stream's event."""
