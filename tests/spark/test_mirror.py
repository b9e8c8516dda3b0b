"""The mirror: a task's copies, refusals at the start, offsets of groups, whole runs on Spark."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from kafka_native import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka_native._native.records import BatchHeader, batch_headers, encode_batch
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.spark import producers, range_reader, skipped_offsets
from kafka_native.spark.commands import cli
from kafka_native.spark.errors import DataLossError
from kafka_native.spark.options import SinkOptions, SourceOptions
from kafka_native.spark.pipelines.copy import Copied, copy_range, copy_task
from kafka_native.spark.pipelines.mirror import mirror, plan_mirror, sync_groups, translate_offset
from kafka_native.spark.pipelines.session import PipelineError, Work
from kafka_native.spark.pipelines.translation import Piece, Translations
from kafka_native.spark.ranges import OffsetRange
from tests.spark.support import HAS_LIMITS

HEADER_BYTES = 61

_numbers = itertools.count()


@pytest.fixture(scope="module")
def here() -> Iterator[MockCluster]:
    with MockCluster(brokers=2, auto_create_topics=False) as cluster:
        yield cluster
        range_reader.close_idle()
        producers.close_idle()


@pytest.fixture(scope="module")
def there() -> Iterator[MockCluster]:
    with MockCluster(brokers=1, auto_create_topics=False) as cluster:
        yield cluster


@pytest.fixture
def topic(here: MockCluster, there: MockCluster) -> str:
    """Return a topic of two partitions on both clusters."""
    name = f"orders-{next(_numbers)}"
    here.create_topic(name, 2)
    there.create_topic(name, 2)
    return name


def conf(cluster: MockCluster, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "reconnect.backoff.ms": "20", **more}


def source_of(cluster: MockCluster, topic: str, **more: str) -> SourceOptions:
    given = {f"kafka.{name}": value for name, value in conf(cluster).items()}
    return SourceOptions.parse({**given, "subscribe": topic, **more})


def sink_of(cluster: MockCluster, **more: str) -> SinkOptions:
    return SinkOptions.parse(
        {f"kafka.{name}": value for name, value in conf(cluster, **more).items()}
    )


def fill(cluster: MockCluster, topic: str, count: int, partition: int = 0) -> None:
    """Produce records with and without key, value and headers."""
    with Producer(conf(cluster)) as producer:
        for number in range(count):
            headers = [("trace", b"%d" % number), ("trace", None)] if number % 3 == 0 else None
            key = None if number % 5 == 0 else b"k%d" % number
            value = None if number % 7 == 0 else b"v%d" % number
            producer.produce(
                topic, value, key, partition, timestamp=1_600_000_000_000 + number, headers=headers
            )


def stored(cluster: MockCluster, topic: str, partition: int = 0) -> list[tuple[Any, ...]]:
    return [
        (record.key, record.value, record.timestamp, list(record.headers))
        for record in cluster.messages(topic, partition)
    ]


def copy(
    source: MockCluster,
    target: MockCluster,
    topic: str,
    offsets: tuple[int, int],
    partition: int = 0,
    rate: float | None = None,
    **more: str,
) -> Copied:
    """Copy a range of offsets to the topic with the same name."""
    return copy_range(
        source_of(source, topic, **more),
        sink_of(target),
        OffsetRange(topic, partition, *offsets),
        topic,
        rate=rate,
    )


def headers_of(batches: list[bytes]) -> list[BatchHeader]:
    return [header for batch in batches for header in batch_headers(batch)]


def test_records_are_copied_unchanged(here: MockCluster, there: MockCluster, topic: str) -> None:
    fill(here, topic, 500, partition=1)
    copied = copy(here, there, topic, (0, 500), partition=1)
    assert stored(there, topic, 1) == stored(here, topic, 1)
    assert stored(there, topic, 0) == []
    assert copied.records == 500
    assert copied.bytes == sum(map(len, here.batches(topic, 1)))
    assert copied.pieces == (Piece(topic, 1, topic, 0, 500, 0, 500),)


@pytest.mark.parametrize("times", [[0, 0, 5], [5, 0], [-1, 0]])
def test_a_timestamp_of_0_stays(
    here: MockCluster, there: MockCluster, topic: str, times: list[int]
) -> None:
    """It is 1970, and not the time of the copy."""
    here.append_raw(topic, 0, encode_batch([(each, b"k", b"v") for each in times]))
    copy(here, there, topic, (0, len(times)))
    assert [each.timestamp for each in there.messages(topic, 0)] == times


def test_batches_are_copied_without_recompression(
    here: MockCluster, there: MockCluster, topic: str
) -> None:
    for codec in ("gzip", "none"):
        with Producer(conf(here, **{"compression.type": codec})) as producer:
            for number in range(2000):
                producer.produce(
                    topic, b"v%09d" % number, partition=0, timestamp=1_600_000_000_000 + number
                )
    copied = copy(here, there, topic, (0, 4000))
    assert copied.pieces == (Piece(topic, 0, topic, 0, 4000, 0, 4000),)
    ours, theirs = there.batches(topic, 0), here.batches(topic, 0)
    assert [batch[HEADER_BYTES:] for batch in ours] == [batch[HEADER_BYTES:] for batch in theirs]
    assert [each.codec for each in headers_of(ours)] == [each.codec for each in headers_of(theirs)]
    assert {each.producer_id for each in headers_of(ours)}.isdisjoint(
        each.producer_id for each in headers_of(theirs)
    )
    assert stored(there, topic) == stored(here, topic)


def test_configured_codec_is_used(here: MockCluster, there: MockCluster, topic: str) -> None:
    fill(here, topic, 300)
    sink = sink_of(there, **{"compression.type": "gzip"})
    copy_range(source_of(here, topic), sink, OffsetRange(topic, 0, 0, 300), topic)
    assert [each.codec for each in headers_of(there.batches(topic, 0))] == ["gzip"]
    assert stored(there, topic) == stored(here, topic)


def test_part_of_a_partition_behind_other_records(
    here: MockCluster, there: MockCluster, topic: str
) -> None:
    fill(here, topic, 100)
    fill(there, topic, 7)
    result = copy_task(
        source_of(here, topic),
        sink_of(there),
        "{topic}",
        None,
        None,
        {},
        OffsetRange(topic, 0, 40, 60),
    )
    assert (result["topic"], result["partition"], result["records"]) == (topic, 0, 20)
    assert result["pieces"] == [[topic, 0, topic, 40, 60, 7, 27, True]]
    assert stored(there, topic)[7:] == stored(here, topic)[40:60]


def test_connection_that_breaks_costs_nothing(
    here: MockCluster, there: MockCluster, topic: str
) -> None:
    """The response to a batch is lost. Idempotence prevents a duplicate."""
    fill(here, topic, 300)
    there.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION], done=True)
    copied = copy(here, there, topic, (0, 300), batchRows="50")
    assert stored(there, topic) == stored(here, topic)
    assert copied.pieces == (Piece(topic, 0, topic, 0, 300, 0, 300),)


def test_copy_waits_while_queue_is_full(here: MockCluster, there: MockCluster, topic: str) -> None:
    fill(here, topic, 400)
    small = sink_of(there, **{"queue.buffering.max.messages": "50"})
    copied = copy_range(source_of(here, topic), small, OffsetRange(topic, 0, 0, 400), topic)
    assert copied.records == 400
    assert stored(there, topic) == stored(here, topic)


def test_rate_delays_a_task(here: MockCluster, there: MockCluster, topic: str) -> None:
    fill(here, topic, 100)
    started = time.monotonic()
    copy(here, there, topic, (0, 100), rate=200.0)
    assert time.monotonic() - started >= 0.45
    assert len(stored(there, topic)) == 100


def test_record_that_is_refused_fails_the_task(
    here: MockCluster, there: MockCluster, topic: str
) -> None:
    fill(here, topic, 20)
    there.push_request_errors(
        ApiKey.PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 3, topic=topic, partition=0
    )
    with pytest.raises(
        KafkaException, match=rf"writing to {topic} \[0\] failed: .*(uthoriz|denied)"
    ):
        copy(here, there, topic, (0, 20))
    there.faults.clear()
    copied = copy(here, there, topic, (0, 20))
    assert copied.records == 20


def test_lost_records_are_an_error_or_skipped(
    here: MockCluster, there: MockCluster, topic: str
) -> None:
    fill(here, topic, 60)
    here.move_log_start(topic, 0, 20)
    quick = {"fetchOffset.numRetries": "1"}
    with pytest.raises(DataLossError, match=rf"offsets 10 to 20 of {topic} \[0\] can't be read"):
        copy(here, there, topic, (10, 60))
    with pytest.raises(DataLossError, match="the partition ends at offset 60: it was truncated"):
        copy(here, there, topic, (30, 90), **quick)
    lenient = source_of(here, topic, failOnDataLoss="false", **quick)
    before = len(stored(there, topic))
    copied = copy_range(lenient, sink_of(there), OffsetRange(topic, 0, 10, 90), topic)
    assert stored(there, topic)[before:] == stored(here, topic)[-40:]
    assert [(each.source_start, each.source_end) for each in copied.pieces] == [(20, 60)]
    assert [each[:2] for each in copied.skipped] == [(10, 20), (60, 90)]
    assert "begins at offset 20" in copied.skipped[0][2]


def test_partition_that_the_target_lacks_is_named(
    here: MockCluster, there: MockCluster, topic: str
) -> None:
    fill(here, topic, 1)
    there.create_topic(f"small-{topic}", 1)
    sink = sink_of(there, **{"topic.metadata.propagation.max.ms": "500"})
    with pytest.raises(
        KafkaException, match=f"topic small-{topic} of the target has 1 partitions and needs 2"
    ):
        copy_range(source_of(here, topic), sink, OffsetRange(topic, 1, 0, 1), f"small-{topic}")
    with pytest.raises(
        KafkaException, match="the target has no topic nowhere: make it, with at least 1 partitions"
    ):
        copy_range(source_of(here, topic), sink, OffsetRange(topic, 0, 0, 1), "nowhere")


def test_copy_waits_for_a_target_that_a_broker_does_not_know_yet(
    here: MockCluster, there: MockCluster, topic: str
) -> None:
    fill(here, topic, 20)
    there.hide_topic(topic, 3)
    assert copy(here, there, topic, (0, 20)).records == 20
    assert stored(there, topic) == stored(here, topic)


# --- before it starts ---


def test_plan_shows_target_of_each_topic(here: MockCluster, there: MockCluster, topic: str) -> None:
    fill(here, topic, 30)
    there.create_topic(f"eu.{topic}", 3)
    [route] = plan_mirror(conf(here), conf(there), pattern=topic, to="eu.{topic}")
    assert (route.topic, route.target, route.partitions, route.target_partitions) == (
        topic,
        f"eu.{topic}",
        2,
        3,
    )
    assert route.records == 30


def test_plan_refuses_impossible_mirrors(here: MockCluster, there: MockCluster, topic: str) -> None:
    here.create_topic(f"{topic}-b", 1)
    here.create_topic(f"{topic}-mirror", 1)
    for arguments, text in [
        (
            {"to": "un.{topic}"},
            f"the target has no topic un.{topic}: make it, with at least 2 partitions",
        ),
        ({"to_config": conf(here)}, f"{topic} can't be its own mirror"),
        (
            {"to_config": conf(here), "to": f"{topic}-mirror"},
            f"{topic}-mirror of the target has 1 part",
        ),
        ({"pattern": f"{topic}.*", "topics": (), "to": "all"}, "would both go to all"),
        (
            {"to_config": conf(here), "to": "{topic}-c", "pattern": f"{topic}.*", "topics": ()},
            "mirrored itself",
        ),
        ({"to": "a/{topic}"}, "can't be the name of a topic"),
        (
            {"to_config": conf(there, **{"enable.idempotence": "false"})},
            "enable.idempotence must stay true",
        ),
    ]:
        given: dict[str, Any] = {"to_config": conf(there), "topics": (topic,), **arguments}
        with pytest.raises(PipelineError, match=text):
            plan_mirror(conf(here), given.pop("to_config"), **given)


# --- offsets of groups ---


def test_group_continues_on_the_mirror(
    here: MockCluster, there: MockCluster, topic: str, tmp_path: Path
) -> None:
    fill(here, topic, 100)
    fill(there, topic, 11)
    copied = copy(here, there, topic, (0, 100))
    kept = Translations(str(tmp_path / "translation"))
    kept.write(0, copied.pieces)
    assert translate_offset(str(tmp_path), topic, 0, 42) == 53
    assert translate_offset(str(tmp_path), topic, 1, 42) is None
    here.set_committed("readers", {(topic, 0): 42, (topic, 1): 3})
    [result] = sync_groups(conf(here), conf(there), kept, ["readers", "nobody"])
    assert (result.group, result.offset, result.target, result.target_offset, result.error) == (
        "readers",
        42,
        topic,
        53,
        "",
    )
    with Consumer(conf(there, **{"group.id": "readers"})) as consumer:
        assert consumer.committed([TopicPartition(topic, 0)], 10)[0].offset == 53
        here.set_committed("readers", {(topic, 0): 20})  # back on the source, but not on the target
        sync_groups(conf(here), conf(there), kept, ["readers"])
        assert consumer.committed([TopicPartition(topic, 0)], 10)[0].offset == 53
        here.set_committed("readers", {(topic, 0): 60})
        sync_groups(conf(here), conf(there), kept, ["readers"])
        assert consumer.committed([TopicPartition(topic, 0)], 10)[0].offset == 71


def test_group_with_members_on_the_target_is_left_alone(
    here: MockCluster, there: MockCluster, topic: str, tmp_path: Path
) -> None:
    kept = Translations(str(tmp_path))
    kept.write(0, [Piece(topic, 0, topic, 0, 100, 0, 100)])
    here.set_committed("busy", {(topic, 0): 42})
    with Consumer(conf(there, **{"group.id": "busy"})) as member:
        member.subscribe([topic])
        deadline = time.monotonic() + 20
        while not member.assignment() and time.monotonic() < deadline:
            member.poll(0.1)
        [result] = sync_groups(conf(here), conf(there), kept, ["busy"])
    assert result.error


# --- the command, without Spark ---


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def test_dry_run_and_translation_need_no_spark(
    here: MockCluster, there: MockCluster, topic: str, tmp_path: Path
) -> None:
    fill(here, topic, 12)
    where = ["mirror", "--bootstrap", here.bootstrap_servers]
    where += ["--topics", topic, "--checkpoint", str(tmp_path)]
    result = run(*where, "--to-bootstrap", there.bootstrap_servers, "--dry-run")
    assert result.exit_code == 0, result.output
    assert topic in result.output
    assert "12 offsets; nothing was copied" in result.output
    result = run(*where, "--dry-run")  # the target is the same cluster
    assert result.exit_code == 1
    assert "can't be its own mirror" in result.output
    Translations(str(tmp_path / "translation")).write(0, [Piece(topic, 0, topic, 0, 10, 90, 100)])
    assert run(*where, "--translate", f"{topic}:0:4").output == "94\n"
    assert run(*where, "--translate", f"{topic}:1:4").exit_code == 1
    assert "write TOPIC:PARTITION:OFFSET" in run(*where, "--translate", "x").output


# --- on Spark ---


def test_mirror_of_a_pattern_continues_where_it_ended(
    here: MockCluster, there: MockCluster, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    here.create_topic(f"{topic}-b", 1)
    there.create_topic(f"eu.{topic}", 2)
    there.create_topic(f"eu.{topic}-b", 1)
    fill(here, topic, 300)
    fill(here, topic, 200, partition=1)
    fill(here, f"{topic}-b", 100)
    fill(there, f"eu.{topic}", 5)
    here.set_committed("readers", {(topic, 0): 250})
    where: dict[str, Any] = {"pattern": f"{topic}.*", "to": "eu.{topic}", "groups": ["readers"]}
    checkpoint = str(tmp_path / "checkpoint")
    done = mirror(spark, conf(here), conf(there), checkpoint, max_records=150, **where)
    assert done.records == 600
    assert done.batches >= (3 if HAS_LIMITS else 1)
    fill(here, topic, 50, partition=1)
    [route, *_] = plan_mirror(
        conf(here), conf(there), pattern=topic, to="eu.{topic}", checkpoint=checkpoint
    )
    assert route.records == 50
    shown: list[Work] = []
    done = mirror(spark, conf(here), conf(there), checkpoint, show=shown.append, **where)
    assert (done.records, shown[-1].records) == (50, 50)
    assert stored(there, f"eu.{topic}", 0)[5:] == stored(here, topic, 0)
    assert stored(there, f"eu.{topic}", 1) == stored(here, topic, 1)
    assert stored(there, f"eu.{topic}-b") == stored(here, f"{topic}-b")
    assert translate_offset(checkpoint, topic, 0, 123) == 128
    assert translate_offset(checkpoint, topic, 1, 225) == 225
    [result] = done.groups
    assert (result.target, result.target_offset, result.error) == (f"eu.{topic}", 255, "")


def test_old_checkpoint_refuses_a_recreated_topic(
    here: MockCluster, there: MockCluster, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    fill(here, topic, 10)
    checkpoint = str(tmp_path / "checkpoint")
    assert mirror(spark, conf(here), conf(there), checkpoint, topics=[topic]).records == 10
    old = json.loads((tmp_path / "checkpoint" / "topic_ids.json").read_text())[topic]
    here.delete_topic(topic)
    here.create_topic(topic, 2)
    fill(here, topic, 60)
    calls: list[Callable[..., object]] = [plan_mirror, partial(mirror, spark)]
    for call in calls:
        with pytest.raises(
            PipelineError, match=f"topic {topic} was deleted and recreated.* new checkpoint"
        ):
            call(conf(here), conf(there), topics=[topic], checkpoint=checkpoint)
    assert len(there.messages(topic, 0)) == 10
    found = OffsetRange(topic, 0, 10, 60, topic_id="another")  # recreated after the plan
    with pytest.raises(PipelineError, match="recreated"):
        copy_task(
            source_of(here, topic), sink_of(there), "{topic}", None, None, {topic: old}, found
        )


def test_mirror_records_what_it_skips(
    here: MockCluster, there: MockCluster, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    fill(here, topic, 50)
    call = partial(mirror, spark, conf(here), conf(there), checkpoint, topics=[topic])
    assert call(data_loss="skip").skipped_offsets == 0
    fill(here, topic, 50)
    here.move_log_start(topic, 0, 80)
    with pytest.raises(PipelineError, match=rf"offsets 50 to 80 of {topic} \[0\] can't be read"):
        call()
    notes: list[str] = []
    done = call(data_loss="skip", show=lambda work: notes.append(work.note))
    assert (done.records, done.skipped_offsets) == (20, 30)
    assert notes[-1].endswith("30 offsets skipped")
    [skipped] = skipped_offsets(checkpoint)
    assert (skipped.topic, skipped.partition, skipped.start, skipped.end) == (topic, 0, 50, 80)
    shown = run("mirror", "--checkpoint", checkpoint, "--skipped").output
    assert "begins at offset 80" in shown
    assert "Skipped ranges of offsets: 1." in shown
    assert len(there.messages(topic, 0)) == 70


def test_mirror_within_a_cluster_runs_until_it_is_stopped(
    here: MockCluster, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    here.create_topic(f"{topic}-copy", 2)
    fill(here, topic, 40)
    added = False

    def stop() -> bool:
        nonlocal added
        copied = len(here.messages(f"{topic}-copy", 0))
        if copied >= 40 and not added:
            added = True
            fill(here, topic, 2)
        return copied >= 42

    mirror(
        spark,
        conf(here),
        conf(here),
        str(tmp_path),
        topics=[topic],
        to="{topic}-copy",
        every_s=0.1,
        stop=stop,
    )
    assert stored(here, f"{topic}-copy") == stored(here, topic)


def test_source_with_more_partitions_is_an_error_until_the_target_grows(
    here: MockCluster, there: MockCluster, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    fill(here, topic, 40)
    to = conf(there, **{"topic.metadata.propagation.max.ms": "500"})

    def stop() -> bool:
        if len(there.messages(topic, 0)) == 40 and len(here.topics[topic].partitions) == 2:
            here.create_partitions(topic, 3)
            fill(here, topic, 30, partition=2)
            fill(here, topic, 5)
        return False

    with pytest.raises(
        PipelineError, match=f"topic {topic} of the target has 2 partitions and needs 3: add"
    ):
        mirror(spark, conf(here), to, str(tmp_path), topics=[topic], every_s=0.1, stop=stop)
    there.create_partitions(topic, 3)
    mirror(spark, conf(here), to, str(tmp_path), topics=[topic])
    assert stored(there, topic, 2) == stored(here, topic, 2)
    assert stored(there, topic)[:40] == stored(here, topic)[:40]
    # these may be copied twice
    assert set(map(str, stored(there, topic)[40:])) == set(map(str, stored(here, topic)[40:]))


def test_error_of_a_task_is_one_line(
    here: MockCluster, there: MockCluster, topic: str, spark: SparkSession, tmp_path: Path
) -> None:
    fill(here, topic, 10)
    there.push_request_errors(
        ApiKey.PRODUCE, [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 9, topic=topic, partition=0
    )
    with pytest.raises(
        PipelineError, match=rf"the mirror has failed: .*writing to {topic} \[0\] failed"
    ) as caught:
        mirror(spark, conf(here), conf(there), str(tmp_path), topics=[topic])
    assert "\n" not in str(caught.value)
    there.faults.clear()
    assert mirror(spark, conf(here), conf(there), str(tmp_path), topics=[topic]).records == 10
