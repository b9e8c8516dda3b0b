"""What ``kafka-native perf`` measures: messages out and back, and a latency.

Timed: the produce() loop until the last acknowledgement, and the consume() loop with every value() taken. Not timed:
making the payloads before,
and comparing each consumed value with what was sent after.
"""

from __future__ import annotations

import hashlib
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_native import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

NUMBER_DIGITS = 9
STEP = 10_000
"""Messages between two updates of the progress bar, and at most in one consume()."""
FLUSH_TIMEOUT_S = 120.0
IDLE_TIMEOUT_S = 30.0
MIB = 1 << 20

Progress = Callable[[int], None]


class CheckFailed(Exception):
    """What came back is not what was sent."""


@dataclass(frozen=True, slots=True)
class Rate:
    """One timed loop."""

    messages: int
    bytes: int
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def mib_per_second(self) -> float:
        """Values' bytes a second, in MiB."""
        return self.bytes / MIB / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU time a message, of this whole process, in microseconds."""
        return self.cpu_seconds / self.messages * 1e6


@dataclass(frozen=True, slots=True)
class Latency:
    """From produce() to the acknowledgement, one message at a time, in milliseconds."""

    p50: float
    p99: float
    p999: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """A codec's figures."""

    codec: str
    produce: Rate
    consume: Rate
    latency: Latency
    digest: str


def payloads(count: int, size: int) -> list[bytes]:
    """``count`` different values of ``size`` bytes: JSON-like text that compresses about as such text does."""
    template = b'{"number": %09d, "user": "user-%03d", "event": "page_view", "path": "/articles/%04d", "ok": true}'
    values = []
    for number in range(count):
        value = template % (number, number * 7 % 1000, number * 31 % 10000)
        values.append(value[:size].ljust(size, b"."))
    return values


SMALLEST = len(b'{"number": ') + NUMBER_DIGITS


def number_of(value: bytes) -> int:
    """Which of the payloads a value says that it is."""
    return int(value[SMALLEST - NUMBER_DIGITS : SMALLEST])


class _Stopwatch:
    def __init__(self) -> None:
        self._cpu = self._used()
        self._started = time.perf_counter()

    @staticmethod
    def _used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def rate(self, messages: int, size: int) -> Rate:
        seconds = time.perf_counter() - self._started
        return Rate(messages, messages * size, seconds, self._used() - self._cpu)


def produce_all(conf: Mapping[str, Any], topic: str, values: list[bytes], progress: Progress) -> Rate:
    """Produces every value in a loop; the clock stops when the last one is acknowledged."""
    with Producer({**conf, "queue.buffering.max.messages": 1_000_000}) as producer:
        producer.list_topics(topic, IDLE_TIMEOUT_S)  # connected before the clock starts
        produce = producer.produce
        watch = _Stopwatch()
        for start in range(0, len(values), STEP):
            for value in values[start : start + STEP]:
                while True:
                    try:
                        produce(topic, value)
                        break
                    except BufferError:
                        producer.poll(0.01)
            progress(min(STEP, len(values) - start))
        left = producer.flush(FLUSH_TIMEOUT_S)
        rate = watch.rate(len(values), len(values[0]))
    if left:
        raise CheckFailed(f"{left} messages were not acknowledged within {FLUSH_TIMEOUT_S:.0f} s")
    return rate


Read = list[tuple[int, int, bytes]]
"""(partition, offset, value) in the order they came."""


def consume_all(
    conf: Mapping[str, Any], topic: str, partitions: int, count: int, progress: Progress
) -> tuple[Rate, Read]:
    """Consumes ``count`` messages from the beginning, and takes each one's value."""
    read: Read = []
    with Consumer(conf) as consumer:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        first = consumer.poll(IDLE_TIMEOUT_S)  # connected, and the offsets found, before the clock starts
        _keep([] if first is None else [first], read)
        watch = _Stopwatch()
        while len(read) < count:
            messages = consumer.consume(min(STEP, count - len(read)), IDLE_TIMEOUT_S)
            if not messages:
                raise CheckFailed(f"only {len(read)} of {count} messages came back")
            _keep(messages, read)
            progress(len(messages))
        rate = watch.rate(len(read), len(read[0][2]) if read else 0)
        extra = consumer.poll(0)
    if extra is not None and extra.error() is None:
        raise CheckFailed("more messages came back than were sent")
    return rate, read


def _keep(messages: list[Message], read: Read) -> None:
    try:
        # One loop without a check a message: an error has no value, and that is seen below.
        read.extend([(message.partition(), message.offset(), message.value()) for message in messages])  # type: ignore[misc]
    finally:
        for message in messages[:1] + messages[-1:]:
            error = message.error()
            if error is not None:
                raise KafkaException(error)


def check(values: list[bytes], read: Read) -> str:
    """Compares what came back with what was sent: count, order in each partition, content.

    Returns the content's digest, or raises CheckFailed.
    """
    if len(read) != len(values):
        raise CheckFailed(f"{len(values)} messages were sent, {len(read)} came back")
    last: dict[int, tuple[int, int]] = {}
    back: list[bytes | None] = [None] * len(values)
    for partition, offset, value in read:
        if value is None:
            raise CheckFailed(f"partition {partition} gave an error, or a null, at offset {offset}")
        number = number_of(value)
        before_offset, before_number = last.get(partition, (-1, -1))
        if offset <= before_offset or number <= before_number:
            raise CheckFailed(f"partition {partition} is out of order at offset {offset}")
        last[partition] = (offset, number)
        if not 0 <= number < len(values) or back[number] is not None:
            raise CheckFailed(f"message {number} came back twice, or was never sent")
        back[number] = value
    sent, returned = _digest(values), _digest(back)
    if sent != returned:
        raise CheckFailed(f"the content differs: digest {sent} was sent, {returned} came back")
    return returned


def _digest(values: list[bytes] | list[bytes | None]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for start in range(0, len(values), STEP):
        digest.update(b"".join(value for value in values[start : start + STEP] if value is not None))
    return digest.hexdigest()


def latency(conf: Mapping[str, Any], topic: str, value: bytes, count: int) -> Latency:
    """Round trips of single messages with linger.ms=0."""
    taken: list[float] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        taken.append((message.latency() or 0.0) * 1e3)

    with Producer({**conf, "linger.ms": 0}) as producer:
        for number in range(count + WARM_UP):
            producer.produce(topic, value, partition=0, on_delivery=on_delivery)
            while len(taken) <= number:
                producer.poll(1.0)
    ordered = sorted(taken[WARM_UP:])
    return Latency(*(ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.99, 0.999)))


WARM_UP = 100


def names(codecs: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """A topic for each codec, named after the time so that runs don't meet."""
    stamp = int(time.time() * 1000)
    for codec in codecs:
        yield codec, f"kafka-native-perf-{stamp}-{codec}"
