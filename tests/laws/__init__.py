"""The laws at length: see `__main__`."""
