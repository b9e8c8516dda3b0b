"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.resources import BROKER_LOGGER, CLIENT_METRICS, DEFAULTS, GROUP, SOURCES
from kafka_native.mock.topics import TOPIC_DEFAULTS
from kafka_native.protocol.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_native.mock.call import Call
    from kafka_native.mock.topics import Topic

TOPIC = 2
BROKER = 4
_FROM_TOPIC = 1
_FROM_DEFAULT = 5
_SET, _DELETE = 0, 1
_BOOLEAN, _STRING, _LONG = 1, 2, 5


def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Return the settings of topics, brokers and other resources."""
    response = DescribeConfigsResponse()
    for resource in request.resources:
        answer = DescribeConfigsResponse.Resource(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        response.results.append(answer)
        with call.cluster.lock:
            values = _values(call, resource.resource_type, resource.resource_name)
        if isinstance(values, ErrorCode):
            answer.error_code = values
            continue
        wanted = resource.configuration_keys
        answer.configs = [
            DescribeConfigsResponse.Resource.Config(
                name=name,
                value=value,
                is_default=source == _FROM_DEFAULT,
                config_source=source,
                config_type=_type_of(value),
                documentation=f"The setting {name}." if request.include_documentation else None,
            )
            for name, (value, source) in values.items()
            if wanted is None or name in wanted
        ]
    return response


def _values(call: Call, kind: int, name: str) -> dict[str, tuple[str, int]] | ErrorCode:
    cluster = call.cluster
    if kind == TOPIC:
        topic = cluster.topics.get(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return {
            key: (topic.config(key), _FROM_TOPIC if key in topic.configs else _FROM_DEFAULT)
            for key in TOPIC_DEFAULTS
        }
    if kind == BROKER:
        return {
            "auto.create.topics.enable": (
                str(cluster.settings.auto_create_topics).lower(),
                _FROM_DEFAULT,
            ),
            "default.replication.factor": (str(cluster.settings.replication_factor), _FROM_DEFAULT),
            "message.max.bytes": (str(cluster.settings.message_max_bytes), _FROM_DEFAULT),
            "num.partitions": (str(cluster.settings.default_partitions), _FROM_DEFAULT),
        }
    if kind in DEFAULTS and name and not _is_elsewhere(call, kind, name):
        values = cluster.resources.values(kind, name)
        return {
            key: (value, SOURCES[kind] if is_set else _FROM_DEFAULT)
            for key, (value, is_set) in values.items()
        }
    return ErrorCode.INVALID_REQUEST


def _is_elsewhere(call: Call, kind: int, name: str) -> bool:
    """Return whether only another broker can answer: each broker has its own log levels."""
    return kind == BROKER_LOGGER and name != str(call.broker.id)


def _type_of(value: str) -> int:
    if value in ("true", "false"):
        return _BOOLEAN
    return _LONG if value.removeprefix("-").isdigit() else _STRING


def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace all settings of topics."""
    response = AlterConfigsResponse()
    for topic, resource in _changes(call, request, response):
        assert topic is not None
        topic.configs = {
            each.name: each.value for each in resource.configs if each.value is not None
        }
    return response


def incremental_alter_configs(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change single settings of topics and of other resources."""
    response = IncrementalAlterConfigsResponse()
    for topic, resource in _changes(call, request, response):
        if topic is None:
            changes = {
                each.name: None if each.config_operation == _DELETE else each.value
                for each in resource.configs
            }
            call.cluster.resources.change(resource.resource_type, resource.resource_name, changes)
            continue
        for config in resource.configs:
            if config.config_operation == _DELETE or config.value is None:
                topic.configs.pop(config.name, None)
            else:
                topic.configs[config.name] = config.value
    return response


def _changes(
    call: Call,
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    response: Any,
) -> Iterator[tuple[Topic | None, Any]]:
    """Yield each resource to change, under the cluster's lock: its topic, or None, and its change.

    The function adds all results to the response. Only IncrementalAlterConfigs can change resources
    that are not topics.
    """
    for resource in request.resources:
        answer = type(response).Resource(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        response.responses.append(answer)
        with call.cluster.lock:
            if (
                isinstance(request, IncrementalAlterConfigsRequest)
                and resource.resource_type in DEFAULTS
            ):
                if _may_change(call, resource, answer) and not request.validate_only:
                    yield None, resource
                continue
            topic = _topic_to_change(call, resource, answer)
            if topic is not None and not request.validate_only:
                yield topic, resource


def _may_change(
    call: Call,
    resource: Any,
    answer: AlterConfigsResponse.Resource | IncrementalAlterConfigsResponse.Resource,
) -> bool:
    """Return whether a resource that is not a topic can be changed. If not, set the error."""
    kind, name = resource.resource_type, resource.resource_name
    if not name or _is_elsewhere(call, kind, name):
        answer.error_code, answer.error_message = (
            ErrorCode.INVALID_REQUEST,
            f"{name!r} doesn't belong to this broker",
        )
        return False
    for one in resource.configs:
        problem = call.cluster.resources.refusal(kind, one.name, one.value)
        if problem is not None or one.config_operation > _DELETE:
            answer.error_code = ErrorCode.INVALID_CONFIG
            answer.error_message = problem or f"{one.name} can't be changed this way"
            return False
    return True


def list_config_resources(
    call: Call, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Return the resources of these kinds that have settings.

    Version 0 returns only client metrics resources, by name.
    """
    cluster = call.cluster
    with cluster.lock:
        brokers = [str(broker) for broker in cluster.brokers]
        known = {
            TOPIC: list(cluster.topics),
            BROKER: brokers,
            BROKER_LOGGER: brokers,
            CLIENT_METRICS: cluster.resources.names(CLIENT_METRICS),
            GROUP: cluster.resources.names(GROUP),
        }
    kinds = [CLIENT_METRICS] if call.version == 0 else request.resource_types or list(known)
    if not set(kinds) <= set(known):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    kind = ListConfigResourcesResponse.ConfigResource
    found = [
        kind(resource_name=name, resource_type=each)
        for each in dict.fromkeys(kinds)
        for name in known[each]
    ]
    return ListConfigResourcesResponse(config_resources=found)


def _topic_to_change(
    call: Call,
    resource: AlterConfigsRequest.Resource | IncrementalAlterConfigsRequest.Resource,
    answer: AlterConfigsResponse.Resource | IncrementalAlterConfigsResponse.Resource,
) -> Topic | None:
    """Return the topic of a change, or None and set the error."""
    is_topic = resource.resource_type == TOPIC
    topic = call.cluster.topics.get(resource.resource_name) if is_topic else None
    if topic is None:
        answer.error_code = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_topic else ErrorCode.INVALID_REQUEST
        )
        return None
    for one in resource.configs:
        if one.name not in TOPIC_DEFAULTS or getattr(one, "config_operation", _SET) > _DELETE:
            answer.error_code = ErrorCode.INVALID_CONFIG
            answer.error_message = f"{one.name} can't be changed this way"
            return None
    return topic
