"""Errors: the dialect's refusals as PyMongo raises them.

Rule of this file: the code, the sentence, the labels and the details stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.errors import TOO_DEEP, MongoError, TokenMissing, code_name

if TYPE_CHECKING:
    from pymongo.errors import OperationFailure

__all__ = ["call", "convert_errors", "driver_error", "first_error", "reply_error"]

P = ParamSpec("P")
T = TypeVar("T")


_KINDS: Final = {11000: "DuplicateKeyError", 43: "CursorNotFound", 50: "ExecutionTimeout"}
"""The codes with their own error classes in PyMongo, and the names of these."""


def driver_error(error: MongoError) -> OperationFailure:
    """PyMongo's error for a command's MongoError."""
    if isinstance(error, TokenMissing):
        from reactdb.dialects.mongodb.embedded.removed_token import RemovedToken

        return RemovedToken(error.message, error.code, error.reply())
    return reply_error(error.reply())


def reply_error(reply: Mapping[str, Any]) -> OperationFailure:
    """PyMongo's error for a command's reply with an error."""
    kind = getattr(driver, _KINDS.get(reply["code"], "OperationFailure"))
    error: OperationFailure = kind(reply["errmsg"], reply["code"], reply)
    return error


def call(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """The function's result.

    Raises:
        OperationFailure: For its MongoError.
    """
    try:
        return function(*arguments, **options)
    except MongoError as error:
        raise driver_error(error) from error
    except RecursionError:
        raise driver_error(MongoError(15, TOO_DEEP)) from None


def convert_errors(documents: Iterator[T]) -> Iterator[T]:
    """The same, with PyMongo's errors."""
    try:
        yield from documents
    except MongoError as error:
        raise driver_error(error) from error
    except RecursionError:
        raise driver_error(MongoError(15, TOO_DEEP)) from None


def first_error(answer: Mapping[str, Any]) -> OperationFailure:
    """PyMongo's error for the first of the `writeErrors` of a command with one statement."""
    error = answer["writeErrors"][0]
    kind = driver.DuplicateKeyError if error["code"] == 11000 else driver.WriteError
    first: OperationFailure = kind(
        error["errmsg"], error["code"], {**error, "codeName": code_name(error["code"])}
    )
    return first
