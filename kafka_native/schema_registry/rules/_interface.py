"""The parts of serializers and of the registry client that rules use.

An executor also works in confluent_kafka's serializers. So rule modes, kinds and field types are
compared with text: the enumerations of both packages derive from ``str``.
"""

from __future__ import annotations

import abc

from kafka_native.schema_registry.error import SchemaRegistryError
from kafka_native.schema_registry.rule_registry import RuleRegistry
from kafka_native.schema_registry.rule_types import (
    FieldContext,
    FieldRuleExecutor,
    FieldTransform,
    RuleAction,
    RuleContext,
    RuleError,
    RuleExecutor,
)

__all__ = [
    "BYTES",
    "CONDITION",
    "READ",
    "STRING",
    "WRITE",
    "FieldContext",
    "FieldRuleExecutor",
    "FieldTransform",
    "RegisteredExecutor",
    "RuleAction",
    "RuleContext",
    "RuleError",
    "RuleExecutor",
    "RuleRegistry",
    "SchemaRegistryError",
]

READ = "READ"
WRITE = "WRITE"
CONDITION = "CONDITION"
STRING = "STRING"
BYTES = "BYTES"


class RegisteredExecutor(RuleExecutor, abc.ABC):
    """An executor that registers itself. It needs no arguments."""

    @classmethod
    def register(cls) -> None:
        """Add an executor for all serializers of this process."""
        RuleRegistry.register_rule_executor(cls())
