"""Crash tests: the content of a file after the processes that wrote to it died at a random moment.

`python -m tests.crash --kills 2000` kills processes (`kills.py`); `python -m tests.crash --prove` shows that these tests notice
a broken store; `--power-images` cuts the power. A short form of each runs with the other tests.
"""
