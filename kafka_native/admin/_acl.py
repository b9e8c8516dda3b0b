"""Permissions: who may do what, from where."""

from __future__ import annotations

from enum import Enum
from typing import Any

from kafka_native.admin._convert import member_of
from kafka_native.admin._resource import WITHOUT_PERMISSIONS, ResourcePatternType, ResourceType
from kafka_native.cleaning import escaped
from kafka_native.types import OrderedEnum


class AclOperation(OrderedEnum):
    """What is done to a resource."""

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
    """Ask for delegation tokens in the name of a user (KIP-373)."""
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15
    """Prepare transactions that no timeout ends (KIP-939)."""


class AclPermissionType(OrderedEnum):
    """Whether it is allowed."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding:
    """A permission of a principal. Equal, ordered and hashed by all of it.

    Enums may be given as members, as their names in any case or as numbers.

    :param restype: The kind of the resource.
    :param name: Its name.
    :param resource_pattern_type: LITERAL or PREFIXED: what ``name`` is.
    :param principal: Who, for instance ``User:alice``.
    :param host: From where; ``*`` for anywhere.
    :param operation: What.
    :param permission_type: ALLOW or DENY.
    :raises ValueError: A part is missing, or is what only a filter (or no filter) may have.
    :raises TypeError: A name that is no str.
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
        """Make one; see the class for the arguments."""
        self.name = name
        self.principal = principal
        self.host = host
        given: dict[str, tuple[Any, type[Enum]]] = {
            "restype": (restype, ResourceType),
            "resource_pattern_type": (resource_pattern_type, ResourcePatternType),
            "operation": (operation, AclOperation),
            "permission_type": (permission_type, AclPermissionType),
        }
        for field in ("name", "principal", "host"):
            self._check_text(field, getattr(self, field))
        for field, (value, kind) in given.items():
            if value is None:
                raise ValueError(f"Expected {field} to be not None")
            member = member_of(value, kind, field)
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

    def _check_text(self, field: str, value: Any) -> None:
        if value is None and field not in self._optional:
            raise ValueError(f"Expected {field} to be not None")
        if value is not None and not isinstance(value, str):
            raise TypeError(f"Expected {field} to be a string")

    def _key(self) -> tuple[Any, ...]:
        texts = tuple("" if each is None else each for each in (self.name, self.principal, self.host))
        return (
            self.restype_int,
            self.resource_pattern_type_int,
            self.operation_int,
            self.permission_type_int,
            *texts,
        )

    def __repr__(self) -> str:
        name, principal, host = (escaped(str(each)) for each in (self.name, self.principal, self.host))
        return (
            f"{type(self).__name__}({self.restype},{name},{self.resource_pattern_type},{principal},"
            f"{host},{self.operation},{self.permission_type})"
        )

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AclBinding) or type(self) is not type(other):
            return NotImplemented
        return vars(self) == vars(other)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, AclBinding):
            return NotImplemented
        return self._key() < other._key()


class AclBindingFilter(AclBinding):
    """Which permissions are meant. As `AclBinding`; None for a name, and ANY (MATCH for a pattern), fit everything."""

    _optional = ("name", "principal", "host")
    _forbidden = (
        ("restype", "UNKNOWN"),
        ("resource_pattern_type", "UNKNOWN"),
        ("operation", "UNKNOWN"),
        ("permission_type", "UNKNOWN"),
    )
