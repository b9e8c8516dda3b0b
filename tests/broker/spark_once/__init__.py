"""A stream of Spark's, written exactly once to a real Kafka while its processes are killed at each
step of that.

Proxies read what the clients say to the brokers, and kill whoever makes a request: before it
arrives, when it has arrived and before the answer does, or right after. Whatever happens, each row
is there once for every committed reader. `python -m tests.broker.spark_once --kills 100` runs it at
length.
"""
