"""Benchmarks against other clients, in the same run against the same broker: ``python -m bench``."""
