"""Replication: a table and another database brought to the same state, over HTTP, in CouchDB's way.

    peers           what a replication asks of a side, and what passes between them
    local, remote   the two sides: a table of this file; a database behind CouchDB's HTTP
    checkpoints     how far it got, kept on both sides
    replicator      one direction
    syncing         `reactdb.sync`: both, once or live

Each revision goes to the other side as it is, with its ancestors; so both have the same revisions, the same conflicts and the
same winner, whoever wrote first. Nothing is sent that is there.
"""
