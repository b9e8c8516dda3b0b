"""The mock cluster: its start and end, and the methods that tests call."""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_native._native import records
from kafka_native.mock import message_sets, saved_state, versions
from kafka_native.mock.clock import Clock
from kafka_native.mock.faults import CLOSE_CONNECTION, PARTITION_ERROR_APIS, Tamper
from kafka_native.mock.handlers import Incoming
from kafka_native.mock.log import Refused
from kafka_native.mock.logs import Logs
from kafka_native.mock.membership import GroupSettings
from kafka_native.mock.quorum import Quorum
from kafka_native.mock.resources import Resources
from kafka_native.mock.security import ListenerSecurity, Security
from kafka_native.mock.server import Broker, BrokerCallbacks, BrokerSettings
from kafka_native.mock.share_partitions import ShareSettings
from kafka_native.mock.state import ClusterSettings, ClusterState
from kafka_native.mock.telemetry import ClientMetrics
from kafka_native.mock.topics import NO_LEADER
from kafka_native.protocol import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from kafka_native.mock.certificates import Certificates
    from kafka_native.mock.requests import SeenRequest
    from kafka_native.mock.sasl import SeenLogin
    from kafka_native.mock.saved_state import SavedState
    from kafka_native.mock.telemetry import PushedMetrics
    from kafka_native.mock.tls import SeenHandshake
    from kafka_native.mock.topics import Partition

HOST = "127.0.0.1"
MESSAGE_MAX_BYTES = 1_048_588
FRAME_MAX_BYTES = 100 << 20
_REPLICAS_MAX = 3


class MockCluster:
    """A Kafka cluster in this process, on real sockets of 127.0.0.1 and with the real protocol.

    The cluster keeps everything in memory. It stores record batches as the bytes that arrived.
    Broker numbers begin at 1. Broker ``1 + p % brokers`` leads partition ``p`` of a topic. The
    cluster is a context manager.

    ``groups``, ``share``, ``logs``, ``security`` and ``client_metrics`` have the methods that
    change these parts. Their names on the cluster itself, such as ``cluster.move_coordinator()``,
    are aliases for one more release. ``state`` is internal.

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
    :param group_session: How many seconds a member of the consumer protocol may send nothing. Then
        the cluster removes it.
    :param group_max_size: The maximum number of members of a group. None means no limit.
    :param racks: The racks of the brokers, in their order. See ``logs.set_rack()``.
    :param transaction_version: 2 for transactions as in KIP-890, 1 for the older ones.
    :param two_phase_commit: Whether brokers support two-phase commit (KIP-939). It is unstable in
        Apache Kafka 4.3.
    :param partial_batches: Whether a fetch ends with a part of the next batch if the whole one
        doesn't fit. Kafka brokers that read from files do the same.
    :param internal_topics: Whether ``__consumer_offsets``, ``__transaction_state`` and
        ``__share_group_state`` appear when their coordinators are first used. They stay empty.
    :param security: TLS and SASL of all brokers. None means neither.
    :param client_metrics: Whether brokers accept client metrics (KIP-714), as Kafka's brokers do
        with a plugin. ``client_metrics.subscribe()`` selects the metrics.
    :param clock: The cluster's clock. None means the machine's. With a ``VirtualClock`` time stands
        still until ``advance()``.
    :param load: A folder that ``save()`` wrote. The cluster begins with its state. Raises
        ``FileNotFoundError`` or ``ValueError`` if the folder has none, or a damaged one.
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
        internal_topics: bool = True,
        security: ListenerSecurity | None = None,
        client_metrics: bool = False,
        clock: Clock | None = None,
        load: str | Path | None = None,
    ) -> None:
        """Start the brokers. The class describes the arguments."""
        if brokers < 1:
            raise ValueError("a cluster has at least one broker")
        saved = None if load is None else saved_state.read(Path(load))
        security = security or ListenerSecurity()
        settings = ClusterSettings(
            auto_create_topics=auto_create_topics,
            default_partitions=default_partitions,
            replication_factor=(
                min(_REPLICAS_MAX, brokers) if replication_factor is None else replication_factor
            ),
            message_max_bytes=message_max_bytes,
            retention_bytes=retention_bytes,
            leader_hints=leader_hints,
            partial_batches=partial_batches,
            versions=versions.ranges(
                {ApiKey(key): version for key, version in (max_versions or {}).items()},
                client_metrics=client_metrics,
                two_phase=two_phase_commit,
            ),
            internal_topics=internal_topics,
            security_protocol=security.protocol,
            static=security.static_settings()
            | _limits(max_frame_bytes, fetch_session_limit, two_phase_commit),
        )
        resources = Resources()
        state = self.state = ClusterState(
            settings,
            GroupSettings(
                rebalance_delay, group_heartbeat, group_session, group_max_size, resources
            ),
            ShareSettings(group_heartbeat, group_session, resources),
            Quorum(list(range(1, brokers + 1)), transaction_version),
            resources,
            security,
            clock or Clock(),
            client_metrics=client_metrics,
        )
        self._name_parts(state, security)
        shared = BrokerSettings(
            self.sasl, self.tls, self.faults, self.clock, max_frame_bytes, fetch_session_limit
        )
        self._start_brokers(brokers, port, racks, shared, saved)

    def _name_parts(self, state: ClusterState, security: ListenerSecurity) -> None:
        self.cluster_id = state.cluster_id
        self.faults, self.clock = state.faults, state.clock
        self.topics, self.transactions = state.topics, state.transactions
        self.groups, self.share, self.logs = state.groups, state.share, Logs(state)
        self.access, self.quotas, self.quorum = state.access, state.quotas, state.quorum
        self.sasl, self.tls = state.sasl, security.tls(state.faults)
        self.security = Security(self.tls, self.sasl, self.faults)
        self.client_metrics = ClientMetrics(state.telemetry)
        self._make_aliases()
        state.clock.subscribe(self._after_advance)

    def _start_brokers(
        self,
        count: int,
        port: int,
        racks: Sequence[str | None],
        settings: BrokerSettings,
        saved: SavedState | None,
    ) -> None:
        state = self.state
        callbacks = BrokerCallbacks(
            partial(Incoming.read, state), state.wake_requests, state.share.end_sessions
        )
        try:
            for node in range(1, count + 1):
                own_port = port + node - 1 if port else 0
                state.add_broker(Broker(node, HOST, own_port, settings, callbacks))
            if saved is not None:
                saved_state.restore(state, saved)
                self.cluster_id = state.cluster_id = saved.cluster_id
            for broker, rack in zip_longest(state.brokers.values(), racks[:count]):
                broker.rack = rack
                broker.start()
                with state.lock:
                    state.unfence_broker(broker.id)
        except BaseException:
            self.close()
            raise

    def _make_aliases(self) -> None:
        """Make the old names of the methods of ``groups``, ``logs`` and the other parts."""
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
        self.clock.unsubscribe(self._after_advance)
        for broker in self.state.brokers.values():
            broker.stop(rebind=False)
        with self.state.lock:
            self.state.clear_live_brokers()

    def save(self, folder: str | Path) -> None:
        """Save the state of the cluster to a folder, for ``MockCluster(load=folder)``.

        The folder gets topics with their records, committed offsets, settings, features, ACLs,
        quotas, SCRAM credentials, delegation tokens, share groups, producer ids and transactions.
        It doesn't get members of groups, faults, passwords for PLAIN, or the arguments of the
        cluster. A group without members is left of each group. Only the owner of the files may
        read them. Clients may use the cluster meanwhile.
        """
        saved_state.save(self.state, Path(folder))

    @property
    def bootstrap_servers(self) -> str:
        """The advertised ``host:port`` of every broker, separated by commas.

        Includes stopped brokers.
        """
        return ",".join("{}:{}".format(*broker.endpoint) for broker in self.state.brokers.values())

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all brokers, including stopped ones."""
        return list(self.state.brokers)

    def address(self, broker: int) -> str:
        """Return the ``host:port`` on which a broker listens, even if it advertises another."""
        return self.state.brokers[broker].address

    def advertise(self, broker: int, address: str | None) -> None:
        """Advertise another ``host:port`` than the one on which the broker listens, as for a proxy.

        Bootstrap servers, metadata, coordinators and leader hints use it. None ends it.
        """
        host, colon, port = (address or "").rpartition(":")
        if address is not None and not (host and colon and port.isdigit()):
            raise ValueError(f"{address!r} is not host:port")
        self.state.brokers[broker].advertised = (host, int(port)) if address is not None else None

    def connection_count(self, broker: int) -> int:
        """Return the number of connections of a broker."""
        return self.state.brokers[broker].connection_count()

    def fetch_session_count(self, broker: int) -> int:
        """Return the number of fetch sessions of a broker."""
        return len(self.state.brokers[broker].sessions)

    def clear_fetch_sessions(self, broker: int) -> None:
        """Forget the fetch sessions of a broker.

        The next fetches get FETCH_SESSION_ID_NOT_FOUND.
        """
        with self.state.lock:
            self.state.brokers[broker].sessions.clear()

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
        state = self.state
        try:
            with state.lock:
                planned = state.plan_topic(name, partitions, replication_factor, None)
                state.add_topic(name, planned, configs or {})
        except Refused as error:
            raise ValueError(error.text) from None

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and its committed offsets."""
        with self.state.lock:
            self.state.remove_topic(self.topics[name])

    def create_partitions(self, name: str, count: int) -> None:
        """Increase a topic's partitions to this count. Raises ``ValueError``."""
        try:
            self.state.grow_topic(name, count, None)
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
        with self.state.lock:
            log = self.topics[topic].partitions[partition].log
            return log.start_offset, log.end_offset

    def batches(self, topic: str, partition: int) -> list[bytes]:
        """Return the stored batches of a partition."""
        with self.state.lock:
            return self.topics[topic].partitions[partition].log.batches()

    def messages(self, topic: str, partition: int) -> list[records.Record]:
        """Return the decoded records of a partition."""
        data = b"".join(self.batches(topic, partition))
        return [record for batch in records.decode_batches(data) for record in batch.records]

    @property
    def kept_bytes(self) -> int:
        """The number of stored bytes, in all batches."""
        with self.state.lock:
            return sum(
                one.log.size_bytes for topic in self.topics.values() for one in topic.partitions
            )

    # --- settings ---

    @property
    def auto_create_topics(self) -> bool:
        """Whether Metadata requests create unknown topics. You can change it."""
        return self.state.settings.auto_create_topics

    @auto_create_topics.setter
    def auto_create_topics(self, creates: bool) -> None:
        self.state.settings.auto_create_topics = creates

    @property
    def leader_hints(self) -> bool:
        """Whether Produce and Fetch name the new leader in NOT_LEADER errors (KIP-951)."""
        return self.state.settings.leader_hints

    @leader_hints.setter
    def leader_hints(self, has_hints: bool) -> None:
        self.state.settings.leader_hints = has_hints

    @property
    def transaction_version(self) -> int:
        """The level of the feature ``transaction.version``."""
        return self.state.transaction_version

    # --- time ---

    def advance(self, seconds: float) -> None:
        """Move the cluster's clock forward, so that everything due in these seconds ends now.

        The clock governs sessions, rebalances and memberships of groups, locks of share groups,
        transactions, waiting fetches, quotas, a coordinator's loading, ``delay_responses()``, and
        records older than the own ``retention.ms`` of their topic. Clients keep the machine's
        time. Raises ``ValueError`` for a negative number.
        """
        self.clock.advance(seconds)

    def _after_advance(self) -> None:
        self.state.enforce_retention_times()
        self.state.wake_requests()

    # --- brokers and leaders ---

    def coordinator_of(self, key: str) -> Broker | None:
        """Return the coordinator of a group or transactional id, or None."""
        return self.state.coordinator_of(key)

    def controller_id(self) -> int:
        """Return the controller: the lowest broker that is up, or -1."""
        return self.state.controller_id()

    def hold_reassignments(self) -> None:
        """Keep reassignments in progress until ``finish_reassignments()``."""
        with self.state.lock:
            self.state.reassignments_held = True

    def finish_reassignments(self) -> None:
        """Complete every reassignment in progress. Later ones complete at once."""
        with self.state.lock:
            self.state.reassignments_held = False
            for partition in self.state.partitions():
                partition.end_move()

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make another broker the leader of a partition, in a new leader epoch.

        -1 leaves the partition without a leader.
        """
        if broker not in self.state.brokers and broker != NO_LEADER:
            raise ValueError(f"there is no broker {broker}")
        with self.state.lock:
            self.topics[topic].partitions[partition].lead(broker)

    def broker_down(self, broker: int) -> None:
        """Stop a broker. It closes its connections and refuses new ones.

        The next replica that is up becomes the leader of its partitions.
        """
        self.remove_broker(broker)
        self.state.brokers[broker].stop(rebind=True)
        with self.state.lock:
            self.state.brokers[broker].sessions.clear()

    def remove_broker(self, broker: int) -> None:
        """Remove a broker from metadata and leadership, as if it were fenced.

        Its connections stay open, and it still answers requests.
        """
        self._check_place(broker)
        with self.state.lock:
            self.state.fence_broker(broker)

    def broker_up(self, broker: int, port: int | None = None) -> None:
        """Start a stopped or removed broker again. It leads its partitions that have no leader.

        Like a restarted Kafka, it knows only the last batch of each producer of its partitions.
        It listens on its old port or on another one. ``port=0`` finds a free port. Raises
        ``ValueError`` for a new port while the broker still listens.
        """
        found = self.state.brokers[broker]
        if port is not None:
            if found.is_up:
                raise ValueError(f"broker {broker} is up, on port {found.port}")
            found.move(port)
        was_down = not found.is_up
        if was_down:
            found.start()
        with self.state.lock:
            self.state.unfence_broker(broker)
            if was_down:
                self.state.forget_earlier_batches(broker)

    def disconnect(self, broker: int) -> None:
        """Close all connections of a broker. The broker stays up."""
        self.state.brokers[broker].disconnect()

    # --- faults ---

    def _check_place(self, broker: int | None, api_key: int | None = None) -> None:
        """Raise ValueError for a fault that could never happen."""
        if broker is not None and broker not in self.state.brokers:
            raise ValueError(f"there is no broker {broker}: the brokers are {self.broker_ids}")
        if api_key is not None:
            ApiKey(api_key)

    def end_faults(self) -> None:
        """Forget the faults that no request has met, and start stopped and removed brokers."""
        self.faults.clear()
        for broker in self.broker_ids:
            self.broker_up(broker)

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
        self._check_place(broker, api_key)
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
        """Delay responses by this many seconds, as a slow network does. 0 ends the delay.

        ``broker=None`` means any broker, ``api_key=None`` any API. A delay for an API wins over a
        delay for a broker. The responses of a connection stay in order, so later ones wait for a
        delayed one.
        """
        self._check_place(broker, api_key)
        self.faults.set_delay(broker, api_key, seconds)

    def throttle_responses(self, broker: int | None, milliseconds: int, count: int = 1) -> None:
        """Report a throttle time in a broker's next Produce and Fetch responses.

        The broker executes the requests.
        """
        self._check_place(broker)
        self.faults.throttle(broker, milliseconds, count)

    def close_mid_frame(
        self, broker: int | None, after_bytes: int, api_key: int | None = None, count: int = 1
    ) -> None:
        """Close the connection after this many bytes of the next responses.

        The broker has executed the request. With ``api_key`` only responses of that API count.
        """
        self._check_place(broker, api_key)
        self.faults.tamper_with(broker, api_key, count, Tamper(after_bytes=after_bytes))

    def oversize_next_response(
        self, broker: int | None, announced_bytes: int, api_key: int | None = None, count: int = 1
    ) -> None:
        """Announce this frame size in the next responses, in place of their real size."""
        if not 0 <= announced_bytes <= 0xFFFFFFFF:
            raise ValueError("a frame's length has 32 bits")
        self._check_place(broker, api_key)
        self.faults.tamper_with(broker, api_key, count, Tamper(announced_bytes=announced_bytes))

    def mix_up_responses(
        self, broker: int | None, api_key: int | None = None, count: int = 1
    ) -> None:
        """Give the next responses a wrong correlation id."""
        self._check_place(broker, api_key)
        self.faults.tamper_with(broker, api_key, count, Tamper(other_correlation_id=1_000_000))

    def edit_responses(
        self, api_key: int, edit: Callable[[Any], None], broker: int | None = None, count: int = 1
    ) -> None:
        """Call a function that changes the next responses of an API before they are sent.

        The connection's thread passes it the message (``kafka_native.protocol``). The function
        changes the fields in place, to any value that the protocol allows.
        """
        self._check_place(broker, api_key)
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
        self._check_place(broker, api_key)
        self.faults.tamper_with(broker, api_key, count, Tamper(rewrite=rewrite))

    def forget_producers(self, topic: str, partition: int, *, refuse: bool = False) -> None:
        """Forget the producer ids of a partition, as if retention had removed their last batches.

        Then the partition accepts a batch of any sequence as a producer's first. With ``refuse``
        such a batch gets UNKNOWN_PRODUCER_ID unless its sequence is 0, as in brokers before 2.5.
        """
        with self.state.lock:
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
        reads nor changes the bytes: any bytes then count as this many records.
        """
        view = memoryview(bytearray(data))
        with self.state.lock:
            found = self.topics[topic].partitions[partition]
            log = found.log
            first = log.end_offset
            if record_count is not None:
                log.store(view, record_count, -1, found.leader_epoch)
            else:
                _plant(found, view)
            self.state.count_append(found, len(view))
        return first

    @property
    def requests(self) -> list[SeenRequest]:
        """The last 100,000 requests, oldest first."""
        return self.state.requests.all()

    def requests_of(self, api_key: int, broker: int | None = None) -> list[SeenRequest]:
        """Return the seen requests of one API, optionally of one broker only."""
        return self.state.requests.of(api_key, broker)

    def wait_for_requests(
        self, api_key: int, count: int = 1, broker: int | None = None, timeout: float = 10.0
    ) -> list[SeenRequest]:
        """Wait until this many requests of an API have arrived, and return them.

        Raises ``TimeoutError``.
        """
        return self.state.requests.wait_for(api_key, count, broker, timeout)

    def clear_requests(self) -> None:
        """Forget the requests seen so far."""
        self.state.requests.clear()


def _limits(frame_max_bytes: int, sessions_max: int, two_phase: bool) -> dict[str, str]:
    """Return static settings of brokers."""
    return {
        "socket.request.max.bytes": str(frame_max_bytes),
        "max.incremental.fetch.session.cache.slots": str(sessions_max),
        "transaction.two.phase.commit.enable": str(two_phase).lower(),
    }


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
            message_sets.store(
                log, message_sets.check(piece, max_bytes=len(piece)), partition.leader_epoch
            )
