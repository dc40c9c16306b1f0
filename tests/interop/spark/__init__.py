"""Spark's kafka source and sink, batch and structured streaming, against Ottla."""
