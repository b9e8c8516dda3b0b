"""Benchmarks with other clients in the same run, on the same broker: ``python -m bench``."""
