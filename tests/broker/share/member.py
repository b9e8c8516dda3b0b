"""One member of a share group as a process. The number of a record decides its acknowledgement.

    python -m tests.broker.share.member < settings, then "leave"

It logs each delivery before it acknowledges the record, and then the broker's answer.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_native import (
    AcknowledgeType,
    IllegalStateException,
    KafkaError,
    KafkaException,
    Message,
    ShareConsumer,
    TopicPartition,
)
from tests.broker import payload
from tests.harness import client_faults
from tests.harness.processes import say

POLL_S = 0.5
CALL_S = 30.0
SLOW_EVERY = 2000
"""One record in so many takes longer than its lock, so its member renews the lock."""
RENEWALS = 3
RENEW_SHARE = 0.4
"""The time between renewals, as a share of the lock's duration."""
WORK_MAX_S = 0.3
"""The longest time that a member works on the records of a poll."""
DONE, REFUSED, UNSURE, UNREPORTED, GONE = "done", "refused", "unsure", "unreported", "gone"
"""The answers: success; the broker's refusal; an error after which the broker may have taken it; no
outcome in the call's result; the client had given the record up before.
"""


@dataclass
class Settings:
    conf: dict[str, Any]
    topic: str
    lock_s: float
    bug: str = ""


class Record(NamedTuple):
    """A delivered record."""

    partition: int
    offset: int
    deliveries: int
    number: int
    message: Message


def decide(number: int, deliveries: int) -> AcknowledgeType:
    """Return the outcome of a record."""
    if number % 20 == 0:
        return AcknowledgeType.REJECT
    is_released = number % 10 == 7 and deliveries == 1
    return AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT


def is_slow(number: int) -> bool:
    return number % SLOW_EVERY == 5


class Member:
    """Works on records until it gets the command to leave."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.leaving = threading.Event()
        self._consumer: ShareConsumer | None = None

    def is_refused(self) -> bool:
        """Use the consumer in a forked child. Return whether it refuses that."""
        try:
            if self._consumer is not None:
                self._consumer.poll(0)
        except RuntimeError:
            return True
        return self._consumer is None

    def run(self) -> None:
        """Return after the command to leave."""
        while not self.leaving.is_set():
            try:
                self._consume()
            except MemoryError:  # the fault "files": new clients get no descriptor
                say("notice", name="MemoryError")
                self.leaving.wait(POLL_S)
        say("closed")

    def _consume(self) -> None:
        with ShareConsumer(self._settings.conf) as consumer:
            self._consumer = consumer
            consumer.subscribe([self._settings.topic])
            while not self.leaving.is_set():
                self._work(consumer)

    def _work(self, consumer: ShareConsumer) -> None:
        """Take records, process and acknowledge them."""
        records = []
        for message in consumer.poll(POLL_S):
            error = message.error()
            if error is None:
                records.append(self._record(message))
            else:
                say("notice", name=error.name())
        is_hasty = self._settings.bug == "hasty"
        if not is_hasty:
            self._process(records)
        time.sleep(random.uniform(0, WORK_MAX_S) if records else 0)
        slow = [each for each in records if is_slow(each.number)]
        self._acknowledge(consumer, [each for each in records if not is_slow(each.number)])
        if slow:
            self._renew(consumer, slow)
            self._acknowledge(consumer, slow)
        if is_hasty:
            time.sleep(WORK_MAX_S)
            self._process(records)

    def _record(self, message: Message) -> Record:
        partition, offset = message.partition() or 0, message.offset() or 0
        number = payload.number_of(message.value(), self._settings.topic, partition)
        return Record(partition, offset, message.delivery_count() or 0, number, message)

    def _process(self, records: Sequence[Record]) -> None:
        if records:
            say("got", at=time.monotonic(), r=[each[:4] for each in records])

    def _renew(self, consumer: ShareConsumer, slow: Sequence[Record]) -> None:
        """Keep records for longer than their lock lasts."""
        for _ in range(RENEWALS):
            self._acknowledge(consumer, slow, AcknowledgeType.RENEW)
            time.sleep(RENEW_SHARE * self._settings.lock_s)

    def _acknowledge(
        self,
        consumer: ShareConsumer,
        records: Sequence[Record],
        fixed: AcknowledgeType | None = None,
    ) -> None:
        """Acknowledge records, and log the answers. ``fixed``: in place of each one's decision."""
        answers: dict[tuple[str, AcknowledgeType], list[Record]] = defaultdict(list)
        sent = []
        for each in records:
            kind = decide(each.number, each.deliveries) if fixed is None else fixed
            try:
                consumer.acknowledge(each.message, kind)
                sent.append((each, kind))
            except IllegalStateException:
                answers[GONE, kind].append(each)
        results = consumer.commit_sync(CALL_S) if sent else {}
        for each, kind in sent:
            answers[self._answer(results, each.partition), kind].append(each)
        at = time.monotonic()
        for (answer, kind), found in answers.items():
            say(answer, at=at, kind=kind.name, r=[each[:3] for each in found])

    def _answer(self, results: dict[TopicPartition, KafkaException | None], partition: int) -> str:
        """Return what the results say of a partition."""
        where = TopicPartition(self._settings.topic, partition)
        if where not in results:
            return UNREPORTED
        error = results[where]
        if error is None or self._settings.bug == "deaf":
            return DONE
        return REFUSED if error.args[0].code() == KafkaError.INVALID_RECORD_STATE else UNSURE


def main() -> None:
    member = Member(Settings(**json.loads(sys.stdin.readline())))
    client_faults.listen(member.leaving, member.is_refused)
    try:
        member.run()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # the listener still reads


if __name__ == "__main__":
    main()
