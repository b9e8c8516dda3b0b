"""The interface of data-contract rules: executors, actions, and the context that they get.

A schema in the registry may have rules. Serializers and deserializers run them with the executors
and actions of a `RuleRegistry`. The classes are those of ``confluent_kafka.schema_registry``.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from enum import Enum
from typing import Any, TypeAlias

from kafka_native.schema_registry.schemas import Rule, RuleKind, RuleMode, Schema
from kafka_native.schema_registry.wildcard_matcher import wildcard_match
from kafka_native.serialization import SerializationContext, SerializationError

__all__ = [
    "DLQ_HEADER_PREFIX",
    "DLQ_RULE_EXCEPTION_HEADER",
    "DLQ_RULE_MODE_HEADER",
    "DLQ_RULE_NAME_HEADER",
    "DLQ_RULE_SUBJECT_HEADER",
    "DLQ_RULE_TOPIC_HEADER",
    "ErrorAction",
    "FieldContext",
    "FieldRuleExecutor",
    "FieldTransform",
    "FieldTransformer",
    "FieldType",
    "NoneAction",
    "RuleAction",
    "RuleBase",
    "RuleConditionError",
    "RuleContext",
    "RuleError",
    "RuleExecutor",
    "clear_original_key",
    "get_original_key",
    "has_rule_tag",
    "set_original_key",
]

DLQ_HEADER_PREFIX = "__rule."
DLQ_RULE_NAME_HEADER = f"{DLQ_HEADER_PREFIX}name"
DLQ_RULE_MODE_HEADER = f"{DLQ_HEADER_PREFIX}mode"
DLQ_RULE_SUBJECT_HEADER = f"{DLQ_HEADER_PREFIX}subject"
DLQ_RULE_TOPIC_HEADER = f"{DLQ_HEADER_PREFIX}topic"
DLQ_RULE_EXCEPTION_HEADER = f"{DLQ_HEADER_PREFIX}exception"

original_key: ContextVar[Any] = ContextVar("kafka_native_original_key", default=None)


def set_original_key(key: Any) -> None:
    """Store the key of the message whose value the same thread or task converts next."""
    original_key.set(key)


def get_original_key() -> Any:
    """Return the stored key of the current message, or None."""
    return original_key.get()


def clear_original_key() -> None:
    """Forget the stored key, so that the next message doesn't get it."""
    original_key.set(None)


class FieldType(str, Enum):
    """The type of a field, the same for Avro, JSON Schema and Protobuf."""

    RECORD = "RECORD"
    ENUM = "ENUM"
    ARRAY = "ARRAY"
    MAP = "MAP"
    COMBINED = "COMBINED"
    FIXED = "FIXED"
    STRING = "STRING"
    BYTES = "BYTES"
    INT = "INT"
    LONG = "LONG"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    BOOLEAN = "BOOLEAN"
    NULL = "NULL"


_COMPOSITE_TYPES = frozenset(
    {
        FieldType.RECORD,
        FieldType.ENUM,
        FieldType.ARRAY,
        FieldType.MAP,
        FieldType.COMBINED,
        FieldType.FIXED,
    }
)


class FieldContext:
    """The field that a `FieldTransform` gets.

    :param containing_message: The record, object or message that has the field.
    :param full_name: The field's full name in the registered schema.
    :param name: The field's name in the registered schema.
    :param field_type: The field's type.
    :param tags: The field's tags, of the schema itself and of its metadata.
    :param field_descriptor: The Protobuf descriptor of the field in your own message class. None
        for Avro and JSON Schema.
    """

    __slots__ = (
        "containing_message",
        "field_descriptor",
        "field_type",
        "full_name",
        "name",
        "tags",
    )

    def __init__(
        self,
        containing_message: Any,
        full_name: str,
        name: str,
        field_type: FieldType,
        tags: set[str],
        field_descriptor: Any = None,
    ) -> None:
        self.containing_message = containing_message
        self.full_name = full_name
        self.name = name
        self.field_type = field_type
        self.tags = tags
        self.field_descriptor = field_descriptor

    def is_primitive(self) -> bool:
        """Return whether the field has one plain value: a number, text, bytes, a bool or null."""
        return self.field_type not in _COMPOSITE_TYPES

    def type_name(self) -> str:
        """Return the name of the field's type, for instance ``STRING``."""
        return self.field_type.name


class RuleContext:
    """The context of one rule that runs for one message.

    :param enabled_env: The place where the schema's rules run: ``ALL``, ``CLIENT`` or another.
    :param ser_ctx: The topic, the field (key or value) and the headers.
    :param source: The older schema of a migration. None otherwise.
    :param target: The schema that has the rules.
    :param subject: The schema's subject.
    :param rule_mode: What happens to the message: WRITE, READ, UPGRADE or DOWNGRADE.
    :param rule: The rule that runs.
    :param index: The position of the rule in ``rules``.
    :param rules: All rules of this phase, in the order in which they run.
    :param inline_tags: The tags in the schema's own text, by full field name.
    :param field_transformer: Walks through a message's fields. See `FieldTransformer`.
    :param original_key: The key before conversion, if a serializer or deserializer has seen it. The
        rules of the key have changed its fields.
    :param original_value: The value before conversion. None while a key is converted.
    """

    __slots__ = (
        "_field_contexts",
        "enabled_env",
        "field_transformer",
        "index",
        "inline_tags",
        "original_key",
        "original_value",
        "rule",
        "rule_mode",
        "rules",
        "ser_ctx",
        "source",
        "subject",
        "target",
    )

    def __init__(
        self,
        enabled_env: str | None,
        ser_ctx: SerializationContext,
        source: Schema | None,
        target: Schema | None,
        subject: str,
        rule_mode: RuleMode,
        rule: Rule,
        index: int,
        rules: list[Rule],
        inline_tags: Mapping[str, set[str]] | None,
        field_transformer: FieldTransformer | None,
        original_key: Any = None,
        original_value: Any = None,
    ) -> None:
        self.enabled_env = enabled_env
        self.ser_ctx = ser_ctx
        self.source = source
        self.target = target
        self.subject = subject
        self.rule_mode = rule_mode
        self.rule = rule
        self.index = index
        self.rules = rules
        self.inline_tags = inline_tags
        self.field_transformer = field_transformer
        self.original_key = original_key
        self.original_value = original_value
        self._field_contexts: list[FieldContext] = []

    def get_parameter(self, name: str) -> str | None:
        """Return a parameter of the rule, or else a property of the schema's metadata, or None."""
        params = self.rule.params
        if params is not None and params.params.get(name) is not None:
            own: str | None = params.params[name]
            return own
        metadata = self.target.metadata if self.target is not None else None
        properties = metadata.properties if metadata is not None else None
        found: str | None = properties.properties.get(name) if properties is not None else None
        return found

    def current_field(self) -> FieldContext | None:
        """Return the innermost field that the walk has entered, or None outside of fields."""
        return self._field_contexts[-1] if self._field_contexts else None

    def enter_field(
        self,
        containing_message: Any,
        full_name: str,
        name: str,
        field_type: FieldType,
        tags: Iterable[str] | None,
        field_descriptor: Any = None,
    ) -> FieldContext:
        """Note that the walk enters a field, and return the field's context.

        :param tags: The field's tags in the schema's text. None takes them from ``inline_tags``.
        """
        if tags is None:
            tags = (self.inline_tags or {}).get(full_name, ())
        field = FieldContext(
            containing_message,
            full_name,
            name,
            field_type,
            {*tags, *self.get_tags(full_name)},
            field_descriptor,
        )
        self._field_contexts.append(field)
        return field

    def get_tags(self, full_name: str) -> set[str]:
        """Return the tags that the schema's metadata gives to a field."""
        metadata = self.target.metadata if self.target is not None else None
        if metadata is None or metadata.tags is None:
            return set()
        found: set[str] = set()
        for pattern, tags in metadata.tags.tags.items():
            if wildcard_match(full_name, pattern):
                found.update(tags)
        return found

    def exit_field(self) -> None:
        """Note that the walk leaves the innermost field."""
        if self._field_contexts:
            self._field_contexts.pop()


FieldTransform: TypeAlias = Callable[[RuleContext, FieldContext, Any], Any]
"""Takes the value of one field and returns the new value, or for a condition a bool."""

FieldTransformer: TypeAlias = Callable[[RuleContext, FieldTransform, Any], Any]
"""Calls a `FieldTransform` for the fields of a message, and returns the message."""


def has_rule_tag(ctx: RuleContext, field: FieldContext) -> bool:
    """Return whether the rule has no tags, or one of the field's tags."""
    return not ctx.rule.tags or not field.tags.isdisjoint(ctx.rule.tags)


class RuleBase(abc.ABC):
    """The common base of executors and actions."""

    def configure(self, client_conf: dict[str, Any], rule_conf: dict[str, Any]) -> None:  # noqa: B027
        """Take the configuration. Each serializer and deserializer calls it once.

        :param client_conf: The configuration of the schema registry client.
        :param rule_conf: The ``rule_conf`` of the serializer or deserializer.
        """

    @abc.abstractmethod
    def type(self) -> str:
        """Return the name by which rules refer to it, for instance ``CEL``."""
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027
        """Release resources. Closing a serializer or deserializer calls it."""


class RuleExecutor(RuleBase):
    """Runs the rules of one type."""

    @abc.abstractmethod
    def transform(self, ctx: RuleContext, message: Any) -> Any:
        """Run a rule.

        :returns: For a condition, whether the message satisfies it. For a transformation, the new
            message.
        """
        raise NotImplementedError


class FieldRuleExecutor(RuleExecutor):
    """Runs the rules of one type for each field of a message."""

    @abc.abstractmethod
    def new_transform(self, ctx: RuleContext) -> FieldTransform:
        """Return the function for the fields of one message."""
        raise NotImplementedError

    def transform(self, ctx: RuleContext, message: Any) -> Any:
        """Run the rule for each field that has one of its tags.

        Of several transformations with the same tags, only one runs: the first when writing, the
        last when reading.
        """
        if ctx.rule_mode in (RuleMode.WRITE, RuleMode.UPGRADE):
            rivals = ctx.rules[: ctx.index]
        else:
            rivals = ctx.rules[ctx.index + 1 :]
        if any(self.are_transforms_with_same_tag(ctx.rule, rival) for rival in rivals):
            return message
        if ctx.field_transformer is None:
            raise RuleError(f"rule {ctx.rule.name} needs fields, and this phase has only bytes")
        return ctx.field_transformer(ctx, self.new_transform(ctx), message)

    @staticmethod
    def are_transforms_with_same_tag(rule1: Rule, rule2: Rule) -> bool:
        """Return whether two rules are transformations of the same type, mode and tags."""
        return (
            bool(rule1.tags)
            and rule1.kind == RuleKind.TRANSFORM == rule2.kind
            and (rule1.mode, rule1.type, rule1.tags) == (rule2.mode, rule2.type, rule2.tags)
        )


class RuleAction(RuleBase):
    """Runs after a rule has succeeded or failed."""

    @abc.abstractmethod
    def run(self, ctx: RuleContext, message: Any, ex: Exception | None) -> None:
        """Run the action.

        :param message: The message as the rule has left it.
        :param ex: The rule's exception. None if the rule has succeeded.
        :raises SerializationError: The message must not be written or returned.
        """
        raise NotImplementedError


class ErrorAction(RuleAction):
    """Raises SerializationError. It is the default action after a failure."""

    def type(self) -> str:
        """Return ``ERROR``, the name of this action."""
        return "ERROR"

    def run(self, ctx: RuleContext, message: Any, ex: Exception | None) -> None:
        """Raise SerializationError, with the rule's exception as its cause."""
        reason = str(ex) if ex is not None else "the rule returned no message"
        field = getattr(ctx.ser_ctx.field, "value", ctx.ser_ctx.field)
        raise SerializationError(
            f"topic {ctx.ser_ctx.topic}, {field}: rule {ctx.rule.name} of subject {ctx.subject} "
            f"failed: {reason}"
        ) from ex


class NoneAction(RuleAction):
    """Does nothing. It is the default action after a success."""

    def type(self) -> str:
        """Return ``NONE``, the name of this action."""
        return "NONE"

    def run(self, ctx: RuleContext, message: Any, ex: Exception | None) -> None:
        """Do nothing, so that the message goes on."""


class RuleError(Exception):
    """A rule can't run, or has failed."""


class RuleConditionError(RuleError):
    """A message doesn't satisfy a condition.

    :param rule: The condition.
    """

    def __init__(self, rule: Rule) -> None:
        super().__init__(self.error_message(rule))

    @staticmethod
    def error_message(rule: Rule) -> str:
        """Return the rule's documentation, or else its expression, or else its name."""
        if rule.doc:
            return str(rule.doc)
        if rule.expr:
            return f"the message doesn't satisfy `{rule.expr}`"
        return f"the message doesn't satisfy rule {rule.name}"
