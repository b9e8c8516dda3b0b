"""ddtrace: the producer's trace arrives in the headers, and the consumer's span continues it.

``ddtrace-run`` starts this script. It imports confluent_kafka before the script does.
"""

import sys

import confluent_kafka
from confluent_kafka.serialization import StringDeserializer, StringSerializer
from ddtrace.trace import TraceFilter, tracer

spans = []


class Keep(TraceFilter):
    def process_trace(self, trace):
        spans.extend(trace)


tracer.configure(trace_processors=[Keep()])
servers, topic = sys.argv[1:]
to = {"bootstrap.servers": servers}
come = {**to, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False}

print([kind.__module__ for kind in confluent_kafka.Producer.__mro__[:1]])
producer = confluent_kafka.Producer(to)
with tracer.trace("request") as root:
    trace_id = root.trace_id
    producer.produce(topic, b"value", key=b"key")
    producer.produce(topic, key="tombstone", headers={"mine": "1"})
print(producer.flush(30), bool(producer), len(producer))

consumer = confluent_kafka.Consumer(come)
consumer.subscribe([topic])
first = consumer.poll(30)
print(first.value(), sorted(name for name, _ in first.headers()))
consumer.commit(first, asynchronous=False)
(second,) = consumer.consume(1, 30)
print(second.value(), second.key(), sorted(name for name, _ in second.headers()))
print([each.offset for each in consumer.commit(asynchronous=False)])
consumer.close()

producer = confluent_kafka.SerializingProducer({**to, "key.serializer": StringSerializer()})
producer.produce(topic, key="text", value=b"third")
print(producer.flush(30))
consumer = confluent_kafka.DeserializingConsumer({**come, "key.deserializer": StringDeserializer()})
consumer.subscribe([topic])
third = consumer.poll(30)
print(third.key(), third.value())
consumer.close()

NAMES = (
    "kafka.topic",
    "kafka.message_key",
    "kafka.partition",
    "kafka.tombstone",
    "kafka.message_offset",
    "kafka.received_message",
    "kafka.group_id",
    "messaging.destination.name",
)
for span in sorted(spans, key=lambda each: each.start_ns):
    if span.name.startswith("kafka"):
        tags = {name: span.get_tag(name) or span.get_metric(name) for name in NAMES}
        print(span.name, span.error, span.trace_id == trace_id, tags)
