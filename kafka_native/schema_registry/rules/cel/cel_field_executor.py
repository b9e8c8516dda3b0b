"""Rules of the type CEL_FIELD: an expression tests or replaces tagged fields."""

from __future__ import annotations

from typing import Any

from kafka_native.schema_registry.rules._interface import (
    FieldContext,
    FieldRuleExecutor,
    FieldTransform,
    RegisteredExecutor,
    RuleContext,
)
from kafka_native.schema_registry.rules.cel.cel_executor import CelExecutor
from kafka_native.schema_registry.rules.cel.values import element_to_cel, to_cel

__all__ = ["CelFieldExecutor"]


class CelFieldExecutor(RegisteredExecutor, FieldRuleExecutor):
    """Runs CEL expressions for the fields of a message that have plain values.

    The variables are ``value``, ``fullName``, ``name``, ``typeName``, ``tags``, ``message`` (the
    record around the field) and ``now``.
    """

    def __init__(self) -> None:
        self._executor = CelExecutor()

    def type(self) -> str:
        """Return the rule type ``CEL_FIELD``."""
        return "CEL_FIELD"

    def new_transform(self, ctx: RuleContext) -> FieldTransform:
        """Return the function that tests or replaces one field.

        Parameters
        ----------
        ctx : RuleContext
            The run of the rule.
        """
        return self._transform_field

    def _transform_field(self, ctx: RuleContext, field_ctx: FieldContext, value: Any) -> Any:
        if not field_ctx.is_primitive():
            return value
        descriptor = getattr(field_ctx, "field_descriptor", None)
        args = {
            "value": to_cel(value) if descriptor is None else element_to_cel(value, descriptor),
            "fullName": to_cel(field_ctx.full_name),
            "name": to_cel(field_ctx.name),
            "typeName": to_cel(field_ctx.type_name()),
            "tags": to_cel(sorted(field_ctx.tags)),
            "message": to_cel(field_ctx.containing_message),
        }
        return self._executor.execute(ctx, value, args)
