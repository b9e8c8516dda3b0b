"""Assignors: in any group a partition has at most one reader, and the assignment is balanced."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native.control.assignors import (
    BUILT_IN,
    Assignor,
    CooperativeSticky,
    Key,
    MemberSubscription,
    PartitionInfo,
    Range,
    RoundRobin,
    Sticky,
    check,
    make,
    run,
)
from kafka_native.control.assignors.claims import pack_sticky
from kafka_native.errors import KafkaError, KafkaException

Partitions = dict[str, list[PartitionInfo]]
Members = dict[str, MemberSubscription]

TOPICS = ("t0", "t1", "t2", "t3")
ABSENT = "absent"
RACKS = ("a", "b")


@st.composite
def groups(
    draw: st.DrawFn, *, racks: bool = False, lies: bool = False
) -> tuple[Partitions, Members]:
    partitions: Partitions = {}
    for topic in draw(st.sets(st.sampled_from(TOPICS), min_size=1)):
        count = draw(st.integers(0, 9))
        near = st.frozensets(st.sampled_from(RACKS)) if racks else st.just(frozenset())
        partitions[topic] = [PartitionInfo(number, draw(near)) for number in range(count)]
    members: Members = {}
    alike = draw(st.booleans())
    choice = st.lists(st.sampled_from((*TOPICS, ABSENT)), unique=True)
    common = draw(choice)
    for number in range(draw(st.integers(1, 6))):
        owned = (
            draw(st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 10)), max_size=8))
            if lies
            else []
        )
        generation = draw(st.integers(-1, 2)) if lies else -1
        members[f"m{number}"] = MemberSubscription(
            f"m{number}",
            draw(st.sampled_from([None, f"i{9 - number}"])),
            common if alike else draw(choice),
            owned,
            generation,
            draw(st.sampled_from([None, *RACKS])) if racks else None,
            pack_sticky(owned, generation) if lies else None,
        )
    return partitions, members


def assigned(assignment: Mapping[str, list[Key]]) -> list[Key]:
    return sorted(key for keys in assignment.values() for key in keys)


def wanted(partitions: Partitions, members: Members) -> list[Key]:
    """Return every partition of a subscribed topic."""
    topics = {topic for member in members.values() for topic in member.topics}
    return sorted((topic, each.number) for topic in topics for each in partitions.get(topic, []))


def assert_balanced(assignment: Mapping[str, list[Key]], members: Members) -> None:
    """Check that no chain of moves leads from a member to one with two partitions less."""
    for start in members:
        reached, todo = {start}, [start]
        while todo:
            topics = {topic for topic, _ in assignment[todo.pop()]}
            fresh = [m for m in members if m not in reached and topics & set(members[m].topics)]
            reached.update(fresh)
            todo += fresh
        fewest = min(len(assignment[each]) for each in reached)
        assert len(assignment[start]) - fewest < 2, assignment


@pytest.mark.parametrize("name", BUILT_IN)
@settings(max_examples=60, deadline=None)
@given(group=groups(racks=True))
def test_each_partition_has_one_owner_who_subscribes(
    name: str, group: tuple[Partitions, Members]
) -> None:
    partitions, members = group
    assignment = run(BUILT_IN[name](), partitions, members)
    assert assigned(assignment) == wanted(partitions, members)
    assert assignment == run(
        BUILT_IN[name](), dict(reversed(partitions.items())), dict(reversed(members.items()))
    )


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@settings(max_examples=40, deadline=None)
@given(group=groups(racks=True))
def test_sticky_assignments_are_balanced(name: str, group: tuple[Partitions, Members]) -> None:
    assignment = run(BUILT_IN[name](), *group)
    assert_balanced(assignment, group[1])


@settings(max_examples=40, deadline=None)
@given(group=groups(racks=True, lies=True))
def test_no_claim_unbalances_an_eager_group(group: tuple[Partitions, Members]) -> None:
    partitions, members = group
    assignment = run(Sticky(), partitions, members)
    assert assigned(assignment) == wanted(partitions, members)
    assert_balanced(assignment, members)
    assert assignment == run(Sticky(), partitions, dict(reversed(members.items())))


@settings(max_examples=40, deadline=None)
@given(group=groups(racks=True, lies=True))
def test_cooperative_group_settles_and_no_owned_partition_is_assigned(
    group: tuple[Partitions, Members],
) -> None:
    partitions, members = group
    for generation in itertools.count(10):
        assignment = run(CooperativeSticky(), partitions, members)
        for member_id, keys in assignment.items():
            for key in set(keys) - set(members[member_id].owned):
                assert not any(key in other.owned for other in members.values())
        if {m: sorted(set(member.owned)) for m, member in members.items()} == assignment:
            break
        assert generation < 16, "the rebalances don't end"
        members = {
            m: members[m]._replace(owned=assignment[m], generation=generation) for m in members
        }
    assert assigned(assignment) == wanted(partitions, members)
    assert_balanced(assignment, members)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@settings(max_examples=40, deadline=None)
@given(group=groups())
def test_nothing_moves_when_nothing_changes(name: str, group: tuple[Partitions, Members]) -> None:
    partitions, members = group
    before = run(BUILT_IN[name](), partitions, members)
    again = {
        m: member._replace(owned=before[m], generation=4, user_data=pack_sticky(before[m], 4))
        for m, member in members.items()
    }
    assert run(BUILT_IN[name](), partitions, again) == before


@settings(max_examples=40, deadline=None)
@given(group=groups(), leaver=st.integers(0, 5))
def test_survivors_of_an_equal_group_keep_all_they_had(
    group: tuple[Partitions, Members], leaver: int
) -> None:
    partitions, members = group
    members = {m: member._replace(topics=list(partitions)) for m, member in members.items()}
    before = run(Sticky(), partitions, members)
    stay = {
        m: member._replace(user_data=pack_sticky(before[m], 1))
        for number, (m, member) in enumerate(members.items())
        if number != leaver
    }
    after = run(Sticky(), partitions, stay)
    assert all(set(before[m]) <= set(after[m]) for m in stay)


def infos(count: int) -> list[PartitionInfo]:
    return [PartitionInfo(number) for number in range(count)]


def owner(
    name: str, owned: list[Key], generation: int, topics: tuple[str, ...] = ("t",)
) -> MemberSubscription:
    return MemberSubscription(
        name, None, list(topics), owned, generation, None, pack_sticky(owned, generation)
    )


def test_new_member_gets_moved_partitions_only_after_their_revocation() -> None:
    partitions = {"t": infos(4)}
    both = {"a": owner("a", [("t", n) for n in range(4)], 1), "b": owner("b", [], -1)}
    first = run(CooperativeSticky(), partitions, both)
    assert len(first["a"]) == 2
    assert first["b"] == []
    both = {"a": owner("a", first["a"], 2), "b": owner("b", [], 2)}
    second = run(CooperativeSticky(), partitions, both)
    assert second["a"] == first["a"]
    assert len(second["b"]) == 2


@pytest.mark.parametrize("count", [2, 3])
def test_partition_claimed_twice_in_one_generation_is_assigned_afresh(
    count: int, caplog: pytest.LogCaptureFixture
) -> None:
    members = {f"m{n}": owner(f"m{n}", [("t", 0), ("t", n + 1)], 5) for n in range(count)}
    partitions = {"t": infos(count + 1)}
    first = run(CooperativeSticky(), partitions, members)
    assert ("t", 0) not in assigned(first)
    assert "t [0] is claimed by m0 and m1" in caplog.text
    settled = {m: owner(m, first[m], 6) for m in members}
    assert assigned(run(CooperativeSticky(), partitions, settled)) == wanted(partitions, settled)
    assert assigned(run(Sticky(), partitions, members)) == wanted(partitions, members)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_stale_claim_loses_against_a_newer_one(name: str) -> None:
    partitions = {"t": infos(2), "u": infos(2)}
    stale = owner("a", [("t", 0), ("t", 1)], 3, ("t", "u"))
    fresh = owner("b", [("t", 0), ("t", 1)], 4, ("t", "u"))
    after = run(BUILT_IN[name](), partitions, {"a": stale, "b": fresh})
    assert after["b"] == [("t", 0), ("t", 1)]


def test_stale_claim_counts_without_a_rival() -> None:
    after = run(Sticky(), {"t": infos(2)}, {"a": owner("a", [("t", 1)], 1), "b": owner("b", [], 7)})
    assert after == {"a": [("t", 1)], "b": [("t", 0)]}


def test_java_generation_in_user_data_counts_where_the_subscription_has_none() -> None:
    old = MemberSubscription("a", None, ["t"], [("t", 0)], -1, None, (9).to_bytes(4, "big"))
    new = MemberSubscription("b", None, ["t"], [("t", 0)], 8)
    assert run(CooperativeSticky(), {"t": infos(1)}, {"a": old, "b": new}) == {
        "a": [("t", 0)],
        "b": [],
    }


@pytest.mark.parametrize(
    "data", [b"\x7f", b"\xff" * 40, b"\0\0\0\1\0\1t\x7f\xff\xff\xff", b"\0" * 100_000]
)
def test_invalid_user_data_claims_nothing(data: bytes) -> None:
    members = {m: MemberSubscription(m, None, ["t"], [], -1, None, data) for m in "ab"}
    assert {m: len(keys) for m, keys in run(Sticky(), {"t": infos(4)}, members).items()} == {
        "a": 2,
        "b": 2,
    }
    assert len(assigned(run(CooperativeSticky(), {"t": infos(4)}, members))) == 4


def test_range_keeps_numbers_of_topics_together_within_racks() -> None:
    racks = [frozenset({"b"}), frozenset({"a"}), frozenset({"b"}), frozenset({"a"})]
    partitions = {topic: [PartitionInfo(n, racks[n]) for n in range(4)] for topic in ("t", "u")}
    members = {m: MemberSubscription(m, None, ["t", "u"], rack=m) for m in "ab"}
    after = run(Range(), partitions, members)
    assert after["a"] == [("t", 1), ("t", 3), ("u", 1), ("u", 3)]
    assert after["b"] == [("t", 0), ("t", 2), ("u", 0), ("u", 2)]


def test_sticky_prefers_readers_in_a_rack_of_the_replicas() -> None:
    racks = [frozenset({"a"}), frozenset({"a"}), frozenset({"b"}), frozenset({"b"})]
    partitions = {"t": [PartitionInfo(n, racks[n]) for n in range(4)]}
    members = {m: MemberSubscription(m, None, ["t"], rack="b" if m == "a" else "a") for m in "ab"}
    assert run(Sticky(), partitions, members) == {
        "a": [("t", 2), ("t", 3)],
        "b": [("t", 0), ("t", 1)],
    }


def big_group(alike: bool) -> tuple[Partitions, Members]:
    partitions = {f"t{topic:02}": infos(100) for topic in range(100)}
    members = {}
    for number in range(100):
        topics = (
            list(partitions)
            if alike
            else [t for n, t in enumerate(partitions) if (n * number) % 3 != 1]
        )
        members[f"m{number:02}"] = MemberSubscription(f"m{number:02}", None, topics)
    return partitions, members


@pytest.mark.parametrize("alike", [True, False], ids=["equal", "unequal"])
def test_ten_thousand_partitions_for_a_hundred_members_stay_where_they_are(alike: bool) -> None:
    partitions, members = big_group(alike)
    began = time.process_time()
    before = run(Sticky(), partitions, members)
    members = {
        m: member._replace(user_data=pack_sticky(before[m], 1))
        for m, member in members.items()
        if m != "m07"
    }
    members["new"] = MemberSubscription("new", None, sorted(partitions)[:60])
    after = run(Sticky(), partitions, members)
    print(f"twice 10,000 partitions for 100 members: {time.process_time() - began:.2f} s of CPU")
    assert_balanced(after, members)
    assert sum(len(set(after[m]) & set(before.get(m, ()))) for m in after) >= 9_700


class Custom(Assignor):
    name = "custom"

    def __init__(self, answer: object = None) -> None:
        self.answer = answer

    def assign(
        self,
        partitions: Mapping[str, list[PartitionInfo]],
        members: Mapping[str, MemberSubscription],
    ) -> dict[str, list[Key]]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"a": [("t", 0)], "b": [("t", 0)]}, r"assigned t \[0\] both to a and to b"),
        ({"a": [("t", 0), ("t", 0)]}, "assigned a partition twice to a"),
        ({"c": []}, "'c', which is no member"),
        ({"a": [("u", 0)]}, r"u \[0\] to a, which doesn't subscribe to it"),
        ({"a": [("t", 2)]}, "there is no such partition"),
        ({"a": [("t", -1)]}, "there is no such partition"),
        ({"a": "t0"}, "returned str instead of a list"),
        ({"a": [("t", "0")]}, "where a \\(topic, partition\\) is expected"),
        ({"a": [["t", 0]]}, "where a \\(topic, partition\\) is expected"),
        (None, "returned NoneType instead of a dict"),
        (ZeroDivisionError("oops"), "raised ZeroDivisionError: oops"),
    ],
)
def test_wrong_assignment_is_refused(answer: object, text: str) -> None:
    members = {m: MemberSubscription(m, None, ["t"]) for m in "ab"}
    with pytest.raises(KafkaException, match=f"assignor custom.*{text}") as caught:
        run(Custom(answer), {"t": infos(2), "u": infos(1)}, members)
    assert caught.value.args[0].code() == KafkaError._FAIL


def test_assignment_may_leave_partitions_and_members_out() -> None:
    members = {m: MemberSubscription(m, None, ["t"]) for m in "ab"}
    assert run(Custom({"a": [("t", 1)]}), {"t": infos(2)}, members) == {"a": [("t", 1)], "b": []}
    check({}, members, {})


def test_strategies_are_made_by_name_and_given() -> None:
    custom = Custom()
    assert make("range, roundrobin,,range") == [Range(), RoundRobin()]
    assert make([custom, "sticky"]) == [custom, Sticky()]
    assert make(custom) == [custom]
    assert make("cooperative-sticky")[0].protocol == "COOPERATIVE"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("range,bogus", "Unsupported partition.assignment.strategy: bogus"),
        ("range,cooperative-sticky", "must have the same protocol type"),
        ([Custom(), "cooperative-sticky"], "must have the same protocol type"),
        ([1], "names and Assignor objects are expected, not int"),
        ([Custom(), Custom()], "two assignors are called custom"),
    ],
)
def test_invalid_strategies_are_refused(given: list[str | Assignor], text: str) -> None:
    with pytest.raises(KafkaException, match=text) as caught:
        make(given)
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG


def test_members_of_sticky_groups_send_their_previous_partitions() -> None:
    sticky, cooperative = Sticky(), CooperativeSticky()
    assert sticky.user_data(["t"], [], -1) is None
    sticky.on_assignment([("t", 1), ("t", 0)], 7)
    cooperative.on_assignment([("t", 1)], 7)
    # Java: array of (topic, array of partitions), generation
    expected = b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\2" + b"\0\0\0\0" + b"\0\0\0\1" + b"\0\0\0\7"
    assert sticky.user_data(["t"], [], 7) == expected
    assert cooperative.user_data(["t"], [("t", 1)], 7) == b"\0\0\0\7"
