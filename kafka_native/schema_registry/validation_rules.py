"""Rules in the text of a schema (``confluent:rules``), which serializers check with an executor."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kafka_native.schema_registry.rule_types import RuleError
from kafka_native.serialization import SerializationError

__all__ = [
    "VALIDATION_RULES_PROP",
    "ValidationRule",
    "ValidationRuleError",
    "ValidationRuleExecutor",
    "ValidationRulesExecution",
    "evaluate_validation_rule",
    "parse_validation_rules",
]

VALIDATION_RULES_PROP = "confluent:rules"
"""The attribute of records, objects and their fields that has the rules."""


class ValidationRulesExecution(str, Enum):
    """When a serializer checks the rules in a schema's text."""

    DISABLED = "DISABLED"
    BEFORE_DOMAIN_RULES = "BEFORE_DOMAIN_RULES"
    AFTER_DOMAIN_RULES = "AFTER_DOMAIN_RULES"


@dataclass(unsafe_hash=True)
class ValidationRule:
    """A rule of a record, object or message, or of one of its fields.

    :param name: The rule's name.
    :param doc: Its documentation, which is the text of a violation.
    :param expr: Its expression, for instance in CEL.
    :param sql: The same as a condition in SQL.
    """

    name: str | None = None
    doc: str | None = None
    expr: str | None = None
    sql: str | None = None


@dataclass(unsafe_hash=True)
class ValidationRuleError:
    """A violation of a rule.

    :param rule: The rule.
    :param field_path: The path of the value that violates it. Empty for the whole message.
    :param message: The text that the rule returned.
    :param cause: The executor's exception.
    """

    rule: ValidationRule
    field_path: str | None = None
    message: str | None = None
    cause: Exception | None = field(default=None, compare=False)

    def __str__(self) -> str:
        rule = self.rule
        detail = self.message or rule.doc or rule.sql or rule.expr
        text = f"{self.field_path or '<root>'}: {rule.name or 'unnamed'}: {detail}"
        return text if self.cause is None else f"{text} (caused by: {self.cause})"


class ValidationRuleExecutor(abc.ABC):
    """Evaluates the rules in a schema's text."""

    @abc.abstractmethod
    def execute(self, rule: ValidationRule, schema: Any, message: Any) -> Any:
        """Evaluate a rule.

        :param schema: The schema of the value: Python objects, or a Protobuf descriptor.
        :param message: The value.
        :returns: True or an empty text if the value satisfies the rule. False or a text otherwise.
        :raises RuleError: The rule can't be evaluated.
        """
        raise NotImplementedError


def parse_validation_rules(prop_value: Any) -> list[ValidationRule]:
    """Return the rules of a ``confluent:rules`` attribute."""
    entries = prop_value if isinstance(prop_value, list) else []
    return [
        ValidationRule(each.get("name"), each.get("doc"), each.get("expr"), each.get("sql"))
        for each in entries
        if isinstance(each, dict)
    ]


def evaluate_validation_rule(
    executor: ValidationRuleExecutor,
    rule: ValidationRule,
    schema: Any,
    value: Any,
    path: str,
    out: list[ValidationRuleError],
) -> None:
    """Evaluate a rule, and add its violation to a list.

    :raises SerializationError: The executor returned neither a bool nor a text.
    """
    try:
        result = executor.execute(rule, schema, value)
    except RuleError as error:
        out.append(ValidationRuleError(rule, path, None, error))
        return
    if not isinstance(result, bool | str):
        raise SerializationError(
            f"rule {rule.name or 'unnamed'} returned {type(result).__name__}, not a bool or a text"
        )
    if result is False:
        out.append(ValidationRuleError(rule, path))
    elif isinstance(result, str) and result:
        out.append(ValidationRuleError(rule, path, result))


class FirstViolation(Exception):
    """Ends a walk at the first violation."""


class Validation:
    """One check of a message: collects the violations."""

    def __init__(self, executor: ValidationRuleExecutor, fail_fast: bool) -> None:
        self._executor, self._fail_fast = executor, fail_fast
        self.violations: list[ValidationRuleError] = []

    def check(self, rules: Iterable[ValidationRule], schema: Any, value: Any, path: str) -> None:
        """Evaluate the rules of one value.

        :raises FirstViolation: There is a violation, and it ends the check.
        """
        for rule in rules:
            evaluate_validation_rule(self._executor, rule, schema, value, path, self.violations)
            if self._fail_fast and self.violations:
                raise FirstViolation

    def raise_violations(self, place: str) -> None:
        """Raise SerializationError with all violations, if there are any.

        :param place: The start of the text.
        """
        if self.violations:
            count = len(self.violations)
            lines = [f"{place}: {count} validation rule{'s' if count > 1 else ''} failed:"]
            raise SerializationError("\n  - ".join([*lines, *map(str, self.violations)]))
