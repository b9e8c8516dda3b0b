"""Our assignors against Java's, in many random groups."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_native.control.assignors import BUILT_IN, Key, MemberSubscription, PartitionInfo, run
from kafka_native.control.assignors.claims import pack_sticky
from tests.broker import java
from tests.shared_classes import LEAN, options
from tests.waiting import PROGRAM_S

PROGRAM = Path(__file__).parent / "java" / "Assignors.java"
GROUPS = 300
RACKS = ("a", "b", "c")

Partitions = dict[str, list[PartitionInfo]]
Members = dict[str, MemberSubscription]
Assignment = dict[str, list[Key]]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        java.missing() is not None, reason=f"Java's assignors can't run: {java.missing()}"
    ),
]


def random_group(rng: random.Random, *, racks: bool, fewest: int = 0) -> tuple[Partitions, Members]:
    partitions: Partitions = {}
    for topic in range(rng.randint(1, 6)):
        count = rng.choice((1, 2, 3, 3, 6, 6, 12))
        partitions[f"t{topic}"] = [
            PartitionInfo(
                n, frozenset(rng.sample(RACKS, rng.randint(1, 2))) if racks else frozenset()
            )
            for n in range(count)
        ]
    alike = rng.random() < 0.5
    some = rng.sample([*partitions, "missing"], rng.randint(1, len(partitions)))
    members: Members = {}
    for number in range(rng.randint(1, 8)):
        member_id = f"m{rng.randint(0, 99):02}-{number}"
        topics = (
            some
            if alike
            else rng.sample([*partitions, "missing"], rng.randint(fewest, len(partitions)))
        )
        instance = f"i{rng.randint(0, 99):02}-{number}" if rng.random() < 0.3 else None
        rack = rng.choice((*RACKS, None)) if racks else None
        members[member_id] = MemberSubscription(member_id, instance, list(topics), rack=rack)
    return partitions, members


def as_lines(name: str, partitions: Partitions, members: Members) -> Iterator[str]:
    yield f"case\t{name}"
    for topic, infos in partitions.items():
        yield "\t".join(["topic", topic, *(",".join(sorted(info.racks)) for info in infos)])
    for m in members.values():
        owned = ",".join(f"{topic}:{number}" for topic, number in m.owned)
        data = (m.user_data or b"").hex()
        fields = [
            m.member_id,
            m.instance_id or "",
            m.rack or "",
            ",".join(m.topics),
            str(m.generation),
            owned,
            data,
        ]
        yield "\t".join(["member", *fields])
    yield "end"


def ask_java(cases: list[tuple[str, Partitions, Members]], folder: Path) -> list[Assignment]:
    """Return the assignments of Java's assignors for each case."""
    lines = [line for case in cases for line in as_lines(*case)]
    command = ["java", *LEAN, *options("tool"), "-cp", f"{java.jars()}/*", str(PROGRAM)]
    done = subprocess.run(
        command,
        input="\n".join([*lines, ""]).encode(),
        capture_output=True,
        check=False,
        timeout=PROGRAM_S,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    found: list[Assignment] = [{}]
    for line in done.stdout.decode().splitlines():
        if line == "end":
            found.append({})
            continue
        member_id, _, names = line.partition("\t")
        pairs = (name.split(":") for name in names.split(",") if name)
        found[-1][member_id] = sorted((topic, int(number)) for topic, number in pairs)
    assert found.pop() == {}
    assert len(found) == len(cases)
    return found


def unevenness(assignment: Assignment) -> int:
    return sum(len(keys) ** 2 for keys in assignment.values())


def kept(assignment: Assignment, before: Assignment) -> int:
    return sum(
        len(set(keys) & set(before.get(member_id, ()))) for member_id, keys in assignment.items()
    )


def changed(
    rng: random.Random, partitions: Partitions, members: Members
) -> tuple[Partitions, Members]:
    """Return the group later: members left, joined or resubscribed, and a topic grew."""
    later = {member_id: member for member_id, member in members.items() if rng.random() < 0.8}
    topics = next((member.topics for member in members.values()), [])
    for number in range(rng.randint(0 if later else 1, 2)):
        later[f"new-{number}"] = MemberSubscription(f"new-{number}", topics=list(topics))
    if rng.random() < 0.2 and later:
        odd = rng.choice(sorted(later))
        topics = rng.sample(list(partitions), rng.randint(1, len(partitions)))
        later[odd] = later[odd]._replace(topics=topics)
    grown = dict(partitions)
    if rng.random() < 0.3:
        grown["t0"] = [
            PartitionInfo(number) for number in range(len(partitions["t0"]) + rng.randint(0, 3))
        ]
    return grown, later


def with_claims(name: str, members: Members, before: Assignment, generation: int) -> Members:
    """Return the members as they rejoin, with their previous partitions."""
    rejoining = {}
    for member_id, member in members.items():
        had = before.get(member_id)
        if had is None:
            rejoining[member_id] = member
        elif name == "sticky":
            rejoining[member_id] = member._replace(user_data=pack_sticky(had, generation))
        else:
            rejoining[member_id] = member._replace(owned=had, generation=generation)
    return rejoining


@pytest.mark.parametrize("racks", [False, True], ids=["no racks", "racks"])
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_range_and_roundrobin_are_javas_exactly(name: str, racks: bool, tmp_path: Path) -> None:
    rng = random.Random(f"{name} {racks}")
    groups = [random_group(rng, racks=racks) for _ in range(GROUPS)]
    theirs = ask_java([(name, *group) for group in groups], tmp_path)
    for group, expected in zip(groups, theirs, strict=True):
        assert run(BUILT_IN[name](), *group) == expected, group


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_sticky_is_as_balanced_and_as_sticky_as_javas(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    # Java's may fail for topics that shrink, and assign partitions to members without subscriptions
    fresh = [random_group(rng, racks=False, fewest=1) for _ in range(GROUPS)]
    before = ask_java([(name, *group) for group in fresh], tmp_path)
    for group, theirs in zip(fresh, before, strict=True):
        ours = run(BUILT_IN[name](), *group)
        assert sum(map(len, ours.values())) == sum(map(len, theirs.values()))
        assert unevenness(ours) <= unevenness(theirs), group
    later = [changed(rng, *group) for group in fresh]
    rejoined = [
        (partitions, with_claims(name, members, had, 3))
        for (partitions, members), had in zip(later, before, strict=True)
    ]
    after = ask_java([(name, *group) for group in rejoined], tmp_path)
    compared = 0
    for group, had, theirs in zip(rejoined, before, after, strict=True):
        ours = run(BUILT_IN[name](), *group)
        if name == "sticky":
            assert unevenness(ours) <= unevenness(theirs), group
        if unevenness(ours) == unevenness(theirs):
            compared += 1
            assert kept(ours, had) >= kept(theirs, had), group
    assert compared > GROUPS // 2
