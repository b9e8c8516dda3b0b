"""Administration of topics: CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    error_text,
    int8,
    int16,
    int32,
    string,
    uuid,
)

if TYPE_CHECKING:
    from typing_extensions import Self


class CreateTopicsRequest(Request, api_key=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    """Create topics. With ``validate_only``, the broker only checks the request."""

    class Topic(Struct):
        """A topic to create. With -1 partitions or replicas, the broker chooses the number."""

        class Assignment(Struct):
            """The brokers of one partition. The first one is its preferred leader."""

            partition_index: int = int32("0+")
            broker_ids: list[int] = array(int32(), "0+")

        class Config(Struct):
            """A topic setting."""

            name: str = string("0+")
            value: str | None = string("0+", nullable="0+")

        name: str = string("0+")
        num_partitions: int = int32("0+")
        replication_factor: int = int16("0+")
        assignments: list[Assignment] = array(Assignment, "0+")
        configs: list[Config] = array(Config, "0+")

    topics: list[Topic] = array(Topic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")


class CreateTopicsResponse(Response, api_key=ApiKey.CREATE_TOPICS, versions="0-7", flexible="5+"):
    """The outcome for each topic."""

    class Topic(Struct):
        """The outcome for one topic."""

        class Config(Struct):
            """A setting of the new topic."""

            name: str = string("5+")
            value: str | None = string("5+", nullable="5+")
            read_only: bool = boolean("5+")
            config_source: int = int8("5+", default=-1, ignorable=True)
            is_sensitive: bool = boolean("5+")

        name: str = string("0+")
        topic_id: bytes = uuid("7+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = error_text("1+", nullable="0+", ignorable=True)
        topic_config_error_code: int = int16("5+", tag=0, ignorable=True)
        num_partitions: int = int32("5+", default=-1, ignorable=True)
        replication_factor: int = int16("5+", default=-1, ignorable=True)
        configs: list[Config] | None = array(Config, "5+", nullable="5+", ignorable=True)

    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[Topic] = array(Topic, "0+")


class DeleteTopicsRequest(Request, api_key=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    """Delete topics: ``topic_names`` up to version 5, ``topics`` from 6 on."""

    class Topic(Struct):
        """A topic to delete, by name or by id."""

        name: str | None = string("6+", nullable="6+", default=None)
        topic_id: bytes = uuid("6+")

    topics: list[Topic] = array(Topic, "6+")
    topic_names: list[str] = array(string(), "0-5", ignorable=True)
    timeout_ms: int = int32("0+")

    def for_version(self, version: int) -> Self:
        """Up to version 5 the names are in ``topic_names``."""
        if version >= 6:
            return self
        message = copy.copy(self)
        message.topics = []
        return message


class DeleteTopicsResponse(Response, api_key=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    """The outcome for each topic."""

    class Topic(Struct):
        """The outcome for one topic."""

        name: str | None = string("0+", nullable="6+")
        topic_id: bytes = uuid("6+", ignorable=True)
        error_code: int = int16("0+")
        error_message: str | None = error_text("5+", nullable="5+", default=None, ignorable=True)

    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[Topic] = array(Topic, "0+")


class CreatePartitionsRequest(
    Request, api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"
):
    """Increase the number of partitions of topics."""

    class Topic(Struct):
        """A topic and its new number of partitions."""

        class Assignment(Struct):
            """The brokers of one new partition."""

            broker_ids: list[int] = array(int32(), "0+")

        name: str = string("0+")
        count: int = int32("0+")
        assignments: list[Assignment] | None = array(Assignment, "0+", nullable="0+")

    topics: list[Topic] = array(Topic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


class CreatePartitionsResponse(
    Response, api_key=ApiKey.CREATE_PARTITIONS, versions="0-3", flexible="2+"
):
    """The outcome for each topic."""

    class Topic(Struct):
        """The outcome for one topic."""

        name: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+", default=None)

    throttle_time_ms: int = int32("0+")
    results: list[Topic] = array(Topic, "0+")
