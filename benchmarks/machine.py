"""The machine on which the figures were measured: the line above every table."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version

import reactdb

Machine = dict[str, str | int]


def describe() -> Machine:
    """Python, SQLite, packages, processor and system. No names of machines or users, no paths."""
    return {
        "reactdb": reactdb.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "msgpack": version_of("msgpack"),
        "processor": processor(),
        "cpus": os.cpu_count() or 0,
        "system": f"{platform.system()} {platform.machine()}",
    }


def line(machine: Machine) -> str:
    return (
        f"reactdb {machine['reactdb']}, {machine['python']}, SQLite {machine['sqlite']}, msgpack {machine['msgpack']}, "
        f"{machine['cpus']} CPUs ({machine['processor']}), {machine['system']}"
    )


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


def processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for text in file:
                if text.startswith("model name"):
                    return text.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
