"""Permissions (ACLs): which principal may do which operation on which resource, from which host."""

from __future__ import annotations

from concurrent.futures import Future
from enum import Enum
from typing import TypedDict

from kafka_native.admin.base import AdminBase, distinct, error_or_none, known_member, member_of
from kafka_native.cleaning import escaped
from kafka_native.control.operations import AdminOperation, Operation, Portion
from kafka_native.errors import KafkaError
from kafka_native.protocol.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kafka_native.types import OrderedEnum

OPERATIONS_NOT_REQUESTED = -0x80000000
"""The protocol's value for authorized operations that weren't requested."""


class ResourceType(OrderedEnum):
    """A kind of resource."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    BROKER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    """A delegation token, by its id. It has permissions, but no settings."""
    USER = 7
    """A user for whom others may request tokens (KIP-373). It has permissions, but no settings."""
    BROKER_LOGGER = 8
    """The log levels of a broker (KIP-412). They are settings without permissions."""
    CLIENT_METRICS = 16
    """The metrics that clients push (KIP-714). They are settings without permissions."""


WITHOUT_PERMISSIONS = frozenset({ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS})


class ResourcePatternType(OrderedEnum):
    """How to match the name in an AclBinding or a filter."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(OrderedEnum):
    """An operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    """Request delegation tokens for a user (KIP-373)."""
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15
    """Prepare transactions that no timeout ends (KIP-939)."""


class AclPermissionType(OrderedEnum):
    """Whether the operation is allowed or denied."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding:
    """A permission of a principal. Equality, order and hash use all fields.

    Enums may be given as members, as names in any case, or as numbers.

    :param restype: The kind of the resource.
    :param name: The name of the resource.
    :param resource_pattern_type: LITERAL or PREFIXED: the kind of ``name``.
    :param principal: The principal, for instance ``User:alice``.
    :param host: The host that the principal connects from; ``*`` for any.
    :param operation: The operation.
    :param permission_type: ALLOW or DENY.
    :raises ValueError: A field is missing, or has a value that only a filter (or no filter) may
        have.
    :raises TypeError: A name isn't a str.
    """

    _optional: tuple[str, ...] = ()
    _forbidden: tuple[tuple[str, str], ...] = (
        ("restype", "ANY"),
        ("resource_pattern_type", "ANY"),
        ("resource_pattern_type", "MATCH"),
        ("operation", "ANY"),
        ("permission_type", "ANY"),
    )

    def __init__(
        self,
        restype: ResourceType | str | int,
        name: str,
        resource_pattern_type: ResourcePatternType | str | int,
        principal: str,
        host: str,
        operation: AclOperation | str | int,
        permission_type: AclPermissionType | str | int,
    ) -> None:
        self.name = name
        self.principal = principal
        self.host = host
        given: dict[str, tuple[object, type[Enum]]] = {
            "restype": (restype, ResourceType),
            "resource_pattern_type": (resource_pattern_type, ResourcePatternType),
            "operation": (operation, AclOperation),
            "permission_type": (permission_type, AclPermissionType),
        }
        texts = {"name": name, "principal": principal, "host": host}
        values = texts | {field: value for field, (value, _) in given.items()}
        for field, each in values.items():
            if each is None and field not in self._optional:
                raise ValueError(f"Expected {field} to be not None")
        for field, text in texts.items():
            if text is not None and not isinstance(text, str):
                raise TypeError(f"Expected {field} to be a string")
        members = {
            field: member_of(int(value) if isinstance(value, bool) else value, kind, field)
            for field, (value, kind) in given.items()
        }
        for field, member in members.items():
            if (field, member.name) in self._forbidden or member in WITHOUT_PERMISSIONS:
                raise ValueError(f"Cannot use enum {field}, value {member.name} in this class")
            setattr(self, field, member)
        self.restype: ResourceType
        self.resource_pattern_type: ResourcePatternType
        self.operation: AclOperation
        self.permission_type: AclPermissionType
        self.restype_int = int(self.restype.value)
        self.resource_pattern_type_int = int(self.resource_pattern_type.value)
        self.operation_int = int(self.operation.value)
        self.permission_type_int = int(self.permission_type.value)

    def _key(self) -> tuple[int | str, ...]:
        texts = tuple(
            "" if each is None else each for each in (self.name, self.principal, self.host)
        )
        return (
            self.restype_int,
            self.resource_pattern_type_int,
            self.operation_int,
            self.permission_type_int,
            *texts,
        )

    def __repr__(self) -> str:
        name, principal, host = (escaped(each) for each in (self.name, self.principal, self.host))
        return (
            f"{type(self).__name__}({self.restype},{name},{self.resource_pattern_type},{principal},"
            f"{host},{self.operation},{self.permission_type})"
        )

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        # A filter equals a binding with the same fields, as in confluent_kafka.
        if not isinstance(other, AclBinding):
            return NotImplemented
        return vars(self) == vars(other)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, AclBinding):
            return NotImplemented
        return self._key() < other._key()


class AclBindingFilter(AclBinding):
    """A filter for permissions, with the fields of `AclBinding`.

    None as a name matches every name, and ANY matches every value (MATCH: every pattern that
    matches the name).
    """

    _optional = ("name", "principal", "host")
    _forbidden = (
        ("restype", "UNKNOWN"),
        ("resource_pattern_type", "UNKNOWN"),
        ("operation", "UNKNOWN"),
        ("permission_type", "UNKNOWN"),
    )


# --- allowed operations, from other responses ---


def allowed_operations(bits: int) -> tuple[AclOperation, ...] | None:
    """The operations of the protocol's bit field; None: they weren't requested.

    Operations that this client doesn't know are left out.
    """
    if bits == OPERATIONS_NOT_REQUESTED:
        return None
    return tuple(
        each
        for each in AclOperation
        if each.value > AclOperation.ANY.value and bits >> each.value & 1
    )


def authorized_operations(bits: int) -> list[AclOperation | str | int] | None:
    """Like `allowed_operations()`, in the type of confluent_kafka's descriptions."""
    found = allowed_operations(bits)
    return None if found is None else list(found)


# --- requests ---


class _FilterFields(TypedDict):
    """The fields of a filter, for DescribeAcls and DeleteAcls."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def _creation(acl: AclBinding) -> CreateAclsRequest.Creation:
    return CreateAclsRequest.Creation(
        resource_type=acl.restype_int,
        resource_name=acl.name,
        resource_pattern_type=acl.resource_pattern_type_int,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation_int,
        permission_type=acl.permission_type_int,
    )


def _filter_fields(acl: AclBindingFilter) -> _FilterFields:
    return {
        "resource_type_filter": acl.restype_int,
        "resource_name_filter": acl.name,
        "pattern_type_filter": acl.resource_pattern_type_int,
        "principal_filter": acl.principal,
        "host_filter": acl.host,
        "operation": acl.operation_int,
        "permission_type": acl.permission_type_int,
    }


def _created(
    response: CreateAclsResponse, portion: Portion[AclBinding, CreateAclsRequest.Creation]
) -> dict[AclBinding, KafkaError | None]:
    if len(response.results) != len(portion.items):
        return dict.fromkeys(portion.items, _miscounted(len(response.results), len(portion.items)))
    results = zip(portion.items, response.results, strict=True)
    return {key: error_or_none(each.error_code, each.error_message) for key, each in results}


def _deleted(
    response: DeleteAclsResponse, portion: Portion[AclBindingFilter, DeleteAclsRequest.Filter]
) -> dict[AclBindingFilter, list[AclBinding] | KafkaError]:
    if len(response.filter_results) != len(portion.items):
        return dict.fromkeys(
            portion.items, _miscounted(len(response.filter_results), len(portion.items))
        )
    results = zip(portion.items, response.filter_results, strict=True)
    return {
        key: error_or_none(each.error_code, each.error_message) or _matching(each)
        for key, each in results
    }


def _miscounted(result_count: int, item_count: int) -> KafkaError:
    """The error of a response with too few or too many results.

    Only the order of the results shows to which items they belong.
    """
    return KafkaError(KafkaError._BAD_MSG, f"{result_count} results for {item_count} permissions")


def _matching(result: DeleteAclsResponse.FilterResult) -> list[AclBinding] | KafkaError:
    for each in result.matching_acls:
        if each.error_code:
            return KafkaError(each.error_code, each.error_message or None)
    return [_binding(each, each) for each in result.matching_acls]


def _found(response: DescribeAclsResponse) -> list[AclBinding] | KafkaError:
    found = [_binding(resource, acl) for resource in response.resources for acl in resource.acls]
    return error_or_none(response.error_code, response.error_message) or found


def _binding(
    resource: DescribeAclsResponse.Resource | DeleteAclsResponse.FilterResult.MatchingAcl,
    acl: DescribeAclsResponse.Resource.Acl | DeleteAclsResponse.FilterResult.MatchingAcl,
) -> AclBinding:
    """A permission from a broker's response. Unknown values become UNKNOWN."""
    kind = known_member(resource.resource_type, ResourceType)
    return AclBinding(
        ResourceType.UNKNOWN if kind in WITHOUT_PERMISSIONS else kind,
        resource.resource_name,
        known_member(resource.pattern_type, ResourcePatternType),
        acl.principal,
        acl.host,
        known_member(acl.operation, AclOperation),
        known_member(acl.permission_type, AclPermissionType),
    )


CREATE_ACLS: AdminOperation[AclBinding, CreateAclsRequest.Creation, CreateAclsResponse, None] = (
    AdminOperation(
        destination=Operation.controller,
        request=lambda creations: CreateAclsRequest(creations=creations),
        outcomes=_created,
        change=True,
    )
)
DELETE_ACLS: AdminOperation[
    AclBindingFilter, DeleteAclsRequest.Filter, DeleteAclsResponse, list[AclBinding]
] = AdminOperation(
    destination=Operation.controller,
    request=lambda filters: DeleteAclsRequest(filters=filters),
    outcomes=_deleted,
    change=True,
)
DESCRIBE_ACLS: AdminOperation[None, AclBindingFilter, DescribeAclsResponse, list[AclBinding]] = (
    AdminOperation(
        destination=Operation.anywhere,
        request=lambda filters: DescribeAclsRequest(**_filter_fields(filters[0])),
        outcomes=lambda response, portion: {None: _found(response)},
        change=False,
    )
)


class AclsAdmin(AdminBase):
    """The admin calls about permissions."""

    def create_acls(
        self, acls: list[AclBinding], *, request_timeout: float = -1
    ) -> dict[AclBinding, Future[None]]:
        """Creates permissions (KIP-140).

        :param acls: The permissions, each once.
        :return: One future per permission: None when it is created; KafkaException, for instance
            SECURITY_DISABLED.
        """
        found = distinct(acls, AclBinding, "ACL bindings")
        if any(isinstance(each, AclBindingFilter) for each in found):
            raise TypeError(
                "expected a list of AclBinding, one of it is AclBindingFilter, which finds them"
            )
        items = [(each, _creation(each)) for each in found]
        return self._start(CREATE_ACLS, items, self._request_timeout(request_timeout))

    def describe_acls(
        self, acl_binding_filter: AclBindingFilter, *, request_timeout: float = -1
    ) -> Future[list[AclBinding]]:
        """Describes the permissions that match a filter (KIP-357).

        :param acl_binding_filter: The filter.
        :return: One future with the permissions.
        """
        if not isinstance(acl_binding_filter, AclBindingFilter):
            raise TypeError(
                f"expected an AclBindingFilter, not {type(acl_binding_filter).__name__}"
            )
        return self._start_one(
            DESCRIBE_ACLS, acl_binding_filter, self._request_timeout(request_timeout)
        )

    def delete_acls(
        self, acl_binding_filters: list[AclBindingFilter], *, request_timeout: float = -1
    ) -> dict[AclBindingFilter, Future[list[AclBinding]]]:
        """Deletes the permissions that match filters.

        :param acl_binding_filters: The filters, each once.
        :return: One future per filter, with the deleted permissions. KafkaException if a matching
            one couldn't be deleted.
        """
        filters = distinct(acl_binding_filters, AclBindingFilter, "ACL binding filters")
        items = [(each, DeleteAclsRequest.Filter(**_filter_fields(each))) for each in filters]
        return self._start(DELETE_ACLS, items, self._request_timeout(request_timeout))
