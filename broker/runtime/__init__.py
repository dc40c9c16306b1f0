"""The way into the core, and the hands that carry out its effects."""
