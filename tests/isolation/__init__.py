"""Isolation: concurrent transactions of all faces on one file, and a checker of what they have seen.

    python -m tests.isolation --minutes 10 [--seed 1] [--rounds 3] [--threads]

Every transaction reads the lists of some keys and appends unique values to some. A list that was read shows in which order
its values were appended, so the histories alone say which transaction depends on which.

    history     what one transaction has done and seen, and what it was promised
    checker     the anomalies of a history: a function without a database
    workload    makes histories: threads, and processes that are killed; native transactions, MongoDB's in the process and over a
                socket
"""
