"""Servers: other databases' wire protocols, so that their official clients connect.

Rule of this folder: sockets, connections and limits. What a request means is in the dialect of the same name.
"""
