"""Calls about topics, their partitions and the records in them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal, overload

from kafka_native.admin import _offset_operations as offset_operations
from kafka_native.admin import _topic_operations as topic_operations
from kafka_native.admin._calls import Calls
from kafka_native.admin._checks import check_partitions, flag, list_of, wire_ms
from kafka_native.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec
from kafka_native.admin._records import DeletedRecords
from kafka_native.admin._topic import NewPartitions, NewTopic, TopicDescription, TopicMetadataAndConfig
from kafka_native.errors import KafkaError
from kafka_native.types import ElectionType, IsolationLevel, TopicCollection, TopicPartition


class TopicCalls(Calls):
    """Calls about topics, their partitions and the records in them."""

    @overload
    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        validate_only: bool = False,
        include_metadata: Literal[False] = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]: ...

    @overload
    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        validate_only: bool = False,
        include_metadata: Literal[True],
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[TopicMetadataAndConfig]]: ...

    def create_topics(
        self,
        new_topics: list[NewTopic],
        *,
        validate_only: bool = False,
        include_metadata: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Any:
        """Makes topics.

        :param new_topics: The topics.
        :param include_metadata: Also tell what was made, or with ``validate_only`` what would be (KIP-525).
        :return: A future a topic, by name: None when it is there, or its `TopicMetadataAndConfig`; KafkaException, for
            instance TOPIC_ALREADY_EXISTS.
        """
        topics = [(each.topic, topic_operations.new_topic(each)) for each in list_of(new_topics, NewTopic)]
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(topic_operations.create_topics, bool(validate_only), timeout_ms)
        metadata = flag("include_metadata", include_metadata)
        steps_of = partial(topic_operations.change_topics, metadata=metadata)
        return self._begin(topics, make, steps_of, timeout_s)

    def delete_topics(
        self, topics: list[str], *, request_timeout: float = -1, operation_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Deletes topics with all that is in them.

        :param topics: Their names.
        :return: A future a topic, by name: None when it is deleted; KafkaException, for instance UNKNOWN_TOPIC_OR_PART.
        """
        names = [(each, each) for each in list_of(topics, str)]
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(topic_operations.delete_topics, timeout_ms)
        return self._begin(names, make, topic_operations.change_topics, timeout_s)

    def create_partitions(
        self,
        new_partitions: list[NewPartitions],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[str, Future[None]]:
        """Gives topics more partitions.

        :param new_partitions: The topics, and how many each shall have.
        :return: A future a topic, by name: None when it has them; KafkaException, for instance INVALID_PARTITIONS.
        """
        topics = [
            (each.topic, topic_operations.more_partitions(each)) for each in list_of(new_partitions, NewPartitions)
        ]
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(topic_operations.create_partitions, bool(validate_only), timeout_ms)
        return self._begin(topics, make, topic_operations.change_topics, timeout_s)

    def describe_topics(
        self, topics: TopicCollection, *, include_authorized_operations: bool = False, request_timeout: float = -1
    ) -> dict[str, Future[TopicDescription]]:
        """Describes topics.

        :param topics: Their names.
        :param include_authorized_operations: Also tell what this client may do to them (KIP-430).
        :return: A future a topic, by name.
        """
        if not isinstance(topics, TopicCollection):
            raise TypeError("Expected input to be instance of TopicCollection")
        names = [(each, each) for each in list_of(topics.topic_names, str, least=0)]
        operations = flag("include_authorized_operations", include_authorized_operations)
        steps_of = partial(topic_operations.describe_topics, operations)
        return self._begin(names, topic_operations.ask_topics, steps_of, self._request_timeout(request_timeout))

    def list_offsets(
        self,
        topic_partition_offsets: dict[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float = -1,
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]:
        """Finds offsets: the first, the last, by time.

        :param topic_partition_offsets: Which offset of each partition.
        :param isolation_level: With READ_COMMITTED the last one is where the first open transaction begins.
        :return: A future a partition.
        """
        if not isinstance(topic_partition_offsets, Mapping):
            raise TypeError("Expected topic_partition_offsets to be dict of [TopicPartitions,OffsetSpec]")
        if not isinstance(isolation_level, IsolationLevel):
            raise TypeError("isolation_level argument should be an IsolationLevel")
        for spec in topic_partition_offsets.values():
            if not isinstance(spec, OffsetSpec):
                raise TypeError("Value must be a OffsetSpec")
        check_partitions(topic_partition_offsets)
        timeout_s = self._request_timeout(request_timeout)
        items = [(each, (each, spec._value)) for each, spec in topic_partition_offsets.items()]
        make = partial(offset_operations.find_offsets, isolation_level.value, wire_ms(timeout_s))
        return self._begin(items, make, offset_operations.list_offsets, timeout_s)

    def delete_records(
        self,
        topic_partition_offsets: list[TopicPartition],
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> dict[TopicPartition, Future[DeletedRecords]]:
        """Deletes the records before an offset.

        :param topic_partition_offsets: Partitions, and the offset that each is to begin at; OFFSET_END: the end.
        :return: A future a partition: where it begins now.
        """
        partitions = list_of(topic_partition_offsets, TopicPartition, least=0)
        check_partitions(partitions)
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(offset_operations.drop_records, timeout_ms)
        return self._begin([(each, each) for each in partitions], make, offset_operations.delete_records, timeout_s)

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: list[TopicPartition] | None = None,
        *,
        request_timeout: float = -1,
        operation_timeout: float = -1,
    ) -> Future[dict[TopicPartition, KafkaError | None]]:
        """Has partitions' leaders elected anew (KIP-460).

        :param election_type: PREFERRED: the first replica, if it is in sync; UNCLEAN: any, even if messages are lost.
        :param partitions: The partitions; None for all that need it.
        :return: One future: what became of each, None: it was elected; ELECTION_NOT_NEEDED: it leads already.
        """
        if not isinstance(election_type, ElectionType):
            raise TypeError("Expected 'election_type' to be of type 'ElectionType'")
        wanted = None if partitions is None else list_of(partitions, TopicPartition, least=0)
        check_partitions(wanted or ())
        timeout_s, timeout_ms = self._timeouts(request_timeout, operation_timeout)
        make = partial(topic_operations.elect_leaders, election_type, timeout_ms)
        return self._begin([(None, wanted)], make, topic_operations.hold_elections, timeout_s)[None]
