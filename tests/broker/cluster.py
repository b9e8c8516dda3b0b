"""Apache Kafka for tests: brokers as local processes, as containers, or an existing cluster.

A Cluster has the address (`bootstrap`). If it is ours, it can kill and start its brokers. `start()`
chooses the kind.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource

from tests.broker import java
from tests.harness.processes import started
from tests.shared_classes import LEAN

HOST = "127.0.0.1"
# Below the kernel's automatic ports: a killed broker must find its port free when it comes back.
PORTS = range(20000, 32000)
UP_TIMEOUT_SECONDS = 240
# A tag can be moved to another image, a digest can't.
DIGEST = "sha256:77e3df9054047a88b520d0cc46e16696d3b22022e1d580aeccd2632df6532837"
IMAGE = f"apache/kafka:{java.KAFKA_VERSION}@{DIGEST}"
# A broker for tests starts fast and needs little. One for benchmarks has all compilers and more
# memory.
TEST_OPTIONS = [*LEAN, "-Xms128m", "-Xmx512m"]
BENCH_OPTIONS = ["-Xms1g", "-Xmx1g"]


# Records of a killed share group member come again soon, and aren't archived.
SHARE_GROUPS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "3000",
    "group.share.delivery.count.limit": "10",
}

# Tasks move without long waits.
STREAMS_GROUPS = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "10000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
}


class NoBroker(Exception):
    """No broker is possible here. The text has the reason."""


def free_ports(count: int) -> list[int]:
    """Return free ports."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for port in random.sample(PORTS, len(PORTS)):
            listener = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                listener.bind((HOST, port))
                found.append(port)
            if len(found) == count:
                break
    return found


class Listener(NamedTuple):
    """An additional listener of each broker, besides the plaintext one."""

    protocol: str
    """``PLAINTEXT``, ``SASL_PLAINTEXT``, ``SSL`` or ``SASL_SSL``."""
    values: dict[str, str]
    """Its properties, without the prefix ``listener.name.NAME.``."""
    advertised_ports: Sequence[int] = ()
    """The advertised port of each broker, if it is a proxy's port and not the listener's own."""


class Host(NamedTuple):
    """The machine of a broker. By default it is this one."""

    address: str = HOST
    """The address for other brokers, for controllers, and in ``Cluster.bootstrap``."""
    listeners_address: str = HOST
    """The address of the additional listeners."""
    command: tuple[str, ...] = ()
    """The beginning of a command line that runs on this machine."""


class TlsOnly(NamedTuple):
    """TLS instead of plaintext, for clients, brokers and controllers."""

    broker: Callable[[int], dict[str, str]]
    """The properties of the broker with this number, for all of these listeners."""
    client: dict[str, Any]
    """The properties that a client needs besides ``bootstrap.servers``."""


def properties(
    node: int,
    brokers: list[int],
    controllers: list[int],
    log_dir: str,
    listeners: Mapping[str, Listener] = MappingProxyType({}),
    ports: Mapping[str, list[int]] = MappingProxyType({}),
    protocol: str = "PLAINTEXT",
    hosts: Sequence[Host] = (),
) -> dict[str, str]:
    """Return the configuration of one broker, which is also a controller. ``node`` counts from 1.

    ``protocol`` is for the listener of clients and other brokers, and for the controllers'
    listener. ``hosts`` are the machines of all brokers.
    """
    count = len(brokers)
    hosts = hosts or [Host()] * count
    all_ports = {protocol: brokers, **ports}
    return _addresses(node, all_ports, controllers, listeners, protocol, hosts) | {
        "process.roles": "broker,controller",
        "node.id": str(node),
        "log.dirs": log_dir,
        **({"broker.rack": f"rack-{node}"} if count > 1 else {}),
        "num.partitions": "2",
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(count),
        "min.insync.replicas": str(min(count, 2)),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(count),
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(count),
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # A crashed member is removed soon, and members of the other protocol don't wait long.
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "1000",
        # The topic of share groups' state fits on these brokers.
        "share.coordinator.state.topic.replication.factor": str(count),
        # A killed broker is detected after these. A single broker isn't fenced for being slow.
        "broker.session.timeout.ms": "6000" if count > 1 else "60000",
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": "3000",
        # A broker that comes back leads its partitions again at once.
        "leader.imbalance.check.interval.seconds": "1",
        "leader.imbalance.per.broker.percentage": "0",
        "log.cleaner.enable": "false",
        # Records with old timestamps stay: by default a check deletes those older than a week.
        "log.retention.ms": "-1",
        # ACLs can be created and deleted, but every user may do everything.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        **(SHARE_GROUPS | STREAMS_GROUPS),
    }


def _addresses(
    node: int,
    ports: Mapping[str, Sequence[int]],
    controllers: list[int],
    listeners: Mapping[str, Listener],
    protocol: str,
    hosts: Sequence[Host],
) -> dict[str, str]:
    """Return the part of `properties()` with the listeners of one broker."""
    here = hosts[node - 1]
    voters = ",".join(
        f"{number}@{host.address}:{port}"
        for number, (host, port) in enumerate(zip(hosts, controllers, strict=True), 1)
    )
    advertised = {**ports} | {
        name: each.advertised_ports for name, each in listeners.items() if each.advertised_ports
    }
    bound, shown = (
        ",".join(
            f"{name}://{here.listeners_address if name in listeners else here.address}"
            f":{each[node - 1]}"
            for name, each in found.items()
        )
        for found in (ports, advertised)
    )
    protocols = [f"{name}:{listener.protocol}" for name, listener in listeners.items()]
    return {
        f"listener.name.{name.lower()}.{key}": value
        for name, listener in listeners.items()
        for key, value in listener.values.items()
    } | {
        "controller.quorum.voters": voters,
        "listeners": f"{bound},CONTROLLER://{here.address}:{controllers[node - 1]}",
        "advertised.listeners": shown,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(
            [f"{protocol}:{protocol}", f"CONTROLLER:{protocol}", *protocols]
        ),
        "security.inter.broker.protocol": protocol,
    }


class Broker(ABC):
    """One broker of a cluster that the tests own."""

    def __init__(self, node: int, port: int, host: str = HOST) -> None:
        self.node = node
        self.port = port
        self.host = host

    def prepare(self) -> None:  # noqa: B027 - a container prepares itself
        """Make its storage, once."""

    @abstractmethod
    def start(self) -> None:
        """Start it, for the first time or again, without a wait."""

    @abstractmethod
    def kill(self) -> None:
        """Kill it as `kill -9` does."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it as an operator does: it hands over its partitions."""

    @abstractmethod
    def suspend(self) -> None:
        """Freeze it: its connections stay, and nothing answers."""

    @abstractmethod
    def resume(self) -> None:
        """Let it go on after `suspend`."""

    def remove(self) -> None:
        """End it for good."""
        self.kill()

    def log(self) -> str:
        """Return the end of its output."""
        return ""

    def died(self) -> bool:
        """Return whether it ended by itself."""
        return False


class ProcessBroker(Broker):
    """A broker that is a Java process."""

    def __init__(
        self,
        node: int,
        port: int,
        directory: Path,
        values: dict[str, str],
        cluster_id: str,
        options: list[str],
        plugins: Path | None = None,
        host: Host = Host(),  # noqa: B008 - it is immutable
    ) -> None:
        super().__init__(node, port, host.address)
        self._host = host
        self._options = [*options, "-Dorg.apache.logging.log4j.level=WARN"]
        self._plugins = plugins
        self.log_dir = Path(values["log.dirs"])
        self._output = directory / f"broker-{node}.out"
        self._properties = directory / f"broker-{node}.properties"
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
        self._process: subprocess.Popen[bytes] | None = None
        self._cluster_id = cluster_id

    def prepare(self) -> None:
        java.java_tool(
            "kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(self._properties)
        )

    def start(self) -> None:
        command = java.java_command(
            "kafka.Kafka", str(self._properties), options=self._options, plugins=self._plugins
        )
        command = [*self._host.command, *command]
        self._process = started(*command, output=self._output, cwd=self._properties.parent)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def suspend(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, f"broker {self.node} doesn't run"
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=20)
        self._process = None

    def log(self) -> str:
        return self._output.read_text(errors="replace")[-3000:] if self._output.exists() else ""

    def died(self) -> bool:
        return self._process is not None and self._process.poll() is not None


class ContainerBroker(Broker):
    """A broker in a Docker container on the host's network, so that all agree on addresses."""

    def __init__(
        self, node: int, port: int, values: dict[str, str], cluster_id: str, options: list[str]
    ) -> None:
        from testcontainers.core.container import DockerContainer

        super().__init__(node, port)
        self._container = (
            DockerContainer(IMAGE)
            .with_kwargs(network_mode="host")
            .with_env("CLUSTER_ID", cluster_id)
        )
        # the image chooses the rest
        heap = [option for option in options if option.startswith(("-Xms", "-Xmx"))]
        self._container.with_env("KAFKA_HEAP_OPTS", " ".join(heap))
        self._container.with_env(
            "KAFKA_OPTS", " ".join(option for option in options if option.startswith("-D"))
        )
        for name, value in container_environment(values).items():
            self._container.with_env(name, value)
        self._created = False

    def start(self) -> None:
        if self._created:
            self._container.get_wrapped_container().start()
        else:
            self._container.start()
            self._created = True

    def kill(self) -> None:
        self._container.get_wrapped_container().kill()

    def stop(self) -> None:
        self._container.get_wrapped_container().stop()

    def suspend(self) -> None:
        self._container.get_wrapped_container().pause()

    def resume(self) -> None:
        self._container.get_wrapped_container().unpause()

    def remove(self) -> None:
        self._container.stop()


def container_environment(values: dict[str, str]) -> dict[str, str]:
    """Return properties in the image's form: `log.dirs` is KAFKA_LOG_DIRS."""
    changed = {
        name: name.upper().replace("_", "__").replace("-", "___").replace(".", "_")
        for name in values
    }
    return {f"KAFKA_{changed[name]}": value for name, value in values.items()}


class Cluster:
    """A running Kafka. `brokers` is empty if it isn't ours, and then it can't be killed."""

    def __init__(
        self,
        kind: str,
        bootstrap: str,
        brokers: list[Broker],
        size: int,
        listeners: dict[str, str] | None = None,
        client: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """``listeners``: the bootstrap servers of additional listeners, by name.

        ``client``: the properties that a client needs at ``bootstrap``.
        """
        self.listeners = listeners or {}
        self._client = client
        self.kind = kind
        self.bootstrap = bootstrap
        self.brokers = {broker.node: broker for broker in brokers}
        self.size = size

    def conf(self, **more: Any) -> dict[str, Any]:
        """Return a client's configuration. ``more`` are properties that replace the defaults."""
        return {"bootstrap.servers": self.bootstrap, **self._client, **more}

    def wait_until_up(self) -> None:
        """Return when every broker answers and lists all the others."""
        deadline = time.monotonic() + UP_TIMEOUT_SECONDS
        while not self._is_up():
            dead = [broker for broker in self.brokers.values() if broker.died()]
            if dead:
                raise RuntimeError(f"broker {dead[0].node} ended by itself:\n{dead[0].log()}")
            if time.monotonic() > deadline:
                logs = "\n".join(broker.log() for broker in self.brokers.values())
                raise RuntimeError(
                    f"{self.kind}: {self.size} brokers were not up in {UP_TIMEOUT_SECONDS} "
                    f"s:\n{logs}"
                )
            time.sleep(0.1)

    def _is_up(self) -> bool:
        addresses = [f"{broker.host}:{broker.port}" for broker in self.brokers.values()]
        try:
            for broker in self.brokers.values():
                socket.create_connection((broker.host, broker.port), 1).close()
            for address in addresses:
                admin = AdminClient(quiet(self.conf(**{"bootstrap.servers": address})))
                if len(admin.list_topics(timeout=2).brokers) < self.size:
                    return False
        except (OSError, KafkaException):
            return False
        return True

    @contextmanager
    def without(self, broker: Broker, end: str = "kill") -> Iterator[None]:
        """Kill or stop a broker for the block. Afterwards all brokers are up."""
        getattr(broker, end)()
        try:
            yield
        finally:
            broker.start()
            self.wait_until_up()

    def admin(self) -> AdminClient:
        """Return librdkafka's admin client, which logs nothing about stopped brokers."""
        return AdminClient(quiet(self.conf()))

    def creates_topics(self) -> bool:
        """Return whether a metadata request creates a topic."""
        admin = self.admin()
        [node, *_] = admin.list_topics(timeout=10).brokers
        resource = ConfigResource(ConfigResource.Type.BROKER, str(node))
        found = admin.describe_configs([resource], request_timeout=20)[resource].result(30)
        return str(found["auto.create.topics.enable"].value) == "true"

    def close(self) -> None:
        """End the brokers that are ours."""
        for broker in self.brokers.values():
            broker.remove()
        self.brokers = {}


def quiet(config: dict[str, Any]) -> dict[str, Any]:
    """Return a confluent_kafka configuration without log lines about killed brokers."""
    return {
        "log_level": 0,
        "socket.connection.setup.timeout.ms": 5000,
        "reconnect.backoff.max.ms": 500,
        **config,
    }


def docker_answers() -> bool:
    """Return whether containers can be started here."""
    try:
        import docker
        import testcontainers.core.container  # noqa: F401
    except ImportError:
        return False
    try:
        client = docker.from_env(timeout=5)
        try:
            return bool(client.ping())
        finally:
            client.close()
    except docker.errors.DockerException:
        return False


def start(
    size: int,
    java_options: list[str] = TEST_OPTIONS,
    changes: dict[str, str] | None = None,
    listeners: Mapping[str, Listener] = MappingProxyType({}),
    plugins: Path | None = None,
    tls_only: TlsOnly | None = None,
    hosts: Sequence[Host] = (),
) -> Cluster:
    """Start a cluster of this many brokers. Raise NoBroker if none is possible here.

    :param changes: Properties of our own brokers, in place of those that `properties` chooses.
    :param listeners: Additional listeners for clients, by name. Only our own brokers have them.
    :param plugins: A folder of Java classes for ``changes`` to name. Only broker processes find
        them.
    :param tls_only: TLS on every listener. Only for broker processes, because they read its files.
    :param hosts: The machines of the brokers. Only broker processes have other ones.
    """
    given = os.environ.get("KAFKA_NATIVE_BOOTSTRAP")
    if given and (listeners or hosts):
        raise NoBroker("the brokers of KAFKA_NATIVE_BOOTSTRAP have no listeners of ours")
    if given and (plugins or tls_only):
        raise NoBroker(
            "the brokers of KAFKA_NATIVE_BOOTSTRAP have no plugins and no certificates of ours"
        )
    if given:
        cluster = Cluster("KAFKA_NATIVE_BOOTSTRAP", given, [], size)
        alive = len(cluster.admin().list_topics(timeout=20).brokers)
        if alive < size:
            raise NoBroker(f"KAFKA_NATIVE_BOOTSTRAP has {alive} brokers, {size} are needed")
        return cluster
    containers = plugins is None and tls_only is None and not hosts and docker_answers()
    if not containers and (why := java.missing()):
        raise NoBroker(f"no KAFKA_NATIVE_BOOTSTRAP, no Docker daemon, {why}")
    return start_own(
        *(size, containers, java_options, changes or {}, listeners, plugins, tls_only, hosts)
    )


_shared: dict[int, Cluster] = {}


def shared(size: int) -> Cluster:
    """Return the cluster of this size that all tests of a lane share. It ends with the lane."""
    if size not in _shared:
        _shared[size] = start(size)
    return _shared[size]


def close_shared() -> None:
    """End the clusters of `shared`. Its next call starts a new one."""
    while _shared:
        _shared.popitem()[1].close()


def _servers(addresses: Sequence[str], ports: Sequence[int]) -> str:
    return ",".join(f"{address}:{port}" for address, port in zip(addresses, ports, strict=True))


def start_own(
    size: int,
    containers: bool,
    java_options: list[str],
    changes: dict[str, str],
    listeners: Mapping[str, Listener],
    plugins: Path | None = None,
    tls_only: TlsOnly | None = None,
    hosts: Sequence[Host] = (),
) -> Cluster:
    """Start a cluster of containers or of Java processes. It ends with this process."""
    hosts = hosts or [Host()] * size
    found = free_ports((2 + len(listeners)) * size)
    clients, controllers, *others = (found[at : at + size] for at in range(0, len(found), size))
    ports = dict(zip(listeners, others, strict=True))
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    if cluster_id.startswith("-"):  # a tool would take it for an option
        cluster_id = "A" + cluster_id[1:]
    directory = Path(tempfile.mkdtemp(prefix="kafka-native-broker-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    brokers: list[Broker] = []
    protocol = "PLAINTEXT" if tls_only is None else "SSL"
    for node in range(1, size + 1):
        log_dir = "/tmp/kafka-logs" if containers else str(directory / f"data-{node}")
        values = properties(node, clients, controllers, log_dir, listeners, ports, protocol, hosts)
        values |= changes | ({} if tls_only is None else tls_only.broker(node))
        port = clients[node - 1]
        if containers:
            brokers.append(ContainerBroker(node, port, values, cluster_id, java_options))
        else:
            how = directory, values, cluster_id, java_options, plugins, hosts[node - 1]
            brokers.append(ProcessBroker(node, port, *how))
    bootstrap = _servers([host.address for host in hosts], clients)
    further = [_servers([host.listeners_address for host in hosts], each) for each in others]
    kind = "containers" if containers else "Java processes"
    client = {} if tls_only is None else tls_only.client
    cluster = Cluster(
        kind, bootstrap, brokers, size, dict(zip(listeners, further, strict=True)), client
    )
    atexit.register(cluster.close)  # runs before the folder is removed
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda broker: broker.prepare(), brokers))
        for broker in brokers:
            broker.start()
        cluster.wait_until_up()
    except BaseException:
        cluster.close()
        raise
    return cluster
