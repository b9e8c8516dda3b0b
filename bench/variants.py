"""Scenarios that repeat an adapter's scenario with other settings, as data."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.adapters import LATENCIES, PLAINTEXT, PROGRAMS, PYTHON, SCENARIOS, Task

DATA_MAX = 512_000_000
"""Bytes of values that a run of a size writes at most."""
LATENCY_MESSAGES = 5000
RAW_PARTITIONS_MAX = 100
PROPERTIES = ("kafka_native", "confluent_kafka", "librdkafka")
"""Adapters that pass librdkafka's properties on."""
THREADED = ("kafka_native", "confluent_kafka", "librdkafka", "java", "franz_go")
ONE_THREAD = "its adapter sends in one thread"
SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
PARTITIONS = (1, 10, 100, 1_000, 10_000)
BATCHES = (10, 100, 1_000)
CODECS = ("snappy", "gzip", "lz4", "zstd")


@dataclass(frozen=True)
class Variant:
    """A scenario of the adapters with other settings.

    ``changes``: fields of the task. ``count``: the number of messages, whatever the run's is.
    ``count_max``: the largest number. ``only``: the adapters that know these settings, and
    ``reason`` says why the others don't. ``brokers``: the size of the cluster that it needs.
    """

    base: str
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    count: int = 0
    count_max: int = 0
    only: tuple[str, ...] = ()
    reason: str = ""
    brokers: int = 1
    tls: bool = False


def _threads(number: int) -> Variant:
    return Variant("produce", {"threads": number}, only=THREADED, reason=ONE_THREAD)


def _batch(records: int) -> Variant:
    changes = {"batch": records}
    reason = "its batches have a limit in bytes, not in messages"
    return Variant("produce", changes, count_max=50_000 * records, only=PROPERTIES, reason=reason)


def _partitions(base: str, number: int) -> Variant:
    return Variant(base, {"partitions": number})


def _codec(base: str, codec: str) -> Variant:
    return Variant(base, {"codec": codec, "payload": "json"}, count_max=1_000_000)


def _member(base: str) -> Variant:
    reason = "its adapter joins a group only in `group`, if at all"
    only = ("kafka_native", "confluent_kafka")
    return Variant(base, {"member": True}, only=only, reason=reason)


def _rate(base: str, rate: int, count: int) -> Variant:
    return Variant(base, {"rate": rate}, count=count)


def _short(base: str, count: int) -> Variant:
    return Variant(base, {"whole": True}, count=count)


def _intro(acks: str, partitions: int, codec: str, brokers: int) -> Variant:
    changes = {"acks": acks, "partitions": partitions, "codec": codec, "size": 100}
    return Variant("produce", changes, count=500_000, brokers=brokers)


VARIANTS: dict[str, Variant] = {
    "acks_0": Variant("produce", {"acks": "0"}),
    "acks_all": Variant("produce", {"acks": "all"}),
    "idempotent": Variant("produce", {"idempotent": True}),
    "threads_4": _threads(4),
    **{f"batch_{number}": _batch(number) for number in BATCHES},
    **{f"produce_{size}": Variant("produce", {"size": size}) for size in SIZES if size != 100},
    **{f"consume_{size}": Variant("consume", {"size": size}) for size in SIZES if size != 100},
    **{f"produce_p{number}": _partitions("produce", number) for number in PARTITIONS},
    # `wide` consumes 10,000 partitions.
    **{f"consume_p{number}": _partitions("consume", number) for number in PARTITIONS[:-1]},
    **{f"produce_{codec}": _codec("produce", codec) for codec in CODECS},
    **{f"consume_{codec}": _codec("consume", codec) for codec in CODECS},
    **{f"group_{base}": _member(base) for base in ("poll", "iterate", "arrow")},
    "end_to_end_1": _rate("end_to_end", 1, 10),
    "end_to_end_100k": _rate("end_to_end", 100_000, 300_000),
    "round_trip_1": _rate("round_trip", 1, 10),
    "round_trip_100k": _rate("round_trip", 100_000, 300_000),
    "tls_produce": Variant("produce", tls=True),
    "tls_consume": Variant("consume", tls=True),
    "short_produce_100k": _short("produce", 100_000),
    "short_produce_1m": _short("produce", 1_000_000),
    "short_consume_100k": _short("consume", 100_000),
    "short_consume_1m": _short("consume", 1_000_000),
    # The tests of librdkafka's introduction. Its acks=2 is acks=all today: Kafka 0.9 removed it.
    "intro_1": _intro("all", 2, "none", 2),
    "intro_2": _intro("0", 1, "none", 1),
    "intro_3": _intro("all", 2, "snappy", 2),
    "intro_4": _intro("all", 2, "gzip", 2),
}
ALL = (*SCENARIOS, *VARIANTS)

LACKS = {
    "aiokafka": "it has only asyncio calls",
    "kafkarrow": "it only reads, as columns",
    "raw": "it is no client: it sends prebuilt requests or counts fetched bytes",
    "librdkafka": "its program has only produce, callback and consume",
    "krafka": "its program has only produce, consume, group and cold",
    "rdkafka": "its program has only produce, consume, poll, group and cold",
}
"""Why an adapter has only some of the scenarios."""
TLS_ADAPTERS = (*PYTHON, "librdkafka", "java", "franz_go", "raw", PLAINTEXT)


def variant_of(scenario: str) -> Variant:
    """Return the settings of a scenario; those of an adapter's own scenario change nothing."""
    return VARIANTS.get(scenario) or Variant(scenario)


def base_of(scenario: str) -> str:
    """Return the adapters' scenario that another one repeats."""
    return variant_of(scenario).base


def applied(scenario: str, task: Task) -> Task:
    """Return the task with the settings of a scenario and its number of messages."""
    variant = variant_of(scenario)
    changed = dataclasses.replace(task, **variant.changes)
    count = variant.count or changed.count
    if variant.base in LATENCIES and not variant.count:
        count = min(count, LATENCY_MESSAGES)
    if variant.count_max:
        count = min(count, variant.count_max)
    if "size" in variant.changes:
        count = max(2, min(count, DATA_MAX // changed.size))
    return dataclasses.replace(changed, count=count, tls=task.tls if variant.tls else "")


def reason_against(adapter: str, scenario: str, task: Task) -> str | None:
    """Return why an adapter can't run a scenario with these settings; None if it can.

    :param task: With the settings of the scenario.
    """
    variant = variant_of(scenario)
    if adapter == PLAINTEXT and not variant.tls:
        return "it is for the comparison with TLS"
    if variant.tls and not task.tls:
        return "the cluster has no TLS"
    if variant.tls and adapter not in TLS_ADAPTERS:
        return "its adapter doesn't set up TLS"
    if variant.only and adapter not in variant.only:
        return variant.reason
    if adapter == "raw" and (reason := _against_raw(variant, task)):
        return reason
    if adapter not in THREADED and task.threads > 1:
        return ONE_THREAD
    if adapter == "franz_go" and variant.base in ("group", "cold") and task.protocol != "classic":
        return "its adapter joins groups with the classic protocol"
    module = "kafka_native" if adapter == PLAINTEXT else adapter
    if not hasattr(importlib.import_module(f"bench.adapters.{module}"), variant.base):
        if variant.base == "imports" and adapter in PROGRAMS:
            return "it is a program: Python imports nothing"
        return LACKS.get(adapter, "it has no such call, or no adapter for it here")
    return None


def _against_raw(variant: Variant, task: Task) -> str | None:
    if task.codec != "none" or task.payload != "x":
        return "prebuilt compressed requests are no limit for a client that compresses"
    if variant.brokers > 1:
        return "it has one connection, to one broker"
    if task.partitions > RAW_PARTITIONS_MAX and variant.base != "cold":
        return f"it builds a request of each partition, of up to {RAW_PARTITIONS_MAX}"
    if task.whole:
        return "it is no client: its process starts with Python"
    return None
