"""``kafka-native doctor`` through a proxy: the same way as a client, with a step for the proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_native.mock import ListenerSecurity, MockCluster
from tests.cli.test_doctor import SHORT_S, Report
from tests.harness.tunnels import Canned, HttpConnect, Socks5, Tunnels

LOGIN = (b"alice", b"s3cret@word")
QUOTED = "s3cret%40word"
HIDDEN = "b1.hidden.invalid"
"""A broker's name that only the proxy can resolve."""


def port_of(cluster: MockCluster) -> int:
    return int(cluster.bootstrap_servers.rpartition(":")[2])


@pytest.mark.parametrize("kind", [Socks5, HttpConnect])
@pytest.mark.parametrize("login", [None, LOGIN])
def test_all_steps_go_through_proxy(kind: type[Tunnels], login: tuple[bytes, bytes] | None) -> None:
    with MockCluster(2) as cluster, kind(login) as proxy:
        cluster.create_topic("greetings", 1)
        url = proxy.url("alice", QUOTED) if login else proxy.url()
        found = Report("-b", cluster.bootstrap_servers, "-X", f"proxy.url={url}", "-t", "greetings")
        assert found.status == 0, found.output
        reached, let_in = found.steps("proxy")
        assert (reached["target"], reached["status"]) == (proxy.address, "ok")
        assert (let_in["target"], let_in["text"]) == (
            f"{proxy.scheme}://{proxy.address}",
            "accepts the client",
        )
        assert {step["status"] for step in found.steps("dns")} == {"skipped"}
        assert {step["text"] for step in found.steps("dns")} == {"the proxy looks the name up"}
        for step in found.steps("tcp"):
            assert step["target"].endswith(" through the proxy")
        assert [step["status"] for step in found.steps("listeners")] == ["ok", "ok"]
        assert {f"{host}:{port}" for host, port in proxy.asked} == set(
            cluster.bootstrap_servers.split(",")
        )
        assert "s3cret" not in found.output


def test_names_are_resolved_locally_with_socks5() -> None:
    with MockCluster(1) as cluster, Socks5() as proxy:
        server = f"localhost:{port_of(cluster)}"
        url = f"proxy.url={proxy.url(scheme='socks5')}"
        found = Report("-b", server, "-X", url, "-X", "broker.address.family=v4")
        assert found.status == 0, found.output
        assert found.only("dns")["details"]["addresses"] == ["127.0.0.1"]
        assert found.only("tcp")["target"] == f"127.0.0.1:{port_of(cluster)} through the proxy"
        assert ("127.0.0.1", port_of(cluster)) in proxy.asked


def test_step_is_skipped_without_a_proxy(cluster: MockCluster) -> None:
    assert Report("-b", cluster.bootstrap_servers).only("proxy")["text"] == "proxy.url isn't set"


def test_tls_and_a_log_in_behind_a_proxy(tmp_path: Path) -> None:
    security = ListenerSecurity(
        "sasl_ssl", mechanisms=["SCRAM-SHA-256"], users={"bob": "b0bs-secret"}
    )
    with MockCluster(1, security=security) as cluster, HttpConnect(LOGIN) as proxy:
        authority = tmp_path / "ca.pem"
        authority.write_text(cluster.ca_pem)
        conf = ["-b", cluster.bootstrap_servers, "-X", f"proxy.url={proxy.url('alice', QUOTED)}"]
        conf += ["-X", "security.protocol=sasl_ssl", "-X", f"ssl.ca.location={authority}"]
        conf += ["-X", "sasl.mechanism=SCRAM-SHA-256", "-X", "sasl.username=bob"]
        found = Report(*conf, "-X", "sasl.password=b0bs-secret")
        assert found.status == 0, found.output
        assert {"tls", "sasl"} <= {
            step["kind"] for step in found.document["steps"] if step["status"] == "ok"
        }
        failed = Report(*conf, "-X", "sasl.password=another").failed_at("sasl")
        assert "refuses user 'bob'" in failed["text"]


# --- problems ---


def test_proxy_that_is_down() -> None:
    with Socks5() as proxy:
        url = proxy.url()
    failed = Report("-b", "b1.invalid:9092", "-X", f"proxy.url={url}").failed_at("proxy")
    assert failed["text"] == "the proxy refuses the connection"
    assert "the proxy is down" in failed["cause"]
    named = Report("-b", "b1.invalid:9092", "-X", "proxy.url=http://proxy.invalid:3128").failed_at(
        "proxy"
    )
    assert "the proxy's name, proxy.invalid, can't be resolved" in named["text"]


@pytest.mark.parametrize("kind", [Socks5, HttpConnect])
def test_login_that_is_missing_or_wrong(kind: type[Tunnels]) -> None:
    with kind(LOGIN) as proxy:
        missing = Report("-b", "b1.invalid:9092", "-X", f"proxy.url={proxy.url()}").failed_at(
            "proxy"
        )
        assert "the proxy: it wants a login" in missing["text"]
        assert missing["cause"] == "proxy.url has no user and password"
        found = Report(
            "-b", "b1.invalid:9092", "-X", f"proxy.url={proxy.url('alice', 'an0ther-secret')}"
        )
        wrong = found.failed_at("proxy")
        assert "it refuses the user and password of proxy.url" in wrong["text"]
        assert "a wrong password" in wrong["cause"]
        assert "an0ther-secret" not in found.output
        assert proxy.asked == []


@pytest.mark.parametrize(
    ("kind", "code", "text", "cause"),
    [
        (
            Socks5,
            2,
            "its rules don't allow connections to this broker (SOCKS5 says 2)",
            "often there is 443 alone",
        ),
        (Socks5, 3, "it has no route to the broker's network", "no route from the proxy"),
        (Socks5, 4, "it can't reach the broker's host", "isn't known in the proxy's network"),
        (Socks5, 5, "the broker refuses its connection", "nothing listens"),
        (Socks5, 7, "it makes no connections for clients", "a web server"),
        (
            HttpConnect,
            403,
            "its rules don't allow connections to this broker (HTTP says 403)",
            "often there is 443 alone",
        ),
        (HttpConnect, 405, "it makes no connections for clients", "a web server"),
        (HttpConnect, 502, "it can't reach the broker", "isn't known in the proxy's network"),
        (HttpConnect, 504, "the broker doesn't answer it", "a firewall"),
    ],
)
def test_broker_that_the_proxy_cannot_reach(
    kind: type[Tunnels], code: int, text: str, cause: str
) -> None:
    with kind(refuse=lambda host: code) as proxy:
        failed = Report("-b", f"{HIDDEN}:9092", "-X", f"proxy.url={proxy.url()}").failed_at("tcp")
    assert failed["target"] == f"{HIDDEN}:9092 through the proxy"
    assert text in failed["text"]
    assert cause in failed["cause"]


def test_proxy_of_the_other_kind() -> None:
    with Socks5(patience_s=1.0) as proxy:
        failed = Report(
            "-b", "b1.invalid:9092", "-X", f"proxy.url=http://{proxy.address}"
        ).failed_at("proxy")
        assert "does it speak HTTP?" in failed["text"]
    with HttpConnect() as proxy:
        failed = Report(
            "-b", "b1.invalid:9092", "-X", f"proxy.url=socks5h://{proxy.address}", limit=SHORT_S
        )
        assert failed.failed_at("proxy")["kind"] == "proxy"
    with Canned(b"HTTP/1.1 400 Bad Request\r\n\r\n") as web:
        failed = Report(
            "-b", "b1.invalid:9092", "-X", f"proxy.url=socks5h://{web.address}"
        ).failed_at("proxy")
        assert "it speaks HTTP, not SOCKS5" in failed["text"]
        assert "another kind of proxy" in failed["cause"]


def test_silent_proxy() -> None:
    with Canned(b"", stays=True) as silent:
        found = Report(
            "-b", "b1.invalid:9092", "-X", f"proxy.url=socks5h://{silent.address}", limit=SHORT_S
        )
        assert "no answer within" in found.failed_at("proxy")["text"]
    # a greeting, and then no answer about the broker
    with Canned(b"\x05\x00", stays=True) as stuck:
        found = Report(
            "-b", "b1.invalid:9092", "-X", f"proxy.url=socks5h://{stuck.address}", limit=SHORT_S
        )
        assert "no answer of the broker behind it" in found.failed_at("tcp")["text"]


def test_broker_behind_the_proxy_that_is_advertised_elsewhere() -> None:
    names = {HIDDEN: "127.0.0.1"}
    with (
        MockCluster(1) as cluster,
        Socks5(names=names, refuse=lambda host: 0 if host == HIDDEN else 2) as proxy,
    ):
        found = Report("-b", f"{HIDDEN}:{port_of(cluster)}", "-X", f"proxy.url={proxy.url()}")
        failed = found.failed_at("listeners")
        assert "its rules don't allow connections to this broker" in failed["text"]
        assert found.only("metadata")["status"] == "ok"


def test_invalid_url_is_not_shown() -> None:
    found = Report("-b", "b1.invalid:9092", "-X", "proxy.url=https://alice:s3cret@proxy:1")
    assert "the client connects to a proxy without TLS" in found.failed_at("configuration")["text"]
    assert "s3cret" not in found.output


def test_tls_port_behind_a_proxy_and_a_plaintext_client() -> None:
    """Attempts to find a cause go through the proxy too."""
    with MockCluster(1, security=ListenerSecurity("ssl")) as cluster, HttpConnect() as proxy:
        found = Report("-b", cluster.bootstrap_servers, "-X", f"proxy.url={proxy.url()}")
        failed = found.failed_at("versions")
        assert failed["cause"] == "the listener wants TLS, and the client speaks without it"
        assert len(proxy.asked) >= 3
