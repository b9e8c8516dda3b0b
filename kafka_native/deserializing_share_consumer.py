"""DeserializingShareConsumer: a share consumer whose messages have objects as keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_native._native.message import Message
from kafka_native.errors import KafkaError
from kafka_native.serialization import MessageField, Serdes, SerializationContext
from kafka_native.share_consumer import CLOSE_S, ShareConsumer
from kafka_native.types import Messages


class DeserializingShareConsumer(ShareConsumer):
    """A share consumer that makes objects of keys and values itself.

    :param conf: As of `ShareConsumer`; and ``key.deserializer``, ``value.deserializer``: anything that can be called
        with (bytes or None, SerializationContext). Without one, bytes stay bytes.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """KafkaException (_INVALID_ARG) names what is wrong with the configuration."""
        self._serdes = Serdes(conf, "deserializer")
        try:
            super().__init__(self._serdes.config)
        except BaseException:
            self._serdes.close()
            raise

    def poll(self, timeout: float = -1) -> Messages:
        """Acquires records as `ShareConsumer.poll()` does, their keys and values deserialized.

        A message that can't be deserialized is among the others, with its bytes, and with an `Message.error()` of the
        code _KEY_DESERIALIZATION or _VALUE_DESERIALIZATION: it is still to be acknowledged, rejected for instance.

        :param timeout: Seconds; negative waits for ever.
        """
        messages = super().poll(timeout)
        for message in messages:
            if message.error() is None:
                self._deserialize(message)
        return messages

    def close(self, timeout: float = CLOSE_S) -> None:
        """Closes as `ShareConsumer.close()` does, then closes the deserializers that builders have made."""
        try:
            super().close(timeout)
        finally:
            self._serdes.close()

    def _deserialize(self, message: Message) -> None:
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
