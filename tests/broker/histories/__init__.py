"""Histories under faults: processes send and poll in transactions, and a checker reads what
happened.

Each process has a producer with a transactional id and a consumer. It logs each operation with its
begin, end and result. The checker (`verify.py`) orders the versions of each key by offsets and
looks for anomalies by name, as Jepsen's test of Kafka does. A key is a partition.
`python -m tests.broker.histories` makes a long run.
"""
