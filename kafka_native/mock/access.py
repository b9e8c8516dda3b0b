"""Permissions and SCRAM credentials that the cluster keeps. It tells them; it holds nobody to them."""

from __future__ import annotations

from typing import NamedTuple

ANY = 1
MATCH = 2
LITERAL = 3
PREFIXED = 4
WILDCARD = "*"


class Acl(NamedTuple):
    """A permission, with the protocol's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """Which permissions are meant; None for a name and ANY for a number fit everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def fits(self, acl: Acl) -> bool:
        """Whether this permission is meant."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self._name_fits(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
        )

    def _name_fits(self, acl: Acl) -> bool:
        if self.pattern_type not in (ANY, MATCH, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != MATCH:
            return False
        if acl.pattern_type == PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD


class Credential(NamedTuple):
    """A user's SCRAM credential."""

    iterations: int
    salt: bytes
    salted_password: bytes


class Access:
    """The permissions, in the order they came, and each user's credentials by mechanism. Under the cluster's lock."""

    def __init__(self) -> None:
        """Nobody has either."""
        self.acls: dict[Acl, None] = {}
        self.users: dict[str, dict[int, Credential]] = {}

    def found(self, wanted: AclFilter) -> list[Acl]:
        """The permissions that fit."""
        return [acl for acl in self.acls if wanted.fits(acl)]
