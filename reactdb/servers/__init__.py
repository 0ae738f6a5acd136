"""Servers: other databases' wire protocols, so that their official clients connect.

limits        how much a client may use
users         users and passwords
scram         authentication without sending a password
tls           a certificate and a key
workers       threads that execute requests
sockets       the socket of a port, and the system's errors
places        the connections of a port, and the choice of the one to close when there is no room
connection    one client, and the part of a protocol (Conversation)
server        one port
open_streams  all streams of an event loop; they end when its server stops
rethinkdb/    RethinkDB's protocol
mongodb/      MongoDB's protocol
http/         CouchDB's and Aidbox's HTTP, as ASGI applications
aidbox/       Aidbox's paths over HTTP
couchdb/      CouchDB's paths over HTTP
inspector/    a page that shows a database at work

Rule of this folder: sockets, connections and limits. The meaning of a request is in `reactdb.dialects`.
"""
