"""The action DLQ writes a message whose rule has failed to another topic, and refuses it."""

from __future__ import annotations

import copy
import importlib
import json
import logging
import struct
import threading
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from kafka_native.producer import Producer
from kafka_native.schema_registry.rule_types import (
    DLQ_HEADER_PREFIX,
    DLQ_RULE_EXCEPTION_HEADER,
    DLQ_RULE_MODE_HEADER,
    DLQ_RULE_NAME_HEADER,
    DLQ_RULE_SUBJECT_HEADER,
    DLQ_RULE_TOPIC_HEADER,
)
from kafka_native.schema_registry.rules._interface import (
    BYTES,
    STRING,
    FieldContext,
    FieldRuleExecutor,
    FieldTransform,
    RuleAction,
    RuleContext,
    RuleRegistry,
)
from kafka_native.schema_registry.schemas import Rule, RuleKind, RuleMode
from kafka_native.serialization import MessageField, SerializationError

__all__ = ["DlqAction", "FieldRedactionExecutor"]

log = logging.getLogger(__name__)

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
REDACTED_TYPES = "ENCRYPT,ENCRYPT_PAYLOAD"
PRODUCER_DEFAULTS = {"acks": "all", "message.timeout.ms": 0}


class FieldRedactionExecutor(FieldRuleExecutor):
    """Replaces text and bytes of tagged fields by ``<REDACTED>``."""

    TYPE = "REDACT"
    REDACTED_STRING = "<REDACTED>"
    REDACTED_BYTES = b"<REDACTED>"

    def type(self) -> str:
        """Return the rule type ``REDACT``."""
        return self.TYPE

    def new_transform(self, ctx: RuleContext) -> FieldTransform:
        """Return the function that redacts one field.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        """
        return self._redact

    def _redact(self, ctx: RuleContext, field_ctx: FieldContext, value: Any) -> Any:
        if value is not None and field_ctx.field_type == STRING:
            return self.REDACTED_STRING
        if value is not None and field_ctx.field_type == BYTES:
            return self.REDACTED_BYTES
        return value

    @classmethod
    def register(cls) -> FieldRedactionExecutor:
        """Add an executor for all serializers of this process, and return it."""
        executor = cls()
        RuleRegistry.register_rule_executor(executor)
        return executor


class DlqAction(RuleAction):
    """Writes messages whose rule has failed to a dead letter queue, then refuses them.

    The written message has the headers of the failed one, and ``__rule.name``, ``__rule.mode``,
    ``__rule.subject``, ``__rule.topic`` and ``__rule.exception``. A deserializer that reads it
    skips the rule of that name.

    A message that was read is written as it was. A message that could not be written is JSON, and
    its text and bytes that a rule would have encrypted are redacted: those of the tagged fields, or
    the whole of a message that a rule without tags would have encrypted. If the redaction fails,
    the message is written without key and value.

    Parameters
    ----------
    conf : dict[str, Any], optional
        The properties. All others are those of the producer.

        ``dlq.topic`` : str
            The topic. By default, it is the parameter ``dlq.topic`` of the rule.
        ``dlq.auto.flush`` : bool
            Whether each message is delivered before the serializer continues. Default: False.
        ``dlq.redact.rule.types`` : str
            The types of the rules whose fields are redacted, with commas between them. Default:
            ``ENCRYPT,ENCRYPT_PAYLOAD``.
        ``producer`` : Producer
            Your own producer. By default, the first failure makes one.
    """

    TYPE = "DLQ"
    DLQ_TOPIC = "dlq.topic"
    DLQ_AUTO_FLUSH = "dlq.auto.flush"
    DLQ_REDACT_RULE_TYPES = "dlq.redact.rule.types"
    DLQ_REDACT_RULE_TYPES_DEFAULT = REDACTED_TYPES
    PRODUCER = "producer"
    HEADER_PREFIX = DLQ_HEADER_PREFIX
    RULE_NAME = DLQ_RULE_NAME_HEADER
    RULE_MODE = DLQ_RULE_MODE_HEADER
    RULE_SUBJECT = DLQ_RULE_SUBJECT_HEADER
    RULE_TOPIC = DLQ_RULE_TOPIC_HEADER
    RULE_EXCEPTION = DLQ_RULE_EXCEPTION_HEADER

    def __init__(self, conf: dict[str, Any] | None = None) -> None:
        self._conf = dict(conf or {})
        self._lock = threading.Lock()
        self._producer: Any = None

    def type(self) -> str:
        """Return the name of the action, ``DLQ``."""
        return self.TYPE

    def configure(self, client_conf: dict[str, Any], rule_conf: dict[str, Any]) -> None:
        """Accept the properties that begin with ``dlq.``, and ``producer``.

        Parameters
        ----------
        client_conf : dict[str, Any]
            The configuration of the schema registry client. It has no effect.
        rule_conf : dict[str, Any]
            The ``rule_conf`` of the serializer or deserializer.
        """
        own = {name: value for name, value in (rule_conf or {}).items() if self._is_own(name)}
        with self._lock:
            self._conf.update(own)

    def _is_own(self, name: str) -> bool:
        return name == self.PRODUCER or name.startswith("dlq.")

    def run(self, ctx: RuleContext, message: Any, ex: Exception | None) -> None:
        """Write the message, then raise SerializationError.

        A message that can't be written is logged.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        message : Any
            The message.
        ex : Exception, optional
            The failure of the rule.

        Raises
        ------
        SerializationError
            Always: the rule has failed.
        """
        topic = self._conf.get(self.DLQ_TOPIC) or ctx.get_parameter(self.DLQ_TOPIC)
        if not topic:
            raise SerializationError(
                f"the rule {ctx.rule.name} failed, and its action DLQ has no dlq.topic"
            ) from ex
        try:
            self._write(topic, ctx, ex)
        except Exception:
            log.exception("the dead letter queue %s didn't accept a message", topic)
        reason = f": {ex}" if ex is not None else ""
        raise SerializationError(f"the rule {ctx.rule.name} failed{reason}") from ex

    def _write(self, topic: str, ctx: RuleContext, ex: Exception | None) -> None:
        try:
            key = self._to_bytes(ctx, ctx.original_key, MessageField.KEY)
            value = self._to_bytes(ctx, ctx.original_value, MessageField.VALUE)
        except Exception:
            log.exception("a message for the dead letter queue %s has no content", topic)
            key = value = None
        producer = self._get_producer()
        producer.produce(
            topic, key=key, value=value, headers=_headers(ctx, ex), on_delivery=_report(topic)
        )
        producer.poll(0)
        if str(self._conf.get(self.DLQ_AUTO_FLUSH, False)).lower() == "true":
            producer.flush()

    def _get_producer(self) -> Any:
        with self._lock:
            if self._producer is None:
                self._producer = self._conf.get(self.PRODUCER)
            if self._producer is None:
                conf = {name: each for name, each in self._conf.items() if not self._is_own(name)}
                self._producer = Producer({**PRODUCER_DEFAULTS, **conf})
            return self._producer

    def _to_bytes(self, ctx: RuleContext, value: Any, part: MessageField) -> bytes | None:
        if value is None:
            return None
        if isinstance(value, (str, bytes, bytearray, memoryview)) and self._is_secret(ctx, part):
            return FieldRedactionExecutor.REDACTED_BYTES
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, (str, uuid.UUID)):
            return str(value).encode()
        if isinstance(value, int) and not isinstance(value, bool):
            if INT64_MIN <= value <= INT64_MAX:
                return struct.pack(">q", value)
        elif isinstance(value, float):
            return struct.pack(">d", value)
        return _json(self._redacted(ctx, value))

    def _is_secret(self, ctx: RuleContext, part: MessageField) -> bool:
        """Return whether a rule would have encrypted the whole of this part of the message."""
        if ctx.rule_mode != RuleMode.WRITE or ctx.ser_ctx.field != part:
            return False
        return any(not rule.tags for rule in self._redacting_rules(ctx))

    def _redacting_rules(self, ctx: RuleContext) -> list[Rule]:
        types = str(self._conf.get(self.DLQ_REDACT_RULE_TYPES, REDACTED_TYPES)).split(",")
        wanted = {each.strip() for each in types}
        rule_set = getattr(ctx.target, "rule_set", None)
        every = [*ctx.rules, *(getattr(rule_set, "encoding_rules", None) or [])]
        return [rule for rule in every if rule.type in wanted]

    def _redacted(self, ctx: RuleContext, value: Any) -> Any:
        """Return a copy without the fields that a rule of the schema would have encrypted."""
        rules = self._redacting_rules(ctx)
        if not rules:
            return value
        # A rule without tags covers the whole message.
        tags = sorted({tag for rule in rules for tag in rule.tags or ()})
        covers_all = any(not rule.tags for rule in rules)
        new_rule = Rule(
            "redact",
            None,
            RuleKind.TRANSFORM,
            ctx.rule_mode,
            FieldRedactionExecutor.TYPE,
            None if covers_all else tags,
            None,
            None,
            None,
            None,
            False,
        )
        new_ctx = RuleContext(
            ctx.enabled_env,
            ctx.ser_ctx,
            ctx.source,
            ctx.target,
            ctx.subject,
            ctx.rule_mode,
            new_rule,
            0,
            [new_rule],
            ctx.inline_tags,
            ctx.field_transformer,
        )
        return FieldRedactionExecutor().transform(new_ctx, copy.deepcopy(value))

    def close(self) -> None:
        """Wait until the messages are delivered."""
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush()

    @classmethod
    def register(cls, conf: dict[str, Any] | None = None) -> DlqAction:
        """Add an action for all serializers of this process, and return it.

        Parameters
        ----------
        conf : dict[str, Any], optional
            The properties, as for the class.
        """
        action = cls(conf)
        RuleRegistry.register_rule_action(action)
        return action


def _json(value: Any) -> bytes:
    if hasattr(value, "DESCRIPTOR"):
        text = importlib.import_module("google.protobuf.json_format").MessageToJson(value)
        return str(text).encode()
    return json.dumps(value, default=_json_default).encode()


def _json_default(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return value.decode("latin-1")
    return str(value)


def _headers(ctx: RuleContext, ex: Exception | None) -> list[tuple[str, bytes | None]]:
    incoming = ctx.ser_ctx.headers if ctx.ser_ctx is not None else None
    pairs: Iterable[Any] = incoming.items() if isinstance(incoming, dict) else incoming or ()
    headers = [(name, _header(value)) for name, value in pairs]
    own = {
        DLQ_RULE_NAME_HEADER: ctx.rule.name,
        DLQ_RULE_MODE_HEADER: getattr(ctx.rule_mode, "value", ctx.rule_mode),
        DLQ_RULE_SUBJECT_HEADER: ctx.subject,
        DLQ_RULE_TOPIC_HEADER: ctx.ser_ctx.topic if ctx.ser_ctx is not None else None,
    }
    if ex is not None:
        own[DLQ_RULE_EXCEPTION_HEADER] = str(ex)
    return headers + [(name, _header(value)) for name, value in own.items()]


def _header(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return bytes(value) if isinstance(value, bytearray) else str(value).encode()


def _report(topic: str) -> Callable[[Any, Any], None]:
    def report(error: Any, message: Any) -> None:
        if error is not None:
            log.error("the dead letter queue %s didn't accept a message: %s", topic, error)

    return report
