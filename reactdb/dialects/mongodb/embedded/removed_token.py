"""RemovedToken: the error of a change stream whose stages remove the tokens of its events.

Rule of this file: it imports PyMongo, so it is imported when the error is raised.
"""

from __future__ import annotations

from pymongo.errors import InvalidOperation, OperationFailure

__all__ = ["RemovedToken"]


class RemovedToken(OperationFailure, InvalidOperation):
    """A stage of a change stream has removed the token of an event: the error of a server (280), and PyMongo's error if a server
    does not notice."""
