"""The targets, by their names, and the files that they are in.

Rule of this file: a list. A target's file is imported when it is asked for,
so that Atheris has no more to instrument than it needs.
"""

from __future__ import annotations

from importlib import import_module

from tests.fuzz.target import Target

FILES = {
    "codec": "stored_bytes",
    "key_format": "stored_bytes",
    "tokens": "stored_bytes",
    "json": "texts",
    "conditions": "texts",
    "mango": "texts",
    "multipart": "texts",
    "urls": "texts",
    "bson": "bson_documents",
    "http": "http_requests",
    "mongodb": "mongodb_messages",
    "rethinkdb": "rethinkdb_messages",
}


def find(name: str) -> Target:
    """The target of this name."""
    found: Target = getattr(import_module(f"tests.fuzz.{FILES[name]}"), name.upper())
    return found
