"""eos.process(): input and output are atomic despite any failure, on the mock cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka_native.eos import Progress, process
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, wait_for

from .support import partitions_of

COUNT = 40
SOON = {"retry.backoff.ms": 10, "reconnect.backoff.ms": 10}


class Pipe:
    """An input topic with forty messages, an output topic, and the clients between them."""

    def __init__(self, cluster: MockCluster, name: str, **group: Any) -> None:
        self.cluster = cluster
        self.source, self.target = f"{name}-in", f"{name}-out"
        self.conf = {"bootstrap.servers": cluster.bootstrap_servers, **SOON}
        for topic in (self.source, self.target):
            cluster.create_topic(topic, 2)
        with Producer(self.conf) as filling:
            filling.produce_many(self.source, [str(number) for number in range(COUNT)])
        self.producer = Producer({**self.conf, "transactional.id": name})
        reading = {
            "group.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **group,
        }
        self.consumer = Consumer({**self.conf, **reading})
        self.consumer.subscribe([self.source])
        self.deadline = time.monotonic() + WAIT_S

    def transform(self, message: Message) -> list[dict[str, Any]]:
        return [{"topic": self.target, "value": message.value()}]

    def all_done(self, progress: Progress) -> bool:
        assert time.monotonic() < self.deadline
        return progress.messages >= COUNT

    def run(self, function: Any = None) -> Progress:
        how: dict[str, Any] = {"until": self.all_done, "messages": 7, "wait": 0.1}
        return process(self.consumer, self.producer, function or self.transform, **how)

    def run_with_a_new_producer(self) -> None:
        self.producer.close()
        self.producer = Producer({**self.conf, "transactional.id": "pipe"})
        self.run()

    def seen(self) -> list[int]:
        conf = {**self.conf, "isolation.level": "read_committed", "enable.partition.eof": True}
        with Consumer(conf) as reader:
            reader.assign(partitions_of(self.target, 2, 0))
            found, ends = [], 0
            while ends < 2:
                assert time.monotonic() < self.deadline
                message = reader.poll(0.5)
                if message is not None and message.error() is None:
                    found.append(int(message.value()))
                ends += message is not None and message.error() is not None
        return sorted(found)

    def close(self) -> None:
        self.consumer.close()
        self.producer.close(0)


@pytest.fixture(params=[1, 2])
def pipe(request: pytest.FixtureRequest) -> Iterator[Pipe]:
    with MockCluster(brokers=3, transaction_version=request.param) as cluster:
        made = Pipe(cluster, "pipe")
        yield made
        made.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_expelled_member_commits_nothing_as_a_new_member(protocol: str) -> None:
    with MockCluster(brokers=3) as cluster:
        cluster.set_heartbeat_interval(0.1)
        timing = {} if protocol == "consumer" else {"heartbeat.interval.ms": 100}
        pipe = Pipe(cluster, "expelled", **{"group.protocol": protocol, **timing})
        calls: list[Message] = []

        def function(message: Message) -> list[dict[str, Any]]:
            calls.append(message)
            if len(calls) == 1:
                before = pipe.consumer.consumer_group_metadata()
                cluster.expel_member("expelled", before.member_id)
                wait_for(
                    lambda: pipe.consumer.consumer_group_metadata() != before,
                    "the consumer knows that it was expelled",
                )
                time.sleep(0.5)  # a member must not join again before it polls
                assert pipe.consumer.consumer_group_metadata().generation == -1
            return pipe.transform(message)

        progress = pipe.run(function)
        assert progress.aborted == 1
        offsets = [message.offset() for message in calls]
        assert offsets.count(offsets[0]) >= 2, "the message is processed again"
        assert pipe.seen() == list(range(COUNT))
        pipe.close()


def test_each_message_is_processed_once(pipe: Pipe) -> None:
    progress = pipe.run()
    assert (progress.messages, progress.aborted) == (COUNT, 0)
    assert progress.transactions >= COUNT // 7
    assert pipe.seen() == list(range(COUNT))
    stored = pipe.consumer.committed(
        [TopicPartition(pipe.source, number) for number in range(2)], WAIT_S
    )
    assert sum(max(each.offset, 0) for each in stored) == COUNT


def test_a_refused_transaction_is_repeated(pipe: Pipe) -> None:
    refused = {
        ApiKey.PRODUCE: KafkaError.TOPIC_AUTHORIZATION_FAILED,
        ApiKey.TXN_OFFSET_COMMIT: KafkaError.GROUP_AUTHORIZATION_FAILED,
        ApiKey.END_TXN: KafkaError.COORDINATOR_NOT_AVAILABLE,
    }

    def faulty(message: Message) -> list[dict[str, Any]]:
        if int(message.value()) % 9 == 0 and refused:
            key, code = refused.popitem()
            pipe.cluster.push_request_errors(key, [code])
        return pipe.transform(message)

    progress = pipe.run(faulty)
    assert progress.messages == COUNT
    assert progress.aborted == 2, "the third request is retried"
    assert pipe.seen() == list(range(COUNT))


def test_an_abort_that_fails_is_tried_again(pipe: Pipe) -> None:
    """The producer can begin no transaction before the last one has ended."""
    refused = [ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN]

    def faulty(message: Message) -> list[dict[str, Any]]:
        while refused and int(message.value()) == 9:
            code = KafkaError.GROUP_AUTHORIZATION_FAILED
            pipe.cluster.push_request_errors(refused.pop(), [code, code])
        return pipe.transform(message)

    progress = pipe.run(faulty)
    assert progress.messages == COUNT
    assert pipe.seen() == list(range(COUNT))


def test_an_error_of_the_function_is_raised_and_nothing_is_lost(pipe: Pipe) -> None:
    def broken(message: Message) -> list[dict[str, Any]]:
        if int(message.value()) == 20:
            raise ValueError("twenty")
        return pipe.transform(message)

    with pytest.raises(ValueError, match="twenty"):
        pipe.run(broken)
    done = len(pipe.seen())
    assert done < COUNT
    pipe.producer.close()
    pipe.producer = Producer({**pipe.conf, "transactional.id": "pipe"})
    until = lambda each: pipe.all_done(Progress(each.messages + done))  # noqa: E731
    again = process(pipe.consumer, pipe.producer, pipe.transform, until=until)
    assert again.messages == COUNT - done
    assert pipe.seen() == list(range(COUNT))


def test_messages_beside_an_error_of_the_consumer_are_not_skipped(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    consume = pipe.consumer.consume
    code = KafkaError.TOPIC_AUTHORIZATION_FAILED

    def failing(*how: Any) -> list[Message]:
        received = consume(*how)
        if received:
            monkeypatch.undo()
            received.append(Message(topic=pipe.source, partition=0, error=KafkaError(code)))
        return received

    monkeypatch.setattr(pipe.consumer, "consume", failing)
    with pytest.raises(KafkaException) as caught:
        pipe.run()
    assert caught.value.args[0].code() == code
    pipe.run_with_a_new_producer()
    assert pipe.seen() == list(range(COUNT))


def test_messages_of_a_failed_call_are_not_skipped_by_the_next_one(pipe: Pipe) -> None:
    def broken(_message: Message) -> list[dict[str, Any]]:
        raise KafkaException(KafkaError(KafkaError._FAIL, "the function's own cluster"))

    with pytest.raises(KafkaException, match="own cluster"):
        pipe.run(broken)
    pipe.run_with_a_new_producer()
    assert pipe.seen() == list(range(COUNT))


def test_an_aborted_first_transaction_is_repeated_without_a_committed_offset() -> None:
    with MockCluster(brokers=3) as cluster:
        pipe = Pipe(cluster, "latest", **{"auto.offset.reset": "latest"})
        wait_for(lambda: pipe.consumer.poll(0.1) or pipe.consumer.assignment(), "an assignment")
        assert pipe.consumer.poll(1.0) is None
        with Producer(pipe.conf) as filling:
            filling.produce_many(pipe.source, [str(number) for number in range(COUNT)])
        code = KafkaError.GROUP_AUTHORIZATION_FAILED
        cluster.push_request_errors(ApiKey.TXN_OFFSET_COMMIT, [code])
        assert pipe.run().aborted == 1
        assert pipe.seen() == list(range(COUNT))
        pipe.close()


def test_a_fenced_producer_ends_with_a_fatal_error(pipe: Pipe) -> None:
    def fenced(message: Message) -> list[dict[str, Any]]:
        if int(message.value()) == 5:
            with Producer({**pipe.conf, "transactional.id": "pipe"}) as other:
                other.init_transactions(WAIT_S)
        return pipe.transform(message)

    with pytest.raises(KafkaException) as caught:
        pipe.run(fenced)
    assert caught.value.args[0].fatal()
