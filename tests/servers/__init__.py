"""What all servers share: connections, limits, users, TLS."""
