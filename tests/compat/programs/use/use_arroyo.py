"""Arroyo: a stream processor reads a topic in batches, produces to another one, and commits."""

import sys
import time

from arroyo.backends.kafka import KafkaConsumer, KafkaPayload, KafkaProducer
from arroyo.backends.kafka.configuration import (
    build_kafka_configuration,
    build_kafka_consumer_configuration,
)
from arroyo.commit import IMMEDIATE
from arroyo.processing import StreamProcessor
from arroyo.processing.strategies import CommitOffsets, Produce, RunTask
from arroyo.types import Topic

servers, topic = sys.argv[1:]
to = build_kafka_configuration({"bootstrap.servers": servers})
producer = KafkaProducer(to)
for number in range(5):
    payload = KafkaPayload(b"key", b"%d" % number, [("trace", b"abc")])
    print(producer.produce(Topic(topic), payload).result(30).offset)


def consumer(group):
    return KafkaConsumer(
        build_kafka_consumer_configuration(
            {"bootstrap.servers": servers}, group_id=group, auto_offset_reset="earliest"
        )
    )


class Factory:
    def create_with_partitions(self, commit, partitions):
        print(sorted((each.index, offset) for each, offset in partitions.items()))

        def recorded(offsets, force=False):
            commit(offsets, force)
            committed.extend(offsets.values())

        produce = Produce(producer, Topic(f"{topic}-out"), CommitOffsets(recorded))
        return RunTask(self.turn, produce)

    def turn(self, message):
        seen.append(message.payload.value)
        return message.payload

    def shutdown(self):
        print("factory shut down")


seen, committed = [], []
for last in (5, 6):  # the second one continues at the committed offset
    processor = StreamProcessor(consumer(topic), Topic(topic), Factory(), IMMEDIATE)
    until = time.monotonic() + 60
    while last not in committed and time.monotonic() < until:
        processor._run_once()
    processor.signal_shutdown()
    processor.run()
    print(seen)
    producer.produce(Topic(topic), KafkaPayload(None, b"more", [])).result(30)
reader = consumer("other")
reader.subscribe([Topic(f"{topic}-out")])
found = []
while len(found) < 6:
    found.append(reader.poll(30).payload)
print(*found, sep="\n")
reader.close()
producer.close().result(30)
