"""DeserializingConsumer: a consumer whose messages have objects as keys and values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafka_native._native.message import Message
from kafka_native.config import check_is_mapping
from kafka_native.consumer import CLOSE_S, Consumer
from kafka_native.error import ConsumeError, KeyDeserializationError, ValueDeserializationError
from kafka_native.serialization import (
    CLUSTER_ID_TIMEOUT_S,
    MessageField,
    Serdes,
    SerializationContext,
)
from kafka_native.types import AnyMessage

_KEY, _VALUE = MessageField.KEY, MessageField.VALUE
K = TypeVar("K")
V = TypeVar("V")


class DeserializingConsumer(Consumer, Generic[K, V]):
    """A consumer whose `poll()` and iteration convert keys and values to objects.

    The configuration has these properties besides those of `Consumer`:

    - ``key.deserializer``, ``value.deserializer``: a callable that takes (bytes or None,
      SerializationContext) and returns the object. Without it, messages have bytes.
    - ``key.deserializer.builder``, ``value.deserializer.builder``: a
      `kafka_native.serialization.DeserializerBuilder` instead. Closing the consumer closes its
      deserializer.

    :param conf: The configuration.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Raise KafkaException (_INVALID_ARG) if the configuration is invalid."""
        check_is_mapping(conf)
        self._serdes = Serdes(conf, "deserializer")
        try:
            super().__init__(self._serdes.config)
            self._serdes.set_cluster_id_resolver(partial(self.cluster_id, CLUSTER_ID_TIMEOUT_S))
        except BaseException:
            self._serdes.close()
            raise

    def poll(  # type: ignore[override]  # other types of keys and values
        self, timeout: float | None = -1
    ) -> Message[K, V] | None:
        """Return the next message with its key and value deserialized, or None after the timeout.

        :param timeout: Seconds; a negative number or None waits forever.
        :raises KeyDeserializationError: The key's deserializer raised. ``kafka_message`` is the
            received message. The next call continues after it.
        :raises ValueDeserializationError: The same for the value.
        :raises ConsumeError: `Consumer.poll()` would return a Message with an error.
        """
        message = super().poll(timeout)
        if message is None:
            return None
        error = message.error()
        if error is not None:
            raise ConsumeError(error, kafka_message=message)
        return self._deserialized(message)

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[Message[K, V]]: ...  # type: ignore[override]

    def __next__(self) -> Message[K, V]:  # type: ignore[override]
        """Return the next message, deserialized."""
        return self._deserialized(super().__next__())

    def consume(self, num_messages: int | None = 1, timeout: float | None = -1) -> list[Message]:
        """Not supported, as in confluent_kafka.

        If one of the messages couldn't be deserialized, the call would lose the others.
        """
        raise NotImplementedError("DeserializingConsumer has no consume(): use poll() or iteration")

    def close(self, timeout: float = CLOSE_S) -> None:
        """Close as `Consumer.close()` does, then close the deserializers that builders made."""
        try:
            super().close(timeout=timeout)
        finally:
            self._serdes.close()

    def _deserialized(self, message: AnyMessage) -> Message[K, V]:
        read_key, read_value = self._serdes.key, self._serdes.value
        context = SerializationContext(message.topic() or "", _KEY, message.headers())
        key = value = None
        if read_key is not None:
            try:
                key = read_key(message.key(), context)
            except Exception as error:
                raise KeyDeserializationError(error, message) from error
        if read_value is not None:
            context.field = _VALUE
            try:
                value = read_value(message.value(), context)
            except Exception as error:
                raise ValueDeserializationError(error, message) from error
        # An error has the message as it was received, so both are set at the end.
        if read_key is not None:
            message.set_key(key)
        if read_value is not None:
            message.set_value(value)
        return message
