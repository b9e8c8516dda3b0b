"""The parts of serializers that rules use: base classes, contexts and errors.

The contexts are protocols. So an executor also works in serializers of other packages with the
same interface. Enumerations of the registry are strings here: a rule mode is compared with
``"WRITE"``, for example, because the enumerations derive from ``str``.
"""

from __future__ import annotations

import abc
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

READ = "READ"
WRITE = "WRITE"
UPGRADE = "UPGRADE"
DOWNGRADE = "DOWNGRADE"
CONDITION = "CONDITION"
TRANSFORM = "TRANSFORM"
STRING = "STRING"
BYTES = "BYTES"

RULE_REGISTRY_MODULE = "kafka_native.schema_registry.rule_registry"


class RuleError(Exception):
    """A rule could not be applied to a message."""


class SchemaRegistryError(Exception):
    """The registry refused a request.

    Parameters
    ----------
    http_status_code : int
        The HTTP status.
    error_code : int
        The registry's error code, or -1 if there is none.
    error_message : str
        The registry's description.
    """

    UNKNOWN = -1

    def __init__(self, http_status_code: int, error_code: int, error_message: str) -> None:
        super().__init__(http_status_code, error_code, error_message)
        self.http_status_code = http_status_code
        self.error_code = error_code
        self.error_message = error_message

    def __str__(self) -> str:
        return f"{self.error_message} (HTTP {self.http_status_code}, registry {self.error_code})"


class Rule(Protocol):
    """A rule of a schema, as the registry stores it."""

    name: str
    kind: Any
    mode: Any
    type: Any
    tags: Any
    expr: Any


class FieldContext(Protocol):
    """The field that a transform is applied to."""

    containing_message: Any
    full_name: str
    name: str
    field_type: Any
    tags: set[str]

    def is_primitive(self) -> bool:
        """Return whether the field is neither a container nor an enum."""
        ...

    def type_name(self) -> str:
        """Return the name of the field's type, such as ``STRING``."""
        ...


class RuleContext(Protocol):
    """One run of one rule: the schema, the subject, the mode and the rules around it."""

    enabled_env: Any
    ser_ctx: Any
    source: Any
    target: Any
    subject: Any
    rule_mode: Any
    rule: Any
    index: int
    rules: Any
    inline_tags: Any
    field_transformer: Any
    original_key: Any
    original_value: Any

    def get_parameter(self, name: str) -> str | None:
        """Return a parameter of the rule, else a property of the schema, else None."""
        ...


FieldTransform = Callable[[RuleContext, Any, Any], Any]


class RuleBase(abc.ABC):
    """What executors and actions have in common."""

    def configure(self, client_conf: Mapping[str, Any], rule_conf: Mapping[str, Any]) -> None:
        """Accept the configuration of the registry client and of the serializer's rules.

        Parameters
        ----------
        client_conf : Mapping[str, Any]
            The configuration of the schema registry client.
        rule_conf : Mapping[str, Any]
            The ``rule_conf`` of the serializer or deserializer.
        """
        return

    @abc.abstractmethod
    def type(self) -> str:
        """Return the rule type or action name that this object serves."""

    def close(self) -> None:
        """Release connections."""
        return


class RuleExecutor(RuleBase):
    """Applies rules of one type to messages."""

    @abc.abstractmethod
    def transform(self, ctx: RuleContext, message: Any) -> Any:
        """Return the transformed message, or a bool for a condition.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        message : Any
            The message.
        """


class FieldRuleExecutor(RuleExecutor):
    """Applies rules of one type to the tagged fields of messages."""

    @abc.abstractmethod
    def new_transform(self, ctx: RuleContext) -> FieldTransform:
        """Return the function that transforms one field.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        """

    def transform(self, ctx: RuleContext, message: Any) -> Any:
        """Apply the rule to each field with its tags.

        Among transforms of the same type, mode and tags, only the first one writes, and only the
        last one reads.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        message : Any
            The message.
        """
        others: Sequence[Any] = ()
        if ctx.rule_mode in (WRITE, UPGRADE):
            others = ctx.rules[: ctx.index]
        elif ctx.rule_mode in (READ, DOWNGRADE):
            others = ctx.rules[ctx.index + 1 :]
        if any(_same_transform(ctx.rule, other) for other in others):
            return message
        return ctx.field_transformer(ctx, self.new_transform(ctx), message)


class RuleAction(RuleBase):
    """Runs when a rule succeeds or fails."""

    @abc.abstractmethod
    def run(self, ctx: RuleContext, message: Any, ex: Exception | None) -> None:
        """Handle the outcome of a rule.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        message : Any
            The message.
        ex : Exception, optional
            The failure, or None after a success.
        """


def _same_transform(rule: Any, other: Any) -> bool:
    return (
        bool(rule.tags)
        and rule.kind == TRANSFORM
        and (rule.kind, rule.mode, rule.type, rule.tags)
        == (other.kind, other.mode, other.type, other.tags)
    )


def register_executor(executor: RuleExecutor) -> None:
    """Add an executor to the registry that all serializers share."""
    registry = importlib.import_module(RULE_REGISTRY_MODULE).RuleRegistry
    registry.register_rule_executor(executor)


def register_action(action: RuleAction) -> None:
    """Add an action to the registry that all serializers share."""
    registry = importlib.import_module(RULE_REGISTRY_MODULE).RuleRegistry
    registry.register_rule_action(action)
