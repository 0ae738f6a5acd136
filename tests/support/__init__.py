"""What tests share: recorders, replicas, kept files."""
