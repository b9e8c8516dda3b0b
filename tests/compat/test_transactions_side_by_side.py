"""The same calls of transactional producers on confluent_kafka and on kafka_native, of one mock
cluster.

`tests/broker/test_transactions_side_by_side.py` makes them on Apache Kafka.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from kafka_native.mock import MockCluster
from tests.compat.sides import BASE_MS, BOTH, Side, Stage, assert_same, next_message, outcomes
from tests.waiting import WAIT_S, wait_for

COMMITTED, ALL = "read_committed", "read_uncommitted"


class Sender:
    """A producer with the topic's name as its transactional id, and what became of its messages, by
    their values.
    """

    def __init__(self, side: Side, **conf: Any) -> None:
        self.side = side
        self.reports: dict[bytes, Any] = {}
        self.numbers = itertools.count()
        self.producer = side.producer(**{"transactional_id": side.topic, **conf})

    def produce(self, value: str | None = None, partition: int = 0) -> None:
        def report(error: Any, message: Any) -> None:
            self.reports[message.value()] = [self.place(message), error]

        given = f"message {next(self.numbers)}" if value is None else value
        self.producer.produce(
            self.side.topic, given, partition=partition, timestamp=BASE_MS, on_delivery=report
        )

    def place(self, message: Any) -> Any:
        """Where a message is, as far as it is the same with both."""
        return message.offset()

    def offsets(self, offset: int = 3) -> Any:
        """Sends an offset of a consumer that is in no group generation."""
        consumer = self.side.consumer()
        try:
            return self.producer.send_offsets_to_transaction(
                [self.side.at(0, offset)], consumer.consumer_group_metadata(), WAIT_S
            )
        finally:
            consumer.close()

    def do(self, steps: str) -> list[Any]:
        """What comes of each of these calls, one after the other."""
        return [self.side.tried(lambda step=step: CALLS[step](self)) for step in steps.split()]

    def all(self, steps: str) -> list[Any]:
        """The same, and at the end what has become of all messages."""
        return [*self.do(steps), self.producer.flush(WAIT_S), dict(self.reports)]


class Waiting(Sender):
    """Its messages wait in the queue until they are flushed, or thrown away there.

    Milliseconds after a message confluent_kafka adds its partition to the transaction, sent or not:
    an abort then marks the partition, and what follows has the offset behind. So on a slow machine
    their offsets differ; and after a purge Apache Kafka takes nothing more of confluent_kafka's
    producer for that partition (OUT_OF_ORDER_SEQUENCE_NUMBER).
    """

    def __init__(self, side: Side) -> None:
        super().__init__(side, linger_ms=20_000, topic_metadata_propagation_max_ms=1000)

    def place(self, message: Any) -> Any:
        return message.offset() is not None

    def settled(self) -> list[Any]:
        """What both kinds of readers get."""
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
    """The values that a reader gets of the topic up to its ends."""
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
    """The offset behind the last message of each partition that a reader may have."""
    consumer = side.consumer(isolation_level=isolation)
    marks = [
        consumer.get_watermark_offsets(side.at(number), timeout=WAIT_S)[1] for number in (0, 1)
    ]
    consumer.close()
    return marks


def settled(side: Side) -> list[Any]:
    """What both kinds of readers get once the coordinator has written all markers: it answers
    before it has.
    """
    wait_for(lambda: end(side, COMMITTED) == end(side, ALL), "the end of every transaction")
    return [values(side, COMMITTED), values(side, ALL)]


def stored(side: Side) -> Any:
    """The group's offsets, not those of an open transaction."""
    consumer = side.consumer(isolation_level=COMMITTED)
    found = consumer.committed([side.at(0)], timeout=WAIT_S)
    consumer.close()
    return found


# --- what readers see ---


def test_what_was_committed_is_seen_and_what_was_aborted_is_not(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        sender = Sender(side)
        told = sender.do("init")
        for number, ending in enumerate(("commit", "abort", "commit", "abort")):
            sender.producer.begin_transaction()
            for place in range(4):
                sender.produce(f"{number} {ending} {place}", partition=place % 2)
            told += sender.all(f"flush {ending}")
        return told, settled(side)

    assert_same(cluster, use)


def test_an_open_transaction_is_seen_by_one_kind_of_reader(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        side.fill()
        sender = Sender(side)
        told = sender.do("init begin produce flush")
        seen = [values(side, COMMITTED), values(side, ALL), end(side, COMMITTED), end(side, ALL)]
        return told, seen, sender.all("commit"), settled(side)

    assert_same(cluster, use)


@pytest.mark.parametrize("steps", ["commit begin abort begin commit", "produce produce commit"])
def test_what_was_not_sent_yet(cluster: Stage, steps: str) -> None:
    def use(side: Side) -> Any:
        return Sender(side, linger_ms=20_000).all(
            f"init begin {steps} begin produce commit"
        ), settled(side)

    assert_same(cluster, use)


@pytest.mark.parametrize("steps", ["produce produce abort", "produce purge abort"])
def test_what_is_thrown_away_unsent(cluster: Stage, steps: str) -> None:
    def use(side: Side) -> Any:
        told = Waiting(side).all(f"init begin {steps}")
        heir = Waiting(side)
        return told, heir.all("init begin produce commit"), heir.settled()

    assert_same(cluster, use)


# --- offsets ---


@pytest.mark.parametrize(
    "steps", ["commit", "abort", "abort begin offsets commit", "commit begin produce abort"]
)
def test_offsets_of_a_transaction(cluster: Stage, steps: str) -> None:
    def use(side: Side) -> Any:
        before = stored(side)
        sender = Waiting(side)
        told = sender.all(f"init begin produce flush offsets {steps}")
        return before, told, stored(side), sender.settled()

    assert_same(cluster, use)


def test_offsets_of_a_member_that_is_gone(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        side.fill()
        consumer = side.consumer()
        consumer.subscribe([side.topic])
        next_message(consumer)
        metadata = consumer.consumer_group_metadata()
        sender = Sender(side)
        told = sender.do("init begin")

        def send() -> Any:
            return sender.producer.send_offsets_to_transaction([side.at(0, 1)], metadata, WAIT_S)

        told += [side.tried(send), *sender.do("commit begin")]
        consumer.close()
        told += [side.tried(send), *sender.all("commit begin offsets abort begin produce commit")]
        return told, stored(side)

    assert_same(cluster, use)


@pytest.mark.parametrize("positions", ["none", "empty", "no offset", "no list", "no partition"])
def test_offsets_that_are_none(cluster: Stage, positions: str) -> None:
    def use(side: Side) -> Any:
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
        said = (
            outcome[0] if isinstance(outcome, tuple) and outcome[0] != "KafkaException" else outcome
        )
        return said, sender.do("commit"), stored(side)

    assert_same(cluster, use)


# --- the order of calls ---


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize("steps", ["begin", "produce", "offsets", "commit", "abort", "purge"])
def test_calls_before_the_first_one(cluster: Stage, steps: str, transactional: bool) -> None:
    def use(side: Side) -> Any:
        sender = Sender(side, **({} if transactional else {"transactional_id": ""}))
        return sender.all(f"{steps} init begin produce commit")

    assert_same(cluster, use)


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
def test_calls_that_cant_be_made_now(cluster: Stage, before: str, steps: str) -> None:
    def use(
        side: Side,
    ) -> Any:  # what is aborted at once is still in the queue, however slow the machine is
        return Sender(side, linger_ms=20_000).all(
            f"{before} {steps} begin produce flush commit"
        ), settled(side)

    assert_same(cluster, use)


@pytest.mark.parametrize("before", ["", "init", "init begin produce flush"])
@pytest.mark.parametrize(
    "call", ["init", "begin", "produce", "offsets", "commit", "abort", "purge", "flush"]
)
def test_calls_of_what_is_closed(cluster: Stage, before: str, call: str) -> None:
    assert_same(cluster, lambda side: Sender(side).do(f"{before} close {call}"))


# --- what goes wrong ---


def refused(name: str, *, fatal: bool = False, abort: bool = False) -> list[Any]:
    """How a call says that it failed for good, or until the transaction is aborted."""
    return ["KafkaException", ["error", name, fatal, False, abort]]


def test_purge_in_a_transaction(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        sender = Waiting(side)
        told = sender.all("init begin produce purge flush")
        commits = sender.do("commit commit")
        return commits, [
            told,
            sender.all("abort"),
            Waiting(side).all("init begin produce commit"),
            sender.settled(),
        ]

    assert_same(cluster, use)


def test_a_message_that_no_partition_takes(cluster: Stage) -> None:
    """What is produced between the failure and the abort is refused."""

    def use(side: Side) -> Any:
        sender = Waiting(side)
        told = sender.do("init begin")
        sender.produce("nowhere", partition=7)
        told += sender.all("flush")
        between = sender.do("commit")
        between += [side.tried(lambda: sender.produce("between")), *sender.do("begin")]
        told += sender.do("abort begin produce flush commit")
        late = sender.reports.pop(b"between", None)
        return [*between, late], [told, sender.all("flush"), sender.settled()]

    assert_same(cluster, use)


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
def test_an_older_producer_is_fenced(cluster: Stage, call: str) -> None:
    def use(side: Side) -> Any:
        old, new = Sender(side), Sender(side)
        told = old.all("init begin produce flush")
        told += new.all("init begin produce flush")
        told += old.do(f"{call} begin commit abort init offsets begin")
        return told, new.all("commit"), settled(side)

    assert_same(cluster, use)


def fenced_by_writing(side: Side, before: str) -> Any:
    """What the older producer is told when it writes and commits, what when it aborts, and the
    rest.
    """
    old, new = Sender(side), Sender(side)
    told = old.do(before)
    told += new.all("init begin produce flush")
    told += old.do("begin write")
    return old.do("commit"), old.do("abort begin init"), [told, new.all("commit"), settled(side)]


BEFORE = ["init", "init begin", "init begin produce flush commit"]


@pytest.mark.parametrize("before", BEFORE)
def test_an_older_producer_is_fenced_when_it_writes(cluster: Stage, before: str) -> None:
    """With KIP-890, as it is here, a leader says so: an error to abort for (Java's does so,
    too).
    """
    theirs, ours = outcomes(cluster, lambda side: fenced_by_writing(side, before))
    assert theirs[0] == [refused("_FENCED", fatal=True)]
    assert ours[0] == [refused("INVALID_PRODUCER_EPOCH", abort=True)]
    assert ours[1] == [refused("_FENCED", fatal=True)] * 3
    assert ours[2] == theirs[2]


@pytest.mark.parametrize("before", BEFORE)
def test_an_older_producer_of_a_mock_cluster_before_kip_890_is_fenced_when_it_writes(
    before: str,
) -> None:
    with MockCluster(brokers=2, transaction_version=1) as old:
        theirs, ours = outcomes(old, lambda side: fenced_by_writing(side, before))
    assert ours[0] == theirs[0] == [refused("_FENCED", fatal=True)]
    assert ours[1] == [refused("_FENCED", fatal=True)] * 3
    assert ours[2] == theirs[2]


@pytest.mark.parametrize("call", ["offsets", "commit", "abort"])
def test_producing_after_a_fatal_error(cluster: Stage, call: str) -> None:
    def use(side: Side) -> Any:
        old, new = Sender(side), Sender(side)
        old.do("init begin produce flush")
        new.do("init")
        found, (kind, error) = old.do(f"{call} write")
        return found, kind, error[1]

    assert_same(cluster, use)


def test_a_timeout_that_the_cluster_doesnt_allow(cluster: Stage) -> None:
    def use(side: Side) -> Any:
        return Sender(side, transaction_timeout_ms=2_000_000_000).do("init init begin commit abort")

    assert_same(cluster, use)
