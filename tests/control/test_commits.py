"""Commits: order, retries, ownership, automatic commits, and reading offsets."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native.control.brokers.coordinator import Coordinator
from kafka_native.control.consumer.commits import CommitManager
from kafka_native.control.group.membership import Member
from kafka_native.control.positions import EARLIEST
from kafka_native.control.requests import Backoff
from kafka_native.errors import KafkaError
from kafka_native.protocol.coordinator import FindCoordinatorResponse
from kafka_native.protocol.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka_native.types import OFFSET_INVALID, OFFSET_STORED, TopicPartition

from .fakes import TOPIC_ID, Cluster, api_versions, fetch_manager, registry

OTHER_ID = b"\5" * 16


class Group(Cluster):
    """A group member with a connected coordinator and two partitions of a topic."""

    def __init__(
        self,
        *offsets: int,
        offer: Any = None,
        protocol: str = "classic",
        joined: bool = True,
        **how: Any,
    ) -> None:
        super().__init__()
        self.committed: list[tuple[KafkaError | None, list[TopicPartition]]] = []
        self.outcomes: list[Any] = []
        self.offer = offer
        self.polls = (1, False)
        self.member = Member("g", protocol=protocol)
        if joined:
            self.member.member_id, self.member.generation = "me", 3
        self.fetches = fetch_manager(self)
        self.coordinator = Coordinator(
            self.pool,
            "g",
            timeout_s=60,
            backoff=Backoff(0.1, 1.0, lambda low, high: 1.0),
            clock=self.clock,
        )
        settings: dict[str, Any] = {
            "auto_commit": False,
            "interval_s": 5.0,
            "timeout_s": 30.0,
        } | how
        self.commits = CommitManager(
            self.member,
            self.coordinator,
            self.fetches,
            on_commit=lambda error, partitions: self.committed.append((error, partitions)),
            backoff=Backoff(0.1, 1.0, lambda low, high: 1.0),
            clock=self.clock,
            **settings,
        )
        self.managers = (self.fetches, self.commits, self.coordinator)
        self.bring_up(0)
        if offsets:
            self.assign(*offsets)

    def assign(self, *offsets: int) -> None:
        """Fetch partitions 0, 1, ... of the topic from these offsets."""
        self.fetches.assign(
            [("t", number, offset) for number, offset in enumerate(offsets)], self.clock.now
        )
        self.go()
        self.answer(self.metadata_reply("t", [(1, 5)] * len(offsets)))
        self.bring_up(self.handle_of(1))
        self.go()
        self.connect()

    def find(self) -> None:
        """Answer the search for the coordinator."""
        self.go()
        self.answer(
            FindCoordinatorResponse(
                coordinators=[
                    FindCoordinatorResponse.Coordinator(key="g", node_id=1, host="b1", port=9092)
                ]
            )
        )
        self.go()
        self.connect()

    def connect(self) -> None:
        """Connect the coordinator if that is wanted."""
        broker = None if self.coordinator.target is None else self.pool._at(self.coordinator.target)
        if broker is not None and not broker.up and broker.handle in self.engine.connects:
            self.bring_up(broker.handle, self.offer)
            self.go()

    def commit(self, *offsets: tuple[int, int], deadline: float = 60.0, topic: str = "t") -> None:
        partitions = [TopicPartition(topic, number, offset) for number, offset in offsets]
        self.commits.commit(partitions, self.outcomes.append, self.clock.now + deadline)
        self.go()

    def request(self) -> Any:
        """Return the oldest open request, decoded. It stays open."""
        sent = self.engine.submitted[0]
        request = registry.request(sent.api_key).decode(sent.body, sent.version)
        return sent.version, request

    def reply(self, *codes: int) -> OffsetCommitRequest:
        """Answer the oldest OffsetCommit with these codes.

        The last code is for all further partitions.
        """
        _, request = self.request()
        assert isinstance(request, OffsetCommitRequest)
        left = list(codes or (0,))
        response = OffsetCommitResponse()
        for topic in request.topics:
            answer = OffsetCommitResponse.Topic(name=topic.name, topic_id=topic.topic_id)
            for each in topic.partitions:
                code = left.pop(0) if len(left) > 1 else left[0]
                answer.partitions.append(
                    OffsetCommitResponse.Topic.Partition(
                        partition_index=each.partition_index, error_code=code
                    )
                )
            response.topics.append(answer)
        self.answer(response)
        self.go()
        return request

    def offsets(
        self, found: dict[int, tuple[int, int, str | None, int]], group_error: int = 0
    ) -> OffsetFetchRequest:
        """Answer the oldest OffsetFetch with (offset, epoch, metadata, error) for each
        partition.
        """
        version, request = self.request()
        assert isinstance(request, OffsetFetchRequest)
        if version < 8:
            old = [
                OffsetFetchResponse.Topic.Partition(
                    partition_index=number,
                    committed_offset=offset,
                    committed_leader_epoch=epoch if version >= 5 else -1,
                    metadata=text,
                    error_code=code,
                )
                for number, (offset, epoch, text, code) in found.items()
            ]
            self.answer(
                OffsetFetchResponse(
                    topics=[OffsetFetchResponse.Topic(name="t", partitions=old)],
                    error_code=group_error,
                )
            )
        else:
            [group] = request.groups
            assert group.topics is not None
            answer = OffsetFetchResponse.Group(group_id="g", error_code=group_error)
            for topic in group.topics:
                parts = []
                for number in topic.partition_indexes:
                    offset, epoch, text, code = found.get(number, (-1, -1, "", 0))
                    parts.append(
                        OffsetFetchResponse.Group.Topic.Partition(
                            partition_index=number,
                            committed_offset=offset,
                            committed_leader_epoch=epoch,
                            metadata=text,
                            error_code=code,
                        )
                    )
                answer.topics.append(
                    OffsetFetchResponse.Group.Topic(
                        name=topic.name, topic_id=topic.topic_id, partitions=parts
                    )
                )
            self.answer(OffsetFetchResponse(groups=[answer]))
        self.go()
        return request


def committing(*commits: tuple[int, int], partitions: int = 1, **how: Any) -> Group:
    """Return a group whose commit waits for the coordinator's answer."""
    cluster = Group(*[0] * partitions, **how)
    cluster.commit(*commits)
    cluster.find()
    return cluster


def offsets_of(request: OffsetCommitRequest) -> dict[int, int]:
    return {
        each.partition_index: each.committed_offset
        for topic in request.topics
        for each in topic.partitions
    }


def older(**newest: int) -> Any:
    """Return the versions of a broker that has these APIs only up to these versions."""
    ranges = {
        int(key): (registry.request(key).min_version, registry.request(key).max_version)
        for key in registry.api_keys()
    }
    for name, version in newest.items():
        ranges[{"commit": 8, "fetch": 9}[name]] = (0, version)
    return api_versions(ranges)


# --- commits ---


def test_commit_carries_identity_epoch_metadata_and_the_topics_id():
    cluster = Group(0)
    partition = TopicPartition("t", 0, 42, "note", 5)
    cluster.commits.commit([partition], cluster.outcomes.append, cluster.clock.now + 60)
    cluster.find()
    version, _ = cluster.request()
    request = cluster.reply()
    assert version == 10
    assert (request.group_id, request.member_id, request.generation_id_or_member_epoch) == (
        "g",
        "me",
        3,
    )
    [topic] = request.topics
    assert topic.topic_id == TOPIC_ID
    [sent] = topic.partitions
    assert (sent.committed_offset, sent.committed_leader_epoch, sent.committed_metadata) == (
        42,
        5,
        "note",
    )
    [[answer]] = cluster.outcomes
    assert (answer.offset, answer.metadata, answer.leader_epoch, answer.error) == (
        42,
        "note",
        5,
        None,
    )
    assert cluster.committed == [(None, [partition])]


@pytest.mark.parametrize(("newest", "topic"), [(9, "t"), (10, "elsewhere"), (6, "t"), (1, "t")])
def test_commit_goes_by_name_where_the_broker_is_older_or_the_id_is_not_known(newest, topic):
    cluster = Group(0, offer=older(commit=newest))
    cluster.commit((0, 7), topic=topic)
    cluster.find()
    version, _ = cluster.request()
    assert version == min(newest, 9)
    assert cluster.reply().topics[0].name == topic
    assert [each.error for each in cluster.outcomes[0]] == [None]


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.STALE_MEMBER_EPOCH,
    ],
)
def test_retriable_error_is_retried_after_a_back_off(code):
    cluster = committing((0, 7))
    cluster.reply(code)
    assert cluster.engine.submitted == []
    assert cluster.outcomes == []
    cluster.wait(0.2)
    cluster.reply()
    assert [each.error for each in cluster.outcomes[0]] == [None]


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE])
def test_coordinator_that_moved_is_looked_for_and_gets_the_commit(code):
    cluster = committing((0, 7))
    cluster.reply(code)
    assert cluster.coordinator.target is None
    cluster.find()
    assert offsets_of(cluster.reply()) == {0: 7}, "only the look-up has a back-off"
    assert [each.error for each in cluster.outcomes[0]] == [None]


def test_commit_ends_at_its_deadline_with_the_last_error():
    cluster = Group(0)
    cluster.commit((0, 7), deadline=1.0)
    cluster.find()
    cluster.reply(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.wait(1.1)
    assert cluster.outcomes == [KafkaError.COORDINATOR_LOAD_IN_PROGRESS]
    assert cluster.engine.submitted == []


def test_commit_without_any_coordinator_ends_at_its_deadline():
    cluster = Group()
    cluster.commit((0, 7), deadline=1.0)
    cluster.wait(1.1)
    assert cluster.outcomes == [KafkaError._TIMED_OUT]


def test_group_that_is_forbidden_fails_commits_at_once():
    cluster = Group()
    cluster.commit((0, 7))
    refusal = FindCoordinatorResponse.Coordinator(
        key="g", error_code=KafkaError.GROUP_AUTHORIZATION_FAILED
    )
    cluster.answer(FindCoordinatorResponse(coordinators=[refusal]))
    cluster.go()
    assert cluster.outcomes == [KafkaError.GROUP_AUTHORIZATION_FAILED]


def test_error_of_one_partition_is_its_own():
    cluster = committing((0, 7), (1, 8), partitions=2)
    cluster.reply(0, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    [[first, second]] = cluster.outcomes
    assert first.error is None
    assert second.error == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_later_commit_never_overtakes_one_that_is_tried_again():
    cluster = committing((0, 7), (1, 1), partitions=2)
    cluster.commit((0, 9))
    assert len(cluster.engine.submitted) == 1
    assert offsets_of(cluster.reply(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)) == {0: 7, 1: 1}
    cluster.wait(0.2)
    assert offsets_of(cluster.reply()) == {0: 9, 1: 1}
    assert [[each.offset for each in outcome] for outcome in cluster.outcomes] == [[7, 1], [9]]
    assert cluster.engine.submitted == []


def test_commits_that_wait_share_a_request():
    cluster = committing((0, 1))
    for offset in range(2, 50):
        cluster.commit((0, offset))
    assert offsets_of(cluster.reply()) == {0: 1}
    assert offsets_of(cluster.reply()) == {0: 49}
    assert len(cluster.outcomes) == 49
    assert cluster.engine.submitted == []


def test_stale_epoch_is_answered_with_the_newer_one_and_nothing_is_reset():
    cluster = committing((0, 7), protocol="consumer")
    cluster.member.generation = 4
    assert cluster.reply(KafkaError.STALE_MEMBER_EPOCH).generation_id_or_member_epoch == 3
    cluster.wait(0.2)
    assert cluster.reply().generation_id_or_member_epoch == 4
    assert [each.error for each in cluster.outcomes[0]] == [None]
    assert cluster.fetches.assigned["t", 0].offset == 0
    assert cluster.partition_errors == []


@pytest.mark.parametrize(
    "code",
    [KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.FENCED_INSTANCE_ID],
)
def test_commit_of_a_fenced_member_fails(code):
    cluster = committing((0, 7))
    cluster.reply(code)
    assert cluster.outcomes == [code]


def test_commit_that_an_older_generation_has_sent_is_sent_again():
    cluster = committing((0, 7))
    cluster.member.generation = 4
    cluster.reply(KafkaError.ILLEGAL_GENERATION)
    cluster.wait(0.2)
    assert cluster.reply().generation_id_or_member_epoch == 4
    assert [each.error for each in cluster.outcomes[0]] == [None]


def test_commit_from_before_a_rebalance_leaves_out_revoked_partitions():
    cluster = committing((0, 7), (1, 8), partitions=2)
    cluster.reply(KafkaError.REBALANCE_IN_PROGRESS)
    cluster.fetches.remove([("t", 1)])
    cluster.member.generation = 4
    cluster.wait(0.2)
    assert offsets_of(cluster.reply()) == {0: 7}
    [[first, second]] = cluster.outcomes
    assert first.error is None
    assert second.error == KafkaError.ILLEGAL_GENERATION


def test_commit_from_before_a_partition_left_and_came_back_is_not_made():
    cluster = committing((0, 7), (1, 8), partitions=2)
    cluster.reply(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.fetches.remove([("t", 1)])
    cluster.fetches.add([("t", 1, 500)], cluster.clock.now)  # another member has had it
    cluster.member.generation = 6
    cluster.wait(0.2)
    assert offsets_of(cluster.reply()) == {0: 7}
    assert [each.error for each in cluster.outcomes[0]] == [None, KafkaError.ILLEGAL_GENERATION]
    assert cluster.fetches.assigned["t", 1].sent is None


def test_commit_of_an_expelled_member_is_not_sent_without_a_member_id():
    cluster = committing((0, 7))
    cluster.reply(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.member.member_id, cluster.member.generation = "", -1
    cluster.wait(0.2)
    assert cluster.engine.submitted == []
    assert cluster.outcomes == [KafkaError.UNKNOWN_MEMBER_ID]


def test_client_outside_the_group_commits_any_partition():
    cluster = committing((5, 7))
    assert offsets_of(cluster.reply()) == {5: 7}


def test_member_commits_nothing_of_partitions_that_are_not_its_own():
    cluster = Group()
    cluster.commits.subscribed = lambda: True
    cluster.assign(0)
    cluster.commit((0, 3), (5, 7))
    cluster.find()
    assert offsets_of(cluster.reply()) == {0: 3}
    assert [each.error for each in cluster.outcomes[0]] == [None, KafkaError._STATE]
    assert "isn't assigned to this member" in cluster.outcomes[0][1].error.str()
    cluster.commit((5, 7))
    cluster.go()
    assert cluster.outcomes[1] == KafkaError._STATE, "and no request is made for nothing"
    assert cluster.engine.submitted == []


def test_outcome_has_partitions_without_an_offset():
    cluster = Group(0, 1)
    cluster.commit((0, OFFSET_INVALID), (1, 7))
    cluster.find()
    assert offsets_of(cluster.reply()) == {1: 7}
    outcome = [(each.partition, each.offset, each.error) for each in cluster.outcomes[0]]
    assert outcome == [(0, OFFSET_INVALID, None), (1, 7, None)]
    assert cluster.committed[0][1] == cluster.outcomes[0], "on_commit gets the same"
    cluster.commit((0, OFFSET_INVALID), (1, 8))
    cluster.go()
    cluster.reply(KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert cluster.outcomes[1] == KafkaError.GROUP_AUTHORIZATION_FAILED, (
        "the error of all that were committed"
    )


def test_commit_without_a_group_or_an_offset_is_an_error():
    cluster = Group()
    cluster.commit((0, OFFSET_INVALID))
    assert cluster.outcomes.pop() == KafkaError._NO_OFFSET
    cluster.commits.commit_stored(cluster.outcomes.append, 0.0)
    assert cluster.outcomes.pop() == KafkaError._NO_OFFSET
    commits = CommitManager(
        Member(""),
        cluster.coordinator,
        cluster.fetches,
        auto_commit=True,
        interval_s=1,
        timeout_s=1,
    )
    commits.commit([TopicPartition("t", 0, 1)], cluster.outcomes.append, 2000.0)
    assert cluster.outcomes.pop() == KafkaError._UNKNOWN_GROUP
    assert cluster.fetches.ask_committed is None


def test_closing_ends_every_commit_and_every_query():
    cluster = committing((0, 7))
    cluster.commit((0, 8))
    cluster.commits.fetch_committed([("t", 0)], cluster.outcomes.append, cluster.clock.now + 60)
    cluster.commits.close(KafkaError(KafkaError._DESTROY))
    assert cluster.outcomes == [KafkaError._DESTROY] * 3


# --- stored offsets ---


def test_delivered_offsets_are_stored_unless_the_application_stores_them():
    cluster = Group(0, 0)
    cursor = cluster.engine.cursors[0]
    cursor.position, cursor.position_epoch = 12, 5
    [first, second] = cluster.commits.stored([("t", 0), ("t", 1)])
    assert (first.offset, first.leader_epoch, second.offset) == (12, 5, OFFSET_INVALID)
    by_hand = Group(auto_store=False)
    by_hand.assign(0)
    by_hand.engine.cursors[0].position = 12
    assert by_hand.commits.stored([("t", 0)])[0].offset == OFFSET_INVALID
    assert [each.error for each in by_hand.commits.store([TopicPartition("t", 0, 9, "m", 4)])] == [
        None
    ]
    [stored] = by_hand.commits.stored([("t", 0)])
    assert (stored.offset, stored.metadata, stored.leader_epoch) == (9, "m", 4)


def test_offset_of_a_partition_that_is_not_assigned_cannot_be_stored():
    cluster = Group(0, auto_store=False)
    wanted = [
        TopicPartition("t", 0, 3),
        TopicPartition("t", 4, 3),
        TopicPartition("t", 0, OFFSET_INVALID),
    ]
    errors = [each.error for each in cluster.commits.store(wanted)]
    assert errors[0] is None
    assert errors[1] == KafkaError._STATE
    assert errors[2] == KafkaError._INVALID_ARG


def test_stored_offset_does_not_outlive_its_partitions_assignment():
    cluster = Group(0, auto_store=False)
    cluster.commits.store([TopicPartition("t", 0, 9)])
    cluster.fetches.remove([("t", 0)])
    cluster.fetches.add([("t", 0, 0)], cluster.clock.now)
    assert cluster.commits.stored([("t", 0)])[0].offset == OFFSET_INVALID


def test_commit_of_stored_offsets_leaves_out_committed_ones():
    cluster = Group(0, 0)
    cluster.engine.cursors[0].position = 12
    cluster.commits.commit_stored(cluster.outcomes.append, cluster.clock.now + 60)
    cluster.find()
    assert offsets_of(cluster.reply()) == {0: 12}
    cluster.engine.cursors[1].position = 3
    cluster.commits.commit_stored(cluster.outcomes.append, cluster.clock.now + 60)
    cluster.go()
    assert offsets_of(cluster.reply()) == {1: 3}


# --- automatic commits ---


def test_auto_commit_sends_changed_offsets_every_interval():
    cluster = Group(0, 0, auto_commit=True)
    cluster.engine.cursors[0].position = 12
    cluster.wait(4.9)
    assert cluster.engine.submitted == []
    cluster.wait(0.2)
    cluster.find()
    assert offsets_of(cluster.reply()) == {0: 12}
    cluster.wait(5.1)
    assert cluster.engine.submitted == []
    cluster.engine.cursors[0].position = 15
    cluster.engine.cursors[1].position = 1
    cluster.wait(5.1)
    assert offsets_of(cluster.reply()) == {0: 15, 1: 1}


@pytest.mark.parametrize("epoch", [None, 5])
def test_auto_commit_never_goes_back(epoch):
    cluster = committing((0, 10), partitions=2, auto_commit=True, auto_store=False)
    cluster.reply()
    cluster.commits.store(
        [TopicPartition("t", 0, 9, leader_epoch=epoch), TopicPartition("t", 1, 3)]
    )
    cluster.wait(5.1)
    assert offsets_of(cluster.reply()) == {1: 3}
    cluster.commits.store([TopicPartition("t", 0, 10), TopicPartition("t", 1, 2)])
    cluster.wait(5.1)
    cluster.commits.flush([("t", 0), ("t", 1)], lambda: None)  # nor on revocation
    cluster.go()
    assert cluster.engine.submitted == []
    cluster.commits.store([TopicPartition("t", 0, 11)])
    cluster.wait(5.1)
    assert offsets_of(cluster.reply()) == {0: 11}
    cluster.commit((0, 4))  # an explicit commit may go back
    assert offsets_of(cluster.reply()) == {0: 4}


def test_auto_commit_follows_a_log_that_a_newer_leader_has_cut_off():
    cluster = Group(0, auto_commit=True)
    cluster.engine.cursors[0].position, cluster.engine.cursors[0].position_epoch = 12, 5
    cluster.wait(5.1)
    cluster.find()
    assert offsets_of(cluster.reply()) == {0: 12}
    cluster.engine.cursors[0].position, cluster.engine.cursors[0].position_epoch = 8, 6
    cluster.wait(5.1)
    assert offsets_of(cluster.reply()) == {0: 8}


def test_auto_commit_that_failed_is_made_again_the_next_time():
    cluster = Group(0, auto_commit=True)
    cluster.engine.cursors[0].position = 12
    cluster.wait(5.1)
    cluster.find()
    cluster.reply(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert cluster.committed[0][0] == KafkaError.TOPIC_AUTHORIZATION_FAILED
    cluster.wait(5.1)
    assert offsets_of(cluster.reply()) == {0: 12}


def test_auto_commit_leaves_out_messages_that_the_application_may_still_process():
    cluster = Group(0, auto_commit=True, polls=lambda: cluster.polls)
    cluster.engine.cursors[0].position = 12
    cluster.wait(5.1)
    cluster.engine.cursors[0].position = 20
    cluster.wait(5.1)
    assert cluster.engine.submitted == []
    cluster.polls = (2, False)
    cluster.wait(0.6)
    cluster.find()
    assert offsets_of(cluster.reply()) == {0: 12}
    cluster.polls = (3, True)  # it waits for more, so it has processed all that it got
    cluster.wait(5.1)
    assert offsets_of(cluster.reply()) == {0: 20}


def test_flush_commits_stored_offsets_of_its_partitions_and_waits_for_earlier_commits():
    cluster = Group(0, 0, auto_commit=True)
    cluster.engine.cursors[0].position = 12
    cluster.engine.cursors[1].position = 13
    cluster.commit((1, 5))
    cluster.find()
    done: list[int] = []
    cluster.commits.flush([("t", 0)], lambda: done.append(1))
    cluster.fetches.remove([("t", 0)])
    assert offsets_of(cluster.reply()) == {1: 5}
    assert done == []
    assert offsets_of(cluster.reply()) == {0: 12}
    assert done == [1]
    cluster.commits.flush([("t", 0)], lambda: done.append(2))
    assert done == [1, 2]


def test_an_outcome_during_a_poll_schedules_another_turn_at_once():
    cluster = committing((0, 5))
    done: list[int] = []
    wakes: list[float] = []
    # nothing to commit, but a commit to wait for
    cluster.commits.flush([("t", 0)], lambda: done.append(1))
    poll = cluster.commits.poll

    def watched(now: float) -> Any:
        before = len(done)
        calls, wake_up = poll(now)
        if len(done) > before:
            wakes.append(wake_up - now)
        return calls, wake_up

    cluster.commits.poll = watched
    cluster.reply()
    assert done == [1]
    assert wakes == [0.0]


def test_flush_goes_on_under_a_newer_epoch_of_the_same_member():
    cluster = Group(0, auto_commit=True, protocol="consumer")
    cluster.engine.cursors[0].position = 12
    done: list[int] = []
    cluster.commits.flush([("t", 0)], lambda: done.append(1))
    cluster.fetches.remove([("t", 0)])
    cluster.find()
    cluster.member.generation = 4
    cluster.reply(KafkaError.STALE_MEMBER_EPOCH)
    cluster.wait(0.2)
    assert cluster.reply().generation_id_or_member_epoch == 4
    assert done == [1]


def test_flush_ends_without_an_answer():
    cluster = Group(0, auto_commit=True)
    cluster.engine.cursors[0].position = 12
    done: list[int] = []
    cluster.commits.flush([("t", 0)], lambda: done.append(1), cluster.clock.now + 2)
    cluster.go()
    cluster.wait(2.1)
    assert done == [1]


# --- reading back ---


@pytest.mark.parametrize("newest", [10, 9, 8, 7, 5, 1])
def test_committed_offsets_are_asked_for_in_one_request(newest):
    cluster = Group(0, 0, 0, offer=older(fetch=newest))
    cluster.commits.fetch_committed(
        [("t", 0), ("t", 1)], cluster.outcomes.append, cluster.clock.now + 60
    )
    cluster.commits.fetch_committed([("t", 2)], cluster.outcomes.append, cluster.clock.now + 60)
    cluster.find()
    version, _ = cluster.request()
    assert version == newest
    request = cluster.offsets({0: (5, 2, "m", 0), 1: (-1, -1, "", 0), 2: (7, -1, "", 0)})
    assert request.require_stable is (newest >= 7)
    [[first, second], [third]] = cluster.outcomes
    assert (first.offset, first.metadata, first.leader_epoch) == (
        5,
        "m",
        2 if newest >= 5 else None,
    )
    assert (second.offset, third.offset, third.metadata) == (OFFSET_INVALID, 7, None)


def test_committed_offsets_are_requested_with_member_id_and_epoch_in_the_consumer_protocol():
    cluster = Group(0, protocol="consumer")
    cluster.commits.fetch_committed([("t", 0)], cluster.outcomes.append, cluster.clock.now + 60)
    cluster.find()
    [group] = cluster.offsets({}, group_error=KafkaError.STALE_MEMBER_EPOCH).groups
    assert (group.member_id, group.member_epoch) == ("me", 3)
    cluster.member.generation = 4
    cluster.wait(0.2)
    [group] = cluster.offsets({0: (5, 2, "", 0)}).groups
    assert group.member_epoch == 4
    assert cluster.outcomes[0][0].offset == 5


def test_offset_of_an_open_transaction_is_waited_for():
    cluster = Group(0, 0)
    cluster.commits.fetch_committed(
        [("t", 0), ("t", 1)], cluster.outcomes.append, cluster.clock.now + 60
    )
    cluster.find()
    cluster.offsets({0: (-1, -1, "", KafkaError.UNSTABLE_OFFSET_COMMIT), 1: (3, -1, "", 0)})
    assert cluster.outcomes == []
    cluster.wait(0.2)
    [group] = cluster.offsets({0: (9, -1, "", 0)}).groups
    assert group.topics[0].partition_indexes == [0]
    assert [each.offset for each in cluster.outcomes[0]] == [9, 3]


def test_committed_offsets_include_earlier_commits():
    cluster = committing((0, 7), partitions=2)
    cluster.commits.fetch_committed([("t", 0)], cluster.outcomes.append, cluster.clock.now + 60)
    cluster.commits.fetch_committed([("t", 1)], cluster.outcomes.append, cluster.clock.now + 60)
    cluster.go()
    assert len(cluster.engine.submitted) == 2
    cluster.reply(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    [group] = cluster.offsets({1: (3, -1, "", 0)}).groups
    assert group.topics[0].partition_indexes == [1]
    cluster.wait(0.2)
    cluster.reply()
    [group] = cluster.offsets({0: (7, -1, "", 0)}).groups
    assert group.topics[0].partition_indexes == [0]
    assert cluster.engine.submitted == []


def test_committed_ends_at_its_deadline():
    cluster = Group()
    cluster.commits.fetch_committed([("t", 0)], cluster.outcomes.append, cluster.clock.now + 1)
    cluster.go()
    cluster.wait(1.1)
    assert cluster.outcomes == [KafkaError._TIMED_OUT]


def test_partitions_start_where_the_group_has_committed_else_by_auto_offset_reset():
    cluster = Group()
    cluster.coordinator.want(cluster.clock.now)
    cluster.find()
    cluster.assign(OFFSET_STORED, OFFSET_INVALID, 7)
    request = cluster.offsets({0: (5, -1, "", 0)})
    assert request.groups[0].topics[0].partition_indexes == [0, 1]
    logs = [cursor.log for cursor in cluster.engine.cursors]
    assert [("start", cluster.handle_of(1), 7, 5)] in logs
    assert [("start", cluster.handle_of(1), 5, 5)] in logs
    _, lookup = cluster.request()
    assert [(each.partition_index, each.timestamp) for each in lookup.topics[0].partitions] == [
        (1, EARLIEST)
    ]


def test_stale_epoch_while_reading_committed_offsets_never_leads_to_a_reset():
    cluster = Group(protocol="consumer")
    cluster.coordinator.want(cluster.clock.now)
    cluster.find()
    cluster.assign(OFFSET_STORED)
    for code in (
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.NOT_COORDINATOR,
    ):
        cluster.offsets({}, group_error=code)
        assert all(not cursor.log for cursor in cluster.engine.cursors)
        cluster.wait(1.5)
        if code == KafkaError.NOT_COORDINATOR:
            cluster.find()
            cluster.wait(1.5)
    cluster.offsets({0: (5, -1, "", 0)})
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 5, 5)]
    assert cluster.partition_errors == []


def test_forbidden_committed_offset_is_reported_once_and_requested_again():
    cluster = Group()
    cluster.coordinator.want(cluster.clock.now)
    cluster.find()
    cluster.assign(OFFSET_STORED, 3)
    for _ in range(3):
        cluster.offsets({0: (-1, -1, "", KafkaError.TOPIC_AUTHORIZATION_FAILED)})
        cluster.wait(15)
    assert [error.code() for *_, error in cluster.partition_errors] == [
        KafkaError.TOPIC_AUTHORIZATION_FAILED
    ]
    assert cluster.engine.cursors[0].log == [("start", cluster.handle_of(1), 3, 5)]
    cluster.offsets({0: (5, -1, "", 0)})
    assert cluster.engine.cursors[1].log == [("start", cluster.handle_of(1), 5, 5)]
