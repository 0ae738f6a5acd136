"""Tests of `reactdb/testing/`: the fixtures and the virtual clock, used as their users would."""
