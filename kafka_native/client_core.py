"""The base of Producer, Consumer and AdminClient: engine, control thread, errors, metadata.

Layer: public API. The decisions are in ``control``; the engine moves the bytes.
"""

from __future__ import annotations

import atexit
import contextlib
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from kafka_native._native.engine import Engine, begin_exit, exits_elsewhere
from kafka_native._native.enums import STATUS_CLOSED, STATUS_PURGED, STATUS_TIMED_OUT
from kafka_native._native.snapshots import note_throttle
from kafka_native._reference.own_properties import SOFTWARE_NAME
from kafka_native.config import Config, Role, merged_conf, parse, parse_bootstrap
from kafka_native.control.brokers.bootstrap import canonical_servers
from kafka_native.control.brokers.broker import Broker
from kafka_native.control.brokers.pool import BrokerPool, PoolSettings
from kafka_native.control.brokers.role_pool import RolePool
from kafka_native.control.brokers.security import (
    Authenticator,
    Connections,
    Encryption,
    SecurityWorker,
)
from kafka_native.control.brokers.versions import Fallback
from kafka_native.control.context import ManagerContext, WorkQueue
from kafka_native.control.main_thread import MainThread, Managers
from kafka_native.control.metadata import NO_ID, Metadata
from kafka_native.control.requests import ANY_BROKER, BrokerIdentity, Call, Reply
from kafka_native.control.role_thread import RoleThread
from kafka_native.control.statistics import Statistics
from kafka_native.deadlines import deadline_of, left_s
from kafka_native.errors import KafkaError, KafkaException, from_status
from kafka_native.logs import ERROR, Log, Logs, contexts_of
from kafka_native.pending_call import PendingCall, ReadyCall
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_native.role_config import parse_role
from kafka_native.security.mechanisms import Credentials, Mechanism
from kafka_native.threads import Lock, LockType, new_future
from kafka_native.types import (
    OFFSET_INVALID,
    PARTITION_UA,
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    ThrottleEvent,
    TopicMetadata,
    Uuid,
    version,
)

if TYPE_CHECKING:
    from kafka_native.control.operations import OperationDriver
    from kafka_native.control.telemetry import Telemetry
    from kafka_native.mock import MockCluster
    from kafka_native.security.proxy import Proxy
    from kafka_native.statistics import ClientMetrics

T = TypeVar("T")
MetadataAnswer: TypeAlias = tuple[MetadataResponse, BrokerIdentity | None]

LAST_PUSH_S = 0.5
"""The longest wait of close() for the last client metrics, if a broker wants them (KIP-714)."""
DROP_WAIT_S = 0.1
"""The longest wait of a destructor for the end of its client."""
HOST_CLOSED_TEXT = "Client has been closed"
"""The error text of calls on a shared client that is closed."""
HANDLE_CLOSED_TEXT = "Handle has been closed"
"""The error text of `list_topics()` and similar calls on a closed client."""

ADMISSION_CHECK_INTERVAL_S = 0.1
"""The interval at which `ClientCore.await_admission()` checks whether all brokers are down."""

_clients: weakref.WeakSet[ClientCore] = weakref.WeakSet()
_dropped: set[ClientCore] = set()
"""Dropped clients whose control threads are still ending."""
_names = iter(range(1, 1 << 62))


class ClientCore:
    """One client's engine and control thread.

    A role of a shared client has an engine of its own, and its host's control thread.
    """

    role_conf: Mapping[str, Any] = {}
    """A shared client's configuration as the user wrote it, for its roles."""
    logs: Logs
    engine: Engine
    _mechanism: Mechanism | None
    _encryption: Encryption | None
    _security_worker: SecurityWorker

    def __init__(
        self,
        config: Config,
        kind: str,
        settings: Mapping[str, object],
        make_managers: Callable[[ClientCore], Managers] = lambda client: Managers(),
        *,
        eager: bool = False,
        fatal_flag: bool = True,
        no_partition: int | None = None,
        host: ClientCore | None = None,
    ) -> None:
        """``kind`` is "producer", "consumer", "admin" or "client".

        ``settings`` are all engine settings.

        ``make_managers`` is called with this client. At that time the client has its ``context``,
        but no control thread. ``eager``: connect without waiting for work, and report every failed
        attempt to ``error_cb``, as librdkafka does. A fatal error then is raised by poll(), as in
        confluent_kafka. ``fatal_flag``: errors of calls after a fatal error are `fatal()`, and
        ``error_cb`` gets the fatal error. ``no_partition``: the partition of an error's Message
        that concerns no partition. ``host``: the shared client of which this is a role.
        """
        self.config = config
        self._host = host
        # of a shared client: the roles that haven't ended, and whether it ends with the last one
        self._roles: weakref.WeakSet[ClientCore] = weakref.WeakSet()
        self._living: set[int] = set()
        self._ends_with_roles = False
        self._fatal_flag = fatal_flag
        self._no_partition = no_partition
        self.eager = eager
        self.kind = kind
        self.name = f"{config['client.id']}#{kind}-{next(_names)}"
        contexts = contexts_of(config.text("debug"))
        self.logs = Logs(
            self.name,
            config.log_sink(contexts),
            contexts=contexts,
            level=config.integer("log_level"),
            call_back=self.call_back if config.flag("log.queue") else None,
            host=None if host is None else host.logs,
        )
        self.logger = self.logs["generic"]
        self._error_of = _ErrorOf()
        self._make_engine(settings)
        self._log_configuration()
        self._closed = False
        self.fatal: KafkaError | None = None
        self._error_cb = config.function("error_cb")
        self._event_cb = config.function("background_event_cb")
        self._throttle_cb = config.function("throttle_cb")
        self._closing = Lock()
        self._operations: OperationDriver | None = None  # guarded by _closing
        self._stopped: Callable[[], None] = self.release
        self._ended: LockType | None = None
        self._make_control_plane(make_managers)

    def _make_control_plane(self, make_managers: Callable[[ClientCore], Managers]) -> None:
        config, host = self.config, self._host
        work = WorkQueue(self.engine)
        self._security_worker = (
            SecurityWorker(self.name, work.post) if host is None else host._security_worker
        )
        self._event_worker = SecurityWorker(self.name, work.post, "event", keeps_work=True)
        self.context = self._make_context(work)
        self._error_of.metadata = weakref.ref(self.context.metadata)
        if host is not None:
            host._living.add(id(self))
        try:
            managers = make_managers(self)
        except BaseException:
            self._closed = True
            self._end()
            raise
        self._leave_group = managers.leave_group
        self.statistics = self._make_statistics(managers)
        self.telemetry = (
            self._make_telemetry(managers) if config.flag("enable.metrics.push") else None
        )
        self.main = self._make_main_thread(managers)
        if host is not None:
            host._roles.add(self)
        _clients.add(self)
        if exits_elsewhere():  # _at_exit() has already run, so the threads would be killed anywhere
            self.close()
            raise SystemExit

    def _make_engine(self, settings: Mapping[str, object]) -> None:
        """Makes the engine and what its connections need. A role uses that of its host."""
        host, config = self._host, self.config
        self._mock: MockCluster | None = None
        if host is not None:
            host.check_open(HOST_CLOSED_TEXT)
            self._mechanism, self._encryption = host._mechanism, host._encryption
            self.engine = Engine(dict(settings), self._error_of, host.engine)
            return
        self._mechanism = _mechanism_of(config)
        self._encryption = Encryption.of(config, self.logs["security"])
        tls = self._encryption and self._encryption.settings
        self.engine = Engine({**settings, "proxy": _proxy_of(config), "tls": tls}, self._error_of)
        self._mock = _mock_cluster(config, self.logs["mock"])

    def _make_pool(self) -> BrokerPool:
        config = self.config
        eager = self.eager and self._host is None
        settings = PoolSettings(
            client_name=self.software_name,
            client_version=self.software_version,
            handshake_timeout_s=config.integer("api.version.request.timeout.ms") / 1000,
            reports_closes=config.flag("log.connection.close"),
            eager_s=config.integer("reconnect.backoff.max.ms") / 1000 if eager else None,
            rebootstraps=config["metadata.recovery.strategy"] == "rebootstrap",
            checks_cluster=config.flag("metadata.cluster.check.enable"),
            fallback=_fallback_of(config),
            encryption=self._encryption,
            client_rack=config.text("client.rack") or None,
            data_connections=config.integer("connections.per.broker"),
        )
        hooks: dict[str, Any] = {
            "on_error": self.on_error,
            "on_throttled": self.on_throttled,
            "make_authenticator": None if self._mechanism is None else self._make_authenticator,
            "logs": self.logs,
        }
        if self._host is not None:
            return RolePool(self.engine, self._host.context.pool, settings, **hooks)
        return BrokerPool(self.engine, self._servers(), settings, **hooks)

    def _make_context(self, work: WorkQueue) -> ManagerContext:
        config, pool = self.config, self._make_pool()
        refresh_ms = config.integer("topic.metadata.refresh.interval.ms")
        # librdkafka's default: three times the interval
        age_max_ms = config.integer("metadata.max.age.ms")
        if refresh_ms > 0 and not config.is_set("metadata.max.age.ms"):
            age_max_ms = 3 * refresh_ms
        metadata = Metadata(
            pool,
            refresh_s=refresh_ms / 1000,
            age_max_s=age_max_ms / 1000,
            ttl_s=config.integer("topic.metadata.ttl") / 1000,
            fast_s=config.integer("topic.metadata.refresh.fast.interval.ms") / 1000,
            fast_max_s=config.integer("retry.backoff.max.ms") / 1000,
            propagation_s=config.integer("topic.metadata.propagation.max.ms") / 1000,
            timeout_s=config.integer("socket.timeout.ms") / 1000,
            trigger_s=config.integer("metadata.recovery.rebootstrap.trigger.ms") / 1000,
            host=None if self._host is None else self._host.context.metadata,
        )
        if isinstance(pool, RolePool):
            pool.on_node_lost = lambda: metadata.refresh(time.monotonic())
        return ManagerContext(self.engine, pool, metadata, work)

    @property
    def software_name(self) -> str:
        """The name of the client library for brokers."""
        return self.config.text("client.software.name") or SOFTWARE_NAME

    @property
    def software_version(self) -> str:
        """The version of the client library for brokers."""
        return self.config.text("client.software.version") or version()

    def _make_authenticator(self, connections: Connections) -> Authenticator:
        mechanism, log = self._mechanism, self.logs["security"]
        assert mechanism is not None
        is_encrypted = self.config["security.protocol"] == "sasl_ssl"
        for remark in mechanism.remarks(encrypted=is_encrypted) if self._host is None else ():
            log.warning("%s", remark)
        return Authenticator(
            connections,
            mechanism,
            self._security_worker,
            timeout_s=self.config.integer("socket.timeout.ms") / 1000,
            log=log,
            refreshes=self._host is None,
        )

    def _make_main_thread(self, managers: Managers) -> MainThread:
        telemetry = self.telemetry
        make = MainThread if self._host is None else partial(RoleThread, self._host.main)
        return make(
            self.context,
            managers,
            [self.statistics] if telemetry is None else [self.statistics, telemetry],
            on_close=[] if telemetry is None else [telemetry.close],
            on_fatal=self.on_fatal,
            on_orphaned=self.drop,
        )

    def _make_statistics(self, managers: Managers) -> Statistics:
        config, stats_cb = self.config, self.config.function("stats_cb")
        return Statistics(
            self.context,
            managers,
            name=self.name,
            client_id=config.text("client.id"),
            kind=self.kind,
            interval_s=config.integer("statistics.interval.ms") / 1000,
            stats_cb=self._event_cb if stats_cb is None else stats_cb,
            call_back=self._call_in_background if stats_cb is None else self.call_back,
            fatal=lambda: self.fatal,
        )

    def _make_telemetry(self, managers: Managers) -> Telemetry:
        from kafka_native.control.telemetry import Sampler, Telemetry

        properties = {"client_rack": "client.rack"}
        properties |= {
            "producer": {"transactional_id": "transactional.id"},
            "consumer": {"group_id": "group.id", "group_instance_id": "group.instance.id"},
        }.get(self.kind, {})
        return Telemetry(
            self.context.pool,
            Sampler(self.context, self.kind, managers.consumer),
            resource={
                label: text
                for label, name in properties.items()
                if (text := self.config.text(name))
            },
            scope=(self.name, version()),
            timeout_s=self.config.integer("socket.timeout.ms") / 1000,
            log=self.logs["telemetry"],
        )

    def client_instance_id(self, timeout: float) -> Uuid:
        """Waits for the client's id from a broker; see `Producer.client_instance_id`."""
        return self.begin_client_instance_id(timeout).result()

    def begin_client_instance_id(self, timeout: float = -1) -> PendingCall[Uuid]:
        """Begins `client_instance_id()` without waiting."""
        self.check_open(HANDLE_CLOSED_TEXT)
        if self.telemetry is None:
            text = "there are no client metrics, and no id for them: enable.metrics.push is false"
            raise KafkaException(KafkaError(KafkaError._STATE, text))
        return PendingCall.gather(self.main, self.telemetry.identify, timeout).then(Uuid.from_bytes)

    def push_last(self, timeout: float) -> None:
        """Waits for `begin_push_last()`.

        Ignores a missing reply, and a client that is closed meanwhile.
        """
        with contextlib.suppress(KafkaException, RuntimeError):
            self.begin_push_last(timeout).result()

    def begin_push_last(self, timeout: float) -> PendingCall[None]:
        """Before close(): pushes the last client metrics if they are wanted, for up to LAST_PUSH_S.

        ``timeout``: the rest of the time for closing, in seconds; negative: no limit.
        """
        max_s = LAST_PUSH_S if timeout < 0 else min(timeout, LAST_PUSH_S)
        if self.telemetry is None or max_s <= 0 or self.closed:
            return ReadyCall(None)
        return PendingCall.gather(self.main, self.telemetry.finish, max_s)

    def set_sasl_credentials(self, username: object, password: object) -> None:
        """Sets other credentials for PLAIN and SCRAM. TypeError: an argument isn't a str.

        Authenticated connections stay.
        """
        for position, each in enumerate((username, password), 1):
            if not isinstance(each, str):
                kind = "None" if each is None else type(each).__name__
                raise TypeError(f"argument {position} must be str, not {kind}")
        self.check_open(HANDLE_CLOSED_TEXT)
        if self._mechanism is not None:
            self._mechanism.set_credentials(Credentials(str(username), str(password)))
            self.logs["security"].debug("there are new SASL credentials")

    @property
    def has_token(self) -> bool:
        """Whether the mechanism has got its first token or ticket."""
        return self._mechanism is not None and self._mechanism.refresh_at > 0

    def operations(self) -> OperationDriver:
        """The driver of admin operations on this client's connections.

        The first call creates it.
        """
        from kafka_native.control.operations import OperationDriver

        with self._closing:
            if self._operations is None:
                self._operations = OperationDriver(
                    self.main.pool,
                    self.main.metadata,
                    self.logs["admin"],
                    backoff_s=self.config.number("retry.backoff.ms") / 1000,
                    backoff_max_s=self.config.number("retry.backoff.max.ms") / 1000,
                )
                self.main.post(partial(self.main.add, self._operations, self._operations.close))
            return self._operations

    def _servers(self) -> list[tuple[str, int]]:
        """The bootstrap servers, or those of the mock cluster."""
        if self._mock is not None:
            return parse_bootstrap(self._mock.bootstrap_servers)
        servers = self.config.bootstrap
        return self._canonical(servers) if self._uses_canonical_names else servers

    @property
    def _uses_canonical_names(self) -> bool:
        lookup = self.config.text("client.dns.lookup")
        return lookup == "resolve_canonical_bootstrap_servers_only"

    def _canonical(self, servers: list[tuple[str, int]]) -> list[tuple[str, int]]:
        def warn(host: str, error: OSError) -> None:
            self.logger.warning("%s has no canonical name: %s", host, error)

        return canonical_servers(servers, self.config.text("broker.address.family"), warn)

    def brokers_add(self, brokers: object) -> int:
        """Adds bootstrap servers; see `Producer.brokers_add`."""
        return self.begin_brokers_add(brokers).result()

    def begin_brokers_add(self, brokers: object) -> PendingCall[int]:
        """Begins `brokers_add()` without waiting."""
        if not isinstance(brokers, str):
            raise TypeError(f"brokers must be a str, not {type(brokers).__name__}")
        self.check_open(HANDLE_CLOSED_TEXT)
        servers = parse_bootstrap(brokers, self.config.text("security.protocol"))

        def make(_: float, done: Callable[[int | KafkaError], None]) -> list[Call]:
            def add(found: list[tuple[str, int]] | Exception) -> None:
                if isinstance(found, Exception):
                    done(KafkaError(KafkaError._RESOLVE, f"{brokers}: {found}"))
                    return
                self.context.pool.add_bootstrap(found)
                done(len(servers))

            if self._uses_canonical_names:
                self._security_worker.run(lambda: self._canonical(servers), add)
            else:
                add(servers)
            return []

        return PendingCall.gather(self.main, make, -1)

    def _log_configuration(self) -> None:
        self.logger.debug("a %s of kafka_native %s", self.kind, version())
        if (proxy := _proxy_of(self.config)) is not None:
            self.logs["broker"].debug("connections go through %r", proxy)
        if self.logs["conf"].on:
            for name in sorted(self.config):
                if self.config.is_set(name):
                    self.logs["conf"].debug("%s = %s", name, self.config.shown(name))

    def on_error(self, error: KafkaError, level: int = ERROR) -> None:
        """Passes an error to ``error_cb`` in the next poll(), or to the log.

        Those of a shared client also go to the callbacks of its roles. Control thread only.
        """
        for role in existing(self._roles):
            if role._error_cb is not None or role._event_cb is not None:
                role.on_error(error, level)
        if self._error_cb is not None:
            self.logs["broker"].debug("to error_cb: %s", error.str())
            self.call_back(partial(self._error_cb, error))
        elif self._event_cb is not None:
            self._call_in_background(partial(self._event_cb, error))
        else:
            self.logs.say(level, "broker", error.str())
            if self.eager and self.kind != "consumer":
                self.call_back(_do_nothing)  # poll() counts the error, as in confluent_kafka

    def call_back(self, callback: Callable[[], object]) -> None:
        """Queues a callback for the running or next poll(). Control thread only."""
        self.engine.callbacks.append(callback)
        self.engine.kick()

    def _call_in_background(self, callback: Callable[[], object]) -> None:
        """Makes the event thread call ``background_event_cb``. Control thread only."""
        self._event_worker.run(callback, self._on_event_handled)

    def _on_event_handled(self, outcome: object) -> None:
        if isinstance(outcome, Exception):
            self.logs.say(ERROR, "generic", "background_event_cb has raised", (), outcome)

    def on_fatal(self, error: KafkaError) -> None:
        """Handles a fatal error: keeps the first one and fails queued messages.

        Control thread only.
        """
        if self.fatal is None:
            self.fatal = self._error_of.fatal = error
            if self.kind == "consumer":
                notice = (None, self._no_partition, OFFSET_INVALID, self.fatal_error())
                self.engine.notices.append(notice)
                self.engine.kick()
            if self.eager and self.kind != "consumer":
                self.call_back(partial(_raise, error))
            elif (self._error_cb is None and self._event_cb is None) or not self._fatal_flag:
                self.logger.error("fatal: %s", error.str())
            else:
                self.on_error(error)
        self.engine.refuse()

    def fail_queued(self, error: KafkaError) -> None:
        """Fails the queued messages of a closing producer with this error. Control thread only."""
        self._error_of.lost = error
        self.engine.refuse()

    def fatal_error(self) -> KafkaError:
        """The _FATAL error of all calls after a fatal error, with the cause in its text."""
        cause = "" if self.fatal is None else f": {self.fatal.str()}"
        return KafkaError(
            KafkaError._FATAL,
            f"{KafkaError(KafkaError._FATAL).str()}{cause}",
            fatal=self._fatal_flag,
        )

    def on_throttled(self, broker: Broker, seconds: float) -> None:
        """Records that a quota throttles this client, and queues ``throttle_cb`` (KIP-219).

        Control thread only.
        """
        note_throttle(self.engine, broker.handle, round(seconds * 1000))
        self.logs["broker"].debug("%s: throttles this client for %.3f s", broker.name, seconds)
        if self.telemetry is not None:
            self.telemetry.sampler.throttle.record(seconds * 1000)
        event = ThrottleEvent(f"{broker.host}:{broker.port}", broker.node_id, seconds)
        if self._throttle_cb is not None:
            self.call_back(partial(self._throttle_cb, event))
        elif self._event_cb is not None:
            self._call_in_background(partial(self._event_cb, event))

    def metrics(self, closed_text: str) -> ClientMetrics:
        """The client's statistics. RuntimeError with ``closed_text``: it is closed."""
        self.check_open(closed_text)
        if self.main.is_current():
            return self.statistics.metrics()
        return self.begin_metrics(closed_text).result()

    def begin_metrics(self, closed_text: str) -> PendingCall[ClientMetrics]:
        """Begins `metrics()` without waiting. Not on the control thread."""
        self.check_open(closed_text)
        return PendingCall.run(self.main, self.statistics.metrics)

    def metrics_now(self) -> ClientMetrics | None:
        """The statistics, from any thread; None: the client is closed."""
        if self.closed or self.main.is_current():
            return None if self.closed else self.statistics.metrics()
        try:
            return self.main.run(self.statistics.metrics)
        except RuntimeError:  # closed meanwhile
            return None

    def check_open(self, closed_text: str) -> None:
        """Raises RuntimeError if the client is closed, or if it belongs to the parent of a fork."""
        if self.closed:
            raise self.engine.closed_error(closed_text)

    def close(self) -> None:
        """Ends the control thread, then the engine's threads. A second call does nothing.

        In a forked child it does nothing and takes no lock. `release()` follows after the last
        reports. A shared client closes its roles first.
        """
        if self.forked:
            return
        for role in existing(self._roles):
            role.close()
        with self._closing:
            if self.closed:
                return
            if self.main.is_current():  # in a future's callback: the thread ends after it
                self.drop()
                return
            self._closed = True
            self.logger.debug("closing")
            self.main.stop()
            self._stop_workers()
            self.engine.close()
            self._close_mock()
            self._wipe_secrets()
            self.logger.debug("closed")
            self.logs.close()
            self._leave_host()

    def _stop_workers(self) -> None:
        if self._host is None:
            self._security_worker.stop()
        self._event_worker.stop()

    def _leave_host(self) -> None:
        """The end of a role. A shared client that nobody else uses ends with it."""
        if self._host is not None:
            self._host._roles.discard(self)
            self._host._living.discard(id(self))
            if self._host._ends_with_roles:
                self._host.drop_with_roles()

    def drop_with_roles(self) -> None:
        """For the destructor of a shared client: drops it as soon as it has no roles."""
        self._ends_with_roles = True
        if not self._living:
            self.drop()

    @property
    def is_host(self) -> bool:
        """Whether it is a shared client that has roles."""
        return bool(self._living)

    @property
    def forked(self) -> bool:
        """Whether this process is a child of the one that created the client.

        A forked child has none of the client's threads.
        """
        return self.engine.forked

    @property
    def closed(self) -> bool:
        """Whether the client is unusable: closed, closing, or its parent's."""
        return self._closed or self.engine.forked

    def release(self) -> None:
        """After `close()`: frees descriptors, buffers and queues before garbage collection."""
        if self._closed and not self.forked:
            self.engine.release()

    def drop(self, stopped: Callable[[], None] | None = None) -> None:
        """For destructors on any thread: the control thread leaves the group and closes.

        The caller waits for the end, at most `DROP_WAIT_S`, and not on the client's own threads.
        Usually the end comes at once. The call takes no lock. ``stopped``: the control thread calls
        it when every message has its outcome, instead of `release()`.
        """
        if self.closed:
            return
        self._closed = True
        if stopped is not None:
            self._stopped = stopped
        main = self.main
        if not main.started:  # the constructor has failed
            self._end()
            return
        _dropped.add(self)
        ended = self._ended = Lock()
        ended.acquire()  # until the end
        main.hold(self._end)
        if self._leave_group is None:
            main.begin_stop()
        else:
            main.post(partial(self._leave_group, main.begin_stop))
        workers = self._security_worker, self._event_worker
        if not (main.is_current() or any(each.is_current() for each in workers)):
            ended.acquire(timeout=DROP_WAIT_S)

    def _end(self) -> None:
        """Ends a dropped client. Control thread only."""
        try:
            self.engine.close()
            self._stop_workers()
            self._stopped()
            self._close_mock()
        finally:
            self._wipe_secrets()
            self.logger.debug("closed")
            self.logs.close()
            self._leave_host()
            _dropped.discard(self)
            if self._ended is not None:
                self._ended.release()

    def _wipe_secrets(self) -> None:
        # The mechanism of a role is its host's, which other roles use
        if self._mechanism is not None and self._host is None:
            self._mechanism.close()

    def _close_mock(self) -> None:
        if self._mock is not None:
            self._mock.close()

    def await_end(self) -> None:
        """At exit: waits for the end of a dropped client."""
        self.main.stop()

    def list_topics(self, topic: str | None, timeout: float) -> ClusterMetadata:
        """Asks any broker for the cluster's metadata, of one topic or of all."""
        return self.begin_list_topics(topic, timeout).result()

    def begin_list_topics(
        self, topic: str | None = None, timeout: float = -1
    ) -> PendingCall[ClusterMetadata]:
        """Begins `list_topics()` without waiting."""
        if topic is not None and not isinstance(topic, str):
            raise TypeError(f"topic must be a str or None, not {type(topic).__name__}")
        self.check_open(HANDLE_CLOSED_TEXT)
        topics = None if topic is None else [MetadataRequest.Topic(name=topic)]
        message = MetadataRequest(
            topics=topics, allow_auto_topic_creation=bool(self.config["allow.auto.create.topics"])
        )
        return self._begin_metadata(message, timeout).then(lambda answer: _cluster_of(*answer))

    def topic_id(self, name: str) -> str:
        """A topic's id, as this client knows it now; empty: unknown.

        Any thread; sends no request.
        """
        topic = self.main.metadata.topics.get(name)
        return "" if topic is None else _id_text(topic.id)

    def cluster_id(self, timeout: float) -> str | None:
        """Asks any broker for the cluster's id; None: the broker has none (before 0.10.1)."""
        return self.begin_cluster_id(timeout).result()

    def begin_cluster_id(self, timeout: float = -1) -> PendingCall[str | None]:
        """Begins `cluster_id()` without waiting."""
        self.check_open(HANDLE_CLOSED_TEXT)
        message = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        return self._begin_metadata(message, timeout).then(lambda answer: answer[0].cluster_id)

    def await_admission(self, timeout: float) -> None:
        """Waits until a broker is ready or all are down, ``timeout`` seconds at most.

        Raises
        ------
        KafkaException
            All are down because TLS or SASL has failed with one of them (_SSL, _AUTHENTICATION).
        """
        pool = self.main.pool
        message = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        reply: Future[object] = self.main.begin_gather(
            lambda deadline, done: [Call(message, ANY_BROKER, deadline, done)], timeout
        )
        while True:
            try:
                reply.exception(ADMISSION_CHECK_INTERVAL_S)
                return
            except FutureTimeoutError:
                pass
            down, refusal = self.main.run(lambda: (pool.all_down(), pool.refusal()))
            if down and refusal is not None:
                raise KafkaException(refusal)
            if down:
                return  # they may come up later: the next request waits for that

    def _begin_metadata(
        self, message: MetadataRequest, timeout: float
    ) -> PendingCall[MetadataAnswer]:
        """Asks any broker. The result is its reply and the broker."""
        query = _MetadataQuery(self.main, message, timeout)
        return PendingCall.of(self.main, query.future, timeout).catch(_metadata_error)


class _MetadataQuery:
    """A metadata request to any broker. It is sent again if the connection ends meanwhile.

    Idle connections may end at any time. The request is also sent again after a rebootstrap that a
    broker demands. Each reason counts once. Thread: any thread creates it; then the control thread
    only.
    """

    def __init__(self, main: MainThread, message: MetadataRequest, timeout: float) -> None:
        """Sends the first request."""
        self.future: Future[MetadataAnswer] = new_future()
        self._main = main
        self._message = message
        self._deadline = deadline_of(timeout)
        self._may_reconnect = self._may_rebootstrap = True
        self._ask()

    def _ask(self) -> None:
        answer = self._main.begin_gather(self._make, left_s(self._deadline))
        answer.add_done_callback(self._answered)

    def _make(self, deadline: float, done: Callable[[Any], None]) -> list[Call]:
        def answered(reply: Reply) -> None:
            done(reply if isinstance(reply, KafkaError) else (reply, call.answered_by))

        call = Call(self._message, ANY_BROKER, deadline, answered)
        return [call]

    def _answered(self, answer: Future[MetadataAnswer]) -> None:
        error = answer.exception()
        if error is not None:
            is_lost = (
                isinstance(error, KafkaException) and error.args[0].code() == KafkaError._TRANSPORT
            )
            if is_lost and self._may_reconnect and left_s(self._deadline):
                self._may_reconnect = False
                self._ask()
            else:
                self.future.set_exception(error)
            return
        reply, broker = answer.result()
        if reply.error_code == KafkaError.REBOOTSTRAP_REQUIRED and self._may_rebootstrap:
            self._may_rebootstrap, self._may_reconnect = False, True
            self._main.post(self._main.pool.rebootstrap)
            self._ask()
        elif reply.error_code:
            self.future.set_exception(KafkaException(KafkaError(reply.error_code)))
        else:
            # First: the caller may use the brokers of the reply at once.
            self._main.post(lambda: self._main.metadata.take(reply))
            self.future.set_result((reply, broker))


def _metadata_error(cause: KafkaError) -> KafkaException:
    text = f"Failed to get metadata: {cause.str()}"
    return KafkaException(
        KafkaError(cause.code(), text),
        hint="check bootstrap.servers, and that a broker listens there",
    )


class Observed:
    """Clients whose statistics are collected. It keeps none of them alive. Thread: any."""

    def __init__(self, clients: Iterable[object]) -> None:
        """Adds these clients."""
        # without a lock, which a forked child might find locked
        self._clients: list[weakref.ref[Any]] = []
        for each in clients:
            self.add(each)

    def add(self, client: object) -> None:
        """Adds a client, once; TypeError: it isn't one."""
        # an asyncio client keeps its synchronous client in _core
        for each in (client, getattr(client, "_core", None)):
            if isinstance(getattr(each, "_client", None), ClientCore):
                # A second entry would give each of its time series twice, which Prometheus refuses.
                if not any(known() is each for known in list(self._clients)):
                    self._clients.append(weakref.ref(each))
                return
        raise TypeError(
            f"a producer, consumer or admin client is expected, not {type(client).__name__}"
        )

    def metrics(self) -> Iterator[ClientMetrics]:
        """The statistics of each open client. Closed clients are removed."""
        for each in list(self._clients):
            core = each()
            found = None if core is None else core._client.metrics_now()
            if found is not None:
                yield found
            else:
                with contextlib.suppress(ValueError):  # another thread has removed it
                    self._clients.remove(each)


class UninitializedClient:
    """Stands for the client if a subclass doesn't call ``super().__init__()``: any use raises.

    It is a class attribute. The instance's own attribute hides it.
    """

    def __get__(self, instance: object, owner: type) -> ClientCore:
        """Raises RuntimeError."""
        if instance is None:
            return self  # type: ignore[return-value]  # on the class, for tools that list its members
        raise RuntimeError(f"{owner.__name__} is not initialised: call super().__init__(conf)")


class RoleOwner(Protocol):
    """A Producer, Consumer or ShareConsumer, while its constructor runs."""

    _host: ClientCore | None


def settings_of(
    owner: RoleOwner, conf: Mapping[str, Any] | None, kwargs: Mapping[str, Any], role: Role
) -> Config:
    """The checked configuration of a client, or of a role of a shared client."""
    host, conf = owner._host, merged_conf(conf, kwargs)
    return parse(conf, role) if host is None else parse_role(host.role_conf, conf, role)


def new_role(kind: type[T], host: ClientCore | None, *args: Any) -> T:
    """Makes a client of this class, as a role of ``host``; None: a client of its own."""
    if host is None:
        return kind(*args)
    role: Any = kind.__new__(kind, *args)
    role._host = host
    try:
        role.__init__(*args)
    finally:
        del role._host  # the role's ClientCore has it
    return cast(T, role)


def own_client(owner: Any) -> ClientCore | None:
    """The client of an object; None: its class didn't call ``super().__init__()``, or not yet.

    It doesn't use ``vars()``: that creates the object's ``__dict__``, in which CPython then looks
    up each method that is called.
    """
    try:
        client = owner._client
    except (AttributeError, RuntimeError):
        return None
    return client if isinstance(client, ClientCore) else None


def _do_nothing() -> None:
    """The callback of an error without ``error_cb``."""


def _raise(error: KafkaError) -> None:
    raise KafkaException(error)


def _proxy_of(config: Config) -> Proxy | None:
    if not config.text("proxy.url"):
        return None
    from kafka_native.security.proxy import proxy_of  # few clients have a proxy

    return proxy_of(config)


def _mechanism_of(config: Config) -> Mechanism | None:
    """The client's SASL mechanism; None without SASL."""
    if not config.text("security.protocol").startswith("sasl_"):
        return None
    from kafka_native.security.sasl import mechanism_of  # imported only when needed

    return mechanism_of(config)


def _mock_cluster(config: Config, log: Log) -> MockCluster | None:
    """The mock cluster for test.mock.num.brokers; 0: none.

    Topics get four partitions, as in librdkafka.
    """
    brokers = config.integer("test.mock.num.brokers")
    if brokers == 0:
        return None
    from kafka_native.mock import MockCluster  # imported only when needed

    log.warning(
        "test.mock.num.brokers: a mock cluster of %d brokers takes the place of bootstrap.servers",
        brokers,
    )
    cluster = MockCluster(brokers, default_partitions=4)
    cluster.delay_responses(None, config.integer("test.mock.broker.rtt") / 1000)
    log.debug("the mock cluster listens at %s", cluster.bootstrap_servers)
    return cluster


def _fallback_of(config: Config) -> Fallback:
    return Fallback.of(
        config.text("broker.version.fallback"),
        ask=bool(config["api.version.request"]),
        for_s=config.integer("api.version.fallback.ms") / 1000,
    )


class _ErrorOf:
    """Makes the engine's KafkaErrors: from the broker's code, or from a status of a message."""

    def __init__(self) -> None:
        self.fatal: KafkaError | None = None  # why the client accepts nothing new
        # why a closing producer can't deliver its queued messages
        self.lost: KafkaError | None = None
        # A weak reference, because the engine keeps this object, and the metadata keep the engine.
        self.metadata: weakref.ref[Metadata] | None = None

    def __call__(
        self,
        status: int,
        error_code: int,
        text: str | None,
        topic: str | None = None,
        partition: int = PARTITION_UA,
    ) -> KafkaError:
        """``topic`` and ``partition`` are those of the message. Thread: any."""
        if error_code:
            return KafkaError(error_code, text)
        if status == STATUS_TIMED_OUT:
            error = KafkaError(KafkaError._MSG_TIMED_OUT, text)
            metadata = None if self.metadata is None else self.metadata()
            if topic is None or metadata is None:
                return error
            obstacle = metadata.obstacle(topic, partition)
            return KafkaError(error.code(), f"{error.str()}: {obstacle}")
        if status == STATUS_CLOSED:
            return KafkaError(KafkaError._PURGE_QUEUE, text)
        error = from_status(status, text)
        if status == STATUS_PURGED and self.fatal is not None:
            return KafkaError(error.code(), f"{error.str()}: {self.fatal.str()}")
        if status == STATUS_PURGED and self.lost is not None:
            return KafkaError(self.lost.code(), self.lost.str())
        return error


def _cluster_of(reply: MetadataResponse, reported_by: BrokerIdentity | None) -> ClusterMetadata:
    cluster = ClusterMetadata()
    if reported_by is not None:
        cluster.orig_broker_id, cluster.orig_broker_name = reported_by.node_id, reported_by.name
    cluster.cluster_id = reply.cluster_id
    cluster.controller_id = reply.controller_id
    for source in reply.brokers:
        broker = BrokerMetadata()
        broker.id, broker.host, broker.port = source.node_id, source.host, source.port
        cluster.brokers[broker.id] = broker
    _add_topics(cluster, reply.topics)
    return cluster


def _add_topics(cluster: ClusterMetadata, topics: Sequence[MetadataResponse.Topic]) -> None:
    """Adds each topic. Topics of a large reply load their partitions when they are read."""
    is_large = not isinstance(topics, list)

    def load(number: int) -> dict[int, PartitionMetadata]:
        return _partitions_of(topics[number])

    for number, source in enumerate(topics):
        if source.name is None:
            continue
        topic = TopicMetadata()
        topic.topic = source.name
        topic.error = KafkaError(source.error_code) if source.error_code else None
        topic._id = _id_text(source.topic_id)
        if is_large or not isinstance(source.partitions, list):
            topic._load_later(load, number)
        else:
            topic.partitions = _partitions_of(source)
        cluster.topics[source.name] = topic


def _partitions_of(source: MetadataResponse.Topic) -> dict[int, PartitionMetadata]:
    partitions = {}
    # most partitions have the same replicas as many others
    alike: dict[tuple[int, ...], tuple[int, ...]] = {}
    for each in source.partitions:
        replicas, isrs = tuple(each.replica_nodes), tuple(each.isr_nodes)
        partition = PartitionMetadata()
        partition.id = each.partition_index
        partition.leader = each.leader_id
        partition.replicas = alike.setdefault(replicas, replicas)
        partition.isrs = alike.setdefault(isrs, isrs)
        partition.error = KafkaError(each.error_code) if each.error_code else None
        partitions[partition.id] = partition
    return partitions


def _id_text(topic_id: bytes) -> str:
    return "" if topic_id == NO_ID else str(Uuid.from_bytes(topic_id))


def existing(objects: weakref.WeakSet[T]) -> list[T]:
    """The objects that exist now. Other threads may create and drop some meanwhile."""
    while True:
        try:
            return list(objects)
        except RuntimeError:  # the set has changed during the iteration
            continue


def _at_exit() -> None:
    """Ends open clients before the interpreter kills their threads. Queued messages are lost."""
    begin_exit()
    for client in sorted(existing(_clients), key=lambda each: each.is_host):
        client.close()
    for client in list(_dropped):
        if not client.forked:
            client.await_end()


atexit.register(_at_exit)
