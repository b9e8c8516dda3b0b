"""Settings of topics, brokers, groups and other resources."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from enum import Enum
from typing import TypeAlias

from kafka_native.admin.acls import ResourceType
from kafka_native.admin.base import (
    INT32_MAX,
    AdminBase,
    broker_id,
    error_or_none,
    flag,
    list_of,
    member_of,
    set_of,
)
from kafka_native.cleaning import escaped
from kafka_native.control.operations import (
    AdminOperation,
    Destination,
    Operation,
    Portion,
    Steps,
    Target,
)
from kafka_native.errors import KafkaError
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


class AlterConfigOpType(Enum):
    """The kind of an incremental change. APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(Enum):
    """The source of a setting's value."""

    UNKNOWN_CONFIG = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class ConfigType(Enum):
    """The type of a setting's value (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_NO_SYNONYMS: dict[str, ConfigEntry] = {}
"""The default: each entry gets a dict of its own."""


class ConfigEntry:
    """A setting from `describe_configs()`, or a change for `incremental_alter_configs()`.

    :param name: Its name.
    :param value: Its value; None if it is secret, and for DELETE.
    :param source: The source of the value: a `ConfigSource` or its number.
    :param is_read_only: It can't be changed while the broker runs.
    :param is_default: It has its default value.
    :param is_sensitive: Its value is secret, so the broker doesn't return it.
    :param is_synonym: It is one of another setting's ``synonyms``.
    :param synonyms: Other settings that could provide the value, by name.
    :param incremental_operation: The kind of change.
    """

    def __init__(
        self,
        name: str,
        value: str | None,
        source: ConfigSource | int = ConfigSource.UNKNOWN_CONFIG,
        is_read_only: bool = False,
        is_default: bool = False,
        is_sensitive: bool = False,
        is_synonym: bool = False,
        synonyms: dict[str, ConfigEntry] = _NO_SYNONYMS,
        incremental_operation: AlterConfigOpType | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
        self.is_read_only = bool(is_read_only)
        self.is_default = bool(is_default)
        self.is_sensitive = bool(is_sensitive)
        self.is_synonym = bool(is_synonym)
        self.synonyms = {} if synonyms is _NO_SYNONYMS else synonyms
        self.incremental_operation = incremental_operation
        self.config_type = ConfigType.UNKNOWN
        """The type of its value, from `describe_configs()`; UNKNOWN before 2.6 (KIP-569).
        """
        self.documentation: str | None = None
        """Its description, with ``include_documentation`` and brokers since 2.6 (KIP-569)."""

    def __repr__(self) -> str:
        return f"ConfigEntry({self})"

    def __str__(self) -> str:
        return f'{escaped(self.name)}="{escaped(self.value)}"'


class ConfigResource:
    """A resource with settings. Equality and hash use kind and name.

    :param restype: The kind: a `ResourceType`, its name in any case or its number.
    :param name: The name of a topic or group, or a broker's id as text (for BROKER_LOGGER, too).
    :param set_config: Settings for `alter_configs()`.
    :param described_configs: Its settings, from the broker.
    :param error: Its error, if there is one.
    :param incremental_configs: Changes for `incremental_alter_configs()`.
    :raises ValueError: An unknown kind, or None as the name.
    :raises AttributeError: ``restype`` has another type.
    """

    Type = ResourceType

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: str,
        set_config: dict[str, str] | None = None,
        described_configs: dict[str, ConfigEntry] | None = None,
        error: KafkaError | None = None,
        incremental_configs: list[ConfigEntry] | None = None,
    ) -> None:
        if name is None:
            raise ValueError("Expected resource name to be a string")
        if not isinstance(restype, ResourceType | str | int):
            raise AttributeError(
                f"expected a ResourceType, its name or its number, not {type(restype).__name__}"
            )
        number = int(restype) if isinstance(restype, int) else restype
        self.restype = member_of(number, ResourceType, "resource type")
        self.restype_int = int(self.restype.value)
        self.name = name
        self.set_config_dict = {} if set_config is None else set_config.copy()
        self.incremental_configs = list(incremental_configs or [])
        self.configs = described_configs
        self.error = error

    def __repr__(self) -> str:
        error = "" if self.error is None else f",{self.error!r}"
        return f"ConfigResource({self.restype},{escaped(self.name)}{error})"

    def __hash__(self) -> int:
        return hash((self.restype, self.name))

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, ConfigResource):
            return NotImplemented
        return (self.restype_int, self.name) < (other.restype_int, other.name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConfigResource):
            return NotImplemented
        return self.restype == other.restype and self.name == other.name

    def __len__(self) -> int:
        return len(self.set_config_dict)

    def set_config(self, name: str, value: str, overwrite: bool = True) -> None:
        """Sets a value for `alter_configs()`; ``overwrite=False`` keeps an existing value."""
        if overwrite or name not in self.set_config_dict:
            self.set_config_dict[name] = value

    def add_incremental_config(self, config_entry: ConfigEntry) -> None:
        """Adds a change for `incremental_alter_configs()`."""
        self.incremental_configs.append(config_entry)


# --- the broker of a resource ---

# The protocol's numbers of kinds with settings; the API's numbers are librdkafka's.
ON_WIRE = {
    ResourceType.TOPIC: 2,
    ResourceType.BROKER: 4,
    ResourceType.BROKER_LOGGER: 8,
    ResourceType.CLIENT_METRICS: 16,
    ResourceType.GROUP: 32,
}
FROM_WIRE = {number: kind for kind, number in ON_WIRE.items()}
OF_BROKERS = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


def _problem(resource: ConfigResource) -> KafkaError | None:
    """Why a resource can't be requested; None: it can. It raises TypeError for a wrong name."""
    if not isinstance(resource.name, str):
        raise TypeError(f"Expected .name to be str type, not {type(resource.name).__name__}")
    if resource.restype not in ON_WIRE:
        return KafkaError(KafkaError._INVALID_ARG, f"{resource}: it has no settings")
    for_all = resource.restype is ResourceType.BROKER and not resource.name
    if resource.restype in OF_BROKERS and not (_is_broker_id(resource.name) or for_all):
        return KafkaError(KafkaError._INVALID_ARG, f"Expected an int32 broker_id for {resource}")
    return None


def _is_broker_id(name: str) -> bool:
    # int() refuses texts with thousands of digits
    return name.isdecimal() and len(name) <= len(str(INT32_MAX)) and int(name) <= INT32_MAX


def _owners(broker: int, change: bool, waits: bool) -> Destination[ConfigResource]:
    """Sends a broker's settings to that broker, other changes to the controller, the rest to any.

    If ``broker`` isn't negative, everything goes there. ``waits``: for an unknown broker.
    """

    def broker_of(resource: ConfigResource) -> int | None:
        """None: any broker. That includes the name "", which stands for all brokers."""
        if broker >= 0:
            return broker
        return int(resource.name) if resource.restype in OF_BROKERS and resource.name else None

    def place(
        operation: Operation, resources: list[ConfigResource]
    ) -> Steps[dict[ConfigResource, Target]]:
        theirs = [each for each in resources if broker_of(each) is not None]
        rest = [each for each in resources if broker_of(each) is None]
        placed = (yield from operation.nodes(theirs, broker_of, waits)) if theirs else {}
        if rest:
            placed.update(
                (yield from (operation.controller(rest) if change else operation.anywhere(rest)))
            )
        return placed

    return place


# --- describing ---


def _described_resource(resource: ConfigResource) -> DescribeConfigsRequest.Resource | KafkaError:
    """A resource in the protocol's form, or the error why it is invalid."""
    return _problem(resource) or DescribeConfigsRequest.Resource(
        resource_type=ON_WIRE[resource.restype],
        resource_name=resource.name,
        configuration_keys=None,
    )


def _describe_configs(
    documentation: bool, broker: int, waits: bool
) -> AdminOperation[
    ConfigResource, DescribeConfigsRequest.Resource, DescribeConfigsResponse, dict[str, ConfigEntry]
]:
    def outcomes(
        response: DescribeConfigsResponse,
        portion: Portion[ConfigResource, DescribeConfigsRequest.Resource],
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | KafkaError]:
        keys = {
            (item.resource_type, item.resource_name): key for key, item in portion.items.items()
        }
        return {
            keys[each.resource_type, each.resource_name]: error_or_none(
                each.error_code, each.error_message
            )
            or {config.name: _entry_of(config) for config in each.configs}
            for each in response.results
            if (each.resource_type, each.resource_name) in keys
        }

    return AdminOperation(
        destination=_owners(broker, change=False, waits=waits),
        request=lambda resources: DescribeConfigsRequest(
            resources=resources, include_synonyms=True, include_documentation=documentation
        ),
        outcomes=outcomes,
        change=False,
    )


def _entry_of(config: DescribeConfigsResponse.Resource.Config) -> ConfigEntry:
    default = ConfigSource.DEFAULT_CONFIG.value
    source = config.config_source
    synonyms = {
        each.name: ConfigEntry(each.name, each.value, each.source, is_synonym=True)
        for each in config.synonyms
    }
    entry = ConfigEntry(
        config.name,
        config.value,
        max(source, ConfigSource.UNKNOWN_CONFIG.value),
        is_read_only=config.read_only,
        is_default=config.is_default or source == default,
        is_sensitive=config.is_sensitive,
        synonyms=synonyms,
    )
    entry.config_type = next(
        (each for each in ConfigType if each.value == config.config_type), ConfigType.UNKNOWN
    )
    entry.documentation = config.documentation
    return entry


# --- altering ---

AlteredResource: TypeAlias = (
    "AlterConfigsRequest.Resource | IncrementalAlterConfigsRequest.Resource"
)
AlteredOutcome: TypeAlias = (
    "AlterConfigsResponse.Resource | IncrementalAlterConfigsResponse.Resource"
)


def _replaced_resource(resource: ConfigResource) -> AlterConfigsRequest.Resource | KafkaError:
    """A resource with all its settings in the protocol's form, or the error why it is invalid."""
    for name, value in resource.set_config_dict.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"expected settings as str, not {name!r}: {type(value).__name__}")
    config = AlterConfigsRequest.Resource.Config
    return _problem(resource) or AlterConfigsRequest.Resource(
        resource_type=ON_WIRE[resource.restype],
        resource_name=resource.name,
        configs=[
            config(name=name, value=value) for name, value in resource.set_config_dict.items()
        ],
    )


def _changed_resource(
    resource: ConfigResource,
) -> IncrementalAlterConfigsRequest.Resource | KafkaError:
    """A resource with its changes in the protocol's form, or the error why it is invalid."""
    changes = [_change(entry) for entry in resource.incremental_configs]
    if not changes:
        raise ValueError(
            "expected non-empty list of ConfigEntry to alter incrementally "
            "in incremental_configs field"
        )
    return _problem(resource) or IncrementalAlterConfigsRequest.Resource(
        resource_type=ON_WIRE[resource.restype], resource_name=resource.name, configs=changes
    )


def _change(entry: ConfigEntry) -> IncrementalAlterConfigsRequest.Resource.Config:
    if entry.incremental_operation is None:
        raise TypeError(f"{entry.name}: incremental_operation is missing")
    operation = member_of(entry.incremental_operation, AlterConfigOpType)
    if operation is not AlterConfigOpType.DELETE and not isinstance(entry.value, str):
        raise TypeError(
            f"{entry.name}: Expected .value to be str type, not {type(entry.value).__name__}"
        )
    return IncrementalAlterConfigsRequest.Resource.Config(
        name=entry.name,
        config_operation=operation.value,
        value=None if operation is AlterConfigOpType.DELETE else entry.value,
    )


def _alter_configs(
    validate_only: bool, broker: int, waits: bool
) -> AdminOperation[ConfigResource, AlterConfigsRequest.Resource, AlterConfigsResponse, None]:
    return AdminOperation(
        destination=_owners(broker, change=True, waits=waits),
        request=lambda resources: AlterConfigsRequest(
            resources=resources, validate_only=validate_only
        ),
        outcomes=lambda response, portion: _altered(response.responses, portion.items),
        change=True,
    )


def _incremental_alter_configs(
    validate_only: bool, broker: int, waits: bool
) -> AdminOperation[
    ConfigResource, IncrementalAlterConfigsRequest.Resource, IncrementalAlterConfigsResponse, None
]:
    return AdminOperation(
        destination=_owners(broker, change=True, waits=waits),
        request=lambda resources: IncrementalAlterConfigsRequest(
            resources=resources, validate_only=validate_only
        ),
        outcomes=lambda response, portion: _altered(response.responses, portion.items),
        change=True,
    )


def _altered(
    results: Iterable[AlteredOutcome], items: Mapping[ConfigResource, AlteredResource]
) -> dict[ConfigResource, KafkaError | None]:
    keys = {(item.resource_type, item.resource_name): key for key, item in items.items()}
    return {
        keys[each.resource_type, each.resource_name]: error_or_none(
            each.error_code, each.error_message
        )
        for each in results
        if (each.resource_type, each.resource_name) in keys
    }


# --- listing (KIP-1142) ---


def _listed(response: ListConfigResourcesResponse) -> list[ConfigResource] | KafkaError:
    found = [
        ConfigResource(FROM_WIRE.get(each.resource_type, ResourceType.UNKNOWN), each.resource_name)
        for each in response.config_resources
    ]
    return error_or_none(response.error_code) or found


LIST_RESOURCES: AdminOperation[
    None, ListConfigResourcesRequest, ListConfigResourcesResponse, list[ConfigResource]
] = AdminOperation(
    destination=Operation.anywhere,
    request=lambda requests: requests[0],
    outcomes=lambda response, portion: {None: _listed(response)},
    change=False,
)


class ConfigsAdmin(AdminBase):
    """The admin calls about settings."""

    _waits_for_brokers = False
    """Whether a call waits for a broker that isn't known, in place of failing at once."""

    def describe_configs(
        self,
        resources: list[ConfigResource],
        *,
        include_documentation: bool = False,
        request_timeout: float = -1,
        broker: int = -1,
    ) -> dict[ConfigResource, Future[dict[str, ConfigEntry]]]:
        """Describes the settings of resources: topics, brokers, groups, log levels, client metrics.

        Log levels of brokers are KIP-412.

        :param resources: The resources. A broker's settings come from that broker.
        :param include_documentation: Include descriptions (KIP-569). Brokers before 2.6 don't
            support it (_INVALID_ARG).
        :param broker: The broker to ask for all resources; -1: the responsible one.
        :return: One future per resource, with its settings by name.
        """
        items = [(each, _described_resource(each)) for each in list_of(resources, ConfigResource)]
        asked_broker = broker_id(broker)
        documentation = flag("include_documentation", include_documentation)
        kind = _describe_configs(documentation, asked_broker, self._waits_for_brokers)
        return self._start(kind, items, self._request_timeout(request_timeout))

    def alter_configs(
        self,
        resources: list[ConfigResource],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        broker: int = -1,
    ) -> dict[ConfigResource, Future[None]]:
        """Replaces all settings of resources: settings that aren't given return to their default.

        Deprecated: two programs that use it undo each other's changes.
        `incremental_alter_configs()` doesn't.

        :param resources: The resources, with ``set_config`` for each setting.
        :param broker: The broker to ask; -1: the responsible one.
        :return: One future per resource: None when it is done.
        """
        text = "alter_configs has been deprecated. Use incremental_alter_configs instead."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        items = [(each, _replaced_resource(each)) for each in list_of(resources, ConfigResource)]
        kind = _alter_configs(bool(validate_only), broker_id(broker), self._waits_for_brokers)
        return self._start(kind, items, self._request_timeout(request_timeout))

    def incremental_alter_configs(
        self,
        resources: list[ConfigResource],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
        broker: int = -1,
    ) -> dict[ConfigResource, Future[None]]:
        """Changes some settings of resources and keeps the others (KIP-339).

        It can also change the log levels of a broker (KIP-412), and create client metrics resources
        (KIP-714).

        :param resources: The resources; their ``incremental_configs`` are the changes.
        :param broker: The broker to ask; -1: the responsible one.
        :return: One future per resource: None when it is done.
        """
        items = [(each, _changed_resource(each)) for each in list_of(resources, ConfigResource)]
        kind = _incremental_alter_configs(
            bool(validate_only), broker_id(broker), self._waits_for_brokers
        )
        return self._start(kind, items, self._request_timeout(request_timeout))

    def list_config_resources(
        self, config_resource_types: set[ResourceType] | None = None, *, request_timeout: float = -1
    ) -> Future[list[ConfigResource]]:
        """Lists the resources that have settings (KIP-1142).

        :param config_resource_types: Only these kinds; None or empty for all. A broker before 4.1
            supports only CLIENT_METRICS. With other kinds the call fails with _UNSUPPORTED_FEATURE.
        :return: One future with the resources; a kind that this client doesn't know is UNKNOWN.
        """
        kinds = set_of("config_resource_types", config_resource_types, ResourceType)
        unfit = sorted(each.name for each in kinds if each not in ON_WIRE)
        if unfit:
            raise ValueError(f"{unfit[0]} isn't a kind of resource with settings")
        request = ListConfigResourcesRequest(resource_types=sorted(ON_WIRE[each] for each in kinds))
        return self._start_one(LIST_RESOURCES, request, self._request_timeout(request_timeout))
