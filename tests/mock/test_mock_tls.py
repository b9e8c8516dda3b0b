"""TLS of the mock cluster, tested with librdkafka and Python's ssl module."""

from __future__ import annotations

import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from kafka_native.mock import Certificates, Identity, ListenerSecurity, MockCluster, SeenHandshake
from kafka_native.mock import tls as mock_tls
from kafka_native.protocol import ApiKey
from kafka_native.protocol.metadata import MetadataRequest
from kafka_native.protocol.versions import ApiVersionsRequest
from tests.mock.secured import TlsWire, produce_and_consume, refusal, settings, trusting
from tests.mock.wire import Closed, Wire, batch, fetch_request, fetched, produce, values

# In TLS 1.3 a refused client may finish its own part first. Then it gets an alert, or the end of
# the stream.
REFUSED_CODES = (KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


@pytest.fixture(scope="module")
def security(certificates: Certificates) -> ListenerSecurity:
    return ListenerSecurity("ssl", certificates=certificates)


@pytest.fixture
def cluster(security: ListenerSecurity) -> Iterator[MockCluster]:
    with MockCluster(1, security=security) as running:
        yield running


@pytest.fixture(scope="module")
def mutual(certificates: Certificates) -> ListenerSecurity:
    return ListenerSecurity("ssl", certificates=certificates, client_certificates="required")


def done(cluster: MockCluster) -> list[SeenHandshake]:
    """Return the successful handshakes. A closing client may leave another one unfinished."""
    return [one for one in cluster.handshakes if one.error is None]


# --- librdkafka ---


def test_librdkafka_produces_and_consumes(security: ListenerSecurity) -> None:
    with MockCluster(2, security=security) as cluster:
        produce_and_consume(cluster, settings(cluster, security))
        seen = done(cluster)
        assert {(one.version, one.subject) for one in seen} == {("TLSv1.3", None)}
        assert {one.broker for one in seen} == {1, 2}


def test_librdkafka_shows_certificate(mutual: ListenerSecurity, certificates: Certificates) -> None:
    alice = certificates.client("alice")
    with MockCluster(1, security=mutual) as cluster:
        own = {"ssl.certificate.pem": alice.certificate_pem, "ssl.key.pem": alice.key_pem}
        produce_and_consume(cluster, settings(cluster, mutual, **own))
        subjects = {one.subject or "" for one in done(cluster)}
        assert all("CN=alice" in subject.split(",") for subject in subjects), subjects


def test_librdkafka_without_a_certificate_is_refused(mutual: ListenerSecurity) -> None:
    with MockCluster(1, security=mutual) as cluster:
        refusal(settings(cluster, mutual), *REFUSED_CODES)
        assert "certificate" in str(cluster.handshakes[0].error)


@pytest.mark.parametrize("presented", ["unknown_ca", "expired", "not_yet_valid", "wrong_host"])
def test_librdkafka_refuses_a_flawed_certificate(
    presented: str, cluster: MockCluster, security: ListenerSecurity
) -> None:
    cluster.present_certificate(presented)
    error = refusal(settings(cluster, security), KafkaError._SSL)
    assert "certificate" in str(error).lower()
    cluster.present_certificate("good")
    produce_and_consume(cluster, settings(cluster, security))


@pytest.mark.parametrize("how", ["close", "garbage"])
def test_librdkafka_reconnects_after_a_broken_handshake(
    how: str, cluster: MockCluster, security: ListenerSecurity
) -> None:
    cluster.break_handshakes(how, count=2)
    produce_and_consume(cluster, settings(cluster, security))
    assert [one.error for one in cluster.handshakes][:3] == [f"a fault was armed: {how}"] * 2 + [
        None
    ]


# --- Python's ssl module ---


def test_server_name_and_resumption_are_seen(cluster: MockCluster) -> None:
    context = trusting(cluster)
    with TlsWire(cluster, context) as wire:
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
        session = wire.tls.session
    with TlsWire(cluster, context, session=session) as wire:
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
    first, second = cluster.handshakes
    assert (first.server_name, first.resumed, second.server_name, second.resumed) == (
        "localhost",
        False,
        "localhost",
        True,
    )


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_versions_are_limited(version: str, certificates: Certificates) -> None:
    security = ListenerSecurity("ssl", certificates=certificates, tls_versions=(version, version))
    with MockCluster(1, security=security) as cluster:
        with TlsWire(cluster, trusting(cluster)) as wire:
            assert (wire.tls.version(), wire.ask(ApiVersionsRequest(), 0).error_code) == (
                version,
                0,
            )
        other = trusting(cluster)
        limit = mock_tls.VERSIONS["TLSv1.2" if version == "TLSv1.3" else "TLSv1.3"]
        other.minimum_version = other.maximum_version = limit
        with pytest.raises(ssl.SSLError):
            TlsWire(cluster, other)


def test_large_and_delayed_frames_go_through(cluster: MockCluster) -> None:
    cluster.create_topic("a")
    value = bytes(range(256)) * 3000
    cluster.delay_responses(1, 0.01)
    with TlsWire(cluster, trusting(cluster)) as wire:
        for offset in range(3):
            assert produce(wire, "a", 0, batch(value)).base_offset == offset
        numbers = [wire.send(fetch_request("a", {0: offset}), 12) for offset in range(3)]
        for number in numbers:
            part = fetched(wire.receive(fetch_request("a", {}), 12, number))[0]
            assert values(part) == [value]


def test_a_closed_connection_ends_tls_properly(cluster: MockCluster) -> None:
    cluster.close_mid_frame(1, 5, api_key=ApiKey.METADATA)
    context = trusting(cluster)
    with TlsWire(cluster, context, suppress_ragged_eofs=False) as wire:
        with pytest.raises(Closed):
            wire.ask(MetadataRequest(topics=None), 12)
        assert wire.is_closed()


def test_a_single_broker_can_have_a_wrong_certificate(security: ListenerSecurity) -> None:
    with MockCluster(2, security=security) as cluster:
        cluster.present_certificate("expired", broker=2)
        context = trusting(cluster)
        with TlsWire(cluster, context) as wire:
            assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
        host, port = cluster.address(2).split(":")
        with (
            socket.create_connection((host, int(port))) as plain,
            pytest.raises(ssl.SSLError, match="expired"),
        ):
            context.wrap_socket(plain, server_hostname="localhost")
        with pytest.raises(ValueError, match="none of good"):
            cluster.present_certificate("pretty")


def test_a_silent_handshake_ends_with_the_broker(cluster: MockCluster) -> None:
    cluster.break_handshakes("silence")
    host, port = cluster.address(1).split(":")
    with socket.create_connection((host, int(port))) as plain:
        plain.settimeout(0.2)
        with pytest.raises(TimeoutError):
            trusting(cluster).wrap_socket(plain, server_hostname="localhost")
        cluster.broker_down(1)
    assert cluster.handshakes[-1].error == "a fault was armed: silence"


def test_a_client_without_tls_is_refused(cluster: MockCluster) -> None:
    with Wire(cluster) as wire:
        wire.send(ApiVersionsRequest(), 0)
        with pytest.raises(Closed):
            wire.read_frame()  # an alert, which is no frame
    assert cluster.handshakes[-1].error is not None


# --- certificates ---


def test_certificates_rotate(cluster: MockCluster) -> None:
    def shown() -> bytes | None:
        with TlsWire(cluster, trusting(cluster)) as wire:
            return wire.tls.getpeercert(binary_form=True)

    first = shown()
    assert shown() == first
    cluster.rotate_certificate()
    second = shown()
    assert second != first
    cluster.rotate_certificate(cluster.certificates.broker())
    assert shown() not in (first, second)


def test_a_certificate_may_be_given(certificates: Certificates, tmp_path: Path) -> None:
    given = certificates.broker()
    with MockCluster(1, security=ListenerSecurity("ssl", certificates=given)) as cluster:
        assert cluster.ca_pem == certificates.ca_pem
        with TlsWire(cluster, trusting(cluster)) as wire:
            assert wire.tls.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(
                given.certificate_pem
            )
    assert "PRIVATE" not in repr(given)
    certificate, key = given.save(tmp_path, "b1")
    assert (Path(certificate).name, Path(key).name, Path(key).stat().st_mode & 0o777) == (
        "b1.pem",
        "b1.key",
        0o600,
    )
    with pytest.raises(ssl.SSLError):
        MockCluster(1, security=ListenerSecurity("ssl", certificates=Identity("no", "certificate")))


def test_existing_key_file_is_replaced(certificates: Certificates, tmp_path: Path) -> None:
    """Writing into the old file would keep its mode, its open readers and its symbolic link."""
    given, elsewhere = certificates.client("alice"), tmp_path / "elsewhere"
    old, linked = tmp_path / "old.key", tmp_path / "linked.key"
    for path in (old, elsewhere):
        path.write_text("before")
        path.chmod(0o644)
    linked.symlink_to(elsewhere)
    with old.open() as reader:
        for name in ("old", "linked"):
            key = Path(given.save(tmp_path, name)[1])
            assert (key.read_text(), key.lstat().st_mode & 0o777) == (given.key_pem, 0o600)
        assert reader.read() == "before"
    assert elsewhere.read_text() == "before"
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["elsewhere", "linked.key", "linked.pem", "old.key", "old.pem"]
    (tmp_path / "folder.key").mkdir()
    with pytest.raises(IsADirectoryError):
        given.save(tmp_path, "folder")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], (
        "no temporary file is left"
    )


def test_missing_trustme_is_an_error_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'kafka-native\[mock\]'"):
        MockCluster(1, security=ListenerSecurity("ssl"))


def test_methods_for_tls_need_a_cluster_with_tls() -> None:
    with MockCluster(1) as cluster:
        for act in (
            lambda: cluster.ca_pem,
            lambda: cluster.break_handshakes("close"),
            lambda: cluster.handshakes,
        ):
            with pytest.raises(ValueError, match="no TLS"):
                act()


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocol": "tls"},
        {"client_certificates": "please"},
        {"tls_versions": ("TLSv1.0", "TLSv1.3")},
        {"protocol": "sasl_ssl", "mechanisms": ("PLAN",)},
        {"protocol": "sasl_ssl", "mechanisms": ()},
    ],
)
def test_impossible_security_is_an_error(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"none of|needs a mechanism"):
        ListenerSecurity(**wrong)
