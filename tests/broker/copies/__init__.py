"""Copiers under faults: Kafka's own TransactionalMessageCopier and ours in one group.

A feeder writes numbered messages in transactions, and aborts some of them. Whatever happens to
copiers, connections and brokers, every reader with ``isolation.level=read_committed`` finds each
message once, in the partition and the order of the input. `python -m tests.broker.copies` makes a
long run.
"""
