"""What reactdb costs, beside the bare SQLite statements and beside other databases. `python -m benchmarks` runs it.

`workloads` says what is done, `peers/` how each database does it, `harness` in which order and how often, `marks` what
was hoped for, `report` prints. `README.md` has the method and the figures of one run.
"""
