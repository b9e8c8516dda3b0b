"""A cluster is saved to a folder and loaded from it."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from kafka_native import Consumer, Producer, StreamsGroupMember, TopicPartition
from kafka_native.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka_native.errors import ErrorCode
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.mock.transactions import State
from kafka_native.streams_group import Subtopology, Topology
from tests.mock.test_mock_consumer_groups import GROUP as CONSUMERS
from tests.mock.test_mock_consumer_groups import Member, settled
from tests.mock.test_mock_settings import GROUP, share_group, shown
from tests.mock.wire import Wire, batch, produce
from tests.waiting import WAIT_S


def reloaded(cluster: MockCluster, folder: Path, **arguments: Any) -> MockCluster:
    """Save a cluster, and return another one with its state."""
    cluster.save(folder)
    return MockCluster(len(cluster.broker_ids), load=folder, **arguments)


def test_topics_and_records_are_back(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create_topic("a", 4, configs={"retention.ms": "5000"})
    cluster.create_topic("empty")
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(100):
            producer.produce("a", str(number), key=str(number % 7), headers={"n": "1"})
        assert producer.flush(WAIT_S) == 0
    cluster.move_leader("a", 1, 3)
    cluster.logs.move_log_start("a", 0, 1)
    with reloaded(cluster, tmp_path) as other:
        assert other.cluster_id == cluster.cluster_id
        assert list(other.topics) == list(cluster.topics)
        for index in range(4):
            assert other.messages("a", index) == cluster.messages("a", index)
            assert other.watermarks("a", index) == cluster.watermarks("a", index)
            mine, theirs = (each.topics["a"].partitions[index] for each in (other, cluster))
            assert (mine.leader, mine.leader_epoch) == (theirs.leader, theirs.leader_epoch)
            assert mine.replicas == theirs.replicas
        assert other.topic_id("a") == cluster.topic_id("a")
        assert other.topics["a"].configs == {"retention.ms": "5000"}
        assert other.kept_bytes == cluster.kept_bytes


def test_a_loaded_cluster_goes_on(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create_topic("a")
    conf = {"group.id": "g", "auto.offset.reset": "earliest"}

    def run(servers: str, values: list[str], expected: list[bytes]) -> None:
        with Producer({"bootstrap.servers": servers}) as producer:
            for value in values:
                producer.produce("a", value)
            assert producer.flush(WAIT_S) == 0
        with Consumer({**conf, "bootstrap.servers": servers}) as consumer:
            consumer.subscribe(["a"])
            found = []
            while len(found) < len(expected):
                message = consumer.poll(WAIT_S)
                assert message is not None
                found.append(message.value())
            assert found == expected
            consumer.commit(asynchronous=False)

    run(cluster.bootstrap_servers, ["1", "2"], [b"1", b"2"])
    with reloaded(cluster, tmp_path) as other:
        run(other.bootstrap_servers, ["3"], [b"3"])
        assert other.groups.group("g").offsets["a", 0].offset == 3
        with reloaded(other, tmp_path) as third:
            run(third.bootstrap_servers, ["4"], [b"4"])
    assert len(list(tmp_path.iterdir())) == 2  # the records of the first are gone


def test_groups_are_back_without_members(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create_topic("a", 4)
    member = Member(cluster, "1", "a")
    member.join()
    assert settled(member) == [[0, 1, 2, 3]]
    assert member.commit(7, member.epoch) == 0
    with reloaded(cluster, tmp_path) as other:
        group = other.groups.group(CONSUMERS)
        assert (group.type, group.state, group.members) == ("consumer", "Empty", {})
        assert group.generation == member.epoch
        assert group.offsets["a", 0].offset == 7
        again = Member(other, "2", "a")
        again.join()
        assert settled(again) == [[0, 1, 2, 3]]
        assert again.epoch > member.epoch


def test_streams_groups_get_their_topology_from_the_next_member(
    cluster: MockCluster, tmp_path: Path
) -> None:
    cluster.create_topic("a", 2)
    topology = Topology([Subtopology("0", ["a"])])

    def run(servers: str, offset: int) -> int:
        conf = {"bootstrap.servers": servers, "group.id": "tasks"}
        with StreamsGroupMember(conf, topology) as member:
            found = member.poll(WAIT_S)
            assert found is not None
            assert len(found.active) == 2
            assert member.commit([TopicPartition("a", 1, offset)])[0].error is None
            return member.consumer_group_metadata().generation

    epoch = run(cluster.bootstrap_servers, 3)
    with reloaded(cluster, tmp_path) as other:
        group = other.groups.group("tasks")
        assert (group.type, group.state, group.members) == ("streams", "Empty", {})
        assert group.offsets["a", 1].offset == 3
        assert run(other.bootstrap_servers, 4) > epoch


def test_share_groups_and_their_settings_are_back(tmp_path: Path) -> None:
    with MockCluster(1) as cluster, Wire(cluster) as wire:
        cluster.create_topic("a")
        for _ in range(3):
            assert produce(wire, "a", 0, batch(b"x")).error_code == 0
        settings = {"auto_offset_reset": "earliest", "delivery_count_limit": "2"}
        member = share_group(cluster, wire, "g", **settings)
        assert member.fetch()[1] == [(0, 2, 1)]
        with reloaded(cluster, tmp_path) as other, Wire(other) as again:
            found = shown(again, GROUP, "g", "share.delivery.count.limit")
            assert found["share.delivery.count.limit"].value == "2"
            second = share_group(other, again, "g")
            assert second.fetch()[1] == [(0, 2, 2)]  # released, and delivered once before


def test_an_open_transaction_is_back(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.create_topic("a")
    conf = {"transactional.id": "t", "transaction.timeout.ms": 60_000}
    with Producer({"bootstrap.servers": cluster.bootstrap_servers, **conf}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.produce("a", "open")
        assert producer.flush(WAIT_S) == 0
        cluster.save(tmp_path)
        producer.abort_transaction()
    with MockCluster(3, load=tmp_path) as other:
        before, found = cluster.transactions.find("t"), other.transactions.find("t")
        assert before is not None
        assert found is not None
        assert (found.state, found.producer_id) == (State.ONGOING, before.producer_id)
        servers = {"bootstrap.servers": other.bootstrap_servers}
        with Producer({**servers, **conf}) as producer:
            producer.init_transactions()  # aborts it
            producer.begin_transaction()
            producer.produce("a", "new")
            producer.commit_transaction()
        with Consumer({**servers, "isolation.level": "read_committed"}) as consumer:
            consumer.assign([TopicPartition("a", 0, 0)])
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.value() == b"new"


def test_producer_ids_stay_known(tmp_path: Path) -> None:
    with MockCluster(1) as cluster, Wire(cluster) as wire:
        cluster.create_topic("a")
        first = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0)
        assert produce(wire, "a", 0, first).base_offset == 0
        taken = cluster.transactions.new_producer_id()
        with reloaded(cluster, tmp_path) as other, Wire(other) as again:
            assert produce(again, "a", 0, first).base_offset == 0
            assert other.watermarks("a", 0) == (0, 1)  # stored once
            wrong = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=9)
            answer = produce(again, "a", 0, wrong)
            assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert other.transactions.new_producer_id() > taken


def test_acls_quotas_features_and_users_are_back(tmp_path: Path) -> None:
    security = ListenerSecurity(
        "sasl_plaintext", mechanisms=["SCRAM-SHA-256"], users={"alice": "first"}
    )
    login = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
    }
    acl = AclBinding(
        ResourceType.TOPIC,
        "private",
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    with MockCluster(1, security=security, transaction_version=1) as cluster:
        cluster.security.set_password("alice", "second")
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        with AdminClient({**servers, **login, "sasl.password": "second"}) as admin:
            admin.create_acls([acl])[acl].result(WAIT_S)
        cluster.quotas.alter(frozenset({("user", None)}), {"producer_byte_rate": 1e6})
        with reloaded(cluster, tmp_path, security=security) as other:
            assert other.access.acls == cluster.access.acls
            assert len(other.access.acls) == 1
            assert other.quotas.entries == cluster.quotas.entries
            assert other.transaction_version == 1
            servers = {"bootstrap.servers": other.bootstrap_servers}
            with AdminClient({**servers, **login, "sasl.password": "second"}) as admin:
                assert admin.list_topics(timeout=WAIT_S).cluster_id == cluster.cluster_id


def test_only_the_owner_may_read_the_files(cluster: MockCluster, tmp_path: Path) -> None:
    cluster.save(tmp_path / "new" / "folder")
    files = list((tmp_path / "new" / "folder").iterdir())
    assert len(files) == 2
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}


def test_more_brokers_are_fine_but_fewer_are_refused(tmp_path: Path) -> None:
    with MockCluster(2) as cluster:
        cluster.create_topic("a", 2)
        cluster.save(tmp_path)
    with MockCluster(3, load=tmp_path) as more:
        assert [more.leader("a", index) for index in (0, 1)] == [1, 2]
    with pytest.raises(ValueError, match="has 2 brokers, this cluster 1"):
        MockCluster(1, load=tmp_path)


def _cut(text: bytes) -> bytes:
    return text[: len(text) // 2]


def _change(**fields: Any) -> Any:
    return lambda text: json.dumps({**json.loads(text), **fields}).encode()


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (_cut, "is damaged or no saved mock cluster"),
        (lambda text: b"", "is damaged or no saved mock cluster"),
        (lambda text: b"\xff\xfe", "is damaged or no saved mock cluster"),
        (lambda text: b"[" * 100_000, "is damaged or no saved mock cluster"),
        (lambda text: b"[1]", "is no saved mock cluster"),
        (lambda text: b'{"name": "package"}', "is no saved mock cluster"),
        (_change(version=2), "has version 2 of the format, not 1"),
        (_change(state={}), "doesn't match its SHA-256"),
        (_change(state=None), "doesn't match its SHA-256"),
        (lambda text: text.replace(b'"a"', b'"b"'), "doesn't match its SHA-256"),
        (_change(records="../../etc/passwd"), "is no name of a file with records"),
        (_change(records=None), "is no name of a file with records"),
    ],
)
def test_damaged_and_foreign_files_are_refused(
    edit: Any, error: str, cluster: MockCluster, tmp_path: Path
) -> None:
    cluster.create_topic("a")
    cluster.save(tmp_path)
    index = tmp_path / "cluster.json"
    index.write_bytes(edit(index.read_bytes()))
    with pytest.raises(ValueError, match=error) as raised:
        MockCluster(load=tmp_path)
    assert "cluster.json" in str(raised.value)


def test_damaged_and_missing_records_are_refused(tmp_path: Path) -> None:
    with MockCluster(1) as cluster, Wire(cluster) as wire:
        cluster.create_topic("a")
        assert produce(wire, "a", 0, batch(b"x")).error_code == 0
        cluster.save(tmp_path)
        (records,) = tmp_path.glob("records-*")
        for data in (records.read_bytes()[:-1], b"", records.read_bytes()[:-1] + b"?"):
            records.write_bytes(data)
            with pytest.raises(ValueError, match=r"records-\w+ is damaged"):
                MockCluster(load=tmp_path)
        records.unlink()
        with pytest.raises(FileNotFoundError):
            MockCluster(load=tmp_path)
    with pytest.raises(FileNotFoundError):
        MockCluster(load=tmp_path / "none")
