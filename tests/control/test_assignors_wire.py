"""The data that members of a group exchange, and invalid data for the leader."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_native.control.assignors import (
    Assignor,
    CooperativeSticky,
    PartitionInfo,
    Range,
    Sticky,
    run,
)
from kafka_native.control.assignors.wire import (
    METADATA_MAX_BYTES,
    pack_assignment,
    pack_subscription,
    unpack_assignment,
    unpack_subscriptions,
)
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol.consumer_protocol import ConsumerProtocolSubscription
from kafka_native.protocol.groups import JoinGroupResponse

Member = JoinGroupResponse.Member
PARTITIONS = {"t": [PartitionInfo(number) for number in range(4)]}
HONEST = pack_subscription(Range(), ["t"], [], -1, None)


def subscription(version: int, **fields: object) -> bytes:
    return ConsumerProtocolSubscription(topics=["t"], **fields).pack(version)  # type: ignore[arg-type]


def test_subscription_arrives_as_it_was_packed() -> None:
    raw = pack_subscription(
        CooperativeSticky(), ["b", "a"], [("b", 2), ("a", 1), ("b", 0)], 6, "r1"
    )
    found, warnings = unpack_subscriptions(
        [Member(member_id="m", group_instance_id="i", metadata=raw)], 7
    )
    assert not warnings
    member = found["m"]
    assert (member.member_id, member.instance_id, member.rack) == ("m", "i", "r1")
    assert member.topics == ["a", "b"]
    assert member.owned == [("a", 1), ("b", 0), ("b", 2)]
    assert member.generation == 6
    assert member.user_data == b"\xff\xff\xff\xff"


def test_assignment_arrives_as_it_was_packed() -> None:
    keys = [("a", 1), ("b", 0), ("b", 2)]
    assert unpack_assignment(pack_assignment([keys[2], keys[0], keys[1]])) == keys
    assert unpack_assignment(b"") == []


@pytest.mark.parametrize("version", range(4))
def test_every_version_is_read(version: int) -> None:
    found, warnings = unpack_subscriptions(
        [Member(member_id="m", metadata=subscription(version))], 1
    )
    assert found["m"].topics == ["t"]
    assert not warnings


def test_newer_version_is_read_as_the_newest_known() -> None:
    raw = b"\0\x09" + HONEST[2:] + b"something new"
    found, warnings = unpack_subscriptions([Member(member_id="m", metadata=raw)], 1)
    assert found["m"].topics == ["t"]
    assert not warnings


UNREADABLE = {
    "nothing": b"",
    "half": HONEST[: len(HONEST) // 2],
    "more topics than bytes": b"\0\3\x7f\xff\xff\xff",
    "negative version": b"\xff\xff" + HONEST[2:],
    "not UTF-8": b"\0\0\0\0\0\1\0\2\xff\xfe\xff\xff\xff\xff",
    "no topics": b"\0\0\xff\xff\xff\xff",
    "gigantic user data": subscription(0, user_data=b"\0" * METADATA_MAX_BYTES),
}


@pytest.mark.parametrize("raw", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize(
    "assignor", [Range(), Sticky(), CooperativeSticky()], ids=lambda each: each.name
)
def test_unreadable_member_gets_nothing_and_the_others_everything(
    raw: bytes, assignor: Assignor
) -> None:
    members, warnings = unpack_subscriptions(
        [Member(member_id=m, metadata=raw if m == "bad" else HONEST) for m in ("a", "bad", "c")], 1
    )
    assert len(warnings) == 1
    assert "member bad: its subscription can't be read" in warnings[0]
    assert {m: len(keys) for m, keys in run(assignor, PARTITIONS, members).items()} == {
        "a": 2,
        "bad": 0,
        "c": 2,
    }


def test_nonsense_within_a_subscription_is_left_out() -> None:
    part = ConsumerProtocolSubscription.OwnedPartitions
    raw = ConsumerProtocolSubscription(
        topics=["t", "t", "", "u"],
        owned_partitions=[
            part(topic="t", partitions=[1, 1, -1, 0]),
            part(topic="t", partitions=[1]),
            part(topic=""),
        ],
        generation_id=-7,
        rack_id="",
    ).pack(3)
    member = unpack_subscriptions([Member(member_id="m", metadata=raw)], 1)[0]["m"]
    assert member.topics == ["t", "u"]
    assert member.owned == [("t", 0), ("t", 1)]
    assert member.generation == -1
    assert member.rack is None


def test_claims_from_the_future_lose() -> None:
    liar = pack_subscription(Range(), ["t"], [("t", n) for n in range(4)], 2**31 - 1, None)
    honest = [pack_subscription(Range(), ["t"], [("t", n)], 5, None) for n in range(2)]
    members, _ = unpack_subscriptions(
        [Member(member_id=f"m{n}", metadata=raw) for n, raw in enumerate([*honest, liar])], 6
    )
    assignment = run(CooperativeSticky(), PARTITIONS, members)
    assert ("t", 0) in assignment["m0"]
    assert ("t", 1) in assignment["m1"]


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=80), prefix=st.booleans())
@example(raw=b"\0" * 30, prefix=True)
def test_no_bytes_stop_the_leader(raw: bytes, prefix: bool) -> None:
    metadata = (HONEST[:9] + raw) if prefix else raw
    members, _ = unpack_subscriptions(
        [Member(member_id="bad", metadata=metadata), Member(member_id="good", metadata=HONEST)], 3
    )
    for assignor in (Range(), Sticky(), CooperativeSticky()):
        assignment = run(assignor, PARTITIONS, members)
        assert len(assignment["good"]) >= 2


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(min_size=1, max_size=60))
@example(raw=b"\0\0\x7f\xff\xff\xff")
def test_assignment_is_read_or_refused(raw: bytes) -> None:
    try:
        keys = unpack_assignment(raw)
    except KafkaException as error:
        keys = []
        code = error.args[0].code()
    else:
        code = KafkaError._BAD_MSG
    assert code == KafkaError._BAD_MSG
    assert keys == sorted(set(keys))
    assert all(number >= 0 for _, number in keys)


class Rude(Range):
    def __init__(self, answer: object) -> None:
        self.answer = answer

    def user_data(self, topics: list[str], owned: object, generation: int) -> bytes | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "text"),
    [(KeyError("x"), "raised KeyError"), ("text", "returned str instead of bytes")],
)
def test_user_data_that_fails_is_a_clear_error(answer: object, text: str) -> None:
    with pytest.raises(KafkaException, match=text) as caught:
        pack_subscription(Rude(answer), ["t"], [], -1, None)
    assert caught.value.args[0].code() == KafkaError._FAIL
