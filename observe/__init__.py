"""Events, logs: what an operator sees."""
