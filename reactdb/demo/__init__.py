"""The demo: one real day at New York's airports, replayed through a database file while live boards watch it.

`flights` reads the data and says what happened when, `board` keeps lists up to date from feeds, `replay`
drives the one through the other and measures, `screen` draws the boards, `render` says the figures.

Rule of this package: it uses reactdb as any application would, through its public names only.
"""
