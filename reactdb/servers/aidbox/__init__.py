"""Aidbox's HTTP interface: its paths, and what a request and an answer of each look like.

application    aidbox(db): the ASGI application
routes         which function answers which method of which path
media_types    JSON and YAML
event_streams  the changes of a type as server-sent events

Rule of this folder: it reads requests and writes answers. Their meaning is in `reactdb.dialects.aidbox`; connections, limits
and sessions are in `reactdb.servers.http`.
"""
