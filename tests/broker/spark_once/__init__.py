"""A Spark stream that writes exactly once to a real Kafka while its processes are killed at each
step.

Proxies read the clients' requests. They kill the client of a request before it arrives, before its
answer, or right after. Every committed reader still finds each row once. `python -m
tests.broker.spark_once --kills 100` makes a long run.
"""
