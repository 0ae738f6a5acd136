"""The costs of reactdb, compared with bare SQLite statements and with other databases. `python -m benchmarks` runs it.

`workloads` defines the work, `peers/` how each database does it, `harness` the order and the repeats, `marks` the
targets, and `report` prints. `README.md` has the method and the figures of one run.
"""
