"""Foreign clients, tools and test-suites, unmodified, against a running Ottla: ``python -m tests.interop.run all``."""
