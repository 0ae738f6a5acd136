"""Values: encoding, order, numbers."""
