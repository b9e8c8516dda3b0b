"""The work of a client while one of its allocations fails, on the mock cluster of another process.

A scenario has two halves. The judge's process prepares topics and faults. The client's process
runs, with its own topics, groups and transactional ids.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from kafka_native import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from kafka_native.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from kafka_native.aio import AIOConsumer, AIOProducer
from kafka_native.arrow import Columns
from kafka_native.codecs import Avro
from kafka_native.internal import keep_batches, open_relay, take_batches
from kafka_native.mock import CLOSE_CONNECTION, ListenerSecurity, MockCluster
from kafka_native.mock.versions import of_release
from kafka_native.protocol import ApiKey
from tests.oom import typed
from tests.oom.steps import BadEndingError, Reports, Run

COUNT = 60
PARTITIONS = 3


# --- producing ---


def _produce(run: Run, count: int = COUNT, **conf: Any) -> None:
    """Produce small and large messages to two topics, then more on the same client."""
    with run.client("Producer()", lambda: Producer(run.conf(**conf))) as producer:
        reports = Reports(run)
        for number in range(count):
            _produce_one(run, producer, reports, number)
            if number % 10 == 9:
                run.step("poll", lambda: producer.poll(0))
        _flush(run, producer, reports)
        for number in range(count, count + 6):
            _produce_one(run, producer, reports, number)
        _flush(run, producer, reports)
        last = [str(number) for number in range(count, count + 6)]
        acked = {name for names in run.acked.values() for name in names}
        if not acked.issuperset(last):
            raise BadEndingError(
                f"the client doesn't work any more: only {acked.intersection(last)} of {last}"
            )


def _produce_one(run: Run, producer: Producer, reports: Reports, number: int) -> None:
    name = str(number)
    value = name.ljust((10, 200, 9000)[number % 3], ".")
    topic = run.topic("ab"[number % 2])
    headers = {"name": name} if number % 5 == 0 else None
    key = name if number % 2 else None
    run.step(
        "produce",
        lambda: producer.produce(
            topic, value, key, headers=headers, on_delivery=reports.on_delivery
        ),
    )
    reports.accepted[name] += 1


def _flush(run: Run, producer: Producer, reports: Reports) -> None:
    run.until("flush", lambda: producer.flush(run.limit_s), lambda: len(producer) == 0)
    reports.check()


def produce(run: Run) -> None:
    _produce(run, linger_ms=5, batch_num_messages=7)


def produce_idempotent(run: Run) -> None:
    _produce(run, enable_idempotence=True, compression_type="zstd", linger_ms=1)


def produce_observed(run: Run) -> None:
    """Produce with all observers: statistics, the log, metrics."""
    seen: list[str] = []
    _produce(
        run, statistics_interval_ms=20, stats_cb=seen.append, debug="all", compression_type="lz4"
    )


def produce_codecs(run: Run) -> None:
    for codec in ("gzip", "snappy"):
        _produce(run, 20, compression_type=codec, linger_ms=1)


def produce_purged(run: Run) -> None:
    """Purge unsendable messages, then continue with the client."""
    with run.client("Producer()", lambda: Producer(run.conf(linger_ms=60000))) as producer:
        reports = Reports(run)
        for number in range(20):
            _produce_one(run, producer, reports, number)
        run.step("purge", producer.purge)
        _flush(run, producer, reports)
        _produce_one(run, producer, reports, 20)
        _flush(run, producer, reports)


def prepare_produce(cluster: MockCluster, prefix: str) -> None:
    """Prepare a leader that refuses, too large batches, and a connection that ends."""
    for name in "ab":
        cluster.create_topic(f"{prefix}-{name}", PARTITIONS)
    cluster.push_request_errors(
        ApiKey.PRODUCE, [KafkaError.NOT_LEADER_FOR_PARTITION], topic=f"{prefix}-a"
    )
    cluster.push_request_errors(
        ApiKey.PRODUCE, [0, KafkaError.MSG_SIZE_TOO_LARGE], topic=f"{prefix}-b"
    )
    cluster.push_request_errors(ApiKey.PRODUCE, [0, 0, 0, CLOSE_CONNECTION])


# --- consuming ---


def fill(cluster: MockCluster, topic: str, count: int = COUNT, **conf: Any) -> None:
    """Produce numbers as text, in batches of five."""
    cluster.create_topic(topic, PARTITIONS)
    settings = {name.replace("_", "."): value for name, value in conf.items()}
    with Producer({**conf_of(cluster), "batch.num.messages": 5, **settings}) as producer:
        for number in range(count):
            producer.produce(topic, str(number), partition=number % PARTITIONS)


def prepare_consume(cluster: MockCluster, prefix: str) -> None:
    fill(cluster, f"{prefix}-a")
    fill(cluster, f"{prefix}-b", compression_type="zstd")
    cluster.push_request_errors(
        ApiKey.FETCH, [0, KafkaError.NOT_LEADER_FOR_PARTITION], topic=f"{prefix}-a"
    )
    cluster.push_request_errors(ApiKey.FETCH, [0, 0, 0, CLOSE_CONNECTION])


def prepare_old(cluster: MockCluster, prefix: str) -> None:
    fill(cluster, f"{prefix}-a")
    fill(cluster, f"{prefix}-b", compression_type="gzip")


class TakenValues:
    """Values of messages, by topic."""

    def __init__(self) -> None:
        self.values: dict[str, list[str]] = {}

    def add(self, messages: list[Message]) -> None:
        for message in messages:
            if not message.error():
                self.values.setdefault(str(message.topic()), []).append(
                    (message.value() or b"").decode()
                )

    def has(self, topics: list[str], count: int = COUNT) -> bool:
        return all(len(set(self.values.get(topic, []))) >= count for topic in topics)

    def check_once(self) -> None:
        """Check that no value comes twice, and that they are in order."""
        for topic, values in self.values.items():
            for partition in range(PARTITIONS):
                numbers = [int(value) for value in values if int(value) % PARTITIONS == partition]
                if numbers != sorted(set(numbers)):
                    raise BadEndingError(f"{topic} [{partition}]: not once and in order: {numbers}")


def consume(run: Run) -> None:
    topics = [run.topic("a"), run.topic("b")]
    partitions = [
        TopicPartition(topic, number, OFFSET_BEGINNING)
        for topic in topics
        for number in range(PARTITIONS)
    ]
    with run.client(
        "Consumer()", lambda: Consumer(run.conf(fetch_wait_max_ms=20, queued_min_messages=10))
    ) as consumer:
        taken = TakenValues()
        run.step("assign", lambda: consumer.assign(partitions))
        run.until(
            "consume", lambda: taken.add(consumer.consume(20, 0.5)), lambda: taken.has(topics)
        )
        taken.check_once()
        again = TakenValues()
        for partition in partitions:
            run.step("seek", lambda partition=partition: consumer.seek(partition))  # type: ignore[misc]
        run.until(
            "consume again", lambda: again.add(consumer.consume(20, 0.5)), lambda: again.has(topics)
        )
        run.step("offsets", lambda: consumer.get_watermark_offsets(partitions[0], run.limit_s))


def consume_arrow(run: Run) -> None:
    _consume_columns(
        run,
        {
            "topic": None,
            "partition": None,
            "offset": None,
            "key": "string",
            "value": "string_view",
            "headers": None,
        },
    )


def consume_typed(run: Run) -> None:
    # The first two digits of a number. A number of one digit doesn't decode.
    digits = {"type": "fixed", "name": "Digits", "size": 2}
    schema = {"type": "record", "name": "Value", "fields": [{"name": "digits", "type": digits}]}
    codec = run.step("Avro()", lambda: Avro(schema=schema))
    columns = {"topic": None, "partition": None, "offset": None, "value": None}
    _consume_columns(run, columns, value=codec, on_error="column", flatten=True)


def _consume_columns(run: Run, columns: Columns, **how: Any) -> None:
    import pyarrow as pa  # its import takes a while, and the others don't need it

    topics = [run.topic("a"), run.topic("b")]
    partitions = [
        TopicPartition(topic, number, OFFSET_BEGINNING)
        for topic in topics
        for number in range(PARTITIONS)
    ]
    with run.client("Consumer()", lambda: Consumer(run.conf(fetch_wait_max_ms=20))) as consumer:
        seen: set[tuple[str, int, int]] = set()

        def take() -> None:
            batch = consumer.consume_arrow(50, 0.5, columns=columns, **how)
            found = run.step("pyarrow", lambda: pa.record_batch(batch))
            seen.update(
                (row["topic"], row["partition"], row["offset"]) for row in found.to_pylist()
            )

        run.step("assign", lambda: consumer.assign(partitions))
        run.until("consume_arrow", take, lambda: len(seen) == 2 * COUNT)


def prepare_formats(cluster: MockCluster, prefix: str) -> None:
    """Fill a topic of nested records for each format."""
    for name in typed.FORMATS:
        topic = f"{prefix}-{name}"
        cluster.create_topic(topic, PARTITIONS)
        with Producer({**conf_of(cluster), "batch.num.messages": 5}) as producer:
            for number, payload in enumerate(typed.payloads(name)):
                producer.produce(topic, payload, partition=number % PARTITIONS)


def consume_formats(run: Run) -> None:
    """Decode nested records of each format. A failed allocation isn't an error of the record."""
    for name in typed.FORMATS:
        codec = run.step(name, lambda name=name: typed.codec(name))  # type: ignore[misc]
        with run.client("Consumer()", lambda: Consumer(run.conf(fetch_wait_max_ms=20))) as consumer:
            partitions = [
                TopicPartition(run.topic(name), number, OFFSET_BEGINNING)
                for number in range(PARTITIONS)
            ]
            run.step("assign", lambda: consumer.assign(partitions))  # noqa: B023
            rows = _decoded_rows(run, consumer, codec, typed.COUNT)
        if sorted(rows, key=itemgetter("id")) != [typed.row(each) for each in range(typed.COUNT)]:
            raise BadEndingError(f"{name}: not each record once: {[each['id'] for each in rows]}")


def _decoded_rows(run: Run, consumer: Consumer, codec: Any, count: int) -> list[dict[str, Any]]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = []

    def take() -> None:
        batch = consumer.consume_arrow(
            25, 0.5, columns=["value"], value=codec, on_error="column", flatten=True
        )
        for each in run.step("pyarrow", lambda: pa.record_batch(batch)).to_pylist():
            if reason := each.pop("value_error"):
                raise BadEndingError(f"a good record doesn't decode: {reason}")
            rows.append(each)

    run.until("consume_arrow", take, lambda: len(rows) >= count)
    return rows


def _consume_group(run: Run, **conf: Any) -> None:
    topics = [run.topic("a"), run.topic("b")]
    base = {
        "group_id": run.topic("group"),
        "auto_offset_reset": "earliest",
        "fetch_wait_max_ms": 20,
        **conf,
    }
    with run.client("Consumer()", lambda: Consumer(run.conf(**base))) as consumer:
        taken = TakenValues()
        run.step("subscribe", lambda: consumer.subscribe(topics))
        run.until(
            "consume", lambda: taken.add(consumer.consume(20, 0.5)), lambda: taken.has(topics)
        )
        run.step("commit", lambda: consumer.commit(asynchronous=False))


def group_classic(run: Run) -> None:
    _consume_group(run, heartbeat_interval_ms=100)


def group_consumer(run: Run) -> None:
    _consume_group(run, group_protocol="consumer")


def share(run: Run) -> None:
    topics = [run.topic("a"), run.topic("b")]
    with run.client(
        "ShareConsumer()", lambda: ShareConsumer(run.conf(group_id=run.topic("share")))
    ) as consumer:
        taken = TakenValues()
        run.step("subscribe", lambda: consumer.subscribe(topics))
        run.until("poll", lambda: taken.add(consumer.poll(0.5)), lambda: taken.has(topics))
        run.step("commit_sync", lambda: consumer.commit_sync(run.limit_s))


def prepare_share(cluster: MockCluster, prefix: str) -> None:
    cluster.share.settings.auto_offset_reset = "earliest"
    fill(cluster, f"{prefix}-a")
    fill(cluster, f"{prefix}-b", compression_type="zstd")


# --- both ---


def transactions(run: Run) -> None:
    """Copy a topic in transactions, one aborted, with offsets. A reader sees each message once."""
    source, target = run.topic("a"), run.topic("copy")
    conf = run.conf(
        group_id=run.topic("group"), auto_offset_reset="earliest", enable_auto_commit=False
    )
    with run.client("Consumer()", lambda: Consumer(conf)) as consumer:
        taken = TakenValues()
        run.step("subscribe", lambda: consumer.subscribe([source]))
        run.until(
            "consume", lambda: taken.add(consumer.consume(20, 0.5)), lambda: taken.has([source])
        )
        done = False
        deadline = time.monotonic() + 3 * run.limit_s
        while not done and time.monotonic() < deadline:
            done = _copy(run, consumer, taken.values[source], target)
        if not done:
            raise BadEndingError(f"no transaction comes to its end: {run.raised}")
    _check_copies(run, target)


def _copy(run: Run, consumer: Consumer, values: list[str], target: str) -> bool:
    """Abort a transaction and commit another. Return whether the commit succeeded."""
    conf = run.conf(transactional_id=run.topic("id"), linger_ms=1)
    with run.client("Producer()", lambda: Producer(conf)) as producer:
        raised = len(run.raised)
        run.step("init", lambda: producer.init_transactions(run.limit_s))
        for attempt in ("abort", "commit"):
            run.step("begin", producer.begin_transaction)
            for value in values:
                run.step("produce", lambda value=value: producer.produce(target, value))  # type: ignore[misc]
            group = run.step("group metadata", consumer.consumer_group_metadata)
            offsets = [TopicPartition(run.topic("a"), 0, COUNT // PARTITIONS)]
            try:
                if attempt == "abort":
                    producer.abort_transaction(run.limit_s)
                    continue
                producer.send_offsets_to_transaction(offsets, group, run.limit_s)
                producer.commit_transaction(run.limit_s)
                return True
            except Exception as error:
                if not run.has_failed():
                    raise
                run.raised.append(f"{attempt}: {error!r}")
                if len(run.raised) > raised + 4:
                    raise BadEndingError(f"fails again and again: {run.raised}") from error
                run.step("abort", lambda: producer.abort_transaction(run.limit_s))
                return False
        return False


def _check_copies(run: Run, target: str) -> None:
    with run.client(
        "Consumer()", lambda: Consumer(run.conf(isolation_level="read_committed"))
    ) as consumer:
        taken = TakenValues()
        partitions = [
            TopicPartition(target, number, OFFSET_BEGINNING) for number in range(PARTITIONS)
        ]
        run.step("assign", lambda: consumer.assign(partitions))
        run.until(
            "read committed",
            lambda: taken.add(consumer.consume(20, 0.5)),
            lambda: taken.has([target]),
        )
        if len(taken.values[target]) != COUNT:
            raise BadEndingError(f"{len(taken.values[target])} copies of {COUNT}")


def prepare_transactions(cluster: MockCluster, prefix: str) -> None:
    fill(cluster, f"{prefix}-a")
    cluster.create_topic(f"{prefix}-copy", PARTITIONS)


def admin(run: Run) -> None:
    topic, limit_s = run.topic("new"), run.limit_s
    with run.client("AdminClient()", lambda: AdminClient(run.conf())) as client:
        resource = ConfigResource(ResourceType.TOPIC, topic)

        def create() -> None:
            try:
                client.create_topics([NewTopic(topic, 2)], request_timeout=limit_s)[topic].result(
                    limit_s
                )
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

        run.step("create_topics", create)
        run.step("list_topics", lambda: client.list_topics(timeout=limit_s))
        run.step(
            "configs",
            lambda: client.describe_configs([resource], request_timeout=limit_s)[resource].result(
                limit_s
            ),
        )
        run.step(
            "list_groups",
            lambda: client.list_consumer_groups(request_timeout=limit_s).result(limit_s),
        )
        run.step(
            "cluster", lambda: client.describe_cluster(request_timeout=limit_s).result(limit_s)
        )


def produce_arrow(run: Run) -> None:
    import pyarrow as pa

    topic = run.topic("a")
    names = [str(number) for number in range(COUNT)]
    headers = pa.list_(
        pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    )
    columns = {
        "key": pa.array(
            [None if number % 3 else name for number, name in enumerate(names)], pa.string()
        ),
        "value": pa.array([name.ljust(300, ".") for name in names], pa.string()),
        "headers": pa.array([[{"key": "n", "value": name.encode()}] for name in names], headers),
    }
    table = pa.table(columns)
    with run.client("Producer()", lambda: Producer(run.conf(linger_ms=5))) as producer:
        for _ in range(2):
            # also those of calls that failed after some rows, in any order
            reports: list[Any] = []
            send = partial(producer.produce_arrow, topic, table, on_delivery=reports.append)
            rows = run.step("produce_arrow", send)
            run.until("flush", lambda: producer.flush(run.limit_s), lambda: len(producer) == 0)
            if rows not in [each.rows for each in reports]:
                raise BadEndingError(f"{rows} rows, and the reports {reports}")


def produce_typed(run: Run) -> None:
    """Encode keys and values with Avro."""
    _produce_typed(run, "avro", run.step("Avro()", lambda: Avro(schema="string")))


def produce_json(run: Run) -> None:
    _produce_typed(run, "json")


def produce_protobuf(run: Run) -> None:
    _produce_typed(run, "protobuf")


def produce_guid(run: Run) -> None:
    """Encode values with Avro, with the schema's GUID in a header of each message."""
    _produce_typed(run, "guid")


def _produce_typed(run: Run, name: str, key: Any = None) -> None:
    """Encode the rows of two chunks. Each record in the log is a whole one."""
    import pyarrow as pa

    topic = run.topic("a")
    rows = [typed.row(number) for number in range(typed.COUNT)]
    columns = {"value": pa.array(rows)}
    if key is not None:
        columns["key"] = pa.array([f"k{each['id']}" for each in rows])
    table = pa.table(columns)
    table = pa.concat_tables([table[:20], table[20:]])
    value = run.step(name, lambda: typed.codec(name))
    with run.client("Producer()", lambda: Producer(run.conf(linger_ms=5))) as producer:
        reports: list[Any] = []

        def send() -> int:
            return producer.produce_arrow(
                topic, table, value=value, key=key, on_delivery=reports.append
            )

        sent = sum(run.step("produce_arrow", send) for _ in range(2))
        run.until("flush", lambda: producer.flush(run.limit_s), lambda: len(producer) == 0)
        if sent != 2 * len(rows) or sum(each.rows for each in reports) < sent:
            raise BadEndingError(f"{sent} rows, and the reports {reports}")
        delivered = sum(each.delivered for each in reports)
    with run.client("Consumer()", lambda: Consumer(run.conf(fetch_wait_max_ms=20))) as consumer:
        partitions = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)]
        run.step("assign", lambda: consumer.assign(partitions))
        found = Counter(row["id"] for row in _checked_rows(run, consumer, value, delivered))
    if delivered == sum(each.rows for each in reports) and min(found.values()) < 2:
        raise BadEndingError(f"a row is missing: {found}")


def _checked_rows(run: Run, consumer: Consumer, codec: Any, count: int) -> list[dict[str, Any]]:
    rows = _decoded_rows(run, consumer, codec, count)
    for each in rows:
        if each != typed.row(each["id"]):
            raise BadEndingError(f"not the row that was sent: {each}")
    return rows


def relay(run: Run) -> None:
    """Relay unopened batches of a consumer to another topic."""
    with (
        run.client("Consumer()", lambda: Consumer(run.conf(fetch_wait_max_ms=20))) as consumer,
        run.client("Producer()", lambda: Producer(run.conf())) as producer,
    ):
        run.step("keep", lambda: keep_batches(consumer))
        run.step(
            "assign", lambda: consumer.assign([TopicPartition(run.topic("b"), 0, OFFSET_BEGINNING)])
        )
        with run.step("open_relay", lambda: open_relay(producer, run.topic("copy"), 0)) as relaying:
            given: list[Any] = []
            while relaying.rows < COUNT // PARTITIONS:
                run.until(
                    "take",
                    lambda: given.append(take_batches(consumer, 0.5)),
                    lambda: given and given[-1],
                )
                run.step("give", lambda: relaying.give(given[-1], 0, 1 << 60))
                run.until(
                    "run",
                    lambda: producer.poll(0),
                    lambda: run.step("run", lambda: relaying.run(1 << 40, 0.2)),
                )
                given.clear()
        run.until("flush", lambda: producer.flush(run.limit_s), lambda: len(producer) == 0)
        if relaying.error is None and relaying.delivered != relaying.rows:
            raise BadEndingError(
                f"{relaying.delivered} of {relaying.rows} rows delivered, and no error"
            )


def prepare_relay(cluster: MockCluster, prefix: str) -> None:
    prepare_consume(cluster, prefix)
    cluster.create_topic(f"{prefix}-copy")
    cluster.push_request_errors(
        ApiKey.PRODUCE, [KafkaError.MSG_SIZE_TOO_LARGE], topic=f"{prefix}-copy"
    )


def asynchronous(run: Run) -> None:
    """The same with coroutines: a producer and a consumer."""
    topic = run.topic("a")

    async def main() -> None:
        async with AIOProducer(run.conf()) as producer:
            deliveries = [
                await producer.produce(topic, str(COUNT + number)) for number in range(20)
            ]
            await producer.flush(run.limit_s)
            for delivery in deliveries:
                await delivery
        async with AIOConsumer(
            run.conf(group_id=run.topic("aio"), auto_offset_reset="earliest")
        ) as consumer:
            await consumer.assign(
                [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
            )
            taken = TakenValues()
            deadline = time.monotonic() + run.limit_s
            while not taken.has([topic]):
                taken.add(await consumer.consume(20, 0.5))
                if time.monotonic() > deadline:
                    raise BadEndingError(f"consume: nothing comes of it in {run.limit_s} s")

    run.step("asyncio", lambda: asyncio.run(main()))


def prepare_nothing(cluster: MockCluster, prefix: str) -> None:
    """The scenario makes what it needs."""


@dataclass(frozen=True)
class Scenario:
    """``prepare`` runs in the judge's process, ``run`` in the client's.

    ``cluster`` is in `CLUSTERS`.
    """

    prepare: Callable[[MockCluster, str], None]
    run: Callable[[Run], None]
    cluster: str = "plain"


CLUSTERS: dict[str, Callable[[], MockCluster]] = {
    "plain": lambda: MockCluster(2),
    "tls": lambda: MockCluster(2, security=ListenerSecurity("ssl")),
    "old": lambda: MockCluster(2, max_versions=of_release("0.10.2")),
}


def conf_of(cluster: MockCluster) -> dict[str, str]:
    """Return the configuration of clients of this cluster."""
    secured = (
        {"security.protocol": "ssl", "ssl.ca.pem": cluster.ca_pem}
        if cluster.tls is not None
        else {}
    )
    return {"bootstrap.servers": cluster.bootstrap_servers, **secured}


SCENARIOS: dict[str, Scenario] = {
    "produce": Scenario(prepare_produce, produce),
    "produce_idempotent": Scenario(prepare_produce, produce_idempotent),
    "produce_observed": Scenario(prepare_produce, produce_observed),
    "produce_codecs": Scenario(prepare_produce, produce_codecs),
    "produce_purged": Scenario(prepare_produce, produce_purged),
    "produce_tls": Scenario(prepare_produce, produce, "tls"),
    "produce_old": Scenario(prepare_produce, produce_codecs, "old"),
    "produce_arrow": Scenario(prepare_produce, produce_arrow),
    "produce_typed": Scenario(prepare_produce, produce_typed),
    "produce_json": Scenario(prepare_produce, produce_json),
    "produce_protobuf": Scenario(prepare_produce, produce_protobuf),
    "produce_guid": Scenario(prepare_produce, produce_guid),
    "consume": Scenario(prepare_consume, consume),
    "consume_old": Scenario(prepare_old, consume, "old"),
    "consume_arrow": Scenario(prepare_consume, consume_arrow),
    "consume_typed": Scenario(prepare_consume, consume_typed),
    "consume_formats": Scenario(prepare_formats, consume_formats),
    "group_classic": Scenario(prepare_consume, group_classic),
    "group_consumer": Scenario(prepare_consume, group_consumer),
    "share": Scenario(prepare_share, share),
    "asyncio": Scenario(prepare_consume, asynchronous),
    "transactions": Scenario(prepare_transactions, transactions),
    "admin": Scenario(prepare_nothing, admin),
    "relay": Scenario(prepare_relay, relay),
}


# --- a scenario that must fail ---


def crash(run: Run) -> None:
    with run.client("Producer()", lambda: Producer(run.conf())):
        if run.raised:
            os.abort()


def hang(run: Run) -> None:
    with run.client("Producer()", lambda: Producer(run.conf())):
        while run.raised:
            time.sleep(0.1)


def forget(run: Run) -> None:
    """Report a message as delivered that was never sent."""
    with run.client("Producer()", lambda: Producer(run.conf())):
        if run.raised:
            run.acked[run.topic("a")] = ["never sent"]


BAD: dict[str, Scenario] = {
    each.__name__: Scenario(prepare_produce, each) for each in (crash, hang, forget)
}
