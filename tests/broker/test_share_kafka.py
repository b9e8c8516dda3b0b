"""Share groups (KIP-932) of Apache Kafka: members that are killed, and other clients in the same
group.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pyarrow
import pytest

from kafka_native import (
    AcknowledgeType,
    IllegalStateException,
    KafkaError,
    ShareConsumer,
    TopicPartition,
)
from kafka_native.arrow import ShareArrowBatch
from kafka_native.mock.dead_letters import LIMIT_REACHED, REJECTED
from tests.broker import java
from tests.broker.cluster import Cluster, quiet
from tests.broker.support import (
    TopicMaker,
    change_group,
    create,
    our_consumer,
    our_producer,
    output_of,
)
from tests.waiting import WAIT_S, wait_for

COUNT = 3000
STEP = 500  # produced at once
Tool = Callable[..., bytes]
NewGroup = Callable[[Cluster, int], tuple[str, str]]


@pytest.fixture
def new_group(new_topic: TopicMaker, tool: Tool) -> NewGroup:
    """Return a function that makes a topic, and a group that begins at its start."""

    def make(kafka: Cluster, partitions: int) -> tuple[str, str]:
        topic = new_topic(kafka, partitions)
        return topic, group_at_start(kafka, topic, tool)

    return make


def group_at_start(kafka: Cluster, topic: str, tool: Tool) -> str:
    """Return a group that begins at the start of a topic. Kafka keeps this setting with the group."""
    group = f"share-{topic}"
    change = ["--alter", "--entity-type", "groups", "--entity-name", group]
    setting = "share.auto.offset.reset=earliest"
    output_of(tool, kafka, java.CONFIGS, *change, "--add-config", setting)
    return group


def produce(kafka: Cluster, topic: str, first: int, end: int) -> None:
    with our_producer(kafka) as producer:
        for number in range(first, end):
            producer.produce(topic, str(number), key=str(number))


@contextmanager
def sharing(kafka: Cluster, group: str, topic: str, **conf: Any) -> Iterator[ShareConsumer]:
    config = {name.replace("_", "."): value for name, value in conf.items()}
    with ShareConsumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": group, **config}
    ) as consumer:
        consumer.subscribe([topic])
        yield consumer


def numbers(messages: Iterable[Any]) -> list[int]:
    """Return the values of messages without an error."""
    return [int(each.value() or b"") for each in messages if each.error() is None]


class Line(NamedTuple):
    """A line of a member's log."""

    at: float
    what: str
    number: int
    deliveries: int


class Workers:
    """Members as processes that are killed and started again."""

    def __init__(self, kafka: Cluster, group: str, topic: str, folder: Path) -> None:
        self._arguments = [kafka.bootstrap, group, topic]
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._killed: list[Path] = []
        self.kills = 0

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def start(self) -> None:
        log = self._folder / f"member-{len(list(self._folder.iterdir()))}"
        log.touch()
        command = [sys.executable, "-m", "tests.broker.share_member", *self._arguments, str(log)]
        self._processes.append(subprocess.Popen(command, cwd=Path(__file__).parents[2]))

    def kill_one(self, choice: random.Random) -> None:
        """Kill one at any moment, and start another in its place."""
        process = self._processes.pop(choice.randrange(len(self._processes)))
        assert process.poll() is None, "a member has ended by itself"
        process.kill()
        process.wait()
        self._killed.append(Path(str(process.args[-1])))  # type: ignore[index]
        self.kills += 1
        self.start()

    def limbo(self) -> set[int]:
        """Return the open records of killed members.

        The broker may have accepted an acknowledgement that the member couldn't log any more.
        """
        found: set[int] = set()
        for path in self._killed:
            lines = _lines(path)
            known = {(line.number, line.deliveries) for line in lines if line.what != "got"}
            found |= {line.number for line in lines if (line.number, line.deliveries) not in known}
        return found

    def lines(self) -> list[Line]:
        """Return the log lines of all members in the order of time, without lines that a kill cut
        off.
        """
        return sorted(line for path in self._folder.iterdir() for line in _lines(path))


def _lines(path: Path) -> list[Line]:
    *whole, _ = path.read_text().split("\n")
    parts = [line.split() for line in whole]
    return [
        Line(float(at), what, int(number), int(deliveries))
        for at, what, number, deliveries in parts
    ]


def is_done(kafka: Cluster, group: str, tool: Tool) -> bool:
    """Return whether Kafka's own tool reports no lag of the group."""
    text = output_of(tool, kafka, java.SHARE_GROUPS, "--describe", "--group", group)
    rows = [line.split() for line in text.splitlines() if line.startswith(group)]
    return bool(rows) and all(row[-1] == "0" for row in rows)


@pytest.mark.slow
def test_killed_members_lose_nothing(
    kafka: Cluster, new_group: NewGroup, tool: Tool, tmp_path: Path
) -> None:
    topic, group = new_group(kafka, 3)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    choice = random.Random(seed)
    with Workers(kafka, group, topic, tmp_path) as workers:
        for _ in range(3):
            workers.start()
        for first in range(0, COUNT, STEP):
            produce(kafka, topic, first, first + STEP)
            seen = len(workers.lines())
            wait_for(lambda seen=seen: len(workers.lines()) > seen + 50, "members work")  # type: ignore[misc]
            if workers.kills < 4:
                workers.kill_one(choice)

        wait_for(lambda: is_done(kafka, group, tool), "everything is accepted or rejected", 90)
        lines, limbo = workers.lines(), workers.limbo()
    by_what = {
        what: [line for line in lines if line.what == what]
        for what in ("accepted", "rejected", "released")
    }
    accepted, rejected = (
        {line.number for line in by_what[what]} for what in ("accepted", "rejected")
    )
    assert accepted | rejected | limbo == set(range(COUNT))
    assert not {each for each in accepted if not each % 10}
    assert not {each for each in rejected if each % 10}
    assert len(limbo - accepted - rejected) <= workers.kills * STEP  # a batch is delivered whole
    last_seen = {
        line.number: line.at for line in lines if line.what == "got"
    }  # later ones take the place of earlier
    for line in by_what["rejected"] + by_what["accepted"]:
        assert last_seen[line.number] <= line.at, f"{line} came again"
    assert {line.number % 10 for line in by_what["released"]} == {7}
    most = {line.number: line.deliveries for line in lines if line.what == "got"}
    assert all(most[line.number] >= 2 for line in by_what["released"])
    assert workers.kills == 4


@pytest.mark.slow
def test_confluent_kafka_and_ours_share_a_group(kafka: Cluster, new_group: NewGroup) -> None:
    topic, group = new_group(kafka, 1)
    theirs = confluent_kafka.ShareConsumer(
        quiet({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    )
    theirs.subscribe([topic])
    found: list[list[int]] = [[], []]
    try:
        with sharing(kafka, group, topic, max_poll_records=100) as ours:
            produced = 0

            def both() -> bool:
                nonlocal produced
                if not all(found):
                    produce(kafka, topic, produced, produced + 100)
                    produced += 100
                for each, consumer in zip(found, (ours, theirs), strict=True):
                    each += numbers(consumer.poll(0.2))
                return all(found) and sum(map(len, found)) >= produced

            wait_for(both, "each has had some, and together all")
            assert set(ours.commit_sync().values()) <= {None}
            theirs.commit_sync()
    finally:
        theirs.close()
    assert sorted(found[0] + found[1]) == list(range(produced))


@pytest.mark.slow
def test_javas_share_consumer_and_ours_share_a_group(
    kafka: Cluster, new_group: NewGroup, tmp_path: Path
) -> None:
    topic, group = new_group(kafka, 2)
    output = tmp_path / "java"
    name = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    arguments = ["--bootstrap-server", kafka.bootstrap, "--topic", topic, "--group", group]
    with output.open("wb") as out:
        process = subprocess.Popen(
            java.java_command(name, *arguments), stdout=out, stderr=subprocess.STDOUT
        )
    ours: set[int] = set()

    def theirs() -> set[int]:
        return {int(line) for line in output.read_text().split("\n")[:-1] if line.isdigit()}

    try:
        with sharing(kafka, group, topic) as consumer:
            produced = 0

            def shared() -> bool:
                nonlocal produced
                if produced < 20_000 and not (theirs() and ours):
                    produce(kafka, topic, produced, produced + 100)
                    produced += 100
                ours.update(numbers(consumer.poll(0.3)))
                return bool(theirs() and ours) and ours | theirs() == set(range(produced))

            wait_for(shared, "Java and we have read everything together", 90)
            assert set(consumer.commit_sync().values()) <= {None}
    finally:
        process.terminate()
        process.wait(20)
    assert not ours & theirs(), "no record was delivered to both"


@pytest.mark.slow
def test_a_record_is_delivered_again_when_its_lock_expires(
    kafka: Cluster, new_group: NewGroup
) -> None:
    topic, group = new_group(kafka, 1)
    produce(kafka, topic, 0, 10)
    with sharing(kafka, group, topic) as slow, sharing(kafka, group, topic) as quick:
        first = wait_for(lambda: [*slow.poll(0.5)], "records")
        again = wait_for(
            lambda: [*quick.poll(0.5)], "the same records, once their locks have expired"
        )
        assert {each.delivery_count() for each in first} == {1}
        assert {each.delivery_count() for each in again} == {2}
        (error,) = slow.commit_sync().values()
        assert error is not None
        assert error.args[0].code() == KafkaError.INVALID_RECORD_STATE
        assert quick.commit_sync() == {TopicPartition(topic, 0): None}


@pytest.mark.slow
def test_explicit_acknowledgements_and_markers_of_transactions(
    kafka: Cluster, new_group: NewGroup
) -> None:
    topic, group = new_group(kafka, 1)
    with our_producer(kafka, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        for start in (0, 5):
            producer.begin_transaction()
            for number in range(start, start + 5):
                producer.produce(topic, str(number))
            producer.commit_transaction()
    outcomes: list[Any] = []
    with sharing(kafka, group, topic, share_acknowledgement_mode="explicit") as consumer:
        consumer.set_acknowledgement_commit_callback(
            lambda offsets, error: outcomes.append((offsets, error))
        )
        messages: list[Any] = []
        while len(messages) < 10:
            for each in consumer.poll(1):
                consumer.acknowledge(each)
                messages.append(each)
        with pytest.raises(IllegalStateException):
            consumer.acknowledge_offset(topic, 0, 5)  # a marker
        assert set(consumer.commit_sync().values()) <= {None}
    assert [int(each.value()) for each in messages] == list(range(10))
    counted = {
        offset
        for offsets, error in outcomes
        if error is None
        for offset in offsets[TopicPartition(topic, 0)]
    }
    assert counted == {0, 1, 2, 3, 4, 6, 7, 8, 9, 10}


@pytest.mark.slow
def test_record_limit_splits_batches(kafka: Cluster, new_group: NewGroup) -> None:
    topic, group = new_group(kafka, 1)
    with our_producer(kafka, **{"linger.ms": 1000}) as producer:
        producer.produce_many(topic, [str(each) for each in range(10)])
    strict = {"max_poll_records": 4, "share_acquire_mode": "record_limit"}
    with sharing(kafka, group, topic, **strict) as one, sharing(kafka, group, topic) as other:
        first = wait_for(lambda: numbers(one.poll(0.5)), "records")
        assert first == [0, 1, 2, 3]
        assert wait_for(lambda: numbers(other.poll(0.5)), "the rest of the batch") == [
            *range(4, 10)
        ]
    with sharing(kafka, group, topic, max_poll_records=4) as whole:
        assert wait_for(lambda: numbers(whole.poll(0.5)), "records") == [*range(10)]


LOCK_S = 12


@pytest.fixture
def renewing_member(
    kafka: Cluster, tmp_path: Path
) -> Iterator[Callable[[str, str], tuple[subprocess.Popen[bytes], Path]]]:
    """Start Java's KafkaShareConsumer, which renews its locks until it gets a line."""
    source = Path(__file__).parent / "java" / "RenewingMember.java"
    classes, output = java.compiled(source, tmp_path / "classes"), tmp_path / "output"
    running: list[subprocess.Popen[bytes]] = []

    def start(group: str, topic: str) -> tuple[subprocess.Popen[bytes], Path]:
        command = java.java_command(
            "RenewingMember", kafka.bootstrap, group, topic, plugins=classes
        )
        with output.open("wb") as out:
            running.append(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT
                )
            )
        return running[-1], output

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_javas_renewals_and_ours_keep_records_from_each_other(
    kafka: Cluster,
    new_group: NewGroup,
    renewing_member: Callable[[str, str], tuple[subprocess.Popen[bytes], Path]],
    tool: Tool,
) -> None:
    topic, group = new_group(kafka, 1)
    change_group(kafka, group, share_record_lock_duration_ms=str(LOCK_S * 1000))
    produce(kafka, topic, 0, 5)
    with sharing(kafka, group, topic, share_acknowledgement_mode="explicit") as consumer:
        mine = wait_for(lambda: [*consumer.poll(0.5)], "our records")
        assert numbers(mine) == [*range(5)]
        process, output = renewing_member(group, topic)
        produce(kafka, topic, 5, 10)

        def renewed() -> None:
            for each in mine:
                consumer.acknowledge(each, AcknowledgeType.RENEW)
            assert consumer.commit_sync() == {TopicPartition(topic, 0): None}

        def theirs() -> set[str]:
            renewed()
            return {each for each in output.read_text().split("\n")[:-1] if "got" in each}

        expected = {f"got {number} 1" for number in range(5, 10)}
        wait_for(lambda: theirs() == expected, "Java has the others")
        end = time.monotonic() + 1.5 * LOCK_S  # so locks without a renewal have expired
        while time.monotonic() < end:
            assert theirs() == expected
            time.sleep(0.2)
        for each in mine:
            consumer.acknowledge(each)
        assert consumer.commit_sync() == {TopicPartition(topic, 0): None}
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        wait_for(lambda: "accepted" in output.read_text(), "Java has accepted its records")
        assert consumer.poll(0.5).is_empty()
    assert {each for each in output.read_text().split("\n") if "got" in each} == expected
    wait_for(lambda: is_done(kafka, group, tool), "everything is accepted")


@pytest.mark.slow
def test_group_without_renewals_refuses_them(kafka: Cluster, new_group: NewGroup) -> None:
    topic, group = new_group(kafka, 1)
    change_group(kafka, group, share_renew_acknowledge_enable="false")
    produce(kafka, topic, 0, 1)
    with sharing(kafka, group, topic, share_acknowledgement_mode="explicit") as consumer:
        (message,) = wait_for(lambda: [*consumer.poll(0.5)], "a record")
        consumer.acknowledge(message, AcknowledgeType.RENEW)
        (error,) = consumer.commit_sync().values()
        assert error is not None
        assert error.args[0].code() == KafkaError.INVALID_RECORD_STATE


@pytest.mark.slow
def test_dead_records_go_to_the_queue(kafka: Cluster, new_group: NewGroup) -> None:
    topic, group = new_group(kafka, 1)
    queue = f"dlq.{topic}"  # brokers demand this prefix
    create(kafka, queue, 1, {"errors.deadletterqueue.group.enable": "true"})
    change_group(
        kafka,
        group,
        errors_deadletterqueue_topic_name=queue,
        errors_deadletterqueue_copy_record_enable="true",
        share_delivery_count_limit="2",
    )
    produce(kafka, topic, 0, 3)
    with sharing(kafka, group, topic, share_acknowledgement_mode="explicit") as consumer:
        kinds = {0: AcknowledgeType.REJECT, 1: AcknowledgeType.RELEASE}
        seen: list[int] = []

        def take() -> bool:
            for each in consumer.poll(0.5):
                consumer.acknowledge(each, kinds.get(each.offset() or 0, AcknowledgeType.ACCEPT))
                seen.append(each.offset() or 0)
            return seen.count(1) == 2

        wait_for(take, "the released record twice")
        assert set(consumer.commit_sync().values()) <= {None}
    with our_consumer(kafka, group_id=queue) as reader:
        reader.assign([TopicPartition(queue, 0, 0)])
        letters = reader.consume(2, WAIT_S)
    assert [each.value() for each in letters] == [b"0", b"1"]
    headers = [dict(each.headers() or ()) for each in letters]
    assert [each["__dlq.errors.delivery.count"] for each in headers] == [b"1", b"2"]
    assert {each["__dlq.errors.group"] for each in headers} == {group.encode()}
    assert [each["__dlq.errors.message"] for each in headers] == [
        REJECTED.encode(),
        LIMIT_REACHED.encode(),
    ]


@pytest.mark.slow
def test_rows_are_acknowledged_by_a_mask(kafka: Cluster, new_group: NewGroup, tool: Tool) -> None:
    topic, group = new_group(kafka, 1)
    produce(kafka, topic, 0, 1000)
    seen: dict[int, int] = {}
    with sharing(kafka, group, topic, share_acknowledgement_mode="explicit") as consumer:

        def take() -> bool:
            columns = ["value", "delivery_count"]
            batch = consumer.consume_arrow(0.5, columns=columns)
            rows = [(int(each["value"]), each["delivery_count"]) for each in _rows(batch)]
            seen.update(rows)
            consumer.acknowledge_arrow(batch)
            again = [number % 10 == 7 and count == 1 for number, count in rows]
            consumer.acknowledge_arrow(batch, AcknowledgeType.RELEASE, mask=again)
            return sum(seen.values()) == 1100

        wait_for(take, "all rows, and each tenth twice")
        assert set(consumer.commit_sync().values()) <= {None}
    assert seen == {number: 2 if number % 10 == 7 else 1 for number in range(1000)}
    wait_for(lambda: is_done(kafka, group, tool), "everything is accepted")


def _rows(batch: ShareArrowBatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pyarrow.record_batch(batch).to_pylist()
    return found


@pytest.mark.slow
def test_a_recreated_topic_is_read(kafka: Cluster, new_group: NewGroup) -> None:
    topic, group = new_group(kafka, 1)
    produce(kafka, topic, 0, 5)
    with sharing(kafka, group, topic, topic_metadata_refresh_interval_ms=500) as consumer:
        assert len(wait_for(lambda: [*consumer.poll(0.5)], "records")) == 5
        assert set(consumer.commit_sync().values()) == {None}
        admin = kafka.admin()
        admin.delete_topics([topic])[topic].result(30)
        wait_for(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic is gone")
        made = confluent_kafka.admin.NewTopic(topic, 2, 1)
        wait_for(
            lambda: admin.create_topics([made])[topic].exception(30) is None, "the topic is back"
        )
        produce(kafka, topic, 5, 12)
        seen: set[int] = set()

        def all_seen() -> bool:
            seen.update(numbers(consumer.poll(0.5)))
            return seen == set(range(5, 12))

        wait_for(all_seen, "the records of the new topic")


@pytest.mark.slow
def test_a_broker_restart_loses_nothing(owned3: Cluster, new_group: NewGroup) -> None:
    topic, group = new_group(owned3, 3)
    produce(owned3, topic, 0, 600)
    seen: set[int] = set()
    with sharing(owned3, group, topic, max_poll_records=50) as consumer:

        def reads(count: int) -> bool:
            seen.update(numbers(consumer.poll(0.5)))
            return len(seen) >= count

        wait_for(lambda: reads(100), "records")
        with owned3.without(owned3.brokers[1]):
            produce(owned3, topic, 600, 900)
            wait_for(lambda: reads(900), "everything", 90)
        produce(owned3, topic, 900, 1000)
        wait_for(lambda: reads(1000), "everything after it is back", 90)
