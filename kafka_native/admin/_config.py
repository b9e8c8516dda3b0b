"""Settings: of topics, brokers, groups and the rest that has some."""

from __future__ import annotations

from enum import Enum
from typing import Any

from kafka_native.admin._convert import member_of
from kafka_native.admin._resource import ResourceType
from kafka_native.cleaning import escaped


class AlterConfigOpType(Enum):
    """What an incremental change does to a setting: APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(Enum):
    """Where the value of a setting comes from."""

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
    """What kind of value a setting has (KIP-569)."""

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


class ConfigEntry:
    """A setting, as `describe_configs()` tells it; or a change, for `incremental_alter_configs()`.

    :param name: Its name.
    :param value: Its value; None for one that is secret, and for DELETE.
    :param source: Where the value comes from: a `ConfigSource` or its number.
    :param is_read_only: It can't be changed while the broker runs.
    :param is_default: Nobody has set it.
    :param is_sensitive: Its value is secret, and isn't told.
    :param is_synonym: It is one of another setting's ``synonyms``.
    :param synonyms: What else could give the value, by name.
    :param incremental_operation: What to do.
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
        synonyms: dict[str, ConfigEntry] = {},  # noqa: B006  as confluent_kafka declares it; it is copied
        incremental_operation: AlterConfigOpType | None = None,
    ) -> None:
        """Make one; see the class for the arguments."""
        self.name = name
        self.value = value
        self.source = source
        self.is_read_only = bool(is_read_only)
        self.is_default = bool(is_default)
        self.is_sensitive = bool(is_sensitive)
        self.is_synonym = bool(is_synonym)
        self.synonyms = dict(synonyms)
        self.incremental_operation = incremental_operation
        self.config_type = ConfigType.UNKNOWN
        """What kind of value it has, as `describe_configs()` tells it; UNKNOWN of brokers before 2.6 (KIP-569)."""
        self.documentation: str | None = None
        """What it is for, where ``include_documentation`` was asked for, of brokers since 2.6 (KIP-569)."""

    def __repr__(self) -> str:
        return f"ConfigEntry({self})"

    def __str__(self) -> str:
        return f'{escaped(self.name)}="{escaped(str(self.value))}"'


class ConfigResource:
    """A resource with settings. Equal and hashed by kind and name.

    :param restype: The kind: a `ResourceType`, its name in any case or its number.
    :param name: The name: a topic's, a group's, a broker's id as text (also of BROKER_LOGGER, its log levels).
    :param set_config: Settings for `alter_configs()`.
    :param described_configs: Its settings, as the broker told them.
    :param error: What went wrong with it.
    :param incremental_configs: Changes for `incremental_alter_configs()`.
    :raises ValueError: No such kind, or no name.
    """

    Type = ResourceType

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: str,
        set_config: dict[str, str] | None = None,
        described_configs: dict[str, ConfigEntry] | None = None,
        error: Any | None = None,
        incremental_configs: list[ConfigEntry] | None = None,
    ) -> None:
        """Make one; see the class for the arguments."""
        if not isinstance(name, str):
            raise ValueError("Expected resource name to be a string")
        self.restype = member_of(restype, ResourceType, "resource type")
        self.restype_int = int(self.restype.value)
        self.name = name
        self.set_config_dict = dict(set_config or {})
        self.incremental_configs = list(incremental_configs or [])
        self.configs = described_configs
        self.error = error

    def __repr__(self) -> str:
        return f"ConfigResource({self.restype},{escaped(self.name)}{'' if self.error is None else f',{self.error!r}'})"

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
        """Sets a value for `alter_configs()`; with ``overwrite=False`` only if there is none yet."""
        if overwrite or name not in self.set_config_dict:
            self.set_config_dict[name] = value

    def add_incremental_config(self, config_entry: ConfigEntry) -> None:
        """Adds a change for `incremental_alter_configs()`."""
        self.incremental_configs.append(config_entry)
