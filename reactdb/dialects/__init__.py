"""Dialects: other databases' words for what this one does.

Rule of this folder: a dialect parses a request, reads the log or a feed, and renders. It has no sockets and no threads, and
knows no other dialect.
"""
