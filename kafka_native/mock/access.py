"""ACLs, which the cluster enforces, and SCRAM credentials of users."""

from __future__ import annotations

from typing import NamedTuple

from kafka_native.protocol import ApiKey

ANY = 1
MATCH = 2
LITERAL = 3
PREFIXED = 4
WILDCARD = "*"
ANY_USER = "User:*"
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = range(2, 9)
DENY, ALLOW = 2, 3
DESCRIBED_BY = {READ, WRITE, DELETE, ALTER}
"""Each of these operations implies DESCRIBE."""
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
    (GROUP, ApiKey.STREAMS_GROUP_HEARTBEAT): READ,
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
"""The operation that a request performs on a resource. All other requests are DESCRIBE."""


class Acl(NamedTuple):
    """An ACL, with the protocol's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def covers(self, name: str) -> bool:
        """Return whether the ACL applies to a resource of this name."""
        if self.pattern_type == PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, WILDCARD)


class AclFilter(NamedTuple):
    """A filter for ACLs. None for a name and ANY for a number match everything."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission_type: int

    def matches(self, acl: Acl) -> bool:
        """Return whether this ACL matches the filter."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self._name_matches(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
        )

    def _name_matches(self, acl: Acl) -> bool:
        if self.pattern_type == MATCH:
            return self.resource_name is None or acl.covers(self.resource_name)
        return self.pattern_type in (ANY, acl.pattern_type) and self.resource_name in (
            None,
            acl.resource_name,
        )


class Credential(NamedTuple):
    """A user's SCRAM credential for one mechanism."""

    iterations: int
    salt: bytes
    salted_password: bytes


class Access:
    """The ACLs, in creation order, and each user's credentials by mechanism.

    The cluster's lock guards them.
    """

    def __init__(self) -> None:
        self.acls: dict[Acl, None] = {}
        self.users: dict[str, dict[int, Credential]] = {}

    def matching(self, wanted: AclFilter) -> list[Acl]:
        """Return the ACLs that match a filter."""
        return [acl for acl in self.acls if wanted.matches(acl)]

    def denies(self, principal: str, host: str, kind: int, name: str, api_key: int) -> bool:
        """Return whether the ACLs forbid a principal this request.

        The rules are those of Kafka's authorizer with ``allow.everyone.if.no.acl.found=true``. The
        method needs no lock, because it copies the ACLs in one step of the interpreter.
        """
        about = [acl for acl in tuple(self.acls) if acl.resource_type == kind and acl.covers(name)]
        if not about:
            return False
        own = [
            acl
            for acl in about
            if acl.principal in (principal, ANY_USER) and acl.host in (host, WILDCARD)
        ]
        operation = OPERATIONS.get((kind, api_key), DESCRIBE)
        if any(acl.permission_type == DENY and acl.operation in (ALL, operation) for acl in own):
            return True
        enough = {ALL, operation} | (DESCRIBED_BY if operation == DESCRIBE else set())
        return not any(acl.permission_type == ALLOW and acl.operation in enough for acl in own)
