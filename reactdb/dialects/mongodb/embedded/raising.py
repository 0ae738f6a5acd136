"""Raising: the dialect's refusals as PyMongo raises them.

Rule of this file: the code, the sentence, the labels and the details stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from pymongo.errors import (
    CursorNotFound,
    DuplicateKeyError,
    ExecutionTimeout,
    InvalidOperation,
    OperationFailure,
    WriteError,
)

from reactdb.dialects.mongodb.errors import TOO_DEEP, MongoError, code_name
from reactdb.dialects.mongodb.stream_stages import TokenMissing

__all__ = ["RemovedToken", "call", "driver_error", "raise_first", "raising", "reply_error"]

P = ParamSpec("P")
T = TypeVar("T")


_KINDS: Final = {11000: DuplicateKeyError, 43: CursorNotFound, 50: ExecutionTimeout}
"""The codes for which PyMongo has errors of their own."""


class RemovedToken(OperationFailure, InvalidOperation):
    """A stage of a change stream has removed the token of an event: what a server says of it (280), and what PyMongo says
    where a server does not notice."""


def driver_error(error: MongoError) -> OperationFailure:
    """The error that PyMongo raises for a command's."""
    if isinstance(error, TokenMissing):
        return RemovedToken(error.message, error.code, error.reply())
    return reply_error(error.reply())


def reply_error(reply: Mapping[str, Any]) -> OperationFailure:
    """The error that PyMongo raises for the answer of a command, which is one."""
    kind = _KINDS.get(reply["code"], OperationFailure)
    return kind(reply["errmsg"], reply["code"], reply)


def call(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """What the function gives.

    Raises:
        OperationFailure: For its MongoError.
    """
    try:
        return function(*arguments, **options)
    except MongoError as error:
        raise driver_error(error) from error
    except RecursionError:
        raise driver_error(MongoError(15, TOO_DEEP)) from None


def raising(documents: Iterator[T]) -> Iterator[T]:
    """The same, with PyMongo's errors."""
    try:
        yield from documents
    except MongoError as error:
        raise driver_error(error) from error
    except RecursionError:
        raise driver_error(MongoError(15, TOO_DEEP)) from None


def raise_first(answer: Mapping[str, Any]) -> None:
    """Raise the first error of a command that has one statement.

    Raises:
        DuplicateKeyError, WriteError: There is one.
    """
    errors = answer.get("writeErrors")
    if not errors:
        return
    error = errors[0]
    kind = DuplicateKeyError if error["code"] == 11000 else WriteError
    raise kind(error["errmsg"], error["code"], {**error, "codeName": code_name(error["code"])})
