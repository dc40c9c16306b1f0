"""A group moves to the protocol `consumer` while it works, and back: `make demo-migrate`."""
