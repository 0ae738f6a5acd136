"""Tests of reactdb, in a tree that mirrors the library."""
