"""Metrics in the form of Prometheus; see docs/metrics.md."""
