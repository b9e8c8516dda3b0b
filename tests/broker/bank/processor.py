"""One processor as a process: it takes orders, and writes their entries in the same transaction.

python -m tests.broker.bank.processor < settings, then "leave"
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafka_native import Message
from tests.broker import transformer
from tests.broker.transformer import Transformer


@dataclass
class Settings(transformer.Settings):
    """The settings of a processor.

    ``work_s``: the seconds an order takes, so that a transaction is open for most of the time.
    """

    work_s: float = 0.005


class Processor(Transformer[Settings]):
    """Makes entries of orders."""

    def outputs(self, message: Message, is_doomed: bool) -> Iterator[dict[str, Any]]:
        """Return the entries of both accounts. They tell whether they are to be aborted."""
        number, payer, payee, amount = json.loads(message.value() or b"")
        time.sleep(self.random.uniform(0, 2 * self.settings.work_s))
        for account, change in ((payer, -amount), (payee, amount)):
            value = json.dumps([number, account, change, is_doomed])
            yield {"topic": self.settings.target, "key": str(account), "value": value}


if __name__ == "__main__":
    Processor(Settings(**json.loads(sys.stdin.readline()))).run()
