"""DeserializingShareConsumer: a share consumer whose messages have objects as keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafka_native.config import check_is_mapping
from kafka_native.errors import KafkaError
from kafka_native.serialization import MessageField, Serdes, SerializationContext
from kafka_native.share_consumer import CLOSE_S, ShareConsumer
from kafka_native.types import AnyMessage

if TYPE_CHECKING:
    from kafka_native.types import ConvertedMessages


class DeserializingShareConsumer(ShareConsumer):
    """A share consumer that converts keys and values to objects.

    :param conf: The configuration of a `ShareConsumer`, with ``key.deserializer`` and
        ``value.deserializer``: a callable that takes (bytes or None, SerializationContext) and
        returns the object. Without it, messages have bytes.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Raise KafkaException (_INVALID_ARG) if the configuration is invalid."""
        check_is_mapping(conf)
        self._serdes = Serdes(conf, "deserializer")
        try:
            super().__init__(self._serdes.config)
        except BaseException:
            self._serdes.close()
            raise

    def poll(self, timeout: float = -1) -> ConvertedMessages[Any, Any]:
        """Acquire records as `ShareConsumer.poll()` does, with deserialized keys and values.

        If a deserializer raises, the returned message has its bytes and an `Message.error()` with
        the code ``_KEY_DESERIALIZATION`` or ``_VALUE_DESERIALIZATION``. You still have to
        acknowledge it, for instance reject it.

        :param timeout: Seconds; a negative number waits forever.
        """
        messages: Any = super().poll(timeout)
        try:
            for message in messages:
                if message.error() is None:
                    self._deserialize(message)
        except BaseException:  # Ctrl+C
            self._release(messages)
            raise
        return messages  # type: ignore[no-any-return]

    if TYPE_CHECKING:

        def __next__(self) -> AnyMessage: ...

    def close(self, timeout: float = CLOSE_S) -> None:
        """Close as `ShareConsumer.close()` does, then close deserializers that builders made."""
        try:
            super().close(timeout=timeout)
        finally:
            self._serdes.close()

    def _deserialize(self, message: AnyMessage) -> None:
        serdes = self._serdes
        context = SerializationContext(message.topic() or "", MessageField.KEY, message.headers())
        key, value = message.key(), message.value()
        code = KafkaError._KEY_DESERIALIZATION
        try:
            if serdes.key is not None:
                key = serdes.key(key, context)
            code, context.field = KafkaError._VALUE_DESERIALIZATION, MessageField.VALUE
            if serdes.value is not None:
                value = serdes.value(value, context)
        except Exception as error:
            message.set_error(KafkaError(code, str(error)))
            return
        message.set_key(key)
        message.set_value(value)
