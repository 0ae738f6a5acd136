"""Fault tests: what the store does when the system calls under it fail. `python -m tests.faults --help` says how to run them."""
