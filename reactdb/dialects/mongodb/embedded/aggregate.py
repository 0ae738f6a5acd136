"""Aggregation: pipelines in the process, with the arguments of PyMongo's `aggregate`.

Rule of this file: it makes PyMongo's own checks, and a server's checks before the first read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from reactdb.dialects.mongodb.commands.find import check_hint_value, read_stages
from reactdb.dialects.mongodb.commands.get_more import size_of
from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.ahead import read_ahead
from reactdb.dialects.mongodb.embedded.argument_checks import (
    check_bypass,
    check_list,
    check_options,
    collation_document,
)
from reactdb.dialects.mongodb.embedded.codecs import Codec
from reactdb.dialects.mongodb.embedded.errors import call
from reactdb.dialects.mongodb.embedded.statements import (
    Session,
    results,
    run_statement,
    spaces_of,
    transaction_of,
)
from reactdb.dialects.mongodb.names import MongoNamespace
from reactdb.dialects.mongodb.pipeline_result import aggregate

__all__ = ["run_pipeline"]


def run_pipeline(
    client: Any,
    namespace: MongoNamespace,
    codec: Codec,
    pipeline: Any,
    session: Session,
    options: Mapping[str, Any],
    comment: Any = None,
) -> Iterator[dict[str, Any]]:
    """The results of a pipeline, of a collection or of a database.

    Args:
        codec: How the arguments become BSON.
        options: As in MongoDB's `aggregate`.

    Raises:
        TypeError, ValueError, ConfigurationError: As PyMongo's.
        OperationFailure: As MongoDB's.
    """
    check_list("pipeline", pipeline)
    if "explain" in options:
        raise driver.ConfigurationError("The explain option is not supported. Use Database.command instead.")
    most = options.get("batchSize")
    if most is not None:
        driver.validate_non_negative_integer_or_none("batchSize", most)
    check_options("aggregate", options, _KNOWN, codec, comment)
    call(size_of, options.get("cursor", {}))
    hint = codec.given_value(options.get("hint", {}))
    call(check_hint_value, hint)
    variables = None if options.get("let") is None else codec.given_value(options["let"])
    if not isinstance(variables, dict | None):
        raise driver.OperationFailure(
            "BSON field 'aggregate.let' is the wrong type, expected type 'object'", 14
        )
    documents = run_statement(
        session,
        aggregate,
        spaces_of(session, client, "aggregate"),
        namespace,
        call(read_stages, codec.given_value(pipeline)),
        variables=variables,
        collation=collation_document(options.get("collation")),
        hint=hint or None,
        transaction=transaction_of(session),
        bypasses=check_bypass("aggregate", options.get("bypassDocumentValidation"), codec),
    )
    # An error in a document that a server would send at once is one of this call.
    return call(read_ahead, results(session, documents, most), most)


_KNOWN: Final = frozenset(
    {
        "allowDiskUse",
        "batchSize",
        "bypassDocumentValidation",
        "collation",
        "cursor",
        "hint",
        "let",
        "maxTimeMS",
    }
)
