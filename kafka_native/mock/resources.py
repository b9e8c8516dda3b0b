"""Settings of resources that are not topics: log levels, client metrics, groups."""

from __future__ import annotations

BROKER_LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
SOURCES = {BROKER_LOGGER: 6, CLIENT_METRICS: 7, GROUP: 8}
"""The protocol's numbers of these resource types, and of their config sources."""

DEFAULTS = {
    BROKER_LOGGER: {"root": "INFO", "kafka": "INFO", "org.apache.kafka": "INFO"},
    CLIENT_METRICS: {"interval.ms": "300000", "match": "", "metrics": ""},
    GROUP: {"consumer.heartbeat.interval.ms": "5000", "consumer.session.timeout.ms": "45000"},
}
LEVELS = frozenset({"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"})


class Resources:
    """The changed settings by type and name. The cluster's lock guards them."""

    def __init__(self) -> None:
        """Start with the defaults."""
        self.settings: dict[tuple[int, str], dict[str, str]] = {}

    def names(self, kind: int) -> list[str]:
        """Return the resources of a type that have changed settings."""
        return [name for known, name in self.settings if known == kind]

    def values(self, kind: int, name: str) -> dict[str, tuple[str, bool]]:
        """Return each setting: its value, and whether it was changed."""
        own = self.settings.get((kind, name), {})
        return {key: (own.get(key, default), key in own) for key, default in DEFAULTS[kind].items()}

    def refusal(self, kind: int, key: str, value: str | None) -> str | None:
        """Return why a setting can't have this value, or None."""
        if key not in DEFAULTS[kind]:
            return f"{key} is no setting of this resource"
        if kind == BROKER_LOGGER and value is not None and value not in LEVELS:
            return f"{value} is no log level"
        return None

    def change(self, kind: int, name: str, changes: dict[str, str | None]) -> None:
        """Change some settings. None resets a setting to its default."""
        own = self.settings.setdefault((kind, name), {})
        for key, value in changes.items():
            if value is None:
                own.pop(key, None)
            else:
                own[key] = value
        if not own:
            del self.settings[kind, name]
