"""The parts of the clients that the Spark package needs beyond their public methods.

It is an interface inside this project: programs use the public classes. Each function names the
client that it works on, and works with `Consumer` and `Producer` as they are.

- A task of Spark reports a refused login at once: `await_admission`.
- A source recognizes a recreated topic by its id: `topic_id`, `listed_topic_id`.
- The mirror copies record batches without opening them: `keep_batches` and `take_batches` at the
  consumer, `open_relay` at the producer.
- A replay keeps timestamps, also those of 0: it names their column with `ExactTimestamps`.
"""

from __future__ import annotations

from kafka_native._native.arrow_producer import ExactTimestamps
from kafka_native._native.relay import FetchedBatches, Relay, take_batches
from kafka_native.consumer import Consumer
from kafka_native.producer import CLOSED_TEXT, PARTITIONS_WAIT_S, Producer, begin_partitions_of
from kafka_native.types import TopicMetadata

__all__ = [
    "ExactTimestamps",
    "FetchedBatches",
    "Relay",
    "await_admission",
    "keep_batches",
    "listed_topic_id",
    "open_relay",
    "take_batches",
    "topic_id",
]


def await_admission(client: Consumer | Producer, timeout_s: float) -> None:
    """Wait until a broker accepts a new client or all are down, ``timeout_s`` at most.

    :raises KafkaException: All are down because TLS or SASL has failed (_SSL, _AUTHENTICATION).
    """
    client._client.await_admission(timeout_s)


def topic_id(client: Consumer | Producer, topic: str) -> str:
    """A topic's id, as the client knows it now; empty: unknown. It sends no request."""
    return client._client.topic_id(topic)


def listed_topic_id(topic: TopicMetadata) -> str:
    """The id of a topic that ``list_topics()`` has returned; empty if brokers send no ids."""
    return topic._id


def keep_batches(consumer: Consumer) -> None:
    """Let a consumer keep record batches as they were fetched, for `take_batches`.

    Call it before the assignment. The consumer then returns no messages.
    """
    consumer._keep_batches()


def open_relay(producer: Producer, topic: str, partition: int) -> Relay:
    """Open a relay: it sends batches of `take_batches` to a partition. Close it at the end.

    :raises KafkaException: The topic's partitions can't be found. A batch can be sent whole only if
        they are known.
    """
    client = producer._client
    client.check_open(CLOSED_TEXT)
    relay = Relay(producer, topic, partition)
    try:
        begin_partitions_of(client, PARTITIONS_WAIT_S, topic, hint=None).result()
    except BaseException:
        relay.close()
        raise
    return relay
