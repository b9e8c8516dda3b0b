"""The settings of topics, brokers, log levels, client metrics and groups: values and checks.

A setting gets its value from the first of these that has one: the resource itself, the dynamic
settings of a broker, those of all brokers, the static settings of the broker, Kafka's default.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.settings import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""The protocol's numbers of resource types."""
FROM_BROKER, FROM_ALL_BROKERS, FROM_FILE, FROM_DEFAULT = 2, 3, 4, 5
SOURCES = {TOPIC: 1, BROKER: FROM_BROKER, BROKER_LOGGER: 6, CLIENT_METRICS: 7, GROUP: 8}
"""The protocol's number of the config source of a changed setting, by resource type."""
ALL_BROKERS = ""
"""The name of the resource with the settings of all brokers."""

LOGGERS = {"root": "INFO", "kafka": "INFO", "org.apache.kafka": "INFO"}
LEVELS = frozenset({"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"})
SETTINGS: dict[int, dict[str, Setting]] = {
    TOPIC: TOPIC_SETTINGS,
    BROKER: BROKER_SETTINGS,
    BROKER_LOGGER: {
        name: Setting(name, "string", level, False, None, None, (), None)
        for name, level in LOGGERS.items()
    },
    CLIENT_METRICS: CLIENT_METRICS_SETTINGS,
    GROUP: GROUP_SETTINGS,
}
"""The settings of each resource type by name."""

_COARSER = {
    "log.retention.ms": "log.retention.hours",
    "log.roll.ms": "log.roll.hours",
    "log.roll.jitter.ms": "log.roll.jitter.hours",
    "log.flush.interval.ms": "log.flush.scheduler.interval.ms",
}
"""Settings of brokers without a default, and the ones that give theirs."""
_KINDS = {TOPIC: "topic", GROUP: "group"}
_BITS = {"short": 16, "int": 32, "long": 64}
_RESET = re.compile(
    r"earliest|latest|by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"
)
_METRICS_INTERVAL_MS = (100, 3_600_000)
_ASSIGNORS = ("sticky",)


class Origin(NamedTuple):
    """Where a value comes from: a setting's name, its value and its config source."""

    name: str
    value: str | None
    source: int


class Described(NamedTuple):
    """A setting with its value. ``origins`` are all the places that have one, the first wins."""

    setting: Setting
    value: str | None
    source: int
    origins: list[Origin]


class Problem(NamedTuple):
    """Why a change is refused."""

    code: ErrorCode
    text: str


class Resources:
    """The changed settings by type and name. The cluster's lock guards them.

    Topics keep their own.
    """

    def __init__(self) -> None:
        """Start as a new cluster of Apache Kafka 4.4, which has one setting of all brokers."""
        self.settings: dict[tuple[int, str], dict[str, str]] = {
            (BROKER, ALL_BROKERS): {"min.insync.replicas": "1"}
        }

    def names(self, kind: int) -> list[str]:
        """Return the resources of a type that have changed settings."""
        return [name for known, name in self.settings if known == kind]

    def own(self, kind: int, name: str) -> dict[str, str]:
        """Return a copy of the changed settings of a resource."""
        return dict(self.settings.get((kind, name), ()))

    def replace(self, kind: int, name: str, own: dict[str, str]) -> None:
        """Replace the changed settings of a resource."""
        self.settings.pop((kind, name), None)
        if own:
            self.settings[kind, name] = own

    def number_of_group(self, group_id: str, name: str) -> int | None:
        """Return a numeric setting of a group, or None if it has no own value."""
        value = self.text_of_group(group_id, name)
        return None if value is None else int(value)

    def text_of_group(self, group_id: str, name: str) -> str | None:
        """Return a setting of a group, or None if it has no own value."""
        return self.settings.get((GROUP, group_id), {}).get(name)

    # --- values ---

    def describe(
        self, kind: int, own: Mapping[str, str], broker: int, static: Mapping[str, str | None]
    ) -> list[Described]:
        """Return all settings of a resource with their values.

        :param own: The changed settings of the resource.
        :param broker: The broker that answers. Its settings are the defaults of the others.
        :param static: The static settings of that broker.
        """
        found = []
        for setting in SETTINGS[kind].values():
            origins = self._broker_origins(setting, kind, broker, static)
            if kind != BROKER and setting.name in own:
                origins.insert(0, Origin(setting.name, own[setting.name], SOURCES[kind]))
            if origins:
                found.append(Described(setting, origins[0].value, origins[0].source, origins))
            else:
                source = SOURCES[kind] if kind == BROKER_LOGGER else FROM_DEFAULT
                found.append(Described(setting, setting.default, source, []))
        return found

    def describe_all_brokers(self) -> list[Described]:
        """Return the settings that are set for all brokers."""
        own = self.own(BROKER, ALL_BROKERS)
        return [
            Described(
                BROKER_SETTINGS[name],
                value,
                FROM_ALL_BROKERS,
                [Origin(name, value, FROM_ALL_BROKERS)],
            )
            for name, value in sorted(own.items())
            if name in BROKER_SETTINGS
        ]

    def _broker_origins(
        self, setting: Setting, kind: int, broker: int, static: Mapping[str, str | None]
    ) -> list[Origin]:
        """Return the origins of a setting at a broker, without empty ones."""
        name = setting.name if kind == BROKER else setting.broker_name
        if name is None:
            return []
        known = BROKER_SETTINGS.get(name)
        default = setting.default if known is None else known.default
        found = [
            Origin(name, self.own(BROKER, str(broker)).get(name), FROM_BROKER),
            Origin(name, self.own(BROKER, ALL_BROKERS).get(name), FROM_ALL_BROKERS),
            Origin(name, None if static.get(name) == default else static.get(name), FROM_FILE),
            Origin(name, default, FROM_DEFAULT),
        ]
        found = [each for each in found if each.value is not None]
        coarser = _COARSER.get(name)
        if found and coarser is not None:
            found.append(Origin(coarser, BROKER_SETTINGS[coarser].default, FROM_DEFAULT))
        return found

    # --- changes ---

    def changed(
        self, kind: int, own: dict[str, str], changes: list[tuple[str, int, str | None]]
    ) -> dict[str, str] | Problem:
        """Return the changed settings after changes: names, operations (KIP-339) and values."""
        result = dict(own)
        if len({name for name, _, _ in changes}) < len(changes):
            return Problem(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        for name, operation, value in changes:
            if operation == DELETE:
                if (kind, name) == (BROKER_LOGGER, "root"):
                    text = "Removing the log level of the root logger is not allowed"
                    return Problem(ErrorCode.INVALID_REQUEST, text)
                result.pop(name, None)
                continue
            if value is None:
                text = f"Null value not supported for : {name}"
                return Problem(ErrorCode.INVALID_REQUEST, text)
            if operation in (APPEND, SUBTRACT):
                setting = SETTINGS[kind].get(name)
                verb = "APPEND to" if operation == APPEND else "SUBTRACT from"
                if setting is None or setting.type != "list" or kind == CLIENT_METRICS:
                    text = f"Can't {verb} key {name} because its type is not LIST."
                    return Problem(ErrorCode.INVALID_CONFIG, text)
                before = result.get(name, setting.default) or ""
                value = _edited_list(before, value, appends=operation == APPEND)
            elif operation != SET:
                return Problem(ErrorCode.UNKNOWN, f"Unknown operation {operation}")
            result[name] = value
        return result

    def problem(
        self, kind: int, changed: Mapping[str, str], broker: int, static: Mapping[str, str | None]
    ) -> Problem | None:
        """Return why a resource can't have these settings, with Kafka's texts, or None."""
        invalid = ErrorCode.INVALID_CONFIG if kind in (TOPIC, GROUP) else ErrorCode.INVALID_REQUEST
        for name, value in changed.items():
            setting = SETTINGS[kind].get(name)
            if setting is None:
                if kind == BROKER:
                    continue  # it may belong to a plugin
                return _unknown_setting(kind, name)
            if kind == BROKER and setting.is_fixed:
                text = f"Cannot update these configs dynamically: [{name}]"
                return Problem(ErrorCode.INVALID_REQUEST, text)
            if kind == BROKER_LOGGER and value not in LEVELS:
                return Problem(ErrorCode.INVALID_CONFIG, f"{value} is no log level")
            wrong = _value_problem(setting, value)
            if wrong is None and kind == GROUP:
                wrong = self._group_problem(name, value, broker, static)
            if wrong is not None:
                return Problem(invalid, wrong)
        return _metrics_problem(changed) if kind == CLIENT_METRICS else None

    def _group_problem(
        self, name: str, value: str, broker: int, static: Mapping[str, str | None]
    ) -> str | None:
        """Return why a group's setting is outside of the broker's limits, or None."""
        protocol, _, rest = name.partition(".")
        if name == "streams.num.standby.replicas":
            low, high = None, "group.streams.max.standby.replicas"
        else:
            low, high = f"group.{protocol}.min.{rest}", f"group.{protocol}.max.{rest}"
        values = [
            self._broker_origins(BROKER_SETTINGS[limit], BROKER, broker, static)[0].value
            for limit in (low, high)
            if limit in BROKER_SETTINGS
        ]
        numbers = [int(each or 0) for each in values]
        if len(numbers) == 2 and not numbers[0] <= int(value) <= numbers[1]:
            return f"{name} must be in the range {numbers[0]} to {numbers[1]} inclusive."
        if len(numbers) == 1 and int(value) > numbers[0]:
            return f"{name} must be less than or equal to {numbers[0]}"
        return None


SET, DELETE, APPEND, SUBTRACT = range(4)
"""The operations of IncrementalAlterConfigs."""


def _edited_list(before: str, value: str, *, appends: bool) -> str:
    items = [each for each in before.split(",") if each]
    given = [each for each in value.split(",") if each]
    if appends:
        items += [each for each in given if each not in items]
    else:
        items = [each for each in items if each not in given]
    return ",".join(items)


def _unknown_setting(kind: int, name: str) -> Problem:
    if kind == CLIENT_METRICS:
        text = f"Unknown client metrics configuration: {name}"
        return Problem(ErrorCode.INVALID_REQUEST, text)
    if kind == BROKER_LOGGER:
        return Problem(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    return Problem(ErrorCode.INVALID_CONFIG, f"Unknown {_KINDS[kind]} config name: {name}")


def _value_problem(setting: Setting, value: str) -> str | None:
    """Return why a setting can't have a value of its type, or None."""
    start = f"Invalid value {value} for configuration {setting.name}: "
    if setting.type == "boolean":
        is_right = value.strip().lower() in ("true", "false")
        return None if is_right else start + "Expected value to be either true or false"
    if setting.type in ("int", "short", "long", "double"):
        try:
            number = float(value) if setting.type == "double" else int(value)
            if setting.type != "double" and not _fits(number, _BITS[setting.type]):
                raise ValueError
        except ValueError:
            return f"{start}Not a number of type {setting.type.upper()}"
        if setting.minimum is not None and number < setting.minimum:
            return f"{start}Value must be at least {setting.minimum:.10g}"
        if setting.maximum is not None and number > setting.maximum:
            return f"{start}Value must be no more than {setting.maximum:.10g}"
        return None
    if setting.choices:
        words = value.split(",") if setting.type == "list" else [value]
        wrong = [each for each in words if each not in setting.choices]
        if wrong:
            text = f"Invalid value {wrong[0]} for configuration {setting.name}: String must be "
            return f"{text}one of: {', '.join(setting.choices)}"
    if setting.name == "share.auto.offset.reset" and not _RESET.fullmatch(value):
        return (
            f"{start}Invalid value `{value}` for configuration {setting.name}. "
            "The value must be either 'earliest', 'latest' or of the format "
            "'by_duration:<PnDTnHnMn.nS>'."
        )
    if setting.name == "streams.assignor.name" and value not in _ASSIGNORS:
        return (
            f"{setting.name} '{value}' is not a registered task assignor. Registered assignors "
            f"are: [{', '.join(_ASSIGNORS)}]."
        )
    return None


def _fits(number: float, bits: int) -> bool:
    return -(1 << (bits - 1)) <= number < 1 << (bits - 1)


def _metrics_problem(changed: Mapping[str, str]) -> Problem | None:
    interval, match = changed.get("interval.ms"), changed.get("match")
    first, last = _METRICS_INTERVAL_MS
    if interval is not None and not first <= int(interval) <= last:
        text = (
            f"Invalid value {interval} for interval.ms, interval must be between {first} and "
            f"{last} (1 hour)"
        )
        return Problem(ErrorCode.INVALID_REQUEST, text)
    for each in filter(None, (match or "").split(",")):
        if "=" not in each:
            text = f"Illegal client matching pattern: {each}"
            return Problem(ErrorCode.INVALID_CONFIG, text)
    return None
