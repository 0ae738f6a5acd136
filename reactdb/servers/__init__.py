"""Servers: other databases' wire protocols, so that their official clients connect.

limits        how much a client may use
users         who may come in
scram         how a client proves it without sending its password
tls           a certificate and a key
workers       threads that carry requests out
listening     the socket of a port, and what the system says against it
places        which connections there are, and which one leaves when there is no room for another
connection    one client, and what a protocol has to bring (Conversation)
server        one port
rethinkdb/    RethinkDB's protocol
mongodb/      MongoDB's protocol
http/         CouchDB's and Aidbox's HTTP, as ASGI applications

Rule of this folder: sockets, connections and limits. What a request means is in `reactdb.dialects`.
"""
