"""Client quotas (KIP-546): entities, values and filters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import ClassVar

from kafka_native.admin.base import AdminBase, error_or_none, flag, list_of
from kafka_native.control.operations import AdminOperation, Operation
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


@dataclass(frozen=True, slots=True)
class ClientQuotaEntity:
    """The target of quotas: a user, a client id, both, or an address.

    Equality and hash use its entries.

        ClientQuotaEntity({"user": "alice", "client-id": None})

    :param entries: Names by kind (`USER`, `CLIENT_ID`, `IP`). None is the default, which applies to
        names without their own quota.
    """

    USER: ClassVar[str] = "user"
    CLIENT_ID: ClassVar[str] = "client-id"
    IP: ClassVar[str] = "ip"

    entries: Mapping[str, str | None]

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError if the entity is invalid."""
        if not isinstance(self.entries, Mapping):
            raise TypeError(
                f"entries must be a dict of names by kind, not {type(self.entries).__name__}"
            )
        for kind, name in self.entries.items():
            if not isinstance(kind, str) or not (name is None or isinstance(name, str)):
                raise TypeError(
                    f"entries must be a dict of str and str or None, not {kind!r}: {name!r}"
                )
        if not self.entries or "" in self.entries:
            raise ValueError("an entity has at least one kind, and no kind's name is empty")
        object.__setattr__(self, "entries", dict(self.entries))

    def __hash__(self) -> int:
        return hash(frozenset(self.entries.items()))


@dataclass(frozen=True, slots=True)
class ClientQuotaAlteration:
    """Changes of one entity's quotas, for `alter_client_quotas()`.

        ClientQuotaAlteration(entity, {"producer_byte_rate": 1e6, "consumer_byte_rate": None})

    :param entity: The entity.
    :param ops: The quotas by their keys; None removes one. ``producer_byte_rate`` and
        ``consumer_byte_rate`` are bytes per second. ``request_percentage`` is a share of the time
        of a broker's threads. ``controller_mutation_rate`` is partitions per second,
        ``connection_creation_rate`` (of an IP) connections per second.
    """

    entity: ClientQuotaEntity
    ops: Mapping[str, float | None]

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError if the change is invalid."""
        if not isinstance(self.entity, ClientQuotaEntity):
            raise TypeError(f"entity must be a ClientQuotaEntity, not {type(self.entity).__name__}")
        if not isinstance(self.ops, Mapping):
            raise TypeError(f"ops must be a dict of quotas by key, not {type(self.ops).__name__}")
        for key, value in self.ops.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not isinstance(key, str) or not (value is None or is_number):
                raise TypeError(
                    f"ops must be a dict of str and float or None, not {key!r}: {value!r}"
                )
            if value is not None and not _is_finite(value):
                raise ValueError(f"{key} must be a finite number, and not too large for a float")
        if not self.ops or "" in self.ops:
            raise ValueError("ops must name at least one quota, and none by an empty key")
        object.__setattr__(self, "ops", dict(self.ops))

    def __hash__(self) -> int:
        return hash((self.entity, frozenset(self.ops.items())))


@dataclass(frozen=True, slots=True)
class ClientQuotaFilterComponent:
    """A condition on one kind: `of_entity()`, `of_default_entity()` or `of_entity_type()`."""

    EXACT: ClassVar[int] = 0
    DEFAULT: ClassVar[int] = 1
    SPECIFIED: ClassVar[int] = 2

    entity_type: str
    match_type: int
    match: str | None = None

    @classmethod
    def of_entity(cls, entity_type: str, entity_name: str) -> ClientQuotaFilterComponent:
        """Matches entities that have this kind with this name."""
        return cls(_text("entity_type", entity_type), cls.EXACT, _text("entity_name", entity_name))

    @classmethod
    def of_default_entity(cls, entity_type: str) -> ClientQuotaFilterComponent:
        """Matches entities that have the default of this kind."""
        return cls(_text("entity_type", entity_type), cls.DEFAULT)

    @classmethod
    def of_entity_type(cls, entity_type: str) -> ClientQuotaFilterComponent:
        """Matches entities that have this kind, with any name or as the default."""
        return cls(_text("entity_type", entity_type), cls.SPECIFIED)


@dataclass(frozen=True, slots=True)
class ClientQuotaFilter:
    """A filter for entities: `contains()`, `contains_only()` or `all()`."""

    components: tuple[ClientQuotaFilterComponent, ...] = ()
    strict: bool = False

    @classmethod
    def contains(cls, components: Sequence[ClientQuotaFilterComponent]) -> ClientQuotaFilter:
        """Matches entities that fit all components and may have other kinds."""
        return cls(_components(components))

    @classmethod
    def contains_only(cls, components: Sequence[ClientQuotaFilterComponent]) -> ClientQuotaFilter:
        """Matches entities that fit all components and have no other kinds."""
        return cls(_components(components), True)

    @classmethod
    def all(cls) -> ClientQuotaFilter:
        """Matches every entity that has a quota."""
        return cls()


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int that is too large for a float
        return False


def _text(what: str, given: str) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{what} must be a str, not {type(given).__name__}")
    return given


def _components(
    given: Sequence[ClientQuotaFilterComponent],
) -> tuple[ClientQuotaFilterComponent, ...]:
    found = tuple(given)
    for each in found:
        if not isinstance(each, ClientQuotaFilterComponent):
            raise TypeError(f"expected ClientQuotaFilterComponents, one is {type(each).__name__}")
    return found


# --- requests ---


def _describe_request(filters: list[ClientQuotaFilter]) -> DescribeClientQuotasRequest:
    (wanted,) = filters
    components = [
        DescribeClientQuotasRequest.Component(
            entity_type=each.entity_type, match_type=each.match_type, match=each.match
        )
        for each in wanted.components
    ]
    return DescribeClientQuotasRequest(components=components, strict=wanted.strict)


def _quotas_of(
    response: DescribeClientQuotasResponse,
) -> dict[ClientQuotaEntity, dict[str, float]] | KafkaError:
    found = {
        _entity(entry): {each.key: each.value for each in entry.values}
        for entry in response.entries or ()
    }
    return error_or_none(response.error_code, response.error_message) or found


def _entity(
    entry: DescribeClientQuotasResponse.Entry | AlterClientQuotasResponse.Entry,
) -> ClientQuotaEntity:
    try:
        return ClientQuotaEntity({each.entity_type: each.entity_name for each in entry.entity})
    except ValueError as error:
        raise KafkaException(
            KafkaError(KafkaError._BAD_MSG, f"the broker's answer: {error}")
        ) from None


DESCRIBE_QUOTAS: AdminOperation[
    None, ClientQuotaFilter, DescribeClientQuotasResponse, dict[ClientQuotaEntity, dict[str, float]]
] = AdminOperation(
    destination=Operation.anywhere,
    request=_describe_request,
    outcomes=lambda response, portion: {None: _quotas_of(response)},
    change=False,
)


def _alter_quotas(
    validate_only: bool,
) -> AdminOperation[ClientQuotaEntity, ClientQuotaAlteration, AlterClientQuotasResponse, None]:
    entry = AlterClientQuotasRequest.Entry

    def request(alterations: list[ClientQuotaAlteration]) -> AlterClientQuotasRequest:
        return AlterClientQuotasRequest(
            entries=[
                entry(
                    entity=[
                        entry.Entity(entity_type=of, entity_name=name)
                        for of, name in each.entity.entries.items()
                    ],
                    ops=[
                        entry.Op(
                            key=key,
                            value=0.0 if value is None else float(value),
                            remove=value is None,
                        )
                        for key, value in each.ops.items()
                    ],
                )
                for each in alterations
            ],
            validate_only=validate_only,
        )

    return AdminOperation(
        destination=Operation.controller,
        request=request,
        outcomes=lambda response, portion: {
            _entity(each): error_or_none(each.error_code, each.error_message)
            for each in response.entries
        },
        change=True,
    )


class QuotasAdmin(AdminBase):
    """Calls about client quotas."""

    def describe_client_quotas(
        self, quota_filter: ClientQuotaFilter, *, request_timeout: float = -1
    ) -> Future[dict[ClientQuotaEntity, dict[str, float]]]:
        """Describes the quotas of users, clients and addresses (KIP-546).

        :param quota_filter: The entities.
        :return: One future: the quotas by key, for each entity that has some.
        """
        if not isinstance(quota_filter, ClientQuotaFilter):
            raise TypeError(f"expected a ClientQuotaFilter, not {type(quota_filter).__name__}")
        return self._start_one(
            DESCRIBE_QUOTAS, quota_filter, self._request_timeout(request_timeout)
        )

    def alter_client_quotas(
        self,
        alterations: list[ClientQuotaAlteration],
        *,
        validate_only: bool = False,
        request_timeout: float = -1,
    ) -> dict[ClientQuotaEntity, Future[None]]:
        """Sets and removes quotas of users, clients and addresses (KIP-546).

        :param alterations: The changes of each entity.
        :return: One future per entity: None when it is done; KafkaException, for instance
            INVALID_REQUEST.
        """
        items = [(each.entity, each) for each in list_of(alterations, ClientQuotaAlteration)]
        kind = _alter_quotas(flag("validate_only", validate_only))
        return self._start(kind, items, self._request_timeout(request_timeout))
