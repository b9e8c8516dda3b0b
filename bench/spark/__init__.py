"""kafka_native's Spark package beside Spark's own Kafka connector: ``python -m bench spark``.

Each contestant has a Spark driver of its own (`worker`), which lives as long as the run, so that none of them is
measured with a cold JVM, nor with one whose compiler has learnt from the other. They take turns, and only one works at
a time.
"""

from __future__ import annotations

from dataclasses import dataclass

# What a contestant can be asked for; the first one is what the others are held against.
CONTESTANTS = ("jvm", "frames", "direct")
SCENARIOS = {
    "read": ("jvm", "frames"),
    "parquet": ("jvm", "frames"),
    "write": ("jvm", "frames"),
    "tuned": ("jvm", "frames"),
    "stream": ("jvm", "frames"),
    "archive": ("jvm", "direct"),
    "mirror": ("jvm", "frames", "direct"),
    "trigger": ("jvm", "frames"),
    "to_kafka": ("jvm", "frames"),
}
TRIGGERING = ("trigger", "to_kafka")
# Those that write a topic: it is made for each measurement, and counted afterwards.
WRITING = ("write", "tuned", "mirror", "to_kafka")


@dataclass(frozen=True)
class Work:
    """What to do. ``source`` holds ``count`` records; ``target`` is empty, and so is ``folder``, where files go.

    ``triggers`` is how many triggers of ``step`` records are measured, after as many for warming up.
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
