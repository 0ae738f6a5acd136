"""The demo: one real day at New York's airports, replayed through a database file while live boards watch it.

`flights` reads the data and lists what happened when, `board` keeps lists up to date from feeds, `replay`
writes the steps to the database and measures the feeds, `screen` draws the boards, `render` prints the figures.

Rule of this package: it uses reactdb as any application would, through its public names only.
"""
