"""The brokers that a client knows: bootstrap names, handshakes, and getting a call to the right one.

Thread: the control thread only, but for `canonical_servers()`. The engine is injected, so tests drive
this with a fake one.
"""

from __future__ import annotations

import itertools
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_native._native.engine import THROTTLE_MAX_MS
from kafka_native._native.enums import PEER_CLOSED, PEER_CLOSED_IN_FLIGHT
from kafka_native.cleaning import printable
from kafka_native.control.brokers.security import Encryption
from kafka_native.control.brokers.versions import ASK_EVERYONE, ApiRanges, Fallback, Handshake, adapted
from kafka_native.control.errors import SECURITY_ERRORS
from kafka_native.control.outages import Outages
from kafka_native.control.requests import ANY_BROKER, NEVER, NO_MEMORY_S, Call, Reply
from kafka_native.errors import (
    STATUS_CLOSED,
    STATUS_NO_MEMORY,
    STATUS_PROTOCOL,
    STATUS_STALE,
    STATUS_TIMED_OUT,
    STATUS_TLS,
    STATUS_TRANSPORT,
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
    from kafka_native.control.brokers.security import Authentication, Authenticator

BOOTSTRAP = -1
HOST_MAX = 255
BROKERS_MAX = 1 << 14
"""Of a cluster. Each has a thread, so this many are no cluster but an attack."""
COORDINATORS = 1 << 32
"""As a target: this and a node's id is the connection for what it coordinates."""
# How long one server may take before another one is tried beside it: one that never answers must not hold up a call
# for as long as its timeouts allow.
NEXT_SERVER_S = 0.5
CLOSE_LEVELS = {PEER_CLOSED: INFO, PEER_CLOSED_IN_FLIGHT: WARNING}
"""The log level of a connection that the peer closes."""
OLD_BROKER_HINT = "another security.protocol? or a broker before 0.10: see broker.version.fallback"
SASL_HINT = "is its listener one for SASL? see security.protocol"
# what fails besides the brokers, as subjects of outages
ALL_BROKERS = "all brokers"
REBOOTSTRAP = "rebootstrap"


def _fit(host: str) -> str:
    """A host as a broker names it, fit for logs and the resolver: what can't be one stays none, but does no harm."""
    if not host.isascii():
        try:
            host.encode("idna")
        except UnicodeError:
            host = host.encode("ascii", "replace").decode()
    return printable(host[:HOST_MAX])


def _failure_of(event: Event) -> Hashable:
    """What tells a DISCONNECTED from others of its code, in words that don't differ from one attempt to the next."""
    if event.peer_closed:
        return "closed by the peer"
    if event.generation:
        return "connected"
    if event.status == STATUS_TLS:
        return event.verify_error
    # One cause an address: "connect failed: 10.0.0.1:9092: Connection refused; [::1]:9092: Network is unreachable"
    return frozenset(re.sub(r"\d+", "", each.rpartition(": ")[2]) for each in event.text.split("; "))


def _code_of(status: int) -> int:
    """The error code for who waits for a connection that has ended: without memory it has failed as others do."""
    return KafkaError._TRANSPORT if status == STATUS_NO_MEMORY else from_status(status).code()


@dataclass(slots=True)
class Broker:
    """One broker, or one bootstrap address (``node_id`` -1)."""

    handle: int
    node_id: int
    host: str
    port: int
    rack: str | None = None
    generation: int = 0
    handshake: Handshake | None = None
    ranges: ApiRanges | None = None  # None: not up
    authentication: Authentication | None = None  # the one that is under way
    ended_at: ApiKey | None = None  # this connection ends, or did so just now, over this question of it
    works: bool = False  # this connection has answered something besides its handshake
    cut_off: bool = False  # and it ended before that, with a question open
    failing: bool = False
    cause: KafkaError | None = None  # of its last failure
    held_until: float = 0.0  # a quota is violated: nothing is sent before
    cut_until: float = 0.0  # it was told to wait for longer than it will, and that is in the log
    refused: bool = False  # we have ended this connection, and told why
    unanswered: bool = False  # this connection ends, or did so just now, over the question for versions
    waiting: deque[Call] = field(default_factory=deque)
    dedicated: bool = False  # to a coordinator: nothing else goes there
    heartbeat: int = 0  # the token of its heartbeat, 0: none

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    @property
    def up(self) -> bool:
        """Connected, with its versions known."""
        return self.ranges is not None

    @property
    def name(self) -> str:
        """As logs and errors name it: host:port/id."""
        kind = "coordinator " if self.dedicated else ""
        return f"{self.host}:{self.port}/{'bootstrap' if self.node_id == BOOTSTRAP else f'{kind}{self.node_id}'}"


class Heartbeat(NamedTuple):
    """A heartbeat that a broker's thread sends by itself."""

    message: Request
    version: int
    broker: Broker
    on_reply: Callable[[Reply], None]


class BrokerPool:
    """Opens connections when there is a reason to, does their handshakes, and keeps calls until they can be sent."""

    def __init__(
        self,
        engine: Engine,
        bootstrap: Iterable[tuple[str, int]],
        *,
        client_version: str,
        handshake_timeout_s: float,
        on_error: Callable[[KafkaError, int], None],
        logs: Logs = QUIET,
        reports_closes: bool = True,
        rebootstraps: bool = True,
        fallback: Fallback = ASK_EVERYONE,
        encryption: Encryption | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``on_error`` is told of brokers' errors, and that all are down: once a cause and minute (`Outages`).

        It gets how bad that is, too: a syslog level.

        ``reports_closes``: also when a broker closes a connection in use (log.connection.close). ``rebootstraps``:
        whether the bootstrap servers are turned to again once other brokers are known (metadata.recovery.strategy,
        KIP-899).
        """
        self._fallback = fallback
        self._encryption = encryption
        self._answered: set[tuple[str, int]] = set()  # who told its versions isn't taken for old
        self._old_until: dict[tuple[str, int], float] = {}  # whose versions are the fallback's, and how long
        self._engine = engine
        self._client_version = client_version
        self._handshake_timeout_s = handshake_timeout_s
        self._on_error = on_error
        self.logs = logs
        self._log = logs["broker"]
        self._reports_closes = reports_closes
        self._clock = clock
        self._by_handle: dict[int, Broker] = {}
        self.nodes: dict[int, Broker] = {}
        self._coordinators: dict[int, Broker] = {}
        self._heartbeats: dict[int, Heartbeat] = {}
        self._any: deque[Call] = deque()
        self._tokens = itertools.count(1)
        self._pending: dict[int, tuple[Call, int, Broker]] = {}
        self._handshakes: dict[int, Broker] = {}
        self._outages = Outages(clock)  # of addresses: of a broker and of the bootstrap server that it is, it is one
        self._features_epoch = -1
        self.features: Mapping[str, int] = {}
        """What the whole cluster runs, by name, as the newest handshake says."""
        self._turn = itertools.count()
        self._next_server_at = 0.0
        self._may_rebootstrap = rebootstraps
        self.connections = 0
        """How many came up, ever."""
        self.rebootstrapping = False
        """Until the next metadata, only the bootstrap servers are believed to belong to the cluster."""
        self.on_rebootstrap: Callable[[], None] = lambda: None
        self.on_throttled: Callable[[Broker, float], None] = lambda broker, seconds: None
        self.authenticator: Authenticator | None = None
        """None: brokers don't ask who we are."""
        self.bootstrap = [self._add(BOOTSTRAP, host, port) for host, port in bootstrap]

    # --- who there is ---

    def _add(self, node_id: int, host: str, port: int, rack: str | None = None) -> Broker:
        handle = self._engine.broker_add(node_id, host, port)
        broker = Broker(handle, node_id, host, port, rack)
        self._by_handle[handle] = broker
        self._log.debug("%s: known now", broker.name)
        return broker

    def update(self, node_id: int, host: str, port: int, rack: str | None) -> None:
        """What metadata says of a broker; one that has moved gets a new connection."""
        host = _fit(host)
        known = self.nodes.get(node_id)
        if known is not None and (known.host, known.port) == (host, port):
            known.rack = rack
            return
        try:
            self.nodes[node_id] = self._add(node_id, host, port, rack)
        except MemoryError:  # who needs this broker finds it unknown, and asks for metadata again
            self._log.debug("%s:%d/%d: no memory for a connection", host, port, node_id)
            return
        if known is not None:
            self._retire(known, self.nodes[node_id])

    def _retire(self, old: Broker, new: Broker) -> None:
        self._engine.broker_stop(old.handle)
        old.ranges = None
        del self._by_handle[old.handle]
        while old.waiting:
            self._enqueue(new, old.waiting.popleft())

    def remove_missing(self, node_ids: set[int]) -> None:
        """Forgets brokers that metadata no longer names; metadata end a rebootstrap."""
        self.rebootstrapping = False
        for node_id in self.nodes.keys() - node_ids:
            broker = self.nodes.pop(node_id)
            self._engine.broker_stop(broker.handle)
            broker.ranges = None
            del self._by_handle[broker.handle]
            self._fail_waiting(broker, KafkaError(KafkaError._UNKNOWN_BROKER, f"broker {node_id} has left the cluster"))

    def coordinator(self, node_id: int, host: str, port: int) -> int:
        """The target for calls to a coordinator: a connection of its own, made at its first call.

        MemoryError: the engine has none for it.
        """
        host = _fit(host)
        known = self._coordinators.get(node_id)
        if known is None or known.address != (host, port):
            broker = self._coordinators[node_id] = self._add(node_id, host, port)
            broker.dedicated = True
            if known is not None:
                self._retire(known, broker)
        return COORDINATORS + node_id

    def _at(self, target: int) -> Broker | None:
        """The broker that a target means."""
        return self._coordinators.get(target - COORDINATORS) if target >= COORDINATORS else self.nodes.get(target)

    def is_up(self, target: int) -> bool:
        """Whether what is sent to this target needs no connection first."""
        broker = self._at(target)
        return broker is not None and broker.up

    def offering(self, message: type[Request]) -> list[int | None]:
        """Targets that are up and have this request: nodes, or while none is up ANY_BROKER for a bootstrap server."""
        nodes = [] if self.rebootstrapping else [broker for broker in self.nodes.values() if broker.up]
        offering = [each for each in nodes or self.bootstrap if each.ranges and each.ranges.choose(message) >= 0]
        return [each.node_id for each in offering] if nodes else [ANY_BROKER] * bool(offering)

    def uncontended(self, message: type[Request], node_id: int) -> int:
        """Where no Fetch holds a request up: a coordinator's connection that is up, or else a new one to this node."""
        for broker in self._coordinators.values():
            if broker.ranges is not None and broker.ranges.choose(message) >= 0:
                return COORDINATORS + broker.node_id
        return self.coordinator(*self.where(node_id))

    def where(self, target: int) -> tuple[int, str, int]:
        """The id, host and port behind a target; KeyError if it isn't known any more."""
        broker = self._at(target)
        if broker is None:
            raise KeyError(target)
        return broker.node_id, broker.host, broker.port

    def handle(self, node_id: int) -> int:
        """The engine's handle of a node, -1 when it isn't known."""
        broker = self.nodes.get(node_id)
        return -1 if broker is None else broker.handle

    def brokers(self) -> list[Broker]:
        """All that are known: bootstrap servers, nodes and the connections to coordinators."""
        return list(self._by_handle.values())

    def by_handle(self, handle: int) -> Broker | None:
        """The broker behind an engine's handle, None when it has left meanwhile."""
        return self._by_handle.get(handle)

    # --- sending ---

    def send(self, call: Call) -> None:
        """Sends the call, or keeps it until its broker is up."""
        if call.target is not None:
            broker = self._at(call.target)
            if broker is None:
                text = f"broker {call.target % COORDINATORS} isn't known"
                call.answer(KafkaError(KafkaError._UNKNOWN_BROKER, text))
            else:
                self._enqueue(broker, call)
            return
        nodes = [] if self.rebootstrapping else [broker for broker in self.nodes.values() if broker.up]
        candidates = nodes or [broker for broker in self.bootstrap if broker.up]
        now = self._clock()
        candidates = [broker for broker in candidates if now >= broker.held_until] or candidates
        if candidates:
            self._submit(candidates[next(self._turn) % len(candidates)], call)
        else:
            self._any.append(call)
            self._connect_one()

    def _enqueue(self, broker: Broker, call: Call) -> None:
        if broker.up:
            self._submit(broker, call)
        else:
            broker.waiting.append(call)
            self._engine.broker_connect(broker.handle)

    def _hold(self, broker: Broker, throttle_ms: int) -> None:
        """A quota is violated: the broker gets nothing from here for as long as it says (KIP-219), up to a bound."""
        throttle_s = self.throttled(broker, throttle_ms)
        broker.held_until = max(broker.held_until, self._clock() + throttle_s)

    def throttled(self, broker: Broker, throttle_ms: int) -> float:
        """Tells of the throttle time of a response; returns the seconds that it counts for."""
        throttle_s = min(max(throttle_ms, 0), THROTTLE_MAX_MS) / 1000
        now = self._clock()
        if throttle_ms > THROTTLE_MAX_MS and now >= broker.cut_until:
            broker.cut_until = now + throttle_s
            text = "%s: wants to throttle this client for %.0f s: it is held back for %.0f s"
            self._log.warning(text, broker.name, throttle_ms / 1000, throttle_s)
        if throttle_s > 0:
            self.on_throttled(broker, throttle_s)
        return throttle_s

    def _release(self, broker: Broker, now: float) -> float:
        """Sends what was held back once its time has come; when to look again."""
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
        """Whom to connect to when it doesn't matter who answers."""
        if self.rebootstrapping or not self.nodes:
            return self.bootstrap
        return [*self.nodes.values(), *(self.bootstrap if self._may_rebootstrap else ())]

    def _connect_one(self) -> None:
        candidates = self._servers()
        now = self._clock()
        if candidates and (
            now >= self._next_server_at or not any(each.handshake or each.authentication for each in candidates)
        ):
            self._next_server_at = now + NEXT_SERVER_S
            self._engine.broker_connect(candidates[next(self._turn) % len(candidates)].handle)

    def _submit(self, broker: Broker, call: Call) -> None:
        assert broker.ranges is not None
        if self._clock() < broker.held_until:
            broker.waiting.append(call)
            return
        message = call.message
        version = broker.ranges.choose_for(message, call.newest)
        if version < 0:
            text = f"{broker.name} has no version of {type(message).__name__} that this client speaks"
            call.answer(KafkaError(KafkaError._UNSUPPORTED_FEATURE, text))
            return
        try:
            body = adapted(message, version).encode(version)
        except ProtocolError as error:
            call.answer(KafkaError(KafkaError._INVALID_ARG, str(error)))
            return
        token = next(self._tokens)
        self._pending[token] = (call, version, broker)
        # For this connection only: if it's gone by now, the call had better go elsewhere than wait for another one.
        left_s = call.deadline - self._clock()
        try:
            self._submit_body(broker, message.api_key, version, body, token, left_s, generation=broker.generation)
        except MemoryError:
            del self._pending[token]
            broker.waiting.append(call)
            broker.held_until = max(broker.held_until, self._clock() + NO_MEMORY_S)
        except Exception:
            del self._pending[token]
            raise

    def _submit_body(
        self, broker: Broker, api_key: int, version: int, body: bytes, token: int, timeout_s: float, **how: Any
    ) -> None:
        flexible = request_header_version(api_key, version) == 2
        reply_flexible = response_header_version(api_key, version) == 1
        timeout_ms = -1 if timeout_s == NEVER else max(1, int(timeout_s * 1000))
        self._engine.submit(broker.handle, api_key, version, flexible, reply_flexible, body, token, timeout_ms, **how)

    def poll(self, now: float) -> tuple[list[Call], float]:
        """Ends calls that waited too long; tries one more server for those that wait; closes bootstrap connections."""
        wake_up = NEVER
        for queue in [self._any, *(broker.waiting for broker in self._by_handle.values() if broker.waiting)]:
            expired = [call for call in queue if call.deadline <= now]
            for call in expired:
                queue.remove(call)
                call.answer(KafkaError(KafkaError._TRANSPORT, f"no broker could be reached in time{self._why()}"))
            wake_up = min([wake_up, *(call.deadline for call in queue)])
        for broker in self._by_handle.values():
            wake_up = min(wake_up, self._release(broker, now))
        if self._any and len(self._servers()) > 1:
            if now >= self._next_server_at:
                self._connect_one()
            wake_up = min(wake_up, self._next_server_at)
        if not self.rebootstrapping and any(broker.up for broker in self.nodes.values()):
            busy = {broker.handle for _, _, broker in self._pending.values()}
            for broker in self.bootstrap:
                if broker.up and broker.handle not in busy:
                    broker.ranges = None
                    self._engine.broker_close(broker.handle, broker.generation, 0)
        if self.authenticator is not None:
            wake_up = min(wake_up, self.authenticator.poll(now))
        return [], wake_up

    def rebootstrap(self) -> None:
        """Starts again from the bootstrap servers: what is known may be about a cluster that is gone (KIP-899).

        Connections are closed, but brokers are kept: most of the time it is the same ones that come back.
        """
        if not self._may_rebootstrap:
            return
        self.rebootstrapping = True
        is_due = self._outages.is_due(REBOOTSTRAP, None)
        (self._log.info if is_due else self._log.debug)("starting again from the bootstrap servers")
        for broker in self._by_handle.values():
            if broker.up or broker.handshake is not None or broker.authentication is not None:
                broker.ranges = None
                broker.handshake = None
                broker.authentication = None
                self._engine.broker_close(broker.handle, broker.generation, 0)
        self.on_rebootstrap()
        if self._any:
            self._connect_one()

    # --- events ---

    def on_connected(self, event: Event) -> None:
        """TCP is up: start the handshake."""
        broker = self._by_handle.get(event.broker)
        if broker is not None:
            self.connections += 1
            broker.generation = event.generation
            broker.unanswered = False
            broker.authentication = None
            broker.works = False
            self._log.debug("%s: connected: %s", broker.name, event.text)
            if self._fallback.ranges is not None and (self._fallback.always or self._is_old(broker)):
                self._authenticate(broker, self._fallback.ranges)
                return
            broker.handshake = Handshake(self._client_version)
            self._send_handshake(broker)

    def _send_handshake(self, broker: Broker) -> None:
        handshake = broker.handshake
        assert handshake is not None
        api_key, timeout_s = ApiVersionsRequest.api_key, self._handshake_timeout_s
        self.submit_handshake(broker, api_key, handshake.version, handshake.request(), timeout_s)

    def submit_handshake(self, broker: Broker, api_key: int, version: int, body: bytes, timeout_s: float) -> None:
        """Sends a request of the handshake, past everything that waits for its end."""
        token = next(self._tokens)
        self._handshakes[token] = broker
        how = {"generation": broker.generation, "handshake": True}
        try:
            self._submit_body(broker, api_key, version, body, token, timeout_s, **how)
        except MemoryError:
            del self._handshakes[token]
            self._engine.broker_close(broker.handle, broker.generation, STATUS_NO_MEMORY)  # and another one is made

    def _on_handshake(self, broker: Broker, event: Event) -> None:
        handshake = broker.handshake
        if handshake is None or event.generation not in (0, broker.generation):
            return
        if event.status != 0:
            broker.handshake = None  # DISCONNECTED says why
            broker.unanswered = event.status in (STATUS_TRANSPORT, STATUS_TIMED_OUT)
            if broker.unanswered and self._fallback.ranges is not None and broker.address not in self._answered:
                self._old_until[broker.address] = self._clock() + self._fallback.for_s
            elif event.status == STATUS_TIMED_OUT:
                text = f"{broker.name}: no reply to ApiVersions: is this a Kafka broker? {OLD_BROKER_HINT}"
                self.refuse(broker, KafkaError(KafkaError._TRANSPORT, text))
            return
        outcome = handshake.on_reply(event.body)
        if outcome is None:
            self._send_handshake(broker)
        elif isinstance(outcome, KafkaError):
            self.refuse(broker, KafkaError(outcome.code(), f"{broker.name}: {outcome.str()}"))
        else:
            self._answered.add(broker.address)
            self._authenticate(broker, outcome)

    def _authenticate(self, broker: Broker, ranges: ApiRanges) -> None:
        broker.handshake = None
        if self.authenticator is None:
            self.open(broker, ranges)
        else:
            self.authenticator.begin(broker, ranges)

    def hold(self, broker: Broker) -> None:
        """Nothing but handshakes goes out on this connection until it is opened again."""
        self._engine.broker_hold(broker.handle, broker.generation)

    def _is_old(self, broker: Broker) -> bool:
        return self._clock() < self._old_until.get(broker.address, 0.0)

    def refuse(self, broker: Broker, error: KafkaError) -> None:
        """Ends a connection whose handshake has failed."""
        broker.ranges = None
        broker.handshake = None
        broker.authentication = None
        broker.refused = broker.failing = True
        broker.cause = error
        self._engine.broker_close(broker.handle, broker.generation, STATUS_PROTOCOL)
        self._report(broker, error)
        self._fail_waiting(broker, error)

    def open(self, broker: Broker, ranges: ApiRanges) -> None:
        """The handshake is through: whatever waits for this connection goes out."""
        broker.ranges = ranges
        broker.failing = broker.refused = False
        self._log.debug("%s: up", broker.name)
        if self.logs["feature"].on:
            self.logs["feature"].debug("%s: %s", broker.name, ranges)
        if ranges.features_epoch >= self._features_epoch:
            self._features_epoch, self.features = ranges.features_epoch, ranges.features
        self._engine.broker_open(broker.handle, broker.generation, ranges.produce, ranges.fetch)
        waiting = list(broker.waiting)
        broker.waiting.clear()
        if not broker.dedicated and (broker.node_id == BOOTSTRAP or not self.rebootstrapping):
            waiting.extend(self._any)
            self._any.clear()
        for call in waiting:
            self._submit(broker, call)

    def on_working(self, event: Event) -> None:
        """A connection has answered more than its handshake: outages are over."""
        broker = self._by_handle.get(event.broker)
        if broker is None or event.generation != broker.generation:
            return
        broker.works = True
        outage_s = self._outages.end(broker.address)
        if outage_s is not None:
            self._log.info("%s is back, after %.1f s", broker.name, outage_s)
        if broker.node_id != BOOTSTRAP or not self.nodes:
            self._outages.end(ALL_BROKERS)
            self._outages.end(REBOOTSTRAP)

    def on_disconnected(self, event: Event) -> None:
        """A connection or an attempt has ended; attempts 0: nothing was wrong, the peer closed an idle connection."""
        broker = self._by_handle.get(event.broker)
        if broker is None:
            return
        broker.ranges = None
        broker.handshake = None
        broker.authentication = None
        if self._encryption is not None:
            self._encryption.renew(self._engine)
        unanswered, broker.unanswered = broker.unanswered, False
        ended_at, broker.ended_at = broker.ended_at, None
        cut_off, broker.cut_off = broker.cut_off, False
        if unanswered and self._is_old(broker):  # nothing is wrong: the next connection takes it for what it is
            if broker.waiting or self._any:
                self._engine.broker_connect(broker.handle)
            return
        if event.attempts:
            text = f"{broker.name}: {self._cause(broker, event)}"
            error = KafkaError(_code_of(event.status), f"{text} ({OLD_BROKER_HINT})" if unanswered else text)
            if self.authenticator is not None and ended_at is not None:
                error = self.authenticator.explain(ended_at, error)
            elif cut_off and event.peer_closed and self.authenticator is None:
                error = KafkaError(error.code(), f"{error.str()} ({SASL_HINT})")
            refused, broker.refused = broker.refused, False
            broker.failing = True
            if not refused:
                broker.cause = error
                level = CLOSE_LEVELS.get(event.peer_closed, ERROR)
                told = level == ERROR or self._reports_closes
                self._report(broker, error, _failure_of(event), level if told else DEBUG)
            self._fail_waiting(broker, error)
            self._report_if_all_down()
            if self.nodes and not self.rebootstrapping and all(node.failing for node in self.nodes.values()):
                self.rebootstrap()
        else:
            self._log.debug("%s: closed: %s", broker.name, event.text)
        if broker.waiting:
            self._engine.broker_connect(broker.handle)
        if self._any:
            self._connect_one()

    def _why(self) -> str:
        """What brokers that are down have failed with last."""
        causes = self._causes()
        return f": {causes[0].str()}" if causes else ""

    def _causes(self) -> list[KafkaError]:
        return [broker.cause for broker in self._by_handle.values() if broker.failing and broker.cause is not None]

    def refusal(self) -> KafkaError | None:
        """Why TLS or SASL has kept this client out, wherever it has; None: it hasn't, or somebody is up meanwhile."""
        return next((each for each in self._causes() if each.code() in SECURITY_ERRORS), None)

    def _cause(self, broker: Broker, event: Event) -> str:
        if event.status == STATUS_TLS and self._encryption is not None:
            return self._encryption.explain(event, broker.host, broker.port)
        return event.text.removeprefix(f"{broker.host}:{broker.port}").lstrip(": ")

    def _report(self, broker: Broker, error: KafkaError, failure: Hashable = None, level: int = ERROR) -> None:
        """Reports an error of a broker unless it is the same as before. ``level`` DEBUG: only the log is told.

        While all are down, one reminder is for all.
        """
        cause, reminds = (error.code(), failure), not self.all_down()
        if level == DEBUG or not self._outages.is_due(broker.address, cause, reminds=reminds):
            self._log.debug("%s", error.str())
        else:
            self._on_error(error, level)

    def report(self, error: KafkaError) -> None:
        """Tells an error that is no broker's."""
        self._on_error(error, ERROR)

    def _fail_waiting(self, broker: Broker, error: KafkaError) -> None:
        waiting = list(broker.waiting)
        broker.waiting.clear()
        for call in waiting:
            call.answer(error)

    def all_down(self) -> bool:
        """Whether no broker that is known can be connected to."""
        brokers = [broker for broker in self._by_handle.values() if not broker.dedicated]
        return all(broker.failing for broker in brokers if broker.node_id != BOOTSTRAP or not self.nodes)

    def _report_if_all_down(self) -> None:
        if not self.all_down():
            return
        outage_s = self._outages.age_s(ALL_BROKERS)
        if self._outages.is_due(ALL_BROKERS, None):
            count = len(self.nodes) or len(self.bootstrap)
            text = f"{count}/{count} brokers are down"
            if outage_s > 0:  # a reminder, for all of them
                text += f" for {outage_s:.0f} s{self._why()}"
            self._on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, text), ERROR)

    def on_reply(self, event: Event) -> None:
        """A reply, or its failure, for one of our tokens."""
        broker = self._handshakes.pop(event.token, None)
        if broker is not None:
            if self.authenticator is not None and broker.authentication is not None:
                self.authenticator.on_reply(broker, event)
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
        if event.status == STATUS_STALE and self._clock() < call.deadline:
            self.send(call)  # never sent, and the pool knows by now that this connection has ended
            return
        call.answered_by = broker
        call.answer(self._outcome(event, broker, call.message.api_key, version))

    def _outcome(self, event: Event, broker: Broker, api_key: int, version: int) -> Reply:
        """The decoded response, or the KafkaError that stands for it."""
        if event.status == STATUS_STALE:  # a heartbeat, or a call whose time is up: never sent
            return KafkaError(KafkaError._TRANSPORT, f"{broker.name}: the connection has just ended")
        if event.status == STATUS_CLOSED:  # by us, but not the client: calls that are open then have ended before
            return KafkaError(KafkaError._TRANSPORT, f"{broker.name}: the broker has left the cluster, or moved")
        if event.status != 0:
            cause = event.text or from_status(event.status).str()
            return KafkaError(_code_of(event.status), f"{broker.name}: {cause}")
        try:
            # Some brokers send more than they should: librdkafka's mock cluster does.
            reply = registry.response(api_key).decode(event.body, version, whole=False)
        except ProtocolError as error:
            text = f"{broker.name}: reply to {ApiKey(api_key).name} can't be read: {error}"
            return KafkaError(KafkaError._BAD_MSG, text)
        if isinstance(reply, MetadataResponse) and len(reply.brokers) > BROKERS_MAX:
            text = f"{broker.name}: metadata names {len(reply.brokers)} brokers, more than any cluster has"
            return KafkaError(KafkaError._BAD_MSG, text)
        self._hold(broker, getattr(reply, "throttle_time_ms", 0))
        return reply

    # --- heartbeats ---

    def heartbeat(
        self, target: int, message: Request, interval_s: float, timeout_s: float, on_reply: Callable[[Reply], None]
    ) -> None:
        """Lets the broker's own thread send this request every ``interval_s``, the first time after as long.

        No Python runs for it, so it goes on while the application keeps the interpreter to itself. ``on_reply`` gets
        each response that isn't, byte for byte, the one before, or the KafkaError that ends it (``timeout_s`` for one
        answer; the connection is gone). There is one heartbeat a connection: another one replaces it.
        """
        self.stop_heartbeat(target)
        broker = self._at(target)
        if broker is None or broker.ranges is None:
            on_reply(KafkaError(KafkaError._TRANSPORT, "no connection for heartbeats"))
            return
        version = broker.ranges.choose(type(message))
        if version < 0:
            text = f"{broker.name} has no version of {type(message).__name__} that this client speaks"
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
                adapted(message, version).encode(version),
                token,
                max(1, int(interval_s * 1000)),
                max(1, int(timeout_s * 1000)),
            )
        except MemoryError:
            del self._heartbeats[token]
            broker.heartbeat = 0
            on_reply(KafkaError(KafkaError._TRANSPORT, f"{broker.name}: no memory for heartbeats"))

    def stop_heartbeat(self, target: int) -> None:
        """Ends the heartbeat of this target, if there is one; nothing more is heard of it."""
        broker = self._at(target)
        if broker is not None and broker.heartbeat:
            del self._heartbeats[broker.heartbeat]
            broker.heartbeat = 0
            self._engine.stop_heartbeat(broker.handle)

    def _on_heartbeat(self, event: Event) -> None:
        heartbeat = self._heartbeats[event.token]
        if event.status != 0:
            del self._heartbeats[event.token]
            heartbeat.broker.heartbeat = 0
        heartbeat.on_reply(self._outcome(event, heartbeat.broker, heartbeat.message.api_key, heartbeat.version))

    def fail_all(self, error: KafkaError) -> None:
        """The client closes: every call that is still open ends."""
        calls = [*self._any, *(call for call, _, _ in self._pending.values())]
        self._any.clear()
        self._pending.clear()
        self._heartbeats.clear()
        for broker in self._by_handle.values():
            broker.heartbeat = 0
            calls.extend(broker.waiting)
            broker.waiting.clear()
        for call in calls:
            call.answer(error)


FAMILIES = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}


def canonical_servers(
    servers: Iterable[tuple[str, int]], family: str, on_unknown: Callable[[str, OSError], None]
) -> list[tuple[str, int]]:
    """Every address behind the servers, by the name that belongs to it. Blocks while names are resolved.

    :param family: broker.address.family.
    :param on_unknown: Told of a server that can't be resolved; it stays in the list as it is.
    """
    found: dict[tuple[str, int], None] = {}
    for host, port in servers:
        try:
            addresses = socket.getaddrinfo(host, port, FAMILIES[family], socket.SOCK_STREAM)
        except OSError as error:
            on_unknown(host, error)
            found[host, port] = None
            continue
        for *_, address in addresses:
            name, _ = socket.getnameinfo(address, socket.NI_NUMERICSERV)  # the address itself where it has no name
            found[name, port] = None
    return list(found)
