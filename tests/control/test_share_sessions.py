"""Share sessions (KIP-932): epochs, added and forgotten partitions, and acknowledgements, with
given answers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native.control.consumer.held_records import (
    RENEWED,
    Acknowledgement,
    Acquired,
    HeldRange,
    Outcome,
)
from kafka_native.control.consumer.share_group import BATCH_OPTIMIZED, Limits, ShareSessions
from kafka_native.control.group.membership import Member
from kafka_native.control.requests import Backoff, Call
from kafka_native.errors import KafkaError
from kafka_native.protocol.share import ShareAcknowledgeResponse, ShareFetchResponse

from .fakes import Clock

ID = b"i" * 16
DATA = ShareFetchResponse.ShareFetchableTopicResponse
ACKED = ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse


@dataclass
class FakeMetadata:
    """One topic. Brokers 1 and 2 lead its partitions in turn."""

    leaders: list[int] = field(default_factory=lambda: [1, 2, 1, 2])
    on_topic: list[Any] = field(default_factory=list)
    refreshed: int = 0

    @property
    def topics(self) -> dict[str, Any]:
        partitions = [SimpleNamespace(leader=each, epoch=0) for each in self.leaders]
        return {"t": SimpleNamespace(id=ID, name="t", known=True, partitions=partitions)}

    def refresh(self, now: float) -> None:
        self.refreshed += 1

    def leader(self, name: str, partition: int) -> Any:
        return self.topics[name].partitions[partition]

    def on_hint(self, name: str, partition: int, leader: int, epoch: int, now: float) -> None:
        if leader >= 0:
            self.move(partition, leader)

    def move(self, partition: int, leader: int) -> None:
        self.leaders[partition] = leader
        for listener in self.on_topic:
            listener(None)


class World:
    """Sessions whose environment is fake. The application waits."""

    def __init__(self, *numbers: int) -> None:
        self.clock, self.metadata = Clock(), FakeMetadata()
        self.records: list[Acquired] = []
        self.outcomes: list[Outcome] = []
        self.errors: list[KafkaError] = []
        self.calls: dict[int, Call] = {}
        self.waits = True
        self.sessions = ShareSessions(
            Member("g", None, "share", "m"),
            self.metadata,  # type: ignore[arg-type]
            Limits(500, 1, 1000, 10, BATCH_OPTIMIZED),
            timeout_s=60.0,
            backoff=lambda: Backoff(0.1, 1.0, lambda low, high: 1.0),
            on_records=self.records.extend,
            on_outcomes=self.outcomes.extend,
            on_error=lambda topic, partition, error: self.errors.append(error),
            waits=lambda: self.waits,
            log=logging.getLogger("test"),
            clock=self.clock,
        )
        self.sessions.assign((ID, number) for number in numbers)

    def turn(self) -> None:
        for call in self.sessions.poll(self.clock.now)[0]:
            assert call.target is not None
            assert call.target not in self.calls, "one request at a time"
            self.calls[call.target] = call

    def sent(self, node: int = 1) -> Any:
        self.turn()
        return self.calls[node].message

    def answer(self, reply: Any, node: int = 1) -> None:
        self.turn()
        self.calls.pop(node).on_reply(reply)

    def give(self, number: int, first: int, last: int, node: int = 1) -> Acknowledgement:
        """Let a broker deliver records, and return an acknowledgement that accepts them."""
        self.sessions.fetch()
        acquired = [
            DATA.PartitionData.AcquiredRecords(
                first_offset=first, last_offset=last, delivery_count=1
            )
        ]
        part = DATA.PartitionData(partition_index=number, records=b"", acquired_records=acquired)
        self.answer(fetched(part), node)
        got = self.records[-1]
        return Acknowledgement(got.session, got.key, got.topic, [(first, last, b"\1")])


def fetched(*parts: Any, lock_ms: int = 30_000) -> ShareFetchResponse:
    response = ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms)
    response.responses = [DATA(topic_id=ID, partitions=list(parts))] if parts else []
    return response


def named(topics: list[Any]) -> list[int]:
    return [each.partition_index for topic in topics for each in topic.partitions]


@pytest.mark.parametrize(
    ("reported_ms", "held_s"),
    [
        (30_000, 30),
        (1, 1),
        (999, 1),
        (3_600_000, 3600),
        (3_600_001, 3600),
        (2**31 - 1, 3600),
        (0, 3600),
        (-1, 3600),
    ],
)
def test_locks_hold_for_a_second_to_an_hour(reported_ms: int, held_s: float) -> None:
    world = World(0)
    world.sessions.fetch()
    acquired = DATA.PartitionData.AcquiredRecords(first_offset=0, last_offset=0, delivery_count=1)
    part = DATA.PartitionData(partition_index=0, records=b"", acquired_records=[acquired])
    world.answer(fetched(part, lock_ms=reported_ms))
    assert world.records[-1].until - world.clock.now == held_s


def test_each_leader_has_a_session_that_begins_with_all_its_partitions() -> None:
    world = World(0, 1, 2, 3)
    world.turn()
    assert not world.calls, "it fetches only on demand"
    world.sessions.fetch()
    assert (world.sent(1).share_session_epoch, named(world.sent(1).topics)) == (0, [0, 2])
    assert (world.sent(2).share_session_epoch, named(world.sent(2).topics)) == (0, [1, 3])
    assert (world.sent(1).group_id, world.sent(1).member_id, world.sent(1).max_records) == (
        "g",
        "m",
        10,
    )


def test_a_request_that_cannot_be_made_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(0, 1)
    one, other = world.give(0, 0, 1), world.give(1, 0, 1, node=2)
    world.answer(fetched())
    world.sessions.acknowledge([one, other])
    make = ShareSessions._next

    def broken(self: ShareSessions, session: Any, now: float) -> Any:
        call = make(self, session, now)
        if session.node == 2:
            raise RuntimeError("a defect")
        return call

    with monkeypatch.context() as patched:
        patched.setattr(ShareSessions, "_next", broken)
        calls, wake_up = world.sessions.poll(world.clock.now)
        assert [call.target for call in calls] == [1]
        assert wake_up <= world.clock.now + 1
    [call], _ = world.sessions.poll(world.clock.now)
    assert call.target == 2
    assert named(call.message.topics) == [1], "its acknowledgements aren't lost"


def test_epochs_count_up_and_known_partitions_are_not_sent_again() -> None:
    world = World(0)
    world.sessions.fetch()
    for epoch in range(3):
        message = world.sent()
        assert message.share_session_epoch == epoch
        assert named(message.topics) == ([] if epoch else [0])
        world.answer(fetched())


def test_epochs_start_again_at_one() -> None:
    world = World(0)
    acknowledgement = world.give(0, 0, 1)
    acknowledgement.session.epoch = 0x7FFFFFFF
    world.sessions.fetch()
    world.answer(fetched())
    assert world.sent().share_session_epoch == 1


def test_partitions_come_and_go_within_a_session() -> None:
    world = World(0)
    world.sessions.fetch()
    world.answer(fetched())
    world.sessions.assign([(ID, 2)])
    message = world.sent()
    assert named(message.topics) == [2]
    assert [each.partitions for each in message.forgotten_topics_data] == [[0]]


def test_nothing_is_fetched_while_records_are_queued_or_no_call_waits() -> None:
    world = World(0, 1)
    world.give(0, 0, 9)
    world.answer(fetched(), 2)
    world.turn()
    assert not world.calls
    world.sessions.fetch()
    world.waits = False
    world.answer(fetched(), 1)
    world.answer(fetched(), 2)
    world.turn()
    assert not world.calls


def test_acknowledgements_are_part_of_a_fetch() -> None:
    world = World(0)
    world.sessions.acknowledge([world.give(0, 0, 9)])
    world.sessions.fetch()
    (part,) = world.sent().topics[0].partitions
    (batch,) = part.acknowledgement_batches
    assert (batch.first_offset, batch.last_offset, batch.acknowledge_types) == (0, 9, [1])
    world.answer(fetched(DATA.PartitionData(partition_index=0, records=b"")))
    assert [error for _, error in world.outcomes] == [None]


def test_acknowledgements_without_a_fetch_have_their_own_request() -> None:
    world = World(0)
    world.sessions.acknowledge([world.give(0, 0, 9)])
    message = world.sent()
    assert type(message).__name__ == "ShareAcknowledgeRequest"
    assert message.share_session_epoch == 1
    world.answer(
        ShareAcknowledgeResponse(responses=[ACKED(topic_id=ID, partitions=[ACKED.PartitionData()])])
    )
    assert [error for _, error in world.outcomes] == [None]


def renewal(acknowledgement: Acknowledgement) -> tuple[Acknowledgement, HeldRange]:
    """Return a renewal of the same records, and their range."""
    session, key = acknowledgement.session, acknowledgement.key
    (first, last, _), *_ = acknowledgement.batches
    held = HeldRange(session, key, first, bytearray([RENEWED]) * (last - first + 1))
    return Acknowledgement(session, key, "t", [(first, last, b"\4")], renewed=[held]), held


def test_renewals_are_sent_first_and_alone_and_then_the_fetch() -> None:
    world = World(0, 2)
    final = world.give(0, 0, 4)
    renewed, held = renewal(world.give(2, 5, 9))
    world.sessions.acknowledge([final, renewed])
    world.sessions.fetch()
    message = world.sent()
    assert type(message).__name__ == "ShareAcknowledgeRequest"
    assert message.is_renew_ack
    assert named(message.topics) == [2]
    parts = [ACKED.PartitionData(partition_index=2)]
    world.clock.now += 1
    world.answer(
        ShareAcknowledgeResponse(
            acquisition_lock_timeout_ms=20_000, responses=[ACKED(topic_id=ID, partitions=parts)]
        )
    )
    assert held.until == world.clock.now + 20
    message = world.sent()
    assert type(message).__name__ == "ShareFetchRequest"
    assert not message.is_renew_ack
    assert named(message.topics) == [0]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (
            ShareAcknowledgeResponse(
                responses=[ACKED(topic_id=ID, partitions=[ACKED.PartitionData(error_code=121)])]
            ),
            KafkaError.INVALID_RECORD_STATE,
        ),
        (KafkaError(KafkaError._INVALID_ARG), KafkaError._UNSUPPORTED_FEATURE),
        (KafkaError(KafkaError._TRANSPORT), KafkaError._TRANSPORT),
    ],
)
def test_failed_renewal_gives_the_record_up(reply: Any, code: int) -> None:
    world = World(0)
    renewed, held = renewal(world.give(0, 0, 4))
    world.sessions.acknowledge([renewed])
    world.answer(reply)
    assert held.until == 0
    assert not held.accepts(0)
    assert [error.code() for _, error in world.outcomes if error is not None] == [code]


def test_ending_session_sends_renewals_before_its_last_request() -> None:
    world = World(0)
    renewed, _ = renewal(world.give(0, 0, 4))
    world.sessions.acknowledge([renewed])
    world.sessions.end(lambda: None)
    message = world.sent()
    assert message.is_renew_ack
    assert message.share_session_epoch == 1
    parts = [ACKED.PartitionData()]
    world.answer(ShareAcknowledgeResponse(responses=[ACKED(topic_id=ID, partitions=parts)]))
    assert world.sent().share_session_epoch == -1


def test_acknowledgements_of_a_removed_partition_are_sent_before_it_is_forgotten() -> None:
    world = World(0, 2)
    world.sessions.acknowledge([world.give(0, 0, 9)])
    world.sessions.assign([(ID, 2)])
    world.sessions.fetch()
    assert type(world.sent()).__name__ == "ShareAcknowledgeRequest"
    world.answer(
        ShareAcknowledgeResponse(responses=[ACKED(topic_id=ID, partitions=[ACKED.PartitionData()])])
    )
    message = world.sent()
    assert message.share_session_epoch == 2
    assert [each.partitions for each in message.forgotten_topics_data] == [[0]]


def test_two_acknowledgements_of_one_partition_take_two_requests() -> None:
    world = World(0)
    first = world.give(0, 0, 9)
    second = Acknowledgement(first.session, first.key, first.topic, [(0, 4, b"\3")])
    world.sessions.acknowledge([first, second])
    for types in ([1], [3]):
        (part,) = world.sent().topics[0].partitions
        assert [each.acknowledge_types for each in part.acknowledgement_batches] == [types]
        world.answer(
            ShareAcknowledgeResponse(
                responses=[ACKED(topic_id=ID, partitions=[ACKED.PartitionData()])]
            )
        )


@pytest.mark.parametrize(
    "reply",
    [
        KafkaError(KafkaError._TRANSPORT),
        ShareFetchResponse(error_code=KafkaError.SHARE_SESSION_NOT_FOUND),
        ShareFetchResponse(error_code=KafkaError.INVALID_SHARE_SESSION_EPOCH),
    ],
    ids=["transport", "not found", "epoch"],
)
def test_acknowledgements_fail_with_their_session(reply: Any) -> None:
    world = World(0)
    sent = world.give(0, 0, 9)
    later = Acknowledgement(sent.session, sent.key, sent.topic, [(10, 12, b"\1")])
    world.sessions.acknowledge([sent])
    world.sessions.fetch()
    world.turn()
    world.sessions.acknowledge([later])
    world.answer(reply)
    codes = [error.code() for _, error in world.outcomes if error is not None]
    assert codes == [reply.code() if isinstance(reply, KafkaError) else reply.error_code, 122]
    world.sessions.acknowledge(
        [Acknowledgement(sent.session, sent.key, sent.topic, [(13, 13, b"\1")])]
    )
    assert world.outcomes[-1][1] is not None, "at once"
    world.sessions.fetch()
    world.turn()
    assert not world.calls, "not before the back-off is over"
    world.clock.now += 1.0
    message = world.sent()
    assert (message.share_session_epoch, named(message.topics)) == (0, [0])
    assert not message.topics[0].partitions[0].acknowledgement_batches
    assert not world.errors


def test_a_partition_missing_in_the_answer_has_not_been_acknowledged() -> None:
    world = World(0)
    world.sessions.acknowledge([world.give(0, 0, 9)])
    world.answer(ShareAcknowledgeResponse())
    ((_, error),) = world.outcomes
    assert error is not None
    assert error.code() == KafkaError._BAD_MSG


def test_a_new_leader_in_the_answer_is_fetched_from() -> None:
    world = World(0)
    world.sessions.fetch()
    part = DATA.PartitionData(
        partition_index=0, error_code=KafkaError.NOT_LEADER_FOR_PARTITION, records=b""
    )
    part.current_leader.leader_id, part.current_leader.leader_epoch = 2, 5
    world.answer(fetched(part))
    world.turn()
    assert named(world.calls[2].message.topics) == [0]  # type: ignore[attr-defined]
    assert not world.errors


def test_a_forbidden_partition_is_reported_once_and_retried_later() -> None:
    world = World(0)
    world.sessions.fetch()
    code = KafkaError.TOPIC_AUTHORIZATION_FAILED
    for _ in range(3):
        world.answer(fetched(DATA.PartitionData(partition_index=0, error_code=code, records=b"")))
        world.turn()
        assert not world.calls, "it isn't fetched for a while"
        world.clock.now += 2.0
    assert [error.code() for error in world.errors] == [code]


def test_the_last_request_ends_the_session_with_its_acknowledgements() -> None:
    world = World(0)
    world.sessions.acknowledge([world.give(0, 0, 9)])
    ended: list[bool] = []
    world.sessions.end(lambda: ended.append(True))
    message = world.sent()
    assert message.share_session_epoch == -1
    assert named(message.topics) == [0]
    assert not ended
    world.answer(
        ShareAcknowledgeResponse(responses=[ACKED(topic_id=ID, partitions=[ACKED.PartitionData()])])
    )
    assert ended == [True]
    assert [error for _, error in world.outcomes] == [None]


def test_ending_waits_for_open_requests_only() -> None:
    world = World(0)
    ended: list[bool] = []
    world.sessions.end(lambda: ended.append(True))
    assert ended == [True]
    world.sessions.fetch()
    world.turn()
    world.sessions.end(lambda: ended.append(True))
    assert ended == [True]
    world.answer(KafkaError(KafkaError._TRANSPORT))
    assert ended == [True, True]


def test_records_of_an_unsubscribed_topic_are_released() -> None:
    world = World(0)
    world.sessions.fetch()
    other = DATA(topic_id=b"o" * 16)
    acquired = DATA.PartitionData.AcquiredRecords(first_offset=3, last_offset=5, delivery_count=1)
    other.partitions = [
        DATA.PartitionData(partition_index=0, records=b"", acquired_records=[acquired])
    ]
    world.answer(ShareFetchResponse(responses=[other]))
    (part,) = world.sent().topics[0].partitions
    assert [
        (each.first_offset, each.last_offset, each.acknowledge_types)
        for each in part.acknowledgement_batches
    ] == [(3, 5, [2])]
    assert not world.records
