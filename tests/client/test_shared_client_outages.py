"""A shared client during outages: its connections and those of its roles are one client's."""

from __future__ import annotations

import time

from kafka_native import Client, KafkaError
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.harness.proxy import Proxy
from tests.waiting import WAIT_S, poll_until, wait_for

from .support import deliver

QUICK = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 2}
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", **QUICK}
LASTS_S = 0.2  # shorter than the minute after which an outage is reported again


def names(errors: list[KafkaError]) -> list[str]:
    return [error.name() for error in errors]


def test_a_bootstrap_server_that_leads_elsewhere_is_not_followed() -> None:
    """While a role is connected to a node, the client asks that node and its neighbours."""
    with MockCluster(1) as old, MockCluster(1) as new, Proxy(old.address(1)) as door:
        for cluster in (old, new):
            cluster.create_topic("t", 1)
        conf = {"bootstrap.servers": door.address, "topic.metadata.refresh.interval.ms": 20}
        with Client({**conf, **QUICK}) as shared:
            producer = shared.producer({"linger.ms": 0})
            deliver(producer, "t", b"1")
            door.target = new.address(1)
            door.cut_all()
            seen = len(old.requests_of(ApiKey.METADATA))
            wait_for(lambda: len(old.requests_of(ApiKey.METADATA)) > seen + 3, "several refreshes")
            deliver(producer, "t", b"2")
        assert [record.value for record in old.messages("t", 0)] == [b"1", b"2"]
        assert new.requests == []


def test_each_outage_of_all_brokers_is_reported_to_a_role() -> None:
    errors: list[KafkaError] = []
    with MockCluster(1) as cluster:
        cluster.create_topic("t", 1)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, **QUICK}
        with Client(conf) as shared, shared.producer({"error_cb": errors.append}) as producer:
            for round_ in (1, 2):
                deliver(producer, "t", b"x")
                cluster.broker_down(1)
                producer.produce("t", b"x")
                poll_until(
                    lambda round_=round_: names(errors).count("_ALL_BROKERS_DOWN") == round_,
                    producer,
                )
                cluster.broker_up(1)
                assert producer.flush(WAIT_S) == 0


def test_a_node_that_works_for_a_role_is_not_down_for_the_client() -> None:
    with MockCluster(1) as cluster:
        cluster.create_topic("t", 1)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, **QUICK}
        with Client(conf) as shared, shared.producer() as producer:
            deliver(producer, "t", b"x")
            cluster.broker_down(1)
            producer.produce("t", b"x")
            pool = shared._client.context.pool
            wait_for(pool.all_down, "the outage")
            cluster.broker_up(1)
            assert producer.flush(WAIT_S) == 0
            wait_for(lambda: not pool.all_down(), "the end of the outage")


def test_a_new_role_learns_of_an_outage_that_lasts() -> None:
    known: list[KafkaError] = []
    errors: list[KafkaError] = []
    with Client(NOWHERE) as shared, shared.producer({"error_cb": known.append}) as first:
        first.produce("t", b"x")
        poll_until(lambda: "_ALL_BROKERS_DOWN" in names(known), first)
        time.sleep(LASTS_S)
        with shared.producer({"error_cb": errors.append}) as second:
            poll_until(lambda: len(errors) >= 2, second)
        first.purge()
    assert names(errors) == ["_TRANSPORT", "_ALL_BROKERS_DOWN"]
    assert "127.0.0.1:1" in errors[0].str()
