"""Feeds: query results that are kept up to date, and delivered.

The path of an event: the store gives `hub` a commit, and `dispatch` finds the views that it concerns with `router`.
Their reports go into a `broadcast`, or into the `queues` of single subscriptions. When the writer has finished, the
broadcast makes the event and calls its observers. Every other subscriber has a consumer (in `consumers`) that polls a
subscription, and the subscription makes the event.

Read the files in this order, in which they are built up: each imports only files above it (a contract in
`pyproject.toml`).

The parts of a feed:

    options         what `changes()` may be asked for
    position        how far a feed was delivered, and tokens
    failures        the documents that a view could not compute
    edits           the way from one list to another
    pipeline        the steps of a query that look at one document
    views/          what keeps a result up to date: seed, advance, report. `views.base` has the protocol
    events          deltas as the dicts that are delivered
    compiler        a query as a view, or the reason why not
    request         what all subscriptions of one feed share
    log_reader      reading on from the log
    initial         the initial values: what a feed begins with
    bootstrap       views made ready beside the writers

Delivery, from the bottom up:

    router          which views a change concerns; `intervals` finds the ranges that hold a value
    queues          the queue of one subscription alone
    broadcast       one queue for subscribers that get the same events, and the calls of those that are called
    subscription    what one subscriber gets of one query: the table of its states, and `poll`
    dispatch        commit -> views -> the queues of subscriptions -> their consumers
    hub             the feeds of one database: which subscriptions join, leave and catch up
    terms           what may stand after `changes()`
    consumers       what polls, when and where: observers, cursors, coroutines; `timers` and `schedulers` wake them

The objects that programs hold:

    listening       a subscription, a cursor or a reader ends when it is closed or forgotten
    inspect         what a feed is, for people
    reader          a feed that is asked what there is, and never waits
    rx              what makes a feed an Observable; the one module that imports reactivex, and only when it is used
    feed            what `changes()` returns
    livelist        a list that follows

Rule of this folder: a view is pure. Threads, time and Rx stay outside of it.
"""
