"""What a notebook shows: objects by themselves, and the live table."""
