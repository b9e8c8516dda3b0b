"""Mistakes that a run must find."""

from __future__ import annotations

from collections.abc import Callable

import actors

from kafka_native import Consumer, Producer, ThrottleEvent, TopicPartition


def no_offsets() -> None:
    """The copier's transactions leave out the offsets: it copies messages again."""
    Producer.send_offsets_to_transaction = lambda *arguments: None  # type: ignore[assignment]


def commits_ahead() -> None:
    """Members commit one message that they haven't got."""

    def commit(self: actors.Member, consumer: Consumer) -> bool:
        ahead = [
            TopicPartition(each.topic, each.partition, each.offset + 1)
            for each in consumer.position(consumer.assignment())
            if each.offset >= 0
        ]
        consumer.commit(offsets=ahead, asynchronous=True)
        return True

    actors.Member._commit = commit  # type: ignore[method-assign]


def waits_less() -> None:
    """Clients report throttle times that are five seconds longer than their waits."""
    begin = ThrottleEvent.__init__

    def longer(self: ThrottleEvent, name: str, broker: int, seconds: float) -> None:
        begin(self, name, broker, seconds + 5)

    ThrottleEvent.__init__ = longer  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    "no_offsets": no_offsets,
    "commits_ahead": commits_ahead,
    "waits_less": waits_less,
}


def plant(name: str) -> None:
    """Make the mistake of this name. An empty name is none."""
    if name:
        BUGS[name]()
