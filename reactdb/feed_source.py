"""FeedSource: what has `changes()`: a selection, and a database for all its tables. The options of a feed are written here.

A new option is a parameter of `changes` with a line of its docstring, and a field of `FeedOptions` in `reactdb/feeds/options.py`,
where all options are checked.

Rule of this file: it passes the options on by their names, and checks none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from reactdb.type_variables import Document, Generic

if TYPE_CHECKING:
    from typing import Unpack

    from reactdb.feeds.events import ChangeEvent
    from reactdb.feeds.feed import Feed


class ChangesOptions(TypedDict, total=False):
    """The options of `changes` but `batches`, which decides what an event is."""

    squash: bool | float
    changefeed_queue_size: int
    include_initial: bool
    include_states: bool
    include_offsets: bool
    include_types: bool
    include_seq: bool
    include_catalogue: bool
    include_commit: bool
    include_origin: bool
    since: int | str | None
    on_overflow: str | None
    on_predicate_error: str
    skip_origin: str | None


class FeedSource(Generic[Document]):
    """See the head of this file."""

    __slots__ = ()

    # The events of plain tables are dicts also to type checkers, and those of typed tables a TypedDict with the type.

    @overload
    def changes(  # type: ignore[overload-overlap]
        self: FeedSource[dict[str, Any]],
        *,
        batches: Literal[False] = False,
        **options: Unpack[ChangesOptions],
    ) -> Feed[dict[str, Any]]: ...

    @overload
    def changes(  # type: ignore[overload-overlap]
        self: FeedSource[dict[str, Any]], *, batches: Literal[True], **options: Unpack[ChangesOptions]
    ) -> Feed[list[dict[str, Any]]]: ...

    @overload
    def changes(
        self, *, batches: Literal[False] = False, **options: Unpack[ChangesOptions]
    ) -> Feed[ChangeEvent[Document]]: ...

    @overload
    def changes(
        self, *, batches: Literal[True], **options: Unpack[ChangesOptions]
    ) -> Feed[list[ChangeEvent[Document]]]: ...

    @overload
    def changes(self, *, batches: bool, **options: Unpack[ChangesOptions]) -> Feed[Any]: ...

    def changes(
        self,
        *,
        squash: bool | float = False,
        changefeed_queue_size: int = 100_000,
        include_initial: bool = False,
        include_states: bool = False,
        include_offsets: bool = False,
        include_types: bool = False,
        include_seq: bool = False,
        include_catalogue: bool = False,
        include_commit: bool = False,
        include_origin: bool = False,
        batches: bool = False,
        since: int | str | None = None,
        on_overflow: str | None = None,
        on_predicate_error: str = "skip",
        skip_origin: str | None = None,
    ) -> Feed[Any]:
        """Watch the result of a selection, or every table of a database, also those made later.

        Cold: every subscription has its own position and queue. Events come in log order, on the committing thread after its
        write is done, unless a scheduler is given to `subscribe` or `connect`.

        The events of a database carry `table`. Applied in order, they reproduce the content of every table. Where a
        table is dropped, there is a deletion of each document; where it is renamed, a deletion under the old name and
        an insertion under the new one.

        Args:
            squash: False delivers every change; True delivers the net difference whenever the subscriber is free; a number
                of seconds delivers at once and then at most once in that time.
            changefeed_queue_size: Changes kept for a subscriber that lags.
            include_initial, include_states: Begin with the present result, as events that have only `new_val`; deliver states.
            include_offsets: Add `old_offset` and `new_offset`, for an ordered selection.
            include_types: Add `type`: add, remove, change, initial, state.
            include_seq, include_commit, include_origin: Add `seq`, the position in the log; `commit`, the seq of the
                first change of the same commit; `origin`, the writer's own name, or None.
            include_catalogue: For a database only: deliver an event for each creation, rename and drop of a table or
                an index, in its place among the changes, such as `{"kind": "table_create", "table": "games",
                "table_id": 1, "primary_key": "id"}` (see `db.log()`), and none for each document of a dropped or
                renamed table.
            batches: Each event is a list of all changes of one commit; with `squash`, of several commits.
            since: A seq or a token: begin with the changes past it instead of now; a token from the middle of initial values
                begins with the rest of them.
            on_overflow: When the queue is full: "drop" the earliest and deliver how many, "error" to end with FeedOverflow,
                "spill" to read on in the log and lose nothing. None: "spill" with `include_offsets` or `batches`, else "drop".
            on_predicate_error: When a filter, a map or another step fails for a written document: "skip" leaves the
                document out, counts it in `stats()["failed"]` and logs the first one; "raise" ends the feed with the
                error. A missing field is no error to a filter, which has its `default`.
            skip_origin: Leave out the changes of writers that called themselves so.

        Returns:
            A Feed: an Observable of dicts `{"old_val": ..., "new_val": ...}` that can also be iterated. The documents inside
            are shared and refuse to be changed: `reactdb.thaw` copies.

        Raises:
            UnsupportedFeed: The result cannot be kept up to date.
            HistoryLost: Changes past `since` were compacted away.
            HistoryDiverged: `since` is a position that this file does not have.
            TableNotFound, IndexNotFound, InvalidOption: At once, not on subscribing.

        Source:
            RethinkDB 2.4 API reference, `changes`. What differs is listed in docs/reference/feeds.md.
        """
        options = dict(locals())
        del options["self"]
        return self._watch(options)

    def _watch(self, options: Mapping[str, Any]) -> Feed[Any]:
        """A feed with these options, by name. Each subclass knows what it watches."""
        raise NotImplementedError
