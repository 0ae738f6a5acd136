"""The public interface: connect, tables, selections, errors."""
