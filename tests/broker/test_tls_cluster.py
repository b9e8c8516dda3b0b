"""Three brokers without a plaintext port: TLS with mutual authentication for clients, brokers and
controllers.
"""

from __future__ import annotations

import shutil
import socket
import ssl
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import pytest
from cryptography.x509 import load_der_x509_certificate

import kafka_native
from kafka_native import ElectionType, TopicCollection, TopicPartition
from kafka_native.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitionReassignment,
    NewTopic,
)
from tests.broker import payload
from tests.broker.certificates import Authority
from tests.broker.cluster import HOST, Cluster, TlsOnly
from tests.broker.streams import SETTLE_SECONDS, Reader, Stream, all_go_on, check_places
from tests.broker.support import (
    TopicMaker,
    flush,
    leaders,
    our_consumer,
    our_producer,
    read,
    running,
    their_consumer,
    their_producer,
)
from tests.waiting import WAIT_S, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PARTITIONS = 6
MANY = 3000


class TlsCluster(NamedTuple):
    """A cluster, its certificate authority, and the next authority. Brokers trust both."""

    cluster: Cluster
    authority: Authority
    next_authority: Authority
    keystores: Path
    """The folder with ``NODE.pem`` of each broker."""


@pytest.fixture(scope="module")
def tls_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    """Yield a cluster that only holders of the right certificates can use."""
    first, second, folder = (
        tmp_path_factory.mktemp(name) for name in ("first", "second", "brokers")
    )
    authority, next_authority = Authority(first), Authority(second)
    both = folder / "authorities.pem"
    both.write_text("".join(Path(each.ca).read_text() for each in (authority, next_authority)))
    certificate, key = authority.client("alice")

    def broker(node: int) -> dict[str, str]:
        keystore = folder / f"{node}.pem"
        authority.broker(f"broker-{node}", keystore)
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(both),
            "ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]*),.*$/$1/",
        }

    client = {
        "security.protocol": "ssl",
        "ssl.ca.location": str(both),
        "ssl.certificate.location": certificate,
        "ssl.key.location": key,
    }
    users = {"super.users": "User:alice;User:broker-1;User:broker-2;User:broker-3"}
    with running(3, changes=users, tls_only=TlsOnly(broker, client)) as cluster:
        yield TlsCluster(cluster, authority, next_authority, folder)


def talk(context: ssl.SSLContext, port: int) -> bytes:
    """Connect with TLS, and return one byte: with TLS 1.3 the server refuses a client after its
    handshake.
    """
    with (
        socket.create_connection((HOST, port), 10) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as made,
    ):
        made.settimeout(10)
        return made.recv(1)


def shown_serial(tls_cluster: TlsCluster, port: int) -> int:
    """Return the serial number of the certificate at a port, for a client with the right
    certificate.
    """
    context = ssl.create_default_context(cafile=str(tls_cluster.keystores / "authorities.pem"))
    certificate = tls_cluster.cluster.conf()["ssl.certificate.location"]
    context.load_cert_chain(certificate, tls_cluster.cluster.conf()["ssl.key.location"])
    with (
        socket.create_connection((HOST, port), 10) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as made,
    ):
        return load_der_x509_certificate(made.getpeercert(binary_form=True) or b"").serial_number


def test_no_listener_accepts_a_client_without_a_certificate(tls_cluster: TlsCluster) -> None:
    """This includes the controllers' listeners, which use the brokers' certificates."""
    with AdminClient(tls_cluster.cluster.conf()) as admin:
        quorum = admin.describe_metadata_quorum().result(WAIT_S)
    ports = [broker.port for broker in tls_cluster.cluster.brokers.values()]
    ports += [each.endpoints[0].port for each in quorum.nodes.values()]
    assert len(set(ports)) == 6
    for port in ports:
        assert shown_serial(tls_cluster, port)
        context = ssl.create_default_context(cafile=tls_cluster.authority.ca)
        with pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            talk(context, port)


def test_topics_messages_and_groups(tls_cluster: TlsCluster) -> None:
    cluster, name = tls_cluster.cluster, f"tls_cluster-{uuid.uuid4().hex[:8]}"
    with AdminClient(cluster.conf()) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(WAIT_S)
        wait_for(lambda: len(leaders(cluster, name)) == PARTITIONS, "leaders")
        described = admin.describe_topics(TopicCollection([name]))[name].result(WAIT_S)
        assert {each.leader.id for each in described.partitions if each.leader} == {1, 2, 3}
        values = {
            number: payload.make(name, number % PARTITIONS, number, 300) for number in range(MANY)
        }
        with our_producer(cluster, acks="all", compression_codec="lz4") as ours:
            theirs = their_producer(cluster, acks="all")
            for number, value in values.items():
                (ours if number % 2 else theirs).produce(name, value, partition=number % PARTITIONS)
            flush(ours)
            flush(theirs)
        found = read_as_a_group(cluster, name, admin)
        witness = their_consumer(cluster)
        seen = read(witness, name, range(PARTITIONS), MANY)
        assert (
            {payload.number_of(each.value, name, each.partition) for each in seen}
            == found
            == set(values)
        )
        assert witness_offsets(cluster, name) == dict.fromkeys(
            range(PARTITIONS), MANY // PARTITIONS
        )
        witness.close()
        admin.delete_topics([name])[name].result(WAIT_S)


def read_as_a_group(cluster: Cluster, name: str, admin: AdminClient) -> set[int]:
    """Return the numbers that two members of a group read from a topic. They share its partitions."""
    found: set[int] = set()
    with our_consumer(cluster, group_id=name) as one, our_consumer(cluster, group_id=name) as other:
        members = (one, other)
        for member in members:
            member.subscribe([name])

        def all_is_read() -> bool:
            for member in members:
                for message in member.consume(500, 0.1):
                    assert message.error() is None, message.error()
                    found.add(payload.number_of(message.value(), name, message.partition()))
            return len(found) == MANY and all(
                len(each.assignment()) == PARTITIONS // 2 for each in members
            )

        wait_for(all_is_read, "everything, by a group of two")
        described = admin.describe_consumer_groups([name])[name].result(WAIT_S)
        assert (
            sorted(len(each.assignment.topic_partitions) for each in described.members)
            == [PARTITIONS // 2] * 2
        )
    return found


def witness_offsets(cluster: Cluster, name: str) -> dict[int, int]:
    """Return the group's committed offsets, from librdkafka."""
    reader = their_consumer(cluster, group_id=name)
    try:
        places = [confluent_kafka.TopicPartition(name, number) for number in range(PARTITIONS)]
        return {each.partition: each.offset for each in reader.committed(places, 30)}
    finally:
        reader.close()


def test_leaders_move_and_are_killed_while_messages_flow(
    tls_cluster: TlsCluster, new_topic: TopicMaker
) -> None:
    cluster = tls_cluster.cluster
    topic = new_topic(cluster, PARTITIONS)
    place = TopicPartition(topic, 0)
    with (
        AdminClient(cluster.conf()) as admin,
        our_producer(cluster, acks="all", enable_idempotence=True) as producer,
        our_consumer(cluster) as consumer,
        Stream(producer, topic, PARTITIONS) as stream,
    ):
        reader = Reader(consumer, topic, PARTITIONS)
        reader.until(lambda: len(reader.seen) > 500, "the first messages")
        leader = leaders(cluster, topic)[0]
        other = leader % 3 + 1
        target = [other, other % 3 + 1, leader]
        admin.alter_partition_reassignments({place: NewPartitionReassignment(target)})[
            place
        ].result(WAIT_S)
        wait_for(
            lambda: not admin.list_partition_reassignments().result(WAIT_S), "the end of the move"
        )
        assert set(admin.elect_leaders(ElectionType.PREFERRED, [place]).result(WAIT_S)) == {place}
        wait_for(lambda: leaders(cluster, topic).get(0) == other, "another leader", SETTLE_SECONDS)
        reader.until_all_go_on(stream, "messages after the move")
        victim = cluster.brokers[leaders(cluster, topic)[0]]
        with cluster.without(victim):
            reader.until_all_go_on(stream, "messages of every partition")
        reader.finish(stream)
    stream.check_all_acked()
    assert set(reader.seen) == set(range(stream.sent))
    numbers = check_places(cluster, stream)
    assert [each for each in numbers if each != sorted(set(each))] == [], "once, and in order"


def test_certificates_are_rotated_while_messages_flow(
    tls_cluster: TlsCluster, new_topic: TopicMaker, tmp_path: Path
) -> None:
    """One broker gets a new certificate while it runs. Another gets one of the next authority at
    its restart, and clients learn to trust that authority before.
    """
    cluster = tls_cluster.cluster
    topic = new_topic(cluster, PARTITIONS)
    trusted = tmp_path / "trusted.pem"
    shutil.copy(tls_cluster.authority.ca, trusted)
    own = {"ssl.ca.location": str(trusted)}
    with (
        our_producer(cluster, acks="all", enable_idempotence=True, **own) as producer,
        our_consumer(cluster, **own) as consumer,
        Stream(producer, topic, PARTITIONS) as stream,
    ):
        reader = Reader(consumer, topic, PARTITIONS)
        reader.until(lambda: all_go_on(reader, 0, 50), "the first messages")
        live, restarted = cluster.brokers[1], cluster.brokers[2]
        serial = rotate_live(tls_cluster, live.node, tmp_path)
        reader.until(
            lambda: shown_serial(tls_cluster, live.port) == serial,
            "the certificate of a broker that runs",
        )
        Path(trusted).write_bytes((tls_cluster.keystores / "authorities.pem").read_bytes())
        serial = tls_cluster.next_authority.broker(
            f"broker-{restarted.node}", tls_cluster.keystores / f"{restarted.node}.pem"
        )
        with cluster.without(restarted, "stop"):
            reader.until_all_go_on(stream, "messages while a broker is away")
        assert shown_serial(tls_cluster, restarted.port) == serial
        reader.until_in_sync(cluster)
        wait_for(
            lambda: restarted.node in leaders(cluster, topic).values(),
            "its leaderships",
            SETTLE_SECONDS,
        )
        reader.until_all_go_on(stream, "messages after the move")
        reader.finish(stream)
    stream.check_all_acked()
    assert set(reader.seen) == set(range(stream.sent))
    check_places(cluster, stream)


def rotate_live(tls_cluster: TlsCluster, node: int, folder: Path) -> int:
    """Give a running broker another certificate (KIP-226), and return its serial number."""
    keystore = folder / "rotated.pem"
    serial = tls_cluster.authority.broker(f"broker-{node}", keystore)
    change = ConfigEntry(
        "listener.name.ssl.ssl.keystore.location",
        str(keystore),
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node), incremental_configs=[change])
    with AdminClient(tls_cluster.cluster.conf()) as admin:
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    return serial


def test_a_client_without_the_authority_gets_a_clear_error(
    tls_cluster: TlsCluster, tmp_path: Path
) -> None:
    errors: list[Any] = []
    conf = tls_cluster.cluster.conf(
        **{"ssl.ca.location": Authority(tmp_path).ca, "error_cb": errors.append}
    )
    with kafka_native.Consumer({**conf, "group.id": "nobody"}) as consumer:
        consumer.subscribe(["anything"])
        wait_for(lambda: [consumer.poll(0.1), *errors][1:], "an error")
    assert {error.code() for error in errors} <= {
        kafka_native.KafkaError._SSL,
        kafka_native.KafkaError._ALL_BROKERS_DOWN,
    }
    assert "is none of the CAs of ssl.ca.location=" in errors[0].str()
