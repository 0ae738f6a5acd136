"""Feeds for browsers, over real ports."""
