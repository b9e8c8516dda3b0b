"""Runs the rules of a schema for one message."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from kafka_native.schema_registry.rule_registry import RuleRegistry
from kafka_native.schema_registry.rule_types import (
    DLQ_RULE_NAME_HEADER,
    ErrorAction,
    FieldTransformer,
    NoneAction,
    RuleAction,
    RuleConditionError,
    RuleContext,
    RuleError,
    get_original_key,
)
from kafka_native.schema_registry.schemas import (
    Rule,
    RuleKind,
    RuleMode,
    RulePhase,
    Schema,
)
from kafka_native.serialization import MessageField, SerializationContext, SerializationError

__all__ = ["has_migration_rules", "run_rules"]

log = logging.getLogger(__name__)

_WRITING = (RuleMode.WRITE, RuleMode.UPGRADE)
_BOTH_WAYS = {
    RuleMode.WRITEREAD: (RuleMode.WRITE, RuleMode.READ),
    RuleMode.UPDOWN: (RuleMode.UPGRADE, RuleMode.DOWNGRADE),
}
_BUILT_IN_ACTIONS: dict[str, RuleAction] = {"ERROR": ErrorAction(), "NONE": NoneAction()}


def has_migration_rules(schema: Schema | None, mode: RuleMode) -> bool:
    """Return whether a schema has migration rules for UPGRADE or DOWNGRADE."""
    rule_set = schema.rule_set if schema is not None else None
    rules = (rule_set.migration_rules if rule_set is not None else None) or []
    return any(_runs_in(rule, mode) for rule in rules)


def _runs_in(rule: Rule, mode: RuleMode) -> bool:
    return rule.mode == mode or (rule.mode in _BOTH_WAYS and mode in _BOTH_WAYS[rule.mode])


def _rules_of(
    phase: RulePhase, mode: RuleMode, source: Schema | None, target: Schema
) -> tuple[str | None, list[Rule]]:
    """Return where the rules run, and the rules in their order."""
    schema = source if mode == RuleMode.DOWNGRADE else target
    rule_set = schema.rule_set if schema is not None else None
    if rule_set is None:
        return None, []
    if mode in (RuleMode.UPGRADE, RuleMode.DOWNGRADE):
        rules = rule_set.migration_rules
    elif phase == RulePhase.ENCODING:
        rules = rule_set.encoding_rules
    else:
        rules = rule_set.domain_rules
    rules = list(rules or [])
    if mode in (RuleMode.READ, RuleMode.DOWNGRADE):
        rules.reverse()  # reading undoes the last step first
    return rule_set.enable_at, rules


def run_rules(
    registry: RuleRegistry,
    ser_ctx: SerializationContext,
    subject: str,
    mode: RuleMode,
    source: Schema | None,
    target: Schema | None,
    phase: RulePhase,
    message: Any,
    inline_tags: Mapping[str, set[str]] | None = None,
    field_transformer: FieldTransformer | None = None,
    original: Any = None,
) -> Any:
    """Run the rules of a schema, and return the message that they leave.

    :param source: The older schema of a migration. None otherwise.
    :param target: The schema. None has no rules.
    :param original: The key or value before conversion. None: the message itself.
    :raises SerializationError: A rule failed, and its action refuses the message.
    """
    if message is None or target is None:
        return message
    enabled_env, rules = _rules_of(phase, mode, source, target)
    if not rules:
        return message
    if original is None:
        original = message
    is_key = ser_ctx.field == MessageField.KEY
    keys = (original, None) if is_key else (get_original_key(), original)
    for index, rule in enumerate(rules):
        ctx = RuleContext(
            enabled_env,
            ser_ctx,
            source,
            target,
            subject,
            mode,
            rule,
            index,
            rules,
            inline_tags,
            field_transformer,
            *keys,
        )
        if not _runs_in(rule, mode) or _is_disabled(registry, ctx) or _is_replay(ctx):
            continue
        executor = registry.get_executor(rule.type.upper()) if rule.type else None
        if executor is None:
            missing = RuleError(f"no executor of type {rule.type} is registered")
            _run_action(registry, ctx, message, missing)
            return message
        try:
            message = _apply(ctx, executor.transform(ctx, message), message)
            _run_action(registry, ctx, message, None)
        except SerializationError:
            raise
        except Exception as error:
            _run_action(registry, ctx, message, error)
    return message


def _apply(ctx: RuleContext, result: Any, message: Any) -> Any:
    if ctx.rule.kind == RuleKind.CONDITION:
        if not result:
            raise RuleConditionError(ctx.rule)
        return message
    return result if ctx.rule.kind == RuleKind.TRANSFORM else message


def _is_disabled(registry: RuleRegistry, ctx: RuleContext) -> bool:
    override = registry.get_override(ctx.rule.type) if ctx.rule.type else None
    if override is not None and override.disabled is not None:
        return override.disabled
    if ctx.enabled_env not in (None, "ALL", "CLIENT"):
        return True
    return bool(ctx.rule.disabled)


def _is_replay(ctx: RuleContext) -> bool:
    """Return whether the message comes from a dead letter queue to which this rule has sent it."""
    headers = ctx.ser_ctx.headers
    if not headers or ctx.rule.name is None:
        return False
    # dict() of pairs keeps the last header of a name.
    value = dict(headers).get(DLQ_RULE_NAME_HEADER)
    if isinstance(value, bytes | bytearray):
        return bytes(value) == ctx.rule.name.encode()
    return bool(value == ctx.rule.name)


def _action_name(
    registry: RuleRegistry, ctx: RuleContext, message: Any, error: Exception | None
) -> str:
    """Return the name of the action after a rule. A transformation to None is a failure."""
    rule = ctx.rule
    failed = error is not None or message is None
    override = registry.get_override(rule.type) if rule.type else None
    name: str | None = rule.on_failure if failed else rule.on_success
    if override is not None:
        name = (override.on_failure if failed else override.on_success) or name
    if not name:
        return "ERROR" if failed else "NONE"
    if rule.mode in _BOTH_WAYS and "," in name:
        names = name.split(",")
        return names[0 if ctx.rule_mode in _WRITING else 1]
    return name


def _run_action(
    registry: RuleRegistry, ctx: RuleContext, message: Any, error: Exception | None
) -> None:
    name = _action_name(registry, ctx, message, error)
    action = _BUILT_IN_ACTIONS.get(name) or registry.get_action(name)
    if action is None:
        raise SerializationError(
            f"rule {ctx.rule.name} of subject {ctx.subject} needs the action {name}, and no such "
            "action is registered: call RuleRegistry.register_action()"
        ) from error
    try:
        action.run(ctx, message, error)
    except SerializationError:
        raise
    except Exception:
        log.warning("Rule %s: its action %s raised", ctx.rule.name, name, exc_info=True)
