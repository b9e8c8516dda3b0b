"""ShareConsumer as confluent_kafka has it: its checks, and its exceptions and their texts."""

from __future__ import annotations

from typing import Any, NoReturn

from kafka_native import share_consumer as native
from kafka_native._native.message import ConfluentMessage, Message
from kafka_native.client_core import ClientCore, own_client
from kafka_native.config import Config
from kafka_native.errors import IllegalStateException, KafkaError, KafkaException
from kafka_native.share_consumer import CLOSE_S, CLOSED_TEXT
from kafka_native.types import AcknowledgeType, Messages

from ._clients import ClosedClient, await_token, configuration

_STATE_TEXT = KafkaError(KafkaError._STATE).str()
_INVALID_ARG_TEXT = KafkaError(KafkaError._INVALID_ARG).str()
_INT_MAX, _OFFSET_MAX = 2**31 - 1, 2**63 - 1


class ShareConsumer(native.ShareConsumer):
    """A `kafka_native.ShareConsumer` that behaves like confluent_kafka's."""

    _client = ClosedClient(CLOSED_TEXT, IllegalStateException)
    _acknowledge_types = frozenset({1, 2, 3})  # no RENEW there
    _eager = True
    _message_type = ConfluentMessage

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take a configuration as a dict, keywords, or both.

        :raises ValueError: librdkafka refuses the configuration as a whole, for instance a file.
        """
        if any(isinstance(each, dict) and "on_commit" in each for each in (*args[:1], kwargs)):
            raise ValueError("on_commit is not supported on ShareConsumer")
        conf = configuration(args, kwargs, "consumer")
        if conf.get("share.acknowledgement.mode") != "explicit":
            conf.pop("share.acknowledgement.mode", None)  # any other text means implicit
        super().__init__(conf)
        await_token(self, conf)

    def _make_client(self, settings: Config, everything: dict[str, Any]) -> ClientCore:
        try:
            return super()._make_client(settings, everything)
        except KafkaException as error:
            cause = error.args[0]
            if cause.code() != KafkaError._INVALID_ARG:
                raise
            text = f"Failed to create share consumer: {cause.str()}"
            raise ValueError(text) from error

    def subscribe(self, topics: list[str]) -> None:
        """Join the group and take records of these topics; ``^`` has no meaning in a name."""
        with self._access():
            if not all(topics) or len(set(topics)) < len(topics):
                raise ValueError(f"Failed to subscribe: {_INVALID_ARG_TEXT}")
            self._subscribe(sorted(topics))

    def acknowledge(
        self, message: Message, ack_type: AcknowledgeType = AcknowledgeType.ACCEPT
    ) -> None:
        """Set the outcome of a record. See `kafka_native.ShareConsumer.acknowledge()`."""
        try:
            super().acknowledge(message, ack_type)
        except (IllegalStateException, ValueError) as error:
            _raise_as_there(error)

    def acknowledge_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        ack_type: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Set the outcome of a record. See `kafka_native.ShareConsumer.acknowledge_offset()`."""
        try:
            super().acknowledge_offset(topic, partition, offset, ack_type)
        except (IllegalStateException, ValueError) as error:
            _check_sizes(topic, partition, offset)
            _raise_as_there(error)

    def poll(self, timeout: float = -1) -> Messages:
        """Acquire records. See `kafka_native.ShareConsumer.poll()`.

        :raises KafkaException: _MAX_POLL_EXCEEDED, once after each time.
        """
        return super().poll(timeout)

    def _take(self) -> list[Message]:
        notices = self._client.engine.notices
        for notice in list(notices):
            error = notice[3]
            if error.code() == KafkaError._MAX_POLL_EXCEEDED:
                notices.remove(notice)
                raise KafkaException(KafkaError(error.code(), error.str(), retriable=True))
            if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                notices.remove(notice)
        return super()._take()

    def close(self, timeout: float = CLOSE_S) -> None:
        """Commit acknowledged records, release the others and leave the group."""
        if own_client(self) is not None:
            super().close(timeout)


def _check_sizes(topic: str, partition: int, offset: int) -> None:
    """Refuse what doesn't fit into C's types, as the original does."""
    if "\0" in topic:
        raise ValueError("embedded null character")
    if not -_INT_MAX - 1 <= partition <= _INT_MAX:
        sign = "greater than maximum" if partition > 0 else "less than minimum"
        raise OverflowError(f"signed integer is {sign}")
    if not -_OFFSET_MAX - 1 <= offset <= _OFFSET_MAX:
        raise OverflowError("int too big to convert")


def _raise_as_there(error: IllegalStateException | ValueError) -> NoReturn:
    """Raise the same exception with librdkafka's text of the state or of the argument."""
    beginning, colon, _ = str(error).partition(": ")
    if not colon:
        raise error
    text = _STATE_TEXT if isinstance(error, IllegalStateException) else _INVALID_ARG_TEXT
    raise type(error)(f"{beginning}: {text}") from error
