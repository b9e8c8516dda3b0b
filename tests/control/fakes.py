"""A fake engine and a fake clock: the control plane without threads, sockets or waits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kafka_native.control.brokers.bootstrap import Shuffle
from kafka_native.control.brokers.pool import BrokerPool, PoolSettings
from kafka_native.control.brokers.security import Authenticator, Connections
from kafka_native.control.brokers.versions import ASK_EVERYONE, Fallback
from kafka_native.control.consumer.fetches import FetchManager
from kafka_native.control.metadata import Metadata
from kafka_native.control.positions import EARLIEST
from kafka_native.control.requests import NEVER, Call
from kafka_native.errors import STATUS_TRANSPORT, KafkaError
from kafka_native.logs import Logs
from kafka_native.protocol import registry
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_native.protocol.versions import ApiVersionsResponse

TOPIC_ID = bytes(range(16))


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeCursor:
    """Records the calls for a cursor."""

    def __init__(self, topic: str, topic_id: bytes, partition: int, token: int) -> None:
        self.topic, self.topic_id, self.partition, self.token = topic, topic_id, partition, token
        self.position = -1001
        self.position_epoch = -1
        self.broker = -1
        self.epoch = 1
        self.answered = False
        self.log: list[tuple[Any, ...]] = []

    def start(self, broker: int, offset: int, leader_epoch: int) -> int:
        self.epoch += 1
        self.answered = False
        self.broker = broker
        self.log.append(("start", broker, offset, leader_epoch))
        return self.epoch

    def move(self, broker: int, offset: int, leader_epoch: int, epoch: int) -> bool:
        if epoch != self.epoch:
            return False
        self.broker = broker
        self.log.append(("move", broker, offset, leader_epoch))
        return True

    def forget_answer(self) -> None:
        self.answered = False

    def stop(self) -> None:
        self.epoch += 1
        self.answered = False
        self.broker = -1
        self.log.append(("stop",))


class FakeTopic:
    """Records the calls for a topic."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.partitions: tuple[bytes, list[int], list[int]] | None = None
        self.failure: tuple[int, int, str] | None = None
        self.staged_at: float | None = None
        """The time of the latest message staged for a missing partition, or None."""
        self.used_at = 0.0
        self.waits = False
        self.forgotten = 0

    def used_since(self, since: float) -> bool:
        return self.waits or self.used_at >= since

    def forget(self) -> bool:
        self.forgotten += not self.waits
        return not self.waits

    def fail_unknown(self, before: float) -> bool:
        if self.staged_at is not None and self.staged_at <= before:
            self.staged_at = None
        return self.staged_at is not None

    def set_partitions(self, topic_id: bytes, leaders: list[int], epochs: list[int]) -> None:
        self.partitions = (topic_id, leaders, epochs)

    def fail(self, status: int, error_code: int, text: str) -> None:
        self.failure = (status, error_code, text)


class FakeEngine:
    """Records the calls of the control plane."""

    def __init__(self) -> None:
        self.number = 0
        self.brokers: list[tuple[int, str, int]] = []
        self.connects: list[int] = []
        self.on_connect: Callable[[int], None] = lambda handle: None
        self.opened: list[tuple[int, int, int, int]] = []
        self.closed: list[tuple[int, int, int]] = []
        self.held: list[tuple[int, int]] = []
        self.stopped: list[int] = []
        self.submitted: list[SimpleNamespace] = []
        self.cursors: list[FakeCursor | None] = []
        self.topics: list[FakeTopic] = []
        self.expired = 0
        self.heartbeats: list[SimpleNamespace] = []
        self.heartbeats_stopped: list[int] = []
        self.in_client_rack: dict[int, bool] = {}

    def heartbeat(
        self, handle: int, generation: int, api_key: int, version: int, *rest: Any
    ) -> None:
        _, _, body, token, interval_ms, timeout_ms = rest
        heartbeat = SimpleNamespace(
            handle=handle, api_key=api_key, version=version, body=body, token=token
        )
        heartbeat.interval_ms, heartbeat.timeout_ms = interval_ms, timeout_ms
        self.heartbeats.append(heartbeat)

    def stop_heartbeat(self, handle: int) -> None:
        self.heartbeats_stopped.append(handle)

    def broker_add(self, node_id: int, host: str, port: int) -> int:
        self.brokers.append((node_id, host, port))
        return len(self.brokers) - 1

    def broker_set_in_client_rack(self, handle: int, in_client_rack: bool) -> None:
        self.in_client_rack[handle] = in_client_rack

    def broker_connect(self, handle: int) -> None:
        self.connects.append(handle)
        self.on_connect(handle)

    def broker_open(self, handle: int, generation: int, produce: int, fetch: int) -> None:
        self.opened.append((handle, generation, produce, fetch))

    def broker_hold(self, handle: int, generation: int) -> None:
        self.held.append((handle, generation))

    def broker_close(self, handle: int, generation: int, status: int) -> None:
        self.closed.append((handle, generation, status))

    def broker_stop(self, handle: int) -> None:
        self.stopped.append(handle)

    def submit(self, handle: int, api_key: int, version: int, *rest: Any, **how: Any) -> None:
        _, _, body, token, timeout_ms = rest
        sent = SimpleNamespace(
            handle=handle,
            api_key=api_key,
            version=version,
            body=body,
            token=token,
            timeout_ms=timeout_ms,
        )
        sent.how = how
        self.submitted.append(sent)

    def topic(self, name: str) -> FakeTopic:
        for topic in self.topics:
            if topic.name == name:
                return topic
        self.topics.append(FakeTopic(name))
        return self.topics[-1]

    def cursor(self, topic: str, topic_id: bytes, partition: int) -> FakeCursor:
        cursor = FakeCursor(topic, topic_id, partition, len(self.cursors) + 1)
        self.cursors.append(cursor)
        return cursor

    def drop_cursor(self, cursor: FakeCursor) -> None:
        cursor.stop()
        self.cursors[cursor.token - 1] = None

    def expire(self) -> None:
        self.expired += 1


def event(**fields: Any) -> Any:
    """Return an engine event. Missing fields are zero."""
    zero = {
        "engine": 0,
        "broker": 0,
        "generation": 1,
        "token": 0,
        "status": 0,
        "error_code": 0,
        "partition": 0,
        "leader_id": -1,
    }
    zero |= {
        "leader_epoch": -1,
        "epoch": 0,
        "attempts": 0,
        "peer_closed": 0,
        "offset": 0,
        "body": None,
        "text": "",
    }
    zero |= {"verify_error": 0}
    return SimpleNamespace(**(zero | fields))


def api_versions(ranges: dict[int, tuple[int, int]] | None = None) -> ApiVersionsResponse:
    """Return a broker's ApiVersions response, by default with all declared APIs."""
    if ranges is None:
        ranges = {
            int(key): (registry.request(key).min_version, registry.request(key).max_version)
            for key in registry.api_keys()
        }
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in ranges.items()
    ]
    return ApiVersionsResponse(api_keys=keys)


class Cluster:
    """A pool and a metadata cache on a fake engine. The test gives the replies."""

    def __init__(
        self,
        bootstrap: int = 1,
        fallback: Fallback = ASK_EVERYONE,
        *,
        reports_closes: bool = True,
        rebootstraps: bool = True,
        checks_cluster: bool = True,
        trigger_s: float = 300,
        ttl_s: float = NEVER,
        make_authenticator: Callable[[Connections], Authenticator] | None = None,
        shuffle: Shuffle = lambda servers: None,
        data_connections: int = 1,
        client_rack: str | None = None,
    ) -> None:
        self.clock = Clock()
        self.engine = FakeEngine()
        self.errors: list[KafkaError] = []
        self.throttles: list[tuple[str, float]] = []
        """The throttle times that the pool has reported: host and seconds."""
        self.partition_errors: list[tuple[str, int, int, KafkaError]] = []
        self.lines: list[str] = []
        self.managers: tuple[Any, ...] = ()
        self.pool = BrokerPool(
            self.engine,  # type: ignore[arg-type]
            [(f"boot{number}", 9092) for number in range(bootstrap)],
            PoolSettings(
                client_version="1.0",
                handshake_timeout_s=10.0,
                reports_closes=reports_closes,
                rebootstraps=rebootstraps,
                checks_cluster=checks_cluster,
                fallback=fallback,
                data_connections=data_connections,
                client_rack=client_rack,
            ),
            on_error=lambda error, level: self.errors.append(error),
            on_throttled=lambda broker, seconds: self.throttles.append((broker.host, seconds)),
            make_authenticator=make_authenticator,
            logs=Logs(
                "", lambda name, line: self.lines.append(line.text), call_back=lambda serve: serve()
            ),
            shuffle=shuffle,
            clock=self.clock,
        )
        self.engine.on_connect = self._on_connect
        self.metadata = Metadata(
            self.pool,
            refresh_s=300,
            fast_s=0.1,
            fast_max_s=1.0,
            propagation_s=30,
            timeout_s=60,
            trigger_s=trigger_s,
            ttl_s=ttl_s,
            clock=self.clock,
        )

    def _on_connect(self, handle: int) -> None:
        """Bring a control connection up at once: tests of other subjects don't see it."""
        broker = self.pool.by_handle(handle)
        if broker is not None and broker.purpose == "control":
            self.bring_up(handle)

    def handle_of(self, node_id: int) -> int:
        """Return the handle of a node's own connection; -1: there is no such node."""
        node = self.pool.nodes.get(node_id)
        return -1 if node is None else node.handle

    def node_of(self, sent: Any) -> int:
        """Return the node that a request goes to, on whichever connection."""
        broker = self.pool.by_handle(sent.handle)
        assert broker is not None
        return broker.node_id

    def bring_up(self, handle: int, offer: ApiVersionsResponse | None = None) -> None:
        """Connect a broker, and complete its handshake."""
        self.pool.on_connected(event(broker=handle))
        sent = self.engine.submitted.pop()
        body = (offer or api_versions()).encode(sent.version)
        self.pool.on_reply(event(broker=handle, token=sent.token, body=body))

    def lose(self, text: str, **fields: Any) -> None:
        """Report that a connection has ended, or wasn't established."""
        lost = {"status": STATUS_TRANSPORT, "attempts": 1, "text": text}
        self.pool.on_disconnected(event(**lost | fields))

    def turn(self, *managers: Any) -> None:
        """Run one turn of the main thread."""
        for manager in [*managers, self.metadata]:
            calls, _ = manager.poll(self.clock.now)
            for call in calls:
                self.pool.send(call)

    def go(self) -> None:
        """Run one turn of the main thread, with the managers that a test has added."""
        self.turn(*self.managers)

    def wait(self, seconds: float) -> None:
        """Let time pass, and run one turn of the main thread."""
        self.clock.now += seconds
        self.go()

    def call(
        self,
        message: Any = None,
        target: int | None = None,
        *,
        timeout_s: float = 60.0,
        replies: list[Any] | None = None,
    ) -> list[Any]:
        """Send a call, by default for metadata, and return the list that gets its reply."""
        replies = [] if replies is None else replies
        deadline = self.clock.now + timeout_s
        self.pool.send(Call(message or MetadataRequest(), target, deadline, replies.append))
        return replies

    def answer(self, response: Any) -> None:
        """Answer the oldest open request."""
        sent = self.engine.submitted.pop(0)
        self.pool.on_reply(
            event(broker=sent.handle, token=sent.token, body=response.encode(sent.version))
        )

    def answer_metadata(self, *leaders: tuple[int, int], name: str = "t", **how: Any) -> None:
        """Answer the oldest open request, for metadata: (leader, epoch) a partition."""
        self.answer(self.metadata_reply(name, list(leaders), **how))

    def renew_metadata(self, *leaders: tuple[int, int], **how: Any) -> None:
        """Request metadata again, and answer the request."""
        self.metadata.refresh(self.clock.now)
        self.go()
        self.answer_metadata(*leaders, **how)

    def metadata_reply(
        self, name: str, leaders: list[tuple[int, int]], *, nodes: int = 2, **how: Any
    ) -> MetadataResponse:
        """Return a reply with ``nodes`` brokers and one topic: (leader, epoch) a partition."""
        topic = MetadataResponse.Topic(name=name, topic_id=how.pop("topic_id", TOPIC_ID), **how)
        for number, (leader, epoch) in enumerate(leaders):
            partition = MetadataResponse.Topic.Partition(
                partition_index=number, leader_id=leader, leader_epoch=epoch
            )
            topic.partitions.append(partition)
        brokers = [
            MetadataResponse.Broker(node_id=node, host=f"b{node}", port=9092)
            for node in range(1, nodes + 1)
        ]
        return MetadataResponse(brokers=brokers, topics=[topic])


def fetch_manager(cluster: Cluster, **how: Any) -> FetchManager:
    """Return a manager that collects its errors in ``cluster.partition_errors``."""
    settings: dict[str, Any] = {
        "reset": EARLIEST,
        "isolation_level": 1,
        "timeout_s": 60,
        "create_topics": False,
    } | how
    return FetchManager(
        cluster.engine,  # type: ignore[arg-type]
        cluster.metadata,
        cluster.pool,
        on_error=lambda *what: cluster.partition_errors.append(what),
        clock=cluster.clock,
        **settings,
    )
