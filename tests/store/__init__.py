"""The store: log, snapshots, transactions, files."""
