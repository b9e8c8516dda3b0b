"""Producer and consumers with objects as keys and values."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafka_native._native.delivery import Delivery
from kafka_native._native.message import Message
from kafka_native.aio._consumer import AIOConsumer
from kafka_native.aio._producer import AIOProducer
from kafka_native.aio._share_consumer import AIOShareConsumer
from kafka_native.consumer import CLOSE_S
from kafka_native.error import (
    ConsumeError,
    KeyDeserializationError,
    KeySerializationError,
    ValueDeserializationError,
    ValueSerializationError,
)
from kafka_native.errors import ConcurrentModificationException, KafkaError
from kafka_native.producer import CLOSED_TEXT
from kafka_native.serialization import (
    CLUSTER_ID_TIMEOUT_S,
    HeadersType,
    MessageField,
    SerdeConfig,
    SerializationContext,
    methods_of,
)
from kafka_native.types import AnyMessage, Messages

if TYPE_CHECKING:
    from kafka_native.types import ConvertedMessages

K = TypeVar("K")
V = TypeVar("V")


async def _awaited(result: Any) -> Any:
    """Await the result of a serializer or builder, if it can be awaited."""
    return await result if inspect.isawaitable(result) else result


class _AsyncSerdes:
    """The serializers or deserializers of a client, and the rest of its configuration."""

    def __init__(self, wanted: SerdeConfig, owned: list[object]) -> None:
        self.config, self.key, self.value = wanted.left, wanted.key, wanted.value
        self._owned = owned

    @classmethod
    async def of(cls, conf: Mapping[str, Any], kind: str) -> _AsyncSerdes:
        """Take the objects out of a configuration, and await their builders."""
        wanted = SerdeConfig(conf, kind)
        owned: list[object] = []
        try:
            for is_key, builder in wanted.builders:
                built = await _awaited(builder.build(dict(wanted.config), is_key))
                owned.append(wanted.accept(is_key, built))
        except BaseException:
            await cls(wanted, owned).close()
            raise
        return cls(wanted, owned)

    def set_cluster_id_resolver(self, cluster_id: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        """Pass a resolver to the objects that can await it."""
        resolver = _ClusterIdResolver(cluster_id)
        for each in methods_of(self.key, self.value, name="set_async_cluster_id_resolver"):
            each(resolver)

    async def close(self) -> None:
        """Close the objects that builders made. Only the first call has an effect.

        An exception doesn't prevent the other close; the first exception is raised at the end.
        """
        owned, self._owned = self._owned, []
        raised: BaseException | None = None
        for each in owned:
            for close in methods_of(each, name="aclose") or methods_of(each, name="close"):
                try:
                    await _awaited(close())
                except BaseException as error:
                    raised = raised or error
        if raised is not None:
            raise raised


class _ClusterIdResolver:
    """Awaits the cluster's id. Calls at the same time share one request."""

    def __init__(self, cluster_id: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._cluster_id = cluster_id
        self._request: asyncio.Task[Any] | None = None

    async def __call__(self) -> Any:
        if self._request is None:
            request = self._cluster_id(timeout=CLUSTER_ID_TIMEOUT_S)
            self._request = asyncio.get_running_loop().create_task(request)
            self._request.add_done_callback(self._forget)
        return await asyncio.shield(self._request)

    def _forget(self, _: asyncio.Task[Any]) -> None:
        self._request = None


async def _initialized(client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    await client.__init__(*args, **kwargs)
    return client


class AsyncSerializingProducer(AIOProducer, Generic[K, V]):
    """An `AIOProducer` that converts keys and values to bytes. Await it to create it.

        config = {"bootstrap.servers": "localhost:9092", "value.serializer": StringSerializer()}
        async with await AsyncSerializingProducer(config) as producer:
            delivery = await producer.produce("greetings", value="hello")

    The configuration has the properties of `kafka_native.SerializingProducer`. The serializers, and
    ``build()`` of builders, may be coroutine functions. Other serializers run in the event loop.
    Closing the producer closes serializers that builders made, with ``aclose()`` or ``close()``.

    :param conf: The configuration.
    :param kwargs: The other arguments of `AIOProducer`.
    :raises ValueError: The configuration has both a serializer and a builder of it.
    """

    _serdes: _AsyncSerdes

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a coroutine that creates the producer."""
        return _initialized(super().__new__(cls), args, kwargs)

    async def __init__(self, conf: Mapping[str, Any], **kwargs: Any) -> None:  # type: ignore[misc]
        """Build the serializers, then create the producer."""
        self._serdes = serdes = await _AsyncSerdes.of(conf, "serializer")
        try:
            super().__init__(serdes.config, **kwargs)
            serdes.set_cluster_id_resolver(self.cluster_id)
        except BaseException:
            await serdes.close()
            raise

    async def produce(  # type: ignore[override]  # the key comes before the value
        self,
        topic: str,
        key: K | None = None,
        value: V | None = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: HeadersType | None = None,
    ) -> Delivery:
        """Serialize the key, then the value, and queue the message. See `AIOProducer.produce()`.

        :raises KeySerializationError: The key's serializer raised. The message isn't queued.
        :raises ValueSerializationError: The same for the value.
        """
        if self._closing is not None:
            raise RuntimeError(CLOSED_TEXT)
        self._core._client.check_open(CLOSED_TEXT)
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {type(topic).__name__}")
        serdes = self._serdes
        context = SerializationContext(topic, MessageField.KEY, headers)
        key_bytes: Any = key
        value_bytes: Any = value
        if serdes.key is not None:
            try:
                key_bytes = await _awaited(serdes.key(key, context))
            except Exception as error:
                raise KeySerializationError(error) from error
        context.field = MessageField.VALUE
        if serdes.value is not None:
            try:
                value_bytes = await _awaited(serdes.value(value, context))
            except Exception as error:
                raise ValueSerializationError(error) from error
        given: dict[str, Any] = {"partition": partition, "timestamp": timestamp, "headers": headers}
        defaults = {"partition": -1, "timestamp": 0, "headers": None}
        others = {name: each for name, each in given.items() if each != defaults[name]}
        return await super().produce(topic, value_bytes, key_bytes, **others)

    async def close(self, timeout: float = -1) -> None:
        """Close as `AIOProducer.close()` does, then close the serializers that builders made."""
        try:
            if self._closing is None or not self._closing.done():
                await super().close(timeout)
        finally:
            await self._serdes.close()


class AsyncDeserializingConsumer(AIOConsumer, Generic[K, V]):
    """An `AIOConsumer` that converts keys and values to objects. Await it to create it.

        consumer = await AsyncDeserializingConsumer(config)

    The configuration has the properties of `kafka_native.DeserializingConsumer`. The deserializers,
    and ``build()`` of builders, may be coroutine functions. Other deserializers run in the event
    loop. Closing the consumer closes deserializers that builders made.

    :param conf: The configuration.
    :param kwargs: The other arguments of `AIOConsumer`.
    :raises ValueError: The configuration has both a deserializer and a builder of it.
    """

    _serdes: _AsyncSerdes

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a coroutine that creates the consumer."""
        return _initialized(super().__new__(cls), args, kwargs)

    async def __init__(self, conf: Mapping[str, Any], **kwargs: Any) -> None:  # type: ignore[misc]
        """Build the deserializers, then create the consumer."""
        self._serdes = serdes = await _AsyncSerdes.of(conf, "deserializer")
        try:
            super().__init__(serdes.config, **kwargs)
            serdes.set_cluster_id_resolver(self.cluster_id)
        except BaseException:
            await serdes.close()
            raise

    async def poll(  # type: ignore[override]  # other types of keys and values
        self, timeout: float | None = -1
    ) -> Message[K, V] | None:
        """Return the next message with its key and value deserialized, or None after the timeout.

        :param timeout: Seconds; a negative number or None waits forever.
        :raises KeyDeserializationError: The key's deserializer raised. ``kafka_message`` is the
            received message. The next call continues after it.
        :raises ValueDeserializationError: The same for the value.
        :raises ConsumeError: `AIOConsumer.poll()` would return a Message with an error.
        """
        message = await super().poll(timeout)
        if message is None:
            return None
        error = message.error()
        if error is not None:
            raise ConsumeError(error, kafka_message=message)
        return (await self._deserialized([message]))[0]

    async def consume(  # type: ignore[override]
        self, num_messages: int | None = 1, timeout: float | None = -1
    ) -> list[Message[K, V]]:
        """Return several messages, deserialized; those with an `Message.error()` as they are.

        :raises KeyDeserializationError: The key's deserializer raised. The other messages of the
            call are lost.
        :raises ValueDeserializationError: The same for the value.
        """
        return await self._deserialized(await super().consume(num_messages, timeout))

    async def __anext__(self) -> Message[K, V]:  # type: ignore[override]
        """Wait for the next message, and return it deserialized."""
        return (await self._deserialized([await super().__anext__()]))[0]

    async def close(self, timeout: float = CLOSE_S) -> None:
        """Close as `AIOConsumer.close()` does, then close the deserializers that builders made."""
        try:
            if not self._core._client.closed:
                await super().close(timeout=timeout)
        finally:
            await self._serdes.close()

    async def _deserialized(self, messages: list[AnyMessage]) -> list[Message[K, V]]:
        """Deserialize the messages of a call. If the call is cancelled, the next one gets them."""
        try:
            with self._noted(messages.copy):
                for message in messages:
                    if message.error() is None:
                        await self._deserialize(message)
        except Exception:
            raise
        except BaseException:
            self._return(messages)
            raise
        return messages

    def _return(self, messages: list[AnyMessage]) -> None:
        """Give back messages that the application hasn't got."""
        self._source.fill([], 0)  # for close() after an exception: the last call returned nothing
        given = [each for each in messages if each.error() is not None or self._is_past(each)]
        if given:
            self._take_back(given)

    def _is_past(self, message: AnyMessage) -> bool:
        """Whether the consumer's position is after a message, so that the message is due no more.

        It isn't if the application has called seek(), or if another cancelled call has given back
        earlier messages: giving back this one would skip those.
        """
        key = (message.topic() or "", message.partition() or 0)
        assigned = self._core._control.fetches.assigned.get(key)
        return assigned is not None and assigned.position > (message.offset() or 0)

    async def _deserialize(self, message: AnyMessage) -> None:
        serdes = self._serdes
        context = SerializationContext(message.topic() or "", MessageField.KEY, message.headers())
        key, value = message.key(), message.value()
        if serdes.key is not None:
            try:
                key = await _awaited(serdes.key(key, context))
            except Exception as error:
                raise KeyDeserializationError(error, message) from error
        context.field = MessageField.VALUE
        if serdes.value is not None:
            try:
                value = await _awaited(serdes.value(value, context))
            except Exception as error:
                raise ValueDeserializationError(error, message) from error
        message.set_key(key)
        message.set_value(value)


class AIODeserializingShareConsumer(AIOShareConsumer, Generic[K, V]):
    """An `AIOShareConsumer` that converts keys and values to objects. Await it to create it.

        consumer = await AIODeserializingShareConsumer(config)

    The configuration has the properties of `kafka_native.DeserializingShareConsumer`. The
    deserializers, and ``build()`` of builders, may be coroutine functions. Other deserializers run
    in the event loop. Closing the consumer closes deserializers that builders made.

    :param conf: The configuration.
    :raises ValueError: The configuration has both a deserializer and a builder of it.
    """

    _serdes: _AsyncSerdes

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a coroutine that creates the consumer."""
        return _initialized(super().__new__(cls), args, kwargs)

    async def __init__(self, conf: Mapping[str, Any]) -> None:  # type: ignore[misc]
        """Build the deserializers, then create the consumer."""
        self._converted = 0  # how many messages of `_core._unreturned` are deserialized
        self._is_converting = False
        self._serdes = serdes = await _AsyncSerdes.of(conf, "deserializer")
        try:
            super().__init__(serdes.config)
        except BaseException:
            await serdes.close()
            raise

    async def poll(self, timeout: float = -1) -> ConvertedMessages[K, V]:
        """Acquire records as `AIOShareConsumer.poll()` does, with deserialized keys and values.

        If a deserializer raises, the returned message has its bytes and an `Message.error()` with
        the code ``_KEY_DESERIALIZATION`` or ``_VALUE_DESERIALIZATION``. You still have to
        acknowledge it, for instance reject it. If the call is cancelled while a deserializer is
        awaited, the next call returns its messages. Until then no call accepts them.

        :param timeout: Seconds; a negative number waits forever.
        """
        self._check()
        if self._is_converting:
            raise ConcurrentModificationException("another task polls this share consumer")
        core = self._core
        self._is_converting = True
        try:
            if core._unreturned is None:
                core._unreturned, self._converted = await super().poll(timeout), 0
            messages: Any = core._unreturned
            while self._converted < len(messages):
                message = messages[self._converted]
                if message.error() is None:
                    await self._deserialize(message)
                if core._unreturned is None or self._closing is not None:
                    # unsubscribe() or close() releases the records
                    return Messages()  # type: ignore[return-value]
                self._converted += 1
            core._unreturned = None
            return messages  # type: ignore[no-any-return]
        finally:
            self._is_converting = False

    async def close(self, timeout: float = CLOSE_S) -> None:
        """Close as `AIOShareConsumer.close()` does, then close the deserializers of builders."""
        try:
            await super().close(timeout)
        finally:
            await self._serdes.close()

    async def _deserialize(self, message: AnyMessage) -> None:
        serdes = self._serdes
        context = SerializationContext(message.topic() or "", MessageField.KEY, message.headers())
        key, value = message.key(), message.value()
        code = KafkaError._KEY_DESERIALIZATION
        try:
            if serdes.key is not None:
                key = await _awaited(serdes.key(key, context))
            code, context.field = KafkaError._VALUE_DESERIALIZATION, MessageField.VALUE
            if serdes.value is not None:
                value = await _awaited(serdes.value(value, context))
        except Exception as error:
            message.set_error(KafkaError(code, str(error)))
            return
        message.set_key(key)
        message.set_value(value)
