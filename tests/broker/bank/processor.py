"""One processor as a process: it takes orders, and writes their entries in the same transaction.

    python -m tests.broker.bank.processor < settings, then "leave"

Only the command to leave ends it. If an error ends its clients, it reports the error and makes new
clients.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafka_native import Consumer, KafkaError, KafkaException, Message, Producer, eos
from kafka_native.eos import Progress, process
from tests.harness.processes import say

MESSAGES = 40
WAIT_S = 0.2
CALL_S = 30.0


@dataclass
class Settings:
    """The settings of a processor.

    ``doom``: the share of its orders that it first writes and aborts. ``work_s``: the seconds an
    order takes, so that a transaction is open for most of the time.
    """

    orders: str
    entries: str
    consumer: dict[str, Any]
    producer: dict[str, Any]
    seed: int
    doom: float = 0.003
    work_s: float = 0.005
    bug: str = ""  # "rewind": after an abort, it doesn't seek back


class Processor:
    """Makes entries of orders until it gets the command to leave."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._random = random.Random(settings.seed)
        self.leaving = threading.Event()

    def run(self) -> None:
        """Return after the command to leave."""
        while not self.leaving.is_set():
            try:
                self._work()
            except KafkaException as error:
                cause = error.args[0]
                say("error", name=cause.name(), text=cause.str(), fatal=cause.fatal())

    def _work(self) -> None:
        with (
            Consumer(self._settings.consumer) as consumer,
            Producer(self._settings.producer) as producer,
        ):
            consumer.subscribe([self._settings.orders])

            def entries(order: Message) -> Iterator[dict[str, Any]]:
                number, payer, payee, amount = json.loads(order.value() or b"")
                time.sleep(self._random.uniform(0, 2 * self._settings.work_s))
                doomed = self._random.random() < self._settings.doom
                for account, change in ((payer, -amount), (payee, amount)):
                    value = json.dumps([number, account, change, doomed])
                    yield {"topic": self._settings.entries, "key": str(account), "value": value}
                if doomed:
                    producer.flush(CALL_S)  # it is in the log, and no reader may see it
                    raise KafkaException(
                        KafkaError(KafkaError._APPLICATION, "doomed", txn_requires_abort=True)
                    )

            def until(progress: Progress) -> bool:
                now = progress.transactions, progress.aborted
                if now != last[0]:
                    say("progress", committed=now[0] - last[0][0], aborted=now[1] - last[0][1])
                    last[0] = now
                return self.leaving.is_set()

            last = [(0, 0)]
            say("start")
            process(
                consumer,
                producer,
                entries,
                until=until,
                messages=MESSAGES,
                wait=WAIT_S,
                timeout=CALL_S,
            )


def main() -> None:
    settings = Settings(**json.loads(sys.stdin.readline()))
    if settings.bug == "rewind":
        eos.rewind = lambda consumer: None
    processor = Processor(settings)

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == "leave":
                processor.leaving.set()
        if not processor.leaving.is_set():
            os._exit(3)  # the run has ended

    threading.Thread(target=listen, daemon=True).start()
    processor.run()
    say("left")
    os._exit(0)  # the listener still reads


if __name__ == "__main__":
    main()
