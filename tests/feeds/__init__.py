"""Feeds: kinds, options, delivery, resuming."""
