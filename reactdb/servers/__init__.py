"""Servers: other databases' wire protocols, so that their official clients connect.

limits        how much a client may use
users         who may come in
scram         how a client proves it without sending its password
tls           a certificate and a key
workers       threads that carry requests out
connection    one client, and what a protocol has to bring (Conversation)
server        one port
rethinkdb/    RethinkDB's protocol
http/         CouchDB's HTTP, as an ASGI application

Rule of this folder: sockets, connections and limits. What a request means is in the dialect of the same name.
"""
