"""The mock cluster: its brokers and topics, and the methods that tests call.

One lock, ``lock``, guards topics, logs, sessions and groups. A thread holds it for look-ups and
appends. No thread holds it while it reads or writes a socket, computes a checksum or waits.
"""

from __future__ import annotations

import secrets
import threading
import time
import zlib
from collections import deque
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_native._native import records
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import legacy, versions
from kafka_native.mock.access import Access
from kafka_native.mock.clock import Clock
from kafka_native.mock.faults import CLOSE_CONNECTION, PARTITION_ERROR_APIS, Faults, Tamper
from kafka_native.mock.group_registry import NO_COORDINATOR, Groups
from kafka_native.mock.log import Refused
from kafka_native.mock.logs import Logs
from kafka_native.mock.membership import Settings
from kafka_native.mock.quorum import TRANSACTION_VERSION, Quorum
from kafka_native.mock.quotas import Quotas
from kafka_native.mock.resources import Resources
from kafka_native.mock.security import ListenerSecurity, Security
from kafka_native.mock.server import Broker
from kafka_native.mock.share_groups import ShareGroups
from kafka_native.mock.share_partitions import ShareSettings
from kafka_native.mock.telemetry import ClientMetrics, Telemetry
from kafka_native.mock.topics import NO_LEADER, Topic, is_valid_name
from kafka_native.mock.transactions import Transactions
from kafka_native.protocol import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from kafka_native.mock.certificates import Certificates
    from kafka_native.mock.membership import Committed
    from kafka_native.mock.sasl import SeenLogin
    from kafka_native.mock.telemetry import PushedMetrics
    from kafka_native.mock.tls import SeenHandshake
    from kafka_native.mock.topics import Partition, Waiter

HOST = "127.0.0.1"
MESSAGE_MAX_BYTES = 1_048_588
FRAME_MAX_BYTES = 100 << 20
PARTITIONS_MAX = 10_000
_KEPT_REQUESTS = 100_000
_KEPT_CLIENT_ID = 256
_REPLICAS_MAX = 3
_CHECK_INTERVAL_S = 0.002


class SeenRequest(NamedTuple):
    """A request that a broker read. ``time`` is the ``time.monotonic()`` of that moment."""

    broker: int
    api_key: int
    version: int
    correlation_id: int
    client_id: str
    time: float


class MockCluster:
    """A Kafka cluster in this process, on real sockets of 127.0.0.1 and with the real protocol.

    The cluster keeps everything in memory. It stores record batches as the bytes that arrived.
    Broker numbers begin at 1. Broker ``1 + p % brokers`` leads partition ``p`` of a topic. The
    cluster is a context manager.

    ``groups``, ``share``, ``logs``, ``security`` and ``client_metrics`` have the methods that
    change these parts. Their names on the cluster itself, such as ``cluster.move_coordinator()``,
    are aliases for one more release.

    :param brokers: The number of brokers.
    :param port: The port of the first broker. The others follow. 0 takes free ports.
    :param auto_create_topics: Whether Metadata requests create unknown topics.
    :param default_partitions: The number of partitions where a request names none.
    :param replication_factor: The default number of replicas. None means 3, or all brokers if
        fewer.
    :param message_max_bytes: The largest batch. A larger one gets MESSAGE_TOO_LARGE.
    :param max_frame_bytes: The largest request. A larger one closes the connection.
    :param retention_bytes: How many bytes of batches the whole cluster keeps. The oldest batches go
        first. None keeps all.
    :param max_versions: The highest version of APIs, to act as an older broker. -1 removes an API.
    :param leader_hints: Whether Produce and Fetch name the new leader in NOT_LEADER errors
        (KIP-951).
    :param fetch_session_limit: The number of fetch sessions of a broker. 0 opens none.
    :param rebalance_delay: How many seconds an empty group waits for members in its first
        rebalance.
    :param group_heartbeat: The heartbeat interval of the consumer protocol in seconds (Kafka: 5).
    :param group_session: After so many silent seconds a member of the consumer protocol is removed.
    :param group_max_size: The maximum number of members of a group. None means no limit.
    :param racks: The racks of the brokers, in their order. See ``logs.set_rack()``.
    :param transaction_version: 2 for transactions as in KIP-890, 1 for the older ones.
    :param two_phase_commit: Whether brokers support two-phase commit (KIP-939). It is unstable in
        Apache Kafka 4.3.
    :param partial_batches: Whether a fetch ends with a part of the next batch if the whole one
        doesn't fit. Kafka brokers that read from files do the same.
    :param security: TLS and SASL of all brokers. None means neither.
    :param client_metrics: Whether brokers accept client metrics (KIP-714), as Kafka's brokers do
        with a plugin. ``client_metrics.subscribe()`` selects the metrics.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        port: int = 0,
        auto_create_topics: bool = True,
        default_partitions: int = 1,
        replication_factor: int | None = None,
        message_max_bytes: int = MESSAGE_MAX_BYTES,
        max_frame_bytes: int = FRAME_MAX_BYTES,
        retention_bytes: int | None = None,
        max_versions: Mapping[int, int] | None = None,
        leader_hints: bool = True,
        fetch_session_limit: int = 1000,
        rebalance_delay: float = 0.0,
        group_heartbeat: float = 0.5,
        group_session: float = 45.0,
        group_max_size: int | None = None,
        racks: Sequence[str | None] = (),
        partial_batches: bool = False,
        transaction_version: int = 2,
        two_phase_commit: bool = False,
        security: ListenerSecurity | None = None,
        client_metrics: bool = False,
    ) -> None:
        """Start the brokers. The class describes the arguments."""
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        self.auto_create_topics = auto_create_topics
        self.default_partitions = default_partitions
        self.replication_factor = (
            min(_REPLICAS_MAX, brokers) if replication_factor is None else replication_factor
        )
        self.message_max_bytes = message_max_bytes
        self.max_frame_bytes = max_frame_bytes
        self.retention_bytes = retention_bytes
        self.leader_hints = leader_hints
        self.partial_batches = partial_batches
        self.cluster_id = secrets.token_urlsafe(16)
        self.versions = versions.ranges(
            max_versions or {}, client_metrics=client_metrics, two_phase=two_phase_commit
        )
        self.lock = threading.RLock()
        self.faults, self.clock = Faults(), Clock()
        self.topics: dict[str, Topic] = {}
        self.waiters: set[Waiter] = set()
        settings = Settings(rebalance_delay, group_heartbeat, group_session, group_max_size)
        self.groups = Groups(self.lock, settings, self.topics, self.clock)
        self.share = ShareGroups(
            self.lock, ShareSettings(group_heartbeat, group_session), self.topics, self.clock
        )
        self.access = Access()
        self.telemetry = Telemetry() if client_metrics else None
        security = security or ListenerSecurity()
        self.tls, self.sasl = (
            security.tls(self.faults),
            security.sasl(self.lock, self.access, self.faults),
        )
        self.quotas, self.resources = Quotas(), Resources()
        self.quorum = Quorum(list(range(1, brokers + 1)), transaction_version)
        self.holds_reassignments = False
        self.transactions = Transactions(self.write_marker, self._store_offsets, self.clock)
        self._topic_ids: dict[bytes, Topic] = {}
        self._live: set[int] = set()
        self._requests: deque[SeenRequest] = deque(maxlen=_KEPT_REQUESTS)
        # The partitions of all batches, oldest first. Empty without a limit.
        self._kept: deque[Partition] = deque()
        self._kept_bytes = 0
        self._brokers: dict[int, Broker] = {}
        self._make_parts()
        self._start_brokers(brokers, port, racks, fetch_session_limit)

    def _start_brokers(
        self, count: int, port: int, racks: Sequence[str | None], session_limit: int
    ) -> None:
        try:
            for node in range(1, count + 1):
                own_port = port + node - 1 if port else 0
                self._brokers[node] = Broker(
                    self, node, HOST, own_port, session_limit=session_limit
                )
            for broker, rack in zip_longest(self._brokers.values(), racks[:count]):
                broker.rack = rack
                broker.start()
                self._live.add(broker.id)
        except BaseException:
            self.close()
            raise

    def _make_parts(self) -> None:
        """Make the parts that tests act on, and the aliases of their methods."""
        self.logs = Logs(self, self._brokers)
        self.security = Security(self.tls, self.sasl, self.faults)
        self.client_metrics = ClientMetrics(self.telemetry)
        groups, logs, security = self.groups, self.logs, self.security
        self.group, self.rebalance_group = groups.group, groups.rebalance_group
        self.expel_member, self.fence_member = groups.expel_member, groups.fence_member
        self.set_target, self.set_committed = groups.set_target, groups.set_committed
        self.set_heartbeat_interval, self.set_group_max_size = (
            groups.set_heartbeat_interval,
            groups.set_group_max_size,
        )
        self.set_migration, self.edit_member_metadata = (
            groups.set_migration,
            groups.edit_member_metadata,
        )
        self.set_streams_group = groups.set_streams_group
        self.move_coordinator, self.load_coordinator = (
            groups.move_coordinator,
            groups.load_coordinator,
        )
        self.deny_topic, self.deny_group = groups.deny_topic, groups.deny_group
        self.truncate, self.move_log_start = logs.truncate, logs.move_log_start
        self.hang_transaction = logs.hang_transaction
        self.set_rack, self.set_follower_lag = logs.set_rack, logs.set_follower_lag
        self.present_certificate, self.rotate_certificate = (
            security.present_certificate,
            security.rotate_certificate,
        )
        self.break_handshakes, self.break_authentication = (
            security.break_handshakes,
            security.break_authentication,
        )
        self.set_password, self.set_session_lifetime = (
            security.set_password,
            security.set_session_lifetime,
        )
        self.subscribe_metrics = self.client_metrics.subscribe

    @property
    def ca_pem(self) -> str:
        """An alias of ``security.ca_pem``."""
        return self.security.ca_pem

    @property
    def certificates(self) -> Certificates:
        """An alias of ``security.certificates``."""
        return self.security.certificates

    @property
    def handshakes(self) -> list[SeenHandshake]:
        """An alias of ``security.handshakes``."""
        return self.security.handshakes

    @property
    def logins(self) -> list[SeenLogin]:
        """An alias of ``security.logins``."""
        return self.security.logins

    @property
    def expired_sessions(self) -> int:
        """An alias of ``security.expired_sessions``."""
        return self.security.expired_sessions

    @property
    def pushed_metrics(self) -> list[PushedMetrics]:
        """An alias of ``client_metrics.pushed``."""
        return self.client_metrics.pushed

    # --- start and end ---

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the cluster."""
        self.close()

    def close(self) -> None:
        """Close every socket, and wait for the threads. A second call does nothing."""
        for broker in self._brokers.values():
            broker.stop(rebind=False)
        with self.lock:
            self._live.clear()

    @property
    def bootstrap_servers(self) -> str:
        """The advertised ``host:port`` of every broker, separated by commas.

        Includes stopped brokers.
        """
        return ",".join("{}:{}".format(*broker.endpoint) for broker in self._brokers.values())

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers, including stopped ones."""
        return list(self._brokers)

    def address(self, broker: int) -> str:
        """Return the ``host:port`` on which a broker listens, even if it advertises another."""
        return self._brokers[broker].address

    def advertise(self, broker: int, address: str | None) -> None:
        """Advertise another ``host:port`` than the one on which the broker listens, as for a proxy.

        Bootstrap servers, metadata, coordinators and leader hints use it. None ends it.
        """
        host, colon, port = (address or "").rpartition(":")
        if address is not None and not (host and colon and port.isdigit()):
            raise ValueError(f"{address!r} is not host:port")
        self._brokers[broker].advertised = (host, int(port)) if address is not None else None

    def connection_count(self, broker: int) -> int:
        """Return the number of connections of a broker."""
        return self._brokers[broker].connection_count()

    def fetch_session_count(self, broker: int) -> int:
        """Return the number of fetch sessions of a broker."""
        return len(self._brokers[broker].sessions)

    def clear_fetch_sessions(self, broker: int) -> None:
        """Forget the fetch sessions of a broker.

        The next fetches get FETCH_SESSION_ID_NOT_FOUND.
        """
        with self.lock:
            self._brokers[broker].sessions.clear()

    # --- topics ---

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic. Raises ``ValueError`` if it exists or is invalid."""
        try:
            with self.lock:
                self.add_topic(
                    name, self.plan_topic(name, partitions, replication_factor, None), configs or {}
                )
        except Refused as error:
            raise ValueError(error.text) from None

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and its committed offsets."""
        with self.lock:
            self.remove_topic(self.topics[name])

    def create_partitions(self, name: str, count: int) -> None:
        """Increase a topic's partitions to this count. Raises ``ValueError``."""
        try:
            self.grow_topic(name, count, None)
        except Refused as error:
            raise ValueError(error.text) from None

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic, 16 bytes."""
        return self.topics[name].id

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition, or -1."""
        return self.topics[topic].partitions[partition].leader

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset, and the offset after the last record."""
        with self.lock:
            log = self.topics[topic].partitions[partition].log
            return log.start_offset, log.end_offset

    def batches(self, topic: str, partition: int) -> list[bytes]:
        """Return the stored batches of a partition."""
        with self.lock:
            return self.topics[topic].partitions[partition].log.batches()

    def messages(self, topic: str, partition: int) -> list[records.Record]:
        """Return the decoded records of a partition."""
        data = b"".join(self.batches(topic, partition))
        return [record for batch in records.decode_batches(data) for record in batch.records]

    @property
    def kept_bytes(self) -> int:
        """The number of stored bytes, in all batches."""
        with self.lock:
            return sum(
                one.log.size_bytes for topic in self.topics.values() for one in topic.partitions
            )

    # --- brokers and leaders ---

    def hold_reassignments(self) -> None:
        """Keep reassignments in progress until ``finish_reassignments()``."""
        with self.lock:
            self.holds_reassignments = True

    def finish_reassignments(self) -> None:
        """Complete every reassignment in progress. Later ones complete at once."""
        with self.lock:
            self.holds_reassignments = False
            for partition in self._partitions():
                partition.end_move()

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make another broker the leader of a partition, in a new leader epoch.

        -1 leaves the partition without a leader.
        """
        if broker not in self._brokers and broker != NO_LEADER:
            raise ValueError(f"there is no broker {broker}")
        with self.lock:
            self.topics[topic].partitions[partition].lead(broker)

    def broker_down(self, broker: int) -> None:
        """Stop a broker. It closes its connections and refuses new ones.

        The next replica that is up becomes the leader of its partitions.
        """
        self.remove_broker(broker)
        self._brokers[broker].stop(rebind=True)
        with self.lock:
            self._brokers[broker].sessions.clear()

    def remove_broker(self, broker: int) -> None:
        """Remove a broker from metadata and leadership, as if it were fenced.

        Its connections stay open, and it still answers requests.
        """
        with self.lock:
            self._live.discard(broker)
            for partition in self._partitions():
                if partition.leader == broker:
                    partition.lead(next(iter(partition.in_sync()), NO_LEADER))

    def broker_up(self, broker: int, port: int | None = None) -> None:
        """Start a stopped or removed broker again. It leads its partitions that have no leader.

        It listens on its old port or on another one. ``port=0`` finds a free port. Raises
        ``ValueError`` for a new port while the broker still listens.
        """
        found = self._brokers[broker]
        if port is not None:
            if found.is_up:
                raise ValueError(f"broker {broker} is up, on port {found.port}")
            found.move(port)
        if not found.is_up:
            found.start()
        with self.lock:
            if broker in self._live:
                return
            self._live.add(broker)
            self.quorum.unregistered.discard(broker)
            for partition in self._partitions():
                if partition.leader == NO_LEADER and broker in partition.replicas:
                    partition.lead(broker)

    def disconnect(self, broker: int) -> None:
        """Close all connections of a broker. The broker stays up."""
        self._brokers[broker].disconnect()

    # --- faults ---

    def push_request_errors(
        self,
        api_key: int,
        codes: Iterable[int],
        broker: int | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        done: bool = False,
    ) -> None:
        """Answer the next requests of an API with these error codes, one each.

        The broker doesn't execute these requests. 0 lets a request through. ``CLOSE_CONNECTION``
        closes its connection.

        :param broker: Only requests to this broker. Its errors are used before those for any
            broker.
        :param topic: Only this topic's part of a request, one code each time. The broker executes
            the rest. It works for Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, Metadata,
            OffsetCommit, OffsetFetch, ShareFetch and ShareAcknowledge (acknowledgements in both).
        :param partition: Only this partition of the topic. Without it, the next partition of the
            topic, and in Metadata the topic as a whole.
        :param done: Execute the request, and then answer with the error. For example the broker
            stores a batch, and the producer gets REQUEST_TIMED_OUT, or a closed connection.
        """
        codes = [int(code) for code in codes]
        if topic is None and partition is not None:
            raise ValueError("partition needs a topic")
        if topic is not None and (api_key not in PARTITION_ERROR_APIS or CLOSE_CONNECTION in codes):
            raise ValueError(f"API {api_key} can't return {codes} for one topic")
        if done and api_key == ApiKey.FETCH and set(codes) - {CLOSE_CONNECTION}:
            raise ValueError("done=True has no meaning for Fetch")
        self.faults.push_errors(api_key, codes, broker, topic, partition, done)

    def delay_responses(
        self, broker: int | None, seconds: float, api_key: int | None = None
    ) -> None:
        """Delay responses by so many seconds, as a slow network does. 0 ends the delay.

        ``broker=None`` means any broker, ``api_key=None`` any API. A delay for an API wins over a
        delay for a broker. The responses of a connection stay in order, so later ones wait for a
        delayed one.
        """
        self.faults.set_delay(broker, api_key, seconds)

    def throttle_responses(self, broker: int, milliseconds: int, count: int = 1) -> None:
        """Report a throttle time in a broker's next Produce and Fetch responses.

        The broker executes the requests.
        """
        self.faults.throttle(broker, milliseconds, count)

    def close_mid_frame(
        self, broker: int | None, after_bytes: int, api_key: int | None = None, count: int = 1
    ) -> None:
        """Close the connection after so many bytes of the next responses.

        The broker has executed the request. With ``api_key`` only responses of that API count.
        """
        self.faults.tamper_with(broker, api_key, count, Tamper(after_bytes=after_bytes))

    def oversize_next_response(
        self, broker: int | None, announced_bytes: int, api_key: int | None = None, count: int = 1
    ) -> None:
        """Announce this frame size in the next responses, whatever their real size."""
        if not 0 <= announced_bytes <= 0xFFFFFFFF:
            raise ValueError("a frame's length has 32 bits")
        self.faults.tamper_with(broker, api_key, count, Tamper(announced_bytes=announced_bytes))

    def mix_up_responses(
        self, broker: int | None, api_key: int | None = None, count: int = 1
    ) -> None:
        """Give the next responses a wrong correlation id."""
        self.faults.tamper_with(broker, api_key, count, Tamper(other_correlation_id=1_000_000))

    def edit_responses(
        self, api_key: int, edit: Callable[[Any], None], broker: int | None = None, count: int = 1
    ) -> None:
        """Call a function that changes the next responses of an API before they are sent.

        The connection's thread passes it the message (``kafka_native.protocol``). The function
        changes the fields in place, to any value that the protocol allows.
        """
        self.faults.tamper_with(broker, api_key, count, Tamper(edit=edit))

    def rewrite_responses(
        self,
        api_key: int | None,
        rewrite: Callable[[bytes], bytes],
        broker: int | None = None,
        count: int = 1,
    ) -> None:
        """Call a function that rewrites the bytes of the next responses, of one API or of any.

        The connection's thread passes it a frame that begins with its length. The broker sends the
        bytes that the function returns.
        """
        self.faults.tamper_with(broker, api_key, count, Tamper(rewrite=rewrite))

    def forget_producers(self, topic: str, partition: int, *, refuse: bool = False) -> None:
        """Forget the producer ids of a partition, as if retention had removed their last batches.

        Then the partition accepts a batch of any sequence as a producer's first. With ``refuse``
        such a batch gets UNKNOWN_PRODUCER_ID unless its sequence is 0, as in brokers before 2.5.
        """
        with self.lock:
            self.topics[topic].partitions[partition].log.forget_producers(refuse=refuse)

    def corrupt_next_fetch(self, topic: str, partition: int, count: int = 1) -> None:
        """Flip a bit in the first batch of the next fetches of a partition.

        The stored batch stays intact.
        """
        self.faults.corrupt_fetch(topic, partition, count)

    def hide_topic(self, topic: str, replies: int = 1) -> None:
        """Omit a topic from the next Metadata replies, like a broker with stale metadata."""
        self.faults.hide_topic(topic, replies)

    def append_raw(
        self, topic: str, partition: int, data: bytes, record_count: int | None = None
    ) -> int:
        """Append bytes to a partition's log without checks, and return their first offset.

        Batches and message sets get the next offsets. With ``record_count`` the cluster neither
        reads nor changes the bytes: any bytes then count as so many records.
        """
        view = memoryview(bytearray(data))
        with self.lock:
            found = self.topics[topic].partitions[partition]
            log = found.log
            first = log.end_offset
            if record_count is not None:
                log.store(view, record_count, -1, found.leader_epoch)
            else:
                _plant(found, view)
            self.appended(found, len(view))
        return first

    @property
    def requests(self) -> list[SeenRequest]:
        """The last 100,000 requests, oldest first."""
        return list(self._requests)

    def requests_of(self, api_key: int, broker: int | None = None) -> list[SeenRequest]:
        """Return the seen requests of one API, optionally of one broker only."""
        return [
            seen
            for seen in self.requests
            if seen.api_key == api_key and broker in (None, seen.broker)
        ]

    def wait_for_requests(
        self, api_key: int, count: int = 1, broker: int | None = None, timeout: float = 10.0
    ) -> list[SeenRequest]:
        """Wait until so many requests of an API have arrived, and return them.

        Raises ``TimeoutError``.
        """
        deadline = time.monotonic() + timeout
        while len(found := self.requests_of(api_key, broker)) < count:
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    f"{len(found)} of {count} requests of API {api_key} came within {timeout} s"
                )
            time.sleep(_CHECK_INTERVAL_S)
        return found

    def clear_requests(self) -> None:
        """Forget the requests seen so far."""
        self._requests.clear()

    # --- For handlers. Methods that change something need the lock, unless they say otherwise. ---

    def note_request(
        self, broker: int, api_key: int, version: int, correlation_id: int, client_id: str
    ) -> None:
        """Remember a request. Needs no lock."""
        client_id = client_id[:_KEPT_CLIENT_ID]
        self._requests.append(
            SeenRequest(broker, api_key, version, correlation_id, client_id, time.monotonic())
        )

    def live_brokers(self) -> list[Broker]:
        """Return the brokers that are up."""
        return [broker for broker in self._brokers.values() if broker.id in self._live]

    def fenced_brokers(self) -> list[Broker]:
        """Return the brokers that are registered but not up."""
        gone = self._live | self.quorum.unregistered
        return [broker for broker in self._brokers.values() if broker.id not in gone]

    @property
    def transaction_version(self) -> int:
        """The level of the feature ``transaction.version``."""
        return self.quorum.levels[TRANSACTION_VERSION]

    def rack_of(self, broker: int) -> str | None:
        """Return the rack of a broker."""
        return self._brokers[broker].rack

    def controller_id(self) -> int:
        """Return the controller: the lowest broker that is up, or -1."""
        return min(self._live, default=-1)

    def coordinator_of(self, key: str) -> Broker | None:
        """Return the coordinator of a group or transactional id, or None.

        A test can choose it. Otherwise a hash of the key selects a broker, or the next one that is
        up.
        """
        live = self.live_brokers()
        moved = self.groups.coordinators.moved.get(key)
        if moved == NO_COORDINATOR or not live:
            return None
        if moved is not None:
            return next((broker for broker in live if broker.id == moved), None)
        wanted = 1 + zlib.crc32(key.encode("utf-8", "surrogatepass")) % len(self._brokers)
        return next((broker for broker in live if broker.id >= wanted), live[0])

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with this id, or None."""
        return self._topic_ids.get(topic_id)

    def plan_topic(
        self,
        name: str,
        partitions: int | None,
        replication_factor: int | None,
        assignment: Sequence[Sequence[int]] | None,
    ) -> list[list[int]]:
        """Return the replicas of a new topic's partitions. Raises ``Refused``."""
        if not is_valid_name(name):
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name!r} is not a valid topic name")
        if name in self.topics:
            raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name} exists")
        if assignment is not None:
            return self._checked_assignment(assignment)
        count = self.default_partitions if partitions is None else partitions
        if not 1 <= count <= PARTITIONS_MAX:
            raise Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"a topic has 1 to {PARTITIONS_MAX} partitions, not {count}",
            )
        factor = self.replication_factor if replication_factor is None else replication_factor
        if not 1 <= factor <= len(self._brokers):
            text = f"replication factor {factor} with {len(self._brokers)} brokers"
            raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        return [self._replicas(index, factor) for index in range(count)]

    def _replicas(self, partition: int, factor: int) -> list[int]:
        ids = list(self._brokers)
        return [ids[(partition + step) % len(ids)] for step in range(factor)]

    def _checked_assignment(self, assignment: Sequence[Sequence[int]]) -> list[list[int]]:
        for nodes in assignment:
            if not nodes or len(set(nodes)) != len(nodes) or not set(nodes) <= set(self._brokers):
                raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(nodes)}")
        return [list(nodes) for nodes in assignment]

    def add_topic(
        self, name: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str | None]
    ) -> Topic:
        """Create a topic with the replicas from ``plan_topic()``."""
        topic = Topic(name, replicas, configs, self._live)
        self.topics[name] = self._topic_ids[topic.id] = topic
        return topic

    def make_topic(self, name: str) -> Topic:
        """Create a topic with the defaults, as automatic creation does."""
        return self.add_topic(name, self.plan_topic(name, None, None, None), {})

    def remove_topic(self, topic: Topic) -> None:
        """Delete a topic, and wake the fetches that wait for it."""
        del self.topics[topic.name]
        del self._topic_ids[topic.id]
        self.groups.forget_topic(topic.name)
        for partition in topic.partitions:
            # The entries of the partition in ``_kept`` are without effect from now on.
            self.begin_at(partition, partition.log.end_offset)
            partition.wake()

    def grow_topic(
        self,
        name: str,
        count: int,
        assignment: Sequence[Sequence[int]] | None,
        *,
        only_check: bool = False,
    ) -> None:
        """Increase a topic's partitions. Takes the lock. Raises ``Refused``."""
        with self.lock:
            topic = self.topics.get(name)
            if topic is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
            known = len(topic.partitions)
            if not known < count <= PARTITIONS_MAX:
                raise Refused(
                    ErrorCode.INVALID_PARTITIONS,
                    f"the topic has {known} partitions, it can't have {count}",
                )
            if assignment is None:
                factor = len(topic.partitions[0].replicas)
                replicas = [
                    self._replicas(index, min(factor, len(self._brokers)))
                    for index in range(known, count)
                ]
            else:
                replicas = self._checked_assignment(assignment)
                if len(replicas) != count - known:
                    raise Refused(
                        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                        "each new partition needs an assignment",
                    )
            if not only_check:
                topic.grow(replicas)

    def appended(self, partition: Partition, size_bytes: int) -> None:
        """Count a batch that was stored, and wake the fetches that wait for it."""
        if self.retention_bytes is not None:
            self._kept.append(partition)
            self._kept_bytes += size_bytes
        if partition.waiters:
            partition.wake()

    def begin_at(self, partition: Partition, offset: int) -> None:
        """Move the first offset of a partition forward."""
        freed = partition.log.truncate_before(offset)
        if self.retention_bytes is not None:
            self._kept_bytes -= freed

    def enforce_retention(self) -> None:
        """Drop the oldest batches that exceed the retention limit. Takes the lock."""
        if self.retention_bytes is None or self._kept_bytes <= self.retention_bytes:
            return
        with self.lock:
            while self._kept_bytes > self.retention_bytes and len(self._kept) > 1:
                partition = self._kept.popleft()
                if partition.log.size_bytes:
                    self._kept_bytes -= partition.log.drop_oldest()

    def write_marker(
        self, key: tuple[str, int], producer_id: int, epoch: int, commit: bool
    ) -> None:
        """End a producer's transaction in a partition. Call it under the lock."""
        topic = self.topics.get(key[0])
        partition = None if topic is None else topic.partition(key[1])
        if partition is not None:
            now = int(time.time() * 1000)
            size = partition.log.end_transaction(
                producer_id, epoch, now, partition.leader_epoch, commit=commit
            )
            self.appended(partition, size)

    def _store_offsets(self, group: str, offsets: dict[tuple[str, int], Committed]) -> None:
        self.groups.for_commit(group).offsets.update(offsets)

    def advance(self, seconds: float) -> None:
        """Move the cluster's clock forward, so that everything due in these seconds ends now.

        The clock governs sessions, rebalances and memberships of groups, locks of share groups,
        transactions, waiting fetches, a coordinator's loading, and ``delay_responses()``. Clients
        keep the machine's time. Raises ``ValueError`` for a negative number.
        """
        with self.lock:
            self.clock.advance(seconds)
        self.wake_everyone()

    def wake_everyone(self) -> None:
        """Wake every waiting request, so that it checks its connection. Takes the lock."""
        with self.lock:
            for waiter in self.waiters:
                waiter.event.set()
            self.groups.wake()

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self.topics.values() for partition in topic.partitions]


def _plant(partition: Partition, data: memoryview) -> None:
    log = partition.log
    headers = records.batch_headers(data)
    if not headers or sum(header.size_bytes for header in headers) != len(data):
        raise ValueError("these aren't whole batches: pass record_count to store them unchecked")
    for header in headers:
        piece = data[header.position : header.position + header.size_bytes]
        if header.magic == 2:
            records.set_base_offset(piece, log.end_offset, partition.leader_epoch)
            count = header.last_offset - header.base_offset + 1
            log.store(piece, count, header.max_timestamp, partition.leader_epoch)
        else:
            legacy.store(log, legacy.check(piece, max_bytes=len(piece)), partition.leader_epoch)
