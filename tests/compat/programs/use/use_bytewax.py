"""Bytewax: a dataflow from one topic to another, with headers, a resume and its recovery store."""

import sys
import tempfile
from pathlib import Path

import confluent_kafka
from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSource
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import cluster_main

servers, topic = sys.argv[1:]
producer = confluent_kafka.Producer({"bootstrap.servers": servers})
store = Path(tempfile.mkdtemp())
init_db_dir(store, 1)


def run(first):
    for number in range(first, first + 3):
        producer.produce(topic, str(number), key=f"key {number}", headers={"trace": "abc"})
    assert producer.flush(30) == 0
    flow = Dataflow("example")
    source = KafkaSource([servers], [topic], tail=False, add_config={"group.id": topic})
    stream = op.input("in", flow, source)
    turned = op.map(
        "turn", stream, lambda one: KafkaSinkMessage(one.key, one.value * 2, headers=one.headers)
    )
    kop.output("out", turned, brokers=[servers], topic=f"{topic}-out")
    cluster_main(flow, [], 0, worker_count_per_proc=1, recovery_config=RecoveryConfig(str(store)))


run(0)
run(3)
consumer = confluent_kafka.Consumer(
    {"bootstrap.servers": servers, "group.id": "out", "auto.offset.reset": "earliest"}
)
consumer.subscribe([f"{topic}-out"])
found = []
while len(found) < 6:
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is None
    found.append((message.key(), message.value(), message.headers()))
print(*found, sep="\n")
print(consumer.poll(1))
consumer.close()
