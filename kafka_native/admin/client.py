"""AdminClient: manages topics, settings and groups of a cluster."""

from __future__ import annotations

from kafka_native.admin.acls import AclsAdmin
from kafka_native.admin.configs import ConfigsAdmin
from kafka_native.admin.partitions import PartitionsAdmin
from kafka_native.admin.quorum import QuorumAdmin
from kafka_native.admin.quotas import QuotasAdmin
from kafka_native.admin.share_groups import ShareGroupsAdmin
from kafka_native.admin.tokens import TokensAdmin
from kafka_native.admin.topics import TopicsAdmin
from kafka_native.admin.transactions import TransactionsAdmin
from kafka_native.admin.users import UsersAdmin


class AdminClient(
    TopicsAdmin,
    PartitionsAdmin,
    ConfigsAdmin,
    AclsAdmin,
    UsersAdmin,
    ShareGroupsAdmin,
    TransactionsAdmin,
    QuorumAdmin,
    QuotasAdmin,
    TokensAdmin,
):
    """Manages a cluster: topics, settings, groups, offsets.

        admin = AdminClient({"bootstrap.servers": "localhost:9092"})
        for topic, future in admin.create_topics([NewTopic("greetings", 3)]).items():
            future.result()  # None, or KafkaException

    Calls return at once. The client's own thread completes the futures, so callbacks of
    `add_done_callback()` must not block. Failed futures raise KafkaException. The failure of one
    item concerns only its own future. If the responsible broker has moved, the client asks the new
    one, until the time is over. If the connection of a change breaks before the reply, the change
    fails with _TRANSPORT: it may have taken effect.

    Options of the calls, by keyword:

    - ``request_timeout``: seconds for the whole call, 0 or more; -1: ``socket.timeout.ms``.
    - ``operation_timeout``: seconds that the broker may take before it replies, 0 or more; -1: the
      request's timeout. After it the broker replies REQUEST_TIMED_OUT. With ZooKeeper it continues;
      with KRaft a change whose time is over before it begins, always so with 0, isn't made.
    - ``validate_only``: changes nothing, only checks whether the call would succeed.

    Invalid arguments raise ``TypeError`` or ``ValueError``. Configuration: librdkafka's properties
    (docs/CONFIGURATION.md). `poll()` runs ``error_cb`` and ``throttle_cb``.

    Several threads may use a client. It has to live until its futures are done: closing or dropping
    it fails unfinished ones with _DESTROY. After ``fork()`` the child has to create its own client.
    """
