"""A queue with the messages of one partition, for a thread of its own."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import TYPE_CHECKING

from kafka_native._native.consumer_core import PartitionCore
from kafka_native.cleaning import escaped
from kafka_native.control.positions import Key
from kafka_native.errors import KafkaError, KafkaException

if TYPE_CHECKING:
    from kafka_native.consumer_calls import ConsumerCalls

__all__ = ["PartitionQueue"]


class PartitionQueue(PartitionCore):
    """The messages of one assigned partition; see `Consumer.partition_queue`.

        consumer.assign([TopicPartition("orders", 0)])
        with consumer.partition_queue(TopicPartition("orders", 0)) as queue:
            message = queue.poll(1.0)

    ``poll()``, ``consume()``, iteration and ``wakeup()`` are those of `Consumer`. They run no
    callbacks. One thread at a time uses a queue; several queues may be used at once.

    With ``enable.auto.offset.store`` the last returned messages are stored when the next call
    begins, so a message that your thread still processes isn't committed. `Consumer.seek()`,
    `Consumer.pause()` and `Consumer.resume()` have their effect on the queue.

    If the partition is revoked or unassigned, a waiting call ends. Later calls raise KafkaException
    with _ASSIGNMENT_LOST. `Consumer.close()` closes the queue.
    """

    def __init__(self, consumer: ConsumerCalls, key: Key) -> None:
        """Call `Consumer.partition_queue()` instead."""
        self._consumer, self._key = consumer, key
        self._ref: weakref.ref[PartitionCore] = weakref.ref(self)
        self._open_route(consumer, self._error_of_loss)
        fetches = consumer._control.fetches
        try:
            error = consumer._begin(lambda: fetches.open_route(key, self._ref)).result()
            if error is not None:
                raise KafkaException(error)
        except BaseException:
            self._end()
            raise

    def _error_of_loss(self) -> KafkaException:
        topic, partition = self._key
        text = f"{escaped(topic)} [{partition}] isn't assigned any more: close its queue"
        return KafkaException(KafkaError(KafkaError._ASSIGNMENT_LOST, text))

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._key[0]

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self._key[1]

    def close(self) -> None:
        """Gives the partition back to the consumer. A second call does nothing.

        Fetched messages that the queue hasn't returned come from the consumer's own calls. With
        ``enable.auto.offset.store``, all returned messages count as processed.
        """
        self._mark_closed()
        client = self._consumer._client
        if not client.closed:
            fetches = self._consumer._control.fetches
            try:
                self._consumer._begin(lambda: fetches.close_route(self._key, self._ref)).result()
            except RuntimeError:
                if not client.closed:  # another thread closes the consumer: it ends the queue
                    raise
        self._end()

    def __enter__(self) -> PartitionQueue:
        """The queue itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the queue."""
        self.close()

    def __del__(self) -> None:
        """Gives the partition of a queue that was dropped without close() back to the consumer."""
        consumer = getattr(self, "_consumer", None)
        if consumer is None:
            return
        if consumer._client.closed:
            self._end()
            return
        self._mark_closed()
        fetches, key, ref = consumer._control.fetches, self._key, self._ref

        def give_back() -> None:
            fetches.close_route(key, ref)
            self._end()

        consumer._client.main.post(give_back)

    def __repr__(self) -> str:
        """The queue's partition."""
        return f"<PartitionQueue {escaped(self.topic)} [{self.partition}]>"
