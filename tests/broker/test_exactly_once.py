"""enable.idempotence on three brokers that are killed: each acked message is in the log once, and
in order.
"""

from __future__ import annotations

import pytest

from tests.broker.cluster import Cluster
from tests.broker.streams import Stream, check_places, wait_in_sync
from tests.broker.support import TopicMaker, leaders, our_producer
from tests.broker.test_three_brokers import PARTITIONS

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
            stream.wait_acked(ENOUGH, "messages before a kill")
            with owned3.without(victim):
                stream.wait_acked(ENOUGH, "messages while a broker is away")
            wait_in_sync(owned3, topic)
        stream.end()
    stream.check_all_acked()
    numbers = check_places(owned3, stream)
    for partition in range(PARTITIONS):
        assert numbers[partition] == list(range(partition, stream.sent, PARTITIONS))
