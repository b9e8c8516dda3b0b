"""enable.idempotence on three brokers that are killed: each acked message is in the log once, and
in order.
"""

from __future__ import annotations

import pytest

from tests.broker.cluster import Cluster
from tests.broker.streams import Stream, check_places, in_sync
from tests.broker.support import TopicMaker, leaders, our_producer
from tests.broker.test_three_brokers import PARTITIONS, SETTLE_SECONDS
from tests.waiting import wait_for

ENOUGH = 20_000


@pytest.mark.slow
def test_each_message_is_there_once_and_in_order_although_brokers_are_killed(
    owned3: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(owned3, PARTITIONS)
    config = {
        "enable_idempotence": True,
        "compression_codec": "lz4",
        "linger_ms": 2,
        "batch_num_messages": 50,
    }
    with (
        our_producer(owned3, **config) as producer,
        Stream(producer, topic, PARTITIONS, pause_s=0.0002) as stream,
    ):
        for partition in (0, 1):
            victim = owned3.brokers[leaders(owned3, topic)[partition]]
            before = stream.sent
            wait_for(
                lambda before=before: stream.acked_after(before) > ENOUGH, "messages before a kill"
            )  # type: ignore[misc]
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
                owned3.wait_until_up()
            wait_for(
                lambda: in_sync(owned3, topic),
                "the replicas of the broker that came back",
                SETTLE_SECONDS,
            )
        stream.end()
    assert stream.failed == {}
    assert stream.refused == []
    numbers = check_places(owned3, stream)
    for partition in range(PARTITIONS):
        assert numbers[partition] == list(range(partition, stream.sent, PARTITIONS))
