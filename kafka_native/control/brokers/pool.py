"""The brokers that a client knows: bootstrap servers, handshakes, and the delivery of calls.

Thread: the control thread only. Tests pass a fake engine.
"""

from __future__ import annotations

import itertools
import math
import re
import time
import weakref
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_native._native.engine import THROTTLE_MAX_MS
from kafka_native._native.enums import (
    PEER_CLOSED,
    PEER_CLOSED_IN_FLIGHT,
    STATUS_CLOSED,
    STATUS_NOMEM,
    STATUS_PROTOCOL,
    STATUS_STALE,
    STATUS_TIMED_OUT,
    STATUS_TLS,
    STATUS_TRANSPORT,
)
from kafka_native._reference.own_properties import SOFTWARE_NAME
from kafka_native.cleaning import printable
from kafka_native.control.brokers.bootstrap import ServerOrder, Shuffle, shuffle
from kafka_native.control.brokers.broker import BOOTSTRAP, Broker
from kafka_native.control.brokers.lookups import Lookup, Lookups
from kafka_native.control.brokers.security import Authenticator, Connections, Encryption
from kafka_native.control.brokers.spread import Spread
from kafka_native.control.brokers.versions import (
    ASK_EVERYONE,
    ApiRanges,
    ExpectedBroker,
    Fallback,
    Handshakes,
)
from kafka_native.control.errors import SECURITY_ERRORS
from kafka_native.control.outages import Outages
from kafka_native.control.requests import (
    ANY_BROKER,
    NEVER,
    NO_MEMORY_S,
    BrokerIdentity,
    Call,
    Reply,
)
from kafka_native.errors import (
    KafkaError,
    from_status,
)
from kafka_native.logs import DEBUG, ERROR, INFO, QUIET, WARNING, Logs
from kafka_native.protocol import ApiKey, ProtocolError, registry
from kafka_native.protocol.headers import request_header_version, response_header_version
from kafka_native.protocol.metadata import MetadataResponse
from kafka_native.protocol.schema import Request
from kafka_native.protocol.versions import ApiVersionsRequest

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine, Event

HOST_MAX = 255
BROKERS_MAX = 1 << 14
"""The maximum number of brokers of a cluster.

More than this is an attack: each broker has a thread.
"""
COORDINATORS = 1 << 32
"""The base of coordinator targets: this plus a node id is the node's coordinator connection."""
# The time for one server before another one is tried in parallel. A server that never replies must
# not delay a call for the length of its timeouts.
NEXT_SERVER_S = 0.5
AVOIDED_S = 10.0
"""How long calls to any broker go to others after such a call to this one has failed."""
EAGER_INTERVAL_S = 1.0
"""How often an eager client without a connection tries to connect, as librdkafka does."""
CLOSE_LEVELS = {PEER_CLOSED: INFO, PEER_CLOSED_IN_FLIGHT: WARNING}
"""The log level of a connection that the peer closes."""
OLD_BROKER_HINT = "another security.protocol? or a broker before 0.10: see broker.version.fallback"
SASL_HINT = "is its listener one for SASL? see security.protocol"
# subjects of outages besides the brokers' addresses
ALL_BROKERS = "all brokers"
REBOOTSTRAP = "rebootstrap"


def safe_host(host: str) -> str:
    """A broker's host name, made safe for logs and the resolver.

    Impossible names stay impossible.
    """
    if not host.isascii():
        try:
            host.encode("idna")
        except UnicodeError:
            host = host.encode("ascii", "replace").decode()
    return printable(host[:HOST_MAX])


def _failure_of(event: Event) -> Hashable:
    """What distinguishes a DISCONNECTED from others with its code, equal for repeated attempts."""
    if event.peer_closed:
        return "closed by the peer"
    if event.generation:
        return "connected"
    if event.status == STATUS_TLS:
        return event.verify_error
    # One cause per address: "connect failed: 10.0.0.1:9092: Connection refused; [::1]:9092: Network
    # is unreachable"
    return frozenset(
        re.sub(r"\d+", "", each.rpartition(": ")[2]) for each in event.text.split("; ")
    )


def _code_of(status: int) -> int:
    """The error code for callers that wait for a failed connection.

    Lack of memory counts as _TRANSPORT.
    """
    return KafkaError._TRANSPORT if status == STATUS_NOMEM else from_status(status).code()


class Heartbeat(NamedTuple):
    """A heartbeat that a broker's thread sends by itself."""

    message: Request
    version: int
    broker: Broker
    on_reply: Callable[[Reply], None]


class PoolSettings(NamedTuple):
    """What the configuration says about connections."""

    client_version: str
    handshake_timeout_s: float
    """For the handshake of a connection (api.version.request.timeout.ms)."""
    client_name: str = SOFTWARE_NAME
    reports_closes: bool = True
    """Also report that a broker has closed a connection in use (log.connection.close)."""
    eager_s: float | None = None
    """None, or: connect also without a call, report every failed attempt, and that all brokers are
    down again after this time (reconnect.backoff.max.ms)."""
    rebootstraps: bool = True
    """Return to the bootstrap servers even if other brokers are known (metadata.recovery.strategy,
    KIP-899)."""
    checks_cluster: bool = True
    """Brokers refuse connections that are meant for another cluster or node
    (metadata.cluster.check.enable, KIP-1242). It needs `rebootstraps`."""
    fallback: Fallback = ASK_EVERYONE
    encryption: Encryption | None = None
    client_rack: str | None = None
    """client.rack. The engine learns which brokers are in it."""
    data_connections: int = 1
    """For Fetch and Produce requests to each node (connections.per.broker)."""


class BrokerPool:
    """Opens connections, runs their handshakes, and queues calls until they can be sent."""

    def __init__(
        self,
        engine: Engine,
        bootstrap: Iterable[tuple[str, int]],
        settings: PoolSettings,
        *,
        on_error: Callable[[KafkaError, int], None],
        on_throttled: Callable[[Broker, float], None] = lambda broker, seconds: None,
        make_authenticator: Callable[[Connections], Authenticator] | None = None,
        logs: Logs = QUIET,
        shuffle: Shuffle = shuffle,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Adds the bootstrap servers. Connects only when there is a call, or if it is eager.

        :param on_error: Gets brokers' errors and a syslog level, once per cause and minute. It is
            also called when all brokers are down.
        :param on_throttled: Gets the broker and its throttle time in seconds.
        :param make_authenticator: None if the brokers require no SASL.
        :param shuffle: The order in which servers are tried; tests replace it.
        """
        self._settings = settings
        # addresses that have sent their versions: never treated as old brokers
        self._answered: set[tuple[str, int]] = set()
        # addresses that use the fallback's versions, and until when
        self._old_until: dict[tuple[str, int], float] = {}
        self._engine = engine
        self._versions = Handshakes(
            settings.client_name,
            settings.client_version,
            checks_cluster=settings.checks_cluster and settings.rebootstraps,
        )
        self._on_error = on_error
        self.logs = logs
        self._log = logs["broker"]
        self._eager_at = clock()  # the next attempt to connect without a call
        # the time from which an eager client reports again that all brokers are down
        self._down_again_at = NEVER
        self._clock = clock
        self._by_handle: dict[int, Broker] = {}
        self.nodes: dict[int, Broker] = {}
        self._coordinators: dict[int, Broker] = {}
        self._controls: dict[int, Broker] = {}
        self._spread = Spread(settings.data_connections)
        self._data: dict[int, dict[int, Broker]] = {}  # further ones, by node and number
        self._heartbeats: dict[int, Heartbeat] = {}
        self._any: deque[Call] = deque()
        # the control connection that opens for calls to any broker
        self._opening: Broker | None = None
        self._tokens = itertools.count(1)
        self._pending: dict[int, tuple[Call, int, Broker]] = {}
        self._lookups = Lookups()
        self._handshakes: dict[int, Broker] = {}
        # by address: a broker and the same bootstrap server share one
        self._outages = Outages(clock)
        self._features_epoch = -1
        self._features: Mapping[str, int] = {}
        self._turn = itertools.count()
        self._order = ServerOrder(shuffle)
        self._next_server_at = 0.0
        self._tried: Broker | None = None  # the server of the last attempt, until one opens
        self.roles: weakref.WeakSet[BrokerPool] = weakref.WeakSet()
        """The pools of the roles, if it is a shared client's. It keeps none of them alive."""
        self.connections = 0
        """The number of connections so far."""
        self._rebootstrapping = False
        self.on_rebootstrap: list[Callable[[], None]] = []
        """Called when the pool returns to the bootstrap servers."""
        self._on_throttled = on_throttled
        self._authenticator = None if make_authenticator is None else make_authenticator(self)
        self.bootstrap = [self._add(BOOTSTRAP, host, port) for host, port in bootstrap]

    @property
    def features(self) -> Mapping[str, int]:
        """The cluster's finalized features, by name, from the newest handshake."""
        return self._features

    def note_features(self, ranges: ApiRanges) -> None:
        """Stores the features of a handshake, unless newer ones are known."""
        if ranges.features_epoch >= self._features_epoch:
            self._features_epoch, self._features = ranges.features_epoch, ranges.features

    @property
    def rebootstrapping(self) -> bool:
        """Whether only the bootstrap servers count as members of the cluster.

        It ends with the next metadata.
        """
        return self._rebootstrapping

    # --- known brokers ---

    def _add(
        self, node_id: int, host: str, port: int, rack: str | None = None, purpose: str = ""
    ) -> Broker:
        handle = self._engine.broker_add(node_id, host, port)
        broker = Broker(handle, node_id, host, port, rack, purpose=purpose)
        self._by_handle[handle] = broker
        self._log.debug("%s: added", broker.name)
        self._set_rack(broker, rack)
        return broker

    def _set_rack(self, broker: Broker, rack: str | None) -> None:
        broker.rack = rack
        if self._settings.client_rack is not None:
            self._engine.broker_set_in_client_rack(
                broker.handle, rack == self._settings.client_rack
            )

    def add_bootstrap(self, servers: Iterable[tuple[str, int]]) -> None:
        """Adds bootstrap servers, unless they are known, and tries them if calls wait."""
        known = {broker.address for broker in self.bootstrap}
        for host, port in servers:
            if (host, port) not in known:
                known.add((host, port))
                self.bootstrap.append(self._add(BOOTSTRAP, host, port))
        if self._any:
            self._connect_one()

    def set_cluster_id(self, cluster_id: str) -> None:
        """Takes the id of the cluster that metadata come from."""
        self._versions.cluster_id = cluster_id

    def update(self, node_id: int, host: str, port: int, rack: str | None) -> bool:
        """Adds or updates a broker from metadata.

        If its address has changed, opens a new connection. Returns whether the node's engine handle
        is a new one.
        """
        host = safe_host(host)
        known = self.nodes.get(node_id)
        if known is not None and (known.host, known.port) == (host, port):
            if known.rack != rack:
                for broker in (known, *self._data.get(node_id, {}).values()):
                    self._set_rack(broker, rack)
            return False
        try:
            self.nodes[node_id] = self._add(node_id, host, port, rack)
        except MemoryError:  # callers find this broker unknown and refresh the metadata
            self._log.debug("%s:%d/%d: no memory for a connection", host, port, node_id)
            return False
        for old in [*([known] if known else []), *self._pop_further(node_id)]:
            self._retire(old, self.nodes[node_id])
        return True

    def _pop_further(self, node_id: int) -> list[Broker]:
        """Forgets the further connections to a node, and returns them."""
        control = self._controls.pop(node_id, None)
        data = self._data.pop(node_id, {})
        return [*([control] if control else []), *data.values()]

    def _retire(self, old: Broker, new: Broker) -> None:
        self._has_opened(old)
        self._engine.broker_stop(old.handle)
        old.ranges = None
        del self._by_handle[old.handle]
        while old.waiting:
            self._enqueue(new, old.waiting.popleft())

    def remove_missing(self, node_ids: set[int]) -> None:
        """Removes brokers that metadata no longer contain. Ends a rebootstrap."""
        self._rebootstrapping = False
        for node_id in self.nodes.keys() - node_ids:
            for broker in (self.nodes.pop(node_id), *self._pop_further(node_id)):
                self._remove(broker)

    def _remove(self, broker: Broker) -> None:
        self._has_opened(broker)
        self._engine.broker_stop(broker.handle)
        broker.ranges = None
        del self._by_handle[broker.handle]
        text = f"broker {broker.node_id} has left the cluster"
        self._fail_waiting(broker, KafkaError(KafkaError._UNKNOWN_BROKER, text))

    def coordinator(self, node_id: int, host: str, port: int) -> int:
        """The target for calls to a coordinator. Its own connection opens with the first call.

        MemoryError: the engine is out of memory.
        """
        address = safe_host(host), port
        self._further(self._coordinators, node_id, "coordinator", node_id, address)
        return COORDINATORS + node_id

    def _control(self, node: Broker) -> Broker:
        """The connection to a node on which no call waits behind Fetch or Produce requests.

        It is the node's own while it carries no data. The control connection opens with its first
        call, and ends when it is idle (connections.max.idle.ms).
        """
        if not node.carries_data:
            return node
        try:
            node_id = node.node_id
            return self._further(self._controls, node_id, "control", node_id, node.address)
        except MemoryError:
            return node

    def _further(
        self,
        known: dict[int, Broker],
        key: int,
        purpose: str,
        node_id: int,
        address: tuple[str, int],
    ) -> Broker:
        """A further connection to a node. If the address has changed, a new one replaces it."""
        old = known.get(key)
        if old is not None and old.address == address:
            return old
        node = self.nodes.get(node_id)
        rack = None if node is None else node.rack
        broker = known[key] = self._add(node_id, *address, rack, purpose)
        if old is not None:
            self._retire(old, broker)
        return broker

    def _at(self, target: int) -> Broker | None:
        """The broker of a target."""
        return (
            self._coordinators.get(target - COORDINATORS)
            if target >= COORDINATORS
            else self.nodes.get(target)
        )

    def is_up(self, target: int) -> bool:
        """Whether the target is connected."""
        broker = self._at(target)
        return broker is not None and broker.up

    def _up_nodes(self) -> list[Broker]:
        """The connected nodes; none during a rebootstrap."""
        if self.rebootstrapping:
            return []
        return [broker for broker in self.nodes.values() if broker.up]

    def _up_bootstrap(self) -> list[Broker]:
        """The connected bootstrap servers."""
        return [broker for broker in self.bootstrap if broker.up]

    def offering(self, message: type[Request]) -> list[int | None]:
        """The connected targets that support this request. While no node is up: ANY_BROKER."""
        nodes = self._up_nodes()
        offering = [
            each
            for each in nodes or self.bootstrap
            if each.ranges and each.ranges.choose(message) >= 0
        ]
        return [each.node_id for each in offering] if nodes else [ANY_BROKER] * bool(offering)

    def where(self, target: int) -> tuple[int, str, int]:
        """The id, host and port of a target. KeyError: the target is gone."""
        broker = self._at(target)
        if broker is None:
            raise KeyError(target)
        return broker.node_id, broker.host, broker.port

    def data_handle(self, node_id: int, topic: str, partition: int) -> int:
        """The engine's handle for a partition's Fetch or Produce requests to a node; -1: unknown.

        A partition keeps its connection while the node keeps its address.
        """
        node = self.nodes.get(node_id)
        if node is None:
            return -1
        number = self._spread.choose(node_id, topic, partition)
        if number:
            known, purpose = self._data.setdefault(node_id, {}), f"data {number + 1} of"
            try:
                return self._further(known, number, purpose, node_id, node.address).handle
            except MemoryError:
                pass  # the node's own connection serves the partition
        node.carries_data = True
        return self._own_handle(node)

    def _own_handle(self, node: Broker) -> int:
        """The engine's handle of a node's first connection; -1: it has none."""
        return node.handle

    def brokers(self) -> list[Broker]:
        """All known brokers: bootstrap servers, nodes and further connections to nodes."""
        return list(self._by_handle.values())

    def by_handle(self, handle: int) -> Broker | None:
        """The broker of an engine's handle; None: it was removed."""
        return self._by_handle.get(handle)

    # --- sending ---

    def send(self, call: Call) -> None:
        """Sends the call, or queues it until its broker is up."""
        if call.target is not None:
            broker = self._at(call.target)
            if broker is None:
                text = f"broker {call.target % COORDINATORS} isn't known"
                call.answer(KafkaError(KafkaError._UNKNOWN_BROKER, text))
            elif call.is_data:
                broker.carries_data = True
                self._enqueue(broker, call)
            else:
                self._enqueue(self._control(broker), call)
            return
        up, now = self._up_nodes() or self._up_bootstrap(), self._clock()
        candidates = self._unavoided(up, now)
        if up and not candidates:
            unconnected = [node for node in self.nodes.values() if not (node.up or node.failing)]
            candidates = self._unavoided(unconnected, now) or up
        free = [broker for broker in candidates if broker.up and self._is_free(broker)]
        if free:
            self._submit(self._control(free[next(self._turn) % len(free)]), call)
        else:
            self._any.append(call)
            self._connect_one(candidates)

    @staticmethod
    def _unavoided(brokers: Iterable[Broker], now: float) -> list[Broker]:
        """Those that calls to any broker don't avoid now."""
        return [each for each in brokers if now >= each.avoided_until]

    def avoid(self, node_id: int) -> None:
        """Sends calls to any broker to others for a while: this one may know nothing new."""
        node = self.nodes.get(node_id)
        if node is not None:
            node.avoided_until = self._clock() + AVOIDED_S

    def _is_free(self, node: Broker) -> bool:
        """Whether a call to this node waits neither for data nor for a new connection."""
        if not node.carries_data:
            return True
        control = self._controls.get(node.node_id)
        return control is not None and control.up

    def _enqueue(self, broker: Broker, call: Call) -> None:
        if broker.up:
            self._submit(broker, call)
        else:
            broker.waiting.append(call)
            self._engine.broker_connect(broker.handle)

    def _throttle(self, broker: Broker, throttle_ms: int) -> None:
        """Sends nothing to a broker for its throttle time (KIP-219), up to a maximum."""
        throttle_s = self.throttled(broker, throttle_ms)
        broker.held_until = max(broker.held_until, self._clock() + throttle_s)
        node = self.nodes.get(broker.node_id, broker)
        node.avoided_until = max(node.avoided_until, broker.held_until)

    def throttled(self, broker: Broker, throttle_ms: int) -> float:
        """Reports the throttle time of a response.

        Returns it in seconds, limited to the maximum.
        """
        throttle_s = min(max(throttle_ms, 0), THROTTLE_MAX_MS) / 1000
        now = self._clock()
        if throttle_ms > THROTTLE_MAX_MS and now >= broker.cut_until:
            broker.cut_until = now + throttle_s
            text = "%s: throttles this client for %.0f s: the client waits only %.0f s"
            self._log.warning(text, broker.name, throttle_ms / 1000, throttle_s)
        if throttle_s > 0:
            self._on_throttled(broker, throttle_s)
        return throttle_s

    def _release(self, broker: Broker, now: float) -> float:
        """Sends queued calls once the throttle time is over. Returns the time of the next check."""
        if not broker.up or not broker.waiting:
            return NEVER
        if now < broker.held_until:
            return broker.held_until
        waiting = list(broker.waiting)
        broker.waiting.clear()
        for call in waiting:
            self._submit(broker, call)
        return NEVER

    def _servers(self) -> list[Broker]:
        """The servers to try for calls to any broker."""
        if self.rebootstrapping or not self.nodes:
            return self.bootstrap
        return [*self.nodes.values(), *(self.bootstrap if self._settings.rebootstraps else ())]

    def _nodes_of_roles(self) -> list[Broker]:
        """The nodes to which roles are connected; none during a rebootstrap."""
        if self.rebootstrapping:
            return []
        up = {number for role in self.roles for number, node in role.nodes.items() if node.up}
        return [node for number, node in self.nodes.items() if number in up]

    def _connect_one(self, candidates: Sequence[Broker] = ()) -> None:
        """Opens a connection for calls to any broker: one of these nodes, or of all servers.

        The roles' nodes come first: a bootstrap server may lead to another cluster by now.
        """
        now = self._clock()
        of_roles = [] if candidates else self._nodes_of_roles()
        reachable = [each for each in of_roles if not each.failing and each is not self._tried]
        candidates = candidates or self._unavoided(reachable, now)
        candidates = candidates or self._unavoided(self._servers(), now) or self._servers()
        if not candidates or (now < self._next_server_at and self._is_connecting(candidates)):
            return
        self._next_server_at = now + NEXT_SERVER_S
        chosen = self._tried = self._order.next(candidates)
        target = self._control(chosen) if chosen.up else chosen
        if target.up:  # there is no memory for a control connection
            self._send_anywhere(lambda call: self._submit(target, call))
            return
        self._opening = target if target.dedicated else None
        self._engine.broker_connect(target.handle)

    def _is_connecting(self, servers: Sequence[Broker]) -> bool:
        return self._opening is not None or any(
            each.handshake or each.authentication for each in servers
        )

    def _has_opened(self, broker: Broker) -> None:
        """Ends the wait for a control connection: it is open, or failed, or is gone."""
        if broker is self._opening:
            self._opening = None

    def _send_anywhere(self, send: Callable[[Call], None]) -> None:
        """Sends the calls for which any broker will do."""
        waiting = list(self._any)
        self._any.clear()
        for call in waiting:
            send(call)

    def _submit(self, broker: Broker, call: Call) -> None:
        assert broker.ranges is not None
        if self._clock() < broker.held_until:
            broker.waiting.append(call)
            return
        message = call.message
        version = broker.ranges.choose_for(message, call.newest)
        if version < 0:
            text = (
                f"{broker.name} has no version of {type(message).__name__} that this client speaks"
            )
            call.answer(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text))
            return
        try:
            body = message.for_version(version).encode(version)
        except ProtocolError as error:
            call.answer(KafkaError(KafkaError._INVALID_ARG, str(error)))
            return
        token = next(self._tokens)
        self._pending[token] = (call, version, broker)
        # Only for this connection: if it is gone, another broker may be better than waiting for it.
        now = self._clock()
        try:
            self._submit_body(
                *(broker, message.api_key, version, body, token, call.deadline - now),
                generation=broker.generation,
            )
            self._lookups.on_sent(call, broker.address, now)
        except MemoryError:
            del self._pending[token]
            broker.waiting.append(call)
            broker.held_until = max(broker.held_until, self._clock() + NO_MEMORY_S)
        except Exception:
            del self._pending[token]
            raise

    def _submit_body(
        self,
        broker: Broker,
        api_key: int,
        version: int,
        body: bytes,
        token: int,
        timeout_s: float,
        **how: Any,
    ) -> None:
        flexible = request_header_version(api_key, version) == 2
        reply_flexible = response_header_version(api_key, version) == 1
        timeout_ms = -1 if timeout_s == NEVER else max(1, int(timeout_s * 1000))
        self._engine.submit(
            broker.handle,
            api_key,
            version,
            flexible,
            reply_flexible,
            body,
            token,
            timeout_ms,
            **how,
        )

    def poll(self, now: float) -> tuple[list[Call], float]:
        """Fails expired calls, tries another server for others, closes bootstrap connections."""
        # Every iteration of the control thread comes here. Usually no call waits.
        waited_for = [broker for broker in self._by_handle.values() if broker.waiting]
        wake_up = self._expire(waited_for, now) if self._any or waited_for else NEVER
        for broker in waited_for:
            wake_up = min(wake_up, self._release(broker, now))
        if self._any and len(self._servers()) > 1:
            if now >= self._next_server_at:
                self._connect_one()
            wake_up = min(wake_up, self._next_server_at)
        if self._lookups:
            for call, lookup in self._lookups.due(now):
                wake_up = min(wake_up, self._ask_another(call, lookup, now))
            wake_up = min(wake_up, self._lookups.next_at(now))
        bootstrap = self._up_bootstrap()
        if bootstrap and (self._up_nodes() or self._nodes_of_roles()):
            busy = {broker.handle for _, _, broker in self._pending.values()}
            for broker in bootstrap:
                if broker.handle not in busy:
                    broker.ranges = None
                    self._engine.broker_close(broker.handle, broker.generation, 0)
        if self._authenticator is not None:
            wake_up = min(wake_up, self._authenticator.poll(now))
        if self._settings.eager_s is not None and not any(
            broker.up for broker in self._by_handle.values()
        ):
            if now >= self._eager_at:
                self._eager_at = now + EAGER_INTERVAL_S
                self._connect_one()
            wake_up = min(wake_up, self._eager_at)
        return [], wake_up

    def _expire(self, waited_for: list[Broker], now: float) -> float:
        """Fails queued calls whose deadline is over. Returns the time of the next check."""
        wake_up = NEVER
        for queue in [self._any, *(broker.waiting for broker in waited_for)]:
            expired = [call for call in queue if call.deadline <= now]
            for call in expired:
                queue.remove(call)
                text = f"no broker could be reached in time{self.failure_text()}"
                call.answer(KafkaError(KafkaError._TRANSPORT, text))
            if expired:
                wake_up = 0.0  # managers that were polled earlier have an answer now
            wake_up = min(wake_up, *(call.deadline for call in queue)) if queue else wake_up
        return wake_up

    def _ask_another(self, call: Call, lookup: Lookup, now: float) -> float:
        """Sends a look-up without an answer to another broker too.

        Returns the time of the next attempt, if there is no connection for it yet.
        """
        for node in self.nodes.values():
            if node.address in lookup.asked:
                self.avoid(node.node_id)
        nodes = [] if self.rebootstrapping else list(self.nodes.values())
        others = [each for each in nodes or self.bootstrap if each.address not in lookup.asked]
        ready = [self._control(each) for each in others if each.up and self._is_free(each)]
        if others and not ready:
            self._connect_one(others)
            return self._next_server_at
        free = [each for each in ready if now >= each.held_until]
        if free:
            other = free[next(self._turn) % len(free)]
            what = ApiKey(call.message.api_key).name
            self._log.debug("%s: gets a %s that another broker hasn't answered", other.name, what)
            self._submit(other, call)
        return NEVER

    def _cluster_is_gone(self) -> bool:
        """Whether no known node can be reached."""
        nodes = self.nodes.values()
        return bool(nodes) and all(node.failing for node in nodes) and not self._nodes_of_roles()

    def rebootstrap(self) -> None:
        """Returns to the bootstrap servers: the known cluster may be gone (KIP-899).

        Connections are closed, but brokers are kept, because usually the same ones come back.
        """
        if not self._settings.rebootstraps:
            return
        self._rebootstrapping = True
        is_due = self._outages.is_due(REBOOTSTRAP, None)
        (self._log.info if is_due else self._log.debug)("starting again from the bootstrap servers")
        self.begin_again()
        for role in list(self.roles):
            role.begin_again()
        if self._any:
            self._connect_one()

    def begin_again(self) -> None:
        """Closes the connections, and reports that to the managers: a rebootstrap begins."""
        self._close_all()
        for listener in self.on_rebootstrap:
            listener()

    def _close_all(self) -> None:
        """Closes every connection. It opens again with its next call, to any cluster."""
        self._versions.cluster_id = None
        for broker in self._by_handle.values():
            if broker.up or broker.handshake is not None or broker.authentication is not None:
                broker.ranges = None
                broker.handshake = None
                broker.authentication = None
                self._engine.broker_close(broker.handle, broker.generation, 0)

    # --- events ---

    def on_connected(self, event: Event) -> None:
        """Starts the handshake of a new TCP connection."""
        broker = self._by_handle.get(event.broker)
        if broker is not None:
            self.connections += 1
            broker.generation = event.generation
            broker.unanswered = False
            broker.authentication = None
            broker.works = False
            self._log.debug("%s: connected: %s", broker.name, event.text)
            if self._settings.fallback.ranges is not None and (
                self._settings.fallback.always or self._is_old(broker)
            ):
                self._authenticate(broker, self._settings.fallback.ranges)
                return
            any_broker = broker.node_id == BOOTSTRAP or self._authenticator is not None
            broker.handshake = self._versions.first(None if any_broker else broker.node_id)
            self._send_handshake(broker)

    def _send_handshake(self, broker: Broker) -> None:
        handshake = broker.handshake
        assert handshake is not None
        api_key, timeout_s = ApiVersionsRequest.api_key, self._settings.handshake_timeout_s
        self.submit_handshake(broker, api_key, handshake.version, handshake.request(), timeout_s)

    def submit_handshake(
        self,
        broker: Broker,
        api_key: int,
        version: int,
        body: bytes,
        timeout_s: float,
        **form: bool,
    ) -> None:
        """Sends a request of the handshake, before all queued calls.

        ``form``: ``raw`` and ``replied`` of `Engine.submit()`.
        """
        token = next(self._tokens)
        self._handshakes[token] = broker
        how = {"generation": broker.generation, "handshake": True, **form}
        try:
            self._submit_body(broker, api_key, version, body, token, timeout_s, **how)
        except MemoryError:
            del self._handshakes[token]
            # a new connection follows
            self._engine.broker_close(broker.handle, broker.generation, STATUS_NOMEM)

    def _on_handshake(self, broker: Broker, event: Event) -> None:
        handshake = broker.handshake
        if handshake is None or event.generation not in (0, broker.generation):
            return
        if event.status != 0:
            broker.handshake = None  # DISCONNECTED has the cause
            broker.unanswered = event.status in (STATUS_TRANSPORT, STATUS_TIMED_OUT)
            if (
                broker.unanswered
                and self._settings.fallback.ranges is not None
                and broker.address not in self._answered
            ):
                self._old_until[broker.address] = self._clock() + self._settings.fallback.for_s
            elif event.status == STATUS_TIMED_OUT:
                text = f"{broker.name}: no reply to ApiVersions: is this a Kafka broker? "
                text += OLD_BROKER_HINT
                self.refuse(broker, KafkaError(KafkaError._TRANSPORT, text))
            return
        outcome = handshake.on_reply(event.body)
        if outcome is None:
            self._send_handshake(broker)
        elif isinstance(outcome, KafkaError):
            if handshake.expected is not None and outcome.code() == KafkaError.REBOOTSTRAP_REQUIRED:
                self._on_other_broker(broker, handshake.expected)
                return
            self.refuse(broker, KafkaError(outcome.code(), f"{broker.name}: {outcome.str()}"))
        elif handshake.last:
            broker.handshake = None
            self._open(broker, outcome)
        else:
            self._answered.add(broker.address)
            self._versions.note(outcome)
            self._authenticate(broker, outcome)

    def _on_other_broker(self, broker: Broker, expected: ExpectedBroker) -> None:
        """Starts again: the address has led to another broker than the metadata say (KIP-1242).

        The closed connection has a back-off, because the bootstrap servers may name it again. Its
        calls fail as if there were no connection, so their callers retry them.
        """
        text = f"{broker.name}: this isn't node {expected.node_id} of cluster {expected.cluster_id}"
        self._log.info("%s", text)
        self.refuse(broker, KafkaError(KafkaError._TRANSPORT, text), DEBUG)
        self.rebootstrap()

    def _authenticate(self, broker: Broker, ranges: ApiRanges) -> None:
        broker.handshake = None
        if self._authenticator is None:
            self._open(broker, ranges)
        else:
            self._authenticator.begin(broker, ranges)

    def hold(self, broker: Broker) -> None:
        """Sends only handshake requests on this connection until it is opened again."""
        self._engine.broker_hold(broker.handle, broker.generation)

    def _is_old(self, broker: Broker) -> bool:
        return self._clock() < self._old_until.get(broker.address, 0.0)

    def refuse(self, broker: Broker, error: KafkaError, level: int = ERROR) -> None:
        """Closes a connection whose handshake has failed, and reports the error."""
        status = STATUS_TRANSPORT if broker.up else STATUS_PROTOCOL  # up: its calls are retried
        broker.ranges = None
        broker.handshake = None
        broker.authentication = None
        broker.refused = broker.failing = True
        broker.cause = error
        self._engine.broker_close(broker.handle, broker.generation, status)
        self._report(broker, error, level=level)
        self._fail_waiting(broker, error)

    def open(self, broker: Broker, ranges: ApiRanges) -> None:
        """Opens an authenticated connection, after the broker has checked the client's ids.

        A renewed session needs no further check.
        """
        node_id = None if broker.up or broker.node_id == BOOTSTRAP else broker.node_id
        broker.handshake = self._versions.second(node_id, ranges)
        if broker.handshake is None:
            self._open(broker, ranges)
        else:
            self._send_handshake(broker)

    def _open(self, broker: Broker, ranges: ApiRanges) -> None:
        """Ends the handshake and sends the calls that wait for this connection."""
        self._has_opened(broker)
        self._tried = None
        broker.ranges = ranges
        broker.failing = broker.refused = False
        self._log.debug("%s: up", broker.name)
        if self.logs["feature"].on:
            self.logs["feature"].debug("%s: %s", broker.name, ranges)
        self.note_features(ranges)
        self._engine.broker_open(broker.handle, broker.generation, ranges.produce, ranges.fetch)
        waiting = list(broker.waiting)
        broker.waiting.clear()
        for call in waiting:
            self._submit(broker, call)
        if broker.purpose != "coordinator" and (
            broker.node_id == BOOTSTRAP or not self.rebootstrapping
        ):
            self._send_anywhere(self.send)

    def on_working(self, event: Event) -> None:
        """Ends the outage: the connection has answered a request after the handshake."""
        broker = self._by_handle.get(event.broker)
        if broker is None or event.generation != broker.generation:
            return
        broker.works = True
        outage_s = self._outages.end(broker.address)
        if outage_s is not None:
            self._log.info("%s is back, after %.1f s", broker.name, outage_s)
        if broker.node_id != BOOTSTRAP or not self.nodes:
            self._end_outages()

    def _end_outages(self) -> None:
        """A known node works: new failures of all nodes are reported again."""
        self._outages.end(ALL_BROKERS)
        self._outages.end(REBOOTSTRAP)

    def note_working(self, broker: Broker) -> None:
        """A role's connection to this broker works, so the node isn't down."""
        node = self.nodes.get(broker.node_id)
        if node is not None and node.address == broker.address:
            node.failing = False
            self._end_outages()

    def on_disconnected(self, event: Event) -> None:
        """Handles the end of a connection or attempt.

        With 0 attempts, the peer closed an idle connection.
        """
        broker = self._by_handle.get(event.broker)
        if broker is None:
            return
        self._has_opened(broker)
        broker.ranges = None
        broker.handshake = None
        broker.authentication = None
        if self._settings.encryption is not None:
            self._settings.encryption.renew(self._engine)
        unanswered, broker.unanswered = broker.unanswered, False
        ended_at, broker.ended_at = broker.ended_at, None
        cut_off, broker.cut_off = broker.cut_off, False
        # no error: the next connection treats it as an old broker
        if unanswered and self._is_old(broker):
            if broker.waiting or self._any:
                self._engine.broker_connect(broker.handle)
            return
        if event.attempts:
            text = f"{broker.name}: {self._cause(broker, event)}"
            error = KafkaError(
                _code_of(event.status), f"{text} ({OLD_BROKER_HINT})" if unanswered else text
            )
            # no local failure: the credentials have nothing to do with it
            if self._authenticator is not None and ended_at is not None and event.peer_closed:
                error = self._authenticator.explain(ended_at, error)
            elif cut_off and event.peer_closed and self._authenticator is None:
                error = KafkaError(error.code(), f"{error.str()} ({SASL_HINT})")
            refused, broker.refused = broker.refused, False
            broker.failing = True
            if not refused:
                broker.cause = error
                level = CLOSE_LEVELS.get(event.peer_closed, ERROR)
                reported = level == ERROR or self._settings.reports_closes
                self._report(broker, error, _failure_of(event), level if reported else DEBUG)
            self._fail_waiting(broker, error)
            self._report_if_all_down()
            if self._cluster_is_gone() and not self.rebootstrapping:
                self.rebootstrap()
        else:
            self._log.debug("%s: closed: %s", broker.name, event.text)
        if broker.waiting:
            self._engine.broker_connect(broker.handle)
        if self._any:
            self._connect_one()

    def failure_text(self) -> str:
        """The last failure of a broker that is down, as part of an error text. Thread: any."""
        causes = self._causes()
        return f": {causes[0].str()}" if causes else ""

    def _causes(self) -> list[KafkaError]:
        return [
            broker.cause
            for broker in self._by_handle.copy().values()  # the control thread may add one
            if broker.failing and broker.cause is not None
        ]

    def refusal(self) -> KafkaError | None:
        """A TLS or SASL error of a broker that is down; None: there is none."""
        return next((each for each in self._causes() if each.code() in SECURITY_ERRORS), None)

    def _cause(self, broker: Broker, event: Event) -> str:
        if event.status == STATUS_TLS and self._settings.encryption is not None:
            return self._settings.encryption.explain(event, broker.host, broker.port)
        return event.text.removeprefix(f"{broker.host}:{broker.port}").lstrip(": ")

    def _report(
        self, broker: Broker, error: KafkaError, failure: Hashable = None, level: int = ERROR
    ) -> None:
        """Reports a broker's error unless it repeats the last one.

        ``level`` DEBUG: only to the log. While all brokers are down, there is one reminder for all.
        An eager client reports each error.
        """
        cause, reminds = (error.code(), failure), not self.all_down()
        is_due = self._outages.is_due(broker.address, cause, reminds=reminds)
        if level == DEBUG or not (is_due or self._settings.eager_s is not None):
            self._log.debug("%s", error.str())
        else:
            self._on_error(error, level)

    def report(self, error: KafkaError) -> None:
        """Reports an error that concerns no broker."""
        self._on_error(error, ERROR)

    def _fail_waiting(self, broker: Broker, error: KafkaError) -> None:
        waiting = list(broker.waiting)
        broker.waiting.clear()
        for call in waiting:
            call.answer(error)

    def all_down(self) -> bool:
        """Whether no known broker can be reached."""
        brokers = [broker for broker in self._by_handle.values() if not broker.dedicated]
        return all(
            broker.failing for broker in brokers if broker.node_id != BOOTSTRAP or not self.nodes
        )

    def _report_if_all_down(self) -> None:
        if not self.all_down():
            return
        now, error = self._clock(), self._all_down_error()
        is_due = self._outages.is_due(ALL_BROKERS, None)
        if is_due or now >= self._down_again_at:
            self._down_again_at = (
                NEVER if self._settings.eager_s is None else now + self._settings.eager_s
            )
            self._on_error(error, ERROR)

    def _all_down_error(self) -> KafkaError:
        count, outage_s = len(self.nodes) or len(self.bootstrap), self._outages.age_s(ALL_BROKERS)
        text = f"{count}/{count} brokers are down"
        if outage_s > 0:  # one reminder for all brokers
            text += f" for {outage_s:.0f} s{self.failure_text()}"
        return KafkaError(KafkaError._ALL_BROKERS_DOWN, text)

    def lasting_errors(self) -> list[KafkaError]:
        """The errors of the outages that last, for the ``error_cb`` of a new role."""
        errors = self._causes()
        return [*errors, self._all_down_error()] if errors and self.all_down() else errors

    def on_reply(self, event: Event) -> None:
        """Handles a reply, or the failure of a request, by its token."""
        broker = self._handshakes.pop(event.token, None)
        if broker is not None:
            if self._authenticator is not None and broker.authentication is not None:
                self._authenticator.on_reply(broker, event)
            else:
                self._on_handshake(broker, event)
            return
        if event.token in self._heartbeats:
            self._on_heartbeat(event)
            return
        pending = self._pending.pop(event.token, None)
        if pending is None:
            return
        call, version, broker = pending
        broker.cut_off = not broker.works and event.status == STATUS_TRANSPORT
        is_result = self._lookups.on_ended(call, answered=event.status == 0)
        if event.status == STATUS_STALE and self._clock() < call.deadline:
            if is_result:  # it was never sent: the pool now knows that this connection has ended
                self.send(call)
            return
        if event.status != 0 and call.target is None:
            # Otherwise the next calls to any broker would take the same control connection.
            self.avoid(broker.node_id)
        if not is_result:
            return
        call.answered_by = BrokerIdentity(broker.node_id, broker.name)
        call.answer(self._outcome(event, broker, call.message.api_key, version))

    def _outcome(self, event: Event, broker: Broker, api_key: int, version: int) -> Reply:
        """The decoded response, or the KafkaError in its place."""
        if event.status == STATUS_STALE:  # a heartbeat or an expired call that was never sent
            return KafkaError(
                KafkaError._TRANSPORT, f"{broker.name}: the connection has just ended"
            )
        # the pool closed this connection, but the client isn't closing
        if event.status == STATUS_CLOSED:
            return KafkaError(
                KafkaError._TRANSPORT, f"{broker.name}: the broker has left the cluster, or moved"
            )
        if event.status != 0:
            cause = event.text or from_status(event.status).str()
            return KafkaError(_code_of(event.status), f"{broker.name}: {cause}")
        try:
            # Some brokers send extra bytes: librdkafka's mock cluster does.
            reply = registry.response(api_key).decode(event.body, version, whole=False)
        except ProtocolError as error:
            text = f"{broker.name}: reply to {ApiKey(api_key).name} can't be read: {error}"
            return KafkaError(KafkaError._BAD_MSG, text)
        if isinstance(reply, MetadataResponse) and len(reply.brokers) > BROKERS_MAX:
            count = len(reply.brokers)
            text = f"{broker.name}: metadata names {count} brokers, more than any cluster has"
            return KafkaError(KafkaError._BAD_MSG, text)
        self._throttle(broker, getattr(reply, "throttle_time_ms", 0))
        return reply

    # --- heartbeats ---

    def heartbeat(
        self,
        target: int,
        message: Request,
        interval_s: float,
        timeout_s: float,
        on_reply: Callable[[Reply], None],
    ) -> None:
        """Makes the broker's own thread send this request every ``interval_s`` seconds.

        This needs no Python code, so heartbeats continue while the application holds the
        interpreter. ``on_reply`` gets each response that differs from the last one in any byte. It
        also gets the KafkaError that ends the heartbeat: no reply within ``timeout_s``, or a closed
        connection. A connection has one heartbeat; another one replaces it.
        """
        self.stop_heartbeat(target)
        broker = self._at(target)
        if broker is None or broker.ranges is None:
            on_reply(KafkaError(KafkaError._TRANSPORT, "no connection for heartbeats"))
            return
        version = broker.ranges.choose(type(message))
        if version < 0:
            text = (
                f"{broker.name} has no version of {type(message).__name__} that this client speaks"
            )
            on_reply(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text))
            return
        token = broker.heartbeat = next(self._tokens)
        self._heartbeats[token] = Heartbeat(message, version, broker, on_reply)
        try:
            self._engine.heartbeat(
                broker.handle,
                broker.generation,
                message.api_key,
                version,
                request_header_version(message.api_key, version) == 2,
                response_header_version(message.api_key, version) == 1,
                message.for_version(version).encode(version),
                token,
                max(1, int(interval_s * 1000)),
                max(1, int(timeout_s * 1000)),
            )
        except MemoryError:
            del self._heartbeats[token]
            broker.heartbeat = 0
            on_reply(KafkaError(KafkaError._TRANSPORT, f"{broker.name}: no memory for heartbeats"))

    def stop_heartbeat(self, target: int) -> None:
        """Stops the target's heartbeat, if there is one. Its ``on_reply`` isn't called again."""
        broker = self._at(target)
        if broker is not None and broker.heartbeat:
            del self._heartbeats[broker.heartbeat]
            broker.heartbeat = 0
            self._engine.stop_heartbeat(broker.handle)

    def confirmed_at(self, target: int) -> float:
        """When the target's last answered heartbeat was sent; -infinity: none was answered."""
        broker = self._at(target)
        if broker is None:
            return -math.inf
        return self._clock() - self._engine.heartbeat_age_s(broker.handle)

    def _on_heartbeat(self, event: Event) -> None:
        heartbeat = self._heartbeats[event.token]
        if event.status != 0:
            del self._heartbeats[event.token]
            heartbeat.broker.heartbeat = 0
        heartbeat.on_reply(
            self._outcome(event, heartbeat.broker, heartbeat.message.api_key, heartbeat.version)
        )

    def fail_all(self, error: KafkaError) -> None:
        """Fails all unfinished calls: the client is closing."""
        calls = [*self._any, *(call for call, _, _ in self._pending.values())]
        self._any.clear()
        self._pending.clear()
        self._lookups.clear()
        self._heartbeats.clear()
        for broker in self._by_handle.values():
            broker.heartbeat = 0
            calls.extend(broker.waiting)
            broker.waiting.clear()
        for call in calls:
            call.answer(error)
