"""The application's calls about transactions, and what their callers get.

It is no part of `transactions`, so that a producer without transactions doesn't import that module.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

OUTSTANDING = "outstanding"
"""A result of `Transactions.shut_and_commit()`: messages are outstanding."""


class Kind(Enum):
    """The application's calls."""

    INIT = "init_transactions"
    OFFSETS = "send_offsets_to_transaction"
    COMPLETE = "complete_transaction"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"


class Shared(NamedTuple):
    """The data that a producer needs to join a transaction of another producer with the same id."""

    producer_id: int
    epoch: int
    version: int
    """The cluster's ``transaction.version`` that the first producer has seen.

    All of them use it.
    """
