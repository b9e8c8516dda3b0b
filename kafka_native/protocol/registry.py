"""The declared requests and responses by API key.

The first use of an API imports the module that declares its messages.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from kafka_native._native.wire import ProtocolError
from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_native.protocol.schema import Message

FAMILIES: Final = {
    "acls": (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
    "configs": (
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
    ),
    "coordinator": (ApiKey.FIND_COORDINATOR,),
    "delegation_tokens": (
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ),
    "fetch": (ApiKey.FETCH,),
    "group_admin": (
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
    ),
    "groups": (
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ),
    "metadata": (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_TOPIC_PARTITIONS),
    "offsets": (
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.DELETE_RECORDS,
    ),
    "partitions": (
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
    ),
    "produce": (ApiKey.PRODUCE,),
    "producer_ids": (ApiKey.INIT_PRODUCER_ID,),
    "quorum": (
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.UNREGISTER_CONTROLLER,
    ),
    "quotas": (ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS),
    "sasl": (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
    "share": (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ),
    "streams": (
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    ),
    "telemetry": (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY),
    "topics": (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS),
    "transactions": (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    ),
    "users": (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS),
    "versions": (ApiKey.API_VERSIONS,),
}
"""The modules that declare messages, with their APIs."""

_FAMILY_OF: Final = {int(key): family for family, keys in FAMILIES.items() for key in keys}


class UnsupportedVersion(ProtocolError):
    """The API or version of a request is not declared here.

    ``api_key``, ``api_version`` and ``correlation_id`` are those of the frame, so that a server can
    still respond.
    """

    def __init__(self, api_key: int, version: int, correlation_id: int = -1) -> None:
        """Keep the fields that identify the request."""
        name = request(api_key).__name__ if api_key in _FAMILY_OF else f"API {api_key}"
        versions = (
            f", the versions are {request(api_key).versions}" if api_key in _FAMILY_OF else ""
        )
        super().__init__(f"not supported{versions}", name, version)
        self.api_key = api_key
        self.api_version = version
        self.correlation_id = correlation_id


@cache
def _pair(api_key: int) -> tuple[type[Request], type[Response]]:
    """Return the request and the response of an API from the module of its family."""
    declared = vars(import_module(f"kafka_native.protocol.{_FAMILY_OF[api_key]}")).values()
    own = [
        each
        for each in declared
        if isinstance(each, type) and getattr(each, "api_key", None) == api_key
    ]
    [request_class] = [each for each in own if issubclass(each, Request)]
    [response_class] = [each for each in own if issubclass(each, Response)]
    return request_class, response_class


def request(api_key: int) -> type[Request]:
    """Return the request of an API. Raise ``KeyError`` if it isn't declared."""
    return _pair(api_key)[0]


def response(api_key: int) -> type[Response]:
    """Return the response of an API. Raise ``KeyError`` if it isn't declared."""
    return _pair(api_key)[1]


def api_keys() -> Iterator[ApiKey]:
    """Iterate over the declared APIs in ascending order."""
    return (ApiKey(key) for key in sorted(_FAMILY_OF))


def messages() -> Iterator[type[Message]]:
    """Iterate over every declared request and response."""
    for key in api_keys():
        yield request(key)
        yield response(key)
