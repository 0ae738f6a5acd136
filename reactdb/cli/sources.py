"""The text that `reactdb import` reads, in whatever form: JSON lines or arrays, commas, semicolons or tabs, any line ends.

The first line decides the form. A reader of another form than lines makes lines of it, so that everything else, such as the
position for `--resume`, knows lines only.

Rule of this file: bytes in, lines of UTF-8 out. It knows no database.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Callable
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

import click

HEAD_BYTES: Final = 64 * 1024
FORMATS: Final = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
DELIMITERS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
DELIMITER_NAMES: Final = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "space": " "}
_SPACE: Final = " \t\r\n"
_DECODER: Final = json.JSONDecoder()


class BadLine(Exception):
    """A line that cannot be stored."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class LineReader(Protocol):
    """The part of a binary stream that an import uses."""

    def readline(self, limit: int, /) -> bytes: ...


class SourceText(NamedTuple):
    """A source and its form.

    Attributes:
        lines: The text as lines.
        form: `jsonl`, or `csv` also with other delimiters.
        delimiter: Between two cells of CSV.
        unit: The word for the number of a line in messages: "line", or "document" for an element of an array.
        remarks: What is unusual about the source, in words.
    """

    lines: LineReader
    form: str
    delimiter: str
    unit: str
    remarks: list[str]


def parse_delimiter(context: click.Context, parameter: click.Parameter, word: str | None) -> str | None:
    """The delimiter that an option means: a character, or the name of one."""
    if word is None:
        return None
    delimiter = DELIMITER_NAMES.get(word, word)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        names = ", ".join(name for name in DELIMITER_NAMES if name.isalpha())
        raise click.BadParameter(f"{word!r} is not one character, nor one of {names}.", context, parameter)
    return delimiter


def recognise(stream: BinaryIO, name: str, form: str | None, delimiter: str | None) -> SourceText:
    """The source as lines, and its form, by its name and its first line.

    Args:
        form: `jsonl`, `json`, `csv` or `tsv`; None: it is recognised.
        delimiter: None: it is recognised.
    """
    head = stream.readline(HEAD_BYTES)
    while head and not head.removeprefix(codecs.BOM_UTF8).strip() and len(head) < HEAD_BYTES:
        more = stream.readline(HEAD_BYTES)
        if not more:
            break
        head += more
    remarks: list[str] = []
    lines: LineReader = HeadedLines(head, stream)
    encoding = None
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
        remarks.append("UTF-16")
    has_returns = encoding is None and b"\r" in head.rstrip(b"\r\n") and b"\n" not in head.rstrip(b"\n")
    if has_returns:
        remarks.append("line ends without a line feed")
    if encoding is not None or has_returns:
        lines = RecodedLines(chunks(head, stream), encoding or "utf-8", "\r" if has_returns else "\n")
        first = lines.readline(HEAD_BYTES)
        lines = HeadedLines(first, lines)
    else:
        first = head
    text = first.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    chosen = form or FORMATS.get(os.path.splitext(name)[1].lower()) or ("csv" if delimiter else None)
    if chosen in ("csv", "tsv"):
        if delimiter is None:
            delimiter = "\t" if chosen == "tsv" else sniff_delimiter(text)
            if delimiter != "," and chosen == "csv":
                remarks.append(f"CSV with {DELIMITERS[delimiter]}")
        return SourceText(lines, "csv", delimiter, "line", remarks)
    if text[:1] == "[" or chosen == "json" or (text[:1] == "{" and chosen != "jsonl" and not is_json(text)):
        if text[:1] == "[":
            remarks.append("a JSON array")
        return SourceText(JsonValues(lines), "jsonl", ",", "document", remarks)
    return SourceText(lines, "jsonl", ",", "line", remarks)


def sniff_delimiter(header: str) -> str:
    """The most frequent delimiter of a header outside of quotes; the comma if it has none."""
    bare = re.sub(r'"[^"]*"', "", header.splitlines()[0] if header else "")
    counts = {sign: bare.count(sign) for sign in DELIMITERS}
    return max(counts, key=lambda sign: counts[sign])


def is_json(text: str) -> bool:
    """Whether a line is a whole value of JSON. A longer line than was read counts as one."""
    try:
        _DECODER.decode(text)
    except (ValueError, RecursionError):
        return len(text) > HEAD_BYTES // 4
    return True


class HeadedLines:
    """Lines of a stream after a first part that was read before."""

    def __init__(self, head: bytes, stream: LineReader) -> None:
        self._head = head
        self._stream = stream

    def readline(self, limit: int, /) -> bytes:
        if not self._head:
            return self._stream.readline(limit)
        line, feed, self._head = self._head.partition(b"\n")
        line += feed
        if feed or len(line) >= limit:
            if len(line) > limit:
                line, self._head = line[:limit], line[limit:] + self._head
            return line
        return line + self._stream.readline(limit - len(line))


def chunks(head: bytes, stream: BinaryIO) -> Callable[[], bytes]:
    """A function that gives the next bytes of a source; none at its end."""
    pending = [head] if head else []
    # What a pipe has is read at once, without waiting for more.
    read: Any = getattr(stream, "read1", stream.read)
    return lambda: pending.pop() if pending else read(HEAD_BYTES)


class RecodedLines:
    """Lines of a text with another encoding or another line end, as UTF-8 with line feeds."""

    def __init__(self, read: Callable[[], bytes], encoding: str, line_end: str) -> None:
        self._read = read
        # Bytes that are not of the encoding stay, and the reader of the lines refuses them with the number of their line.
        self._decoder = codecs.getincrementaldecoder(encoding)(
            "surrogateescape" if encoding == "utf-8" else "replace"
        )
        self._line_end = line_end
        self._text = ""
        self._is_at_end = False

    def readline(self, limit: int, /) -> bytes:
        searched = 0
        while (end := self._text.find(self._line_end, searched)) < 0 and not self._is_at_end:
            if len(self._text) >= limit:
                break
            searched = len(self._text)
            data = self._read()
            self._is_at_end = not data
            self._text += self._decoder.decode(data, final=not data)
        if end < 0:
            line, self._text = self._text[:limit], self._text[limit:]
            return line.encode("utf-8", "surrogateescape")
        line, self._text = self._text[:end], self._text[end + 1 :]
        return line.encode("utf-8", "surrogateescape") + b"\n"


class JsonValues:
    """The elements of a JSON array, or the values that follow each other, as a line each.

    Raises:
        BadLine: From `readline`: it is not JSON.
    """

    def __init__(self, lines: LineReader) -> None:
        self._lines = lines
        self._text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._is_at_end = False
        # None before the first character is known.
        self._is_array: bool | None = None
        self._number = 0

    def readline(self, limit: int, /) -> bytes:
        self._skip_space()
        if self._is_array is None:
            self._text = self._text.removeprefix("\ufeff")
            self._skip_space()
            self._is_array = self._text[:1] == "["
            if self._is_array:
                self._take(1)
        elif self._number and self._text[:1] == ",":
            self._take(1)
            if self._text[:1] == "]" and self._is_array:
                raise BadLine(self._number + 1, "not JSON: a comma before the end of the array")
        elif self._number and self._is_array and self._text[:1] not in ("]", ""):
            raise BadLine(self._number + 1, "not JSON: a comma is missing between two elements of the array")
        if self._is_array and self._text[:1] == "]":
            self._take(1)
            if self._text:
                raise BadLine(self._number + 1, "not JSON: there is text after the end of the array")
            self._is_array = False
            return b""
        if not self._text:
            if self._is_array:
                raise BadLine(self._number + 1, "not JSON: the array has no end")
            return b""
        self._number += 1
        value = self._take_value(limit)
        # Line ends are only between the parts of a value: inside of a text JSON has `\\n`.
        return value.replace("\r", " ").replace("\n", " ").encode("utf-8", "surrogateescape") + b"\n"

    def _take_value(self, limit: int) -> str:
        wanted = 0
        while True:
            try:
                _, end = _DECODER.raw_decode(self._text)
            except RecursionError:
                raise BadLine(self._number, "not JSON: it is nested too deeply") from None
            except ValueError as error:
                # The value may be longer than the text that was read. More is read in growing parts, so that a long value is not
                # read from its beginning for each line.
                if self._is_at_end or len(self._text) > limit:
                    raise BadLine(self._number, f"not JSON: {error}".partition(": line")[0]) from None
                wanted = max(2 * len(self._text), HEAD_BYTES)
                self._fill(wanted)
                continue
            value, self._text = self._text[:end], self._text[end:]
            return value

    def _take(self, count: int) -> None:
        self._text = self._text[count:]
        self._skip_space()

    def _skip_space(self) -> None:
        self._text = self._text.lstrip(_SPACE)
        while not self._text and not self._is_at_end:
            self._fill(1)
            self._text = self._text.lstrip(_SPACE)

    def _fill(self, count: int) -> None:
        """Read until so many characters are there, or the source ends."""
        parts = [self._text]
        length = len(self._text)
        while length < count and not self._is_at_end:
            data = self._lines.readline(HEAD_BYTES)
            self._is_at_end = not data
            parts.append(self._decoder.decode(data, final=not data))
            length += len(parts[-1])
        self._text = "".join(parts)
