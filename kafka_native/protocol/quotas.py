"""DescribeClientQuotas and AlterClientQuotas: limits of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    error_text,
    float64,
    int8,
    int16,
    int32,
    string,
)


class DescribeClientQuotasRequest(
    Request, api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    """Ask for the quotas of the entities that match every component."""

    class Component(Struct):
        """A condition for one entity type: this name (0), the default (1) or any name (2)."""

        entity_type: str = string("0+")
        match_type: int = int8("0+")
        match: str | None = string("0+", nullable="0+")

    components: list[Component] = array(Component, "0+")
    strict: bool = boolean("0+")  # Entities with other entity types don't match


class DescribeClientQuotasResponse(
    Response, api_key=ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    """The quotas."""

    class Entry(Struct):
        """The quotas of one entity."""

        class Entity(Struct):
            """A part of the entity. Without a name, it is the default."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", nullable="0+")

        class Value(Struct):
            """A quota."""

            key: str = string("0+")
            value: float = float64("0+")

        entity: list[Entity] = array(Entity, "0+")
        values: list[Value] = array(Value, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+")
    entries: list[Entry] | None = array(Entry, "0+", nullable="0+")


class AlterClientQuotasRequest(
    Request, api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    """Set or remove quotas."""

    class Entry(Struct):
        """The changes for one entity."""

        class Entity(Struct):
            """A part of the entity. Without a name, it is the default."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", nullable="0+")

        class Op(Struct):
            """A change. If the quota is removed, the value is ignored."""

            key: str = string("0+")
            value: float = float64("0+")
            remove: bool = boolean("0+")

        entity: list[Entity] = array(Entity, "0+")
        ops: list[Op] = array(Op, "0+")

    entries: list[Entry] = array(Entry, "0+")
    validate_only: bool = boolean("0+")


class AlterClientQuotasResponse(
    Response, api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+"
):
    """The outcome for each entity."""

    class Entry(Struct):
        """The outcome for one entity."""

        class Entity(Struct):
            """A part of the entity. Without a name, it is the default."""

            entity_type: str = string("0+")
            entity_name: str | None = string("0+", nullable="0+")

        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+")
        entity: list[Entity] = array(Entity, "0+")

    throttle_time_ms: int = int32("0+")
    entries: list[Entry] = array(Entry, "0+")
