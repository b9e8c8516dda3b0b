"""DescribeClientQuotas and AlterClientQuotas, and the throttle times of Produce and Fetch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import quotas
from kafka_native.mock.replies import Reply
from kafka_native.protocol.produce import ProduceRequest
from kafka_native.protocol.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call
    from kafka_native.mock.quotas import Entity
    from kafka_native.protocol.schema import Request, Response

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2


def describe_client_quotas(
    call: Call, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the quotas of the matching entities."""
    kinds = [each.entity_type for each in request.components]
    if len(set(kinds)) < len(kinds) or any(
        each.match_type not in range(3) for each in request.components
    ):
        text = "an entity type occurs twice, or a match type is unknown"
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=text, entries=None
        )
    kind = DescribeClientQuotasResponse.Entry
    with call.cluster.lock:
        found = [
            kind(
                entity=[
                    kind.Entity(entity_type=entity_type, entity_name=name)
                    for entity_type, name in sorted(entity, key=str)
                ],
                values=[kind.Value(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in call.cluster.quotas.entries.items()
            if _matches(entity, request)
        ]
    return DescribeClientQuotasResponse(error_message=None, entries=found)


def _matches(entity: Entity, request: DescribeClientQuotasRequest) -> bool:
    names = dict(entity)
    for each in request.components:
        if each.entity_type not in names:
            return False
        wanted = each.match if each.match_type == _EXACT else None
        if each.match_type != _SPECIFIED and names[each.entity_type] != wanted:
            return False
    return not request.strict or len(names) == len(request.components)


def alter_client_quotas(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Set and remove quotas."""
    response = AlterClientQuotasResponse()
    for entry in request.entries:
        entity = frozenset((each.entity_type, each.entity_name) for each in entry.entity)
        changes = {each.key: None if each.remove else each.value for each in entry.ops}
        problem = quotas.refusal(entity, set(changes))
        bad = [
            key for key, value in changes.items() if value is not None and not 0 < value < math.inf
        ]
        if problem is None and bad:
            problem = f"{bad[0]} must be greater than 0"
        kind = AlterClientQuotasResponse.Entry
        response.entries.append(
            kind(
                error_code=ErrorCode.INVALID_REQUEST if problem else ErrorCode.NO_ERROR,
                error_message=problem,
                entity=[
                    kind.Entity(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ],
            )
        )
        if problem is None and not request.validate_only:
            with call.cluster.lock:
                call.cluster.quotas.alter(entity, changes)
    return response


def refuse_alter(request: AlterClientQuotasRequest, code: int) -> AlterClientQuotasResponse:
    """Return the same error for every entity."""
    kind = AlterClientQuotasResponse.Entry
    return AlterClientQuotasResponse(
        entries=[
            kind(
                error_code=code,
                error_message=None,
                entity=[
                    kind.Entity(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def throttle_ms(call: Call, request: Request, reply: Response | Reply) -> int:
    """Return the throttle time of this Produce or Fetch, by the client's quota."""
    if not call.cluster.quotas.entries:
        return 0
    if isinstance(request, ProduceRequest):
        key, size = (
            quotas.PRODUCE,
            sum(_size(part) for topic in request.topic_data for part in topic.partition_data),
        )
    else:
        records = reply.records if isinstance(reply, Reply) else []
        key, size = quotas.FETCH, sum(len(piece) for pieces in records for piece in pieces)
    user = call.connection.login.principal.partition(":")[2]
    with call.cluster.lock:
        return call.cluster.quotas.throttle_ms(
            call.broker.id, user, call.client_id, key, size, call.cluster.clock.now()
        )


def _size(partition: Any) -> int:
    return len(partition.records or b"")
