"""The measurements of ``kafka-native perf``: rates of producing and consuming, and latency.

Two loops are timed. The first one calls produce() until the last acknowledgement. The second one
calls consume() and takes every value(). Making the values isn't timed, and neither is the check.
The check consumes everything again and compares each value with what was sent. So the rates are
the client's own.
"""

from __future__ import annotations

import hashlib
import random
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_native import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from kafka_native.admin import AdminClient, NewTopic
from kafka_native.terminal.lines import release_outages

STEP_MESSAGES = 10_000
"""Messages between two updates of the progress bar, and the limit of one consume()."""
QUEUE_MESSAGES = 1_000_000
FLUSH_TIMEOUT_S = 120.0
IDLE_TIMEOUT_S = 30.0
SETTLE_TIMEOUT_S = 10.0
"""Seconds until all messages are readable after the last acknowledgement. Needed for acks=0."""
SETTLE_EVERY_S = 0.05
WARM_UP = 100
"""Round trips before the measured ones."""
MIB = 1 << 20
TOPIC_TIMEOUT_S = 30.0

Progress = Callable[[int], None]


class CheckFailed(Exception):
    """The consumed messages differ from the sent ones."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The result of one timed loop."""

    messages: int
    bytes: int
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds

    @property
    def mib_per_second(self) -> float:
        """MiB of values per second."""
        return self.bytes / MIB / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU time of the whole process for one message, in microseconds."""
        return self.cpu_seconds / self.messages * 1e6


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from produce() to the acknowledgement, for one message at a time."""

    p50: float
    p99: float
    p999: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of one codec."""

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
    """Make ``count`` different values of ``size`` bytes, the same in every run.

    They are JSON like that of services: repeated names, random ids, words. Codecs compress a batch
    of them to between a third and a sixth, like real data.
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
    """The number of a payload, read from the value; -1 if the value has none."""
    digits = value[NUMBER]
    return int(digits) if digits.isdigit() else -1


class Stopwatch:
    """Measures time and CPU of this process since the object was made."""

    def __init__(self) -> None:
        self._cpu = self._used()
        self._started = time.perf_counter()

    @staticmethod
    def _used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def rate(self, messages: int, size: int) -> Rate:
        """The rate until now, of these messages with ``size`` bytes of values in total."""
        seconds = time.perf_counter() - self._started
        return Rate(messages, size, seconds, self._used() - self._cpu)


def _ready(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The producer's configuration. The caller's values override the default."""
    return {"queue.buffering.max.messages": QUEUE_MESSAGES, **conf}


def produce_all(
    conf: Mapping[str, Any], topic: str, values: list[bytes], progress: Progress
) -> Rate:
    """Produce every value in a loop. The clock stops at the last acknowledgement."""
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    reports = {"on_delivery": on_delivery, "delivery.report.only.error": True}
    with Producer({**_ready(conf), **reports}) as producer:
        producer.list_topics(topic, IDLE_TIMEOUT_S)  # connects before the clock starts
        release_outages()
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
            raise CheckFailed(
                f"{left} messages were not acknowledged within {FLUSH_TIMEOUT_S:.0f} s"
            )
    if failed:
        raise CheckFailed(
            f"{len(failed)} messages were not delivered, the first because: {failed[0].str()}"
        )
    return rate


def await_all(conf: Mapping[str, Any], topic: str, partitions: int, count: int) -> None:
    """Wait until the partitions hold ``count`` messages. CheckFailed after the timeout.

    It fails at once when they hold more.
    """
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


def consume_all(
    conf: Mapping[str, Any], topic: str, partitions: int, count: int, progress: Progress
) -> Rate:
    """Consume ``count`` messages from the beginning and take each value."""
    taken = 0
    with Consumer(conf) as consumer:
        consumer.assign(_everything(topic, partitions))
        # The first message: the client is connected and knows the offsets before the clock starts.
        first = consumer.poll(IDLE_TIMEOUT_S)
        messages = [] if first is None else [first]
        watch = Stopwatch()
        while True:
            if not messages:
                raise CheckFailed(f"only {taken} of {count} messages came back")
            for message in messages:
                message.value()
            taken += len(messages)
            # A failing partition repeats its error, so one message of each batch is checked.
            _raise_error(messages[-1])
            progress(len(messages))
            if taken >= count:
                break
            messages = consumer.consume(min(STEP_MESSAGES, count - taken), IDLE_TIMEOUT_S)
        size = len(messages[-1].value() or b"")
        return watch.rate(taken, taken * size)


ReadRecord = tuple[int, int, bytes]
"""(partition, offset, value)."""


def read_back(
    conf: Mapping[str, Any], topic: str, partitions: int, count: int, progress: Progress
) -> Iterator[ReadRecord]:
    """Consume ``count`` messages for `check`. It ends early when no more messages arrive."""
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
                    raise CheckFailed(
                        f"a null came back, {_at(message.partition(), message.offset())}"
                    )
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


def check(values: list[bytes], read: Iterable[ReadRecord]) -> str:
    """Compare the consumed with the sent messages: count, order in each partition, content.

    Returns the digest of the consumed messages in the order of producing. Raises CheckFailed.
    """
    last: dict[int, tuple[int, int]] = {}
    back: list[bytes | None] = [None] * len(values)
    count = 0
    for partition, offset, value in read:
        number = number_of(value)
        if not 0 <= number < len(values):
            raise CheckFailed(
                f"what came back was never sent, {_at(partition, offset)}: {value[:200]!r}"
            )
        if back[number] is not None:
            raise CheckFailed(f"message {number} came back twice, {_at(partition, offset)}")
        before_offset, before_number = last.get(partition, (-1, -1))
        if offset <= before_offset or number <= before_number:
            places = f"{_at(partition, offset)} after {before_offset}"
            raise CheckFailed(
                f"out of order: message {number} came after {before_number}, {places}"
            )
        last[partition] = (offset, number)
        back[number] = value
        count += 1
    if count != len(values):
        raise CheckFailed(f"{len(values)} messages were sent, {count} came back")
    sent, returned = _digest(values), _digest(back)
    if sent != returned:
        number = next(number for number, value in enumerate(values) if value != back[number])
        raise CheckFailed(
            f"the content differs: digest {sent} was sent, {returned} came back; first, "
            f"message {number}"
        )
    return returned


def _digest(values: list[bytes] | list[bytes | None]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for start in range(0, len(values), STEP_MESSAGES):
        digest.update(
            b"".join(value for value in values[start : start + STEP_MESSAGES] if value is not None)
        )
    return digest.hexdigest()


def latency(conf: Mapping[str, Any], topic: str, value: bytes, count: int) -> Latency:
    """The percentiles of `round_trips`."""
    ordered = sorted(round_trips(conf, topic, value, count))
    return Latency(*(percentile(ordered, share) for share in (0.5, 0.99, 0.999)))


def percentile(ordered: list[float], share: float) -> float:
    """The value at a percentile of sorted values."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def round_trips(conf: Mapping[str, Any], topic: str, value: bytes, count: int) -> list[float]:
    """Milliseconds of single messages, one after the other, with linger.ms=0.

    The first `WARM_UP` messages don't count.
    """
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


# --- topics ---


def codec_topics(codecs: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield a codec and its topic. The time in the name makes the topics of each run unique."""
    stamp = time.time_ns() // 1_000_000
    for codec in codecs:
        yield codec, f"kafka-native-perf-{stamp}-{codec}"


def create_topic(
    admin: AdminClient, name: str, partitions: int, timeout_s: float = TOPIC_TIMEOUT_S
) -> None:
    """Create a topic with replication factor 1; KafkaException if the cluster refuses."""
    try:
        admin.create_topics([NewTopic(name, partitions, 1)], request_timeout=timeout_s)[
            name
        ].result()
    except KafkaException as refusal:
        raise _reported(refusal, f"topic {name} can't be made") from refusal


def delete_topic(admin: AdminClient, name: str, timeout_s: float = TOPIC_TIMEOUT_S) -> None:
    """Delete a topic; KafkaException if the cluster refuses."""
    try:
        admin.delete_topics([name], request_timeout=timeout_s)[name].result()
    except KafkaException as refusal:
        raise _reported(refusal, f"topic {name} can't be deleted") from refusal


def _reported(refusal: KafkaException, what: str) -> KafkaException:
    error: KafkaError = refusal.args[0]
    return KafkaException(KafkaError(error.code(), f"{what}: {error.str()}"), hint=refusal.hint)
