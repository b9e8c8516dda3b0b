"""Compatibility, modes and other settings: of the registry, of a context and of a subject."""

from __future__ import annotations

import json
from typing import Any, Final

from kafka_native.mock.schema_registry.errors import (
    COMPATIBILITY_NOT_CONFIGURED,
    INVALID_COMPATIBILITY_LEVEL,
    INVALID_MODE,
    MODE_NOT_CONFIGURED,
    UNPROCESSABLE,
    RegistryError,
)
from kafka_native.mock.schema_registry.names import Subject

LEVELS: Final = (
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL",
    "FULL_TRANSITIVE",
)  # fmt: skip
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
DEFAULTS: Final[dict[str, Any]] = {"compatibilityLevel": "BACKWARD"}
DEFAULT_MODE: Final = "READWRITE"
_KEYS: Final = (
    "alias", "normalize", "validateFields", "validateRules", "compatibilityLevel",
    "compatibilityGroup", "compatibilityPolicy", "defaultMetadata", "overrideMetadata",
    "defaultRuleSet", "overrideRuleSet",
)  # fmt: skip


def merged(
    default: dict[str, Any] | None,
    own: dict[str, Any] | None,
    override: dict[str, Any] | None,
) -> dict[str, Any] | None:
    """Merge metadata or rule sets. Later ones win: for lists of rules, by the rules' names."""
    result: dict[str, Any] = {}
    for each in (default, own, override):
        for key, value in (each or {}).items():
            if isinstance(value, dict):
                result[key] = {**result.get(key, {}), **value}
            elif isinstance(value, list) and all(isinstance(rule, dict) for rule in value):
                names = {rule.get("name") for rule in value}
                kept = [rule for rule in result.get(key, ()) if rule.get("name") not in names]
                result[key] = kept + value
            elif value is not None:
                result[key] = value
    return result or None


class Settings:
    """The settings that requests have set. The registry's lock guards them."""

    def __init__(self) -> None:
        """Start with the defaults."""
        self._configs: dict[str | None, dict[str, Any]] = {None: dict(DEFAULTS)}
        self._modes: dict[str | None, str] = {None: DEFAULT_MODE}

    def config(self, subject: Subject | None, inherit: bool = False) -> dict[str, Any]:
        """Return the settings of a subject, or of the registry.

        ``inherit`` fills what isn't set: with the context's settings, then the registry's.
        """
        own = self._configs.get(_key(subject))
        if inherit or subject is None:
            return self.effective(subject)
        if own is None:
            raise RegistryError(
                COMPATIBILITY_NOT_CONFIGURED,
                f"Subject '{subject}' does not have subject-level compatibility configured",
            )
        return dict(own)

    def effective(self, subject: Subject | None) -> dict[str, Any]:
        """Return the settings that are in force for a subject."""
        result = {**self._configs[None]}
        if subject is not None:
            for name in (subject.context_name, str(subject)):
                result |= self._configs.get(name, {})
        return result

    def set_config(self, subject: Subject | None, body: Any) -> dict[str, Any]:
        """Change the settings that a request names. Returns them under the request's names."""
        if not isinstance(body, dict):
            raise RegistryError(UNPROCESSABLE, "The body of the request is not a JSON object")
        changed = {key: body[key] for key in _KEYS if key in body}
        level = body.get("compatibility", body.get("compatibilityLevel"))
        if level is not None:
            changed["compatibilityLevel"] = str(level).upper()
            if changed["compatibilityLevel"] not in LEVELS:
                raise RegistryError(
                    INVALID_COMPATIBILITY_LEVEL,
                    f"Invalid compatibility level {json.dumps(level)[:100]}. "
                    f"Valid values are {', '.join(LEVELS)}",
                )
        own = self._configs.setdefault(_key(subject), {})
        for key, value in changed.items():
            if value is None:
                own.pop(key, None)
            else:
                own[key] = value
        answer = {key: value for key, value in changed.items() if key != "compatibilityLevel"}
        if level is not None:
            answer["compatibility"] = changed["compatibilityLevel"]
        return answer

    def delete_config(self, subject: Subject | None) -> dict[str, Any]:
        """Forget the settings of a subject, and return them."""
        own = self.config(subject)
        if subject is None:
            self._configs[None] = dict(DEFAULTS)
        else:
            del self._configs[str(subject)]
        return own

    def mode(self, subject: Subject | None, inherit: bool = False) -> str:
        """Return the mode of a subject, or of the registry."""
        if self._modes[None] == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        names: list[str | None] = [_key(subject)]
        if inherit:
            names += [None] if subject is None else [subject.context_name, None]
        for name in names:
            if name in self._modes:
                return self._modes[name]
        raise RegistryError(
            MODE_NOT_CONFIGURED, f"Subject '{subject}' does not have subject-level mode configured"
        )

    def set_mode(self, subject: Subject | None, body: Any) -> str:
        """Set the mode of a subject or of the registry, and return it."""
        self._modes[_key(subject)] = mode = wanted_mode(body)
        return mode

    def delete_mode(self, subject: Subject | None) -> str:
        """Forget the mode of a subject, and return it."""
        if subject is None:
            mode, self._modes[None] = self._modes[None], DEFAULT_MODE
            return mode
        mode = self.mode(subject)
        self._modes.pop(str(subject), None)
        return mode

    def forget(self, subject: Subject) -> None:
        """Forget everything about a subject that is deleted for good."""
        self._configs.pop(str(subject), None)
        self._modes.pop(str(subject), None)


def wanted_mode(body: Any) -> str:
    """Return the mode in the body of a request. Raises ``RegistryError``."""
    mode = body.get("mode") if isinstance(body, dict) else None
    name = str(mode).upper()
    if name not in MODES:
        raise RegistryError(
            INVALID_MODE,
            f"Invalid mode {json.dumps(mode)[:100]}. Valid values are {', '.join(MODES)}",
        )
    return name


def _key(subject: Subject | None) -> str | None:
    return None if subject is None else str(subject)
