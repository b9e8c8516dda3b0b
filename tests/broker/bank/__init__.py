"""A bank under faults: transfers as transactions, by processors that are killed, frozen and cut
off.

Each order becomes two entries, one for each account. Whatever happens to processors, links and
brokers, every reader with ``isolation.level=read_committed`` finds the entries of each order once,
and the same ones as the other readers. `python -m tests.broker.bank` runs it at length.
"""
