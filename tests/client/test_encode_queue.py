"""Full requests are compressed in advance, by other threads.

Errors of the requests before them must neither reorder nor lose a message.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kafka_native import KafkaError, Message
from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey

from .support import Client, deliver

VALUE_BYTES = 50_000  # nineteen fill a batch, and a batch fills a request
MANY = 800
CONF: dict[str, Any] = {
    "compression.type": "zstd",
    "linger.ms": 5,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,
}
ONE_IN_FLIGHT = {"max.in.flight": 1, "enable.idempotence": False}
IDEMPOTENT = {"enable.idempotence": True}


def value(number: int) -> bytes:
    """Return a value that compression shrinks, but not to nothing."""
    return b"%08d" % number + bytes((number * 7 + place) % 251 for place in range(500)) * (
        VALUE_BYTES // 500
    )


class Ledger:
    """The numbers of delivered messages, and the errors of the others."""

    def __init__(self) -> None:
        self.written: list[int] = []
        self.failed: list[KafkaError] = []

    def note(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.written.append(int((message.value() or b"")[:8]))
        else:
            self.failed.append(error)


@pytest.mark.parametrize("conf", [ONE_IN_FLIGHT, IDEMPOTENT], ids=["one in flight", "idempotent"])
@pytest.mark.parametrize("trouble", ["refused", "cut", "throttled", "moved"])
def test_order_holds_despite_request_errors(
    cluster: MockCluster, client: Client, topic: str, conf: dict[str, Any], trouble: str
) -> None:
    ledger = Ledger()
    others = itertools.cycle(cluster.broker_ids)
    with client.producer(**CONF, **conf, on_delivery=ledger.note) as producer:
        for number in range(MANY):
            if number % 100 == 50:
                leader = cluster.leader(topic, 0)
                if trouble == "refused":
                    refused = ErrorCode.NOT_ENOUGH_REPLICAS
                    cluster.push_request_errors(ApiKey.PRODUCE, (0, refused, 0, 0, refused))
                elif trouble == "cut":
                    cluster.push_request_errors(ApiKey.PRODUCE, (0, CLOSE_CONNECTION))
                elif trouble == "throttled":
                    cluster.throttle_responses(leader, 30)
                else:
                    cluster.move_leader(
                        topic, 0, next(broker for broker in others if broker != leader)
                    )
            producer.produce(topic, value(number), partition=0)
            producer.poll(0)
        assert producer.flush(60) == 0
    assert ledger.failed == []
    assert ledger.written == list(range(MANY))
    found = [message.value or b"" for message in cluster.messages(topic, 0)]
    assert [int(bytes(stored[:8])) for stored in found] == list(range(MANY))
    for number in range(0, MANY, 97):
        assert bytes(found[number]) == value(number)


def test_purge_and_close_report_queued_messages(cluster: MockCluster, client: Client) -> None:
    topic = client.topic()
    for purge in (True, False):
        ledger = Ledger()
        with client.producer(**CONF, **ONE_IN_FLIGHT, on_delivery=ledger.note) as producer:
            deliver(producer, topic, value(0), partition=0)
            cluster.delay_responses(None, 60.0, ApiKey.PRODUCE)
            for number in range(1, 200):
                producer.produce(topic, value(number), partition=0)
            cluster.wait_for_requests(ApiKey.PRODUCE, 2)
            if purge:
                producer.purge()
                assert producer.flush(5) == 0
            else:
                producer.close(0.2)
        cluster.delay_responses(None, 0, ApiKey.PRODUCE)
        cluster.advance(60)
        assert len(ledger.written) + len(ledger.failed) == 200
        assert ledger.written[0] == 0
        assert ledger.failed
        cluster.clear_requests()
