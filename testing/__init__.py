"""A broker for tests: embedded in a thread or on the test's own event loop, and a pytest plugin."""
