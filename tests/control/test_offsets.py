"""Offsets for the application: batched by leader, repeated while leaders move, with a timeout."""

from __future__ import annotations

from typing import Any

from kafka_native.control.positions import EARLIEST, LATEST
from kafka_native.errors import KafkaError

from .test_fetches import ConsumerCluster


class OffsetsCluster(ConsumerCluster):
    """A consumer without an assignment. The topic is unknown."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def ask(self, *questions: tuple[str, int, int], deadline: float = 60.0) -> None:
        self.fetches.lookup_times(questions, self.found.append, self.clock.now + deadline)
        self.go()

    def answer_leaders(self, *leaders: tuple[int, int]) -> None:
        self.answer(self.metadata_reply("t", list(leaders)))
        for handle in (1, 2):
            if not self.pool.nodes[handle].up:
                self.bring_up(handle)
        self.go()


def test_times_are_asked_in_one_request_a_leader_and_answered_in_order():
    cluster = OffsetsCluster()
    cluster.ask(("t", 0, 100), ("t", 1, 200), ("t", 2, 300))
    cluster.answer_leaders((1, 5), (2, 5), (1, 5))
    assert len(cluster.engine.submitted) == 2
    first = cluster.offsets(7)
    assert [(each.partition_index, each.timestamp) for each in first.topics[0].partitions] == [
        (0, 100),
        (2, 300),
    ]
    assert cluster.found == []
    cluster.offsets(-1)
    assert cluster.found == [[(7, 5), (-1, 5), (7, 5)]]


def test_times_of_one_partition_share_no_request():
    cluster = OffsetsCluster()
    cluster.ask(("t", 0, 100), ("t", 0, 200))
    cluster.answer_leaders((1, 5))
    assert len(cluster.engine.submitted) == 2
    assert cluster.offsets(1).topics[0].partitions[0].timestamp == 100
    assert cluster.offsets(2).topics[0].partitions[0].timestamp == 200
    assert cluster.found == [[(1, 5), (2, 5)]]


def test_query_follows_its_leader():
    cluster = OffsetsCluster()
    cluster.ask(("t", 0, 100))
    cluster.answer_leaders((1, 5))
    cluster.offsets(0, error_code=KafkaError.NOT_LEADER_FOR_PARTITION)
    cluster.answer(cluster.metadata_reply("t", [(2, 6)]))
    cluster.wait(1)
    assert cluster.engine.submitted[0].handle == cluster.handle_of(2)
    cluster.offsets(9)
    assert cluster.found == [[(9, 5)]]


def test_query_ends_at_its_deadline_with_the_last_error():
    cluster = OffsetsCluster()
    cluster.ask(("t", 0, 100), ("t", 1, 100), deadline=2.0)
    cluster.answer_leaders((-1, 5), (2, 5))
    cluster.offsets(3)
    cluster.wait(2.1)
    [[late, found]] = cluster.found
    assert late == KafkaError._TIMED_OUT
    assert "leader" in late.str()
    assert found == (3, 5)


def test_query_ends_with_all_brokers_down_without_a_connection():
    cluster = OffsetsCluster()
    cluster.ask(("t", 0, 100), deadline=2.0)
    for broker in (*cluster.pool.bootstrap, *cluster.pool.nodes.values()):
        broker.failing = True
    cluster.wait(2.1)
    assert cluster.found == [[KafkaError._ALL_BROKERS_DOWN]]


def test_error_of_one_partition_leaves_the_answers_of_others():
    cluster = OffsetsCluster()
    cluster.ask(("t", 0, 100), ("t", 1, 100), ("t", 5, 100))
    cluster.answer_leaders((1, 5), (2, 5))
    cluster.offsets(3)
    cluster.offsets(0, error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert cluster.found == []  # metadata may be older than the partition
    cluster.clock.now += cluster.metadata.propagation_s + 1
    cluster.go()
    cluster.answer_leaders((1, 5), (2, 5))
    cluster.wait(1)
    assert cluster.found == [
        [(3, 5), KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._UNKNOWN_PARTITION]
    ]


def test_query_about_a_new_partition_is_answered():
    cluster = OffsetsCluster()
    cluster.ask(("t", 2, 100))
    cluster.answer_leaders((1, 5), (2, 5))
    cluster.wait(1)
    cluster.answer_leaders((1, 5), (2, 5), (1, 5))
    cluster.wait(1)
    cluster.offsets(9)
    assert cluster.found == [[(9, 5)]]


def test_query_about_a_missing_partition_fails_at_its_deadline():
    cluster = OffsetsCluster()
    cluster.ask(("t", 2, 100), deadline=2.0)
    cluster.answer_leaders((1, 5), (2, 5))
    cluster.wait(2.1)
    assert cluster.found == [[KafkaError._UNKNOWN_PARTITION]]


def test_unavailable_topic_is_an_error_at_once():
    cluster = OffsetsCluster()
    cluster.ask(("t", 0, 100))
    cluster.answer_metadata(error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert cluster.found == [[KafkaError.TOPIC_AUTHORIZATION_FAILED]]


def test_watermarks_of_many_partitions_are_two_requests_a_leader():
    cluster = OffsetsCluster()
    cluster.fetches.watermarks([("t", 0), ("t", 1)], cluster.found.append, cluster.clock.now + 60)
    cluster.go()
    cluster.answer_leaders((1, 5), (1, 5))
    assert len(cluster.engine.submitted) == 2
    assert {each.timestamp for each in cluster.offsets(2).topics[0].partitions} == {EARLIEST}
    assert {each.timestamp for each in cluster.offsets(80).topics[0].partitions} == {LATEST}
    assert cluster.found == [[(2, 80), (2, 80)]]


def test_closing_ends_queries():
    cluster = OffsetsCluster()
    cluster.ask(("t", 0, 100))
    cluster.fetches.close(KafkaError(KafkaError._DESTROY))
    assert cluster.found == [[KafkaError._DESTROY]]


def test_an_empty_query_is_answered_at_once():
    cluster = OffsetsCluster()
    cluster.ask()
    assert cluster.found == [[]]
