"""Feeds: query results that are kept up to date, and delivered.

The path of an event: the store gives `hub` a commit, and `dispatch` finds the views that it concerns with `router`.
Their reports go into a `broadcast`, or into the `queues` of single subscriptions. When the writer has finished, the
broadcast makes the event and calls its observers. Every other subscriber has a consumer (in `consumers`) that polls a
subscription, and the subscription makes the event.

Read the files in this order, in which they are built up: each imports only files above it (a contract in
`pyproject.toml`).

The parts of a feed:

    options         the options of `changes()`
    position        the delivered position of a feed, and tokens
    failures        the documents that a view could not compute
    edits           the edits from one list to another
    pipeline        the steps of a query on one document
    views/          keep a result up to date: seed, advance, report. `views.base` has the protocol
    events          deltas as the delivered dicts
    difference      the edits from one answer to another, where an answer was read anew
    compiler        makes a view of a query, or raises the reason against it
    query_text      a query as text, for people
    request         the common part of all subscriptions of one feed
    log_reader      reading from the log
    initial         the initial values, a feed's opening
    bootstrap       prepares views beside the writers
    background      long reads in threads, for feeds that an event loop waits for

Delivery, from the bottom up:

    router          finds the views that a change concerns; `intervals` finds the ranges of a value
    read_set        what a computation has read, as a view that reports the changes which concern it
    queues          the queue of one subscription alone
    broadcast       one queue for subscribers with the same events, and the calls of their callbacks
    subscription    one subscriber's events of one query: the table of its states, and `poll`
    dispatch        commit -> views -> the queues of subscriptions -> their consumers
    activity        each open subscription in words and figures, for `db.activity()`
    hub             the feeds of one database: subscriptions join, leave and catch up
    terms           the steps after `changes()`
    consumers       the pollers: observers, cursors, coroutines; `schedulers` and the timers of `reactdb.clock` wake them

The objects that programs hold:

    handles         a subscription, a cursor or a reader ends when it is closed or unreferenced
    inspect         descriptions of a feed for people
    reader          a feed that is polled and never waits
    rx              makes a feed an Observable; the one module that imports reactivex, and only at its use
    feed            the result of `changes()`
    rerun           a computation that is made again after each commit which concerns it
    live            the common part of a live list and a live value: state, subscribers
    livelist        a list that follows a selection
    typed_feed      the feed of a table with a type
    livevalue       one document, a count or another value that follows a selection

Rule of this folder: a view is pure. Threads, time and Rx stay outside of it.
"""
