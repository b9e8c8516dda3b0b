"""DeserializingConsumer: a consumer whose messages have objects as keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from kafka_native._native.message import Message
from kafka_native.consumer import CLOSE_S, Consumer
from kafka_native.error import ConsumeError, KeyDeserializationError, ValueDeserializationError
from kafka_native.serialization import CLUSTER_ID_S, MessageField, Serdes, SerializationContext

K = TypeVar("K")
V = TypeVar("V")


class DeserializingConsumer(Consumer, Generic[K, V]):
    """A consumer that makes objects of keys and values itself: `poll()` and iteration do.

    :param conf: As of `Consumer`; and ``key.deserializer``, ``value.deserializer``: anything that can be called with
        (bytes or None, SerializationContext). Or ``key.deserializer.builder``, ``value.deserializer.builder``: a
        `kafka_native.serialization.DeserializerBuilder` each, whose deserializer is closed with the consumer. Without
        one, bytes stay bytes.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """KafkaException (_INVALID_ARG) names what is wrong with the configuration."""
        self._serdes = Serdes(conf, "deserializer")
        try:
            super().__init__(self._serdes.config)
            self._serdes.tell(partial(self.cluster_id, CLUSTER_ID_S))
        except BaseException:
            self._serdes.close()
            raise

    def poll(self, timeout: float | None = -1) -> Message | None:
        """The next message, its key and value deserialized; None when the time is up.

        :param timeout: Seconds; negative or None waits for ever.
        :raises KeyDeserializationError, ValueDeserializationError: A deserializer has raised; ``kafka_message`` is the
            message as it was received, and the next call goes on behind it.
        :raises ConsumeError: What `Consumer.poll()` returns as a Message with an error.
        """
        message = super().poll(timeout)
        if message is None:
            return None
        error = message.error()
        if error is not None:
            raise ConsumeError(error, kafka_message=message)
        return self._deserialized(message)

    def __next__(self) -> Message:
        """The next message, deserialized."""
        return self._deserialized(super().__next__())

    def consume(self, num_messages: int | None = 1, timeout: float | None = -1) -> list[Message]:
        """Not here, as in confluent_kafka: a message among others that can't be deserialized would end the call."""
        raise NotImplementedError(
            "DeserializingConsumer has poll() and iteration; consume() is Consumer's"
        )

    def close(self, timeout: float = CLOSE_S) -> None:
        """Closes as `Consumer.close()` does, then closes the deserializers that builders have made."""
        try:
            super().close(timeout)
        finally:
            self._serdes.close()

    def _deserialized(self, message: Message) -> Message:
        serdes = self._serdes
        context = SerializationContext(message.topic() or "", MessageField.KEY, message.headers())
        key, value = message.key(), message.value()
        if serdes.key is not None:
            try:
                key = serdes.key(key, context)
            except Exception as error:
                raise KeyDeserializationError(error, message) from error
        context.field = MessageField.VALUE
        if serdes.value is not None:
            try:
                value = serdes.value(value, context)
            except Exception as error:
                raise ValueDeserializationError(error, message) from error
        message.set_key(key)
        message.set_value(value)
        return message
