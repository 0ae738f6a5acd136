"""ResumingStream: a stream that resumes after one fault, as PyMongo's streams do.

A resumable fault is an error of reading: the file was busy, or the stream was lost (code 43, or the label
`ResumableChangeStreamError`). The stream is then reopened, with the token of its last delivery. If that fails, or the first batch
after it, the error is raised. After a successful batch, another fault may follow.

Rule of this file: every event is delivered exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from reactdb.dialects.mongodb.embedded import driver
from reactdb.dialects.mongodb.embedded.errors import call
from reactdb.dialects.mongodb.errors import MongoError
from reactdb.dialects.mongodb.scopes import StreamScope
from reactdb.dialects.mongodb.streams import ChangeStreams, LogStream, StreamBatch
from reactdb.errors import DatabaseBusy

Document = dict[str, Any]
RESUMABLE: Final = "ResumableChangeStreamError"
CURSOR_NOT_FOUND: Final = 43


def is_resumable(error: Exception) -> bool:
    """Whether a stream can go on after this error."""
    if isinstance(error, MongoError):
        return error.code == CURSOR_NOT_FOUND or RESUMABLE in error.labels
    if isinstance(error, driver.PyMongoError):
        is_lost = getattr(error, "code", None) == CURSOR_NOT_FOUND
        return is_lost or isinstance(error, driver.ConnectionFailure) or error.has_error_label(RESUMABLE)
    return isinstance(error, DatabaseBusy)


class ResumingStream:
    """See the head of this file. One thread at a time; any thread closes it.

    Attributes:
        token: The token to resume from: the last batch's, and before the first batch the token of the starting point.
        is_closed: It was invalidated, or closed.
    """

    def __init__(
        self,
        streams: ChangeStreams,
        scope: StreamScope,
        options: Mapping[str, Any],
        stages: Sequence[Mapping[str, Any]],
        collation: Mapping[str, Any] | None,
    ) -> None:
        """`options`: the value of `$changeStream`."""
        self._streams = streams
        self._scope = scope
        self._options = dict(options)
        self._stages = list(stages)
        self._collation = collation
        self._on_ready: Callable[[], object] | None = None
        self.is_closed = False
        self._stream = self._open()
        self.token: Document = dict(self._stream.token)

    def _open(self) -> LogStream:
        pipeline = [{"$changeStream": self._options}, *self._stages]
        return call(self._streams.open, self._scope, pipeline, collation=self._collation)

    def batch(self, most: int | None) -> StreamBatch:
        """The ready events, as `LogStream.batch`.

        Raises:
            OperationFailure: The stream cannot continue. It is closed now, except after a resumable error: then the next
                call resumes it.
        """
        if self.is_closed:
            return StreamBatch([], self.token, True)
        try:
            try:
                if self._stream.is_closed:
                    self._resume()
                batch = call(self._stream.batch, most)
            except Exception as error:
                if not is_resumable(error):
                    raise
                self._resume()
                batch = call(self._stream.batch, most)
        except Exception as error:
            if not is_resumable(error):
                self.close()
            raise
        except BaseException:
            self.close()
            raise
        return self._note_batch(batch)

    def first_batch(self, most: int | None) -> StreamBatch:
        """The same for a new stream: a fault is raised, and the stream does not resume."""
        try:
            return self._note_batch(call(self._stream.batch, most))
        except BaseException:
            self.close()
            raise

    def _note_batch(self, batch: StreamBatch) -> StreamBatch:
        self.token = dict(batch.token)
        if batch.is_closed:
            self.close()
        return batch

    def _resume(self) -> None:
        self._stream.close()
        for name in ("resumeAfter", "startAtOperationTime"):
            self._options.pop(name, None)
        # It resumes after an invalidate event, too, if the stream began there.
        self._options["startAfter"] = self.token
        self._stream = self._open()
        self._stream.on_ready(self._on_ready)

    def on_ready(self, on_ready: Callable[[], object] | None) -> None:
        """As `LogStream.on_ready`."""
        self._on_ready = on_ready
        self._stream.on_ready(on_ready)

    def close(self) -> None:
        """A second call does nothing."""
        self.is_closed = True
        self._stream.close()
