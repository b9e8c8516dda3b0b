"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.broker_settings import static_settings
from kafka_native.mock.resources import (
    ALL_BROKERS,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    FROM_DEFAULT,
    GROUP,
    SET,
    SETTINGS,
    TOPIC,
    Described,
    Problem,
)
from kafka_native.mock.settings import TYPES
from kafka_native.mock.topics import is_valid_name
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
    from kafka_native.mock.call import Call

    Change = tuple[str, int, str | None]


def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Return the settings of topics, brokers and other resources."""
    response = DescribeConfigsResponse()
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        answer = DescribeConfigsResponse.Resource(
            error_message=None, resource_type=kind, resource_name=name
        )
        response.results.append(answer)
        with call.cluster.lock:
            problem = _where_problem(call, kind, name, is_reading=True)
            found = [] if problem is not None else describe(call, kind, name)
        if problem is not None:
            answer.error_code, answer.error_message = problem
            continue
        wanted = resource.configuration_keys
        answer.configs = [
            _described(each, request)
            for each in found
            if wanted is None or each.setting.name in wanted
        ]
    return response


def _described(
    each: Described, request: DescribeConfigsRequest
) -> DescribeConfigsResponse.Resource.Config:
    kind = DescribeConfigsResponse.Resource.Config
    setting = each.setting
    is_secret = setting.type == "password"
    return kind(
        name=setting.name,
        value=None if is_secret else each.value,
        read_only=setting.is_fixed,
        is_default=each.source == FROM_DEFAULT,
        config_source=each.source,
        is_sensitive=is_secret,
        synonyms=[
            kind.Synonym(
                name=origin.name,
                value=None if is_secret else origin.value,
                source=origin.source,
            )
            for origin in (each.origins if request.include_synonyms else ())
        ],
        config_type=TYPES[setting.type],
        documentation=f"The setting {setting.name}." if request.include_documentation else None,
    )


def describe(call: Call, kind: int, name: str) -> list[Described]:
    """Return the settings of a resource that exists, as this broker sees them."""
    cluster = call.cluster
    if kind == BROKER and name == ALL_BROKERS:
        return cluster.resources.describe_all_brokers()
    own = _own(call, kind, name)
    static = static_settings(cluster, call.broker)
    return cluster.resources.describe(kind, own, call.broker.id, static)


def _own(call: Call, kind: int, name: str) -> dict[str, str]:
    if kind == TOPIC:
        return dict(call.cluster.topics[name].configs)
    return call.cluster.resources.own(kind, name)


def _where_problem(call: Call, kind: int, name: str, *, is_reading: bool) -> Problem | None:
    """Return why this broker has no such resource, or None.

    Each broker has its own settings and log levels.
    """
    if kind == TOPIC:
        if name in call.cluster.topics:
            return None
        if is_reading and not is_valid_name(name):
            return Problem(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {name!r}")
        missing = f"The topic '{name}' does not exist."
        return Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, missing)
    text: str | None = None
    if kind not in SETTINGS:
        text = f"Unknown resource type {kind}"
    elif kind in (BROKER, BROKER_LOGGER):
        if name != str(call.broker.id) and not (kind == BROKER and name == ALL_BROKERS):
            text = f"Unexpected broker id, expected {call.broker.id}, but received {name}"
    elif not name:
        text = (
            "Subscription name can't be empty"
            if kind == CLIENT_METRICS
            else "Default group resources are not allowed."
        )
    return None if text is None else Problem(ErrorCode.INVALID_REQUEST, text)


def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace all settings of resources."""
    response = AlterConfigsResponse()
    for resource in request.resources:
        changes: list[Change] = [(each.name, SET, each.value) for each in resource.configs]
        problem = _change(call, resource, {}, changes, only_check=request.validate_only)
        response.responses.append(_altered(AlterConfigsResponse.Resource, resource, problem))
    return response


def incremental_alter_configs(
    call: Call, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change single settings of resources."""
    response = IncrementalAlterConfigsResponse()
    for resource in request.resources:
        changes: list[Change] = [
            (each.name, each.config_operation, each.value) for each in resource.configs
        ]
        problem = _change(call, resource, None, changes, only_check=request.validate_only)
        response.responses.append(
            _altered(IncrementalAlterConfigsResponse.Resource, resource, problem)
        )
    return response


def _altered(kind: Any, resource: Any, problem: Problem | None) -> Any:
    code, text = (0, None) if problem is None else problem
    return kind(
        error_code=code,
        error_message=text,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _change(
    call: Call,
    resource: AlterConfigsRequest.Resource | IncrementalAlterConfigsRequest.Resource,
    own: dict[str, str] | None,
    changes: list[Change],
    *,
    only_check: bool,
) -> Problem | None:
    """Change a resource's settings, from ``own`` or from the present ones. Return an error."""
    cluster, kind, name = call.cluster, resource.resource_type, resource.resource_name
    resources = cluster.resources
    with cluster.lock:
        problem = _where_problem(call, kind, name, is_reading=False)
        if problem is not None:
            return problem
        changed = resources.changed(kind, _own(call, kind, name) if own is None else own, changes)
        if isinstance(changed, Problem):
            return changed
        static = static_settings(cluster, call.broker)
        given = {key: changed[key] for key, _, _ in changes if key in changed}
        problem = resources.problem(kind, given, call.broker.id, static)
        if problem is None and not only_check:
            if kind == TOPIC:
                cluster.topics[name].configs = changed
            else:
                resources.replace(kind, name, changed)
        return problem


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
