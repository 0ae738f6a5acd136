"""Crash tests: what a file holds after the processes that wrote to it died at a random moment.

`python -m tests.crash --kills 2000` kills processes (`kills.py`); `python -m tests.crash --prove` shows that this would notice a
store that is broken; `--power-images` cuts the power. A bounded form of each runs with the other tests.
"""
