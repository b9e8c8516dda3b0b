"""A topic that is deleted and recreated: reading of the old topic ends, and its offsets aren't
committed for the new one.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.control.positions import Key
from kafka_native.errors import KafkaError
from kafka_native.protocol import ApiKey
from kafka_native.types import OFFSET_INVALID, TopicPartition

from .fakes import TOPIC_ID
from .test_commits import OTHER_ID, Group
from .test_fetches import ConsumerCluster

# --- reading ---


def meet_new_topic(cluster: ConsumerCluster) -> list[list[Key]]:
    """Give metadata another id of the topic, and return the calls of ``on_ended``."""
    ended: list[list[Key]] = []
    cluster.fetches.on_ended = ended.append
    cluster.renew_metadata((1, 0), (2, 0), topic_id=OTHER_ID)
    return ended


def test_partitions_of_a_recreated_topic_end():
    cluster = ConsumerCluster(("t", 0, 42), ("t", 1, 7))
    for cursor in cluster.engine.cursors:
        cursor.answered = True
    cluster.engine.cursors[0].position = 50
    assert meet_new_topic(cluster) == [[("t", 0), ("t", 1)]]
    assert [cursor.log[-1] for cursor in cluster.engine.cursors] == [("stop",), ("stop",)]
    assert cluster.fetches.assigned["t", 0].position == OFFSET_INVALID
    assert any("deleted and recreated" in line for line in cluster.logged)
    cluster.wait(100)
    assert all(cursor.log[-1] == ("stop",) for cursor in cluster.engine.cursors)


def test_unconfirmed_start_offset_applies_to_the_new_topic():
    cluster = ConsumerCluster(("t", 0, 42))
    assert meet_new_topic(cluster) == []
    assert cluster.engine.cursors[-1].topic_id == OTHER_ID
    assert cluster.engine.cursors[-1].log == [("start", cluster.handle_of(1), 42, 0)]


def test_seek_after_reading_the_old_topic_applies_to_the_new_one():
    cluster = ConsumerCluster(("t", 0, 42))
    cluster.engine.cursors[0].position, cluster.engine.cursors[0].answered = 50, True
    assert meet_new_topic(cluster) == [[("t", 0)]]
    assert cluster.fetches.seek("t", 0, 3) is None
    cluster.go()
    assert not cluster.fetches.assigned["t", 0].ended
    assert cluster.engine.cursors[-1].log == [("start", cluster.handle_of(1), 3, 0)]


@pytest.mark.parametrize(("by_id", "started"), [(True, 5), (False, 7)])
def test_offset_committed_by_name_is_ignored_once_after_a_topic_was_recreated(by_id, started):
    cluster = ConsumerCluster()
    cluster.fetches.offsets_by_id = lambda: by_id
    cluster.fetches.ask_committed = lambda keys, done, deadline: done(
        [TopicPartition(*key, 5) for key in keys]
    )
    cluster.assign(("t", 1, 0))
    cluster.fetches.expect_recreated([("t", 0)])
    for expected in (started, 5):
        cluster.fetches.assign([("t", 0, OFFSET_INVALID)], cluster.clock.now)
        cluster.fetches.forget_recreated()
        cluster.go()
        cluster.go()
        if cluster.engine.submitted:
            cluster.offsets(7)
        [cursor] = [each for each in cluster.engine.cursors if each is not None]
        assert cursor.log[-1][2] == expected


# --- committing ---


def reads_on(cluster: Group, position: int) -> None:
    """Set the position up to which the topic was read."""
    cluster.engine.cursors[0].position, cluster.engine.cursors[0].answered = position, True


def recreate(cluster: Group, *, topic_id: bytes = OTHER_ID, **how: Any) -> None:
    cluster.renew_metadata(*([] if how else [(1, 0)]), topic_id=topic_id, **how)
    cluster.go()


def test_offsets_of_a_deleted_topic_are_not_committed_for_its_successor():
    cluster = Group(0, auto_commit=True)
    reads_on(cluster, 12)
    recreate(cluster)
    cluster.wait(5.1)
    cluster.commits.flush([("t", 0)], lambda: None)
    cluster.go()
    assert cluster.engine.submitted == []
    cluster.commit((0, 12))
    assert cluster.engine.submitted == []
    assert cluster.outcomes == [KafkaError.UNKNOWN_TOPIC_ID]
    [stored] = cluster.commits.store([TopicPartition("t", 0, 12)])
    assert stored.error == KafkaError._STATE


def test_commit_in_flight_when_its_topic_is_recreated_is_not_retried():
    cluster = Group(0)
    reads_on(cluster, 12)
    cluster.commit((0, 12))
    cluster.find()
    cluster.reply(KafkaError.UNKNOWN_TOPIC_ID)
    cluster.answer(cluster.metadata_reply("t", [(1, 0)], topic_id=OTHER_ID))
    cluster.wait(1)
    assert cluster.outcomes == [KafkaError.UNKNOWN_TOPIC_ID]


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN_TOPIC_ID, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_refused_commit_has_the_metadata_refreshed(code):
    cluster = Group(0)
    reads_on(cluster, 12)
    cluster.commit((0, 12))
    cluster.find()
    cluster.reply(code)
    cluster.answer(cluster.metadata_reply("t", [], error_code=KafkaError.UNKNOWN_TOPIC_OR_PART))
    cluster.wait(1)
    assert cluster.outcomes == [KafkaError.UNKNOWN_TOPIC_OR_PART]


def test_offset_is_not_committed_while_its_topic_is_missing():
    """By name, it could become the offset of a new topic."""
    cluster = Group(0, auto_commit=True)
    reads_on(cluster, 12)
    recreate(cluster, error_code=KafkaError.UNKNOWN_TOPIC_OR_PART)
    cluster.commit((0, 12))
    cluster.wait(5.1)
    cluster.commits.flush([("t", 0)], lambda: None)
    cluster.go()
    assert ApiKey.OFFSET_COMMIT not in [each.api_key for each in cluster.engine.submitted]
    assert cluster.outcomes == [KafkaError.UNKNOWN_TOPIC_OR_PART]


@pytest.mark.parametrize("topic_id", [TOPIC_ID, OTHER_ID, bytes(16)])
def test_offset_is_committed_while_no_leader_of_its_topic_is_known(topic_id: bytes) -> None:
    """The reply has the topic's id, so the topic exists. Another one, or none, may be a new one."""
    cluster = Group(0)
    reads_on(cluster, 12)
    code = KafkaError.LEADER_NOT_AVAILABLE
    recreate(cluster, error_code=code, topic_id=topic_id)
    cluster.commit((0, 12))
    if topic_id == TOPIC_ID:
        cluster.find()
        cluster.reply(0)
        assert [each.offset for each in cluster.outcomes[0]] == [12]
    else:
        assert cluster.outcomes == [KafkaError.UNKNOWN_TOPIC_OR_PART]


def test_offset_is_committed_again_once_its_topic_is_found():
    cluster = Group(0)
    reads_on(cluster, 12)
    recreate(cluster, error_code=KafkaError.UNKNOWN_TOPIC_OR_PART)
    cluster.wait(1)
    cluster.answer_metadata((1, 0))
    cluster.commit((0, 12))
    cluster.find()
    cluster.reply(0)
    assert [each.offset for each in cluster.outcomes[0]] == [12]
