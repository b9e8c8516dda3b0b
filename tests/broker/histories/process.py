"""One process with a producer and a consumer: it sends and polls in transactions, and logs them.

    python -m tests.broker.histories.process < settings, then "leave"

Only this command ends it. If an error ends its clients, it reports the error and makes new clients.
It logs a line "begin" before it sends, a line "commit" before it commits, and a line "end".
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import Any

import confluent_kafka

import kafka_native
from tests.broker.histories.history import (
    ASSIGN,
    FAILED,
    OK,
    REBALANCE,
    SEEK,
    UNKNOWN,
    Move,
    Operation,
    Poll,
    Send,
    Step,
    plain,
)
from tests.harness import client_faults
from tests.harness.processes import say

CLIENTS: dict[str, ModuleType] = {"ours": kafka_native, "confluent": confluent_kafka}
CALL_S = 30.0
WAIT_S = 0.2
POLL_S = 0.005
MESSAGES_MAX = 100
STEPS_MAX = 4
VALUES = 10**8
"""The most values of a process. The number of the process is part of each value."""
BACK_MAX = 50
DOOM = 0.1
"""The share of the transactions that are aborted on purpose."""
SWITCH, REASSIGN, SEEK_BACK, FLUSH = 0.01, 0.02, 0.03, 0.2
SKIP = 0.3
"""The share of the polls in which the bug ``poll-gap`` leaves out a message."""


@dataclass
class Settings:
    """The settings of a process. ``number`` is its own: a new process has another one."""

    number: int
    client: str
    topic: str
    keys: int
    consumer: dict[str, Any]
    producer: dict[str, Any]
    seed: int
    bug: str = ""


class Worker:
    """Sends and polls until it gets the command to leave. Use `run()`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = CLIENTS[settings.client]
        self._random = random.Random(settings.seed)
        self._leaving = threading.Event()
        self._numbers, self._values = count(), count(settings.number * VALUES)
        self._number = 0  # of the operation
        self._next: dict[int, int] = {}  # the known positions of assigned keys
        self._moves: list[Move] = []  # moves that aren't in an operation yet
        self._is_subscribed = False
        self._producer: Any = None
        self._consumer: Any = None

    def run(self) -> None:
        """Work, and end the process after the command to leave."""
        client_faults.listen(self._leaving, self._is_refused)
        while not self._leaving.is_set():
            try:
                self._work()
            except self._client.KafkaException as error:
                cause = error.args[0]
                say("error", name=cause.name(), text=cause.str(), fatal=cause.fatal())
            except MemoryError as error:  # the fault "files": new clients get no descriptor
                say("error", name="MemoryError", text=str(error), fatal=False)
                self._leaving.wait(WAIT_S)
        say("left")
        os._exit(0)  # the listener still reads

    def _is_refused(self) -> bool:
        """Use the producer in a forked child. Return whether it refuses that."""
        if self._producer is None or self._settings.client != "ours":
            return True  # librdkafka doesn't refuse it
        try:
            self._producer.produce(self._settings.topic, b"of a forked child")
        except RuntimeError:
            return True
        return False

    def _work(self) -> None:
        with ExitStack() as stack:
            self._consumer = self._client.Consumer(self._settings.consumer)
            stack.callback(self._consumer.close)
            self._producer = self._client.Producer(self._settings.producer)
            if hasattr(self._producer, "close"):
                stack.callback(self._producer.close, 0)
            self._producer.init_transactions(CALL_S)
            self._is_subscribed = False
            self._assign(dict.fromkeys(range(self._settings.keys)))
            while not self._leaving.is_set():
                draw = self._random.random()
                if draw < SWITCH:
                    self._switch()
                elif draw < SWITCH + REASSIGN and not self._is_subscribed:
                    self._reassign()
                elif draw < SWITCH + REASSIGN + SEEK_BACK and not self._is_subscribed:
                    self._seek_back()
                self._transact()

    # --- moves ---

    def _log_moves(self) -> None:
        """Log the moves as an operation of their own."""
        operation = self._begin([])
        self._end(operation, OK)

    def _place(self, key: int, offset: int | None = None) -> Any:
        at = self._client.OFFSET_END if offset is None else offset
        return self._client.TopicPartition(self._settings.topic, key, at)

    def _assign(self, positions: dict[int, int | None]) -> None:
        """Assign keys. A position of None is the end."""
        self._consumer.assign([self._place(key, at) for key, at in positions.items()])
        self._next = {key: at for key, at in positions.items() if at is not None}
        self._moves.append(Move(ASSIGN, positions))
        self._log_moves()

    def _reassign(self) -> None:
        """Assign some of the keys, where they were, earlier, or at the end."""
        keys = self._settings.keys
        some = self._random.sample(range(keys), self._random.randint((keys + 1) // 2, keys))
        self._assign({key: self._position(key) for key in some})

    def _position(self, key: int) -> int | None:
        known = self._next.get(key)
        return None if known is None or self._random.random() < 0.1 else self._back(known)

    def _back(self, position: int) -> int:
        """Return a position, or one a bit before it."""
        is_same = self._random.random() < 0.5
        return position if is_same else max(position - self._random.randint(1, BACK_MAX), 0)

    def _seek_back(self) -> None:
        if self._next:
            key = self._random.choice(list(self._next))
            self._seek({key: self._back(self._next[key])})

    def _seek(self, positions: dict[int, int]) -> None:
        if not positions:
            return
        for key, offset in positions.items():
            self._consumer.seek(self._place(key, offset))
            self._next[key] = offset
            self._moves.append(Move(SEEK, {key: offset}))
        self._log_moves()

    def _switch(self) -> None:
        """Subscribe instead of assign, or the reverse."""
        self._is_subscribed = not self._is_subscribed
        if not self._is_subscribed:
            self._consumer.unsubscribe()
            self._assign(dict.fromkeys(range(self._settings.keys)))
            return
        self._consumer.unassign()
        self._next.clear()
        self._moves.append(Move(ASSIGN, {}))
        self._log_moves()
        self._consumer.subscribe(
            [self._settings.topic],
            on_assign=self._moved,
            on_revoke=self._moved,
            on_lost=self._moved,
        )

    def _moved(self, _: Any, partitions: list[Any]) -> None:
        """The group assigns or revokes partitions."""
        for each in partitions:
            self._next.pop(each.partition, None)
        if self._is_subscribed:
            self._moves.append(Move(REBALANCE, dict.fromkeys(it.partition for it in partitions)))

    # --- transactions ---

    def _transact(self) -> None:
        """Run a transaction of random sends and polls."""
        plan: list[Send | None] = [
            Send(self._random.randrange(self._settings.keys), next(self._values))
            if self._random.random() < 0.6
            else None
            for _ in range(self._random.randint(1, STEPS_MAX))
        ]
        operation = self._begin([each for each in plan if each is not None])
        before = dict(self._next)
        try:
            self._producer.begin_transaction()
            for each in plan:
                if each is None:
                    self._poll(operation)
                else:
                    operation.steps.append(each)
                    self._send(each)
            if self._is_subscribed:
                self._send_offsets(operation)
            if self._random.random() < DOOM:
                self._abort_on_purpose(operation)
            else:
                self._log_commit(operation)
                self._producer.commit_transaction(CALL_S)
                self._end(operation, OK)
                return
        except self._client.KafkaException as error:
            self._recover(operation, plan, error)
        self._go_back(before)

    def _send(self, send: Send) -> None:
        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                send.offset = message.offset()

        self._producer.produce(
            self._settings.topic, str(send.value), partition=send.key, on_delivery=on_delivery
        )
        if self._random.random() < FLUSH:
            self._producer.flush(CALL_S)

    def _send_offsets(self, operation: Operation) -> None:
        last: dict[int, int] = {}
        for poll in operation.polls():
            for key, messages in poll.messages.items():
                last[key] = messages[-1][0] + 1
        # A key that was revoked meanwhile isn't this member's any more.
        mine = [self._place(key, at) for key, at in last.items() if self._next.get(key) == at]
        if mine:
            metadata = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(mine, metadata, CALL_S)

    def _abort_on_purpose(self, operation: Operation) -> None:
        if self._random.random() < 0.7:
            self._producer.flush(CALL_S)  # it is in the log, and nobody may see it
        is_promised = self._settings.bug == "promised-abort"
        if is_promised:
            self._log_commit(operation)
        self._producer.abort_transaction(CALL_S)
        self._end(operation, OK if is_promised else FAILED)

    def _recover(self, operation: Operation, plan: list[Send | None], error: Exception) -> None:
        """End the transaction after an error, or raise the error: new clients are necessary."""
        known = {id(step) for step in operation.steps}
        operation.steps += [each for each in plan if each is not None and id(each) not in known]
        outcome = FAILED if operation.commit is None else UNKNOWN
        try:
            if not error.args[0].txn_requires_abort():
                raise error
            self._producer.abort_transaction(CALL_S)
            outcome = FAILED
            say("aborted", name=error.args[0].name())
        finally:
            self._end(operation, outcome)

    def _go_back(self, before: dict[int, int]) -> None:
        """Seek to where the transaction began, always in a group."""
        if self._is_subscribed:
            if mine := self._consumer.assignment():
                found = self._consumer.committed(mine, CALL_S)
                self._seek({each.partition: max(each.offset, 0) for each in found})
        elif self._random.random() < 0.5:
            self._seek({key: at for key, at in before.items() if key in self._next})

    def _poll(self, operation: Operation) -> None:
        message = self._consumer.poll(POLL_S)
        self._take(operation, [] if message is None else [message])
        if message is not None:
            self._take(operation, self._consumer.consume(MESSAGES_MAX, 0))

    def _take(self, operation: Operation, messages: list[Any]) -> None:
        """Add the messages of a call to an operation, behind the moves that the call made."""
        poll = Poll({}, time.monotonic())
        for message in messages:
            error = message.error()
            if error is None:
                at = message.offset(), int(message.value())
                poll.messages.setdefault(message.partition(), []).append(at)
            elif error.fatal():
                raise self._client.KafkaException(error)
            else:
                say("error", name=error.name(), text=error.str(), fatal=False)
        if self._settings.bug == "poll-gap" and self._random.random() < SKIP:
            for found in poll.messages.values():
                del found[len(found) // 2 : -1]
        operation.steps += [*self._take_moves(), poll]
        for key, found in poll.messages.items():
            self._next[key] = found[-1][0] + 1

    # --- the log ---

    def _take_moves(self) -> list[Move]:
        moves, self._moves = self._moves, []
        return moves

    def _say(self, event: str, time_s: float, **values: Any) -> None:
        say(event, process=self._settings.number, number=self._number, time=time_s, **values)

    def _begin(self, sends: list[Send]) -> Operation:
        operation = Operation(self._settings.number, time.monotonic(), [*self._take_moves()])
        self._number = next(self._numbers)
        self._say("begin", operation.begin, steps=_plain([*operation.steps, *sends]))
        return operation

    def _log_commit(self, operation: Operation) -> None:
        operation.commit = time.monotonic()
        self._say("commit", operation.commit, steps=_plain(operation.steps))

    def _end(self, operation: Operation, outcome: str) -> None:
        offsets = [[send.value, send.offset] for send in operation.sends()]
        steps = {} if operation.commit else {"steps": _plain(operation.steps)}
        self._say("end", time.monotonic(), outcome=outcome, offsets=offsets, **steps)


def _plain(steps: Iterable[Step]) -> list[Any]:
    return [plain(each) for each in steps]


if __name__ == "__main__":
    Worker(Settings(**json.loads(sys.stdin.readline()))).run()
