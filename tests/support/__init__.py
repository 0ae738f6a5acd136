"""Helpers of several folders of tests: recorders, replicas, kept files."""
