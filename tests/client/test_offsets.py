"""Offsets end to end: commits, and positions after truncated logs, followers and errors."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from kafka_native import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, poll_until, wait_for

from .consumer_support import read
from .support import Client, fill, filled, raises_code

pytestmark = pytest.mark.usefixtures("repaired_cluster")


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """Return this test's own group id."""
    return f"group-{request.node.name}-{time.monotonic_ns()}"


def manual(client: Client, group: str, **conf: Any) -> Consumer:
    """Return a consumer that commits only on command."""
    own = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return client.consumer(**own | conf)


def resumed(client: Client, group: str, topic: str, **conf: Any) -> Consumer:
    """Return such a consumer at the group's offset of partition 0."""
    consumer = manual(client, group, **conf)
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


def commit(consumer: Consumer, topic: str, offset: int) -> TopicPartition:
    """Commit an offset of partition 0, and return its result."""
    [found] = consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    return found


def committed(consumer: Consumer, topic: str) -> int:
    """Return the group's offset of partition 0."""
    return consumer.committed([TopicPartition(topic, 0)], WAIT_S)[0].offset


def fill_batches(client: Client, topic: str, count: int) -> None:
    """Produce so many numbers, each in its own batch."""
    for number in range(count):
        fill(client, topic, 1, start=number)


# --- committed and read back ---


@pytest.mark.parametrize("how", ["commit", "unassign", "assign"])
def test_close_waits_for_an_earlier_commit_while_the_coordinator_is_unknown(
    client, topic, group, how
):
    """The commit has no answer yet when close() begins: it has found no coordinator."""
    fill(client, topic, 5, partition=0)
    with manual(client, group, **{"enable.auto.commit": how != "commit"}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert read(consumer, 2) == [0, 1]
        {
            "commit": consumer.commit,
            "unassign": consumer.unassign,
            "assign": lambda: consumer.assign([]),
        }[how]()
    with manual(client, group) as consumer:
        assert committed(consumer, topic) == 2


def test_close_waits_for_an_earlier_commit_that_is_tried_again(client, topic, cluster, group):
    fill(client, topic, 5, partition=0)
    outcomes: list[KafkaError | None] = []
    conf = {"on_commit": lambda error, partitions: outcomes.append(error)}
    with manual(client, group, **conf) as consumer:
        consumer.subscribe([topic])
        assert read(consumer, 2) == [0, 1]
        codes = [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]
        cluster.push_request_errors(ApiKey.OFFSET_COMMIT, codes)
        consumer.commit()
    assert outcomes == [None]
    with manual(client, group) as consumer:
        assert committed(consumer, topic) == 2


def test_consumer_continues_at_the_groups_offset(client, topic, group):
    fill(client, topic, 20, partition=0)
    with resumed(client, group, topic) as consumer:
        assert read(consumer, 7) == list(range(7))
        [found] = consumer.commit(asynchronous=False)
        assert (found.offset, found.error) == (7, None)
    with manual(client, group) as consumer:
        [found] = consumer.committed([TopicPartition(topic, 0)], WAIT_S)
        assert found.offset == 7
        assert found.leader_epoch is not None
        consumer.assign([TopicPartition(topic, 0, OFFSET_STORED)])
        assert read(consumer, 13) == list(range(7, 20))


def test_metadata_and_leader_epoch_are_kept_with_an_offset(client, group):
    topic = client.topic(2)
    with manual(client, group) as consumer:
        wanted = [TopicPartition(topic, 0, 5, "my note", 0), TopicPartition(topic, 1, 6)]
        results = consumer.commit(offsets=wanted, asynchronous=False)
        assert [each.error for each in results] == [None, None]
        found = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], WAIT_S)
        assert [(each.offset, each.metadata, each.leader_epoch) for each in found] == [
            (5, "my note", 0),
            (6, None, None),
        ]
        long = [TopicPartition(topic, 0, 7, "x" * 5000)]
        with raises_code(KafkaError.OFFSET_METADATA_TOO_LARGE):
            consumer.commit(offsets=long, asynchronous=False)
        assert committed(consumer, topic) == 5


@pytest.mark.parametrize("version", [9, 8, 7, 2])
def test_older_brokers_keep_offsets(group, version):
    versions = {ApiKey.OFFSET_COMMIT: min(version, 9), ApiKey.OFFSET_FETCH: version}
    with MockCluster(brokers=1, max_versions=versions) as old:
        client = Client(old)
        topic = filled(client, 3)
        with resumed(client, group, topic) as consumer:
            assert read(consumer, 2) == [0, 1]
            consumer.commit(asynchronous=False)
        with resumed(client, group, topic) as consumer:
            assert read(consumer, 1) == [2]


def test_commits_survive_a_coordinator_that_moves_or_is_not_ready(client, topic, cluster, group):
    with manual(client, group) as consumer:
        codes = [
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            KafkaError.NOT_COORDINATOR,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError._TRANSPORT,
        ]
        cluster.push_request_errors(ApiKey.OFFSET_COMMIT, codes)
        cluster.push_request_errors(ApiKey.OFFSET_FETCH, codes)
        assert commit(consumer, topic, 5).error is None
        assert committed(consumer, topic) == 5


def test_stale_member_epoch_never_leads_to_a_reset(client, topic, cluster, group):
    fill(client, topic, 10)
    with manual(client, group, **{"auto.offset.reset": "latest"}) as consumer:
        commit(consumer, topic, 4)
        cluster.push_request_errors(ApiKey.OFFSET_FETCH, [KafkaError.STALE_MEMBER_EPOCH] * 3)
        cluster.push_request_errors(ApiKey.OFFSET_COMMIT, [KafkaError.STALE_MEMBER_EPOCH] * 2)
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, 6) == [4, 5, 6, 7, 8, 9]
        assert consumer.commit(asynchronous=False)[0].offset == 10


def test_asynchronous_commits_end_in_their_order_and_the_last_one_counts(client, cluster, group):
    topic = client.topic()
    offsets: list[int] = []
    with manual(
        client, group, on_commit=lambda error, parts: offsets.append(parts[0].offset)
    ) as consumer:
        cluster.push_request_errors(
            ApiKey.OFFSET_COMMIT, [KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 2
        )
        for offset in range(1, 101):
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)])
        poll_until(lambda: len(offsets) == 100, consumer)
        assert offsets == list(range(1, 101))
        assert committed(consumer, topic) == 100
        assert len(cluster.requests_of(ApiKey.OFFSET_COMMIT)) < 100


def test_processed_messages_are_committed_automatically(client, topic, group):
    fill(client, topic, 10)
    with (
        client.consumer(
            **{"group.id": group, "auto.commit.interval.ms": 50, "auto.offset.reset": "earliest"}
        ) as consumer,
        manual(client, group) as watcher,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, 3) == [0, 1, 2]
        # The application processes the third message until it calls poll() again.
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            assert committed(watcher, topic) in (OFFSET_INVALID, 1, 2)
        assert read(consumer, 1) == [3]
        wait_for(lambda: committed(watcher, topic) == 3)
    with manual(client, group) as consumer:
        # close() ends the processing
        assert committed(consumer, topic) == 4


def test_waiting_consumer_has_everything_committed(client, topic, group):
    fill(client, topic, 3)
    with (
        client.consumer(
            **{"group.id": group, "auto.commit.interval.ms": 50, "auto.offset.reset": "earliest"}
        ) as consumer,
        manual(client, group) as watcher,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, 3) == [0, 1, 2]
        poll_until(lambda: committed(watcher, topic) == 3, consumer)


def test_offset_of_another_partition_is_committed_and_unknown_topics_are_refused(client, group):
    topic = client.topic(2)
    with resumed(client, group, topic) as consumer:
        wanted = [TopicPartition(topic, 1, 5), TopicPartition("nowhere-at-all", 0, 5)]
        first, second = consumer.commit(offsets=wanted, asynchronous=False)
        assert first.error is None
        assert second.error == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_forbidden_group_is_a_clear_error(client, topic, cluster, group):
    with manual(client, group) as consumer:
        cluster.push_request_errors(ApiKey.OFFSET_COMMIT, [KafkaError.GROUP_AUTHORIZATION_FAILED])
        with raises_code(KafkaError.GROUP_AUTHORIZATION_FAILED):
            commit(consumer, topic, 5)
        assert commit(consumer, topic, 5).error is None


# --- offset reset ---


@pytest.mark.parametrize(("reset", "first"), [("earliest", 5), ("latest", 20)])
def test_deleted_offset_is_reset(client, topic, cluster, group, reset, first):
    fill(client, topic, 10)
    with manual(client, group, **{"auto.offset.reset": reset}) as consumer:
        commit(consumer, topic, 2)
        cluster.move_log_start(topic, 0, 5)
        consumer.assign([TopicPartition(topic, 0)])
        if reset == "earliest":
            assert read(consumer, 5) == [5, 6, 7, 8, 9]
        else:
            poll_until(lambda: cluster.requests_of(ApiKey.LIST_OFFSETS), consumer)
            start = time.monotonic()
            poll_until(lambda: time.monotonic() - start > 0.3, consumer)
            fill(client, topic, 1, start=first)
            assert read(consumer, 1) == [first]


def test_no_committed_offset_and_no_reset_is_an_error_that_a_seek_ends(client, topic, group):
    fill(client, topic, 3)
    with resumed(client, group, topic, **{"auto.offset.reset": "error"}) as consumer:
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() == KafkaError._AUTO_OFFSET_RESET
        consumer.seek(TopicPartition(topic, 0, 1))
        assert read(consumer, 2) == [1, 2]


def test_reset_by_duration_starts_with_young_messages(client, topic, group):
    now_ms = int(time.time() * 1000)
    with client.producer() as producer:
        for number, age_s in enumerate((7200, 4000, 3000, 10)):
            producer.produce(topic, str(number), timestamp=now_ms - age_s * 1000)
            producer.flush()
    for reset, expected in (("by_duration:PT1H", [2, 3]), ("by_duration:P1D", [0, 1, 2, 3])):
        with resumed(client, group, topic, **{"auto.offset.reset": reset}) as consumer:
            assert read(consumer, len(expected)) == expected


# --- log truncation ---


def test_truncated_log_is_read_from_its_new_end(client, topic, cluster, group):
    fill_batches(client, topic, 10)
    with resumed(client, group, topic) as consumer:
        assert read(consumer, 10) == list(range(10))
        cluster.truncate(topic, 0, 6)
        # the position is in the log again: only its epoch shows the truncation
        fill(client, topic, 10, start=100)
        assert read(consumer, 10) == list(range(100, 110))


def test_log_that_is_truncated_to_nothing_and_grows_again_is_read_whole(client, topic, cluster):
    """The new leader's first epoch tells that the old records are gone, whatever its log has."""
    fill_batches(client, topic, 3)
    with manual(client, "none") as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert read(consumer, 3) == [0, 1, 2]
        consumer.pause([TopicPartition(topic, 0)])
        cluster.truncate(topic, 0, 0, broker=2)
        for number in range(10, 15):
            fill(client, topic, 1, start=number)
        consumer.resume([TopicPartition(topic, 0)])
        assert read(consumer, 5) == [10, 11, 12, 13, 14]


def test_truncated_log_without_a_reset_is_an_error_with_both_offsets(client, topic, cluster, group):
    fill_batches(client, topic, 10)
    with manual(client, group, **{"auto.offset.reset": "error"}) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert read(consumer, 10) == list(range(10))
        cluster.truncate(topic, 0, 6, broker=2)
        message = wait_for(lambda: consumer.poll(0.2))
        error = message.error()
        assert error == KafkaError._LOG_TRUNCATION
        assert "6" in error.str()
        assert "10" in error.str()
        assert message.offset() == 10
        consumer.seek(TopicPartition(topic, 0, 6))
        fill(client, topic, 1, start=100)
        assert read(consumer, 1) == [100]


def test_consumer_does_not_continue_at_a_truncated_committed_offset(client, topic, cluster, group):
    fill_batches(client, topic, 10)
    with resumed(client, group, topic) as consumer:
        assert read(consumer, 10) == list(range(10))
        consumer.commit(asynchronous=False)
    cluster.truncate(topic, 0, 4)
    fill(client, topic, 10, start=100)
    with resumed(client, group, topic) as consumer:
        assert read(consumer, 10) == list(range(100, 110))


def test_leader_that_moves_without_a_loss_changes_nothing(client, topic, cluster, group):
    fill(client, topic, 200)
    with resumed(client, group, topic) as consumer:
        found = read(consumer, 50)
        for broker in (2, 3, 1, 2):
            cluster.move_leader(topic, 0, broker)
            found += read(consumer, 30)
        found += read(consumer, 30)
        assert found == list(range(200))


# --- the nearest replica ---


def fetched_from(cluster: MockCluster) -> list[int]:
    """Return the brokers that got a Fetch, in order, without repetitions."""
    brokers = [each.broker for each in cluster.requests_of(ApiKey.FETCH)]
    return [broker for broker, _ in itertools.groupby(brokers)]


def test_consumer_fetches_from_the_replica_in_its_rack(client, topic, cluster, group):
    leader = cluster.leader(topic, 0)
    near = leader % 3 + 1
    cluster.set_rack(near, "here")
    fill(client, topic, 50)
    cluster.clear_requests()
    with resumed(client, group, topic, **{"client.rack": "here"}) as consumer:
        assert read(consumer, 50) == list(range(50))
        fill(client, topic, 50, start=50)
        assert read(consumer, 50) == list(range(50, 100))
        assert fetched_from(cluster) == [leader, near]


def test_leader_replaces_a_replica_that_goes_down(client, topic, cluster, group):
    leader = cluster.leader(topic, 0)
    near = leader % 3 + 1
    cluster.set_rack(near, "here")
    fill(client, topic, 50)
    try:
        with resumed(client, group, topic, **{"client.rack": "here"}) as consumer:
            assert read(consumer, 50) == list(range(50))
            cluster.broker_down(near)
            fill(client, topic, 50, start=50)
            assert read(consumer, 50) == list(range(50, 100))
    finally:
        cluster.broker_up(near)


def test_lagging_follower_causes_no_reset(client, topic, cluster, group):
    near = cluster.leader(topic, 0) % 3 + 1
    cluster.set_rack(near, "here")
    fill_batches(client, topic, 10)
    with manual(client, group, **{"client.rack": "here", "auto.offset.reset": "error"}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert read(consumer, 10) == list(range(10))
        cluster.set_follower_lag(topic, 0, near, 5)
        fill(client, topic, 3, start=10)
        assert read(consumer, 3) == [10, 11, 12]


# --- offsets by time ---


def test_offsets_for_times_of_many_partitions(client):
    topic = client.topic(3)
    with client.producer() as producer:
        for partition in (0, 1):
            for number in range(5):
                producer.produce(
                    topic, "x", partition=partition, timestamp=1_000_000 + number * 1000
                )
                producer.flush()
    with client.consumer() as consumer:
        wanted = [TopicPartition(topic, number, 1_002_500) for number in range(3)]
        found = consumer.offsets_for_times(wanted, WAIT_S)
        assert [each.offset for each in found] == [3, 3, OFFSET_END]
        assert [each.error for each in found] == [None] * 3
        assert consumer.get_watermark_offsets(TopicPartition(topic, 1), WAIT_S) == (0, 5)
        some = consumer.offsets_for_times(
            [TopicPartition(topic, 0, 0), TopicPartition(topic, 9, 0)], 0.5
        )
        assert some[0].offset == 0
        assert some[1].error == KafkaError._UNKNOWN_PARTITION


def test_offsets_for_times_follow_a_leader_that_moves(client, topic, cluster):
    fill(client, topic, 3)
    with client.consumer() as consumer:
        assert consumer.offsets_for_times([TopicPartition(topic, 0, 0)], WAIT_S)[0].offset == 0
        cluster.move_leader(topic, 0, cluster.leader(topic, 0) % 3 + 1)
        assert consumer.offsets_for_times([TopicPartition(topic, 0, 0)], WAIT_S)[0].offset == 0


# --- offsets in files ---


def test_offsets_in_files_need_no_group(client, topic, cluster, tmp_path):
    fill(client, topic, 20)
    conf = {
        "offset.store.method": "file",
        "offset.store.path": str(tmp_path),
        "auto.offset.reset": "earliest",
    }
    cluster.clear_requests()
    with client.consumer(**conf) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, 7) == list(range(7))
    assert (tmp_path / f"{topic}-0.offset").read_text() == "7\n"
    with client.consumer(**conf) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, 13) == list(range(7, 20))
    assert cluster.requests_of(ApiKey.FIND_COORDINATOR) == []


def test_offset_file_that_cannot_be_written_is_a_clear_error(client, topic, tmp_path: Path):
    fill(client, topic, 3)
    path = tmp_path / "missing" / "offsets"
    with client.consumer(
        **{
            "offset.store.method": "file",
            "offset.store.path": str(path),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, 3) == [0, 1, 2]
        with pytest.raises(KafkaException) as caught:
            consumer.commit(asynchronous=False)
        assert caught.value.args[0] == KafkaError._FS
        assert str(path) in caught.value.args[0].str()
        path.parent.mkdir()
        assert consumer.commit(asynchronous=False)[0].offset == 3
        assert path.read_text() == "3\n"


def test_offset_store_method_none_commits_nothing(client, topic, group):
    fill(client, topic, 3)
    conf = {"group.id": group, "offset.store.method": "none", "auto.offset.reset": "earliest"}
    with client.consumer(**conf, **{"auto.commit.interval.ms": 10}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, 3) == [0, 1, 2]
    with manual(client, group) as consumer:
        assert committed(consumer, topic) == OFFSET_INVALID
