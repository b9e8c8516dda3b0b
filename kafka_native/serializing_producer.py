"""SerializingProducer: a producer that takes objects as keys and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from kafka_native._native.message import Message
from kafka_native.config import check_is_mapping
from kafka_native.error import KeySerializationError, ValueSerializationError
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.producer import CLOSED_TEXT, Producer
from kafka_native.serialization import (
    CLUSTER_ID_TIMEOUT_S,
    HeadersType,
    MessageField,
    Serdes,
    SerializationContext,
)

K = TypeVar("K")
V = TypeVar("V")


class SerializingProducer(Producer, Generic[K, V]):
    """A producer that converts keys and values to bytes.

        config = {"bootstrap.servers": "localhost:9092", "key.serializer": StringSerializer()}
        producer = SerializingProducer(config)

    The configuration has these properties besides those of `Producer`:

    - ``key.serializer``, ``value.serializer``: a callable that takes (object, SerializationContext)
      and returns bytes or None. Without it, the producer takes bytes and str as `Producer` does.
    - ``key.serializer.builder``, ``value.serializer.builder``: a
      `kafka_native.serialization.SerializerBuilder` instead. Closing the producer closes its
      serializer.

    Only `produce()` serializes. `produce_many()`, `produce_batch()` and `produce_arrow()` take
    bytes. Interceptors need bytes, so only `Producer` supports them.

    :param conf: The configuration.
    """

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Raise KafkaException (_INVALID_ARG) if the configuration is invalid."""
        check_is_mapping(conf)
        if conf.get("interceptors") is not None:
            text = (
                "SerializingProducer doesn't support `interceptors`: serialize first, then use "
                "Producer"
            )
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
        self._serdes = Serdes(conf, "serializer")
        try:
            super().__init__(self._serdes.config)
            self._serdes.set_cluster_id_resolver(partial(self.cluster_id, CLUSTER_ID_TIMEOUT_S))
        except BaseException:
            self._serdes.close()
            raise

    def produce(  # type: ignore[override]  # the key comes before the value, as in confluent_kafka
        self,
        topic: str,
        key: K | None = None,
        value: V | None = None,
        partition: int = -1,
        on_delivery: Callable[[KafkaError | None, Message], object] | None = None,
        timestamp: int = 0,
        headers: HeadersType | None = None,
    ) -> None:
        """Serialize the key, then the value, and queue the message. See `Producer.produce()`.

        :raises KeySerializationError: The key's serializer raised. The message isn't queued.
        :raises ValueSerializationError: The same for the value.
        """
        self._client.check_open(CLOSED_TEXT)
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {type(topic).__name__}")
        serdes = self._serdes
        context = SerializationContext(topic, MessageField.KEY, headers)
        key_bytes: Any = key
        value_bytes: Any = value
        if serdes.key is not None:
            try:
                key_bytes = serdes.key(key, context)
            except Exception as error:
                raise KeySerializationError(error) from error
        context.field = MessageField.VALUE
        if serdes.value is not None:
            try:
                value_bytes = serdes.value(value, context)
            except Exception as error:
                raise ValueSerializationError(error) from error
        super().produce(
            topic,
            value_bytes,
            key_bytes,
            partition=partition,
            on_delivery=on_delivery,
            timestamp=timestamp,
            headers=headers,
        )

    def close(self, timeout: float = -1) -> bool:
        """Close as `Producer.close()` does, then close the serializers that builders made."""
        try:
            return super().close(timeout)
        finally:
            self._serdes.close()
