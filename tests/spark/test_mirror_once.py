"""The mirror with a transaction for each batch, step by step, then in Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_native import Producer
from kafka_native.mock import MockCluster
from kafka_native.spark import exactly_once, producers, range_reader
from kafka_native.spark.exactly_once import ExactlyOnceError
from kafka_native.spark.pipelines import mirror as mirroring
from kafka_native.spark.pipelines.mirror import _MirrorRun, mirror, translate_offset
from kafka_native.spark.pipelines.session import topic_options
from kafka_native.spark.ranges import OffsetRange
from tests.spark.micro_batches import seen, task_context
from tests.spark.support import HAS_LIMITS

Batch = Callable[..., None]


@pytest.fixture(params=[1, 2])
def cluster(request: pytest.FixtureRequest) -> Iterator[MockCluster]:
    """Yield a topic of two partitions with a hundred records each, and one for its mirror."""
    with MockCluster(
        brokers=1, auto_create_topics=False, transaction_version=request.param
    ) as running:
        for name in ("t", "copy"):
            running.create_topic(name, 2)
        fill(running, 0, 100)
        yield running
        producers.close_idle()
        range_reader.close_idle()
        exactly_once.close_idle()


def fill(cluster: MockCluster, start: int, end: int) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(start, end):
            for partition in range(2):
                producer.produce("t", f"{partition}-{number}", partition=partition)


def conf(cluster: MockCluster, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap_servers, **more}


def once(cluster: MockCluster) -> dict[str, str]:
    return conf(cluster, **{"transactional.id": "mirror", "retry.backoff.ms": "10"})


def wanted(end: int) -> dict[int, list[str]]:
    return {partition: [f"{partition}-{number}" for number in range(end)] for partition in range(2)}


@pytest.fixture
def batch(cluster: MockCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Batch:
    """Return ``batch(id, start, end)``, which copies these offsets as a newly started driver."""
    (tmp_path / "metadata").write_text('{"id":"q"}')

    def run(batch_id: int, start: int, end: int) -> None:
        def in_this_process(
            frame: Any, task: Callable[[OffsetRange], Any], counter: Any
        ) -> list[Any]:
            results = []
            for partition in range(2):
                with task_context(partition, "q", batch_id):
                    results.append(
                        json.loads(json.dumps(task(OffsetRange("t", partition, start, end))))
                    )
            return results

        monkeypatch.setattr(mirroring, "map_ranges", in_this_process)
        monkeypatch.setattr(mirroring, "WorkCounter", lambda session: None)
        options = topic_options(conf(cluster), ["t"], "")
        sink = mirroring._sink(once(cluster))
        _MirrorRun(None, options, sink, "copy", str(tmp_path), None).batch(None, batch_id)  # type: ignore[arg-type]

    return run


def mirrored(cluster: MockCluster) -> dict[int, list[str]]:
    return seen(cluster.bootstrap_servers, "copy", 2)


def test_repeated_batch_writes_nothing(cluster: MockCluster, batch: Batch) -> None:
    batch(0, 0, 60)
    batch(0, 0, 60)
    assert mirrored(cluster) == wanted(60)
    batch(1, 60, 100)
    batch(1, 60, 100)
    assert mirrored(cluster) == wanted(100)


def test_batch_killed_before_its_commit_is_seen_once_and_translated(
    cluster: MockCluster, batch: Batch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    batch(0, 0, 40)
    with monkeypatch.context() as broken:
        broken.setattr(exactly_once, "commit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            batch(1, 40, 100)
    assert mirrored(cluster) == wanted(40)
    batch(1, 40, 100)
    assert mirrored(cluster) == wanted(100)
    [record] = [each for each in cluster.messages("copy", 1) if each.value == b"1-70"][1:]
    assert translate_offset(str(tmp_path), "t", 1, 70) == record.offset


def test_task_that_is_tried_again_fails_the_batch(
    cluster: MockCluster, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = mirroring.copy.copy_task
    with monkeypatch.context() as broken:
        broken.setattr(mirroring.copy, "copy_task", lambda *given: copy(*given) and copy(*given))
        with pytest.raises(
            ExactlyOnceError, match=r"task 0 was run again in one micro-batch .* copy \[0\]"
        ):
            batch(0, 0, 100)
    assert mirrored(cluster) == {}
    batch(0, 0, 100)
    assert mirrored(cluster) == wanted(100)


def test_spark_mirrors_each_record_once(
    cluster: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"

    def run() -> int:
        return mirror(
            spark, conf(cluster), once(cluster), str(checkpoint), topics=["t"], to="copy"
        ).records

    assert run() == 200
    for name in ("0", ".0.crc"):  # as if Spark had died before it noted the batch
        (checkpoint / "commits" / name).unlink()
    fill(cluster, 100, 120)
    if not HAS_LIMITS:
        assert run() == 0  # the batch that Spark repeats is a run of its own
    assert run() == 40
    assert mirrored(cluster) == wanted(120)
