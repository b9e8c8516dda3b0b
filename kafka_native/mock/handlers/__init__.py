"""The handlers of all APIs: they turn a request frame into a response.

A handler takes a ``Call`` and a request, and returns a response. It may block, because it runs in
the connection's own thread. None sends no response (Produce with acks=0). ``CLOSE`` closes the
connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.call import Call
from kafka_native.mock.faults import CLOSE_CONNECTION
from kafka_native.mock.handlers import (
    access,
    configs,
    consumer_groups,
    fetch,
    group_admin,
    group_offsets,
    groups,
    log_dirs,
    metadata,
    offsets,
    produce,
    quorum,
    quotas,
    reassignments,
    refusals,
    sasl,
    share_groups,
    streams_groups,
    telemetry,
    tokens,
    topics,
    transaction_admin,
    transactions,
    versions,
)
from kafka_native.mock.replies import CLOSE, Close, Reply
from kafka_native.protocol import ApiKey, UnsupportedVersion, decode_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_native.mock.server import Connection
    from kafka_native.mock.state import ClusterState
    from kafka_native.protocol.schema import Request, Response

    Handler = Callable[[Call, Any], "Response | Reply | None"]


QUOTA_APIS: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
"""The APIs whose responses carry a throttle time: those that have quotas."""


HANDLERS: dict[int, Handler] = {
    ApiKey.PRODUCE: produce.produce,
    ApiKey.FETCH: fetch.fetch,
    ApiKey.LIST_OFFSETS: offsets.list_offsets,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.OFFSET_COMMIT: group_offsets.offset_commit,
    ApiKey.OFFSET_FETCH: group_offsets.offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: groups.join_group,
    ApiKey.HEARTBEAT: groups.heartbeat,
    ApiKey.LEAVE_GROUP: groups.leave_group,
    ApiKey.SYNC_GROUP: groups.sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.SASL_HANDSHAKE: sasl.handshake,
    ApiKey.API_VERSIONS: versions.api_versions,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DELETE_RECORDS: offsets.delete_records,
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
    ApiKey.END_TXN: transactions.end_txn,
    ApiKey.WRITE_TXN_MARKERS: transaction_admin.write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: transactions.txn_offset_commit,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
    ApiKey.DESCRIBE_ACLS: access.describe_acls,
    ApiKey.CREATE_ACLS: access.create_acls,
    ApiKey.DELETE_ACLS: access.delete_acls,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.ALTER_CONFIGS: configs.alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: log_dirs.alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: log_dirs.describe_log_dirs,
    ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.CREATE_DELEGATION_TOKEN: tokens.create,
    ApiKey.RENEW_DELEGATION_TOKEN: tokens.renew,
    ApiKey.EXPIRE_DELEGATION_TOKEN: tokens.expire,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: tokens.describe,
    ApiKey.DELETE_GROUPS: groups.delete_groups,
    ApiKey.ELECT_LEADERS: topics.elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassignments.alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: reassignments.list_partition_reassignments,
    ApiKey.OFFSET_DELETE: group_offsets.offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: quotas.describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: quotas.alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: access.describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: access.alter_user_scram_credentials,
    ApiKey.DESCRIBE_QUORUM: quorum.describe_quorum,
    ApiKey.UPDATE_FEATURES: quorum.update_features,
    ApiKey.DESCRIBE_CLUSTER: metadata.describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: transaction_admin.describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transaction_admin.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transaction_admin.list_transactions,
    ApiKey.UNREGISTER_BROKER: quorum.unregister_broker,
    ApiKey.UNREGISTER_CONTROLLER: quorum.unregister_controller,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.describe,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: telemetry.get_subscriptions,
    ApiKey.PUSH_TELEMETRY: telemetry.push,
    ApiKey.LIST_CONFIG_RESOURCES: configs.list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_topic_partitions,
    ApiKey.SHARE_GROUP_HEARTBEAT: share_groups.heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: group_admin.describe_share,
    ApiKey.SHARE_FETCH: share_groups.share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: share_groups.share_acknowledge,
    ApiKey.ADD_RAFT_VOTER: quorum.add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: quorum.remove_raft_voter,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_groups.heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: streams_groups.describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: group_admin.describe_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: group_admin.alter_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: group_admin.delete_offsets,
}


class Incoming:
    """A request that the broker has read, and the data for its response."""

    __slots__ = ("api_key", "call", "correlation_id", "reply_version", "request")

    def __init__(
        self, call: Call, request: Request | None, correlation_id: int, reply_version: int
    ) -> None:
        """Store the request. None stands for a request whose version is unsupported."""
        self.call = call
        self.request = request
        self.api_key = call.api_key
        self.correlation_id = correlation_id
        self.reply_version = reply_version

    @classmethod
    def read(
        cls, cluster: ClusterState, frame: bytearray, connection: Connection
    ) -> Incoming | None:
        """Read a frame. None closes the connection. Raises ``ProtocolError`` for invalid bytes."""
        broker = connection.broker
        try:
            header, request = decode_request(frame)
        except UnsupportedVersion as error:
            key, version, correlation_id, client = (
                error.api_key,
                error.api_version,
                error.correlation_id,
                "",
            )
            request = None
        else:
            key, version, correlation_id = (
                header.request_api_key,
                header.request_api_version,
                header.correlation_id,
            )
            client = header.client_id or ""
        cluster.requests.add(broker.id, key, version, correlation_id, client)
        if not connection.login.allows(key):
            return None
        first, last = cluster.settings.versions.get(key, (0, -1))
        call = Call(cluster, broker, connection, key, version, client)
        if request is not None and first <= version <= last:
            return cls(call, request, correlation_id, version)
        if key == ApiKey.API_VERSIONS and last >= 0:
            # Every client can read the error in version 0.
            return cls(call, None, correlation_id, 0)
        return None

    def handle(self) -> Response | Reply | Close | None:
        """Return the response to the request."""
        if self.request is None:
            return versions.refuse_version(self.call)
        pushed = self.call.cluster.faults.take_error(self.api_key, self.call.broker.id)
        if pushed is not None and pushed.code == ErrorCode.NO_ERROR:
            pushed = None
        reply = (
            HANDLERS[self.api_key](self.call, self.request)
            if pushed is None or pushed.done
            else None
        )
        if pushed is not None:
            closes = pushed.code == CLOSE_CONNECTION
            return CLOSE if closes else refusals.refuse(self.call, self.request, pushed.code)
        if self.api_key in QUOTA_APIS and reply is not None and not isinstance(reply, Close):
            message: Any = reply.message if isinstance(reply, Reply) else reply
            message.throttle_time_ms = max(
                self.call.cluster.faults.take_throttle(self.call.broker.id),
                quotas.throttle_ms(self.call, self.request, reply),
            )
        return reply
