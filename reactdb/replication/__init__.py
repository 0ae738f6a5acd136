"""Replication: a table and another database brought to the same state, over HTTP, in CouchDB's way.

    peers           the interface of the two sides, and the values between them
    local, remote   the two sides: a table of this file; a database behind CouchDB's HTTP
    checkpoints     positions, kept on both sides
    replicator      one direction
    sync            `reactdb.sync`: both, once or live

Each revision goes to the other side unchanged, with its ancestors; so both have the same revisions, the same conflicts and the
same winner, in any order of writes. Existing revisions are not sent.
"""
