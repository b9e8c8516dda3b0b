"""``kafka-native doctor`` finds each problem in its step, with its cause and a remedy."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from kafka_native import KafkaError
from kafka_native.cli.diagnosis import EXIT_CODES
from kafka_native.cli.probe import Address, HostPort
from kafka_native.cli.remedies import Problem, is_loopback, of_dns, of_listener, of_tcp
from kafka_native.mock import Identity, ListenerSecurity, MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.protocol.versions import ApiVersionsResponse
from tests.cli.running import invoke, properties, run
from tests.harness.servers import answering
from tests.security.certificates import issued, revocation_list

LIMIT_S = "30"
"""The limit of each attempt: more than a busy machine needs."""
SHORT_S = "0.7"
"""The limit if no answer will come."""


NOT_USED = ("proxy", "tls", "sasl", "registry", "payloads")
"""The steps that a client without TLS, log-in, proxy and registry doesn't have."""


class Report:
    """The output of a doctor run, as JSON."""

    def __init__(self, *arguments: str, limit: str = LIMIT_S) -> None:
        result = invoke("doctor", "--json", "-m", limit, *arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        self.status = result.exit_code
        self.document = json.loads(result.stdout)
        self.output = result.stdout
        assert self.document["exit_code"] == self.status
        assert {step["kind"] for step in self.document["steps"]} == set(EXIT_CODES), (
            "each step has run or is skipped"
        )

    def steps(self, kind: str) -> list[dict[str, Any]]:
        return [step for step in self.document["steps"] if step["kind"] == kind]

    def only(self, kind: str) -> dict[str, Any]:
        (step,) = self.steps(kind)
        return step

    def failed_at(self, kind: str) -> dict[str, Any]:
        """Return the failed step. Earlier steps are fine, and later ones did not run."""
        shown = [(step["kind"], step["status"], step["text"]) for step in self.document["steps"]]
        assert self.document["failed"] == kind, shown
        assert self.status == EXIT_CODES[kind]
        failed = [step for step in self.document["steps"] if step["status"] == "failed"]
        assert {step["kind"] for step in failed} == {kind}
        return failed[0]  # type: ignore[no-any-return]


def tls_options(cluster: MockCluster, tmp_path: Path) -> list[str]:
    authority = tmp_path / "ca.pem"
    authority.write_text(cluster.ca_pem)
    options = properties("security.protocol=ssl", f"ssl.ca.location={authority}")
    return ["-b", cluster.bootstrap_servers, *options]


# --- all good ---


def test_all_good(cluster: MockCluster) -> None:
    cluster.create_topic("greetings", 3)
    found = Report("-b", cluster.bootstrap_servers, "-t", "greetings", "-G", "readers")
    assert found.status == 0, found.output
    assert found.document["ok"] is True
    statuses = {kind: {step["status"] for step in found.steps(kind)} for kind in EXIT_CODES}
    assert statuses == {kind: {"skipped" if kind in NOT_USED else "ok"} for kind in EXIT_CODES}
    assert [step["target"] for step in found.steps("tcp")] == cluster.bootstrap_servers.split(",")
    assert cluster.cluster_id in found.steps("metadata")[0]["text"]
    assert found.steps("versions")[0]["details"]["apis"]["METADATA"][1] >= 12
    assert found.only("topic")["text"].startswith("3 partitions")
    assert all(step["seconds"] >= 0 for step in found.document["steps"])


def test_apis_that_only_the_broker_knows(cluster: MockCluster) -> None:
    api = ApiVersionsResponse.ApiVersion

    def add(reply: Any) -> None:
        reply.api_keys += [api(api_key=9998, max_version=1), api(api_key=9999, max_version=3)]

    plain = Report("-b", cluster.address(1)).only("versions")["text"]
    cluster.edit_responses(ApiKey.API_VERSIONS, add)
    step = Report("-b", cluster.address(1)).only("versions")
    total, common = (int(each) for each in re.findall(r"\d+", plain)[:2])
    assert step["text"].startswith(f"{total + 2} APIs, {common} of them in common")
    assert step["details"]["apis"]["9999"] == [0, 3]


def test_other_brokers_than_bootstrap_servers_are_checked(cluster: MockCluster) -> None:
    found = Report("-b", cluster.address(1))
    assert found.status == 0, found.output
    texts = {step["details"]["broker"]: step["text"] for step in found.steps("listeners")}
    assert texts == {1: "checked as a bootstrap server", 2: "reachable"}
    assert cluster.requests_of(ApiKey.METADATA, broker=2)


def test_tls_and_sasl_together(tmp_path: Path) -> None:
    security = ListenerSecurity(
        "sasl_ssl", mechanisms=["SCRAM-SHA-512"], users={"alice": "Secret-1"}
    )
    with MockCluster(brokers=2, security=security) as cluster:
        login = ["sasl.mechanism=SCRAM-SHA-512", "sasl.username=alice", "sasl.password=Secret-1"]
        options = properties("security.protocol=sasl_ssl", *login)
        found = Report(*tls_options(cluster, tmp_path), *options)
        assert found.status == 0, found.output
        assert "TLSv1.3" in found.steps("tls")[0]["text"]
        assert "127.0.0.1" in found.steps("tls")[0]["details"]["chain"][0]["names"]
        assert found.steps("sasl")[0]["text"] == "alice is logged in with SCRAM-SHA-512"
        assert len(cluster.logins) == 2
        assert "Secret-1" not in found.output


def test_text_for_people_and_its_exit_status(cluster: MockCluster) -> None:
    done = run("doctor", "-b", cluster.bootstrap_servers)
    text = done.stdout.decode()
    assert done.returncode == 0, text + done.stderr.decode()
    assert "\x1b" not in text
    assert text.splitlines()[0].startswith("ok       configuration  security.protocol=plaintext")
    assert text.splitlines()[-1] == "Clients can connect"
    failing = run("doctor", "-b", "127.0.0.1:1", "--quiet")
    lines = failing.stdout.decode().splitlines()
    assert failing.returncode == 12
    assert lines[0].startswith(
        "FAILED   tcp            127.0.0.1:1: 127.0.0.1:1 refuses the connection"
    )
    assert (
        lines[1].strip().startswith("cause: the machine is there, but nothing listens on this port")
    )
    assert lines[-1] == "This connection fails at: tcp (exit status 12)"


# --- configuration, DNS, TCP ---


def test_missing_bootstrap_servers() -> None:
    step = Report().failed_at("configuration")
    assert step["text"] == "bootstrap.servers isn't set"
    assert "-b host:port" in step["advice"]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("no.such.property=1", 'No such configuration property: "no.such.property"'),
        ("ssl.ca.location=/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("sasl.mechanism=SCRAM-SHA-1", "SCRAM-SHA-1"),
    ],
)
def test_configuration_that_every_client_refuses(option: str, text: str) -> None:
    step = Report("-b", "127.0.0.1:1", "-X", "security.protocol=sasl_ssl", "-X", option).failed_at(
        "configuration"
    )
    assert text in step["text"]


def test_risky_configuration_is_a_warning() -> None:
    with MockCluster(1, security=ListenerSecurity("sasl_plaintext", users={"a": "b"})) as cluster:
        login = ["sasl.mechanism=PLAIN", "sasl.username=a", "sasl.password=b"]
        options = properties("security.protocol=sasl_plaintext", *login, "group.id=g", "acks=1")
        found = Report("-b", cluster.bootstrap_servers, *options)
    step = found.only("configuration")
    assert (found.status, step["status"]) == (0, "warning")
    assert (
        step["cause"]
        == "SASL PLAIN without TLS: anyone who can read the network traffic sees the password"
    )


def test_unresolvable_name() -> None:
    step = Report("-b", "no-such-host.invalid:9092").failed_at("dns")
    assert step["text"].startswith("no-such-host.invalid can't be resolved")
    assert step["cause"]


def test_nothing_listens() -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        step = Report("-b", f"127.0.0.1:{taken.getsockname()[1]}").failed_at("tcp")
    assert "nothing listens on this port" in step["cause"]


def test_one_of_two_bootstrap_servers_is_down(cluster: MockCluster) -> None:
    for servers in (f"127.0.0.1:1,{cluster.address(1)}", f"{cluster.address(1)},127.0.0.1:1"):
        found = Report("-b", servers)
        assert found.status == 0, found.output
        assert {step["target"]: step["status"] for step in found.steps("tcp")} == {
            "127.0.0.1:1": "warning",
            cluster.address(1): "ok",
        }


def test_one_of_two_addresses_refuses(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens with localhost, if it is also ::1 and the broker listens on 127.0.0.1."""
    real, port = socket.getaddrinfo, int(cluster.address(1).rpartition(":")[2])

    def two(host: str, *rest: Any) -> Any:
        if host != "broker.test":
            return real(host, *rest)
        return [each for ip in ("127.0.0.77", "127.0.0.1") for each in real(ip, *rest)]

    monkeypatch.setattr(socket, "getaddrinfo", two)
    found = Report("-b", f"broker.test:{port}")
    assert found.status == 0, found.output
    assert found.only("dns")["details"]["addresses"] == ["127.0.0.77", "127.0.0.1"]
    assert [step["status"] for step in found.steps("tcp")] == ["warning", "ok"]


# --- another server answers ---


def test_http_server_that_answers_at_once() -> None:
    def handle(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with answering(handle) as server:
        step = Report("-b", server).failed_at("versions")
    assert "an HTTP server answered" in step["text"]
    assert "schema registry" in step["cause"]


class Silent(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_http_server_that_waits_for_a_line() -> None:
    class Threads(HTTPServer):
        def process_request(self, request: Any, client_address: Any) -> None:
            threading.Thread(
                target=super().process_request, args=(request, client_address), daemon=True
            ).start()

    server = Threads(("127.0.0.1", 0), Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        where = ["-b", f"127.0.0.1:{server.server_port}"]
        step = Report(*where, limit="1.5").failed_at("versions")
        reverse = Report(*where, "-X", "security.protocol=ssl", limit="1.5").failed_at("tls")
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
    assert "an HTTP server answered" in step["text"]
    assert reverse["text"]


def test_port_that_accepts_connections_and_stays_silent() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        step = Report("-b", f"127.0.0.1:{silent.getsockname()[1]}", limit=SHORT_S).failed_at(
            "versions"
        )
    assert step["text"].startswith("no answer in time to ApiVersions")
    assert "a load balancer" in step["cause"]
    assert step["seconds"] >= float(SHORT_S)


def test_port_that_closes_connections() -> None:
    with answering(lambda connection: None) as server:
        step = Report("-b", server).failed_at("versions")
    assert "closed the connection" in step["text"]
    assert "controllers" in step["cause"]


def test_response_that_is_not_kafkas(cluster: MockCluster) -> None:
    cluster.rewrite_responses(
        ApiKey.API_VERSIONS, lambda frame: b"\0\0\0\x05" + frame[4:8] + b"\x00"
    )
    step = Report("-b", cluster.address(1)).failed_at("versions")
    assert "something that isn't Kafka answered" in step["text"]


# --- TLS ---


@pytest.fixture
def tls_cluster() -> Iterator[MockCluster]:
    with MockCluster(1, security=ListenerSecurity("ssl")) as running:
        yield running


def test_tls_port_and_a_plaintext_client(tls_cluster: MockCluster) -> None:
    step = Report("-b", tls_cluster.bootstrap_servers).failed_at("versions")
    assert step["cause"] == "the listener wants TLS, and the client speaks without it"
    assert "security.protocol=ssl" in step["advice"]


def test_plaintext_port_and_a_tls_client(cluster: MockCluster) -> None:
    step = Report("-b", cluster.address(1), "-X", "security.protocol=ssl").failed_at("tls")
    assert step["cause"] == "the listener speaks Kafka without TLS and without a log-in"
    assert "security.protocol=plaintext" in step["advice"]


def test_plaintext_port_with_sasl_and_a_tls_client() -> None:
    with MockCluster(
        1, security=ListenerSecurity("sasl_plaintext", mechanisms=["SCRAM-SHA-256"])
    ) as cluster:
        step = Report("-b", cluster.bootstrap_servers, "-X", "security.protocol=ssl").failed_at(
            "tls"
        )
    assert "wants a log-in with one of SCRAM-SHA-256" in step["cause"]
    assert "sasl_plaintext" in step["advice"]


@pytest.mark.parametrize(
    ("presented", "text"),
    [
        ("expired", "expired on 2002-01-01"),
        ("not_yet_valid", "isn't valid before 2090-01-01"),
        ("wrong_host", "is for elsewhere.invalid, not 127.0.0.1"),
        ("unknown_ca", "set ssl.ca.location to the CA's certificate"),
    ],
)
def test_certificate_that_is_not_accepted(
    tls_cluster: MockCluster, tmp_path: Path, presented: Any, text: str
) -> None:
    tls_cluster.present_certificate(presented)
    step = Report(*tls_options(tls_cluster, tmp_path)).failed_at("tls")
    assert text in step["text"]
    assert step["cause"].startswith("it has shown 1. ")
    assert step["details"]["chain"][0]["not_after"]
    assert not tls_cluster.requests, "no request goes to an untrusted server"


def test_wrong_host_is_accepted_without_name_checks(
    tls_cluster: MockCluster, tmp_path: Path
) -> None:
    tls_cluster.present_certificate("wrong_host")
    unchecked = properties("ssl.endpoint.identification.algorithm=none")
    assert Report(*tls_options(tls_cluster, tmp_path), *unchecked).status == 0


def test_common_name_alone_is_not_accepted(tmp_path: Path) -> None:
    authority = trustme.CA()
    given = Identity(
        *issued(authority, "127.0.0.1", []), ca_pem=authority.cert_pem.bytes().decode()
    )
    with MockCluster(1, security=ListenerSecurity("ssl", certificates=given)) as cluster:
        step = Report(*tls_options(cluster, tmp_path)).failed_at("tls")
    assert "names no host in its subjectAltName" in step["text"]


def test_revoked_ca_above_a_broker_is_named(tmp_path: Path) -> None:
    root = trustme.CA(organization_name="Root")
    below = root.create_child_ca()
    leaf, path = below.issue_cert("127.0.0.1"), tmp_path / "crl.pem"
    chain = "".join(each.bytes().decode() for each in leaf.cert_chain_pems)
    given = Identity(chain, leaf.private_key_pem.bytes().decode(), root.cert_pem.bytes().decode())
    path.write_text(revocation_list(root, below) + revocation_list(below))
    lists = ["-X", f"ssl.crl.location={path}", "-X", "ssl.crl.check=chain"]
    with MockCluster(1, security=ListenerSecurity("ssl", certificates=given)) as cluster:
        step = Report(*tls_options(cluster, tmp_path), *lists).failed_at("tls")
    assert ", a CA above the certificate of 127.0.0.1" in step["text"]
    assert "is revoked, says ssl.crl.location=" in step["text"]


@pytest.mark.parametrize("versions", [("TLSv1.2", "TLSv1.2"), ("TLSv1.3", "TLSv1.3")])
def test_client_certificate_is_missing(tmp_path: Path, versions: tuple[str, str]) -> None:
    security = ListenerSecurity("ssl", client_certificates="required", tls_versions=versions)
    with MockCluster(1, security=security) as cluster:
        found = Report(*tls_options(cluster, tmp_path))
    # TLS 1.3 reports it after the handshake
    step = found.failed_at("tls" if versions[1] == "TLSv1.2" else "versions")
    assert "wants a client certificate" in step["text"]


def test_handshake_that_is_never_answered(tls_cluster: MockCluster, tmp_path: Path) -> None:
    tls_cluster.break_handshakes("silence", count=5)
    step = Report(*tls_options(tls_cluster, tmp_path), limit=SHORT_S).failed_at("tls")
    assert step["text"].startswith("no answer in time to the TLS handshake")


# --- authentication ---


def login(cluster: MockCluster, mechanism: str, password: str, user: str = "alice") -> Report:
    login = [f"sasl.mechanism={mechanism}", f"sasl.username={user}", f"sasl.password={password}"]
    options = properties("security.protocol=sasl_plaintext", *login)
    return Report("-b", cluster.bootstrap_servers, *options)


@pytest.fixture
def sasl_cluster() -> Iterator[MockCluster]:
    security = ListenerSecurity(
        "sasl_plaintext", mechanisms=["PLAIN", "SCRAM-SHA-512"], users={"alice": "right"}
    )
    with MockCluster(1, security=security) as running:
        yield running


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_wrong_password(sasl_cluster: MockCluster, mechanism: str) -> None:
    found = login(sasl_cluster, mechanism, "Wr0ng-Secret")
    step = found.failed_at("sasl")
    assert f"refuses user 'alice' with {mechanism}" in step["text"]
    assert "a wrong password" in step["cause"]
    assert "sasl.password" in step["advice"]
    assert "Wr0ng-Secret" not in found.output


def test_mechanism_that_the_listener_lacks(sasl_cluster: MockCluster) -> None:
    step = login(sasl_cluster, "SCRAM-SHA-256", "right").failed_at("sasl")
    assert (
        step["text"]
        == "the broker has no SASL mechanism SCRAM-SHA-256: it offers PLAIN, SCRAM-SHA-512"
    )
    assert step["advice"] == "set sasl.mechanism=PLAIN"


def test_log_in_on_a_listener_without_sasl(cluster: MockCluster) -> None:
    step = login(cluster, "PLAIN", "right").failed_at("sasl")
    assert step["text"] == "the listener takes no SASL"


def test_missing_log_in(sasl_cluster: MockCluster) -> None:
    step = Report("-b", sasl_cluster.bootstrap_servers).failed_at("metadata")
    assert "wants a log-in, with one of PLAIN, SCRAM-SHA-512" in step["cause"]
    assert "security.protocol=sasl_plaintext" in step["advice"]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("close", "closed the connection in the middle of the log-in"),
        ("wrong_signature", "SCRAM-SHA-512 isn't possible"),
        ("malformed", "SCRAM-SHA-512 isn't possible"),
    ],
)
def test_broken_log_in(sasl_cluster: MockCluster, fault: Any, text: str) -> None:
    sasl_cluster.break_authentication(fault)
    assert text in login(sasl_cluster, "SCRAM-SHA-512", "right").failed_at("sasl")["text"]


# --- advertised addresses ---


def test_broker_is_advertised_where_nothing_listens(cluster: MockCluster) -> None:
    cluster.advertise(2, "127.0.0.1:1")
    found = Report("-b", cluster.address(1))
    step = found.failed_at("listeners")
    assert step["target"] == "broker 2 127.0.0.1:1"
    assert "the cluster tells clients to connect to 127.0.0.1:1, and there" in step["text"]
    assert "advertised.listeners" in step["advice"] or "port" in step["advice"]


def test_broker_is_advertised_at_localhost(
    cluster: MockCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, port = socket.getaddrinfo, int(cluster.address(1).rpartition(":")[2])
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda host, *rest: real("127.0.0.1" if host == "broker.test" else host, *rest),
    )
    cluster.advertise(1, "localhost:1")
    cluster.advertise(2, f"localhost:{cluster.address(2).rpartition(':')[2]}")
    found = Report("-b", f"broker.test:{port}")
    step = found.failed_at("listeners")
    assert "localhost is each client's own machine" in step["cause"]
    assert (
        "advertised.listeners with a name and port that clients reach, for instance "
        f"broker.test:{port}" in step["advice"]
    )
    other = found.steps("listeners")[1]
    assert other["status"] == "warning", "reachable, but only from here"


def test_broker_is_advertised_by_a_name_of_its_own_network(cluster: MockCluster) -> None:
    cluster.advertise(2, "kafka-2.invalid:9092")
    step = Report("-b", cluster.address(1)).failed_at("listeners")
    assert "known only where the broker runs" in step["cause"]
    assert "in containers" in step["advice"]


def test_advertised_names_are_escaped(cluster: MockCluster) -> None:
    cluster.advertise(2, "kafka-2.invalid\x1b[2J\nok:9092")
    failed = Report("-b", cluster.address(1)).failed_at("listeners")
    assert failed["target"] == "broker 2 kafka-2.invalid?[2J?ok:9092"
    assert "\x1b" not in invoke("doctor", "-m", LIMIT_S, "-b", cluster.address(1)).stdout


def test_another_cluster_answers_where_a_broker_is_advertised(cluster: MockCluster) -> None:
    with MockCluster(1) as other:
        cluster.advertise(2, other.address(1))
        step = Report("-b", cluster.address(1)).failed_at("listeners")
    assert "another cluster answers" in step["text"]


# --- topics and groups ---


def test_topic_that_is_not_there(cluster: MockCluster) -> None:
    step = Report("-b", cluster.bootstrap_servers, "-t", "nothing").failed_at("topic")
    assert "topics create nothing" in step["advice"]


def test_topic_that_is_forbidden(cluster: MockCluster) -> None:
    cluster.create_topic("secrets")

    def forbid(reply: Any) -> None:
        for topic in reply.topics:
            topic.error_code, topic.partitions = KafkaError.TOPIC_AUTHORIZATION_FAILED, []

    cluster.edit_responses(ApiKey.METADATA, forbid, count=100)
    step = Report("-b", cluster.bootstrap_servers, "-t", "secrets").failed_at("topic")
    assert step["cause"] == "the user lacks DESCRIBE, READ or WRITE on it"
    assert "acls create --topic secrets" in step["advice"]


def test_group_that_is_forbidden(cluster: MockCluster) -> None:
    def forbid(reply: Any) -> None:
        for group in reply.groups:
            group.error_code = KafkaError.GROUP_AUTHORIZATION_FAILED

    for api in (ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_GROUPS):
        cluster.edit_responses(api, forbid, count=100)
    step = Report("-b", cluster.bootstrap_servers, "-G", "readers").failed_at("group")
    assert step["cause"] == "the user lacks DESCRIBE or READ on it"


def test_operations_that_are_missing(cluster: MockCluster) -> None:
    cluster.create_topic("orders")

    def allow(reply: Any) -> None:
        for topic in reply.topics:
            topic.topic_authorized_operations = 1 << 3 | 1 << 8  # READ, DESCRIBE

    cluster.edit_responses(ApiKey.METADATA, allow, count=100)
    found = Report("-b", cluster.bootstrap_servers, "-t", "orders")
    step = found.only("topic")
    assert (found.status, step["status"]) == (0, "warning")
    assert step["details"]["operations"] == ["DESCRIBE", "READ"]
    assert step["cause"] == "not allowed: write"


def test_partition_without_a_leader(cluster: MockCluster) -> None:
    cluster.create_topic("orders", 3)
    cluster.move_leader("orders", 1, -1)
    step = Report("-b", cluster.bootstrap_servers, "-t", "orders").failed_at("topic")
    assert step["text"] == "topic orders: partition 1 has no leader"


# --- only the texts ---


def test_loopback() -> None:
    assert [
        is_loopback(each) for each in ("localhost", "127.3.2.1", "::1", "10.0.0.1", "broker")
    ] == [True, True, True, False, False]


def test_private_address_is_named_as_cause() -> None:
    problem = Problem("10.1.2.3:9092 didn't answer within 5 s", "a firewall")
    found = of_listener(
        problem, 1, HostPort("10.1.2.3", 9092), [HostPort("kafka.example.com", 9092)]
    )
    assert found.cause.startswith("a private address")


def test_reasons_of_sockets() -> None:
    address = Address(socket.AF_INET, ("192.0.2.1", 9092))
    assert "a firewall" in of_tcp(TimeoutError(), address, 5).cause
    assert (
        "no route to this network"
        in of_tcp(OSError(101, "Network is unreachable"), address, 5).cause
    )
    assert (
        "name server"
        in of_dns(socket.gaierror(socket.EAI_AGAIN, "try again"), HostPort("a", 1), "any").cause
    )
    assert (
        "broker.address.family=v6"
        in of_dns(socket.gaierror(socket.EAI_NONAME, "none"), HostPort("a", 1), "v6").cause
    )
