"""A bank under faults: processors that are killed, frozen and cut off make transfers as
transactions.

Each order becomes two entries, one for each account. Whatever happens to processors, connections
and brokers, every reader with ``isolation.level=read_committed`` finds the entries of each order
once. All readers find the same entries. `python -m tests.broker.bank` makes a long run.
"""
