"""Rules in the text of a schema, evaluated by CEL."""

from __future__ import annotations

from typing import Any

from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.cel.programs import CelPrograms
from kafka_native.schema_registry.rules.cel.values import field_to_cel, from_cel, is_message, to_cel
from kafka_native.schema_registry.validation_rules import ValidationRule, ValidationRuleExecutor

__all__ = ["CelValidator"]


class CelValidator(ValidationRuleExecutor):
    """Evaluates rules for ``validation.rules.executor`` of a serializer.

    The variable ``this`` is the value, ``now`` the time. The result is a bool, or a text that says
    what is wrong: an empty text is true.
    """

    def __init__(self) -> None:
        self._programs = CelPrograms()

    def execute(self, rule: ValidationRule, schema: Any, message: Any) -> bool | str:
        """Return whether a value satisfies a rule, or a text that says why it doesn't.

        Parameters
        ----------
        rule : ValidationRule
            The rule.
        schema : Any
            The schema of the value. A Protobuf field has its descriptor.
        message : Any
            The value.

        Raises
        ------
        RuleError
            The value is None, or the expression is missing, wrong or of another type.
        """
        if message is None:
            raise RuleError(f"the rule {rule.name} has no value to check")
        if not rule.expr:
            raise RuleError(f"the rule {rule.name} has no expression")
        is_field = not is_message(message) and hasattr(schema, "message_type")
        try:
            this = field_to_cel(message, schema) if is_field else to_cel(message)
        except (ValueError, OverflowError) as error:  # a number beyond CEL's 64 bits, for instance
            raise RuleError(f"the rule {rule.name} can't take the value: {error}") from error
        result = from_cel(self._programs.evaluate(rule.name, rule.expr, {"this": this}))
        if isinstance(result, (bool, str)):
            return result
        raise RuleError(
            f"the rule {rule.name} returned {type(result).__name__}, not a bool or a text"
        )
