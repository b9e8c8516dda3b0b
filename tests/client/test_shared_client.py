"""One Client and its roles: what they share, what each has for itself, and how they end."""

from __future__ import annotations

import gc
import os
import textwrap
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import (
    Client,
    Consumer,
    DeserializingConsumer,
    KafkaError,
    KafkaException,
    Producer,
    SerializingProducer,
    ShareConsumer,
    TopicPartition,
)
from kafka_native._native.engine import live_objects
from kafka_native.admin import AdminClient, NewTopic
from kafka_native.interceptors import ProducerInterceptor
from kafka_native.mock import ListenerSecurity, MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.serialization import StringDeserializer, StringSerializer
from tests.mock.secured import unsecured_jwt
from tests.waiting import WAIT_S, poll_until, wait_for

from .consumer_support import read
from .support import Client as Clients
from .support import client_threads, deliver, errors_into, fill, run_program

FAST = {"heartbeat.interval.ms": 100, "auto.offset.reset": "earliest"}


@pytest.fixture
def shared(cluster: MockCluster) -> Iterator[Client]:
    with made(cluster) as client:
        yield client


def made(cluster: MockCluster, **conf: Any) -> Client:
    """Return a shared client with short timings."""
    return Client(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "reconnect.backoff.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 50,
            **conf,
        }
    )


def member(shared: Client, topic: str, group: str, **conf: Any) -> Consumer:
    """Return a role that subscribes to a topic."""
    consumer = shared.consumer({"group.id": group, **FAST, **conf})
    consumer.subscribe([topic])
    return consumer


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


# --- working together ---


def test_a_producer_and_a_consumer_of_one_client(shared: Client, topic: str) -> None:
    producer = shared.producer()
    for number in range(10):
        producer.produce(topic, str(number))
    assert producer.flush(WAIT_S) == 0
    assert read(member(shared, topic, "together"), 10) == list(range(10))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_two_members_of_a_group_share_its_partitions(
    shared: Client, client: Clients, protocol: str
) -> None:
    topic = client.topic(4)
    conf: dict[str, Any] = {"group.id": f"two-{protocol}", "auto.offset.reset": "earliest"}
    conf |= {"group.protocol": protocol} if protocol == "consumer" else FAST
    members = [shared.consumer(conf) for _ in range(2)]
    for each in members:
        each.subscribe([topic])
    poll_until(lambda: [len(each.assignment()) for each in members] == [2, 2], *members)
    first, second = members
    first.close()
    poll_until(lambda: len(second.assignment()) == 4, second)


def test_a_transaction_with_offsets(shared: Client, client: Clients, cluster: MockCluster) -> None:
    source, target = client.topic(), client.topic()
    fill(client, source, 3)
    consumer = member(shared, source, "copies", **{"enable.auto.commit": False})
    producer = shared.producer({"transactional.id": "shared-copies"})
    producer.init_transactions()
    values = read(consumer, 3)
    producer.begin_transaction()
    for value in values:
        producer.produce(target, str(value))
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
    )
    producer.commit_transaction()
    assert read(member(shared, target, "copied"), 3) == values
    (committed,) = consumer.committed([TopicPartition(source, 0)])
    assert committed.offset == 3


def test_a_share_consumer_is_a_role(shared: Client, client: Clients, group: str) -> None:
    topic = client.topic()
    consumer = shared.share_consumer({"group.id": group})
    consumer.subscribe([topic])
    consumer.poll(0)
    shared.producer().produce(topic, "x")
    found: list[Any] = []

    def take() -> bool:
        found.extend(consumer.poll(0.1))
        return bool(found)

    producer = shared.producer()
    deliver(producer, topic, b"y")
    wait_for(take, "a record")
    assert found[0].error() is None


def test_admin_clients_use_the_connections(shared: Client, cluster: MockCluster) -> None:
    with shared.admin() as admin, AdminClient.of(shared) as other:
        admin.create_topics([NewTopic("by-a-role", 2)])["by-a-role"].result(WAIT_S)
        assert len(other.list_topics("by-a-role").topics["by-a-role"].partitions) == 2
        producer = shared.producer()
        with AdminClient.of(producer) as of_role:
            assert "by-a-role" in of_role.list_topics().topics
    deliver(producer, "by-a-role")  # closing an admin client closes nothing else


def test_converting_classes_are_roles(shared: Client, topic: str) -> None:
    producer = shared.producer(
        {"value.serializer": StringSerializer("utf_8")}, of=SerializingProducer
    )
    producer.produce(topic, value="é")
    assert producer.flush(WAIT_S) == 0
    consumer = shared.consumer(
        {"group.id": "strings", **FAST, "value.deserializer": StringDeserializer("utf_8")},
        of=DeserializingConsumer,
    )
    consumer.subscribe([topic])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.value() == "é"
    assert type(producer) is SerializingProducer


def test_a_subclass_may_make_other_clients_in_its_constructor(
    shared: Client, cluster: MockCluster
) -> None:
    class Noted(Producer):
        def __init__(self, conf: Any) -> None:
            self.other = Producer({"bootstrap.servers": cluster.bootstrap_servers})
            super().__init__(conf)

    role = shared.producer({"acks": 1}, of=Noted)
    assert role.other._client.main is not role._client.main
    assert role._client._host is shared._client
    assert role.other._client._host is None
    role.other.close()


# --- what is shared ---


def test_roles_have_one_control_thread(cluster: MockCluster, topic: str) -> None:
    before = client_threads()
    with made(cluster) as shared:
        for number in range(5):
            deliver(shared.producer(), topic)
            member(shared, topic, f"threads-{number}").poll(WAIT_S)
        assert len(client_threads() - before) == 1


def test_roles_have_one_metadata_request(shared: Client, client: Clients) -> None:
    topics = [client.topic() for _ in range(4)]
    producers = [shared.producer() for _ in topics]
    for producer, topic in zip(producers, topics, strict=True):
        deliver(producer, topic)
    client.cluster.clear_requests()
    main, begin = shared._client.main, time.monotonic()
    main.run(lambda: main.metadata.refresh(begin))

    def is_new() -> bool:
        times = [
            producer._client.context.metadata.topics[topic].updated_at or 0.0
            for producer, topic in zip(producers, topics, strict=True)
        ]
        return min(times) > begin

    wait_for(is_new, "new metadata of all roles")
    assert len(client.cluster.requests_of(ApiKey.METADATA)) < len(topics)


def test_topics_that_brokers_may_create_are_asked_for_separately(
    shared: Client, client: Clients, cluster: MockCluster
) -> None:
    consumer = shared.consumer({"group.id": "no-creation", **FAST})
    consumer.subscribe(["never-created"])
    consumer.poll(0)
    deliver(shared.producer(), "created-by-a-producer")
    assert "created-by-a-producer" in shared.admin().list_topics().topics
    assert "never-created" not in shared.admin().list_topics().topics


def test_roles_have_few_connections(cluster: MockCluster, client: Clients) -> None:
    topic = client.topic()

    def connections() -> int:
        return sum(cluster.connection_count(each) for each in cluster.broker_ids)

    before = connections()
    with made(cluster) as shared:
        producers = [shared.producer() for _ in range(10)]
        for producer in producers:
            deliver(producer, topic)
        # one for data each; the shared ones are a bootstrap connection that ends, and control
        assert connections() - before <= 10 + 4
        assert all(len(each._client.context.pool.brokers()) == 1 for each in producers)


def test_the_token_is_refreshed_once_for_all_roles() -> None:
    tokens: list[str] = []

    def oauth_cb(config: str | None) -> tuple[str, float]:
        tokens.append(unsecured_jwt("alice", 600))
        return tokens[-1], time.time() + 600

    security = ListenerSecurity("sasl_plaintext", mechanisms=("OAUTHBEARER",))
    conf = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "OAUTHBEARER"}
    with (
        MockCluster(1, security=security) as cluster,
        made(cluster, oauth_cb=oauth_cb, **conf) as shared,
    ):
        cluster.create_topic("t", 1)
        for _ in range(3):
            deliver(shared.producer(), "t")
        assert read_values(member(shared, "t", "tokens"), 3) == [b""] * 3
    assert len(tokens) == 1


def read_values(consumer: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []

    def take() -> bool:
        for message in consumer.consume(count - len(found), 0.1):
            assert message.error() is None, message.error()
            found.append(message.value() or b"")
        return len(found) >= count

    wait_for(take, lambda: f"{count} messages, only {len(found)}")
    return found


def test_roles_share_the_tls_context() -> None:
    with (
        MockCluster(1, security=ListenerSecurity("ssl")) as cluster,
        made(cluster, **{"security.protocol": "ssl", "ssl.ca.pem": cluster.ca_pem}) as shared,
    ):
        cluster.create_topic("t", 1)
        producer = shared.producer()
        deliver(producer, "t", b"secret")
        assert read_values(member(shared, "t", "tls"), 1) == [b"secret"]
        assert producer._client._encryption is shared._client._encryption


def test_requests_have_the_client_id_of_the_client(cluster: MockCluster, client: Clients) -> None:
    topic = client.topic()
    cluster.clear_requests()
    with made(cluster, **{"client.id": "one-name"}) as shared:
        deliver(shared.producer(), topic)
        read_values(member(shared, topic, "names"), 1)
    names = {
        each.client_id
        for each in cluster.requests
        if each.api_key in (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.JOIN_GROUP)
    }
    assert names == {"one-name"}


def test_log_lines_of_roles_use_one_thread(cluster: MockCluster, topic: str) -> None:
    lines: list[tuple[str, str]] = []

    def log_cb(name: str, level: int, facility: str, text: str) -> None:
        lines.append((name, threading.current_thread().name))

    with made(cluster, log_cb=log_cb, debug="generic") as shared:
        first, second = shared.producer(), shared.producer()
        names = {first._client.name, second._client.name, shared._client.name}
        wait_for(lambda: {name for name, _ in lines} >= names, "a line of each")
        assert len({thread for _, thread in lines}) == 1


def test_the_log_queue_is_served_by_the_client(cluster: MockCluster) -> None:
    lines: list[str] = []

    def log_cb(name: str, level: int, facility: str, text: str) -> None:
        lines.append(name)

    with made(cluster, log_cb=log_cb, debug="generic", **{"log.queue": True}) as shared:
        role = shared.producer()
        assert lines == []
        poll_until(lambda: role._client.name in lines, shared)


# --- configuration ---


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bootstrap.servers", "other:9092"),
        ("metadata.broker.list", "other:9092"),
        ("security.protocol", "ssl"),
        ("sasl.username", "alice"),
        ("socket.timeout.ms", 1000),
        ("client.id", "own"),
        ("debug", "all"),
        ("oauth_cb", print),
    ],
)
def test_a_role_refuses_the_properties_of_the_client(
    shared: Client, name: str, value: object
) -> None:
    for make in (
        shared.producer,
        lambda conf: shared.consumer({"group.id": "g", **conf}),
        lambda conf: shared.share_consumer({"group.id": "g", **conf}),
    ):
        with pytest.raises(KafkaException) as caught:
            make({name: value})
        error = caught.value.args[0]
        assert error.code() == KafkaError._INVALID_ARG
        assert (
            error.str() == f"{name} belongs to the shared Client: set it there, for all its roles"
        )


def test_a_role_names_the_property_to_use_instead_of_an_unknown_one(shared: Client) -> None:
    with pytest.raises(KafkaException) as caught:
        shared.producer({"ssl.truststore.type": "JKS"})
    assert caught.value.args[0].str() == 'No such configuration property: "ssl.truststore.type"'
    assert caught.value.hint == "use ssl.ca.location, a file of PEM certificates"


@pytest.mark.parametrize("name", ["acks", "group.id", "linger.ms", "interceptors"])
def test_the_client_refuses_the_properties_of_roles(cluster: MockCluster, name: str) -> None:
    with pytest.raises(KafkaException, match=f"{name} belongs to a role"):
        made(cluster, **{name: "1"})


def test_unknown_properties_are_refused(shared: Client, cluster: MockCluster) -> None:
    with pytest.raises(KafkaException, match="No such configuration property"):
        shared.producer({"ackz": 1})
    with pytest.raises(KafkaException, match="No such configuration property"):
        made(cluster, ackz=1)


def test_a_role_may_override_a_default_of_the_client(cluster: MockCluster) -> None:
    with made(cluster, **{"retry.backoff.ms": 7, "statistics.interval.ms": 300}) as shared:
        plain, own = shared.producer(), shared.producer({"retry.backoff.ms": 9})
        assert plain._client.config["retry.backoff.ms"] == 7
        assert plain._client.config["statistics.interval.ms"] == 300
        assert own._client.config["retry.backoff.ms"] == 9


def test_a_role_may_have_several_data_connections(shared: Client, client: Clients) -> None:
    topic = client.topic(12)
    producer = shared.producer({"connections.per.broker": 2})
    for partition in range(12):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(WAIT_S) == 0
    assert len(producer._client.context.pool.brokers()) == 6  # two to each of three brokers
    assert len(read_values(member(shared, topic, "several"), 12)) == 12


def test_other_classes_are_no_roles(shared: Client) -> None:
    with pytest.raises(TypeError, match="AdminClient can't be a role of a Client"):
        shared.producer(of=AdminClient)
    with pytest.raises(TypeError, match="mapping"):
        shared.producer("acks=1")  # type: ignore[call-overload]


# --- callbacks and statistics ---


def test_callbacks_of_roles_are_their_own(cluster: MockCluster) -> None:
    seen: dict[str, list[Any]] = {"host": [], "role": []}
    conf = {"statistics.interval.ms": 50, "stats_cb": seen["host"].append}
    with made(cluster, **conf) as shared:
        role = shared.producer({"stats_cb": seen["role"].append})
        poll_until(lambda: seen["host"] and seen["role"], shared, role)
    assert all(shared._client.name in text for text in seen["host"])
    assert all(role._client.name in text for text in seen["role"])


def test_errors_of_shared_connections_reach_the_client_and_its_roles() -> None:
    seen: dict[str, list[KafkaError]] = {"host": [], "role": []}
    conf = {"bootstrap.servers": "127.0.0.1:1", "error_cb": seen["host"].append}
    with Client(conf) as shared:
        role = shared.producer({"error_cb": seen["role"].append})
        quiet = shared.producer()
        with pytest.raises(KafkaException):
            quiet.list_topics(timeout=0.2)
        for found, each in ((seen["host"], shared), (seen["role"], role)):
            poll_until(
                lambda found=found: KafkaError._ALL_BROKERS_DOWN in {e.code() for e in found},
                each,
            )


def test_statistics_of_the_client_and_of_a_role(shared: Client, topic: str) -> None:
    producer = shared.producer()
    deliver(producer, topic)
    own, host = producer.metrics(), shared.metrics()
    assert own.type == "producer"
    assert own.txmsgs == 1
    assert topic in own.topics
    assert host.txmsgs == 0
    assert {each.req["Produce"] for each in own.brokers.values()} == {1}
    assert sum(each.req["Metadata"] for each in host.brokers.values()) > 0


# --- ends ---


def test_closing_a_role_does_not_disturb_the_others(shared: Client, topic: str) -> None:
    first, second = shared.producer(), shared.producer()
    consumer = member(shared, topic, "undisturbed")
    deliver(first, topic, b"1")
    first.close()
    with pytest.raises(RuntimeError):
        first.produce(topic, b"")
    deliver(second, topic, b"2")
    assert read_values(consumer, 2) == [b"1", b"2"]
    consumer.close()
    deliver(second, topic, b"3")


def test_closing_the_client_closes_its_roles(cluster: MockCluster, client: Clients) -> None:
    topic, reports = client.topic(), []  # type: ignore[var-annotated]
    shared = made(cluster)
    producer = shared.producer({"linger.ms": 200_000})
    producer.produce(topic, b"x", on_delivery=errors_into(reports))
    consumer = member(shared, topic, "closed-with-the-client")
    consumer.poll(0)
    shared.close()
    assert reports == [None]  # close() of a producer delivers its messages
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)
    for call in (shared.producer, shared.admin, lambda: shared.poll(0), shared.metrics):
        with pytest.raises(RuntimeError, match="has been closed"):
            call()
    shared.close()
    assert "closed" in repr(shared)


def test_an_error_of_one_role_leaves_none_open(cluster: MockCluster, client: Clients) -> None:
    topic = client.topic()

    def fail(*args: Any) -> None:
        raise ValueError("in a callback")

    shared = made(cluster)
    consumer = shared.consumer({"group.id": "raises", **FAST})
    consumer.subscribe([topic], on_revoke=fail)
    poll_until(consumer.assignment, consumer)
    producer = shared.producer()
    with pytest.raises(ValueError, match="in a callback"):
        shared.close()
    assert consumer._client.closed
    assert producer._client.closed
    assert shared._client.closed


def test_roles_and_client_leave_no_threads_and_no_descriptors(
    cluster: MockCluster, client: Clients
) -> None:
    topic = client.topic()
    made(cluster).close()  # what is loaded once
    gc.collect()
    before = descriptors(), client_threads(), live_objects()["engines"]

    def use() -> None:
        with made(cluster) as shared:
            for number in range(3):
                deliver(shared.producer(), topic)
                member(shared, topic, f"leaks-{number}").poll(WAIT_S)

    use()

    def is_clean() -> bool:
        gc.collect()
        return client_threads() <= before[1] and live_objects()["engines"] <= before[2]

    wait_for(is_clean, lambda: f"{client_threads()}, {live_objects()}, before: {before}")
    # the mock cluster closes its side of the connections a little later
    wait_for(lambda: descriptors() <= before[0], "closed descriptors")


def test_a_dropped_role_ends_and_the_others_go_on(shared: Client, topic: str) -> None:
    other = shared.producer()
    role: Any = member(shared, topic, "dropped-role")
    role.poll(0)
    engines = live_objects()["engines"]
    reference, core = weakref.ref(role), weakref.ref(role._client)
    del role
    wait_for(lambda: gc.collect() >= 0 and reference() is None and core() is None, "its end")
    assert live_objects()["engines"] < engines
    assert len(shared._client.main._roles) == 1
    deliver(other, topic)


def test_the_end_of_the_only_role_leaves_the_connections_of_the_client(
    shared: Client, topic: str
) -> None:
    """The last events of a role, about its connections, aren't taken for the client's."""
    for number in range(5):
        with shared.producer() as producer:
            deliver(producer, topic)
        consumer: Any = member(shared, topic, f"only-{number}")
        assert consumer.poll(WAIT_S) is not None
        del consumer
    assert shared._client.main.pool.connections < 10


def test_a_dropped_client_stays_for_its_roles(cluster: MockCluster, topic: str) -> None:
    shared: Any = made(cluster)
    producer = shared.producer()
    core = weakref.ref(shared._client)
    del shared
    gc.collect()
    deliver(producer, topic)
    del producer
    wait_for(lambda: gc.collect() >= 0 and core() is None, "the end of the client")


def test_a_dropped_client_without_roles_ends(cluster: MockCluster) -> None:
    shared: Any = made(cluster)
    shared.producer().close()
    core = weakref.ref(shared._client)
    del shared
    wait_for(lambda: gc.collect() >= 0 and core() is None, "the end of the client")


def test_a_cycle_of_client_and_roles_is_collected(cluster: MockCluster, topic: str) -> None:
    class Owner:
        def called(self, *args: Any) -> None:
            raise AssertionError

    owner: Any = Owner()
    owner.client = made(cluster)
    owner.producer = owner.client.producer({"error_cb": owner.called})
    owner.consumer = member(owner.client, topic, "cycle", error_cb=owner.called)
    cores = [weakref.ref(each._client) for each in (owner.client, owner.producer, owner.consumer)]
    del owner
    wait_for(lambda: gc.collect() >= 0 and not any(each() for each in cores), "the end of all")


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_role_that_refers_to_itself_is_collected(shared: Client, topic: str, kind: str) -> None:
    class Owner:
        def called(self, *args: Any) -> None:
            raise AssertionError

    owner: Any = Owner()
    if kind == "producer":
        owner.role = shared.producer({"error_cb": owner.called, "on_delivery": owner.called})
        shared.producer().list_topics()
    else:
        owner.role = member(shared, topic, "own-cycle", error_cb=owner.called)
        owner.role.poll(0)
    core = weakref.ref(owner.role._client)
    del owner
    wait_for(lambda: gc.collect() >= 0 and core() is None, "the end of the role")
    deliver(shared.producer(), topic)


def test_a_role_whose_constructor_fails_leaves_nothing(shared: Client, topic: str) -> None:
    engines = live_objects()["engines"]

    class Broken(ProducerInterceptor):
        def on_send(self, record: Any) -> Any:
            return record

    with pytest.raises(KafkaException):
        shared.consumer({"group.id": "g", "partition.assignment.strategy": "nonsense"})
    with pytest.raises(TypeError):
        shared.producer({"acks": 1}, of=Failing)
    wait_for(lambda: gc.collect() >= 0 and live_objects()["engines"] <= engines, "no new engine")
    assert shared._client.main._roles == {}
    assert not shared._client._living
    deliver(shared.producer(), topic)


class Failing(Producer):
    """A producer whose constructor fails after the engine was made."""

    def _open(self, *args: Any) -> None:
        raise TypeError("no")


def test_metadata_that_come_during_a_constructor_are_not_lost(
    shared: Client, client: Clients
) -> None:
    """The role isn't known to its host before its control plane is complete."""
    first, second = client.topic(), client.topic()
    producer = shared.producer()
    deliver(producer, first)

    class Slow(Producer):
        def _open(self, *args: Any) -> None:
            main = shared._client.main
            client.cluster.clear_requests()
            main.run(lambda: main.metadata.refresh(time.monotonic()))
            client.cluster.wait_for_requests(ApiKey.METADATA, 1)
            super()._open(*args)

    role = shared.producer(of=Slow)
    deliver(role, second)
    deliver(producer, second)


def test_a_role_that_is_closed_before_it_has_joined_leaves_nothing(
    shared: Client, topic: str
) -> None:
    main, released = shared._client.main, threading.Event()
    main.post(lambda: released.wait(WAIT_S))
    role = shared.producer()
    closer = threading.Thread(target=role._client.close)
    closer.start()
    wait_for(lambda: role._client.main.stopping, "the beginning of its end")
    released.set()
    closer.join(WAIT_S)
    assert not closer.is_alive()
    assert main.metadata._roles == []
    assert main._roles == {}
    deliver(shared.producer(), topic)


def test_close_in_a_callback_of_the_control_thread(shared: Client, topic: str) -> None:
    role, other = shared.producer(), shared.producer()
    closed = threading.Event()

    def close(_: Any) -> None:
        role._client.close()
        closed.set()

    with AdminClient.of(other) as admin:
        admin.list_consumer_groups().add_done_callback(close)
        assert closed.wait(WAIT_S)
    wait_for(lambda: len(shared._client.main._roles) == 1, "the end of the role")
    deliver(other, topic)


def test_many_threads_make_and_close_roles(shared: Client, client: Clients) -> None:
    topic, errors = client.topic(), []  # type: ignore[var-annotated]

    def work() -> None:
        try:
            for _ in range(5):
                with shared.producer() as producer:
                    producer.produce(topic, b"x", on_delivery=errors_into(errors))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(WAIT_S)
    assert errors == [None] * 20
    assert shared._client.main._roles == {}


# --- failures of the cluster ---


def test_roles_follow_a_leader_that_moves(shared: Client, client: Clients) -> None:
    topic = client.topic()
    producer, consumer = shared.producer(), member(shared, topic, "moving")
    deliver(producer, topic, b"0")
    assert read(consumer, 1) == [0]
    leader = client.cluster.leader(topic, 0)
    client.cluster.move_leader(topic, 0, leader % 3 + 1)
    deliver(producer, topic, b"1")
    assert read(consumer, 1) == [1]


def test_roles_outlive_a_restart_of_the_cluster() -> None:
    with MockCluster(2) as cluster:
        cluster.create_topic("t", 2)
        with made(cluster) as shared:
            producer = shared.producer({"message.timeout.ms": int(WAIT_S * 1000)})
            consumer = member(shared, "t", "restart")
            deliver(producer, "t", b"0")
            assert read(consumer, 1) == [0]
            for broker in cluster.broker_ids:
                cluster.broker_down(broker)
            producer.produce("t", b"1")
            for broker in cluster.broker_ids:
                cluster.broker_up(broker)
            assert producer.flush(WAIT_S) == 0
            assert read(consumer, 1) == [1]


def test_a_role_type(shared: Client) -> None:
    with shared.consumer({"group.id": "g"}) as consumer:
        assert type(consumer) is Consumer
    with shared.share_consumer({"group.id": "g"}) as sharing:
        assert type(sharing) is ShareConsumer
    assert repr(shared).startswith("<Client rdkafka#client-")


# --- the process ---

PROGRAM = """
import os, signal, sys
from kafka_native import Client, TopicPartition
topic = sys.argv[2]
client = Client({"bootstrap.servers": sys.argv[1]})
producer = client.producer({"linger.ms": 0})
consumer = client.consumer({"group.id": f"process-{os.getpid()}", "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
producer.produce(topic, "x")
assert producer.flush(60) == 0
assert consumer.poll(60) is not None
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")
def test_a_forked_child_uses_neither_client_nor_roles(client: Clients, topic: str) -> None:
    program = PROGRAM + textwrap.dedent("""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            for call in (lambda: producer.produce(topic, "y"), lambda: consumer.poll(0),
                         client.producer, client.admin, lambda: client.poll(0)):
                try:
                    call()
                except RuntimeError as error:
                    assert "belongs to the parent" in str(error), error
                else:
                    raise AssertionError
            client.close()
            sys.exit(0)
        pid, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        producer.produce(topic, "z")
        assert producer.flush(60) == 0
        client.close()
        print("ended")
    """)
    done = run_program(program, client.bootstrap, topic, timeout_s=3 * WAIT_S)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "ended\n")


@pytest.mark.parametrize(
    "end", ["", "del client", "del producer, consumer", "client.close()", "sys.exit(0)"]
)
def test_a_program_ends_with_open_roles(client: Clients, topic: str, end: str) -> None:
    done = run_program(PROGRAM + end, client.bootstrap, topic, timeout_s=3 * WAIT_S)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_clients_end_at_exit_while_threads_make_roles(client: Clients, topic: str) -> None:
    program = PROGRAM + textwrap.dedent("""
        import threading
        made = threading.Event()
        def work():
            while True:
                role = client.producer()
                role.produce(topic, "x")
                made.set()
                role.close()
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        assert made.wait(60)
    """)
    done = run_program(program, client.bootstrap, topic, timeout_s=3 * WAIT_S)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "has not ended" not in done.stderr
