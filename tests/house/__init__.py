"""Rules of the house: the code, the documentation and the examples."""
