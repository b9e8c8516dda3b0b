"""Checks of what a consumer's calls are given, before anything is asked of the control thread."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_native._native.message import Message
from kafka_native._native.primitives import exact_text
from kafka_native.control.consumer.consumer_control import ConsumerControl
from kafka_native.control.positions import Key
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.types import TopicPartition


def checked(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The list, after making sure that it is one of TopicPartitions with numbers that can be."""
    if isinstance(partitions, (str, TopicPartition)):
        raise TypeError("a list of TopicPartition is expected")
    wanted = list(partitions)
    for each in wanted:
        if not isinstance(each, TopicPartition):
            raise TypeError(f"a TopicPartition is expected, not {type(each).__name__}")
        if each.partition < 0:
            raise ValueError(f"{each.topic}: a partition's number is 0 or more, not {each.partition}")
    return wanted


def keys_of(partitions: Iterable[TopicPartition]) -> list[Key]:
    """Topics and numbers of a checked list."""
    return [(each.topic, each.partition) for each in checked(partitions)]


def position_of(partition: TopicPartition) -> tuple[str, int, int, int | None]:
    """Topic, number, offset and leader epoch, as the control thread takes them."""
    return partition.topic, partition.partition, partition.offset, partition.leader_epoch


def topic_names(topics: Iterable[str]) -> list[str]:
    """The topics of a subscription, checked."""
    if isinstance(topics, str) or not all(isinstance(each, str) for each in topics):
        raise TypeError("expected list of topic unicode strings")
    names = [exact_text(each) for each in topics]
    if not names or not all(names):
        text = "Failed to set subscription: names of topics are expected; unsubscribe() ends a subscription"
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
    return names


def given_offsets(message: Message | None, offsets: list[TopicPartition] | None) -> list[TopicPartition] | None:
    """The offsets that commit() and store_offsets() are to take, checked; None: none are given."""
    if message is not None and offsets is not None:
        raise ValueError("message and offsets are mutually exclusive")
    if offsets is not None:
        return checked(offsets)
    if message is None:
        return None
    if not isinstance(message, Message):
        raise TypeError(f"expected a Message, not {type(message).__name__}")
    error = message.error()
    if error is not None:
        text = f"Cannot commit offsets for message with error: '{error.str()}'"
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("the message has no topic, partition or offset")
    return [TopicPartition(topic, partition, offset + 1, None, message.leader_epoch())]


def change_refusal(control: ConsumerControl, inside: bool, incremental: bool) -> KafkaError | None:
    """Control thread: why the assignment can't be changed so, if it can't. ``inside``: in a rebalance callback."""
    if not control.subscription.wanted:
        return None
    if not inside:
        text = (
            "the group assigns what is subscribed to: unsubscribe() before assigning partitions by hand, "
            "or do it in the callbacks of subscribe()"
        )
        return KafkaError(KafkaError._STATE, text)
    protocol = control.membership.assignor_protocol
    if protocol == "NONE" or incremental == (protocol == "COOPERATIVE"):
        return None
    means = "incremental_assign() and incremental_unassign()" if not incremental else "assign() and unassign()"
    return KafkaError(
        KafkaError._STATE, f"Changes to the current assignment must be made using {means}: the group is {protocol}"
    )
