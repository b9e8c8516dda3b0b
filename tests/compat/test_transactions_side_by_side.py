"""The same calls of transactional producers on confluent_kafka and kafka_native, on a mock cluster.

`tests/broker/test_transactions_side_by_side.py` makes them on Apache Kafka.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native import KafkaError
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.compat.sides import (
    BASE_MS,
    BOTH,
    Side,
    Stage,
    assert_same,
    next_message,
    on_both,
    outcomes,
)
from tests.waiting import WAIT_S, wait_for

COMMITTED, ALL = "read_committed", "read_uncommitted"


class Sender:
    """A producer whose transactional id is the topic's name, and its delivery reports by value."""

    def __init__(self, side: Side, **conf: Any) -> None:
        self.side = side
        self.reports: dict[bytes, Any] = {}
        self.numbers = itertools.count()
        self.producer = side.producer(**{"transactional_id": side.topic, **conf})

    def produce(self, value: str | None = None, partition: int = 0) -> None:
        def report(error: Any, message: Any) -> None:
            self.reports[message.value()] = [self.position(message), error]

        given = f"message {next(self.numbers)}" if value is None else value
        self.producer.produce(
            self.side.topic, given, partition=partition, timestamp=BASE_MS, on_delivery=report
        )

    def position(self, message: Any) -> Any:
        """Return the part of a message's position that is the same in both libraries."""
        return message.offset()

    def offsets(self, offset: int = 3) -> Any:
        """Send an offset of a consumer outside of a group generation."""
        consumer = self.side.consumer()
        try:
            return self.producer.send_offsets_to_transaction(
                [self.side.at(0, offset)], consumer.consumer_group_metadata(), WAIT_S
            )
        finally:
            consumer.close()

    def do(self, steps: str) -> list[Any]:
        """Make these calls in turn, and return their outcomes."""
        return [self.side.tried(lambda step=step: CALLS[step](self)) for step in steps.split()]

    def all(self, steps: str) -> list[Any]:
        """Make these calls and a flush, and return their outcomes and all delivery reports."""
        return [*self.do(steps), self.producer.flush(WAIT_S), dict(self.reports)]


class QueuedSender(Sender):
    """A sender whose messages stay in the queue until a flush or a purge.

    confluent_kafka adds the partition to the transaction milliseconds after a message is produced,
    even if it isn't sent. An abort then writes a marker, so the offsets of both libraries differ on
    a slow machine. After a purge Apache Kafka refuses further messages of confluent_kafka's producer
    for that partition (OUT_OF_ORDER_SEQUENCE_NUMBER).
    """

    def __init__(self, side: Side) -> None:
        super().__init__(side, linger_ms=20_000, topic_metadata_propagation_max_ms=1000)

    def position(self, message: Any) -> Any:
        return message.offset() is not None

    def settled(self) -> list[Any]:
        """Return the messages of both isolation levels, without offsets."""
        return [
            [(partition, found) for partition, _, found in reader] for reader in settled(self.side)
        ]


CALLS: dict[str, Callable[[Sender], Any]] = {
    "init": lambda it: it.producer.init_transactions(WAIT_S),
    "begin": lambda it: it.producer.begin_transaction(),
    "produce": lambda it: it.produce(),
    "write": lambda it: it.producer.produce(
        it.side.topic, "without a report", partition=0, timestamp=BASE_MS
    ),
    "flush": lambda it: it.producer.flush(WAIT_S),
    "offsets": lambda it: it.offsets(),
    "purge": lambda it: it.producer.purge(),
    "commit": lambda it: it.producer.commit_transaction(WAIT_S),
    "abort": lambda it: it.producer.abort_transaction(WAIT_S),
    "close": lambda it: it.producer.close(),
}


def values(side: Side, isolation: str) -> list[Any]:
    """Return the values of the topic up to its ends."""
    consumer = side.consumer(isolation_level=isolation, enable_partition_eof=True)
    consumer.assign([side.at(0, 0), side.at(1, 0)])
    found: list[Any] = []
    ends = 0
    while ends < 2:
        message = next_message(consumer)
        ends += message.error() is not None
        found.append((message.partition(), message.offset(), message.error() or message.value()))
    consumer.close()
    return sorted(found, key=lambda each: each[:2])


def end(side: Side, isolation: str) -> list[int]:
    """Return the end offset of each partition for an isolation level."""
    consumer = side.consumer(isolation_level=isolation)
    marks = [
        consumer.get_watermark_offsets(side.at(number), timeout=WAIT_S)[1] for number in (0, 1)
    ]
    consumer.close()
    return marks


def settled(side: Side) -> list[Any]:
    """Return the messages of both isolation levels, after all markers are written."""
    wait_for(lambda: end(side, COMMITTED) == end(side, ALL), "the end of every transaction")
    return [values(side, COMMITTED), values(side, ALL)]


def stored(side: Side) -> Any:
    """Return the group's offsets without those of an open transaction."""
    consumer = side.consumer(isolation_level=COMMITTED)
    found = consumer.committed([side.at(0)], timeout=WAIT_S)
    consumer.close()
    return found


# --- isolation levels ---


@on_both
def test_committed_messages_are_seen_and_aborted_ones_are_not(side: Side) -> Any:
    sender = Sender(side)
    results = sender.do("init")
    for number, ending in enumerate(("commit", "abort", "commit", "abort")):
        sender.producer.begin_transaction()
        for position in range(4):
            sender.produce(f"{number} {ending} {position}", partition=position % 2)
        results += sender.all(f"flush {ending}")
    return results, settled(side)


@on_both
def test_an_open_transaction_is_seen_by_read_uncommitted_only(side: Side) -> Any:
    side.fill()
    sender = Sender(side)
    results = sender.do("init begin produce flush")
    seen = [values(side, COMMITTED), values(side, ALL), end(side, COMMITTED), end(side, ALL)]
    return results, seen, sender.all("commit"), settled(side)


@pytest.mark.parametrize("steps", ["commit begin abort begin commit", "produce produce commit"])
@on_both
def test_messages_that_were_not_sent_yet(side: Side, steps: str) -> Any:
    return Sender(side, linger_ms=20_000).all(f"init begin {steps} begin produce commit"), settled(
        side
    )


@pytest.mark.parametrize("steps", ["produce produce abort", "produce purge abort"])
@on_both
def test_unsent_messages_that_are_dropped(side: Side, steps: str) -> Any:
    results = QueuedSender(side).all(f"init begin {steps}")
    successor = QueuedSender(side)
    return results, successor.all("init begin produce commit"), successor.settled()


# --- offsets ---


@pytest.mark.parametrize(
    "steps", ["commit", "abort", "abort begin offsets commit", "commit begin produce abort"]
)
@on_both
def test_offsets_of_a_transaction(side: Side, steps: str) -> Any:
    before = stored(side)
    sender = QueuedSender(side)
    results = sender.all(f"init begin produce flush offsets {steps}")
    return before, results, stored(side), sender.settled()


@on_both
def test_offsets_of_a_member_that_is_gone(side: Side) -> Any:
    side.fill()
    consumer = side.consumer()
    consumer.subscribe([side.topic])
    next_message(consumer)
    metadata = consumer.consumer_group_metadata()
    sender = Sender(side)
    results = sender.do("init begin")

    def send() -> Any:
        return sender.producer.send_offsets_to_transaction([side.at(0, 1)], metadata, WAIT_S)

    results += [side.tried(send), *sender.do("commit begin")]
    consumer.close()
    results += [side.tried(send), *sender.all("commit begin offsets abort begin produce commit")]
    return results, stored(side)


@pytest.mark.parametrize("positions", ["none", "empty", "no offset", "no list", "no partition"])
@on_both
def test_wrong_offsets(side: Side, positions: str) -> Any:
    given = {
        "none": None,
        "empty": [],
        "no offset": [side.at(0)],
        "no list": "x",
        "no partition": ["x"],
    }[positions]
    sender = Sender(side)
    consumer = side.consumer()
    metadata = consumer.consumer_group_metadata()
    sender.do("init begin")
    outcome = side.tried(
        lambda: sender.producer.send_offsets_to_transaction(given, metadata, WAIT_S)
    )
    consumer.close()
    result = (
        outcome[0] if isinstance(outcome, tuple) and outcome[0] != "KafkaException" else outcome
    )
    return result, sender.do("commit"), stored(side)


# --- the order of calls ---


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("steps", ["begin", "produce", "offsets", "commit", "abort", "purge"])
@on_both
def test_calls_before_init(side: Side, steps: str, transactional: bool) -> Any:
    sender = Sender(side, **({} if transactional else {"transactional_id": ""}))
    return sender.all(f"{steps} init begin produce commit")


@pytest.mark.parametrize("before", ["init", "init begin produce flush"])
@pytest.mark.parametrize(
    "steps",
    [
        "commit commit",
        "abort abort",
        "offsets abort",
        "produce abort",
        "begin begin",
        "begin init",
        "commit abort",
        "abort commit",
        "commit produce",
        "abort produce",
        "commit offsets",
    ],
)
@on_both
def test_calls_in_a_wrong_state(side: Side, before: str, steps: str) -> Any:
    sender = Sender(side, linger_ms=20_000)  # aborted messages are still in the queue
    return sender.all(f"{before} {steps} begin produce flush commit"), settled(side)


@pytest.mark.parametrize("before", ["", "init", "init begin produce flush"])
@pytest.mark.parametrize(
    "call", ["init", "begin", "produce", "offsets", "commit", "abort", "purge", "flush"]
)
@on_both
def test_calls_after_close(side: Side, before: str, call: str) -> Any:
    return Sender(side).do(f"{before} close {call}")


# --- failures ---


def refused(name: str, *, fatal: bool = False, abort: bool = False) -> list[Any]:
    """Return the outcome of a call that fails with a fatal or abortable error."""
    return ["KafkaException", ["error", name, fatal, False, abort]]


def test_purge_in_a_transaction(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        sender = QueuedSender(side)
        results = sender.all("init begin produce purge flush")
        commits = sender.do("commit commit")
        return commits, [
            results,
            sender.all("abort"),
            QueuedSender(side).all("init begin produce commit"),
            sender.settled(),
        ]

    assert_same(cluster, use)


def test_a_message_for_a_missing_partition(cluster: Stage) -> None:
    """Messages between the failure and the abort are refused."""

    def use(side: Side) -> Any:
        sender = QueuedSender(side)
        results = sender.do("init begin")
        sender.produce("nowhere", partition=7)
        results += sender.all("flush")
        between = sender.do("commit")
        between += [side.tried(lambda: sender.produce("between")), *sender.do("begin")]
        results += sender.do("abort begin produce flush commit")
        late = sender.reports.pop(b"between", None)
        return [*between, late], [results, sender.all("flush"), sender.settled()]

    assert_same(cluster, use)


@pytest.mark.parametrize("code", [0, KafkaError.INVALID_RECORD, KafkaError.MSG_SIZE_TOO_LARGE])
def test_producing_after_a_failed_message(code: int) -> None:
    """After an error of the broker (not 0), no more messages are accepted."""
    seen = []
    for lib in BOTH:
        with MockCluster(brokers=1) as cluster:
            conf = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"}
            producer = lib.Producer({**conf, "log_level": 0})
            producer.init_transactions(WAIT_S)
            producer.begin_transaction()
            if code:
                cluster.push_request_errors(ApiKey.PRODUCE, [code])
            producer.produce("t" if code else "a b", b"x")
            producer.flush(WAIT_S)
            time.sleep(0.3)  # kafka_native's control thread handles the error after the report
            reports: list[Any] = []
            outcomes: list[Any] = []
            for call in (
                lambda: producer.produce("t", b"x", on_delivery=lambda *it: reports.append(it[0])),  # noqa: B023
                lambda: producer.flush(WAIT_S),  # noqa: B023
                lambda: producer.commit_transaction(WAIT_S),  # noqa: B023
                lambda: producer.abort_transaction(WAIT_S),  # noqa: B023
            ):
                try:
                    outcomes.append(call())
                except lib.KafkaException as error:
                    cause = error.args[0]
                    outcomes.append([cause.name(), cause.retriable(), cause.txn_requires_abort()])
            seen.append((outcomes, reports))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("call", ["begin", "commit", "abort"])
def test_other_call_during_a_timed_out_init(call: str) -> None:
    seen = []
    for lib in BOTH:
        conf = {"bootstrap.servers": "127.0.0.1:1", "transactional.id": "x", "log_level": 0}
        producer = lib.Producer(conf)
        errors = []
        for each in ("init_transactions", f"{call}_transaction"):
            with pytest.raises(lib.KafkaException) as caught:
                getattr(producer, each)(*([] if each.startswith("begin") else [0.1]))
            error = caught.value.args[0]
            errors.append((error.name(), error.retriable(), error.txn_requires_abort()))
        seen.append(errors)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("call", ["offsets", "commit", "abort"])
@on_both
def test_an_older_producer_is_fenced(side: Side, call: str) -> Any:
    old, new = Sender(side), Sender(side)
    results = old.all("init begin produce flush")
    results += new.all("init begin produce flush")
    results += old.do(f"{call} begin commit abort init offsets begin")
    return results, new.all("commit"), settled(side)


def fenced_by_writing(side: Side, before: str) -> Any:
    """Return the outcomes of the old producer's commit, of its later calls, and all others."""
    old, new = Sender(side), Sender(side)
    results = old.do(before)
    results += new.all("init begin produce flush")
    results += old.do("begin write")
    return old.do("commit"), old.do("abort begin init"), [results, new.all("commit"), settled(side)]


BEFORE = ["init", "init begin", "init begin produce flush commit"]


@pytest.mark.parametrize("before", BEFORE)
def test_an_older_producer_is_fenced_when_it_writes(cluster: Stage, before: str) -> None:
    """With KIP-890 the leader fences the producer: our error is abortable, as Java's is."""
    theirs, ours = outcomes(cluster, lambda side: fenced_by_writing(side, before))
    assert theirs[0] == [refused("_FENCED", fatal=True)]
    assert ours[0] == [refused("INVALID_PRODUCER_EPOCH", abort=True)]
    assert ours[1] == [refused("_FENCED", fatal=True)] * 3
    assert ours[2] == theirs[2]


@pytest.mark.parametrize("before", BEFORE)
def test_an_older_producer_is_fenced_when_it_writes_without_kip_890(before: str) -> None:
    with MockCluster(brokers=2, transaction_version=1) as old:
        theirs, ours = outcomes(old, lambda side: fenced_by_writing(side, before))
    assert ours[0] == theirs[0] == [refused("_FENCED", fatal=True)]
    assert ours[1] == [refused("_FENCED", fatal=True)] * 3
    assert ours[2] == theirs[2]


@pytest.mark.parametrize("call", ["offsets", "commit", "abort"])
@on_both
def test_producing_after_a_fatal_error(side: Side, call: str) -> Any:
    old, new = Sender(side), Sender(side)
    old.do("init begin produce flush")
    new.do("init")
    found, (kind, error) = old.do(f"{call} write")
    return found, kind, error[1]


@on_both
def test_a_timeout_that_the_cluster_doesnt_allow(side: Side) -> Any:
    return Sender(side, transaction_timeout_ms=2_000_000_000).do("init init begin commit abort")
