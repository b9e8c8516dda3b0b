"""Spark streams and archives on a real Kafka while their processes are killed at each step.

Proxies read the clients' requests. They kill the client of a request before it arrives, before its
answer, or after it. The target, a topic or a lake, still has each row once. `python -m
tests.broker.spark --kills 100` makes a long run.
"""
