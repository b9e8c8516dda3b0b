"""The operations about client quotas. They run on the control thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_native.admin._quotas import ClientQuotaAlteration, ClientQuotaEntity, ClientQuotaFilter
from kafka_native.admin._topic_operations import told
from kafka_native.control.operations import Operation, Settle, Steps
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafka_native.protocol.schema import Request


def ask_quotas(filters: list[ClientQuotaFilter]) -> Request:
    """The request, for one filter."""
    (wanted,) = filters
    components = [
        DescribeClientQuotasRequest.Component(
            entity_type=each.entity_type, match_type=each.match_type, match=each.match
        )
        for each in wanted.components
    ]
    return DescribeClientQuotasRequest(components=components, strict=wanted.strict)


def describe_quotas(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DescribeClientQuotas, to any broker."""

    def outcomes(reply: DescribeClientQuotasResponse, target: int | None) -> dict[None, Any]:
        found = {_entity(entry): {each.key: each.value for each in entry.values} for entry in reply.entries or ()}
        return {None: told(reply.error_code, reply.error_message) or found}

    return operation.rounds(items, operation.anywhere, make, outcomes, settle, change=False)


def _entity(entry: DescribeClientQuotasResponse.Entry | AlterClientQuotasResponse.Entry) -> ClientQuotaEntity:
    try:
        return ClientQuotaEntity({each.entity_type: each.entity_name for each in entry.entity})
    except ValueError as error:
        raise KafkaException(KafkaError(KafkaError._BAD_MSG, f"the broker's answer: {error}")) from None


def change_quotas(validate_only: bool, alterations: list[ClientQuotaAlteration]) -> Request:
    """The request."""
    kind = AlterClientQuotasRequest.Entry
    return AlterClientQuotasRequest(
        entries=[
            kind(
                entity=[kind.Entity(entity_type=of, entity_name=name) for of, name in each.entity.entries.items()],
                ops=[
                    kind.Op(key=key, value=0.0 if value is None else float(value), remove=value is None)
                    for key, value in each.ops.items()
                ],
            )
            for each in alterations
        ],
        validate_only=validate_only,
    )


def alter_quotas(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """AlterClientQuotas, to the controller."""

    def outcomes(reply: AlterClientQuotasResponse, target: int | None) -> dict[ClientQuotaEntity, Any]:
        return {_entity(entry): told(entry.error_code, entry.error_message) for entry in reply.entries}

    return operation.rounds(items, operation.controller, make, outcomes, settle, change=True)
