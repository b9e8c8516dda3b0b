"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, for topics and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.topics import TOPIC_DEFAULTS
from kafka_native.protocol.configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
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


def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """The settings of topics and brokers."""
    response = DescribeConfigsResponse()
    for resource in request.resources:
        answer = DescribeConfigsResponse.Resource(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
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
                documentation=None,
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
            key: (topic.config(key), _FROM_TOPIC if key in topic.configs else _FROM_DEFAULT) for key in TOPIC_DEFAULTS
        }
    if kind == BROKER:
        return {
            "auto.create.topics.enable": (str(cluster.auto_create_topics).lower(), _FROM_DEFAULT),
            "default.replication.factor": (str(cluster.replication_factor), _FROM_DEFAULT),
            "message.max.bytes": (str(cluster.message_max_bytes), _FROM_DEFAULT),
            "num.partitions": (str(cluster.default_partitions), _FROM_DEFAULT),
        }
    return ErrorCode.INVALID_REQUEST


def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace all settings of topics."""
    response = AlterConfigsResponse()
    for topic, resource in _changes(call, request, response):
        topic.configs = {each.name: each.value for each in resource.configs if each.value is not None}
    return response


def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Change settings of topics."""
    response = IncrementalAlterConfigsResponse()
    for topic, resource in _changes(call, request, response):
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
) -> Iterator[tuple[Topic, Any]]:
    """Each topic that is to be changed, under the cluster's lock, and its change. All answers are in the response."""
    for resource in request.resources:
        answer = type(response).Resource(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        response.responses.append(answer)
        with call.cluster.lock:
            topic = _topic_to_change(call, resource, answer)
            if topic is not None and not request.validate_only:
                yield topic, resource


def _topic_to_change(
    call: Call,
    resource: AlterConfigsRequest.Resource | IncrementalAlterConfigsRequest.Resource,
    answer: AlterConfigsResponse.Resource | IncrementalAlterConfigsResponse.Resource,
) -> Topic | None:
    """The topic that a change is for; None, and the answer says why, where it can't be made."""
    is_topic = resource.resource_type == TOPIC
    topic = call.cluster.topics.get(resource.resource_name) if is_topic else None
    if topic is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_topic else ErrorCode.INVALID_REQUEST
        return None
    for one in resource.configs:
        if one.name not in TOPIC_DEFAULTS or getattr(one, "config_operation", _SET) > _DELETE:
            answer.error_code = ErrorCode.INVALID_CONFIG
            answer.error_message = f"{one.name} can't be changed this way"
            return None
    return topic
