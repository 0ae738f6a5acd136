"""Synchronisation with databases behind CouchDB's HTTP."""
