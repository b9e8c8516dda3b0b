"""Benchmarks of typed records: how fast each library decodes and encodes them.

A contestant is a function of `bench.codecs.contestants`. It runs in a process of its own, in one
thread.
"""

from __future__ import annotations

from dataclasses import dataclass

OURS = "kafka_native"
EVERYTHING = "all fields"
RAW = "raw bytes"
READER = "AvroReader"
ALL_GOOD = "no malformed records"
PROJECTION = ("customer", "created")  # the second and the ninth of ten fields
CHUNK = 10_000  # the records of a call

# The scenarios, and their contestants.
SCENARIOS: dict[str, tuple[str, ...]] = {
    "avro": (OURS, "pyruhvro", "fastavro", "confluent_kafka"),
    "avro_nested": (OURS, "pyruhvro", "fastavro", "confluent_kafka"),
    "avro_projection": (OURS, EVERYTHING, "fastavro"),
    "json": (OURS, "pyarrow", "orjson", "json"),
    "json_nested": (OURS, "pyarrow", "orjson", "json"),
    "protobuf": (OURS, "protobuf"),
    "protobuf_nested": (OURS, "protobuf"),
    "avro_encode": (OURS, "fastavro"),
    "json_encode": (OURS, "orjson", "json"),
    "protobuf_encode": (OURS, "protobuf"),
    "avro_messages": (OURS, READER, "fastavro", "confluent_kafka"),
    "avro_messages_nested": (OURS, READER, "fastavro", "confluent_kafka"),
    "json_messages": (OURS, "orjson", "confluent_kafka"),
    "json_messages_nested": (OURS, "orjson", "confluent_kafka"),
    "protobuf_messages": (OURS, "protobuf", "confluent_kafka"),
    "protobuf_messages_nested": (OURS, "protobuf", "confluent_kafka"),
    "avro_objects": (OURS, "confluent_kafka"),
    "json_objects": (OURS, "confluent_kafka"),
    "protobuf_objects": (OURS, "confluent_kafka"),
    "topic": (OURS, RAW, "confluent_kafka"),
    "malformed": (OURS, ALL_GOOD),
    "deserializing_consumer": (OURS, "confluent_kafka"),
}
NESTED = tuple(name for name in SCENARIOS if name.endswith("_nested"))
OBJECTS = tuple(name for name in SCENARIOS if name.endswith("_objects"))
MESSAGES = (*OBJECTS, *(name for name in SCENARIOS if "_messages" in name))
ENCODE = ("avro_encode", "json_encode", "protobuf_encode")
FROM_TOPIC = ("topic", "malformed", "deserializing_consumer")


@dataclass(frozen=True)
class Work:
    """What a contestant does: it decodes chunks of records for ``seconds``, at least one chunk.

    With a ``topic`` it reads ``count`` records of it instead.
    """

    scenario: str
    contestant: str
    seconds: float
    bootstrap: str = ""
    topic: str = ""
    registry: str = ""
    partitions: int = 1
    count: int = 0
