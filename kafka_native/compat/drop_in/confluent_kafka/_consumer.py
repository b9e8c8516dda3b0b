"""The Consumer of `cimpl`, as far as it isn't kafka_native's own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NoReturn

from kafka_native import consumer
from kafka_native._native.consumer_core import ConfluentConsumerCore
from kafka_native._native.message import ConfluentMessage, Message
from kafka_native._native.methods import implemented_by
from kafka_native.client_core import HANDLE_CLOSED_TEXT, ClientCore
from kafka_native.consumer_calls import change_refusal
from kafka_native.control.consumer.consumer_control import Behaviour
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.pending_call import PendingCall
from kafka_native.types import OFFSET_INVALID, TopicPartition

from ._clients import ClosedClient, await_token, configuration


class Consumer(consumer.Consumer, ConfluentConsumerCore):
    """A `kafka_native.Consumer` that behaves like confluent_kafka's."""

    _client = ClosedClient("Consumer closed")
    _eager = True
    _message_type = ConfluentMessage
    _behaviour = Behaviour(
        unsubscribe_calls_back=False,
        eof_when_empty=True,
        commits_any_partition=True,
        reports_missing_topics=False,
        reports_unmatched_patterns=True,
        has_unknown_partitions=False,
        no_partition=0,
        fatal_flag=False,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take a configuration as a dict, keywords, or both."""
        conf = configuration(args, kwargs, "consumer")
        super().__init__(conf)
        await_token(self, conf)

    @implemented_by(ConfluentConsumerCore.poll)
    def poll(self, timeout: float = -1) -> Message | None:  # type: ignore[override]
        """Return the next message, or None; see `kafka_native.Consumer.poll`."""

    def memberid(self) -> str | None:
        """Return the member id; with KIP-848 it is known from the first heartbeat on."""
        self._check_open()
        member = self._control.member
        known = member.joined or member.protocol == "consumer"
        return member.member_id or None if known else None

    def unsubscribe(self) -> None:
        """Leave the group; the next `poll()` runs ``on_revoke``."""
        self._check_not_fatal()
        super().unsubscribe()

    def _check_usable(self) -> None:
        """Check only that the consumer is open: after a fatal error most calls go on."""
        self._check_open()

    def _check_not_fatal(self) -> None:
        super()._check_usable()

    def consumer_group_metadata(self) -> bytes:  # type: ignore[override]
        """Return the member's identity for ``send_offsets_to_transaction()``."""
        return super().consumer_group_metadata().to_bytes()

    # --- the contents of arguments ---

    def _listed(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Accept any partition number; unknown ones fail later. `parses` has checked the types."""
        self._check_open()
        return list(partitions)

    def _given_offsets(
        self, message: Message | None, offsets: list[TopicPartition] | None
    ) -> list[TopicPartition] | None:
        self._check_open()
        if offsets is not None and message is None:
            return [
                TopicPartition("", each.partition, each.offset) if each.topic is None else each
                for each in offsets
            ]
        if not isinstance(message, Message) or message.error() is not None:
            return super()._given_offsets(message, offsets)
        if offsets is not None:
            raise ValueError("message and offsets are mutually exclusive")
        topic, number, offset = message.topic(), message.partition(), message.offset()
        after = OFFSET_INVALID if offset is None else offset + 1
        return [
            TopicPartition(
                topic or "", -1 if number is None else number, after, None, message.leader_epoch()
            )
        ]

    def _begin_subscribe(self, topics: list[str], *callbacks: Any) -> PendingCall[None]:
        self._check_not_fatal()
        if len(set(topics)) < len(topics):
            text = "Failed to set subscription: a topic occurs twice"
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
        return super()._begin_subscribe(topics, *callbacks)

    def _begin_assign(self, partitions: list[TopicPartition]) -> PendingCall[None]:
        self._check_open()
        if self._client.fatal is not None:
            return super()._begin_unassign()
        return super()._begin_assign(partitions)

    def _change_refusal(self, incremental: bool) -> KafkaError | None:
        """Refuse by the protocol that the group has chosen, also after `unsubscribe()`."""
        if self._client.fatal is not None:
            return None
        return change_refusal(self._control.membership.chosen_protocol, incremental)

    def _begin_seek(self, partition: TopicPartition | list[TopicPartition]) -> PendingCall[None]:
        self._check_usable()
        if type(partition) is not TopicPartition:
            raise TypeError("expected TopicPartition")
        return self._begin_seek_anywhere([partition])

    def _begin_offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float
    ) -> PendingCall[list[TopicPartition]]:
        if not partitions:
            self._check_open()
            text = "Failed to get offsets: there are no partitions"
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, text))
        return super()._begin_offsets_for_times(partitions, timeout)

    # --- commits ---

    def _begin_commit(
        self, message: Message | None, offsets: list[TopicPartition] | None, asynchronous: bool
    ) -> PendingCall[list[TopicPartition] | None]:
        self._check_not_fatal()
        pending = super()._begin_commit(message, offsets, asynchronous)
        return pending if asynchronous else pending.then(partial(_committed, offsets))


def _committed(
    offsets: list[TopicPartition] | None, outcome: list[TopicPartition] | None
) -> list[TopicPartition]:
    """Return the outcome of a synchronous commit; KafkaException: a partition failed."""
    partitions = outcome or []
    for each in partitions:
        if each.error is not None:
            raise KafkaException(each.error)
    if offsets is None or len(offsets) == len(partitions):
        return partitions
    return [each.with_error(None) for each in offsets]  # a partition occurs twice
