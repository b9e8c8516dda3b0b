"""A freed Message is reused: the new one contains nothing of the old one, and nothing leaks."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator

import pytest

from kafka_native import Consumer, Message, TopicPartition
from kafka_native._native.message import live_messages

from .support import Client, assigned, fill

KEPT_FOR_REUSE = 10_240  # kafka_native/_native/message.pyx
COUNT = 2 * KEPT_FOR_REUSE + 500


@pytest.fixture
def topic(client: Client) -> str:
    name = client.topic()
    fill(client, name, COUNT, partition=0)
    return name


@pytest.fixture
def consumer(client: Client, topic: str) -> Iterator[Consumer]:
    with assigned(client, topic) as consumer:
        yield consumer


def read_again(consumer: Consumer, topic: str, count: int = COUNT) -> list[Message]:
    consumer.seek(TopicPartition(topic, 0, 0))
    messages: list[Message] = []
    while len(messages) < count:
        messages += consumer.consume(count - len(messages), 20.0)
    return messages


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="a free-threaded Python keeps no Messages for reuse",
)
def test_more_messages_than_are_kept_for_reuse(consumer: Consumer, topic: str) -> None:
    values = [message.value() for message in read_again(consumer, topic)]
    assert len(set(values)) == COUNT
    blocks = []
    alive = live_messages()
    for _ in range(6):
        messages = read_again(consumer, topic)
        assert [message.offset() for message in messages] == list(range(COUNT))
        assert [message.value() for message in messages] == values
        del messages
        blocks.append(sys.getallocatedblocks())
        assert live_messages() <= alive
    assert max(blocks[3:]) - blocks[2] < COUNT // 10


def test_a_reused_message_has_nothing_that_was_set_before(consumer: Consumer, topic: str) -> None:
    mark = object()
    counted = sys.getrefcount(mark)
    messages = read_again(consumer, topic)
    for message in messages:
        message.set_value(mark)
        message.set_key(mark)
        message.set_headers(mark)
        message.set_topic("another")
    assert (messages[0].value(), messages[-1].topic()) == (mark, "another")
    del messages, message
    assert sys.getrefcount(mark) == counted
    for message in read_again(consumer, topic):
        found = (message.topic(), message.key(), message.headers(), message.error())
        assert found == (topic, None, None, None)
        assert isinstance(message.value(), bytes)


def test_messages_outlive_their_lists_and_their_consumer(client: Client, topic: str) -> None:
    with assigned(client, topic) as consumer:
        every_hundredth = read_again(consumer, topic)[::100]
    assert [message.offset() for message in every_hundredth] == list(range(0, COUNT, 100))
    assert len({message.value() for message in every_hundredth}) == len(every_hundredth)


def test_own_message_of_the_application_after_many_fetched_ones(
    consumer: Consumer, topic: str
) -> None:
    read_again(consumer, topic)
    message = Message("mine", 3, 7, b"k", b"v")
    assert (message.topic(), message.partition(), message.offset()) == ("mine", 3, 7)
    assert (message.key(), message.value()) == (b"k", b"v")
    message.__init__("other", value=b"w")  # type: ignore[misc]
    assert (message.topic(), message.key(), message.value()) == ("other", None, b"w")
