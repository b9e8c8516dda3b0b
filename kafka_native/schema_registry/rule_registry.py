"""RuleRegistry: the executors and actions of data-contract rules."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from kafka_native.schema_registry.rule_types import RuleAction, RuleExecutor

__all__ = ["RuleOverride", "RuleRegistry"]


@dataclass(frozen=True)
class RuleOverride:
    """Replaces settings of all rules of one type.

    :param type: The type of the rules, for instance ``CEL``.
    :param on_success: The action after a success. None keeps that of the rule.
    :param on_failure: The action after a failure. None keeps that of the rule.
    :param disabled: Whether the rules are off. None keeps the setting of the rule.
    """

    type: str
    on_success: str | None
    on_failure: str | None
    disabled: bool | None


class RuleRegistry:
    """Holds rule executors, actions and overrides, by type. Threads may share it.

    Serializers and deserializers use the registry that you pass as ``rule_registry``, or else the
    registry of the process: `get_global_instance()`.
    """

    __slots__ = ("_actions", "_executors", "_lock", "_overrides")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executors: dict[str, RuleExecutor] = {}
        self._actions: dict[str, RuleAction] = {}
        self._overrides: dict[str, RuleOverride] = {}

    def register_executor(self, rule_executor: RuleExecutor) -> None:
        """Add an executor. It replaces the one of the same type."""
        with self._lock:
            self._executors[rule_executor.type()] = rule_executor

    def get_executor(self, name: str) -> RuleExecutor | None:
        """Return the executor of a type, or None."""
        with self._lock:
            return self._executors.get(name)

    def get_executors(self) -> list[RuleExecutor]:
        """Return all executors, in the order of their registration."""
        with self._lock:
            return list(self._executors.values())

    def register_action(self, rule_action: RuleAction) -> None:
        """Add an action. It replaces the one of the same type."""
        with self._lock:
            self._actions[rule_action.type()] = rule_action

    def get_action(self, name: str) -> RuleAction | None:
        """Return the action of a type, or None."""
        with self._lock:
            return self._actions.get(name)

    def get_actions(self) -> list[RuleAction]:
        """Return all actions, in the order of their registration."""
        with self._lock:
            return list(self._actions.values())

    def register_override(self, rule_override: RuleOverride) -> None:
        """Add an override. It replaces the one of the same type."""
        with self._lock:
            self._overrides[rule_override.type] = rule_override

    def get_override(self, name: str) -> RuleOverride | None:
        """Return the override of a type, or None."""
        with self._lock:
            return self._overrides.get(name)

    def get_overrides(self) -> list[RuleOverride]:
        """Return all overrides, in the order of their registration."""
        with self._lock:
            return list(self._overrides.values())

    def clear(self) -> None:
        """Remove everything. Executors and actions aren't closed."""
        with self._lock:
            self._executors.clear()
            self._actions.clear()
            self._overrides.clear()

    @staticmethod
    def get_global_instance() -> RuleRegistry:
        """Return the registry of the process."""
        return _global_instance

    @staticmethod
    def register_rule_executor(rule_executor: RuleExecutor) -> None:
        """Add an executor to the registry of the process."""
        _global_instance.register_executor(rule_executor)

    @staticmethod
    def register_rule_action(rule_action: RuleAction) -> None:
        """Add an action to the registry of the process."""
        _global_instance.register_action(rule_action)

    @staticmethod
    def register_rule_override(rule_override: RuleOverride) -> None:
        """Add an override to the registry of the process."""
        _global_instance.register_override(rule_override)


_global_instance = RuleRegistry()
