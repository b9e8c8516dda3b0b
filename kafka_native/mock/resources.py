"""Settings of what isn't a topic: brokers' log levels, client metrics resources, groups."""

from __future__ import annotations

BROKER_LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
SOURCES = {BROKER_LOGGER: 6, CLIENT_METRICS: 7, GROUP: 8}
"""The protocol's numbers of these kinds, and of where their values come from."""

DEFAULTS = {
    BROKER_LOGGER: {"root": "INFO", "kafka": "INFO", "org.apache.kafka": "INFO"},
    CLIENT_METRICS: {"interval.ms": "300000", "match": "", "metrics": ""},
    GROUP: {"consumer.heartbeat.interval.ms": "5000", "consumer.session.timeout.ms": "45000"},
}
LEVELS = frozenset({"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"})


class Resources:
    """What was set, by kind and name; used under the cluster's lock."""

    def __init__(self) -> None:
        """Everything has its default."""
        self.settings: dict[tuple[int, str], dict[str, str]] = {}

    def names(self, kind: int) -> list[str]:
        """The resources of a kind that have settings of their own."""
        return [name for known, name in self.settings if known == kind]

    def values(self, kind: int, name: str) -> dict[str, tuple[str, bool]]:
        """Each setting: its value, and whether it was set."""
        own = self.settings.get((kind, name), {})
        return {key: (own.get(key, default), key in own) for key, default in DEFAULTS[kind].items()}

    def refusal(self, kind: int, key: str, value: str | None) -> str | None:
        """Why a setting can't have this value, None if it can."""
        if key not in DEFAULTS[kind]:
            return f"{key} is no setting of it"
        if kind == BROKER_LOGGER and value is not None and value not in LEVELS:
            return f"{value} is no log level"
        return None

    def change(self, kind: int, name: str, changes: dict[str, str | None]) -> None:
        """Set some settings; None takes one back. What has none left is forgotten."""
        own = self.settings.setdefault((kind, name), {})
        for key, value in changes.items():
            if value is None:
                own.pop(key, None)
            else:
                own[key] = value
        if not own:
            del self.settings[kind, name]
