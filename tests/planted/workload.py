"""``python -m tests.planted.workload NAME [SECONDS]``: use a client on a mock cluster under faults.

It prints each broken rule with an example, and ends with 1 if a rule was broken. The applications
are single-threaded and know what they were given. So each rule is about a single message or offset.
SECONDS is how long they wait for a client that doesn't get on.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import confluent_kafka

import kafka_native
from kafka_native import Consumer, KafkaException, Message, Producer, TopicPartition
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey
from tests.broker import payload
from tests.broker.cluster import quiet
from tests.waiting import WAIT_S

TOPIC, GROUP = "planted", "planted"
PARTITIONS = 3
RECORDS = 900
GROUP_RECORDS = 500
BATCH = 5
ROUNDS = 5
MORE = 50
POLL_S = 0.05
END_S = 20.0
ALONE_S, PAUSE_S = 0.3, 0.01
LOADING, TOO_LARGE, INVALID_COMMIT = 14, 10, 28
ILLEGAL_GENERATION, FENCED_MEMBER_EPOCH = 22, 110


class Broken(Counter[str]):
    """The broken rules. The first example of each is printed."""

    def __init__(self, patience_s: float) -> None:
        """``patience_s``: a client that doesn't get on for so long breaks a rule."""
        super().__init__()
        self.patience_s = patience_s

    def __call__(self, rule: str, text: str) -> None:
        self[rule] += 1
        if self[rule] == 1:
            print(f"{rule}: {text}", flush=True)

    def waits_in_vain(
        self, condition: Callable[[], bool], what: str, rule: str = "goes_on"
    ) -> bool:
        """Wait for a condition. Return whether the rule is broken: it never came."""
        deadline = time.monotonic() + self.patience_s
        while not condition():
            if time.monotonic() > deadline:
                self(rule, f"not in {self.patience_s} s: {what}")
                return True
        return False


def fill(cluster: MockCluster, records: int) -> None:
    """Write numbered records to each partition. Their number is their offset."""
    with Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0}) as producer:
        for first in range(0, records, BATCH):
            for number in range(first, first + BATCH):
                for partition in range(PARTITIONS):
                    value = payload.make(TOPIC, partition, number)
                    producer.produce(TOPIC, value, partition=partition)
            assert producer.flush(END_S) == 0


@contextmanager
def running() -> Iterator[MockCluster]:
    """Yield a cluster of two brokers with a topic."""
    with MockCluster(brokers=2, group_heartbeat=0.05) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        yield cluster


def settings(cluster: MockCluster, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 20,
        "heartbeat.interval.ms": 50,
        "fetch.wait.max.ms": 10,
        "max.partition.fetch.bytes": 512,
        "reconnect.backoff.ms": 10,
        "retry.backoff.ms": 10,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def committed(cluster: MockCluster) -> dict[int, int]:
    """Return the group's committed offsets by partition."""
    try:
        offsets = cluster.group(GROUP).offsets
    except KeyError:  # there is no such group yet
        return {}
    return {partition: each.offset for (_, partition), each in offsets.items()}


class Positions:
    """One consumer with an assignment of its own: it pauses, seeks and assigns again."""

    def __init__(self, cluster: MockCluster, broken: Broken) -> None:
        self._cluster, self._broken = cluster, broken
        self._random = random.Random(7)
        self._consumer = Consumer(settings(cluster))
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self._done: set[tuple[int, int]] = set()
        """What may be committed: one past each processed message, and the application's commits."""
        self._in_hand: tuple[int, int] | None = None
        """The same of the message that is being processed."""
        self._last = 0
        """The partition of the last message."""
        self._sought: set[int] = set()
        self._paused: set[int] = set()
        fill(cluster, RECORDS)
        self._consumer.assign([TopicPartition(TOPIC, number) for number in range(PARTITIONS)])

    def run(self) -> None:
        moved = (self.pause, self.move, self.think, self.resume)
        steps = (self.pause, self.resume, self.cut, *moved, self.seek, self.again)
        for step in steps * ROUNDS:
            step()
            self.take_some()
        self._consumer.resume([TopicPartition(TOPIC, number) for number in self._paused])
        self._paused.clear()
        self._last_of = {each: min(at + MORE, RECORDS) for each, at in self._next.items()}
        self._broken.waits_in_vain(self._at_the_end, "50 more messages of each partition")
        self._consumer.close()

    def _at_the_end(self) -> bool:
        self.take()
        return all(self._next[each] >= at for each, at in self._last_of.items())

    def take_some(self) -> None:
        """Take messages until each partition that isn't paused has given one."""
        before = dict(self._next)
        for _ in range(60):
            waits = any(self._next[each] == at for each, at in before.items())
            if not (self.take() and waits):
                break

    def take(self) -> bool:
        """Take a message, and check it. Return whether there was one."""
        if self._in_hand is not None:
            self._done.add(self._in_hand)
            self._in_hand = None
        message = self._consumer.poll(POLL_S)
        if message is None or message.error() is not None:
            return False
        partition, offset = message.partition(), message.offset()
        payload.number_of(message.value(), TOPIC, partition)
        expected = self._next[partition]
        if partition in self._paused:
            self._broken("paused_is_silent", f"[{partition}] @{offset} came during the pause")
        if offset != expected:
            rule = "nothing_twice" if offset < expected else "nothing_skipped"
            rule = "seek_is_honoured" if partition in self._sought else rule
            self._broken(rule, f"[{partition}] @{offset} came, the next was @{expected}")
        self._sought.discard(partition)
        self._next[partition] = offset + 1
        self._in_hand = (partition, offset + 1)
        self._last = partition
        return True

    def think(self) -> None:
        """Process the last message for a while. Only earlier ones may be committed."""
        time.sleep(0.08)
        for partition, offset in committed(self._cluster).items():
            if (partition, offset) not in self._done:
                text = f"[{partition}] {offset} is committed, @{offset - 1} isn't processed"
                self._broken("nothing_ahead", text)

    def pause(self) -> None:
        """Pause the partition of the last message."""
        partition = self._last
        self._consumer.pause([TopicPartition(TOPIC, partition)])
        self._paused.add(partition)

    def resume(self) -> None:
        self._consumer.resume([TopicPartition(TOPIC, number) for number in self._paused])
        self._paused.clear()

    def seek(self) -> None:
        partition = self._random.randrange(PARTITIONS)
        self._seek(partition, self._random.randrange(RECORDS // 2))

    def _seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(TOPIC, partition, offset))
        self._next[partition] = offset
        self._sought.add(partition)

    def move(self) -> None:
        """Move all leaders. The client notices that by itself."""
        for partition in range(PARTITIONS):
            leader = self._cluster.leader(TOPIC, partition)
            self._cluster.move_leader(TOPIC, partition, 3 - leader)

    def cut(self) -> None:
        self._cluster.disconnect(self._random.choice((1, 2)))

    def again(self) -> None:
        """Assign all again at the committed offsets, and seek before they are known.

        A sought partition without a message yet is assigned at its offset: enable.auto.commit may
        still commit the offset that it had before.
        """
        known = {number: at for number, at in self._next.items() if number not in self._sought}
        offsets = [TopicPartition(TOPIC, number, at) for number, at in known.items()]
        if offsets:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        self._done.update(known.items())
        self._cluster.delay_responses(None, 0.1, ApiKey.OFFSET_FETCH)
        begins = [TopicPartition(TOPIC, number, self._next[number]) for number in self._sought]
        begins += [TopicPartition(TOPIC, number) for number in known]
        self._consumer.assign(begins)
        self._consumer.pause([TopicPartition(TOPIC, number) for number in self._paused])
        self.take()
        self.seek()
        for _ in range(20):  # as long as the reply is late
            self.take()
            time.sleep(0.01)
        self._cluster.delay_responses(None, 0, ApiKey.OFFSET_FETCH)


class Group:
    """Members that come and go. All of them take messages in one thread."""

    def __init__(self, cluster: MockCluster, broken: Broken, **more: object) -> None:
        self._cluster, self._broken = cluster, broken
        self._conf = settings(cluster, **more)
        self._is_classic = "group.protocol" not in self._conf
        if not self._is_classic:  # the coordinator decides about the interval
            del self._conf["heartbeat.interval.ms"]
        self._lost: set[int] = set()
        """Partitions that a fenced member has lost, until their next message."""
        self._lost_count = 0
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self._owner: dict[int, Consumer] = {}
        self._members: list[Consumer] = []
        self._committed = dict(self._next)
        fill(cluster, GROUP_RECORDS)

    def run(self) -> None:
        for step in range(12):
            if step % 3 == 2:
                self._members.pop(0).close()
            else:
                self.join()
            if self._broken.waits_in_vain(self._is_stable, "a stable group"):
                break
            for _ in range(40):
                self.take()
            self.commit_what_is_not_owned()
            if step in (1, 4) and self.fence():
                break
        else:
            self._broken.waits_in_vain(self._at_the_end, "the last message of each partition")
        for member in self._members:
            member.close()

    def join(self) -> None:
        """Add a member. For a while, only this one polls: the others don't give up partitions."""
        member = Consumer(self._conf)
        callbacks = {"on_assign": self._on_assign, "on_revoke": self._on_revoke}
        member.subscribe([TOPIC], on_lost=self._on_lost, **callbacks)
        self._members.append(member)
        until = time.monotonic() + ALONE_S
        while time.monotonic() < until:
            self.take([member])
            time.sleep(PAUSE_S)

    def _on_assign(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            if each.partition in self._owner:
                self._broken("one_owner", f"[{each.partition}] has an owner who didn't give it up")
            self._owner[each.partition] = member

    def _on_revoke(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._owner.pop(each.partition, None)

    def _on_lost(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        self._on_revoke(member, partitions)
        self._lost.update(each.partition for each in partitions)
        self._lost_count += 1

    def fence(self) -> bool:
        """Refuse a heartbeat of a member, which must give up its partitions and join again.

        Return whether that rule is broken.
        """
        before = self._lost_count
        api = ApiKey.HEARTBEAT if self._is_classic else ApiKey.CONSUMER_GROUP_HEARTBEAT
        code = ILLEGAL_GENERATION if self._is_classic else FENCED_MEMBER_EPOCH
        self._cluster.push_request_errors(api, [code])

        def is_lost() -> bool:
            self.take()
            return self._lost_count > before

        return self._broken.waits_in_vain(is_lost, "a member that gives up", "the_fenced_give_up")

    def _is_stable(self) -> bool:
        self.take()
        time.sleep(PAUSE_S)
        owners = {id(each) for each in self._owner.values()}
        return len(self._owner) == PARTITIONS and len(owners) == min(len(self._members), PARTITIONS)

    def _at_the_end(self) -> bool:
        self.take()
        return min(self._next.values()) == GROUP_RECORDS

    def take(self, members: list[Consumer] | None = None) -> None:
        """Take a message of each of the members, and check it."""
        for member in self._members if members is None else members:
            message = member.poll(0.001)
            if message is not None and message.error() is None:
                self._check(member, message)
        for partition, offset in committed(self._cluster).items():
            if offset < self._committed[partition]:
                text = f"[{partition}] from {self._committed[partition]} to {offset}"
                self._broken("commits_never_go_back", text)
            self._committed[partition] = offset

    def _check(self, member: Consumer, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        expected = self._next[partition]
        if self._owner.get(partition) is not member:
            self._broken("only_what_is_owned", f"[{partition}] @{offset} came to another member")
        again = partition in self._lost and offset < expected  # it couldn't commit the last ones
        if offset != expected and not again:
            rule = "nothing_twice" if offset < expected else "nothing_skipped"
            self._broken(rule, f"[{partition}] @{offset} came, the next was @{expected}")
        self._lost.discard(partition)
        self._next[partition] = offset + 1

    def commit_what_is_not_owned(self) -> None:
        """Commit an old offset, as an application does that ends its work after a revocation."""
        for partition, owner in self._owner.items():
            others = [each for each in self._members if each is not owner]
            for member in others[:1]:
                before = TopicPartition(TOPIC, partition, 0)
                try:
                    [found] = member.commit(offsets=[before], asynchronous=False)
                except KafkaException:
                    continue
                if found.error is None:
                    self._broken("fenced", f"[{partition}] was committed by another member")


def commits(cluster: MockCluster, broken: Broken) -> None:
    """Commit while the coordinator refuses."""
    with Consumer(settings(cluster, enable_auto_commit=False)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        for number in range(0, 50, 10):
            cluster.clear_requests()
            cluster.push_request_errors(ApiKey.OFFSET_COMMIT, [LOADING], topic=TOPIC, partition=0)
            cluster.delay_responses(None, 0.05, ApiKey.OFFSET_COMMIT)
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, number + 5)], asynchronous=True)
            cluster.wait_for_requests(ApiKey.OFFSET_COMMIT)
            cluster.delay_responses(None, 0, ApiKey.OFFSET_COMMIT)
            last = [TopicPartition(TOPIC, 0, number + 9)]
            consumer.commit(offsets=last, asynchronous=False)
            if committed(cluster)[0] != number + 9:
                broken("last_commit_wins", f"{committed(cluster)[0]} in place of {number + 9}")
        coordinator = cluster.coordinator_of(GROUP)
        assert coordinator is not None
        cluster.broker_down(coordinator.id)
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 66)], asynchronous=True)

        def is_committed() -> bool:
            time.sleep(POLL_S)
            return committed(cluster)[0] == 66

        if broken.waits_in_vain(is_committed, "a commit at the new coordinator"):
            return
        cluster.push_request_errors(
            ApiKey.OFFSET_COMMIT, [INVALID_COMMIT], topic=TOPIC, partition=0
        )
        try:
            [found] = consumer.commit(offsets=[TopicPartition(TOPIC, 0, 77)], asynchronous=False)
        except KafkaException:
            found = None
        if found is not None and found.error is None and committed(cluster)[0] != 77:
            broken("commits_are_true", f"77 was reported, {committed(cluster)[0]} is committed")


class Transactions:
    """A transactional producer whose coordinator and leaders fail at chosen requests."""

    def __init__(
        self, cluster: MockCluster, broken: Broken, reader: ModuleType = confluent_kafka
    ) -> None:
        self._cluster, self._broken, self._library = cluster, broken, reader
        self._committed: dict[int, bool] = {}
        self._offset = 0

    def run(self) -> None:
        push = self._cluster.push_request_errors
        end, closed = ApiKey.END_TXN, [CLOSE_CONNECTION]
        faults: tuple[Callable[[], None], ...] = (
            lambda: None,
            lambda: push(end, closed),
            lambda: push(end, closed, done=True),
            lambda: push(end, [LOADING, LOADING]),
            lambda: push(ApiKey.PRODUCE, closed, done=True),
            lambda: push(ApiKey.PRODUCE, [TOO_LARGE], topic="out", partition=1),
            lambda: push(ApiKey.TXN_OFFSET_COMMIT, closed),
        )
        self._cluster.create_topic("out", 2)
        conf = {
            "bootstrap.servers": self._cluster.bootstrap_servers,
            "transactional.id": "planted",
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
        }
        with Producer(conf) as producer, Consumer(settings(self._cluster)) as consumer:
            producer.init_transactions(END_S)
            for number in range(3 * len(faults)):
                faults[number % len(faults)]()
                self._one(producer, consumer, number, ends_well=number % 5 != 4)
        self._read()

    def _one(self, producer: Producer, consumer: Consumer, number: int, ends_well: bool) -> None:
        """Make a transaction of two messages. Two of three have an offset, too."""
        takes_offset = number % 3 != 2
        producer.begin_transaction()
        for partition in range(2):
            producer.produce("out", str(number), partition=partition)
        try:
            if takes_offset:
                position = [TopicPartition(TOPIC, 0, number + 1)]
                member = consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction(position, member, END_S)
            if ends_well:
                producer.commit_transaction(END_S)
            else:
                producer.flush(END_S)
                producer.abort_transaction(END_S)
            self._committed[number] = ends_well
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(END_S)
            self._committed[number] = False
        if self._committed[number] and takes_offset:
            self._offset = number + 1
        found = committed(self._cluster).get(0, 0)
        if found != self._offset:
            self._broken("offsets_go_along", f"{found} is committed in place of {self._offset}")

    def _read(self) -> None:
        """Read the committed messages."""
        conf = {
            "bootstrap.servers": self._cluster.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        library: Any = self._library
        reader = library.Consumer(quiet(conf))
        reader.assign([library.TopicPartition("out", number, 0) for number in range(2)])
        found: Counter[int] = Counter()
        ends: set[int] = set()
        deadline = time.monotonic() + END_S
        while len(ends) < 2 and time.monotonic() < deadline:
            message = reader.poll(POLL_S)
            if message is not None and message.error() is None:
                found[int(message.value())] += 1
            elif message is not None:
                ends.add(message.partition())
        reader.close()
        if len(ends) < 2:
            self._broken("committed_is_there", f"a reader can't get to the end, it has {found}")
        for number, was_committed in self._committed.items():
            if was_committed and found[number] < 2:
                rule = "committed_is_whole" if found[number] else "committed_is_there"
                self._broken(rule, f"transaction {number} has {found[number]} messages of 2")
            elif not was_committed and found[number]:
                self._broken("aborted_is_hidden", f"transaction {number} is visible")
            elif found[number] > 2:
                self._broken("nothing_twice", f"transaction {number} is there twice")


def leaders(cluster: MockCluster, broken: Broken) -> None:
    """Produce single messages while leaders move."""
    conf = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, "retry.backoff.ms": 10}
    for name in ("moved-1", "moved-2", "moved-3"):
        cluster.create_topic(name, 1)
        with Producer({**conf, "enable.idempotence": True}) as producer:
            for number in range(6):
                if number == 3:
                    cluster.move_leader(name, 0, 3 - cluster.leader(name, 0))
                producer.produce(name, payload.make(name, 0, number))
                if producer.flush(broken.patience_s):
                    broken("every_message_has_a_report", f"message {number} has none")
                    producer.purge()
                    return
        found = [payload.number_of(each.value, name, 0) for each in cluster.messages(name, 0)]
        if found != list(range(6)):
            broken("acked_is_there", f"six messages were acked, the log has {found}")


WORKLOADS: dict[str, Callable[[MockCluster, Broken], None]] = {
    "positions": lambda cluster, broken: Positions(cluster, broken).run(),
    "group": lambda cluster, broken: Group(cluster, broken).run(),
    "group-cooperative": lambda cluster, broken: Group(
        cluster, broken, partition_assignment_strategy="cooperative-sticky"
    ).run(),
    "group-consumer": lambda cluster, broken: Group(
        cluster, broken, group_protocol="consumer"
    ).run(),
    "commits": commits,
    "transactions": lambda cluster, broken: Transactions(cluster, broken).run(),
    "transactions-read-by-us": lambda cluster, broken: Transactions(
        cluster, broken, kafka_native
    ).run(),
    "leaders": leaders,
}


def main(name: str, patience_s: float = WAIT_S) -> bool:
    """Run a workload. Return whether a rule was broken."""
    broken = Broken(patience_s)
    with running() as cluster:
        WORKLOADS[name](cluster, broken)
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(float, sys.argv[2:])))
