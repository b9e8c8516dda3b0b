"""What settings and permissions are of: kinds of resources, and how their names are matched."""

from __future__ import annotations

from kafka_native.types import OrderedEnum


class ResourceType(OrderedEnum):
    """A kind of resource."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    BROKER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    """A token by its id: it has permissions, and no settings."""
    USER = 7
    """A principal whose tokens others may ask for (KIP-373): it has permissions, and no settings."""
    BROKER_LOGGER = 8
    """The log levels of a broker (KIP-412): it has settings, and no permissions."""
    CLIENT_METRICS = 16
    """What clients are asked to tell of themselves (KIP-714): it has settings, and no permissions."""


WITHOUT_PERMISSIONS = frozenset({ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS})


class ResourcePatternType(OrderedEnum):
    """How the name of an AclBinding, or of a filter, is to be taken."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4
