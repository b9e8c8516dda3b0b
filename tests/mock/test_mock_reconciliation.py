"""No partition ever has two owners, and finally each partition has one."""

from __future__ import annotations

import random

import pytest

from kafka_native.mock.assignors import ASSIGNORS, MemberInput
from kafka_native.mock.clock import Clock
from kafka_native.mock.consumer_groups import ConsumerGroup
from kafka_native.mock.membership import GroupError, GroupSettings
from kafka_native.mock.topics import Topic
from kafka_native.protocol.groups import ConsumerGroupHeartbeatRequest as Request

NAMES = ("a", "b", "c")
Key = tuple[bytes, int]


class Client:
    """A slow member. It owns new partitions at once, but revokes partitions only on command."""

    def __init__(self, name: str, topics: list[str], instance_id: str | None) -> None:
        self.id, self.topics, self.instance_id = name, topics, instance_id
        self.epoch = 0
        self.owned: set[Key] = set()
        self.given: set[Key] = set()

    def heartbeat(self, group: ConsumerGroup) -> None:
        joins = self.epoch == 0
        if joins:
            self.owned, self.given = set(), set()
        parts = [
            Request.TopicPartitions(topic_id=topic, partitions=[index])
            for topic, index in sorted(self.owned)
        ]
        request = Request(
            group_id=group.id,
            member_id=self.id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=self.topics if joins else None,
            topic_partitions=parts,
        )
        try:
            member, has_assignment = group.heartbeat(request, "client", "host")
        except GroupError:
            self.epoch, self.owned, self.given = 0, set(), set()
            return
        self.epoch = member.epoch
        if has_assignment:
            self.given = set(member.assigned)
            self.owned |= self.given

    def revoke(self) -> None:
        self.owned &= self.given


def check(clients: list[Client]) -> None:
    seen: set[Key] = set()
    for client in clients:
        assert not seen & client.owned, "two owners"
        seen |= client.owned


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("seed", range(40))
def test_no_partition_has_two_owners(seed: int, assignor: str) -> None:
    dice = random.Random(seed)
    topics = {name: Topic(name, [[1]] * dice.randint(1, 6), {}, {1}) for name in NAMES}
    settings = GroupSettings(0.0, 1.0, 1000.0)
    settings.server_assignor = assignor
    group = ConsumerGroup("group", settings, topics, Clock())
    clients: list[Client] = []
    for number in range(300):
        action = dice.random()
        if action < 0.06 and len(clients) < 7:
            wanted = dice.sample(NAMES, dice.randint(1, 3))
            clients.append(
                Client(f"m{number}", wanted, f"i{number}" if dice.random() < 0.3 else None)
            )
        elif action < 0.10 and any(one.epoch > 0 for one in clients):
            gone = dice.choice([one for one in clients if one.epoch > 0])
            clients.remove(gone)
            epoch = -2 if gone.instance_id is not None and dice.random() < 0.5 else -1
            group.leave(gone.id, gone.instance_id, epoch)
            if epoch == -2:
                clients.append(Client(f"m{number}", gone.topics, gone.instance_id))
        elif action < 0.12 and clients and group.members:
            lost = dice.choice(sorted(group.members))
            for client in clients:
                if client.id == lost:
                    client.epoch, client.owned, client.given = 0, set(), set()
            group.expel(lost, fence=False)
        elif action < 0.14:
            topics[dice.choice(NAMES)].grow([[1]])
        elif action < 0.15:
            group.rebalance()
        elif clients:
            client = dice.choice(clients)
            if dice.random() < 0.5:
                client.revoke()
            client.heartbeat(group)
        check(clients)
    for _ in range(20):
        for client in clients:
            client.revoke()
            client.heartbeat(group)
            check(clients)
    wanted_ids = {topics[name].id for client in clients for name in client.topics}
    every = {
        (one.id, index)
        for one in topics.values()
        if one.id in wanted_ids
        for index in range(len(one.partitions))
    }
    assert set().union(*(client.owned for client in clients)) == every
    assert all(
        {topic for topic, _ in one.owned} <= {topics[name].id for name in one.topics}
        for one in clients
    )


def test_uniform_is_even_and_moves_few_partitions() -> None:
    ids = {name: name.encode() * 16 for name in NAMES}
    counts = {ids["a"]: 5, ids["b"]: 4, ids["c"]: 2}
    every = frozenset(ids.values())
    three = ASSIGNORS["uniform"](
        {name: MemberInput(every, frozenset(), None) for name in "xyz"}, counts
    )
    assert sorted(map(len, three.values())) == [3, 4, 4]
    four = ASSIGNORS["uniform"](
        {name: MemberInput(every, frozenset(three.get(name, ())), None) for name in "xyzw"}, counts
    )
    assert sorted(map(len, four.values())) == [2, 3, 3, 3]
    # only the new member gets new partitions
    assert all(four[name] <= three[name] for name in "xyz")


def test_range_assigns_the_same_numbers_to_a_member() -> None:
    ids = [name.encode() * 16 for name in NAMES[:2]]
    members = {name: MemberInput(frozenset(ids), frozenset(), None) for name in ("y", "x")}
    target = ASSIGNORS["range"](members, dict.fromkeys(ids, 3))
    assert target == {
        "x": {(one, index) for one in ids for index in (0, 1)},
        "y": {(one, 2) for one in ids},
    }
