"""Settings of topics, brokers and other resources.

The APIs are DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources.
"""

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
)

if TYPE_CHECKING:
    from typing_extensions import Self

CLIENT_METRICS = 16
"""The resource type of client metrics."""


class DescribeConfigsRequest(
    Request, api_key=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"
):
    """Ask for the settings of topics, brokers and other resources."""

    class Resource(Struct):
        """A resource and its requested settings; None means all settings."""

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configuration_keys: list[str] | None = array(string(), "0+", nullable="0+")

    resources: list[Resource] = array(Resource, "0+")
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")

    def for_version(self, version: int) -> Self:
        """Older brokers (before 1.1, KIP-226) have no synonyms."""
        if version >= 1:
            return self
        message = copy.copy(self)
        message.include_synonyms = False
        return message


class DescribeConfigsResponse(
    Response, api_key=ApiKey.DESCRIBE_CONFIGS, versions="0-4", flexible="4+"
):
    """The settings of each resource."""

    class Resource(Struct):
        """The settings of one resource."""

        class Config(Struct):
            """A setting and the source of its value."""

            class Synonym(Struct):
                """A possible source of the value, in order of precedence."""

                name: str = string("1+")
                value: str | None = string("1+", nullable="0+")
                source: int = int8("1+")

            name: str = string("0+")
            value: str | None = string("0+", nullable="0+")
            read_only: bool = boolean("0+")
            is_default: bool = boolean("0", ignorable=True)  # Replaced by config_source
            config_source: int = int8("1+", default=-1, ignorable=True)
            is_sensitive: bool = boolean("0+")
            synonyms: list[Synonym] = array(Synonym, "1+", ignorable=True)
            config_type: int = int8("3+", ignorable=True)
            documentation: str | None = string("3+", nullable="0+", ignorable=True)

        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[Config] = array(Config, "0+")

    throttle_time_ms: int = int32("0+")
    results: list[Resource] = array(Resource, "0+")


class AlterConfigsRequest(Request, api_key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    """Replace all settings of resources. An omitted setting gets its default."""

    class Resource(Struct):
        """A resource and its settings."""

        class Config(Struct):
            """A setting."""

            name: str = string("0+")
            value: str | None = string("0+", nullable="0+")

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[Config] = array(Config, "0+")

    resources: list[Resource] = array(Resource, "0+")
    validate_only: bool = boolean("0+")


class AlterConfigsResponse(Response, api_key=ApiKey.ALTER_CONFIGS, versions="0-2", flexible="2+"):
    """The outcome for each resource."""

    class Resource(Struct):
        """The outcome for one resource."""

        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[Resource] = array(Resource, "0+")


class IncrementalAlterConfigsRequest(
    Request, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"
):
    """Change some settings of resources."""

    class Resource(Struct):
        """A resource and its changes."""

        class Config(Struct):
            """A change: set (0), delete (1), append to a list (2) or remove from it (3)."""

            name: str = string("0+")
            config_operation: int = int8("0+")
            value: str | None = string("0+", nullable="0+")

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        configs: list[Config] = array(Config, "0+")

    resources: list[Resource] = array(Resource, "0+")
    validate_only: bool = boolean("0+")


class IncrementalAlterConfigsResponse(
    Response, api_key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions="0-1", flexible="1+"
):
    """The outcome for each resource."""

    class Resource(Struct):
        """The outcome for one resource."""

        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")

    throttle_time_ms: int = int32("0+")
    responses: list[Resource] = array(Resource, "0+")


class ListConfigResourcesRequest(
    Request, api_key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"
):
    """Ask which resources have settings. Version 0 only lists client metrics resources."""

    resource_types: list[int] = array(int8(), "1+")

    def expressible_versions(self) -> tuple[int, int]:
        """Version 0 only lists client metrics."""
        first = self.min_version if self.resource_types == [CLIENT_METRICS] else 1
        return first, self.max_version

    def for_version(self, version: int) -> Self:
        """Version 0 only lists client metrics."""
        if version >= 1:
            return self
        message = copy.copy(self)
        message.resource_types = []
        return message


class ListConfigResourcesResponse(
    Response, api_key=ApiKey.LIST_CONFIG_RESOURCES, versions="0-1", flexible="0+"
):
    """The resources that have settings."""

    class ConfigResource(Struct):
        """A resource."""

        resource_name: str = string("0+")
        resource_type: int = int8("1+", default=16, ignorable=True)

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    config_resources: list[ConfigResource] = array(ConfigResource, "0+")
