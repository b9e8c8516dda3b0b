"""Micro-batches of the Spark sink as transactions on a real Apache Kafka, read by two clients.

Spark's JVM takes no part.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native.spark import exactly_once, producers
from kafka_native.spark.errors import OptionError
from kafka_native.spark.exactly_once import ExactlyOnceError
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker, end_of, their_consumer
from tests.harness.readers import by_theirs, is_committed
from tests.spark.micro_batches import MicroBatch, run, seen
from tests.waiting import wait_for


@pytest.fixture
def topic(kafka: Cluster, new_topic: TopicMaker) -> Iterator[str]:
    """Return a topic of two partitions, without clients of earlier tests."""
    yield new_topic(kafka, 2)
    producers.close_idle()
    exactly_once.close_idle()


def sink_options(kafka: Cluster, topic: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "kafka.transactional.id": topic,
        "topic": topic,
        **more,
    }


def both(kafka: Cluster, topic: str) -> dict[int, list[str]]:
    """Return the values that our committed reader and confluent_kafka's see."""
    ours = seen(kafka.bootstrap, topic, 2)
    theirs: dict[int, list[str]] = {}
    for (partition, _), value in sorted(by_theirs(kafka, topic, 2, 0).items()):
        theirs.setdefault(partition, []).append(value)
    assert ours == theirs
    return ours


def test_micro_batches_are_seen_whole_and_once(kafka: Cluster, topic: str) -> None:
    options = sink_options(kafka, topic)
    batch = MicroBatch(options, 0)
    batch.task(0, {0: ["a"]})
    batch.task(1, {1: ["b"]})
    assert both(kafka, topic) == {}
    batch.commit()
    run(options, 1, {0: ["c"], 1: ["d"]})
    run(options, 1, {0: ["again"], 1: ["again"]})
    run(options, 2, {0: ["e"]})
    assert both(kafka, topic) == {0: ["a", "c", "e"], 1: ["b", "d"]}
    assert not is_committed(
        kafka, topic, 2, topic
    )  # the group's offset marks the batch, it is no position in the topic


def test_a_dead_batch_is_aborted_and_fenced(kafka: Cluster, topic: str) -> None:
    options = sink_options(kafka, topic)
    dead = MicroBatch(options, 0)
    dead.task(0, {0: ["lost"]})
    again = MicroBatch(options, 0)
    with pytest.raises(ExactlyOnceError, match="was started after this one"):
        dead.task(1, {1: ["late"]})
    again.task(0, {0: ["a"]})
    with pytest.raises(ExactlyOnceError, match="its transaction is over"):
        dead.commit()
    dead.abort()
    with pytest.raises(ExactlyOnceError, match="task 0 was run again"):
        again.task(0, {0: ["a"]}, attempt=1)
    again.abort()
    run(options, 0, {0: ["b"], 1: ["c"]})
    assert both(kafka, topic) == {0: ["b"], 1: ["c"]}


@pytest.mark.slow
def test_transaction_that_takes_too_long_is_refused_then_repeated(
    kafka: Cluster, topic: str
) -> None:
    options = sink_options(kafka, topic, **{"kafka.transaction.timeout.ms": "5000"})
    batch = MicroBatch(options, 0)
    batch.task(0, {0: ["lost"]})
    reader = their_consumer(kafka)
    wait_for(lambda: end_of(reader, topic, 0) == 2, "the abort's marker", 120)
    reader.close()
    with pytest.raises(
        ExactlyOnceError, match=r"longer than kafka.transaction.timeout.ms \(5000 ms\)"
    ):
        batch.commit()
    run(options, 0, {0: ["a"]})
    assert both(kafka, topic) == {0: ["a"]}
    with pytest.raises(OptionError, match=r"option kafka.transaction.timeout.ms: 900001"):
        MicroBatch(sink_options(kafka, topic, **{"kafka.transaction.timeout.ms": "900001"}), 0)
