"""Kills the exporter at random moments: `python -m tests.lake_kills --kills 20 --target delta`. See `kills`."""
