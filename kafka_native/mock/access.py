"""Permissions, to which the cluster holds its clients, and SCRAM credentials, which it only keeps and tells."""

from __future__ import annotations

from typing import NamedTuple

from kafka_native.protocol import ApiKey

ANY = 1
MATCH = 2
LITERAL = 3
PREFIXED = 4
WILDCARD = "*"
EVERYBODY = "User:*"
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(2, 9)
DENY, ALLOW = 2, 3
DESCRIBED_BY = {READ, WRITE, DELETE, ALTER}
"""Who may do one of these may describe, too."""
OPERATIONS: dict[tuple[int, int], int] = {
    (TOPIC, ApiKey.PRODUCE): WRITE,
    (TOPIC, ApiKey.ADD_PARTITIONS_TO_TXN): WRITE,
    (TOPIC, ApiKey.FETCH): READ,
    (TOPIC, ApiKey.SHARE_FETCH): READ,
    (TOPIC, ApiKey.OFFSET_COMMIT): READ,
    (TOPIC, ApiKey.TXN_OFFSET_COMMIT): READ,
    (TOPIC, ApiKey.CREATE_TOPICS): CREATE,
    (TOPIC, ApiKey.DELETE_TOPICS): DELETE,
    (TOPIC, ApiKey.DELETE_RECORDS): DELETE,
    (TOPIC, ApiKey.CREATE_PARTITIONS): ALTER,
    (GROUP, ApiKey.JOIN_GROUP): READ,
    (GROUP, ApiKey.SYNC_GROUP): READ,
    (GROUP, ApiKey.HEARTBEAT): READ,
    (GROUP, ApiKey.LEAVE_GROUP): READ,
    (GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT): READ,
    (GROUP, ApiKey.SHARE_GROUP_HEARTBEAT): READ,
    (GROUP, ApiKey.OFFSET_COMMIT): READ,
    (GROUP, ApiKey.TXN_OFFSET_COMMIT): READ,
    (GROUP, ApiKey.ADD_OFFSETS_TO_TXN): READ,
    (GROUP, ApiKey.DELETE_GROUPS): DELETE,
    (GROUP, ApiKey.OFFSET_DELETE): DELETE,
    (TRANSACTIONAL_ID, ApiKey.INIT_PRODUCER_ID): WRITE,
    (TRANSACTIONAL_ID, ApiKey.ADD_PARTITIONS_TO_TXN): WRITE,
    (TRANSACTIONAL_ID, ApiKey.ADD_OFFSETS_TO_TXN): WRITE,
    (TRANSACTIONAL_ID, ApiKey.TXN_OFFSET_COMMIT): WRITE,
    (TRANSACTIONAL_ID, ApiKey.END_TXN): WRITE,
}
"""What a request does to a resource; all others describe it."""


class Acl(NamedTuple):
    """A permission, with the protocol's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def covers(self, name: str) -> bool:
        """Whether it is about a resource of this name."""
        if self.pattern_type == PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)


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
        if self.pattern_type == MATCH:
            return self.resource_name is None or acl.covers(self.resource_name)
        return self.pattern_type in (ANY, acl.pattern_type) and self.resource_name in (
            None,
            acl.resource_name,
        )


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

    def denies(self, principal: str, host: str, kind: int, name: str, api_key: int) -> bool:
        """Whether somebody may not ask this, as with Kafka's authorizer and allow.everyone.if.no.acl.found=true.

        Needs no lock: the permissions are copied in one step of the interpreter.
        """
        about = [acl for acl in tuple(self.acls) if acl.resource_type == kind and acl.covers(name)]
        if not about:
            return False
        own = [
            acl
            for acl in about
            if acl.principal in (principal, EVERYBODY) and acl.host in (host, WILDCARD)
        ]
        operation = OPERATIONS.get((kind, api_key), DESCRIBE)
        if any(acl.permission_type == DENY and acl.operation in (ALL, operation) for acl in own):
            return True
        enough = {ALL, operation} | (DESCRIBED_BY if operation == DESCRIBE else set())
        return not any(acl.permission_type == ALLOW and acl.operation in enough for acl in own)
