"""Compares kafka_native's Spark package with Spark's own connector: ``python -m bench spark``.

Each contestant has its own Spark driver (`worker`) for the whole run. So none is measured with a
cold JVM, or with a JVM that has compiled the other's code. The contestants work in turn: only one
works at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

# The scenarios of each contestant. The others are compared with the first one.
CONTESTANTS = ("jvm", "frames", "direct")
SCENARIOS = {
    "read": ("jvm", "frames"),
    "parquet": ("jvm", "frames"),
    "json": ("jvm", "frames"),
    "avro": ("jvm", "frames"),
    "write": ("jvm", "frames"),
    "tuned": ("jvm", "frames"),
    "stream": ("jvm", "frames"),
    "archive": ("jvm", "direct"),
    "archive_avro": ("jvm", "direct"),
    "archive_json": ("jvm", "direct"),
    "mirror": ("jvm", "frames", "direct"),
    "trigger": ("jvm", "frames"),
    "to_kafka": ("jvm", "frames"),
}
TRIGGERING = ("trigger", "to_kafka")
# Scenarios that write a topic. It is new for each measurement, and its messages are counted.
WRITING = ("write", "tuned", "mirror", "to_kafka")


# The scenarios whose source has Avro records, of this schema.
AVRO = ("avro", "archive_avro")
FIELDS = ("user", "type", "page", "country")
AVRO_SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        *({"name": name, "type": "string"} for name in FIELDS),
        {"name": "price", "type": "double"},
    ],
}


@dataclass(frozen=True)
class Work:
    """The parameters of a scenario.

    ``source`` has ``count`` records. ``target`` and ``folder``, for files, are empty. After
    ``triggers`` triggers to warm up, the same number is measured, with ``step`` records each.
    """

    bootstrap: str
    source: str
    target: str
    folder: str
    count: int
    size: int
    codec: str
    triggers: int
    step: int
