"""enable.idempotence on three brokers that are killed, over connections that break: what was acked is there once."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from tests.broker.cluster import Cluster
from tests.broker.streams import Stream
from tests.broker.support import TopicMaker, leaders, our_producer, wait_for
from tests.broker.test_three_brokers import PARTITIONS, SETTLE_SECONDS, check_places, in_sync
from tests.proxy import Chaos, Proxy

ENOUGH = 20_000
FEWEST_CUTS = 30
OVER_PROXY: dict[str, Any] = {
    "acks": "all",
    "linger_ms": 2,
    "batch_num_messages": 50,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 100,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 100,
    "error_cb": lambda error: None,
}


class Proxied(NamedTuple):
    """The second door of three brokers, with a proxy before each."""

    cluster: Cluster
    proxies: list[Proxy]

    @property
    def bootstrap(self) -> str:
        return ",".join(proxy.address for proxy in self.proxies)

    def cuts(self) -> int:
        return sum(proxy.cuts for proxy in self.proxies)


@pytest.fixture
def proxied(owned3: Cluster) -> Iterator[Proxied]:
    """Connections through the proxies break at bytes drawn from a seed."""
    seed = int(os.environ.get("PROXY_SEED") or random.randrange(1 << 32))
    print(f"PROXY_SEED={seed}")
    chaos = Chaos(seed, bytes_most=400_000, answer_bytes_most=3_000)
    with ExitStack() as stack:
        brokers = owned3.brokers.values()
        proxies = [stack.enter_context(Proxy(broker.proxied, chaos, port=broker.proxy_port)) for broker in brokers]
        yield Proxied(owned3, proxies)


def kill_leaders_meanwhile(cluster: Cluster, topic: str, stream: Stream, partitions: tuple[int, ...]) -> None:
    """Those of these partitions, one after the other; each comes back."""
    for partition in partitions:
        victim = cluster.brokers[leaders(cluster, topic)[partition]]
        before = stream.sent
        wait_for(lambda before=before: stream.acked_after(before) > ENOUGH, "messages before a kill")  # type: ignore[misc]
        victim.kill()
        killed = stream.sent
        try:
            wait_for(
                lambda killed=killed: stream.acked_after(killed) > ENOUGH,  # type: ignore[misc]
                "messages while a broker is away",
                SETTLE_SECONDS,
            )
        finally:
            victim.start()
            cluster.wait_until_up()
        wait_for(lambda: in_sync(cluster, topic), "the replicas of the broker that came back", SETTLE_SECONDS)


def check_all_once(cluster: Cluster, topic: str, stream: Stream) -> None:
    """Every message that was sent is there once, in order, and where its report says."""
    assert stream.failed == {}
    assert stream.refused == []
    numbers = check_places(cluster, topic, stream)
    for partition in range(PARTITIONS):
        assert numbers[partition] == list(range(partition, stream.sent, PARTITIONS))


def test_each_message_is_there_once_and_in_order_whoever_is_killed(owned3: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(owned3, PARTITIONS)
    config = {"enable_idempotence": True, "compression_codec": "lz4", "linger_ms": 2, "batch_num_messages": 50}
    with our_producer(owned3, **config) as producer, Stream(producer, topic, PARTITIONS, pause_s=0.0002) as stream:
        kill_leaders_meanwhile(owned3, topic, stream, (0, 1))
        stream.end()
    check_all_once(owned3, topic, stream)


def test_each_message_is_there_once_and_in_order_over_connections_that_break(
    proxied: Proxied, new_topic: TopicMaker
) -> None:
    topic = new_topic(proxied.cluster, PARTITIONS)
    config = {**OVER_PROXY, "bootstrap_servers": proxied.bootstrap, "enable_idempotence": True}
    with (
        our_producer(proxied.cluster, **config) as producer,
        Stream(producer, topic, PARTITIONS, pause_s=0.0002) as stream,
    ):
        wait_for(lambda: stream.acked_after(0) > ENOUGH and proxied.cuts() >= FEWEST_CUTS, "cuts, and messages between")
        kill_leaders_meanwhile(proxied.cluster, topic, stream, (0,))
        stream.end()
    print(f"{stream.sent} messages over {proxied.cuts()} cuts")
    check_all_once(proxied.cluster, topic, stream)


def test_without_idempotence_some_are_there_twice_and_none_is_missing(proxied: Proxied, new_topic: TopicMaker) -> None:
    topic = new_topic(proxied.cluster, PARTITIONS)
    config = {**OVER_PROXY, "bootstrap_servers": proxied.bootstrap, "enable_idempotence": False}
    with (
        our_producer(proxied.cluster, **config) as producer,
        Stream(producer, topic, PARTITIONS, pause_s=0.0002) as stream,
    ):
        wait_for(lambda: stream.acked_after(0) > ENOUGH and proxied.cuts() >= FEWEST_CUTS, "cuts, and messages between")
        stream.end()
    numbers = check_places(proxied.cluster, topic, stream)
    assert set(stream.acked) <= {number for found in numbers for number in found}
    assert sum(map(len, numbers)) > len(stream.acked), (
        "no message is there twice: the proxy broke nothing that mattered"
    )
