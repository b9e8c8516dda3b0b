"""Exceptions of `SerializingProducer` and `DeserializingConsumer`; the names are confluent_kafka.error's."""

from __future__ import annotations

from typing import Any

from kafka_native._native.message import Message
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.serialization import SerializationError

__all__ = [
    "ConsumeError",
    "KafkaError",
    "KafkaException",
    "KeyDeserializationError",
    "KeySerializationError",
    "ProduceError",
    "SerializationError",
    "ValueDeserializationError",
    "ValueSerializationError",
]


class _KafkaClientError(KafkaException):
    """What failed in a client that converts keys and values.

    :param kafka_error: The error, also ``args[0]``.
    :param exception: What was raised.
    :param kafka_message: The message, as it was received.
    """

    def __init__(
        self,
        kafka_error: KafkaError,
        exception: Exception | None = None,
        kafka_message: Message | None = None,
    ) -> None:
        super().__init__(kafka_error)
        self.exception = exception
        self.kafka_message = kafka_message

    @property
    def code(self) -> int:
        """The error's code."""
        error: KafkaError = self.args[0]
        return error.code()

    @property
    def name(self) -> str:
        """The name of the error's code."""
        error: KafkaError = self.args[0]
        return error.name()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args[0], dict(self.__dict__)))


def _rebuild(
    kind: type[_KafkaClientError], error: KafkaError, fields: dict[str, Any]
) -> _KafkaClientError:
    """Unpickle an error: those of a key or a value don't take the KafkaError that they make."""
    made = kind.__new__(kind, error)
    _KafkaClientError.__init__(made, error)
    made.__dict__.update(fields)
    return made


class ConsumeError(_KafkaClientError):
    """Consuming has failed: `DeserializingConsumer.poll()` raises what `Consumer.poll()` returns as a Message.

    :param kafka_error: The error, also ``args[0]``.
    :param exception: What was raised.
    :param kafka_message: The message, as it was received.
    """


class KeyDeserializationError(ConsumeError, SerializationError):
    """The deserializer of keys has raised ``exception``; ``kafka_message`` has the bytes."""

    def __init__(
        self, exception: Exception | None = None, kafka_message: Message | None = None
    ) -> None:
        """Make one; its code is _KEY_DESERIALIZATION."""
        super().__init__(
            KafkaError(KafkaError._KEY_DESERIALIZATION, str(exception)), exception, kafka_message
        )


class ValueDeserializationError(ConsumeError, SerializationError):
    """The deserializer of values has raised ``exception``; ``kafka_message`` has the bytes."""

    def __init__(
        self, exception: Exception | None = None, kafka_message: Message | None = None
    ) -> None:
        """Make one; its code is _VALUE_DESERIALIZATION."""
        super().__init__(
            KafkaError(KafkaError._VALUE_DESERIALIZATION, str(exception)), exception, kafka_message
        )


class ProduceError(_KafkaClientError):
    """Producing has failed before the message was queued.

    :param kafka_error: The error, also ``args[0]``.
    :param exception: What was raised.
    """

    def __init__(self, kafka_error: KafkaError, exception: Exception | None = None) -> None:
        """Make one; see the class for the arguments."""
        super().__init__(kafka_error, exception)


class KeySerializationError(ProduceError, SerializationError):
    """The serializer of keys has raised ``exception``."""

    def __init__(self, exception: Exception | None = None) -> None:
        """Make one; its code is _KEY_SERIALIZATION."""
        super().__init__(KafkaError(KafkaError._KEY_SERIALIZATION, str(exception)), exception)


class ValueSerializationError(ProduceError, SerializationError):
    """The serializer of values has raised ``exception``."""

    def __init__(self, exception: Exception | None = None) -> None:
        """Make one; its code is _VALUE_SERIALIZATION."""
        super().__init__(KafkaError(KafkaError._VALUE_SERIALIZATION, str(exception)), exception)
