"""What a feed shows, kept from change to change: selections, points, windows, aggregates, unions."""
