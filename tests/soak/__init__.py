"""The soak: many processes on one file, some of them killed, for a given time.

    python -m tests.soak --minutes 10 [--writers 3] [--followers 3] [--seed 1] [--scenario NAME] [--other-python PROGRAM]

Each scenario prints one line, and the whole a summary; the exit code is 1 if anything was lost, doubled, out of order, stuck
or leaking. `tests/soak/test_soak.py` runs a short form of it.
"""
