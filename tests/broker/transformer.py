"""A process that turns each message of a topic into messages of another one, in transactions.

Its standard input is a line of settings, then commands: "leave" ends it, and `client_faults` has the
others. If an error ends its clients, it reports the error and makes new clients.
"""

from __future__ import annotations

import os
import random
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from kafka_native import Consumer, KafkaError, KafkaException, Message, Producer, eos
from kafka_native.eos import Progress, process
from tests.harness import client_faults
from tests.harness.processes import said, say

WAIT_S = 0.2
CALL_S = 30.0
COUNTERS = ("messages", "transactions", "aborted")
"""The counters of `Progress`. An event "progress" has what was added to each."""


@dataclass
class Settings:
    """The settings of a process.

    ``doom``: the share of the messages whose outputs it first writes and aborts. ``messages``: the
    most of a transaction.
    """

    source: str
    target: str
    consumer: dict[str, Any]
    producer: dict[str, Any]
    seed: int
    doom: float = 0.003
    messages: int = 40
    bug: str = ""
    """``rewind``: after an abort, it doesn't seek back. Subclasses may have others."""


S = TypeVar("S", bound=Settings)


class Transformer(ABC, Generic[S]):
    """Transforms messages until it gets the command to leave. Use `run()`."""

    def __init__(self, settings: S) -> None:
        self.settings = settings
        self.random = random.Random(settings.seed)
        self._leaving = threading.Event()
        self._producer: Producer | None = None

    @abstractmethod
    def outputs(self, message: Message, is_doomed: bool) -> Iterable[dict[str, Any]]:
        """Return the arguments of produce(). Those of a doomed message are aborted."""

    def run(self) -> None:
        """Transform messages, and end the process after the command to leave."""
        if self.settings.bug == "rewind":
            eos.rewind = lambda consumer: None
        client_faults.listen(self._leaving, self._is_refused)
        while not self._leaving.is_set():
            try:
                self._work()
            except KafkaException as error:
                cause = error.args[0]
                say("error", name=cause.name(), text=cause.str(), fatal=cause.fatal())
            except MemoryError as error:  # the fault "files": new clients get no descriptor
                say("error", name="MemoryError", text=str(error), fatal=False)
                self._leaving.wait(WAIT_S)
        say("left")
        os._exit(0)  # the listener still reads

    def _is_refused(self) -> bool:
        """Use the producer in a forked child. Return whether it refuses that."""
        producer = self._producer
        try:
            if producer is not None:
                producer.produce(self.settings.target, b"of a forked child")
        except RuntimeError:
            return True
        return producer is None

    def _work(self) -> None:
        settings = self.settings
        with Consumer(settings.consumer) as consumer, Producer(settings.producer) as producer:
            self._producer = producer
            consumer.subscribe([settings.source])

            def function(message: Message) -> Iterator[dict[str, Any]]:
                is_doomed = self.random.random() < settings.doom
                yield from self.outputs(message, is_doomed)
                if is_doomed:
                    producer.flush(CALL_S)  # it is in the log, and no reader may see it
                    raise KafkaException(
                        KafkaError(KafkaError._APPLICATION, "doomed", txn_requires_abort=True)
                    )

            def until(progress: Progress) -> bool:
                now = {name: getattr(progress, name) for name in COUNTERS}
                if now != last:
                    say("progress", **{name: now[name] - last[name] for name in COUNTERS})
                    last.update(now)
                return self._leaving.is_set()

            last = dict.fromkeys(COUNTERS, 0)
            say("start")
            process(
                consumer,
                producer,
                function,
                until=until,
                messages=settings.messages,
                wait=WAIT_S,
                timeout=CALL_S,
            )


def figures(directory: Path) -> tuple[Counter[str], Counter[str]]:
    """Return what the processes of a run did, and the errors that ended their clients."""
    done: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for event in said(directory):
        if event["e"] == "progress":
            done.update({name: event[name] for name in COUNTERS})
        elif event["e"] == "error":
            ends[event["name"]] += 1
    return done, ends
