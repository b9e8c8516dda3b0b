"""The steps of ``kafka-native doctor``, in the order in which a client connects.

`diagnose` runs the steps. An error of the cluster, the network or the configuration is part of its
result, not an exception. `kafka_native.cli.remedies` has the texts for each error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from kafka_native import KafkaException
from kafka_native.admin import AclOperation, AdminClient
from kafka_native.cli import registry_diagnosis, remedies
from kafka_native.cli.connection import Connection
from kafka_native.cli.probe import (
    Address,
    Ended,
    Foreign,
    HostPort,
    Probe,
    ProxyFailed,
    ProxyRoute,
    Refused,
    TlsFailed,
    certificate_facts,
    described,
    listener_kind,
    resolve,
    speaks_http,
    speaks_tls,
)
from kafka_native.cli.remedies import Problem
from kafka_native.config import Config, parse
from kafka_native.control.brokers.security import PROTOCOLS
from kafka_native.control.brokers.versions import ApiRanges
from kafka_native.protocol import ApiKey, registry
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_native.security.mechanisms import Mechanism, SaslError, shown
from kafka_native.security.proxy import Proxy, proxy_of
from kafka_native.security.tls import TlsContext
from kafka_native.types import ConsumerGroupState, TopicCollection

if TYPE_CHECKING:
    from kafka_native.schema_registry import SchemaRegistryClient

Status = Literal["ok", "warning", "failed", "skipped"]

EXIT_CODES: Final = {
    "configuration": 10,
    "proxy": 20,
    "dns": 11,
    "tcp": 12,
    "tls": 13,
    "versions": 14,
    "sasl": 15,
    "metadata": 16,
    "listeners": 17,
    "topic": 18,
    "group": 19,
    "registry": 21,
    "payloads": 22,
}
"""The kinds of steps in their order, each with the exit status if it is the first to fail."""
NO_CLUSTER_TEXT: Final = "no broker is named: write --bootstrap"


@dataclass(slots=True)
class Step:
    """One step and its result."""

    kind: str
    """One of `EXIT_CODES`."""
    target: str
    """The server, address or topic of the step; may be empty."""
    status: Status = "ok"
    seconds: float = 0.0
    text: str = ""
    """The observation."""
    cause: str = ""
    """The most likely cause."""
    advice: str = ""
    """A setting or an action that helps."""
    details: dict[str, object] = field(default_factory=dict)
    """More facts, for programs."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All steps in their order."""

    steps: list[Step]

    @property
    def failed(self) -> str | None:
        """The kind of the first failed step that a client needs; None if there is none."""
        kinds = {step.kind for step in self.steps if step.status == "failed"}
        return next((kind for kind in EXIT_CODES if kind in kinds), None)

    @property
    def exit_code(self) -> int:
        """0, or the exit status of the failed kind of step."""
        return 0 if self.failed is None else EXIT_CODES[self.failed]


def diagnose(
    conf: Mapping[str, Any],
    *,
    topics: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
    registry: Mapping[str, Any] | None = None,
    timeout_s: float = 5.0,
    report: Callable[[str], None] = lambda _text: None,
) -> Diagnosis:
    """Try the steps of a client with this configuration.

    :param conf: The client's properties.
    :param topics: Check that the user may read and write these topics.
    :param groups: Check that the user may join these groups.
    :param registry: The properties of the schema registry's client: check the registry, and the
        payloads of the topics. Without bootstrap servers, check the registry alone.
    :param timeout_s: Seconds for each attempt.
    :param report: Called with the name of each step before it starts.
    """
    examination = _Examination(conf, timeout_s, report)
    if registry is None or conf.get("bootstrap.servers"):
        with suppress(_StepFailed):
            examination.run(topics, groups)
    if registry is not None:
        with suppress(_StepFailed):
            examination.check_registry(registry, topics)
    return Diagnosis(examination.finished())


class _StepFailed(Exception):
    """A step that the next ones need has failed. Its result is recorded."""


@dataclass(slots=True)
class _Settings:
    """The results of the configuration step."""

    config: Config
    tls: TlsContext | None
    mechanism: Mechanism | None
    proxy: Proxy | None
    proxy_address: Address | None = None
    """The proxy's address that takes connections."""


class _Examination:
    def __init__(
        self, conf: Mapping[str, Any], timeout_s: float, report: Callable[[str], None]
    ) -> None:
        self._conf = {**conf, "log_cb": lambda *_: None}
        self._timeout_s = timeout_s
        self._report = report
        self._steps: list[Step] = []
        self._settings: _Settings | None = None
        self._reached: set[HostPort] = set()
        self._checks_cluster = self._checks_registry = False
        self._topics: tuple[str, ...] = ()

    def run(self, topics: tuple[str, ...], groups: tuple[str, ...]) -> None:
        """Run the steps of the cluster."""
        self._checks_cluster = True
        settings = self._settings = self._configuration()
        found: MetadataResponse | None = None
        servers = [HostPort(*each) for each in settings.config.bootstrap]
        if settings.proxy is not None:
            settings.proxy_address = self._proxy(settings.proxy, settings.config, servers[0])
        for place in dict.fromkeys(servers):
            first = len(self._steps)
            try:
                found = self._server(settings, place)
            except _StepFailed:
                continue
            self._reached.add(place)
            self._to_warnings(self._steps[:first], "the other bootstrap servers do")
        self._to_warnings([] if found is None else self._steps, "the other bootstrap servers do")
        if found is None:
            raise _StepFailed
        for broker in found.brokers:
            self._listener(settings, broker, servers, found)
        if topics or groups:
            with AdminClient(self._conf) as admin:
                for topic in topics:
                    self._topic(admin, topic)
                for group in groups:
                    self._group(admin, group)

    def check_registry(self, properties: Mapping[str, Any], topics: tuple[str, ...]) -> None:
        """Run the steps of the schema registry, then those of the topics' payloads."""
        self._checks_registry = True
        self._topics = topics
        with self._step("registry") as step:
            servers = registry_diagnosis.servers_of(properties)
            step.text = ", ".join(each.url for each in servers)
        first, answering = len(self._steps), False
        for each in servers:
            with suppress(_StepFailed):
                with self._step("registry", each.url) as step:
                    step.text = registry_diagnosis.check_connection(each)
                with self._step("registry", each.url) as step:
                    step.text = registry_diagnosis.check_answer(each)
                answering = True
        if not answering:
            raise _StepFailed
        self._to_warnings(self._steps[first:], "another registry does")
        if self._reached and topics:
            with registry_diagnosis.opened(properties) as client:
                for topic in topics:
                    self._payloads(client, topic)

    def _payloads(self, client: SchemaRegistryClient, topic: str) -> None:
        with suppress(_StepFailed), self._step("payloads", topic) as step:
            conf = Connection(self._conf).config("consumer")
            timeout_s = max(1, self._timeout_s)
            facts = registry_diagnosis.check_payloads(conf, client, topic, timeout_s)
            step.text, step.details = facts.text, {"schemas": facts.schemas, "values": facts.values}
            if facts.unframed:
                step.status = "warning"
                step.cause = "the producer uses no serializer of a schema registry"
                step.advice = "read this topic without a registry, or change the producer"

    def finished(self) -> list[Step]:
        """The steps. A kind of step that didn't run gets a skipped one at its place."""
        have = {step.kind for step in self._steps}
        order = list(EXIT_CODES)
        for number, kind in enumerate(order):
            if kind not in have:
                later = (
                    at for at, step in enumerate(self._steps) if order.index(step.kind) > number
                )
                skipped = Step(kind, "", "skipped", text=self._skip_reason(kind))
                self._steps.insert(next(later, len(self._steps)), skipped)
        return self._steps

    def _skip_reason(self, kind: str) -> str:
        settings = self._settings
        if settings is not None:
            protocol = settings.config.text("security.protocol")
            if kind == "tls" and settings.tls is None:
                return f"security.protocol={protocol} has no TLS"
            if kind == "proxy" and settings.proxy is None:
                return "proxy.url isn't set"
            if kind == "sasl" and settings.mechanism is None:
                return f"security.protocol={protocol} has no log-in"
        if kind in ("registry", "payloads") and not self._checks_registry:
            return "no schema registry is named: write --registry"
        if kind != "registry" and not self._checks_cluster:
            return NO_CLUSTER_TEXT
        if kind in ("topic", "group", "payloads") and self._reached and not self._topics:
            return (
                "none is named: write --topic"
                if kind != "group"
                else "none is named: write --group"
            )
        return "a step before it has failed"

    def _to_warnings(self, steps: list[Step], why: str) -> None:
        """Turn failed steps into warnings, because a client doesn't need them."""
        for step in steps:
            if step.status == "failed":
                step.status = "warning"
                step.text += f" ({why})"

    @contextmanager
    def _step(self, kind: str, target: object = "") -> Iterator[Step]:
        """Time a step. A `Problem` marks it as failed and ends the steps that need it."""
        step = Step(kind, str(target))
        self._steps.append(step)
        self._report(f"{kind} {target}".strip())
        started = time.perf_counter()
        try:
            yield step
        except Problem as problem:
            step.status, step.text = "failed", problem.text
            step.cause, step.advice = problem.cause, problem.advice
            step.details |= problem.details
            raise _StepFailed from problem
        finally:
            step.seconds = time.perf_counter() - started

    # --- configuration ---

    def _configuration(self) -> _Settings:
        with self._step("configuration") as step:
            remarks = self._remarks()
            try:
                config = parse(self._conf, "producer")
                protocol = config.text("security.protocol")
                tls = TlsContext(config) if protocol in PROTOCOLS else None
                mechanism = _mechanism(config) if protocol.startswith("sasl_") else None
                proxy = proxy_of(config)
            except KafkaException as error:
                raise Problem(error.args[0].str(), advice=error.hint or "") from error
            if not config.bootstrap:
                raise Problem(
                    "bootstrap.servers isn't set",
                    advice="name a broker: -b host:port, or bootstrap.servers=host:port",
                )
            remarks += [] if tls is None else tls.remarks
            step.text = (
                f"security.protocol={protocol}, "
                f"bootstrap.servers={config.text('bootstrap.servers')}"
            )
            if mechanism is not None:
                step.text += f", {mechanism.name}" + (
                    f" as {shown(mechanism.user)}" if mechanism.user else ""
                )
                remarks += mechanism.remarks(tls is not None)
            if remarks:
                step.status, step.cause = "warning", "; ".join(remarks)
        return _Settings(config, tls, mechanism, proxy)

    def _remarks(self) -> list[str]:
        """Warnings that the configuration gives for both a producer and a consumer."""
        found: list[list[str]] = []
        for role in ("producer", "consumer"):
            texts: list[str] = []
            with suppress(KafkaException):  # the step calls parse() itself and reports the error
                parse({**self._conf, "log_cb": _collector(texts)}, role)
            found.append(texts)
        return [text for text in found[0] if text in found[1]]

    # --- the proxy ---

    def _proxy(self, proxy: Proxy, config: Config, server: HostPort) -> Address:
        """The first address of the proxy that takes connections.

        The steps of each server report the proxy's errors for that server.
        """
        place = HostPort(proxy.host, proxy.port)
        with self._step("proxy", place) as step:
            proxy_address = _proxy_address(
                place, config.text("broker.address.family"), self._timeout_s
            )
            step.text = f"connected to {proxy_address}"
        with self._step("proxy", f"{proxy.scheme}://{place}") as step:
            try:
                ProxyRoute(proxy, proxy_address, server).connected(self._timeout_s).close()
            except ProxyFailed as error:
                if not error.accepts_client:
                    raise remedies.of_proxy(error, "the proxy") from error
            step.text = "accepts the client"
        return proxy_address

    # --- one bootstrap server ---

    def _server(self, settings: _Settings, place: HostPort) -> MetadataResponse:
        with self._step("dns", place) as step:
            addresses = _routes(settings, place)
            known = [str(each.ip) for each in addresses if isinstance(each, Address)]
            known += [
                each.target.ip for each in addresses if isinstance(each, ProxyRoute) and each.target
            ]
            step.text = ", ".join(known)
            step.details["addresses"] = known
            if not known:
                step.status, step.text = "skipped", "the proxy looks the name up"
        with self._connected(place, addresses) as probe:
            if settings.tls is not None:
                with self._step("tls", place) as step:
                    _encrypt(probe, settings.tls, self._timeout_s, step)
            with self._step("versions", place) as step:
                ranges = _versions(probe, settings.tls, self._timeout_s)
                step.text, step.details = _version_facts(ranges)
            if settings.mechanism is not None:
                with self._step("sasl", place) as step:
                    step.text = _log_in(probe, settings, ranges)
            with self._step("metadata", place) as step:
                reply = _metadata(probe, settings, ranges, self._timeout_s)
                step.text = (
                    f"cluster {shown(reply.cluster_id or 'without an id')}: "
                    f"{len(reply.brokers)} brokers, the controller is {reply.controller_id}"
                )
                step.details = {"cluster_id": reply.cluster_id, "controller": reply.controller_id}
        return reply

    def _connected(self, place: HostPort, addresses: Sequence[Address | ProxyRoute]) -> Probe:
        """Connect to the first address that takes a connection. All addresses are tried."""
        first = len(self._steps)
        probe: Probe | None = None
        for address in addresses:
            with suppress(_StepFailed), self._step("tcp", address) as step:
                step.details["server"] = str(place)
                made = _connection(place, address, self._timeout_s)
                step.text = "connected"
                if probe is None:
                    probe = made
                else:
                    made.__exit__(None, None, None)
        if probe is None:
            raise _StepFailed
        self._to_warnings(self._steps[first:], "another address of it does")
        return probe

    # --- the brokers at their advertised addresses ---

    def _listener(
        self,
        settings: _Settings,
        broker: MetadataResponse.Broker,
        servers: list[HostPort],
        found: MetadataResponse,
    ) -> None:
        place = HostPort(shown(broker.host), broker.port)
        with (
            suppress(_StepFailed),
            self._step("listeners", f"broker {broker.node_id} {place}") as step,
        ):
            step.details = {
                "broker": broker.node_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
            }
            if place in self._reached:
                step.text = "checked as a bootstrap server"
                return
            try:
                cluster_id = self._reach(settings, place)
            except Problem as problem:
                raise remedies.of_listener(problem, broker.node_id, place, servers) from problem
            if cluster_id != found.cluster_id:
                ids = (
                    shown(each or "one without an id") for each in (cluster_id, found.cluster_id)
                )
                raise remedies.other_cluster(place, broker.node_id, *ids)
            step.text = "reachable"
            if remedies.is_only_local(place, servers):
                step.status, step.cause = (
                    "warning",
                    remedies.only_local(place, broker.node_id, servers),
                )

    def _reach(self, settings: _Settings, place: HostPort) -> str | None:
        """Connect to a broker and log in; return the id of its cluster."""
        addresses = _routes(settings, place)
        problem: Problem | None = None
        for address in addresses:
            try:
                probe = _connection(place, address, self._timeout_s)
            except Problem as error:
                problem = problem or error
                continue
            with probe:
                if settings.tls is not None:
                    _encrypt(probe, settings.tls, self._timeout_s, None)
                ranges = _versions(probe, settings.tls, self._timeout_s)
                if settings.mechanism is not None:
                    _log_in(probe, settings, ranges)
                return _metadata(probe, settings, ranges, self._timeout_s).cluster_id
        assert problem is not None, "a name that resolves has an address"
        raise problem

    # --- the user's permissions ---

    def _topic(self, admin: AdminClient, topic: str) -> None:
        with suppress(_StepFailed), self._step("topic", topic) as step:
            call = admin.describe_topics(
                TopicCollection([topic]),
                include_authorized_operations=True,
                request_timeout=max(1, self._timeout_s),
            )
            try:
                found = call[topic].result()
            except KafkaException as error:
                raise remedies.of_topic(error.args[0], topic) from error
            orphans = [
                each.id for each in found.partitions if each.leader is None or each.leader.id < 0
            ]
            if orphans:
                raise remedies.leaderless(topic, orphans)
            step.text = f"{len(found.partitions)} partitions, each with a leader"
            self._allowed(
                step, found.authorized_operations, (AclOperation.READ, AclOperation.WRITE)
            )

    def _group(self, admin: AdminClient, group: str) -> None:
        with suppress(_StepFailed), self._step("group", group) as step:
            call = admin.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=max(1, self._timeout_s)
            )
            try:
                found = call[group].result()
            except KafkaException as error:
                raise remedies.of_group(error.args[0], group) from error
            state = (
                "not there yet"
                if found.state is ConsumerGroupState.DEAD
                else found.state.name.lower()
            )
            step.text = f"{state}, {len(found.members)} members, coordinator {found.coordinator.id}"
            self._allowed(step, found.authorized_operations, (AclOperation.READ,))

    def _allowed(
        self, step: Step, operations: list[AclOperation] | None, wanted: tuple[AclOperation, ...]
    ) -> None:
        """Add the allowed operations to the step.

        A broker without an authorizer allows everything. Old brokers report no operations.
        """
        if not operations:
            return
        names = sorted(each.name for each in operations)
        step.details["operations"] = names
        missing = [
            each.name
            for each in wanted
            if each not in operations and AclOperation.ALL not in operations
        ]
        step.text += f"; allowed: {', '.join(names).lower()}"
        if missing:
            step.status = "warning"
            step.cause = f"not allowed: {', '.join(missing).lower()}"
            step.advice = (
                f"kafka-native acls create --{step.kind} {step.target} --principal User:... "
                + " ".join(f"--operation {name.lower()}" for name in missing)
            )


def _mechanism(config: Config) -> Mechanism:
    from kafka_native.security.sasl import mechanism_of  # imported only if SASL is configured

    return mechanism_of(config)


def _collector(texts: list[str]) -> Callable[..., None]:
    def collect(_name: str, _severity: int, _facility: str, text: str) -> None:
        texts.append(text)

    return collect


# --- single attempts; each raises Problem ---


def _resolve(place: HostPort, family: str) -> list[Address]:
    try:
        return resolve(place, family)
    except OSError as error:
        raise remedies.of_dns(error, place, family) from error


def _proxy_address(place: HostPort, family: str, timeout_s: float) -> Address:
    """The first address of the proxy that takes a connection."""
    problem: OSError | None = None
    try:
        addresses = resolve(place, family)
    except OSError as error:
        raise remedies.of_proxy_connection(error, place, timeout_s) from error
    for address in addresses:
        try:
            address.connected(timeout_s).close()
        except OSError as error:
            problem = problem or error
        else:
            return address
    assert problem is not None, "a name that resolves has an address"
    raise remedies.of_proxy_connection(problem, place, timeout_s) from problem


def _routes(settings: _Settings, place: HostPort) -> Sequence[Address | ProxyRoute]:
    """All routes to a broker, in the order in which a client tries them."""
    family = settings.config.text("broker.address.family")
    proxy, proxy_address = settings.proxy, settings.proxy_address
    if proxy is None or proxy_address is None:
        return _resolve(place, family)
    if proxy.scheme != "socks5":
        return [ProxyRoute(proxy, proxy_address, place)]
    return [ProxyRoute(proxy, proxy_address, place, each) for each in _resolve(place, family)]


def _connection(place: HostPort, address: Address | ProxyRoute, timeout_s: float) -> Probe:
    try:
        return Probe(place, address, timeout_s)
    except ProxyFailed as error:
        raise remedies.of_proxy(error, address) from error
    except OSError as error:
        assert isinstance(address, Address), "a proxy raises ProxyFailed"
        raise remedies.of_tcp(error, address, timeout_s) from error


def _encrypt(probe: Probe, tls: TlsContext, timeout_s: float, step: Step | None) -> None:
    place = probe.place
    try:
        made = probe.encrypt(tls.context, verifies=tls.verifies, identifies=tls.identifies_hosts)
    except TlsFailed as error:
        raise _tls_problem(probe, tls, error, timeout_s) from error
    except OSError as error:
        raise remedies.of_silence(error, f"the TLS handshake with {place}") from error
    if step is not None:
        facts = [certificate_facts(each) for each in made.chain]
        step.text = f"{made.version}, {made.cipher}"
        step.details = {"version": made.version, "cipher": made.cipher, "chain": facts}
        if facts:
            step.text += f"; certificate {remedies.of_certificate(facts[0])}"


def _tls_problem(probe: Probe, tls: TlsContext, error: TlsFailed, timeout_s: float) -> Problem:
    place = probe.place
    certificates = error.chain[0] + error.above if error.chain else b""
    text = tls.explain(error.reason, error.verify_error, place.host, place.port, certificates)
    facts = [certificate_facts(each) for each in error.chain]
    if error.verify_error:
        return Problem(text, cause=remedies.of_chain(facts), details={"chain": facts})
    if "alert" in error.reason.lower():
        return Problem(text)
    return remedies.no_tls(text, place, listener_kind(place, probe.address, timeout_s, None))


def _versions(probe: Probe, tls: TlsContext | None, timeout_s: float) -> ApiRanges:
    try:
        return probe.versions()
    except TlsFailed as error:
        assert tls is not None
        raise Problem(tls.explain(error.reason, error.verify_error, *probe.place, b"")) from error
    except Refused as error:
        raise Problem(f"the broker refuses ApiVersions: {error}") from error
    except Foreign as error:
        what = described(error.received)
        raise remedies.no_kafka(
            probe.place, what, error.received, encrypted=tls is not None
        ) from error
    except (Ended, OSError) as error:
        if tls is None and speaks_tls(probe.place, probe.address, timeout_s):
            raise remedies.no_kafka(probe.place, "a TLS server", b"", encrypted=False) from error
        if tls is None and speaks_http(probe.place, probe.address, timeout_s):
            raise remedies.no_kafka(probe.place, "an HTTP server", b"", encrypted=False) from error
        if isinstance(error, OSError):
            raise remedies.of_silence(
                error, f"ApiVersions, the first request to {probe.place}"
            ) from error
        raise remedies.closed_at_versions(probe.place) from error


def _version_facts(ranges: ApiRanges) -> tuple[str, dict[str, object]]:
    names = {int(key): key.name for key in ApiKey}
    features = ", ".join(
        f"{shown(name)}={level}" for name, level in sorted(ranges.features.items())
    )
    common = [key for key in ranges.ranges if _in_common(ranges, key)]
    text = f"{len(ranges.ranges)} APIs, {len(common)} of them in common"
    return text + (f"; {features}" if features else ""), {
        "apis": {
            names.get(key, str(key)): list(both) for key, both in sorted(ranges.ranges.items())
        },
        "features": dict(ranges.features),
    }


def _in_common(ranges: ApiRanges, key: int) -> bool:
    try:
        return ranges.choose(registry.request(key)) >= 0
    except KeyError:  # an API between brokers, or newer than this client
        return False


@contextmanager
def _protocol_problems(probe: Probe, settings: _Settings) -> Iterator[None]:
    """Turn an answer that isn't Kafka's, and an error of TLS, into a `Problem`."""
    try:
        yield
    except Foreign as error:
        raise remedies.no_kafka(
            probe.place, described(error.received), error.received, encrypted=False
        ) from error
    except TlsFailed as error:
        assert settings.tls is not None
        raise Problem(
            settings.tls.explain(error.reason, error.verify_error, *probe.place, b"")
        ) from error


def _log_in(probe: Probe, settings: _Settings, ranges: ApiRanges) -> str:
    mechanism = settings.mechanism
    assert mechanism is not None
    try:
        with _protocol_problems(probe, settings):
            lifetime_ms = probe.log_in(mechanism, ranges)
    except Refused as error:
        text = shown(error.error.str(), mechanism.secrets())
        raise remedies.of_login(
            error.error.code(), text, mechanism, settings.tls is not None
        ) from error
    except SaslError as error:
        text = shown(str(error), mechanism.secrets())
        raise Problem(f"{mechanism.name} isn't possible: {text}") from error
    except Ended as error:
        raise remedies.closed_at_login(mechanism) from error
    except OSError as error:
        raise remedies.of_silence(error, f"the log-in at {probe.place}") from error
    who = shown(mechanism.user) or "the client"
    return f"{who} is logged in with {mechanism.name}" + (
        f" for {lifetime_ms / 1000:g} s" if lifetime_ms else ""
    )


def _metadata(
    probe: Probe, settings: _Settings, ranges: ApiRanges, timeout_s: float
) -> MetadataResponse:
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    version = ranges.choose(MetadataRequest)
    if version < 1:  # version 0 can't ask for an empty list of topics
        raise Problem(
            "the broker speaks no version of Metadata that is known here", "it is older than 0.10"
        )
    if version < 4:
        request.allow_auto_topic_creation = True
    try:
        with _protocol_problems(probe, settings):
            reply = probe.ask(request, version)
    except Ended as error:
        kind = listener_kind(probe.place, probe.address, timeout_s, settings.tls)
        raise remedies.closed_at_metadata(
            kind, settings.tls is not None, settings.mechanism is not None
        ) from error
    except OSError as error:
        raise remedies.of_silence(error, f"Metadata from {probe.place}") from error
    assert isinstance(reply, MetadataResponse)
    if reply.error_code:
        raise Problem(f"the broker answers {remedies.code_text(reply.error_code)}")
    if not reply.brokers:
        raise Problem(
            "the broker's metadata has no brokers",
            "it has just started, or has no connection to its controller",
        )
    return reply
