"""The metadata cache and the producer's routing: refreshes, leaders, created and deleted topics."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native._native.enums import STATUS_TIMED_OUT
from kafka_native.control.metadata import NO_LEADER
from kafka_native.control.producer.produce_router import ProduceRouter
from kafka_native.errors import KafkaError
from kafka_native.protocol.metadata import MetadataRequest

from .fakes import TOPIC_ID, Cluster, event


class ProducerCluster(Cluster):
    """A router with a wanted topic and a connected broker. ``leaders``: the answer for the topic."""

    def __init__(self, *leaders: tuple[int, int], name: str = "t", **how: Any) -> None:
        super().__init__(**how)
        self.router = ProduceRouter(self.engine, self.metadata, self.pool)
        self.managers = (self.router,)
        self.bring_up(0)
        self.engine.topic(name)
        self.want()
        self.go()
        if leaders:
            self.answer_metadata(*leaders, name=name)

    def want(self) -> None:
        """Let the engine ask for the topic's partitions."""
        self.router.on_topic_wanted(event(token=1), self.clock.now)


def test_wanted_topic_is_asked_for_at_once_and_its_partitions_reach_the_engine():
    cluster = ProducerCluster((1, 5), (2, 6), (9, 1))
    handles = [cluster.handle_of(1), cluster.handle_of(2), -1]
    assert cluster.engine.topic("t").partitions == (TOPIC_ID, handles, [5, 6, 1])


def test_partition_without_a_leader_is_asked_for_again_soon():
    cluster = ProducerCluster((NO_LEADER, 5))
    cluster.go()
    assert cluster.engine.submitted == []
    cluster.wait(0.5)
    cluster.answer_metadata((2, 6))
    assert cluster.engine.topic("t").partitions[1] == [cluster.handle_of(2)]
    cluster.wait(299)
    assert cluster.engine.submitted == []
    cluster.wait(2)
    assert len(cluster.engine.submitted) == 1


def test_metadata_are_requested_until_a_leader_that_is_down_is_replaced():
    cluster = ProducerCluster((1, 5))
    cluster.pool.nodes[1].failing = True
    cluster.metadata.on_broker_down(cluster.clock.now)
    for reply in ([(1, 5)], [(1, 5)], [(2, 6)]):  # its cluster hasn't noticed at first
        cluster.wait(2)
        assert len(cluster.engine.submitted) == 1
        cluster.answer(cluster.metadata_reply("t", reply))
    assert cluster.engine.topic("t").partitions[1] == [cluster.handle_of(2)]
    cluster.wait(299)
    assert cluster.engine.submitted == []


def test_older_leader_epoch_is_ignored():
    cluster = ProducerCluster((1, 5))
    cluster.renew_metadata((2, 4))
    assert cluster.metadata.leader("t", 0).leader == 1


def test_an_epoch_that_all_metadata_contradict_is_dropped():
    """Otherwise a broker that once named a huge epoch would decide the leader permanently."""
    cluster = ProducerCluster((1, 2**31 - 1))
    began = cluster.clock.now
    while cluster.metadata.leader("t", 0).leader == 1:
        cluster.clock.now += 5
        cluster.renew_metadata((2, 4))
        assert cluster.clock.now < began + 60
    assert cluster.clock.now - began > 25
    assert (cluster.metadata.leader("t", 0).leader, cluster.metadata.leader("t", 0).epoch) == (2, 4)


def test_metadata_that_are_sometimes_behind_stay_ignored():
    cluster = ProducerCluster((1, 5))
    for epoch in (4, 5, 4, 5, 4):
        cluster.clock.now += 25
        cluster.renew_metadata((1 if epoch == 5 else 2, epoch))
        assert cluster.metadata.leader("t", 0).leader == 1


def test_hint_moves_the_leader_without_a_request():
    cluster = ProducerCluster((1, 5))
    cluster.router.on_partition_error(
        event(token=1, partition=0, leader_id=2, leader_epoch=6), cluster.clock.now
    )
    cluster.go()
    assert cluster.engine.topic("t").partitions[1] == [cluster.handle_of(2)]
    assert cluster.engine.submitted == []


def test_hint_that_is_old_or_unknown_causes_a_request():
    for leader, epoch in [(2, 5), (77, 9), (-1, -1)]:
        cluster = ProducerCluster((1, 5))
        cluster.router.on_partition_error(
            event(token=1, partition=0, leader_id=leader, leader_epoch=epoch), cluster.clock.now
        )
        cluster.go()
        assert cluster.engine.topic("t").partitions[1] == [cluster.handle_of(1)]
        assert len(cluster.engine.submitted) == 1


def test_topic_hidden_for_one_reply_keeps_its_partitions():
    cluster = ProducerCluster((1, 5))
    before = cluster.engine.topic("t").partitions
    cluster.renew_metadata(error_code=KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert cluster.engine.topic("t").partitions is before
    assert cluster.engine.topic("t").failure is None
    assert cluster.metadata.leader("t", 0).leader == 1


def test_topic_that_stays_missing_fails_after_the_propagation_time():
    cluster = ProducerCluster()
    for _ in range(60):
        if cluster.engine.submitted:
            cluster.answer_metadata(error_code=KafkaError.UNKNOWN_TOPIC_OR_PART)
        cluster.wait(1)
    assert cluster.engine.topic("t").failure[1] == KafkaError._UNKNOWN_TOPIC
    cluster.want()
    cluster.go()
    cluster.answer_metadata((1, 0))
    assert cluster.engine.topic("t").partitions is not None


def missing(
    cluster: Cluster, seconds: float, name: str = "t", code: int = KafkaError.UNKNOWN_TOPIC_OR_PART
) -> None:
    """Answer every request with this error for so many seconds."""
    end = cluster.clock.now + seconds
    while cluster.clock.now < end:
        cluster.go()
        while cluster.engine.submitted:
            cluster.answer(cluster.metadata_reply(name, [], error_code=code))
        cluster.clock.now += 0.05


def wanting(create: bool = False, **how: Any) -> tuple[Cluster, list[tuple[str, int]]]:
    cluster, reports = Cluster(), []
    cluster.metadata.on_missing.append(
        lambda topic, error: reports.append((topic.name, error.code()))
    )
    cluster.bring_up(0)
    cluster.metadata.want("t", cluster.clock.now, create=create)
    return cluster, reports


@pytest.mark.parametrize("busy", [False, True])
def test_missing_topic_is_reported_in_the_first_second(busy: bool):
    cluster, reports = wanting()
    if busy:  # the back-off for other missing topics has grown
        cluster.metadata.want("other", cluster.clock.now, create=True)
        cluster.metadata.forget(["t"])
        missing(cluster, 10, "other")
        cluster.metadata.want("t", cluster.clock.now)
    reports.clear()
    lines = len(cluster.lines)
    missing(cluster, 0.2)
    assert reports == [], "perhaps the broker that answers doesn't know it yet"
    missing(cluster, 0.5)
    assert set(reports) == {("t", KafkaError.UNKNOWN_TOPIC_OR_PART)}
    missing(cluster, 60)
    assert cluster.lines[lines:] == ["topic t doesn't exist on this cluster; it is asked for again"]
    assert cluster.metadata.topics["t"].failed == KafkaError._UNKNOWN_TOPIC, (
        "given up after the propagation time"
    )


def test_topic_that_brokers_may_create_is_missing_when_they_do_not():
    cluster, reports = wanting(create=True)
    missing(cluster, 0.7)
    assert reports == [], "a broker may be about to make it"
    missing(cluster, 0.2)
    assert set(reports) == {("t", KafkaError.UNKNOWN_TOPIC_OR_PART)}
    assert cluster.lines == ["topic t doesn't exist on this cluster; it is asked for again"]


def test_topic_that_is_being_created_is_not_missing():
    cluster, reports = wanting()
    missing(cluster, 29, code=KafkaError.LEADER_NOT_AVAILABLE)
    assert (reports, cluster.lines) == ([], [])


def test_known_topic_is_reported_when_it_stays_missing():
    cluster, reports = wanting()
    cluster.go()
    cluster.answer_metadata((1, 0))
    cluster.metadata.refresh(cluster.clock.now)
    missing(cluster, 4)
    assert reports == []
    cluster.wait(1)
    cluster.answer_metadata((1, 0))
    cluster.metadata.refresh(cluster.clock.now)
    missing(cluster, 4)
    assert reports == [], "it was there in between"
    missing(cluster, 3)
    assert reports
    assert cluster.metadata.topics["t"].known, "its partitions are kept for the propagation time"
    assert len(cluster.lines) == 1


def test_unauthorized_topic_fails_at_once():
    cluster = ProducerCluster()
    cluster.answer_metadata(error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert cluster.engine.topic("t").failure[1] == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_recreated_topic_starts_from_its_new_epochs():
    cluster = ProducerCluster((1, 9))
    cluster.renew_metadata((2, 0), topic_id=b"\7" * 16)
    assert cluster.engine.topic("t").partitions == (b"\7" * 16, [cluster.handle_of(2)], [0])


def test_failed_request_is_tried_again_with_back_off():
    cluster = ProducerCluster()
    sent = cluster.engine.submitted.pop()
    cluster.pool.on_reply(event(token=sent.token, status=-9))
    cluster.go()
    assert cluster.engine.submitted == []
    cluster.wait(1.3)
    assert len(cluster.engine.submitted) == 1


def test_messages_are_checked_for_their_timeout_twice_a_second():
    cluster = ProducerCluster()
    before = cluster.engine.expired
    for _ in range(20):
        cluster.wait(0.1)
    assert 3 <= cluster.engine.expired - before <= 5


def test_query_for_partitions_is_answered_with_metadata_or_at_its_deadline():
    cluster = Cluster()
    router = ProduceRouter(cluster.engine, cluster.metadata, cluster.pool)
    cluster.managers = (router,)
    cluster.bring_up(0)
    now = cluster.clock.now
    answers: list[int | KafkaError] = []
    router.ask("t", now + 5, answers.append, now)
    cluster.go()
    assert answers == []
    assert router.poll(now + 0.01)[1] <= now + 5
    cluster.answer_metadata((1, 5), (2, 6))
    assert answers == [2]
    router.ask("t", now + 5, answers.append, now)  # known already
    assert answers == [2, 2]
    router.ask("u", now + 5, answers.append, now)
    router.poll(now + 5)
    assert isinstance(answers[2], KafkaError)
    assert answers[2].code() == KafkaError._TIMED_OUT
    router.ask("u", now + 50, answers.append, now)
    router.close(KafkaError(KafkaError._DESTROY))
    router.ask("t", now + 50, answers.append, now)
    assert [a.code() for a in answers[3:] if isinstance(a, KafkaError)] == [KafkaError._DESTROY] * 2
    assert len(answers) == 5


def test_partition_that_messages_wait_for_is_looked_for_until_metadata_are_new_enough():
    cluster = ProducerCluster((1, 5))
    cluster.clock.now += 100
    topic = cluster.engine.topic("t")
    topic.staged_at = began = cluster.clock.now
    cluster.want()
    cluster.go()
    assert len(cluster.engine.submitted) == 1  # requested at once
    while topic.staged_at is not None:
        if cluster.engine.submitted:
            cluster.answer_metadata((1, 5))
        cluster.wait(0.5)
    assert 30 <= cluster.clock.now - began < 35
    for _ in range(2):
        cluster.wait(100)
        while cluster.engine.submitted:
            cluster.answer_metadata((1, 5))
    cluster.wait(100)
    assert cluster.engine.submitted == []  # no longer wanted


def test_messages_wait_for_a_partition_while_no_broker_answers():
    cluster = ProducerCluster((1, 5))
    topic = cluster.engine.topic("t")
    topic.staged_at = cluster.clock.now
    cluster.want()
    for _ in range(200):
        cluster.wait(0.5)
    assert topic.staged_at is not None
    assert len(cluster.engine.submitted) == 1


def test_new_topic_does_not_wait_for_the_backoff_of_one_that_is_missing():
    cluster = ProducerCluster(name="gone")
    for _ in range(6):
        cluster.answer_metadata(name="gone", error_code=KafkaError.UNKNOWN_TOPIC_OR_PART)
        cluster.wait(4)
    cluster.answer_metadata(name="gone", error_code=KafkaError.UNKNOWN_TOPIC_OR_PART)
    cluster.go()
    assert cluster.engine.submitted == []
    cluster.metadata.want("new", cluster.clock.now)
    cluster.go()
    assert len(cluster.engine.submitted) == 1
    cluster.metadata.want("newer", cluster.clock.now)  # while that one is on its way
    cluster.answer_metadata((1, 5), name="new")
    cluster.go()
    assert len(cluster.engine.submitted) == 1
    cluster.answer_metadata((1, 5), name="newer")
    cluster.go()
    assert cluster.engine.submitted == []  # the missing one waits as before


def learn(cluster: Cluster, names: list[str]) -> None:
    """Answer the open request with a partition at broker 1 for each topic."""
    sent = cluster.engine.submitted[0]
    asked = {topic.name for topic in MetadataRequest.decode(sent.body, sent.version).topics}
    assert asked == set(names)
    reply = cluster.metadata_reply("", [])
    reply.topics = [
        cluster.metadata_reply(name, [(1, 5)], topic_id=number.to_bytes(16, "big")).topics[0]
        for number, name in enumerate(names, 1)
    ]
    cluster.answer(reply)


def test_refresh_carries_only_the_topics_in_use():
    cluster = Cluster(ttl_s=300)
    router = ProduceRouter(cluster.engine, cluster.metadata, cluster.pool)
    cluster.managers = (router,)
    cluster.bring_up(0)
    names = [f"t{number}" for number in range(2_000)]
    used = names[::100]
    for name in names:
        cluster.metadata.want(name, cluster.clock.now)
    cluster.metadata.uses.append(lambda since: used)
    cluster.go()
    learn(cluster, names)
    cluster.wait(300)
    learn(cluster, names)
    cluster.wait(300)
    learn(cluster, used)
    assert sorted(cluster.metadata.topics) == sorted(used)


def test_forgotten_topic_comes_back_with_one_request_at_once():
    cluster = ProducerCluster((1, 5), ttl_s=300)
    topic = cluster.engine.topic("t")
    topic.used_at = cluster.clock.now
    cluster.wait(301)
    assert (topic.forgotten, cluster.engine.submitted, cluster.metadata.topics) == (1, [], {})
    cluster.wait(1000)
    assert cluster.engine.submitted == []
    topic.partitions = None
    cluster.want()
    cluster.go()
    assert len(cluster.engine.submitted) == 1
    cluster.answer_metadata((2, 6))
    assert topic.partitions == (TOPIC_ID, [2], [6])


@pytest.mark.parametrize("waits", [False, True])
def test_topic_with_messages_is_in_use(waits: bool):
    cluster = ProducerCluster((1, 5), ttl_s=300)
    topic = cluster.engine.topic("t")
    for _ in range(3):
        if waits:
            topic.waits = True
        else:
            topic.used_at = cluster.clock.now + 100
        cluster.wait(301)
        cluster.answer_metadata((1, 5))
    assert topic.forgotten == 0
    topic.waits = False
    cluster.wait(301)
    assert topic.forgotten == 1


def test_topic_that_gets_a_message_while_it_is_forgotten_is_wanted_again(
    monkeypatch: pytest.MonkeyPatch,
):
    cluster = ProducerCluster((1, 5), ttl_s=300)
    topic = cluster.engine.topic("t")
    monkeypatch.setattr(topic, "forget", lambda: False)
    cluster.wait(301)
    assert "t" in cluster.metadata.topics
    assert len(cluster.engine.submitted) == 1


def test_late_message_of_a_forgotten_topic_finds_a_new_leader():
    cluster = ProducerCluster((1, 5), ttl_s=300)
    cluster.wait(301)
    assert cluster.metadata.topics == {}
    cluster.router.on_partition_error(event(token=1), cluster.clock.now)
    cluster.go()
    cluster.answer_metadata((2, 6))
    assert cluster.engine.topic("t").partitions == (TOPIC_ID, [2], [6])


def test_missing_topic_is_looked_for_whatever_its_time_to_live_is():
    cluster = ProducerCluster(ttl_s=1)
    for _ in range(3):
        cluster.wait(2)
        cluster.answer_metadata(error_code=KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert "t" in cluster.metadata.topics


def test_new_topic_waits_while_brokers_answer_with_errors():
    cluster = ProducerCluster()
    sent = cluster.engine.submitted.pop()
    cluster.pool.on_reply(event(broker=sent.handle, token=sent.token, status=STATUS_TIMED_OUT))
    cluster.metadata.want("new", cluster.clock.now)
    cluster.go()
    assert cluster.engine.submitted == []
    cluster.wait(0.5)
    assert len(cluster.engine.submitted) == 1


def test_managers_are_asked_once_about_many_topics():
    # One question for each topic took minutes for 20,000 topics.
    cluster = Cluster(ttl_s=300)
    cluster.bring_up(0)
    names = [f"t{number}" for number in range(100)]
    asked: list[float] = []

    def uses(since: float) -> list[str]:
        asked.append(since)
        return names[7:8]

    for name in names:
        cluster.metadata.want(name, cluster.clock.now)
    cluster.metadata.uses.append(uses)
    cluster.go()
    learn(cluster, names)
    cluster.metadata.forget(names[:50])
    assert cluster.metadata.topics.keys() == {names[7], *names[50:]}
    assert len(asked) == 1
    asked.clear()
    for _ in range(2):
        cluster.wait(300)
        learn(cluster, sorted(cluster.metadata.topics))
    assert cluster.metadata.topics.keys() == {names[7]}
    assert len(asked) <= 2
