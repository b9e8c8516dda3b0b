"""The brokers of a role: connections of its own for data and coordinators, the host's for the rest.

A broker answers a connection in order, and holds Fetch and JoinGroup. So each role has a connection
to each node that it sends data to or fetches from, and to its coordinators. They open with their
first request. All other calls go through the broker pool of the host: bootstrap, metadata, offsets,
admin operations, FindCoordinator. The roles share those connections.

Thread: the control thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafka_native.control.brokers.broker import Broker
from kafka_native.control.brokers.pool import COORDINATORS, BrokerPool, PoolSettings, safe_host
from kafka_native.control.brokers.versions import ApiRanges
from kafka_native.control.requests import Call, Reply
from kafka_native.errors import KafkaError
from kafka_native.logs import DEBUG
from kafka_native.protocol.schema import Request

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine, Event

NO_HANDLE = -1
"""The handle of a node to which this role has no connection."""


def _do_nothing() -> None:
    """Nothing listens yet."""


class RolePool(BrokerPool):
    """Sends the calls of one role on its own connections or on those of its host."""

    def __init__(
        self, engine: Engine, host: BrokerPool, settings: PoolSettings, **hooks: Any
    ) -> None:
        """Knows no node before `attach()`. ``hooks``: the functions that `BrokerPool` gets."""
        self._host = host
        self._passed: dict[int, Call] = {}  # calls at the host, by their id()
        self.on_change: Callable[[], None] = _do_nothing
        """Called when a reply or a rebootstrap at the host has changed the role's state."""
        self.on_node_lost: Callable[[], None] = _do_nothing
        """Called when there is no memory for a connection: new metadata name the node again."""
        super().__init__(engine, [], settings, **hooks)

    def attach(self) -> None:
        """Takes over the nodes that the host knows, and follows its rebootstraps.

        The role's ``error_cb`` gets the errors of outages that began before. The log has them.
        """
        for node in self._host.nodes.values():
            self.update(node.node_id, node.host, node.port, node.rack)
        self._host.roles.add(self)
        for error in self._host.lasting_errors():
            self._on_error(error, DEBUG)

    def detach(self) -> None:
        """The end of `attach()`."""
        self._host.roles.discard(self)

    # --- nodes ---

    def update(self, node_id: int, host: str, port: int, rack: str | None) -> bool:
        """Adds or updates a node. Without a connection of this role it needs no thread yet.

        Returns whether the node's engine handle is a new one.
        """
        host = safe_host(host)
        known = self.nodes.get(node_id)
        if known is None or (known.handle == NO_HANDLE and known.address != (host, port)):
            self.nodes[node_id] = Broker(NO_HANDLE, node_id, host, port, rack)
            return False
        return super().update(node_id, host, port, rack)

    def _set_rack(self, broker: Broker, rack: str | None) -> None:
        if broker.handle != NO_HANDLE:
            super()._set_rack(broker, rack)
        broker.rack = rack

    def _remove(self, broker: Broker) -> None:
        if broker.handle != NO_HANDLE:
            super()._remove(broker)

    def _own_handle(self, node: Broker) -> int:
        self._open_own(node)
        return node.handle

    def _open_own(self, node: Broker) -> None:
        """Gives the node a connection of this role. Without memory for it, forgets the node."""
        if node.handle != NO_HANDLE:
            return
        try:
            node.handle = self._engine.broker_add(node.node_id, node.host, node.port)
        except MemoryError:
            self._log.debug("%s: no memory for a connection", node.name)
            del self.nodes[node.node_id]
            self.on_node_lost()
        else:
            self._by_handle[node.handle] = node
            self._set_rack(node, node.rack)

    # --- sending ---

    def send(self, call: Call) -> None:
        """Sends the call on a connection of this role, or through the host."""
        target = call.target
        if target is not None and (target >= COORDINATORS or call.is_data):
            node = self.nodes.get(target)
            if node is not None:
                self._open_own(node)
            super().send(call)
        else:
            self._pass(call)

    def avoid(self, node_id: int) -> None:
        """Makes the host send calls to any broker to others for a while."""
        self._host.avoid(node_id)

    def _pass(self, call: Call) -> None:
        """Sends a call through the host. If this role ends first, `fail_all()` answers it."""
        number = id(call)

        def answered(reply: Reply) -> None:
            self._passed.pop(number, None)
            call.answered_by = passed.answered_by
            self.on_change()
            call.answer(reply)

        passed = call.copy_for(answered)
        self._passed[number] = call
        self._host.send(passed)

    def fail_all(self, error: KafkaError) -> None:
        """Fails all unfinished calls: the role is closing."""
        passed = list(self._passed.values())
        self._passed.clear()
        for call in passed:
            call.answer(error)
        super().fail_all(error)

    # --- what the host knows ---

    def is_up(self, target: int) -> bool:
        """Whether the target is connected."""
        return super().is_up(target) if target >= COORDINATORS else self._host.is_up(target)

    def offering(self, message: type[Request]) -> list[int | None]:
        """The connected targets of the host that support this request."""
        return self._host.offering(message)

    def all_down(self) -> bool:
        """Whether no known broker can be reached."""
        return self._host.all_down()

    def failure_text(self) -> str:
        """The last failure of a broker that is down, as part of an error text."""
        return super().failure_text() or self._host.failure_text()

    def refusal(self) -> KafkaError | None:
        """A TLS or SASL error of a broker that is down; None: there is none."""
        return super().refusal() or self._host.refusal()

    @property
    def features(self) -> Mapping[str, int]:
        """The cluster's finalized features, by name, from the newest handshake of all roles."""
        return self._host.features

    def note_features(self, ranges: ApiRanges) -> None:
        """Passes the features of a handshake to the host."""
        self._host.note_features(ranges)

    @property
    def rebootstrapping(self) -> bool:
        """Whether only the bootstrap servers count as members of the cluster."""
        return self._host.rebootstrapping

    def _cluster_is_gone(self) -> bool:
        """Never: the host decides that, so that one role doesn't end the connections of all."""
        return False

    def add_bootstrap(self, servers: Iterable[tuple[str, int]]) -> None:
        """Adds bootstrap servers to the host."""
        self._host.add_bootstrap(servers)

    def rebootstrap(self) -> None:
        """Makes the host return to the bootstrap servers, with all its roles."""
        self._host.rebootstrap()

    def begin_again(self) -> None:
        """The host returns to the bootstrap servers."""
        super().begin_again()
        self.on_change()

    # --- events ---

    def _open(self, broker: Broker, ranges: ApiRanges) -> None:
        self.on_change()
        super()._open(broker, ranges)

    def on_working(self, event: Event) -> None:
        """Ends the outage here and at the host, which may have no connection to this node."""
        super().on_working(event)
        broker = self._by_handle.get(event.broker)
        if broker is not None and broker.works:
            self._host.note_working(broker)

    def on_disconnected(self, event: Event) -> None:
        """Handles the end of a connection or attempt of this role."""
        super().on_disconnected(event)
        self.on_change()

    def _report_if_all_down(self) -> None:
        """The host reports that for all its roles."""
