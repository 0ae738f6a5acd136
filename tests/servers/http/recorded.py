"""Recorded conversations with CouchDB: requests and what was answered, read from the file that lies beside the project.

--- title
> GET /db/_changes?limit=1          the request, its headers and its body
< HTTP/1.1 200 OK                   the answer's status and headers
| {"results":[...                   its body; where bytes were recorded with their times, chunked and indented instead
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

HEADER = re.compile(r"([A-Z][A-Za-z-]+): (.*)")
CHUNK_SIZE = re.compile(r"[0-9a-f]{1,5}\\r\\n")


@dataclass
class Exchange:
    section: str
    title: str
    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    status: int | None = None
    answer_headers: dict[str, str] = field(default_factory=dict)
    answer: str = ""
    has_times: bool = False


def conversation(path: Path) -> list[Exchange]:
    found = []
    section = ""
    for block in re.split(r"\n(?======)|\n(?=--- )", path.read_text(encoding="utf-8")):
        if block.startswith("===="):
            section = block.split("## ", 1)[1].split(".", 1)[0]
        elif block.startswith("--- "):
            found.append(exchange(section, block.split("\n")))
    return found


def exchange(section: str, lines: list[str]) -> Exchange:
    title = lines[0].removeprefix("--- ")
    method, path = lines[1].removeprefix("> ").split(" ", 1)
    made = Exchange(section, title, method, path)
    answer: list[str] = []
    timed: list[str] = []
    for line in lines[2:]:
        header = HEADER.fullmatch(line[2:])
        if line.startswith(">"):
            if header is not None and made.body is None:
                made.headers[header[1].lower()] = header[2]
            else:
                made.body = line[2:]
        elif line.startswith("< HTTP/1.1"):
            made.status = int(line.split(" ")[2])
        elif line.startswith("< ") and header is not None:
            made.answer_headers[header[1].lower()] = header[2]
        elif line.startswith("| "):
            answer.append(line[2:].removesuffix("\\r"))
        elif re.match(r"  \+ *\d+ms |         ", line):
            timed.append(re.sub(r"^  \+ *\d+ms |^ {9}", "", line))
    made.answer = "\n".join(answer)
    if timed:
        made.has_times = True
        read_timed(made, timed)
    return made


def read_timed(made: Exchange, lines: list[str]) -> None:
    made.status = int(lines[0].split(" ")[1])
    end = lines.index("\\r\\n")
    for line in lines[1:end]:
        header = HEADER.fullmatch(line.removesuffix("\\r\\n"))
        if header is not None:
            made.answer_headers[header[1].lower()] = header[2]
    body = [
        line for line in lines[end + 1 :] if not CHUNK_SIZE.fullmatch(line) and line not in ("", "\\r\\n")
    ]
    made.answer = "\n".join(re.sub(r"(\\r)?\\n$", "", line) for line in body)


def replication(path: Path) -> list[Exchange]:
    """The requests of a replication, `#1`, `#2` and so on, with what was answered.

    > GET /db/_local/x            the request and its headers; after an empty line its body
    < 404 Object Not Found        the answer's status and headers
    | [+7ms]                      its body, with the times at which it came; `·` is a byte that is no text
    """
    blocks = re.split(r"\n#\d+  t=\d+ms\n", path.read_text(encoding="utf-8"))
    return [replicated(block.rstrip("\n").split("\n")) for block in blocks[1:]]


def replicated(lines: list[str]) -> Exchange:
    method, path = lines[0].removeprefix("> ").split(" ", 1)
    made = Exchange("", f"{method} {path.partition('?')[0]}", method, path)
    body: list[str] | None = None
    answer: list[str] = []
    for line in lines[1:]:
        text = line[2:]
        if line == ">" and body is None:
            body = []
        elif line.startswith(">") and body is not None:
            body.append(text)
        elif line.startswith("> "):
            name, _, value = text.partition(": ")
            made.headers[name] = value
        elif line.startswith("< ") and made.status is None:
            made.status = int(text.split(" ")[0])
        elif line.startswith("< "):
            name, _, value = text.partition(": ")
            made.answer_headers[name] = value
        elif line.startswith("|") and not re.fullmatch(r"\[\+\d+ms\]", text):
            answer.append(text)
    made.body = None if body is None else "\n".join(body).replace("\\r\n", "\r\n")
    made.answer = "\n".join(answer).replace("\\r", "\r")
    return made
