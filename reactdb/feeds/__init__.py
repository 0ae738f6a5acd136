"""Feeds: query results that are kept up to date, and delivered.

Read them in this order, in which they are built up: each imports only what stands above it (a contract in `pyproject.toml`).
To follow one event, begin at `dispatch`.

What a feed is:

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

The way of an event:

    router          which views a change concerns; `intervals` finds the ranges that hold a value
    queues          the queue of one subscription alone
    broadcast       one queue for subscribers that get the same events, and the calls of those that are called
    subscription    what one subscriber gets of one query: the table of its states, and `poll`
    dispatch        commit -> views -> the queues of subscriptions -> their consumers
    hub             the feeds of one database: which subscriptions join, leave and catch up
    terms           what may stand after `changes()`
    consumers       what polls, when and where: observers, cursors, coroutines; `timers` and `schedulers` wake them

What programs hold:

    inspect         what a feed is, for people
    rx              what makes a feed an Observable; the one module that imports reactivex, and only when it is used
    feed            what `changes()` returns
    livelist        a list that follows

Rule of this folder: a view is pure. Threads, time and Rx stay outside of it.
"""
