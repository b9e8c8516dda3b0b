"""The statistics documents of confluent_kafka and kafka_native on one mock cluster."""

from __future__ import annotations

import json
import time
from typing import Any

import confluent_kafka
import pytest

import kafka_native
from kafka_native.mock import MockCluster
from tests.oracle.statistics import check_level
from tests.waiting import WAIT_S

BOTH = (confluent_kafka, kafka_native)
BY_NAME = ("brokers", "topics", "partitions", "toppars")
EQUAL = [
    "app_offset",
    "stored_offset",
    "committed_offset",
    "commited_offset",
    "eof_offset",
    "lo_offset",
    "hi_offset",
    "ls_offset",
    "consumer_lag",
    "consumer_lag_stored",
    "next_offset",
    "desired",
    "unknown",
    "fetch_state",
    "rxmsgs",
    "msgs",
    "leader",
    "leader_epoch",
    "broker",
    "fetchq_cnt",
    "txmsgs",
    "txbytes",
    "msgq_cnt",
    "xmit_msgq_cnt",
    "msgs_inflight",
    "next_ack_seq",
    "next_err_seq",
    "acked_msgid",
]
"""Fields of a partition that are equal in both libraries after the same work."""


class Documents(list[dict[str, Any]]):
    def __call__(self, text: str) -> None:
        assert type(text) is str
        self.append(json.loads(text))


def until(client: Any, documents: Documents, is_complete: Any) -> dict[str, Any]:
    """Poll until a document satisfies a condition, and return it."""
    deadline = time.monotonic() + WAIT_S
    while not documents or not is_complete(documents[-1]):
        assert time.monotonic() < deadline, documents[-1:]
        client.poll(0.05)
    return documents[-1]


def shape(level: dict[str, Any], path: str = "") -> dict[str, str]:
    """Return the type of each path of a document, with * for names that aren't fields."""
    found: dict[str, str] = {}
    for name, value in level.items():
        field = f"{path}.{'*' if path.rpartition('.')[2] in BY_NAME else name}"
        found[field] = type(value).__name__
        if isinstance(value, dict):
            found |= shape(value, field)
    return found


def is_ours(path: str) -> bool:
    """Return whether our documents have a path: not unnamed requests and those of share groups."""
    name = path.rpartition(".")[2]
    return not (".req." in path and (name.startswith(("Unknown-", "Share"))))


def produced(lib: Any, cluster: MockCluster) -> dict[str, Any]:
    topic = f"produced-{lib.__name__}"
    cluster.create_topic(topic, 2)
    documents = Documents()
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "enable.idempotence": True,
        "log_level": 0,
    }
    producer = lib.Producer(
        {**conf, "client.id": "twin", "statistics.interval.ms": 50, "stats_cb": documents}
    )
    for number in range(100):
        producer.produce(topic, b"value %d" % number, b"key", partition=number % 2)
    assert producer.flush(WAIT_S) == 0
    last = until(
        producer, documents, lambda document: document["txmsgs"] == 100 and document["msg_cnt"] == 0
    )
    last["topics"]["topic"] = last["topics"].pop(topic)
    return last


def consumed(lib: Any, cluster: MockCluster) -> dict[str, Any]:
    topic = f"consumed-{lib.__name__}"
    cluster.create_topic(topic, 1)
    with kafka_native.Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(30):
            producer.produce(topic, b"%d" % number, partition=0)
    documents = Documents()
    conf = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    conf |= {"group.id": topic, "enable.auto.commit": False, "fetch.wait.max.ms": 20}
    consumer = lib.Consumer({**conf, "statistics.interval.ms": 50, "stats_cb": documents})
    consumer.subscribe([topic])
    messages: list[Any] = []
    deadline = time.monotonic() + WAIT_S
    while len(messages) < 30 and time.monotonic() < deadline:
        messages += consumer.consume(30 - len(messages), 1)
    consumer.commit(message=messages[19], asynchronous=False)

    def is_complete(document: dict[str, Any]) -> bool:
        partition = document["topics"].get(topic, {}).get("partitions", {}).get("0")
        figures = ("committed_offset", "app_offset", "eof_offset", "fetchq_cnt")
        return partition is not None and tuple(partition[name] for name in figures) == (
            20,
            30,
            30,
            0,
        )

    last = until(consumer, documents, is_complete)
    consumer.close()
    last["topics"]["topic"] = last["topics"].pop(topic)
    return last


@pytest.mark.parametrize("work", [produced, consumed])
def test_documents_have_the_same_fields_and_figures(work: Any, cluster: MockCluster) -> None:
    theirs, ours = (work(lib, cluster) for lib in BOTH)
    check_level("client", ours)
    wanted = {path: kind for path, kind in shape(theirs).items() if is_ours(path)}
    found = shape(ours)
    assert {path: found.get(path) for path in wanted} == wanted
    added = {path for path in found if path not in wanted and ".req." not in path}
    assert all(path.startswith(".consumer") or path.endswith(".consumer_lead") for path in added)
    for number, partition in theirs["topics"]["topic"]["partitions"].items():
        if number != "-1":
            mine = ours["topics"]["topic"]["partitions"][number]
            assert {name: mine[name] for name in EQUAL} == {name: partition[name] for name in EQUAL}
    for name in (
        "type",
        "client_id",
        "txmsgs",
        "txmsg_bytes",
        "rxmsgs",
        "msg_cnt",
        "msg_size",
        "msg_max",
    ):
        assert ours[name] == theirs[name], name
    for group in ("cgrp", "eos"):
        same = (
            "state",
            "join_state",
            "assignment_size",
            "idemp_state",
            "txn_state",
            "txn_may_enq",
            "producer_epoch",
            "epoch_cnt",
        )
        assert {name: ours.get(group, {}).get(name) for name in same} == {
            name: theirs.get(group, {}).get(name) for name in same
        }
