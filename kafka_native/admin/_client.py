"""AdminClient: manages topics, settings and groups of a cluster."""

from __future__ import annotations

from kafka_native.admin._cluster_calls import ClusterCalls
from kafka_native.admin._partition_calls import PartitionCalls
from kafka_native.admin._quorum_calls import QuorumCalls
from kafka_native.admin._quota_calls import QuotaCalls
from kafka_native.admin._security_calls import SecurityCalls
from kafka_native.admin._shared_group_calls import SharedGroupCalls
from kafka_native.admin._token_calls import TokenCalls
from kafka_native.admin._topic_calls import TopicCalls
from kafka_native.admin._transaction_calls import TransactionCalls


class AdminClient(
    TopicCalls,
    PartitionCalls,
    ClusterCalls,
    QuorumCalls,
    SharedGroupCalls,
    SecurityCalls,
    TokenCalls,
    TransactionCalls,
    QuotaCalls,
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
