"""The rebalance listeners of aiokafka and kafka-python, as callbacks of a `Consumer`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import kafka_native
from kafka_native import Consumer
from kafka_native.compat._records import TopicPartition


class ConsumerRebalanceListener(ABC):
    """Is told when the group gives partitions to this consumer, or takes them.

    With aiokafka's consumer the methods may be coroutine functions.
    """

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Is called before the consumer gives partitions back. It can still commit."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """Is called before the consumer reads its new partitions. It can seek."""

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Any:
        """Is called when others may own the partitions already.

        By default, it calls `on_partitions_revoked()`.
        """
        return self.on_partitions_revoked(lost)


Method = Callable[[set[TopicPartition]], Any]
Ours = list[kafka_native.TopicPartition]
Call = Callable[[Method, Ours], Any]


def callbacks_of(
    listener: Any, assigned: Call, taken: Call
) -> tuple[Callable[[Any, Ours], Any] | None, ...]:
    """Return on_assign, on_revoke and on_lost of `Consumer.subscribe()` for a listener or None.

    :param assigned: Assigns new partitions, then calls a method of the listener with them.
    :param taken: Calls a method of the listener with partitions that the group takes.
    :raises TypeError: It is no ConsumerRebalanceListener.
    """
    if listener is None:
        return None, None, None
    if not isinstance(listener, ConsumerRebalanceListener):
        text = f"listener must be a ConsumerRebalanceListener, not {type(listener).__name__}"
        raise TypeError(text)
    return (
        lambda _, partitions: assigned(listener.on_partitions_assigned, partitions),
        lambda _, partitions: taken(listener.on_partitions_revoked, partitions),
        lambda _, partitions: taken(listener.on_partitions_lost, partitions),
    )


def assign(consumer: Consumer, partitions: Ours) -> None:
    """Assign the partitions of a rebalance at once, so that a listener can seek."""
    if consumer.rebalance_protocol() == "COOPERATIVE":
        consumer.incremental_assign(partitions)
    else:
        consumer.assign(partitions)
