"""What a document is made of: encoding, order of keys and values, numbers, their printed forms."""
