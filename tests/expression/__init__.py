"""Expressions: built, compiled, analysed."""
