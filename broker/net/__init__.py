"""Bytes to frames and back: the listener and its connections."""
