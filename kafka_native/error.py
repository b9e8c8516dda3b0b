"""The exceptions of `SerializingProducer` and `DeserializingConsumer`.

Their names are those of ``confluent_kafka.error``.
"""

from __future__ import annotations

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
    """The base class of the errors of clients that convert keys and values.

    :param kafka_error: The error, also ``args[0]``.
    :param exception: The exception that the serializer or deserializer raised.
    :param kafka_message: The message as the client received it.
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
        """The code of the error."""
        error: KafkaError = self.args[0]
        return error.code()

    @property
    def name(self) -> str:
        """The name of the error's code."""
        error: KafkaError = self.args[0]
        return error.name()

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.args[0], dict(self.__dict__)))


def _rebuild(
    kind: type[_KafkaClientError], error: KafkaError, fields: dict[str, object]
) -> _KafkaClientError:
    """Unpickle an error. The constructors of key and value errors take no KafkaError."""
    made = kind.__new__(kind, error)
    _KafkaClientError.__init__(made, error)
    made.__dict__.update(fields)
    return made


class ConsumeError(_KafkaClientError):
    """The broker or a deserializer reported an error.

    `DeserializingConsumer.poll()` raises it where `Consumer.poll()` returns a Message with an
    error.

    :param kafka_error: The error, also ``args[0]``.
    :param exception: The exception that the deserializer raised.
    :param kafka_message: The message as the client received it.
    """


class KeyDeserializationError(ConsumeError, SerializationError):
    """The deserializer of the key raised ``exception``. ``kafka_message`` has the bytes."""

    def __init__(
        self, exception: Exception | None = None, kafka_message: Message | None = None
    ) -> None:
        """Make an error with the code ``_KEY_DESERIALIZATION``."""
        super().__init__(
            KafkaError(KafkaError._KEY_DESERIALIZATION, str(exception)), exception, kafka_message
        )


class ValueDeserializationError(ConsumeError, SerializationError):
    """The deserializer of the value raised ``exception``. ``kafka_message`` has the bytes."""

    def __init__(
        self, exception: Exception | None = None, kafka_message: Message | None = None
    ) -> None:
        """Make an error with the code ``_VALUE_DESERIALIZATION``."""
        super().__init__(
            KafkaError(KafkaError._VALUE_DESERIALIZATION, str(exception)), exception, kafka_message
        )


class ProduceError(_KafkaClientError):
    """The producer failed before it queued the message.

    :param kafka_error: The error, also ``args[0]``.
    :param exception: The exception that the serializer raised.
    """

    def __init__(self, kafka_error: KafkaError, exception: Exception | None = None) -> None:
        super().__init__(kafka_error, exception)


class KeySerializationError(ProduceError, SerializationError):
    """The serializer of the key raised ``exception``."""

    def __init__(self, exception: Exception | None = None) -> None:
        """Make an error with the code ``_KEY_SERIALIZATION``."""
        super().__init__(KafkaError(KafkaError._KEY_SERIALIZATION, str(exception)), exception)


class ValueSerializationError(ProduceError, SerializationError):
    """The serializer of the value raised ``exception``."""

    def __init__(self, exception: Exception | None = None) -> None:
        """Make an error with the code ``_VALUE_SERIALIZATION``."""
        super().__init__(KafkaError(KafkaError._VALUE_SERIALIZATION, str(exception)), exception)
