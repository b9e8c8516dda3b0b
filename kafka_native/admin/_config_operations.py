"""The operations about settings. They run on the control thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from kafka_native.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, ConfigType
from kafka_native.admin._convert import member_of
from kafka_native.admin._resource import ResourceType
from kafka_native.admin._topic_operations import told
from kafka_native.control.operations import Operation, Settle, Steps
from kafka_native.errors import KafkaError
from kafka_native.protocol.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kafka_native.protocol.schema import Request

Kind: TypeAlias = tuple[int, str]

# The protocol's numbers of what has settings; the API's are librdkafka's.
ON_WIRE = {
    ResourceType.TOPIC: 2,
    ResourceType.BROKER: 4,
    ResourceType.BROKER_LOGGER: 8,
    ResourceType.CLIENT_METRICS: 16,
    ResourceType.GROUP: 32,
}
OF_BROKERS = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


def broker_of(resource: ConfigResource, broker: int) -> int | None:
    """The broker whose matter it is, None for anybody's: also of "", which is what holds for all brokers."""
    if broker >= 0:
        return broker
    return int(resource.name) if resource.restype in OF_BROKERS and resource.name else None


def _problem(resource: ConfigResource) -> KafkaError | None:
    """Why it can't be asked for."""
    if resource.restype not in ON_WIRE:
        return KafkaError(KafkaError._INVALID_ARG, f"{resource}: it has no settings")
    for_all = resource.restype is ResourceType.BROKER and not resource.name
    if resource.restype in OF_BROKERS and not (resource.name.isdecimal() or for_all):
        return KafkaError(KafkaError._INVALID_ARG, f"Expected an int32 broker_id for {resource}")
    return None


def described(resource: ConfigResource) -> DescribeConfigsRequest.Resource | KafkaError:
    """A resource in the protocol's form, or why there is none."""
    return _problem(resource) or DescribeConfigsRequest.Resource(
        resource_type=ON_WIRE[resource.restype], resource_name=resource.name, configuration_keys=None
    )


def replaced(resource: ConfigResource) -> AlterConfigsRequest.Resource | KafkaError:
    """A resource with all its settings in the protocol's form, or why there is none."""
    for name, value in resource.set_config_dict.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"expected settings as str, not {name!r}: {type(value).__name__}")
    config = AlterConfigsRequest.Resource.Config
    return _problem(resource) or AlterConfigsRequest.Resource(
        resource_type=ON_WIRE[resource.restype],
        resource_name=resource.name,
        configs=[config(name=name, value=value) for name, value in resource.set_config_dict.items()],
    )


def altered(resource: ConfigResource) -> IncrementalAlterConfigsRequest.Resource | KafkaError:
    """A resource with its changes in the protocol's form, or why there is none."""
    changes = [_change(entry) for entry in resource.incremental_configs]
    if not changes:
        raise ValueError("expected non-empty list of ConfigEntry to alter incrementally in incremental_configs field")
    return _problem(resource) or IncrementalAlterConfigsRequest.Resource(
        resource_type=ON_WIRE[resource.restype], resource_name=resource.name, configs=changes
    )


def _change(entry: ConfigEntry) -> IncrementalAlterConfigsRequest.Resource.Config:
    if entry.incremental_operation is None:
        raise TypeError(f"{entry.name}: incremental_operation is missing")
    operation = member_of(entry.incremental_operation, AlterConfigOpType)
    if operation is not AlterConfigOpType.DELETE and not isinstance(entry.value, str):
        raise TypeError(f"Expected .value to be str type, not {type(entry.value).__name__}")
    return IncrementalAlterConfigsRequest.Resource.Config(
        name=entry.name,
        config_operation=operation.value,
        value=None if operation is AlterConfigOpType.DELETE else entry.value,
    )


def describe_configs(documentation: bool, resources: list[Any]) -> Request:
    """The request."""
    return DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=documentation)


def alter_configs(validate_only: bool, resources: list[Any]) -> Request:
    """The request."""
    return AlterConfigsRequest(resources=resources, validate_only=validate_only)


def incremental_alter_configs(validate_only: bool, resources: list[Any]) -> Request:
    """The request."""
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def of_resources(
    broker: int, make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """The requests above: what is of a broker to that one, the rest to any, or a change to the controller."""
    keys: dict[Kind, ConfigResource] = {(items[key].resource_type, key.name): key for key in items}
    change = not any(isinstance(item, DescribeConfigsRequest.Resource) for item in items.values())

    def outcomes(reply: Any, target: int | None) -> dict[ConfigResource, Any]:
        results = reply.results if isinstance(reply, DescribeConfigsResponse) else reply.responses
        found: dict[ConfigResource, Any] = {}
        for each in results:
            key = keys.get((each.resource_type, each.resource_name))
            if key is not None:
                found[key] = told(each.error_code, each.error_message) or _entries_of(each)
        return found

    def place(some: list[Any]) -> Steps[dict[Any, Any]]:
        theirs = [key for key in some if broker_of(key, broker) is not None]
        rest = [key for key in some if broker_of(key, broker) is None]
        placed = (yield from operation.nodes(theirs, partial(broker_of, broker=broker))) if theirs else {}
        if rest:
            placed.update((yield from (operation.controller(rest) if change else operation.anywhere(rest))))
        return placed

    return operation.rounds(items, place, make, outcomes, settle, change=change)


def _entries_of(resource: Any) -> dict[str, ConfigEntry] | None:
    """Its settings by name; None where it was changed."""
    if not isinstance(resource, DescribeConfigsResponse.Resource):
        return None
    return {each.name: _entry_of(each) for each in resource.configs}


def _entry_of(config: DescribeConfigsResponse.Resource.Config) -> ConfigEntry:
    default = ConfigSource.DEFAULT_CONFIG.value
    source = config.config_source
    synonyms = {each.name: ConfigEntry(each.name, each.value, each.source, is_synonym=True) for each in config.synonyms}
    entry = ConfigEntry(
        config.name,
        config.value,
        max(source, ConfigSource.UNKNOWN_CONFIG.value),
        is_read_only=config.read_only,
        is_default=config.is_default or source == default,
        is_sensitive=config.is_sensitive,
        synonyms=synonyms,
    )
    entry.config_type = next((each for each in ConfigType if each.value == config.config_type), ConfigType.UNKNOWN)
    entry.documentation = config.documentation
    return entry


def ask_resources(wanted: list[list[ResourceType]]) -> Request:
    """The request, with the one list of kinds; an empty one for all."""
    (kinds,) = wanted
    return ListConfigResourcesRequest(resource_types=sorted(ON_WIRE[each] for each in kinds))


def list_resources(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """ListConfigResources (KIP-1142), to any broker."""
    kinds = {number: kind for kind, number in ON_WIRE.items()}

    def outcomes(reply: ListConfigResourcesResponse, target: int | None) -> dict[None, Any]:
        found = [
            ConfigResource(kinds.get(each.resource_type, ResourceType.UNKNOWN), each.resource_name)
            for each in reply.config_resources
        ]
        return {None: told(reply.error_code) or found}

    return operation.rounds(items, operation.anywhere, make, outcomes, settle, change=False)
