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

    Calls return at once; the futures are completed by the client's own thread, which `add_done_callback()` must not
    hold up, and fail with KafkaException. What one item of a call fails with concerns its future only. Where a broker
    isn't in charge any more, the one that is gets asked, until the time is over. A change whose connection breaks
    before the answer fails with _TRANSPORT: it may have been made.

    Options of the calls, by keyword:

    - ``request_timeout``: seconds for the whole call, 0 or more; -1: ``socket.timeout.ms``.
    - ``operation_timeout``: seconds that the broker may take before it answers, 0 or more (0: it answers before
      everything is done); -1: as the request's.
    - ``validate_only``: change nothing, only see whether it would work.

    ``TypeError`` and ``ValueError`` for arguments that can't be. Configuration: librdkafka's properties
    (docs/CONFIGURATION.md). ``error_cb`` and ``throttle_cb`` are called by `poll()`.

    Safe to use from several threads. It has to live until its futures are done: closing it, or dropping it, fails those
    that aren't with _DESTROY. After ``fork()`` the child has to make a client of its own.
    """
