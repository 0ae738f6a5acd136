"""What a program calls: connect, tables, selections, errors."""
