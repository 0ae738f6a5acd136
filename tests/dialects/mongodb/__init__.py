"""MongoDB's dialect."""
