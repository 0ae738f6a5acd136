"""Feeds: query results that are kept up to date, and told.

Read them in this order; imports go down the list and never up, but for the views, which know nothing below them:

    view            what a view is: seed, advance, report
    pipeline        the steps of a query that look at one document
    source          where a view's documents come from
    point, select, window, aggregate, distinct, union    the views
    options         what `changes()` may be asked for
    compiler        a query as a view, or the reason why not
    intervals, router    which views a change concerns
    edits, queue, ordered_queue  what one subscriber has not been told yet
    log_reader      reading on from the log
    events          what is told
    position        tokens
    request         what all subscriptions of one feed share
    seeding         views made ready beside the writers
    direct, subscription    one query as one subscriber hears it
    terms           what may stand after `changes()`
    node, routing, hub    the feeds of one database
    timers, consumer, cursors    who is told, where and when
    inspect         what a feed is, for people
    rx              what makes a feed an Observable; the one module that imports reactivex, and only when it is used
    feed            what `changes()` returns
    livelist        a list that follows

Rule of this folder: a view is pure. Threads, time and Rx stay outside of it.
"""
