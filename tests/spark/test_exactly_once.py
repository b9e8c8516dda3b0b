"""Micro-batches as transactions: step by step in both versions of the protocol, then in Spark."""

from __future__ import annotations

import pickle
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import StringType, StructField, StructType

from kafka_native import KafkaError, KafkaException, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.mock.transactions import State
from kafka_native.protocol import ApiKey
from kafka_native.spark import by_partition, exactly_once, producers
from kafka_native.spark.errors import OptionError
from kafka_native.spark.exactly_once import BatchTransaction, ExactlyOnceError, TaskAttempt
from kafka_native.spark.options import SinkOptions
from kafka_native.spark.partitioning import _partitioned
from kafka_native.spark.writers import SchemaError, WriteError, batch_writer, stream_writer
from kafka_native.types import ConsumerGroupTopicPartitions, murmur2
from tests.spark.micro_batches import SCHEMA, MicroBatch, as_spark_passes, run, seen, task_context
from tests.spark.streams import TOO_SLOW, completed, wait_for
from tests.spark.support import FORMAT, Kafka, needs_limits

ID = "tx"
NO_OPTIONS: Mapping[str, str] = {}
QUICK_RETRIES = {"kafka.retry.backoff.ms": "10", "kafka.reconnect.backoff.ms": "10"}


@pytest.fixture(params=[1, 2])
def cluster(request: pytest.FixtureRequest) -> Iterator[MockCluster]:
    """Yield two brokers with a topic of three partitions, without clients of earlier tests."""
    with MockCluster(
        brokers=2, auto_create_topics=False, transaction_version=request.param
    ) as running:
        running.create_topic("t", 3)
        yield running
        producers.close_idle()
        exactly_once.close_idle()


def options_of(cluster: MockCluster, **more: str) -> dict[str, str]:
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.transactional.id": ID,
        "topic": "t",
        **QUICK_RETRIES,
    }
    return {**options, **{f"kafka.{name.replace('_', '.')}": value for name, value in more.items()}}


def committed(cluster: MockCluster, topic: str = "t") -> dict[int, list[str]]:
    return seen(cluster.bootstrap_servers, topic, 3)


def state(cluster: MockCluster) -> State:
    found = cluster.transactions.find(ID)
    assert found is not None
    return found.state


# --- the protocol, step by step ---


def test_rows_of_all_tasks_are_seen_at_once_and_only_when_the_driver_commits(
    cluster: MockCluster,
) -> None:
    batch = MicroBatch(options_of(cluster), 0)
    batch.task(0, {0: ["a", "b"], 2: ["c"]})
    assert batch.task(1, {1: ["d"]}).partitions == {("t", 1)}
    assert seen(cluster.bootstrap_servers, "t", 3, "read_uncommitted") == {
        0: ["a", "b"],
        1: ["d"],
        2: ["c"],
    }
    assert committed(cluster) == {}
    batch.commit()
    assert committed(cluster) == {0: ["a", "b"], 1: ["d"], 2: ["c"]}
    run(options_of(cluster), 1, {0: ["e"], 1: ["f"]})
    assert committed(cluster) == {0: ["a", "b", "e"], 1: ["d", "f"], 2: ["c"]}
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        found = (
            admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(ID)])[ID]
            .result()
            .topic_partitions
        )
    assert found is not None
    assert [(each.topic, each.partition, each.offset, each.metadata) for each in found] == [
        ("t", 0, 2, "q")
    ]


def test_batch_repeated_after_its_commit_writes_nothing(cluster: MockCluster) -> None:
    run(options_of(cluster), 7, {0: ["a"], 1: ["b"]})
    produced = len(cluster.requests_of(ApiKey.PRODUCE))
    again = MicroBatch(options_of(cluster), 7)
    assert [again.task(number, {number: ["other rows"]}).rows for number in (0, 1)] == [0, 0]
    again.commit()
    assert committed(cluster) == {0: ["a"], 1: ["b"]}
    assert len(cluster.requests_of(ApiKey.PRODUCE)) == produced
    run(options_of(cluster), 8, {0: ["c"]})
    assert committed(cluster) == {0: ["a", "c"], 1: ["b"]}


@pytest.mark.parametrize("tasks", [0, 1, 2])
def test_only_repetition_of_uncommitted_batch_is_seen(cluster: MockCluster, tasks: int) -> None:
    """The driver stops after this number of tasks, and continues too late."""
    run(options_of(cluster), 0, {0: ["a"]})
    dead = MicroBatch(options_of(cluster), 1)
    for number in range(tasks):
        dead.task(number, {number: [f"lost {number}"]})
    again = MicroBatch(options_of(cluster), 1)
    with pytest.raises(ExactlyOnceError, match="was started after this one"):
        dead.task(2, {2: ["late"]})
    again.task(0, {0: ["b"], 1: ["c"]})
    if tasks:
        with pytest.raises(
            ExactlyOnceError, match=r"micro-batch 1 can't be committed: its transaction is over \("
        ):
            dead.commit()
        dead.abort()  # doesn't end the other one
    again.commit()
    assert committed(cluster) == {0: ["a", "b"], 1: ["c"]}


def test_failed_batch_is_aborted_at_once(cluster: MockCluster) -> None:
    batch = MicroBatch(options_of(cluster), 0)
    batch.task(0, {0: ["lost"]})
    batch.abort()
    assert state(cluster) is State.ABORTED
    run(options_of(cluster), 0, {0: ["a"]})
    assert committed(cluster) == {0: ["a"]}


def test_failed_batch_without_task_messages_is_aborted_by_next_start(cluster: MockCluster) -> None:
    batch = MicroBatch(options_of(cluster), 0)
    batch.task(0, {0: ["lost"]})
    batch.messages.clear()
    batch.abort()
    assert state(cluster) is State.ONGOING
    MicroBatch(options_of(cluster), 0)
    assert state(cluster) is not State.ONGOING


def test_batch_without_rows_ends_without_a_transaction(cluster: MockCluster) -> None:
    batch = MicroBatch(options_of(cluster), 0)
    batch.task(0, {})
    batch.commit()
    assert not cluster.requests_of(ApiKey.END_TXN)
    assert not cluster.requests_of(ApiKey.OFFSET_COMMIT)


@pytest.mark.parametrize("answered", [False, True], ids=["request lost", "answer lost"])
@pytest.mark.parametrize(
    "api", [ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN]
)
def test_connection_that_breaks_at_a_step_costs_nothing(
    cluster: MockCluster, api: ApiKey, answered: bool
) -> None:
    cluster.push_request_errors(api, [CLOSE_CONNECTION], done=answered)
    run(options_of(cluster), 0, {0: ["a"], 1: ["b"]})
    run(options_of(cluster), 1, {0: ["c"], 1: ["d"]})
    assert committed(cluster) == {0: ["a", "c"], 1: ["b", "d"]}


def test_coordinator_that_moves_in_the_middle(cluster: MockCluster) -> None:
    batch = MicroBatch(options_of(cluster), 0)
    batch.task(0, {0: ["a"]})
    for api in (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN):
        cluster.push_request_errors(
            api, [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]
        )
    batch.task(1, {1: ["b"]})
    batch.commit()
    assert committed(cluster) == {0: ["a"], 1: ["b"]}


def test_rows_name_their_topics(cluster: MockCluster) -> None:
    cluster.create_topic("u", 1)
    options = options_of(cluster)
    del options["topic"]
    batch = MicroBatch(options, 0)
    batch.task(0, {0: ["a"]}, "t")
    batch.task(1, {0: ["b"]}, "u")
    batch.commit()
    assert (committed(cluster), seen(cluster.bootstrap_servers, "u", 1)) == ({0: ["a"]}, {0: ["b"]})
    again = MicroBatch(options, 0)
    assert again.task(0, {0: ["a"]}, "u").rows == 0


def test_query_with_another_checkpoint_starts_again(cluster: MockCluster) -> None:
    """Both queries have the same batch ids. The query's id distinguishes them."""
    run(options_of(cluster), 5, {0: ["a"]}, "first")
    run(options_of(cluster), 5, {0: ["b"]}, "second")
    run(options_of(cluster), 5, {0: ["c"]}, "second")
    assert committed(cluster) == {0: ["a", "b"]}


# --- who may write to a partition ---


def test_task_that_is_tried_again_fails_the_batch(cluster: MockCluster) -> None:
    batch = MicroBatch(options_of(cluster), 0)
    batch.task(0, {0: ["a"]})
    with pytest.raises(
        ExactlyOnceError,
        match=r"task 0 was run again in one micro-batch .* t \[0\].*spark.speculation",
    ):
        batch.task(0, {0: ["a"]}, attempt=1)
    again = MicroBatch(options_of(cluster), 0)
    again.task(0, {0: ["a"]}, attempt=1)  # the first attempt had failed
    again.commit()
    assert committed(cluster) == {0: ["a"]}


def test_two_tasks_with_rows_for_one_partition_are_an_error(cluster: MockCluster) -> None:
    batch = MicroBatch(options_of(cluster), 0)
    batch.task(3, {0: ["a"], 1: ["b"]})
    with pytest.raises(
        ExactlyOnceError, match=r"tasks 3 and 4 .* have rows for t \[1\]: .*by_partition"
    ) as caught:
        batch.task(4, {1: ["c"], 2: ["d"]})
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), ExactlyOnceError)
    for number in (3, 4):  # Spark tries both again, and shows the last error
        with pytest.raises(
            ExactlyOnceError, match=r"tasks 3 and 4 of one micro-batch have rows for t \[1\]"
        ):
            batch.task(number, {1: ["c"]}, attempt=1)


def test_at_most_one_of_racing_attempts_gets_a_partition(cluster: MockCluster) -> None:
    options = SinkOptions.parse(options_of(cluster))
    racers = 4
    won: list[int] = []
    with ThreadPoolExecutor(racers) as pool:
        for lead_s in (0.0, 0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 1.0):
            transaction = exactly_once.begin(options)
            start = threading.Barrier(racers)

            def race(
                number: int,
                transaction: BatchTransaction = transaction,
                start: Any = start,
                lead_s: float = lead_s,
            ) -> bool:
                attempt = TaskAttempt(options, transaction, f"{number}/{number}")
                start.wait(30)
                time.sleep(lead_s * (number > 0))
                try:
                    attempt.claim([("t", 0)])
                except ExactlyOnceError:
                    return False
                return True

            won.append(sum(pool.map(race, range(racers))))
            with pytest.raises(ExactlyOnceError):
                TaskAttempt(options, transaction, "9/9").claim([("t", 0)])
    assert set(won[:-1]) <= {0, 1}, "of simultaneous claims perhaps none succeeds"
    assert won[-1] == 1


def test_topic_that_is_not_there_is_named(cluster: MockCluster) -> None:
    with pytest.raises(KafkaException, match=r"t \[5\]: .*Unknown topic or partition"):
        MicroBatch(options_of(cluster, topic_metadata_propagation_max_ms="500"), 0).task(
            0, {5: ["a"]}
        )


# --- what is refused ---


def test_timeout_beyond_what_brokers_allow_is_refused(cluster: MockCluster) -> None:
    with pytest.raises(
        OptionError,
        match=r"option kafka.transaction.timeout.ms: 900001 .*transaction.max.timeout.ms",
    ):
        MicroBatch(options_of(cluster, transaction_timeout_ms="900001"), 0)


@pytest.mark.slow
def test_batch_that_takes_too_long_is_not_committed(cluster: MockCluster) -> None:
    options = options_of(cluster, transaction_timeout_ms="5000")
    batch = MicroBatch(options, 0)
    batch.task(0, {0: ["lost"]})
    wait_for(
        lambda: cluster.transactions.expire() and state(cluster) is State.ABORTED, "the timeout"
    )
    with pytest.raises(
        ExactlyOnceError, match=r"longer than kafka.transaction.timeout.ms \(5000 ms\)"
    ):
        batch.commit()
    run(options, 0, {0: ["a"]})
    assert committed(cluster) == {0: ["a"]}


def test_brokers_without_transactions_are_refused() -> None:
    versions = {ApiKey.INIT_PRODUCER_ID: -1, ApiKey.END_TXN: -1}
    with MockCluster(brokers=1, max_versions=versions) as old:
        options = {
            "kafka.bootstrap.servers": old.bootstrap_servers,
            "kafka.transactional.id": ID,
            "topic": "t",
        }
        with pytest.raises(
            ExactlyOnceError,
            match=r"the brokers have no transactions.*leave kafka.transactional.id out",
        ):
            MicroBatch(options, 0)


def test_settings_without_exactly_once_are_refused() -> None:
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "t", "kafka.transactional.id": ID}
    with pytest.raises(OptionError, match=r"option kafka.transactional.id: .*write a stream"):
        batch_writer(options, SCHEMA, False)
    with pytest.raises(SchemaError, match=r"there is no column partition: .*by_partition"):
        stream_writer(options, StructType([StructField("value", StringType())]), False)
    with pytest.raises(OptionError, match=r"enable.idempotence"):
        stream_writer({**options, "kafka.acks": "1"}, SCHEMA, False)
    limits = {"kafka.transaction.timeout.ms": "1000", "kafka.delivery.timeout.ms": "2000"}
    with pytest.raises(OptionError, match=r"delivery.timeout.ms"):
        stream_writer({**options, **limits}, SCHEMA, False)


def test_rows_that_name_no_partition_are_refused(cluster: MockCluster) -> None:
    writer = pickle.loads(MicroBatch(options_of(cluster), 0).pickled)
    rows = {
        "topic": pa.array([None, None], pa.string()),
        "value": pa.array([b"a", b"b"]),
        "partition": pa.array([0, None], pa.int32()),
    }
    with (
        task_context(0, "q", 0),
        pytest.raises(WriteError, match="1 rows have a null in column partition"),
    ):
        writer.write(as_spark_passes(pa.RecordBatch.from_pydict(rows)))
    with (
        task_context(0, None, 0),
        pytest.raises(ExactlyOnceError, match="ids of its query and micro-batch"),
    ):
        writer.write(iter([]))


def test_default_timeout_is_what_brokers_allow() -> None:
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}
    assert "transaction.timeout.ms" not in SinkOptions.parse(options).producer
    assert (
        SinkOptions.parse({**options, "kafka.transactional.id": ID}).producer[
            "transaction.timeout.ms"
        ]
        == "900000"
    )


# --- partitions by key ---


def test_partitions_are_those_of_javas_partitioner() -> None:
    keys, values = [b"one", b"two", None, None], [b"1", b"2", b"3", None]
    for kind, column in (
        (pa.binary(), keys),
        (pa.string(), [key and key.decode() for key in keys]),
    ):
        batch = pa.RecordBatch.from_pydict(
            {"key": pa.array(column, kind), "value": pa.array(values, pa.binary())}
        )
        [found] = _partitioned(12, [batch])
        wanted = [murmur2(each, 12) for each in (b"one", b"two", b"3", b"")]
        assert found.column("partition").to_pylist() == wanted
        assert found.drop_columns(["partition"]) == batch
    with pytest.raises(ValueError, match="1 partition at least"):
        by_partition(None, 0)  # type: ignore[arg-type]


def test_equal_typed_rows_have_one_partition() -> None:
    orders = [
        {"id": n // 2, "tags": [("a", n // 2)], "at": datetime(2026, 1, 1)} for n in range(60)
    ]
    kind = pa.struct(
        [("id", pa.int64()), ("tags", pa.map_(pa.string(), pa.int64())), ("at", pa.timestamp("us"))]
    )
    values = pa.array(orders, kind)

    def numbers(**columns: Any) -> list[int]:
        [found] = _partitioned(12, [pa.RecordBatch.from_pydict(columns)])
        made: list[int] = found.column("partition").to_pylist()
        return made

    whole = numbers(value=values)
    assert whole[::2] == whole[1::2]
    assert len(set(whole)) > 6
    assert numbers(value=values, key=pa.nulls(60)) == whole
    assert whole[0] == murmur2(repr(orders[0]).encode(), 12)  # in each process, unlike hash()
    # Fields as columns of their own; other columns don't count
    fields = dict(zip(kind.names, values.flatten(), strict=True))
    assert numbers(**fields, headers=pa.nulls(60), topic=pa.array(["t"] * 60)) == whole
    # Keys that are encoded
    keyed = numbers(value=values, key=pa.array([n % 20 for n in range(60)]))
    assert keyed[:20] == keyed[20:40] == keyed[40:]
    assert len(set(keyed)) > 6


# --- by Spark ---


class Copy:
    """A stream from one topic to another, exactly once, which can be restarted."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.kafka, self.folder = kafka, folder
        self.source, self.target = kafka.topic(2), kafka.topic(3)

    def run(
        self, *, split: bool = False, sink: Mapping[str, str] = NO_OPTIONS, **options: Any
    ) -> str:
        """Run to the end of the records. Return the error, or an empty text."""
        frame = (
            self.kafka.read_stream(self.source, startingOffsets="earliest", **options)
            .load()
            .select("key", "value")
        )
        frame = (
            frame.selectExpr("*", "CAST(1 AS int) AS partition")
            if split
            else by_partition(frame, 3)
        )
        settings = {
            "kafka.bootstrap.servers": self.kafka.bootstrap,
            "kafka.transactional.id": self.target,
            **QUICK_RETRIES,
            **sink,
        }
        writer = frame.writeStream.format(FORMAT).options(**settings, topic=self.target)
        writer = writer.option("checkpointLocation", str(self.folder)).trigger(availableNow=True)
        for _ in range(8):
            try:
                completed(writer.start)
                return ""
            except StreamingQueryException as error:
                if TOO_SLOW not in str(error):
                    return str(error)
        raise AssertionError(TOO_SLOW)

    def forget(self, batch_id: int) -> None:
        """Act as if Spark had died after the commit of this batch, before it noted the commit."""
        for name in (f"{batch_id}", f".{batch_id}.crc"):
            (self.folder / "commits" / name).unlink()

    def numbers(self) -> Counter[int]:
        found = seen(self.kafka.bootstrap, self.target, 3)
        return Counter(int(text) for texts in found.values() for text in texts)


@needs_limits
def test_stream_is_written_once_also_when_its_last_batch_runs_again(
    kafka: Kafka, tmp_path: Path
) -> None:
    copy = Copy(kafka, tmp_path)
    kafka.fill(copy.source, 30, partition=0)
    kafka.fill(copy.source, 30, partition=1, start=30)
    assert copy.run(maxOffsetsPerTrigger=25) == ""
    assert copy.numbers() == Counter(range(60))
    copy.forget(2)
    kafka.fill(copy.source, 10, start=60)
    assert copy.run() == ""
    assert copy.numbers() == Counter(range(70))


def test_stream_whose_tasks_share_a_partition_says_so(kafka: Kafka, tmp_path: Path) -> None:
    copy = Copy(kafka, tmp_path)
    kafka.fill(copy.source, 10, partition=0)
    kafka.fill(copy.source, 10, partition=1, start=10)
    assert "bring each partition's rows into one task" in copy.run(split=True)
    assert copy.numbers() == Counter()
    assert copy.run() == ""
    assert copy.numbers() == Counter(range(20))


def test_error_at_the_beginning_of_a_batch_is_the_querys(kafka: Kafka, tmp_path: Path) -> None:
    copy = Copy(kafka, tmp_path)
    kafka.fill(copy.source, 1)
    error = copy.run(sink={"kafka.transaction.timeout.ms": "900001"})
    assert (
        "option kafka.transaction.timeout.ms: 900001 is more than the brokers' "
        "transaction.max.timeout.ms" in error
    )


def test_claims_are_offsets_of_existing_partitions(cluster: MockCluster) -> None:
    """Brokers that check committed offsets accept claims, because their partitions exist."""
    run(options_of(cluster), 0, {2: ["a"]})
    groups = [ID, ID + exactly_once.CLAIMING, ID + exactly_once.CLAIMED]
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        offsets = {
            group: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[
                group
            ].result()
            for group in groups
        }
    found = {group: each.topic_partitions for group, each in offsets.items()}
    assert found == {
        ID: [TopicPartition("t", 0)],
        **{group: [TopicPartition("t", 2)] for group in groups[1:]},
    }
