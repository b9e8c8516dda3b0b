"""The threads that use clients: writers, members of a group, a copier, a reader."""

from __future__ import annotations

import faulthandler
import threading
import time
from collections.abc import Iterable
from typing import Any

import payload
from ledger import NOT_PERSISTED, PERSISTED, POSSIBLY_PERSISTED, number_of
from world import PARTITIONS, World

from kafka_native import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    MessageStatus,
    Producer,
    TopicPartition,
)
from kafka_native.eos import Progress, process

STEP_S = 0.5
RETRY_S = 1.0
POLL_S = 5.0
LINGERS_MS = (0, 5, 100)
CODECS = ("none", "lz4", "gzip")


class Actor:
    """A thread that works until it is told to end."""

    def __init__(self, world: World, name: str) -> None:
        """``name`` is its own in the run."""
        self.world = world
        self.name = name
        self.draw = world.random(name)
        self.is_ending = threading.Event()
        self.asked = threading.Event()
        """A fault asks for a restart of the client."""
        self.group = 0
        """The machine's number of this process: of the thread, and those of its client."""

    def start(self) -> None:
        """Start the thread."""
        self.group = self.world.new_group()
        self._thread = threading.Thread(
            target=self._run, args=[self.group], name=self.name, daemon=True
        )
        self._thread.start()

    def kill(self, silently: bool) -> None:
        """Stop the threads for ever, and go on with others. No broker gets a sign, if it is silent."""
        left = self.world.machine.machine_kill(self.group, silently)
        if left:
            self.world.problem(f"{left} threads of {self.name} didn't stop")
        self.killed()
        self.start()

    def killed(self) -> None:
        """Note that the last client has no end."""

    def end(self, within_s: float) -> None:
        """Ask the thread to end, and wait for it."""
        self.is_ending.set()
        self._thread.join(within_s)
        if self._thread.is_alive():
            self.world.problem(f"{self.name} hasn't ended after {within_s:.0f} s")
            faulthandler.dump_traceback(all_threads=True)

    def _run(self, group: int) -> None:
        self.world.machine.machine_join(group)
        try:
            while not self.is_ending.is_set():
                self.asked.clear()
                self.live()
        except Exception as error:
            self.world.problem(f"{self.name}: {error!r}")

    def live(self) -> None:
        """Use one client until it ends."""
        raise NotImplementedError


class Writer(Actor):
    """An idempotent producer that writes bursts."""

    def __init__(self, world: World, topic: str, index: int) -> None:
        """``lives``: what `Life` in tests/broker/acked has, as JSON."""
        super().__init__(world, f"writer {index}")
        self.topic = topic
        self.lives: list[dict[str, Any]] = []

    def live(self) -> None:
        """Write until the end, a fatal error or a restart. Then every message has a report."""
        number = self.world.new_life()
        life: dict[str, Any] = {"name": number, "killed": False, "sent": [], "reports": []}
        self.lives.append(life)
        conf = self.world.conf(
            enable_idempotence=True,
            linger_ms=self.draw.choice(LINGERS_MS),
            compression_type=self.draw.choice(CODECS),
            message_timeout_ms=120_000,
        )
        with Producer(conf) as producer:
            while not (self.is_ending.is_set() or self.asked.is_set()):
                try:
                    self._burst(producer, life)
                except KafkaException:
                    break  # a fatal error: go on with a new producer
                self._serve(producer, self.draw.expovariate(1 / self.world.options["pace_s"]))
            if self.asked.is_set():
                producer.purge(in_flight=self.draw.random() < 0.5)
            left = producer.flush(150)
            if left:
                self.world.problem(f"{self.name}: {left} messages have no report after 150 s")

    def killed(self) -> None:
        """Messages of the last life may have no report."""
        if self.lives:
            self.lives[-1]["killed"] = True

    def _serve(self, producer: Producer, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            if self.asked.is_set() or self.is_ending.is_set():
                return
            producer.poll(min(left_s, POLL_S))

    def _burst(self, producer: Producer, life: dict[str, Any]) -> None:
        for _ in range(self.draw.randrange(1, 8)):
            number = number_of(life["name"], len(life["sent"]))
            partition = self.draw.randrange(PARTITIONS)
            value = payload.make(self.topic, partition, number, self.draw.randrange(200))

            def reported(error: Any, message: Message, number: int = number) -> None:
                if error is None:
                    status = PERSISTED
                elif message.status() == MessageStatus.NOT_PERSISTED:
                    status = NOT_PERSISTED
                else:
                    status = POSSIBLY_PERSISTED
                offset = message.offset() if error is None else None
                place = -1 if offset is None else offset
                life["reports"].append([number, message.partition(), place, status])

            life["sent"].append([number, partition])  # before: a kill may come at any time
            try:
                producer.produce(self.topic, value, partition=partition, on_delivery=reported)
            except KafkaException:
                life["sent"].pop()
                raise


class Member(Actor):
    """A member of the group "readers". It commits what it has read."""

    def __init__(self, world: World, index: int) -> None:
        """``committed``: by partition."""
        super().__init__(world, f"member {index}")
        self.committed: dict[int, int] = {}
        self._open: dict[int, dict[str, Any]] = {}
        self._owes = False
        """The last commit failed."""

    def live(self) -> None:
        """Read until the end or a restart."""
        self._open, self._owes = {}, False
        conf = self.world.conf(
            group_id="readers",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            partition_assignment_strategy=["cooperative-sticky", "range"][
                self.world.options["seed"] % 2
            ],
        )
        with Consumer(conf) as consumer:
            consumer.subscribe(
                ["ledger"], on_assign=self._assigned, on_revoke=self._gone, on_lost=self._gone
            )
            while not (self.is_ending.is_set() or self.asked.is_set()):
                taken = consumer.consume(self.draw.randrange(1, 100), STEP_S)
                self._take(taken)
                if taken or self._owes:
                    self._owes = not self._commit(consumer)

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._open[each.partition] = {"partition": each.partition, "offsets": []}
            self.world.taken.append(self._open[each.partition])

    def _gone(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._open.pop(each.partition, None)

    def _take(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if (error := message.error()) is not None:
                if error.fatal():
                    self.world.problem(f"{self.name}: {error}")
                continue
            partition = message.partition()
            reading = self._open.get(partition)
            if reading is None:
                self.world.problem(
                    f"{self.name} got [{partition}] @{message.offset()}, not its own"
                )
                continue
            reading["offsets"].append(message.offset())
            self.world.number(message)

    def _commit(self, consumer: Consumer) -> bool:
        """Return whether everything is committed."""
        try:
            outcome = consumer.commit(asynchronous=False) or []
        except KafkaException:
            return False  # a rebalance or a lost coordinator
        for each in outcome:
            if each.error is None:
                last = self.committed.get(each.partition, 0)
                self.committed[each.partition] = max(last, each.offset)
        return all(each.error is None for each in outcome)


class Reader(Actor):
    """A reader of the topic "side", without a group. It goes to the begin if its place is gone."""

    def __init__(self, world: World) -> None:
        """``got``: partition and number of each message, in any order."""
        super().__init__(world, "reader")
        self.got: set[tuple[int, int]] = set()

    def live(self) -> None:
        """Read from the begin until the end."""
        conf = self.world.conf(
            group_id="side", enable_auto_commit=False, auto_offset_reset="earliest"
        )
        with Consumer(conf) as consumer:
            consumer.assign(
                [TopicPartition("side", each, OFFSET_BEGINNING) for each in range(PARTITIONS)]
            )
            while not self.is_ending.is_set():
                for message in consumer.consume(self.draw.randrange(1, 100), STEP_S):
                    if message.error() is None:
                        partition = message.partition()
                        assert partition is not None
                        self.got.add((partition, self.world.number(message)))


class Copier(Actor):
    """Copies the ledger in transactions."""

    def __init__(self, world: World) -> None:
        """``committed``: how far the ledger is copied."""
        super().__init__(world, "copier")
        self.committed: dict[int, int] = {}
        self._ahead: dict[int, int] = {}  # by the transaction that is open
        self._transactions = 0  # that these clients have committed

    def live(self) -> None:
        """Copy until the end, or until the producer can't go on."""
        reading = self.world.conf(
            group_id="copier", enable_auto_commit=False, isolation_level="read_committed"
        )
        writing = self.world.conf(transactional_id="copier", transaction_timeout_ms=20_000)
        self._ahead, self._transactions = {}, 0
        with (
            Consumer(reading | {"auto.offset.reset": "earliest"}) as consumer,
            Producer(writing) as producer,
        ):
            consumer.subscribe(["ledger"])
            try:
                process(consumer, producer, self._copy, until=self._note, wait=STEP_S, timeout=60)
            except KafkaException:
                time.sleep(RETRY_S)  # go on with new clients

    def _copy(self, message: Message) -> list[dict[str, Any]]:
        self._ahead[message.partition()] = message.offset() + 1
        return [{"topic": "copy", "partition": message.partition(), "value": message.value()}]

    def _note(self, progress: Progress) -> bool:
        if progress.transactions > self._transactions:
            self.committed |= self._ahead
        self._ahead, self._transactions = {}, progress.transactions
        return self.is_ending.is_set() or self.asked.is_set()
