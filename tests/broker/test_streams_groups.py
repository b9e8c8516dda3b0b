"""Streams groups (KIP-1071) of Apache Kafka: our member and an application of Kafka Streams."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kafka_native import (
    Consumer,
    ConsumerGroupTopicPartitions,
    Producer,
    StreamsGroupMember,
    TopicPartition,
)
from kafka_native.admin import AdminClient, StreamsGroupDescription
from kafka_native.streams_group import InternalTopic, Subtopology, TaskId, Topology
from tests.broker import java
from tests.broker.cluster import Cluster
from tests.broker.support import TopicMaker, our_consumer, our_producer
from tests.harness.processes import started
from tests.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).parent / "java_plugins" / "StreamsApplication.java"
PARTITIONS = 4
SLOW_S = 2 * WAIT_S
ALL = frozenset(TaskId("0", number) for number in range(PARTITIONS))


class Streams:
    """A group, and what its members need."""

    def __init__(self, kafka: Cluster, new_topic: TopicMaker, folder: Path) -> None:
        if why := java.missing():
            pytest.skip(f"Kafka Streams: {why}")
        self.kafka, self.folder = kafka, folder
        self.source, self.sink = new_topic(kafka, PARTITIONS), new_topic(kafka, 1)
        self.group = f"streams-{self.source}"
        self.log = folder / "application.out"
        jars = (java.STREAMS_JARS,)
        self._command = java.java_command(
            "StreamsApplication",
            *(kafka.bootstrap, self.group, self.source, self.sink, str(folder / "state")),
            plugins=java.compiled(SOURCE, folder / "classes", jars),
            jar_sets=jars,
        )

    @contextmanager
    def application(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the application. At its end it leaves the group."""
        process = started(*self._command, output=self.log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(WAIT_S)
            finally:
                process.kill()

    def member(self) -> StreamsGroupMember:
        """Return our member, with the application's topology."""
        changelog = InternalTopic(
            f"{self.group}-counts-changelog",
            configs={"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"},
        )
        part = Subtopology("0", source_topics=[self.source], state_changelog_topics=[changelog])
        return StreamsGroupMember(
            {"bootstrap.servers": self.kafka.bootstrap, "group.id": self.group}, Topology([part])
        )

    def described(self, admin: AdminClient) -> StreamsGroupDescription:
        return admin.describe_streams_groups([self.group])[self.group].result(WAIT_S)

    def log_text(self) -> str:
        """Return the output of the application."""
        return self.log.read_text(errors="replace")[-5000:]

    def check(self) -> None:
        """Fail if the application has ended by an error."""
        assert "state ERROR" not in self.log.read_text(errors="replace"), self.log_text()

    def counts(self, consumer: Consumer) -> dict[bytes, bytes]:
        """Return the newest count of each key that the consumer has now."""
        messages = consumer.consume(1000, 0.2)
        assert [each.error() for each in messages if each.error()] == []
        return {each.key() or b"": each.value() or b"" for each in messages}


@pytest.fixture
def streams(kafka: Cluster, new_topic: TopicMaker, tmp_path: Path) -> Streams:
    return Streams(kafka, new_topic, tmp_path)


def polled(member: StreamsGroupMember, condition: Callable[[], bool]) -> Callable[[], bool]:
    """Return the condition. Each check polls the member before."""

    def check() -> bool:
        found = member.poll(0.1)
        assert found is None or not found.is_lost
        return condition()

    return check


def produce_to_all(producer: Producer, topic: str, key: str) -> None:
    for number in range(PARTITIONS):
        producer.produce(topic, "value", f"{key}-{number}", partition=number)
    assert producer.flush(WAIT_S) == 0


def counted(streams: Streams, reader: Consumer, key: str) -> Callable[[], bool]:
    """Return a condition: the application has counted the message of each partition."""
    missing = {f"{key}-{number}".encode() for number in range(PARTITIONS)}

    def check() -> bool:
        streams.check()
        missing.difference_update(streams.counts(reader))
        return not missing

    return check


def test_an_application_of_kafka_streams_and_our_member_share_a_group(streams: Streams) -> None:
    kafka = streams.kafka
    with (
        AdminClient({"bootstrap.servers": kafka.bootstrap}) as admin,
        our_producer(kafka) as producer,
        our_consumer(kafka) as reader,
        ExitStack() as stack,
    ):
        reader.assign([TopicPartition(streams.sink, 0, 0)])

        def has_half(member: StreamsGroupMember) -> bool:
            streams.check()
            mine = member.assignment().active
            theirs = [
                TaskId("0", number)
                for each in streams.described(admin).members
                if each.member_id != member.member_id()
                for number in each.assignment.active_tasks.get("0", [])
            ]
            return len(mine) == len(theirs) == 2 and {*mine, *theirs} == ALL

        with streams.member() as member:  # our member creates the group
            wait_for(polled(member, lambda: member.assignment().active == ALL), "all tasks")
            application = stack.enter_context(streams.application())
            wait_for(polled(member, lambda: has_half(member)), streams.log_text, SLOW_S)
        produce_to_all(producer, streams.source, "alone")
        wait_for(counted(streams, reader, "alone"), streams.log_text, SLOW_S)
        with streams.member() as member:  # now the application has the group
            wait_for(polled(member, lambda: has_half(member)), streams.log_text, SLOW_S)
            application.terminate()
            wait_for(
                polled(member, lambda: member.assignment().active == ALL),
                streams.log_text,
                SLOW_S,
            )
            assert member.assignment().statuses == ()
    assert "Exception" not in streams.log_text()


def test_our_member_commits_in_its_group(streams: Streams) -> None:
    kafka, topic = streams.kafka, streams.source
    places = [TopicPartition(topic, number, 3 + number) for number in range(PARTITIONS)]
    reading = {"group.id": streams.group, "enable.auto.commit": False}
    with (
        AdminClient({"bootstrap.servers": kafka.bootstrap}) as admin,
        our_producer(kafka) as producer,
        our_producer(kafka, transactional_id=f"{topic}-writer") as writer,
        our_consumer(kafka, **reading) as reader,
        streams.member() as member,
    ):
        wait_for(polled(member, lambda: member.assignment().active == ALL), "all tasks")
        assert [each.error for each in member.commit(places)] == [None] * PARTITIONS
        for number in range(10):
            producer.produce(topic, f"{number}", partition=0)
        assert producer.flush(WAIT_S) == 0
        reader.assign([TopicPartition(topic, 0)])  # from the committed offset on
        found = reader.consume(7, WAIT_S)
        assert [each.value() for each in found] == [b"3", b"4", b"5", b"6", b"7", b"8", b"9"]
        writer.init_transactions()
        writer.begin_transaction()
        writer.produce(streams.sink, "done")
        positions = reader.position(reader.assignment())
        writer.send_offsets_to_transaction(positions, member.consumer_group_metadata())
        writer.commit_transaction()
        asked = [ConsumerGroupTopicPartitions(streams.group)]

        def committed() -> list[tuple[int, int]]:
            found = admin.list_streams_group_offsets(asked)[streams.group].result(WAIT_S)
            return sorted((each.partition, each.offset) for each in found.topic_partitions)

        # the coordinator applies the transaction's offsets a little later
        wait_for(lambda: committed() == [(0, 10), (1, 4), (2, 5), (3, 6)], "the offsets")
