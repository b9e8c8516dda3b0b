"""What ``kafka-native perf`` measures: messages out and back, and a latency.

Timed: the produce() loop until the last acknowledgement, and a consume() loop that takes every value(). Not timed:
making the values before, and the pass after, which consumes everything once more and compares each value with what was
sent. So the rates are the client's, and the check may be as thorough as it likes.
"""

from __future__ import annotations

import hashlib
import random
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_native import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

STEP_MESSAGES = 10_000
"""Messages between two updates of the progress bar, and at most in one consume()."""
QUEUE_MESSAGES = 1_000_000
FLUSH_TIMEOUT_S = 120.0
IDLE_TIMEOUT_S = 30.0
SETTLE_TIMEOUT_S = 10.0
"""How long all messages may take to be readable after the last acknowledgement; matters with acks=0."""
SETTLE_EVERY_S = 0.05
WARM_UP = 100
"""Round trips before those whose latency counts."""
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


START = b'{"number":"%09d'
MESSAGE_MIN_BYTES = len(START % 0)
NUMBER = slice(len(b'{"number":"'), MESSAGE_MIN_BYTES)
WORDS = b"order payment basket parcel refund invoice stock price login search page".split()
SEED = 9092


def payloads(count: int, size: int) -> list[bytes]:
    """``count`` different values of ``size`` bytes, the same in every run.

    They are JSON as services send it: names that recur, ids that don't, words. A batch of them is compressed to between
    a third and a sixth, as real ones are.
    """
    draw = random.Random(SEED).getrandbits
    text = b" ".join(WORDS[draw(32) % len(WORDS)] for _ in range(4000 + size // 4))
    choices = len(text) - size
    record = START + b'","session":"%012x","path":"/item/%04d","status":200,"event":"'
    values = []
    for number in range(count):
        ids = draw(80)
        value = record % (number, ids & 0xFFFFFFFFFFFF, (ids >> 48) % 10_000)
        room = size - len(value) - len(b'"}')
        if room >= 0:
            start = (ids >> 62) % choices
            values.append(b'%b%b"}' % (value, text[start : start + room]))
        else:
            values.append(value[:size])
    return values


def number_of(value: bytes) -> int:
    """Which of the payloads a value says that it is; -1 if it says none."""
    digits = value[NUMBER]
    return int(digits) if digits.isdigit() else -1


class Stopwatch:
    """Time and CPU of this process, from its making on."""

    def __init__(self) -> None:
        self._cpu = self._used()
        self._started = time.perf_counter()

    @staticmethod
    def _used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def rate(self, messages: int, size: int) -> Rate:
        """What was done until now: messages, and the bytes of all their values."""
        seconds = time.perf_counter() - self._started
        return Rate(messages, size, seconds, self._used() - self._cpu)


def _ready(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The producer's configuration; what the caller set stays."""
    return {"queue.buffering.max.messages": QUEUE_MESSAGES, **conf}


def produce_all(conf: Mapping[str, Any], topic: str, values: list[bytes], progress: Progress) -> Rate:
    """Produces every value in a loop; the clock stops when the last one is acknowledged."""
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    reports = {"on_delivery": on_delivery, "delivery.report.only.error": True}
    with Producer({**_ready(conf), **reports}) as producer:
        producer.list_topics(topic, IDLE_TIMEOUT_S)  # connected before the clock starts
        produce = producer.produce
        watch = Stopwatch()
        for start in range(0, len(values), STEP_MESSAGES):
            for value in values[start : start + STEP_MESSAGES]:
                while True:
                    try:
                        produce(topic, value)
                        break
                    except BufferError:
                        producer.poll(0.01)
            progress(min(STEP_MESSAGES, len(values) - start))
        left = producer.flush(FLUSH_TIMEOUT_S)
        rate = watch.rate(len(values), len(values) * len(values[0]))
        if left:
            producer.close(0)
            raise CheckFailed(f"{left} messages were not acknowledged within {FLUSH_TIMEOUT_S:.0f} s")
    if failed:
        raise CheckFailed(f"{len(failed)} messages were not delivered, the first because: {failed[0].str()}")
    return rate


def await_all(conf: Mapping[str, Any], topic: str, partitions: int, count: int) -> None:
    """Waits until the partitions hold ``count`` messages; CheckFailed if they hold more, or don't in time."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    with Consumer(conf) as consumer:
        while True:
            marks = [
                consumer.get_watermark_offsets(TopicPartition(topic, number), IDLE_TIMEOUT_S)
                for number in range(partitions)
            ]
            held = sum(high - low for low, high in marks)
            if held == count:
                return
            if held > count or time.monotonic() >= deadline:
                raise CheckFailed(f"{count} messages were sent, the topic holds {held}")
            time.sleep(SETTLE_EVERY_S)


def consume_all(conf: Mapping[str, Any], topic: str, partitions: int, count: int, progress: Progress) -> Rate:
    """Consumes ``count`` messages from the beginning, and takes each one's value."""
    taken = 0
    with Consumer(conf) as consumer:
        consumer.assign(_everything(topic, partitions))
        first = consumer.poll(IDLE_TIMEOUT_S)  # connected, and the offsets found, before the clock starts
        messages = [] if first is None else [first]
        watch = Stopwatch()
        while True:
            if not messages:
                raise CheckFailed(f"only {taken} of {count} messages came back")
            for message in messages:
                message.value()
            taken += len(messages)
            _raise_error(messages[-1])  # a partition in trouble says so again and again: one look is enough here
            progress(len(messages))
            if taken >= count:
                break
            messages = consumer.consume(min(STEP_MESSAGES, count - taken), IDLE_TIMEOUT_S)
        size = len(messages[-1].value() or b"")
        return watch.rate(taken, taken * size)


Place = tuple[int, int, bytes]
"""(partition, offset, value)."""


def read_back(conf: Mapping[str, Any], topic: str, partitions: int, count: int, progress: Progress) -> Iterator[Place]:
    """Consumes ``count`` messages, for `check`; fewer when no more come."""
    taken = 0
    with Consumer(conf) as consumer:
        consumer.assign(_everything(topic, partitions))
        while taken < count:
            messages = consumer.consume(min(STEP_MESSAGES, count - taken), IDLE_TIMEOUT_S)
            if not messages:
                return
            for message in messages:
                value = message.value()
                if message.error() is not None or value is None:
                    _raise_error(message)
                    raise CheckFailed(f"a null came back, {_at(message.partition(), message.offset())}")
                yield message.partition() or 0, message.offset() or 0, value
            taken += len(messages)
            progress(len(messages))


def _everything(topic: str, partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)]


def _raise_error(message: Message) -> None:
    error = message.error()
    if error is not None:
        raise KafkaException(error)


def _at(partition: int | None, offset: int | None) -> str:
    return f"partition {partition}, offset {offset}"


def check(values: list[bytes], read: Iterable[Place]) -> str:
    """Compares what came back with what was sent: count, order in each partition, content.

    Returns the digest of what came back, in the order of production, or raises CheckFailed.
    """
    last: dict[int, tuple[int, int]] = {}
    back: list[bytes | None] = [None] * len(values)
    count = 0
    for partition, offset, value in read:
        number = number_of(value)
        if not 0 <= number < len(values):
            raise CheckFailed(f"what came back was never sent, {_at(partition, offset)}: {value[:200]!r}")
        if back[number] is not None:
            raise CheckFailed(f"message {number} came back twice, {_at(partition, offset)}")
        before_offset, before_number = last.get(partition, (-1, -1))
        if offset <= before_offset or number <= before_number:
            places = f"{_at(partition, offset)} after {before_offset}"
            raise CheckFailed(f"out of order: message {number} came after {before_number}, {places}")
        last[partition] = (offset, number)
        back[number] = value
        count += 1
    if count != len(values):
        raise CheckFailed(f"{len(values)} messages were sent, {count} came back")
    sent, returned = _digest(values), _digest(back)
    if sent != returned:
        number = next(number for number, value in enumerate(values) if value != back[number])
        raise CheckFailed(f"the content differs: digest {sent} was sent, {returned} came back; first, message {number}")
    return returned


def _digest(values: list[bytes] | list[bytes | None]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for start in range(0, len(values), STEP_MESSAGES):
        digest.update(b"".join(value for value in values[start : start + STEP_MESSAGES] if value is not None))
    return digest.hexdigest()


def latency(conf: Mapping[str, Any], topic: str, value: bytes, count: int) -> Latency:
    """Percentiles of `round_trips`."""
    ordered = sorted(round_trips(conf, topic, value, count))
    return Latency(*(percentile(ordered, share) for share in (0.5, 0.99, 0.999)))


def percentile(ordered: list[float], share: float) -> float:
    """The value that this share of sorted ones isn't above."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def round_trips(conf: Mapping[str, Any], topic: str, value: bytes, count: int) -> list[float]:
    """Milliseconds of single messages with linger.ms=0, one after the other; the first ones don't count."""
    taken: list[float] = []
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failed.append(error)
        taken.append((message.latency() or 0.0) * 1e3)

    with Producer({**_ready(conf), "linger.ms": 0}) as producer:
        for number in range(count + WARM_UP):
            producer.produce(topic, value, partition=0, on_delivery=on_delivery)
            while len(taken) <= number:
                producer.poll(1.0)
            if failed:
                raise KafkaException(failed[0])
    return taken[WARM_UP:]


def names(codecs: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """A topic for each codec, named after the time so that runs don't meet."""
    stamp = time.time_ns() // 1_000_000
    for codec in codecs:
        yield codec, f"kafka-native-perf-{stamp}-{codec}"
