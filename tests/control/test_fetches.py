"""The consumer's partitions: offsets, leaders, errors, positions."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.control.positions import (
    EARLIEST,
    LATEST,
    OFFSET_TAIL_BASE,
    Ago,
    OffsetPosition,
    Reset,
)
from kafka_native.control.requests import Backoff
from kafka_native.errors import KafkaError
from kafka_native.logs import Logs
from kafka_native.protocol.offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka_native.types import OFFSET_INVALID

from .fakes import Cluster, event, fetch_manager


class ConsumerCluster(Cluster):
    """A cluster with one topic of two partitions, led by brokers 1 and 2, both up."""

    def __init__(
        self,
        *partitions: tuple[str, int, int],
        reset: Reset = EARLIEST,
        error_s: float = 0.0,
    ) -> None:
        super().__init__()
        self.logged: list[str] = []
        self.wall = 1_700_000_000.0
        self.fetches = fetch_manager(
            self,
            reset=reset,
            error_s=error_s,
            logs=Logs(
                "test",
                lambda name, line: self.logged.append(line.text),
                call_back=lambda serve: serve(),
            ),
            wall_clock=lambda: self.wall,
        )
        self.managers = (self.fetches,)
        self.bring_up(0)
        if partitions:
            self.assign(*partitions)

    def answer_metadata(self, *leaders: tuple[int, int], **how: Any) -> None:
        super().answer_metadata(*leaders, **how)
        self.go()

    def assign(self, *partitions: tuple[str, int, int]) -> None:
        self.fetches.assign(partitions, self.clock.now)
        self.go()
        super().answer_metadata((1, 5), (2, 5))
        for handle in (1, 2):
            self.bring_up(handle)
        self.go()

    def offsets(self, offset: int, error_code: int = 0) -> ListOffsetsRequest:
        """Answer the oldest ListOffsets with one offset for all, and return the request."""
        sent = self.engine.submitted[0]
        request = ListOffsetsRequest.decode(sent.body, sent.version)
        response = ListOffsetsResponse(topics=[])
        for topic in request.topics:
            response.topics.append(ListOffsetsResponse.Topic(name=topic.name))
            for partition in topic.partitions:
                found = ListOffsetsResponse.Topic.Partition(
                    partition_index=partition.partition_index,
                    offset=offset,
                    error_code=error_code,
                    leader_epoch=5,
                )
                response.topics[-1].partitions.append(found)
        self.answer(response)
        self.go()
        return request

    def stop(self, token: int, offset: int, **fields: int) -> None:
        cursor = self.engine.cursors[token - 1]
        self.fetches.on_cursor_error(
            event(token=token, offset=offset, epoch=cursor.epoch, **fields), self.clock.now
        )
        self.go()


def test_absolute_offset_starts_without_a_look_up():
    cluster = ConsumerCluster(("t", 0, 42))
    assert cluster.engine.submitted == []
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 42, 5)]


@pytest.mark.parametrize(
    ("wanted", "timestamp", "started"),
    [
        (-2, EARLIEST, 7),
        (-1, LATEST, 7),
        (OFFSET_INVALID, EARLIEST, 7),
        (-1000, EARLIEST, 7),
        (OFFSET_TAIL_BASE - 5, LATEST, 2),
    ],
)
def test_logical_offset_is_looked_up_at_the_leader(wanted, timestamp, started):
    cluster = ConsumerCluster(("t", 1, wanted))
    assert cluster.engine.submitted[0].handle == cluster.handle_of(2)
    request = cluster.offsets(7)
    assert request.isolation_level == 1
    assert request.topics[0].partitions[0].timestamp == timestamp
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(2), started, 5)]


def test_look_ups_of_one_leader_share_a_request():
    cluster = ConsumerCluster()
    cluster.fetches.assign([("t", 0, -2), ("t", 1, -2), ("t", 2, -2)], cluster.clock.now)
    cluster.go()
    cluster.answer(cluster.metadata_reply("t", [(1, 0), (1, 0), (1, 0)]))
    cluster.bring_up(1)
    cluster.go()
    assert len(cluster.engine.submitted) == 1
    request = cluster.offsets(0)
    assert len(request.topics[0].partitions) == 3


def test_missing_offset_with_reset_error_reaches_the_application():
    cluster = ConsumerCluster(("t", 0, OFFSET_INVALID), reset=None)
    [(topic, partition, _, error)] = cluster.partition_errors
    assert (topic, partition, error.code()) == ("t", 0, KafkaError._AUTO_OFFSET_RESET)


def test_look_up_is_repeated_when_the_leader_has_moved():
    cluster = ConsumerCluster(("t", 0, -2))
    cluster.offsets(0, error_code=KafkaError.NOT_LEADER_FOR_PARTITION)
    cluster.answer_metadata((2, 6), (2, 5))
    cluster.offsets(3)
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(2), 3, 6)]


def test_look_up_that_is_forbidden_reaches_the_application():
    cluster = ConsumerCluster(("t", 0, -2))
    cluster.offsets(0, error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert cluster.partition_errors[0][3] == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_seek_starts_again_and_an_answer_to_an_older_look_up_is_ignored():
    cluster = ConsumerCluster(("t", 0, -2))
    cluster.fetches.seek("t", 0, 99)
    cluster.go()
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 99, 5)]
    cluster.offsets(3)
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 99, 5)]


def test_seek_of_an_unassigned_partition_is_refused():
    cluster = ConsumerCluster()
    assert cluster.fetches.seek("t", 0, 1) == KafkaError._UNKNOWN_PARTITION
    cluster.assign(("t", 0, 0))
    assert cluster.fetches.seek("t", 1, 1) == KafkaError._STATE


def test_moved_leader_goes_on_within_the_fetch_epoch_so_nothing_queued_is_lost():
    cluster = ConsumerCluster(("t", 0, 0))
    cluster.stop(
        1, 500, error_code=KafkaError.NOT_LEADER_FOR_PARTITION, leader_id=2, leader_epoch=6
    )
    cluster.wait(1)
    assert cluster.engine.cursors[0].log[-1] == ("move", cluster.handle_of(2), 500, 6)


def test_out_of_range_resets_and_keeps_queued_messages():
    cluster = ConsumerCluster(("t", 0, 100), reset=LATEST)
    cluster.stop(1, 100, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    request = cluster.offsets(40)
    assert request.topics[0].partitions[0].timestamp == LATEST
    assert cluster.engine.cursors[0].log[-1] == ("move", cluster.handle_of(1), 40, 5)


def test_out_of_range_and_reset_error_reaches_the_application_and_a_seek_heals():
    cluster = ConsumerCluster(("t", 0, 100), reset=None)
    cluster.stop(1, 100, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    assert cluster.partition_errors[0][3] == KafkaError._AUTO_OFFSET_RESET
    cluster.fetches.seek("t", 0, 10)
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("start", cluster.handle_of(1), 10, 5)


def test_unusable_batch_is_fetched_again_with_back_off():
    cluster = ConsumerCluster(("t", 0, 0))
    cluster.stop(1, 70, status=-4)
    assert cluster.engine.cursors[0].log[-1][0] == "start"
    cluster.wait(1)
    assert cluster.engine.cursors[0].log[-1] == ("move", cluster.handle_of(1), 70, 5)


def test_events_of_an_older_fetch_epoch_are_ignored():
    cluster = ConsumerCluster(("t", 0, 0))
    cluster.fetches.on_cursor_error(
        event(token=1, epoch=1, offset=5, error_code=1), cluster.clock.now
    )
    cluster.go()
    assert cluster.engine.submitted == []


def test_leader_change_in_metadata_restarts_at_the_position():
    cluster = ConsumerCluster(("t", 0, 0))
    cluster.engine.cursors[0].position = 33
    cluster.renew_metadata((2, 6), (2, 5))
    assert cluster.engine.cursors[0].log[-1] == ("start", cluster.handle_of(2), 33, 6)


def test_recreated_topic_gets_a_new_cursor():
    cluster = ConsumerCluster(("t", 0, 5))
    cluster.renew_metadata((1, 0), (2, 0), topic_id=b"\7" * 16)
    assert cluster.engine.cursors[0] is None
    assert cluster.engine.cursors[1].topic_id == b"\7" * 16


def test_pause_keeps_the_position_and_resume_goes_on_there():
    cluster = ConsumerCluster(("t", 0, 0))
    cluster.engine.cursors[0].position = 12
    cluster.fetches.pause([("t", 0)])
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("stop",)
    cluster.fetches.resume([("t", 0)])
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("start", cluster.handle_of(1), 12, 5)


def test_partition_that_does_not_exist_reaches_the_application():
    cluster = ConsumerCluster(("t", 9, 0))
    began = cluster.clock.now
    while not cluster.partition_errors:
        cluster.wait(1)
        if cluster.engine.submitted:  # repeated metadata requests
            cluster.answer_metadata((1, 5), (2, 5))
    assert cluster.clock.now - began >= cluster.metadata.propagation_s
    for _ in range(60):
        cluster.wait(1)
        if cluster.engine.submitted:
            cluster.answer(cluster.metadata_reply("t", [(1, 5), (2, 5)]))
    assert [error.code() for *_, error in cluster.partition_errors] == [
        KafkaError._UNKNOWN_PARTITION
    ]


def test_partition_is_kept_while_metadata_are_old():
    cluster = ConsumerCluster(("t", 0, 0))
    cluster.clock.now += 100
    cluster.fetches.assign([("t", 2, 0)], cluster.clock.now)
    cluster.go()
    assert len(cluster.engine.submitted) == 1  # metadata are requested at once
    for _ in range(100):
        cluster.wait(1)
    assert cluster.partition_errors == []  # without an answer there is no proof


def test_missing_topic_is_reported_once_and_read_when_it_exists():
    cluster = ConsumerCluster()

    def away(seconds: float) -> None:
        end = cluster.clock.now + seconds
        while cluster.clock.now < end:
            cluster.go()
            while cluster.engine.submitted:
                cluster.answer(
                    cluster.metadata_reply("t", [], error_code=KafkaError.UNKNOWN_TOPIC_OR_PART)
                )
            cluster.clock.now += 0.05

    cluster.fetches.assign([("t", 0, 7), ("t", 1, 8)], cluster.clock.now)
    away(0.7)
    errors = [
        (topic, partition, error.code()) for topic, partition, _, error in cluster.partition_errors
    ]
    assert errors == [
        ("t", 0, KafkaError.UNKNOWN_TOPIC_OR_PART),
        ("t", 1, KafkaError.UNKNOWN_TOPIC_OR_PART),
    ]
    away(60)
    assert len(cluster.partition_errors) == 2
    cluster.fetches.assign([("t", 0, 7)], cluster.clock.now)
    away(0.7)
    assert len(cluster.partition_errors) == 3, "a new assignment reports it again"
    cluster.metadata.refresh(cluster.clock.now)
    cluster.wait(1)
    cluster.answer_metadata((1, 5))
    assert [cursor.log[0][2] for cursor in cluster.engine.cursors] == [7]
    assert len(cluster.partition_errors) == 3


def test_new_assignment_replaces_the_old_one():
    cluster = ConsumerCluster(("t", 0, 0))
    cluster.fetches.assign([("t", 1, 3)], cluster.clock.now)
    cluster.go()
    assert cluster.engine.cursors[0] is None
    assert cluster.engine.cursors[1].log == [("start", cluster.handle_of(2), 3, 5)]


def test_back_off_doubles_within_its_bounds():
    backoff = Backoff(0.1, 1.0, uniform=lambda low, high: 1.0)
    assert [backoff.next_s() for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    backoff.reset()
    assert backoff.next_s() == pytest.approx(0.1)
    jittered = Backoff(1.0, 1.0)
    assert all(0.8 <= jittered.next_s() <= 1.2 for _ in range(100))


# --- assignments ---


def test_partitions_are_added_and_removed_beside_others():
    cluster = ConsumerCluster(("t", 0, 3))
    cluster.fetches.add([("t", 1, 7, None)], cluster.clock.now)
    cluster.go()
    assert cluster.engine.cursors[1].log == [("start", cluster.handle_of(2), 7, 5)]
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 3, 5)]
    cluster.fetches.remove([("t", 0), ("t", 9)])
    cluster.go()
    assert set(cluster.fetches.assigned) == {("t", 1)}
    assert cluster.engine.cursors[0] is None
    assert cluster.engine.cursors[1].log == [("start", cluster.handle_of(2), 7, 5)]


def test_answer_from_before_a_reassignment_is_ignored():
    cluster = ConsumerCluster(("t", 0, -2))
    cluster.fetches.remove([("t", 0)])
    cluster.fetches.add([("t", 0, 50)], cluster.clock.now)
    cluster.go()
    cluster.offsets(7)
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 50, 5)]


def test_idle_partitions_are_not_looked_at():
    cluster = ConsumerCluster()
    cluster.fetches.assign([("t", number, 0) for number in range(2000)], cluster.clock.now)
    cluster.go()
    cluster.answer(cluster.metadata_reply("t", [(1, 5)] * 2000))
    cluster.go()
    assert len(cluster.engine.cursors) == 2000
    cluster.fetches.assigned = None  # type: ignore[assignment]  # nothing may want to look
    assert cluster.fetches.poll(cluster.clock.now) == ([], float("inf"))


def test_initial_offset_comes_before_auto_offset_reset():
    cluster = ConsumerCluster()
    cluster.fetches.initial_offsets = {("t", 1): OffsetPosition(40)}
    cluster.assign(("t", 0, OFFSET_INVALID), ("t", 1, OFFSET_INVALID))
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(2), 40, 5)]
    cluster.offsets(7)
    assert cluster.engine.cursors[1].log == [("start", cluster.handle_of(1), 7, 5)]


def test_reset_by_duration_starts_at_the_first_young_message():
    cluster = ConsumerCluster(("t", 0, OFFSET_INVALID), reset=Ago(3_600_000))
    assert cluster.offsets(90).topics[0].partitions[0].timestamp == LATEST
    assert cluster.offsets(33).topics[0].partitions[0].timestamp == 1_700_000_000_000 - 3_600_000
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 33, 5)]


def test_reset_by_duration_starts_at_the_earlier_end_without_young_messages():
    cluster = ConsumerCluster(("t", 0, OFFSET_INVALID), reset=Ago(1000))
    cluster.offsets(90)
    cluster.offsets(-1)
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 90, 5)]


# --- seeking and pausing ---


def test_seek_of_many_is_all_or_nothing():
    cluster = ConsumerCluster(("t", 0, 0), ("t", 1, 0))
    before = [list(cursor.log) for cursor in cluster.engine.cursors]
    assert cluster.fetches.seek_many([("t", 0, 5, None), ("t", 3, 5, None)]) == KafkaError._STATE
    assert (
        cluster.fetches.seek_many([("t", 0, 5, None), ("t", 1, -77, None)])
        == KafkaError._INVALID_ARG
    )
    cluster.go()
    assert [cursor.log for cursor in cluster.engine.cursors] == before
    assert cluster.fetches.seek_many([("t", 0, 5, None), ("t", 1, 6, 5)]) is None
    cluster.go()
    assert [cursor.log[-1][2] for cursor in cluster.engine.cursors] == [5, 6]


def test_seek_to_a_time_without_later_messages_goes_to_the_end():
    cluster = ConsumerCluster(("t", 0, 0), ("t", 1, 0))
    done: list[KafkaError | None] = []
    cluster.fetches.seek_to_times(
        [("t", 0, 1000), ("t", 1, 2000)], done.append, cluster.clock.now + 60
    )
    cluster.go()
    assert cluster.offsets(12).topics[0].partitions[0].timestamp == 1000
    assert done == []
    assert cluster.offsets(-1).topics[0].partitions[0].timestamp == 2000
    assert done == [None]
    assert cluster.engine.cursors[0].log[-1] == ("start", cluster.handle_of(1), 12, 5)
    assert cluster.offsets(99).topics[0].partitions[0].timestamp == LATEST
    assert cluster.engine.cursors[1].log[-1] == ("start", cluster.handle_of(2), 99, 5)


def test_pause_before_the_first_delivery_keeps_the_fetched_offset():
    cluster = ConsumerCluster(("t", 0, 10))
    cluster.stop(1, 500, status=-4)  # fetched up to 500, and nothing delivered
    cluster.fetches.pause([("t", 0)])
    cluster.fetches.resume([("t", 0)])
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("start", cluster.handle_of(1), 10, 5)


def test_pauses_outlast_the_assignment_until_the_subscription_ends():
    cluster = ConsumerCluster()
    cluster.fetches.pause([("t", 0), ("t", 1), ("t", 2)])
    cluster.fetches.resume([("t", 1), ("t", 7)])  # also of partitions that aren't assigned
    cluster.assign(("t", 0, 5), ("t", 1, 5))
    cluster.go()
    assert {key: one.paused for key, one in cluster.fetches.assigned.items()} == {
        ("t", 0): True,
        ("t", 1): False,
    }
    assert len(cluster.engine.cursors) == 1, (
        "a partition that is paused from the start isn't fetched"
    )
    cluster.fetches.remove([("t", 0), ("t", 1)])
    cluster.fetches.add([("t", 0, 5)], cluster.clock.now)
    assert cluster.fetches.assigned["t", 0].paused
    cluster.fetches.forget_pauses()
    cluster.fetches.add([("t", 2, 5)], cluster.clock.now)
    assert {key: one.paused for key, one in cluster.fetches.assigned.items()} == {
        ("t", 0): True,
        ("t", 2): False,
    }
    cluster.fetches.resume([("t", 0)])
    cluster.go()
    assert cluster.fetches.assigned["t", 0].offset == 5


def test_pause_of_many_lasts_through_a_new_leader():
    cluster = ConsumerCluster(("t", 0, 0), ("t", 1, 0))
    cluster.engine.cursors[0].position = 12
    cluster.fetches.pause([("t", 0), ("t", 1)])
    cluster.renew_metadata((2, 6), (2, 5))
    assert cluster.engine.cursors[0].log[-1] == ("stop",)
    cluster.fetches.resume([("t", 0), ("t", 1)])
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("start", cluster.handle_of(2), 12, 6)
    cluster.fetches.resume([("t", 0)])
    cluster.go()
    assert len(cluster.engine.cursors[0].log) == 3


def test_resume_does_not_bring_back_a_removed_partition():
    cluster = ConsumerCluster(("t", 0, 100), reset=None)
    cluster.stop(1, 100, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    cluster.fetches.pause([("t", 0)])
    cluster.fetches.resume([("t", 0)])
    cluster.go()
    assert len(cluster.partition_errors) == 1
    assert (
        cluster.engine.cursors[0].log[-1][0] != "start" or len(cluster.engine.cursors[0].log) == 1
    )


# --- errors ---


def test_new_leader_in_the_answer_is_used_at_once():
    cluster = ConsumerCluster(("t", 0, 0))
    cluster.stop(
        1, 500, error_code=KafkaError.NOT_LEADER_FOR_PARTITION, leader_id=2, leader_epoch=6
    )
    assert cluster.engine.cursors[0].log[-1] == ("move", cluster.handle_of(2), 500, 6)


def test_forbidden_partition_is_reported_once_and_retried_and_others_go_on():
    cluster = ConsumerCluster(("t", 0, 0), ("t", 1, 0))
    token = next(cursor.token for cursor in cluster.engine.cursors if cursor.partition == 0)
    for _ in range(4):
        cluster.stop(token, 0, error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
        cluster.wait(15)
    assert [(topic, partition) for topic, partition, *_ in cluster.partition_errors] == [("t", 0)]
    starts = [
        entry for entry in cluster.engine.cursors[token - 1].log if entry[0] in ("start", "move")
    ]
    assert len(starts) == 5
    assert cluster.engine.cursors[2 - token].log == [("start", cluster.handle_of(2), 0, 5)]


@pytest.mark.parametrize(("error_s", "wait_s"), [(0.0, 1.0), (0.02, 1.0), (0.5, 5.0), (2.0, 20.0)])
def test_forbidden_partition_waits_ten_times_the_backoff_and_at_least_a_second(
    error_s: float, wait_s: float
):
    cluster = ConsumerCluster(("t", 0, 0), error_s=error_s)
    log = cluster.engine.cursors[0].log
    cluster.stop(1, 0, error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    cluster.wait(wait_s - 0.01)
    assert len(log) == 1
    cluster.wait(0.02)
    assert len(log) == 2


def test_forbidden_partition_is_reported_again_after_a_fetch_that_succeeded():
    cluster = ConsumerCluster(("t", 0, 0))
    cursor = cluster.engine.cursors[0]
    for answered in (False, False, True, False, True):
        cursor.answered = answered
        cluster.stop(1, 0, error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
        cluster.wait(15)
    assert [error.code() for *_, error in cluster.partition_errors] == [
        KafkaError.TOPIC_AUTHORIZATION_FAILED
    ] * 3
    # a topic that a leader once confirmed stays confirmed
    assert cluster.fetches.bound_id(("t", 0)) == cursor.topic_id


def test_forbidden_topic_is_reported_once_and_requested_again():
    cluster = ConsumerCluster()
    cluster.fetches.assign([("t", 0, 0)], cluster.clock.now)
    for _ in range(4):
        cluster.go()
        refusal = cluster.metadata_reply("t", [], error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
        cluster.answer(refusal)
        cluster.clock.now += 40
    assert [error.code() for *_, error in cluster.partition_errors] == [
        KafkaError.TOPIC_AUTHORIZATION_FAILED
    ]
    cluster.go()
    cluster.answer_metadata((1, 5))
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 0, 5)]


def test_new_partition_is_fetched():
    cluster = ConsumerCluster(("t", 2, 0))
    cluster.wait(1)
    cluster.answer_metadata((1, 5), (2, 5), (1, 0))
    assert cluster.partition_errors == []
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 0, 0)]


def test_reset_to_the_end_is_not_repeated_when_queued_messages_are_dropped():
    cluster = ConsumerCluster(("t", 0, 0), reset=LATEST)
    cursor = cluster.engine.cursors[0]
    cursor.position = 60  # up to 100 is queued
    cluster.stop(1, 100, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    cluster.offsets(3000)
    assert cursor.log[-1] == ("move", cluster.handle_of(1), 3000, 5)
    cluster.fetches.pause([("t", 0)])
    cluster.fetches.resume([("t", 0)])
    cluster.go()
    assert cursor.log[-1] == ("start", cluster.handle_of(1), 60, 5)
    cluster.stop(1, 60, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    assert cursor.log[-1] == ("move", cluster.handle_of(1), 3000, 5)
    assert cluster.engine.submitted == []


def test_pause_right_after_a_reset_continues_at_the_new_offset():
    cluster = ConsumerCluster(("t", 0, 0), reset=LATEST)
    cursor = cluster.engine.cursors[0]
    cursor.position = 100
    cluster.stop(1, 100, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    cluster.offsets(3000)
    cluster.fetches.pause([("t", 0)])
    cluster.fetches.resume([("t", 0)])
    cluster.go()
    assert cursor.log[-1] == ("start", cluster.handle_of(1), 3000, 5)
    assert "out of range" in cluster.logged[0]


def test_back_off_starts_over_once_something_was_fetched():
    cluster = ConsumerCluster(("t", 0, 0))
    for number in range(1, 20):
        cluster.stop(1, number * 10, status=-4)
        cluster.wait(0.2)  # enough for the first back-off only
        assert cluster.engine.cursors[0].log[-1] == ("move", cluster.handle_of(1), number * 10, 5)


# --- a nearer replica ---


class NearReplicaCluster(ConsumerCluster):
    """Partition 0 is fetched from its leader, broker 1. Broker 2 is nearer."""

    def __init__(self) -> None:
        super().__init__(("t", 0, 0))
        self.cursor = self.engine.cursors[0]
        self.leader, self.follower = self.handle_of(1), self.handle_of(2)

    def prefer(self, node: int, offset: int) -> None:
        self.fetches.on_replica(
            event(token=1, epoch=self.cursor.epoch, offset=offset, leader_id=node), self.clock.now
        )
        self.go()


def test_preferred_replica_is_used_and_queued_messages_stay():
    cluster = NearReplicaCluster()
    cluster.prefer(2, 40)
    assert cluster.cursor.log[-1] == ("move", cluster.follower, 40, 5)
    cluster.renew_metadata((1, 5), (2, 5))
    assert cluster.cursor.log[-1] == ("move", cluster.follower, 40, 5)


def test_leader_is_used_again_when_the_choice_of_a_replica_is_old():
    cluster = NearReplicaCluster()
    cluster.prefer(2, 40)
    cluster.cursor.position = 35
    cluster.wait(301)
    assert cluster.cursor.log[-1] == ("start", cluster.leader, 35, 5)


def test_offset_out_of_range_at_a_follower_is_the_leaders_to_judge():
    cluster = NearReplicaCluster()
    cluster.prefer(2, 40)
    cluster.stop(1, 40, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    assert cluster.cursor.log[-1] == ("move", cluster.leader, 40, 5)
    assert cluster.engine.submitted == []
    cluster.stop(1, 40, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    cluster.offsets(3)
    assert cluster.cursor.log[-1] == ("move", cluster.leader, 3, 5)


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.TOPIC_AUTHORIZATION_FAILED]
)
def test_error_of_a_follower_leads_back_to_the_leader(code):
    cluster = NearReplicaCluster()
    cluster.prefer(2, 40)
    cluster.stop(1, 45, error_code=code)
    cluster.wait(1)
    assert cluster.cursor.log[-1] == ("move", cluster.leader, 45, 5)
    assert cluster.partition_errors == []


def test_leader_is_used_when_the_follower_goes_down():
    cluster = NearReplicaCluster()
    cluster.prefer(2, 40)
    cluster.cursor.position = 38
    cluster.fetches.on_broker_down(cluster.leader)
    cluster.go()
    assert cluster.cursor.log[-1] == ("move", cluster.follower, 40, 5)
    cluster.fetches.on_broker_down(cluster.follower)
    cluster.go()
    assert cluster.cursor.log[-1] == ("start", cluster.leader, 38, 5)


def test_new_leader_ends_the_choice_of_a_replica():
    cluster = NearReplicaCluster()
    cluster.prefer(2, 40)
    cluster.cursor.position = 38
    cluster.renew_metadata((2, 6), (2, 5))
    assert cluster.cursor.log[-1] == ("start", cluster.follower, 38, 6)
    assert cluster.fetches.assigned["t", 0].replica == -1


def test_unknown_replica_is_not_fetched_from():
    cluster = NearReplicaCluster()
    cluster.prefer(9, 40)
    cluster.wait(1)
    assert cluster.cursor.log[-1] == ("move", cluster.leader, 40, 5)
