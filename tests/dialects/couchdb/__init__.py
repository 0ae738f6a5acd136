"""CouchDB's dialect."""
