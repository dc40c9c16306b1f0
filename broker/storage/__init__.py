"""The storage boundary and its engines."""
