"""The consumer's partitions: offsets found, leaders followed, errors survived, positions kept."""

from __future__ import annotations

import pytest

from kafka_native.control.backoff import Backoff
from kafka_native.control.fetching import OFFSET_TAIL_BASE, Fetching
from kafka_native.control.offsets import EARLIEST, LATEST
from kafka_native.control.positions import Reset
from kafka_native.errors import KafkaError
from kafka_native.protocol.offsets import ListOffsetsRequest, ListOffsetsResponse
from kafka_native.types import OFFSET_INVALID

from .fakes import Cluster, event


class Consuming(Cluster):
    """A cluster with one topic of two partitions, led by brokers 1 and 2, both up."""

    def __init__(self, reset: Reset = EARLIEST) -> None:
        super().__init__()
        self.logged: list[str] = []
        self.wall = 1_700_000_000.0
        self.told: list[tuple[str, int, int, KafkaError]] = []
        self.fetching = Fetching(
            self.engine,
            self.metadata,
            self.pool,
            reset=reset,
            isolation_level=1,
            timeout_s=60,
            create_topics=False,
            on_error=lambda *what: self.told.append(what),
            log=self.logged.append,
            clock=self.clock,
            wall_clock=lambda: self.wall,
        )
        self.bring_up(0)

    def go(self) -> None:
        self.turn(self.fetching)

    def assign(self, *partitions: tuple[str, int, int]) -> None:
        self.fetching.assign(partitions, self.clock.now)
        self.go()
        self.answer(self.metadata_reply("t", [(1, 5), (2, 5)]))
        for handle in (1, 2):
            self.bring_up(handle)
        self.go()

    def offsets(self, offset: int, error_code: int = 0) -> ListOffsetsRequest:
        """Answers the oldest ListOffsets with one offset for all, and returns the request."""
        sent = self.engine.submitted[0]
        request = ListOffsetsRequest.decode(sent.body, sent.version)
        response = ListOffsetsResponse(topics=[])
        for topic in request.topics:
            response.topics.append(ListOffsetsResponse.Topic(name=topic.name))
            for partition in topic.partitions:
                found = ListOffsetsResponse.Topic.Partition(
                    partition_index=partition.partition_index, offset=offset, error_code=error_code, leader_epoch=5
                )
                response.topics[-1].partitions.append(found)
        self.answer(response)
        self.go()
        return request

    def stop(self, token: int, offset: int, **fields: int) -> None:
        cursor = self.engine.cursors[token - 1]
        self.fetching.on_cursor_error(event(token=token, offset=offset, epoch=cursor.epoch, **fields), self.clock.now)
        self.go()


def test_absolute_offset_starts_without_a_look_up():
    cluster = Consuming()
    cluster.assign(("t", 0, 42))
    assert cluster.engine.submitted == []
    assert cluster.engine.cursors[0].log == [("start", cluster.pool.handle(1), 42, 5)]


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
    cluster = Consuming()
    cluster.assign(("t", 1, wanted))
    assert cluster.engine.submitted[0].handle == cluster.pool.handle(2)
    request = cluster.offsets(7)
    assert request.isolation_level == 1
    assert request.topics[0].partitions[0].timestamp == timestamp
    assert cluster.engine.cursors[0].log == [("start", cluster.pool.handle(2), started, 5)]


def test_look_ups_of_one_leader_share_a_request():
    cluster = Consuming()
    cluster.fetching.assign([("t", 0, -2), ("t", 1, -2), ("t", 2, -2)], cluster.clock.now)
    cluster.go()
    cluster.answer(cluster.metadata_reply("t", [(1, 0), (1, 0), (1, 0)]))
    cluster.bring_up(1)
    cluster.go()
    assert len(cluster.engine.submitted) == 1
    request = cluster.offsets(0)
    assert len(request.topics[0].partitions) == 3


def test_no_offset_and_reset_error_reaches_the_application():
    cluster = Consuming(reset=None)
    cluster.assign(("t", 0, OFFSET_INVALID))
    [(topic, partition, _, error)] = cluster.told
    assert (topic, partition, error.code()) == ("t", 0, KafkaError._AUTO_OFFSET_RESET)


def test_look_up_is_repeated_when_the_leader_has_moved():
    cluster = Consuming()
    cluster.assign(("t", 0, -2))
    cluster.offsets(0, error_code=KafkaError.NOT_LEADER_FOR_PARTITION)
    cluster.answer(cluster.metadata_reply("t", [(2, 6), (2, 5)]))
    cluster.go()
    cluster.offsets(3)
    assert cluster.engine.cursors[0].log == [("start", cluster.pool.handle(2), 3, 6)]


def test_look_up_that_is_forbidden_reaches_the_application():
    cluster = Consuming()
    cluster.assign(("t", 0, -2))
    cluster.offsets(0, error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert cluster.told[0][3] == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_seek_starts_anew_and_an_answer_to_an_older_look_up_is_ignored():
    cluster = Consuming()
    cluster.assign(("t", 0, -2))
    cluster.fetching.seek("t", 0, 99)
    cluster.go()
    assert cluster.engine.cursors[0].log == [("start", cluster.pool.handle(1), 99, 5)]
    cluster.offsets(3)
    assert cluster.engine.cursors[0].log == [("start", cluster.pool.handle(1), 99, 5)]


def test_seek_of_what_is_not_assigned_is_refused():
    cluster = Consuming()
    assert cluster.fetching.seek("t", 0, 1) == KafkaError._STATE


def test_moved_leader_goes_on_within_the_fetch_epoch_so_nothing_queued_is_lost():
    cluster = Consuming()
    cluster.assign(("t", 0, 0))
    cluster.stop(1, 500, error_code=KafkaError.NOT_LEADER_FOR_PARTITION, leader_id=2, leader_epoch=6)
    cluster.clock.now += 1
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("move", cluster.pool.handle(2), 500, 6)


def test_out_of_range_resets_and_keeps_what_is_queued():
    cluster = Consuming(reset=LATEST)
    cluster.assign(("t", 0, 100))
    cluster.stop(1, 100, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    request = cluster.offsets(40)
    assert request.topics[0].partitions[0].timestamp == LATEST
    assert cluster.engine.cursors[0].log[-1] == ("move", cluster.pool.handle(1), 40, 5)


def test_out_of_range_and_reset_error_reaches_the_application_and_a_seek_heals():
    cluster = Consuming(reset=None)
    cluster.assign(("t", 0, 100))
    cluster.stop(1, 100, error_code=KafkaError.OFFSET_OUT_OF_RANGE)
    assert cluster.told[0][3] == KafkaError._AUTO_OFFSET_RESET
    cluster.fetching.seek("t", 0, 10)
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("start", cluster.pool.handle(1), 10, 5)


def test_unusable_batch_is_fetched_again_with_back_off():
    cluster = Consuming()
    cluster.assign(("t", 0, 0))
    cluster.stop(1, 70, status=-4)
    assert cluster.engine.cursors[0].log[-1][0] == "start"
    cluster.clock.now += 1
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("move", cluster.pool.handle(1), 70, 5)


def test_news_of_an_older_fetch_epoch_is_ignored():
    cluster = Consuming()
    cluster.assign(("t", 0, 0))
    cluster.fetching.on_cursor_error(event(token=1, epoch=1, offset=5, error_code=1), cluster.clock.now)
    cluster.go()
    assert cluster.engine.submitted == []


def test_leader_change_in_metadata_restarts_at_the_position():
    cluster = Consuming()
    cluster.assign(("t", 0, 0))
    cluster.engine.cursors[0].position = 33
    cluster.metadata.refresh(cluster.clock.now)
    cluster.go()
    cluster.answer(cluster.metadata_reply("t", [(2, 6), (2, 5)]))
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("start", cluster.pool.handle(2), 33, 6)


def test_recreated_topic_gets_a_new_cursor():
    cluster = Consuming()
    cluster.assign(("t", 0, 5))
    cluster.metadata.refresh(cluster.clock.now)
    cluster.go()
    cluster.answer(cluster.metadata_reply("t", [(1, 0), (2, 0)], topic_id=b"\7" * 16))
    cluster.go()
    assert cluster.engine.cursors[0] is None
    assert cluster.engine.cursors[1].topic_id == b"\7" * 16


def test_pause_keeps_the_position_and_resume_goes_on_there():
    cluster = Consuming()
    cluster.assign(("t", 0, 0))
    cluster.engine.cursors[0].position = 12
    assert cluster.fetching.pause("t", 0) is None
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("stop",)
    assert cluster.fetching.resume("t", 0) is None
    cluster.go()
    assert cluster.engine.cursors[0].log[-1] == ("start", cluster.pool.handle(1), 12, 5)


def test_partition_that_does_not_exist_reaches_the_application():
    cluster = Consuming()
    cluster.assign(("t", 9, 0))
    assert cluster.told[0][3] == KafkaError._UNKNOWN_PARTITION


def test_new_assignment_replaces_the_old_one():
    cluster = Consuming()
    cluster.assign(("t", 0, 0))
    cluster.fetching.assign([("t", 1, 3)], cluster.clock.now)
    cluster.go()
    assert cluster.engine.cursors[0] is None
    assert cluster.engine.cursors[1].log == [("start", cluster.pool.handle(2), 3, 5)]


def test_back_off_doubles_within_its_bounds():
    backoff = Backoff(0.1, 1.0, uniform=lambda low, high: 1.0)
    assert [backoff.next_s() for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
    backoff.reset()
    assert backoff.next_s() == pytest.approx(0.1)
    jittered = Backoff(1.0, 1.0)
    assert all(0.8 <= jittered.next_s() <= 1.2 for _ in range(100))
