"""The file: log, heads, indexes."""
