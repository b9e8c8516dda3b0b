"""Acked messages under faults: producers write numbered messages and keep a ledger of their reports.

At the end the brokers' log is read with two clients, and compared with the ledgers.
"""
