"""The programs in `examples/`, run as a newcomer runs them."""
