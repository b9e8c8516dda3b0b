"""A hostile broker costs a client connections and time, but not its life or much memory."""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from kafka_native import Consumer, KafkaError, Producer
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.mock.mechanisms import AuthenticationFault
from kafka_native.protocol import ApiKey
from tests.harness.proxy import Proxy
from tests.waiting import WAIT_S

from .hostile import Flips, Memory, Siege
from .support import deliver, errors_into

MEMORY_MAX_BYTES = 64 << 20
HASTY = {
    "reconnect.backoff.ms": 1,
    "reconnect.backoff.max.ms": 10,
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 10,
    "socket.timeout.ms": 3000,
    "receive.message.max.bytes": 1_000_000,
    "fetch.max.bytes": 900_000,
    "message.max.bytes": 100_000,
    "topic.metadata.refresh.interval.ms": 500,
    "log_level": 0,
}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with MockCluster(1) as running:
        running.create_topic("a")
        yield running


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    """Check that announced sizes cost little memory."""
    if not sys.platform.startswith("linux"):
        yield  # only Linux has a high-water mark of a process
        return
    memory = Memory()
    yield
    assert memory.grown_bytes() < MEMORY_MAX_BYTES


def settings(cluster: MockCluster, **own: Any) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, **HASTY, **own}


def endure_producing(cluster: MockCluster, siege: Siege | Flips, conf: dict[str, Any]) -> None:
    """Produce until the attacks end and a message arrives. Each message gets its report in time."""
    deadline = time.monotonic() + WAIT_S
    own = {"linger.ms": 0, "enable.idempotence": False, "message.timeout.ms": 2000}
    while True:
        with Producer({**conf, **own}) as producer:
            while True:
                assert time.monotonic() < deadline, siege.left
                at_peace = siege.left == 0
                reports: list[KafkaError | None] = []
                producer.produce(
                    "a", b"x", on_delivery=lambda error, _, reports=reports: reports.append(error)
                )
                assert producer.flush(WAIT_S) == 0
                (report,) = reports
                if at_peace and report is None:
                    return
                if report is not None and report.code() == KafkaError._MSG_TIMED_OUT:
                    break
                cluster.disconnect(1)  # so that a new connection repeats its requests


def endure_consuming(cluster: MockCluster, siege: Siege, conf: dict[str, Any]) -> None:
    """Consume, in one group after the other, until the attacks end and messages arrive."""
    deadline = time.monotonic() + WAIT_S
    with Producer(settings(cluster)) as producer:
        deliver(producer, "a", b"x")
    for number in itertools.count():
        at_peace = siege.left == 0
        own = {
            "group.id": f"g{number}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        with Consumer({**conf, **own}) as consumer:
            consumer.subscribe(["a"])
            patience = deadline if at_peace else time.monotonic() + 0.5
            while time.monotonic() < patience:
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    break
            else:
                assert time.monotonic() < deadline, siege.left
                continue
        if at_peace:
            return


@pytest.mark.parametrize(
    "api_key", [ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.PRODUCE], ids=lambda key: key.name
)
def test_producer_endures(api_key: ApiKey, cluster: MockCluster) -> None:
    siege = Siege(cluster, api_key, seed=int(api_key))
    endure_producing(cluster, siege, settings(cluster))


@pytest.mark.parametrize(
    "api_key",
    [
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.OFFSET_FETCH,
    ],
    ids=lambda key: key.name,
)
def test_consumer_endures(api_key: ApiKey, cluster: MockCluster) -> None:
    siege = Siege(cluster, api_key, seed=int(api_key))
    endure_consuming(cluster, siege, settings(cluster))


def test_tls_endures_wrong_bits() -> None:
    flips = Flips(seed=7, connections=30, bytes_max=2000)
    with (
        MockCluster(1, security=ListenerSecurity("ssl")) as cluster,
        Proxy(cluster.address(1), flips) as proxy,
    ):
        cluster.create_topic("a")
        cluster.advertise(1, proxy.address)
        trusting = {"security.protocol": "ssl", "ssl.ca.pem": cluster.ca_pem}
        endure_producing(
            cluster,
            flips,
            settings(cluster, **trusting, **{"socket.connection.setup.timeout.ms": 1000}),
        )
        assert {record.value for record in cluster.messages("a", 0)} == {b"x"}
        assert any(one.error for one in cluster.handshakes)


def test_announced_bytes_that_never_arrive_cost_no_memory(cluster: MockCluster) -> None:
    """Three clients get a length of 99 MB each, and no bytes after it."""
    announced = threading.Barrier(4)

    def announce(frame: bytes) -> bytes:
        announced.wait(WAIT_S)
        return (99_000_000).to_bytes(4, "big") + frame[4:8]

    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(
                Producer(settings(cluster, **{"receive.message.max.bytes": 100_000_000}))
            )
            for _ in range(3)
        ]
        cluster.rewrite_responses(ApiKey.METADATA, announce, count=3)
        for client in clients:
            client.produce("a", b"x")
        announced.wait(WAIT_S)
        time.sleep(0.5)  # time enough to allocate it; the fixture checks the maximum
        for client in clients:
            client.purge()


# --- before and while the client logs in ---

PASSWORD = {
    "security.protocol": "sasl_plaintext",
    "sasl.username": "alice",
    "sasl.password": "secret",
}
TOKEN = {
    "security.protocol": "sasl_plaintext",
    "enable.sasl.oauthbearer.unsecure.jwt": True,
    "sasl.oauthbearer.config": "principal=alice",
}
LOGINS = {"PLAIN": PASSWORD, "SCRAM-SHA-512": PASSWORD, "OAUTHBEARER": TOKEN}


@pytest.fixture
def guarded() -> Iterator[MockCluster]:
    with MockCluster(
        1, security=ListenerSecurity("sasl_plaintext", tuple(LOGINS), {"alice": "secret"})
    ) as running:
        running.create_topic("a")
        yield running


@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.parametrize(
    "api_key",
    [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE],
    ids=lambda key: key.name,
)
def test_login_endures(api_key: ApiKey, mechanism: str, guarded: MockCluster) -> None:
    siege = Siege(guarded, api_key, seed=int(api_key))
    endure_producing(
        guarded, siege, settings(guarded, **LOGINS[mechanism], **{"sasl.mechanism": mechanism})
    )


@pytest.mark.parametrize("how", get_args(AuthenticationFault))
def test_login_is_retried_after(how: AuthenticationFault, guarded: MockCluster) -> None:
    guarded.break_authentication(how)
    errors: list[KafkaError] = []
    conf = settings(
        guarded, **PASSWORD, **{"sasl.mechanism": "SCRAM-SHA-512", "error_cb": errors.append}
    )
    reports: list[KafkaError | None] = []
    with Producer(conf) as producer:
        deliver(producer, "a", b"x", on_delivery=errors_into(reports))
        producer.poll(0)
    assert reports == [None]
    wanted = KafkaError.MSG_SIZE_TOO_LARGE if how == "oversized" else KafkaError._AUTHENTICATION
    assert wanted in [error.code() for error in errors], errors
    assert "secret" not in repr(errors)
