"""statistics.interval.ms, stats_cb and metrics(): the document's form and its figures."""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, Producer, TopicPartition
from kafka_native.admin import AdminClient
from kafka_native.config import Config
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from kafka_native.statistics import ClientMetrics, ConsumerMetrics, Window, to_json
from tests.oracle.statistics import check_level
from tests.waiting import WAIT_S, poll_until, wait_for

from .support import Client, assigned, deliver, fill

OFTEN_MS = 10
WINDOWS = ("int_latency", "outbuf_latency", "rtt", "throttle")


class Documents(list[dict[str, Any]]):
    """A ``stats_cb`` that keeps its documents."""

    @property
    def conf(self) -> dict[str, Any]:
        """Return the configuration of a client that calls it often."""
        return {"statistics.interval.ms": OFTEN_MS, "stats_cb": self}

    def __call__(self, text: str) -> None:
        assert isinstance(text, str)
        self.append(json.loads(text))

    def total(self, *path: str, of: str = "cnt") -> int:
        """Return a window's sum over all documents. A ``*`` stands for each name of its level."""
        return sum(window[of] for document in self for window in _at(document, path))


def _at(level: Any, path: tuple[str, ...]) -> list[Any]:
    if not path:
        return [level]
    if path[0] not in level and path[0] != "*":
        return []  # a document from before it was there
    inner = level.values() if path[0] == "*" else [level[path[0]]]
    return [found for each in inner for found in _at(each, path[1:])]


def next_document(client: Any, documents: Documents) -> dict[str, Any]:
    """Return a document that was begun after this call."""
    now = time.monotonic_ns() // 1000
    poll_until(lambda: documents and documents[-1]["ts"] > now, client)
    return documents[-1]


@pytest.fixture
def documents() -> Documents:
    return Documents()


@pytest.fixture
def produced(client: Client, documents: Documents) -> Any:
    """Yield a producer that delivered 300 messages of 103 bytes, and its statistics since."""
    topic = client.topic(3)
    conf = {**documents.conf, "client.id": "statistician"}
    with client.producer(**conf, **{"enable.idempotence": True}) as producer:
        for number in range(300):
            producer.produce(topic, b"v" * 100, f"{number:03}", partition=number % 3)
        assert producer.flush(WAIT_S) == 0
        next_document(producer, documents)
        yield producer, topic, documents


# --- the form ---


def test_producers_document_has_librdkafkas_fields(produced: Any) -> None:
    _, topic, documents = produced
    for document in documents:
        check_level("client", document)
    last = documents[-1]
    assert last["type"] == "producer"
    assert last["client_id"] == "statistician"
    assert last["name"].startswith("statistician#producer-")
    assert "eos" in last
    assert "cgrp" not in last
    assert "fatal" not in last
    assert set(last["topics"]) == {topic}
    assert set(last["topics"][topic]["partitions"]) == {"0", "1", "2", "-1"}
    assert all(key == broker["name"] for key, broker in last["brokers"].items())


def test_group_consumers_document_has_librdkafkas_fields(
    client: Client, documents: Documents
) -> None:
    topic = client.topic(2)
    fill(client, topic, 50)
    conf = {"group.id": f"of-{topic}", "auto.offset.reset": "earliest"}
    with client.consumer(**conf, **documents.conf) as consumer:
        consumer.subscribe([topic])
        assert len(consumer.consume(50, WAIT_S)) == 50
        consumer.commit(asynchronous=False)
        document = next_document(consumer, documents)
    for each in documents:
        check_level("client", each)
    assert document["type"] == "consumer"
    group = document["cgrp"]
    assert (group["state"], group["join_state"], group["assignment_size"]) == ("up", "steady", 2)
    assert group["rebalance_cnt"] == 1
    assert "GroupCoordinator" in document["brokers"]
    assert document["brokers"]["GroupCoordinator"]["req"]["JoinGroup"] >= 1
    assert document["brokers"]["GroupCoordinator"]["req"]["OffsetCommit"] >= 1


def test_a_fatal_error_is_in_the_document(client: Client, documents: Documents) -> None:
    with client.producer(**documents.conf) as producer:
        producer._client.on_fatal(
            KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, "no way on", fatal=True)
        )
        document = next_document(producer, documents)
    check_level("client", document)
    assert document["fatal"] == {
        "error": "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "reason": "no way on",
        "cnt": 1,
    }


# --- the figures ---


def test_producers_figures_match_the_produced_messages(produced: Any, cluster: MockCluster) -> None:
    _, topic, documents = produced
    last = documents[-1]
    partitions = last["topics"][topic]["partitions"]
    for number in range(3):
        partition = partitions[str(number)]
        assert (partition["txmsgs"], partition["msgs"], partition["acked_msgid"]) == (100, 100, 100)
        assert partition["txbytes"] == 100 * 103
        assert partition["next_ack_seq"] == 100
        assert partition["leader"] == partition["broker"] == cluster.leader(topic, number)
        assert (
            partition["msgq_cnt"] == partition["xmit_msgq_cnt"] == partition["msgs_inflight"] == 0
        )
        assert not partition["unknown"]
        [of_broker] = [
            each for each in last["brokers"].values() if each["nodeid"] == partition["leader"]
        ]
        assert of_broker["toppars"][f"{topic}-{number}"] == {"topic": topic, "partition": number}
        assert of_broker["state"] == "UP"
        assert of_broker["nodename"] == cluster.address(partition["leader"])
    assert (last["txmsgs"], last["txmsg_bytes"]) == (300, 300 * 103)
    assert (last["msg_cnt"], last["msg_size"]) == (0, 0)
    assert last["eos"]["idemp_state"] == "Assigned"
    assert last["eos"]["producer_id"] >= 0
    assert last["eos"]["epoch_cnt"] == 1


def test_windows_count_each_message_and_request_once(produced: Any) -> None:
    _, topic, documents = produced
    last = documents[-1]
    sent = sum(broker["req"]["Produce"] for broker in last["brokers"].values())
    assert documents.total("brokers", "*", "int_latency") == 300
    assert documents.total("topics", topic, "batchcnt", of="sum") == 300
    batches = documents.total("topics", topic, "batchcnt")
    assert batches == documents.total("topics", topic, "batchsize")
    assert 3 <= batches <= 300
    assert 0 < sent <= batches
    assert documents.total("topics", topic, "batchsize", of="sum") > 300 * 103
    for name, broker in last["brokers"].items():
        assert documents.total("brokers", "*", "throttle") == 0
        written = sum(
            each["brokers"][name]["outbuf_latency"]["cnt"]
            for each in documents
            if name in each["brokers"]
        )
        assert written == broker["tx"] == sum(broker["req"].values())
        answered = sum(
            each["brokers"][name]["rtt"]["cnt"] for each in documents if name in each["brokers"]
        )
        assert answered == broker["rx"]


def test_counters_and_times_only_rise(produced: Any) -> None:
    producer, topic, documents = produced
    for _ in range(3):
        producer.produce(topic, b"more")
        producer.flush(WAIT_S)
        next_document(producer, documents)
    for before, after in itertools.pairwise(documents):
        for name in [
            "ts",
            "age",
            "time",
            "tx",
            "tx_bytes",
            "rx",
            "rx_bytes",
            "txmsgs",
            "txmsg_bytes",
        ]:
            assert after[name] >= before[name], name
        assert after["ts"] > before["ts"]
        for name, broker in before["brokers"].items():
            for counter in ("tx", "txbytes", "rx", "rxbytes", "wakeups", "connects", "disconnects"):
                assert after["brokers"][name][counter] >= broker[counter]
    assert documents[-1]["txmsgs"] == 303


def test_consumers_figures_match_the_consumed_messages(
    client: Client, topic: str, documents: Documents
) -> None:
    fill(client, topic, 40, partition=0)
    conf = {
        "group.id": f"of-{topic}",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
    }
    with client.consumer(**conf, **documents.conf) as consumer:
        consumer.assign([TopicPartition(topic, 0, 10)])
        messages = consumer.consume(20, WAIT_S)
        assert [message.offset() for message in messages] == list(range(10, 30))
        consumer.store_offsets(messages[14])
        consumer.commit(messages[9], asynchronous=False)
        consumer.pause([TopicPartition(topic, 0)])
        document = next_document(consumer, documents)
        check_level("client", document)
        partition = document["topics"][topic]["partitions"]["0"]
        assert partition["app_offset"] == 30
        assert partition["stored_offset"] == 25
        assert partition["committed_offset"] == partition["commited_offset"] == 20
        assert partition["lo_offset"] == 0
        assert partition["hi_offset"] == partition["ls_offset"] == 40
        assert (partition["consumer_lag"], partition["consumer_lag_stored"]) == (20, 15)
        assert partition["consumer_lead"] == document["consumer"]["lead_min"] == 30
        assert document["consumer"]["lag_max"] == 10
        assert (partition["rxmsgs"], partition["msgs"]) == (30, 30)  # from offset 10 on
        assert partition["rxbytes"] > 0
        assert partition["eof_offset"] == 40
        assert partition["desired"]
        assert partition["fetch_state"] == "stopped"
        consumer.resume([TopicPartition(topic, 0)])
        assert len(consumer.consume(10, WAIT_S)) == 10
        document = next_document(consumer, documents)
        after = document["topics"][topic]["partitions"]["0"]
        assert after["fetch_state"] == "active"
        # the last ten came twice: pause() drops fetched messages
        assert document["rxmsgs"] == after["rxmsgs"] == 40
        assert document["rxmsg_bytes"] == after["rxbytes"] > partition["rxbytes"]
        assert document["msg_max"] == 0


def test_lead_is_the_distance_from_the_logs_start(cluster: MockCluster, client: Client) -> None:
    topic = client.topic(2)
    fill(client, topic, 20, partition=0)
    fill(client, topic, 20, partition=1)
    with AdminClient({"bootstrap.servers": client.bootstrap}) as admin:
        [deleted] = admin.delete_records([TopicPartition(topic, 1, 15)]).values()
        deleted.result(WAIT_S)
    with client.consumer() as consumer:
        assert consumer.metrics().consumer is not None
        assert consumer.metrics().consumer.lead_min == -1
        consumer.assign([TopicPartition(topic, 0, 12), TopicPartition(topic, 1, 18)])
        assert len(consumer.consume(10, WAIT_S)) == 10
        metrics = consumer.metrics()
        partitions = metrics.topics[topic].partitions
        assert [partitions[number].consumer_lead for number in (0, 1, -1)] == [20, 5, -1]
        assert metrics.consumer is not None
        assert (metrics.consumer.lead_min, metrics.consumer.lag_max) == (5, 0)


def polls_of(consumer: Consumer) -> ConsumerMetrics:
    found = consumer.metrics().consumer
    assert found is not None
    return found


def test_times_between_polls(client: Client, topic: str) -> None:
    fill(client, topic, 100, partition=0)
    with client.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        before = polls_of(consumer)
        assert before.time_between_poll_avg == before.time_between_poll_max == -1
        assert before.last_poll_seconds_ago == -1
        began = time.monotonic()
        messages = []
        while len(messages) < 100:
            message = consumer.poll(WAIT_S)
            assert message is not None
            messages.append(message)
        consumer.poll(0)
        elapsed_us = (time.monotonic() - began) * 1e6
        found = polls_of(consumer)
        # a hundred polls share the time
        assert 0 <= found.time_between_poll_avg <= elapsed_us / 100
        assert found.time_between_poll_avg <= found.time_between_poll_max <= elapsed_us
        assert found.last_poll_seconds_ago >= 0
        consumer.poll(0)
        time.sleep(0.03)
        consumer.consume(1, 0)
        found = polls_of(consumer)
        assert found.time_between_poll_max >= 30_000
        assert found.time_between_poll_avg >= 15_000  # of two
        after = polls_of(consumer)  # a new window
        assert after.time_between_poll_avg == after.time_between_poll_max == -1
        assert after.poll_idle_ratio_avg == 0.0
        consumer.poll(0.03)
        assert 0 < polls_of(consumer).poll_idle_ratio_avg <= 1


def test_only_consumers_have_polls(produced: Any, client: Client) -> None:
    producer, _, documents = produced
    assert producer.metrics().consumer is None
    assert "consumer" not in documents[-1]


def test_returns_from_callbacks_are_no_polls(client: Client) -> None:
    # they count for max.poll.interval.ms
    topic = client.topic(1)
    fill(client, topic, 10, partition=0)
    with client.consumer() as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        count = 0
        while count < 10:
            count += consumer.consume_callback(lambda message: None, timeout=WAIT_S)
        consumer.poll(0)
        called_us, _, calls, _ = consumer._poll_times(False)
        polls, _, _ = consumer._poll_counts()
        assert called_us > 0
        assert calls <= 10 < polls  # no more calls than those above


def test_queued_messages_are_counted(client: Client, topic: str) -> None:
    with client.producer(**{"linger.ms": 100_000}) as producer:
        producer.list_topics(topic, WAIT_S)
        for _ in range(7):
            producer.produce(topic, b"12345678", b"12", partition=0)
        wait_for(lambda: 0 in producer.metrics().topics[topic].partitions)  # partitions are known
        metrics = producer.metrics()
        partition = metrics.topics[topic].partitions[0]
        assert (partition.msgq_cnt, partition.msgq_bytes) == (7, 70)
        assert (partition.msgs, partition.txmsgs) == (7, 0)
        assert (metrics.msg_cnt, metrics.msg_size) == (7, 70)
        assert producer.flush(WAIT_S) == 0
        partition = producer.metrics().topics[topic].partitions[0]
        assert (partition.msgq_cnt, partition.msgs) == (0, 7)
        assert (partition.txmsgs, partition.txbytes) == (7, 70)


def test_messages_of_an_unknown_topic_belong_to_no_partition() -> None:
    with (
        MockCluster(brokers=1, auto_create_topics=False) as cluster,
        Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer,
    ):
        producer.produce("not-there", b"12345")
        partitions = producer.metrics().topics["not-there"].partitions
        assert set(partitions) == {-1}
        unassigned = partitions[-1]
        assert (unassigned.msgq_cnt, unassigned.msgq_bytes, unassigned.msgs) == (1, 5, 1)
        producer.purge()


def test_throttling_is_in_its_window(
    client: Client, topic: str, cluster: MockCluster, documents: Documents
) -> None:
    leader = cluster.leader(topic, 0)
    with client.producer(**documents.conf) as producer:
        deliver(producer, topic, b"x", partition=0)
        cluster.throttle_responses(leader, 30)
        deliver(producer, topic, b"x", partition=0)
        poll_until(lambda: documents.total("brokers", "*", "throttle") > 0, producer)
        assert documents.total("brokers", "*", "throttle", of="sum") == 30


def test_failures_are_counted() -> None:
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 1)
        conf = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "reconnect.backoff.ms": 10,
            "socket.timeout.ms": 60_000,
        }
        with Producer(conf) as producer:
            deliver(producer, "t", b"x")

            def node() -> Any:
                [found] = [each for each in producer.metrics().brokers.values() if each.nodeid == 1]
                return found

            before = node()
            cluster.push_request_errors(ApiKey.PRODUCE, [KafkaError.NOT_ENOUGH_REPLICAS])
            deliver(producer, "t", b"x")
            assert node().txretries == before.txretries + 1
            cluster.disconnect(1)
            wait_for(lambda: node().disconnects > before.disconnects)
            deliver(producer, "t", b"x")
            after = node()
            assert after.connects > before.connects
            assert (after.state, after.rxcorriderrs, after.req_timeouts) == ("UP", 0, 0)
            cluster.mix_up_responses(1, ApiKey.PRODUCE)
            deliver(producer, "t", b"x")
            assert node().rxcorriderrs == 1
            assert node().rxerrs >= 1
            assert producer.metrics().txmsgs == 4


# --- stats_cb ---


def test_poll_raises_the_exception_of_stats_cb(client: Client) -> None:
    calls = []

    def fail(text: str) -> None:
        calls.append(text)
        if len(calls) <= 2:  # close() makes callbacks too
            raise ValueError("from stats_cb")

    with client.producer(**{"statistics.interval.ms": OFTEN_MS, "stats_cb": fail}) as producer:
        for _ in range(2):
            with pytest.raises(ValueError, match="from stats_cb"):
                poll_until(lambda: False, producer)
        assert len(calls) == 2


def test_consume_and_flush_call_back_too(client: Client, topic: str, documents: Documents) -> None:
    with client.consumer(**{"group.id": "g", **documents.conf}) as consumer:
        deadline = time.monotonic() + WAIT_S
        while not documents and time.monotonic() < deadline:
            consumer.consume(1, 0.05)
        assert documents
    del documents[:]
    with client.producer(**{**documents.conf, "linger.ms": 50}) as producer:
        deadline = time.monotonic() + WAIT_S
        while not documents and time.monotonic() < deadline:
            producer.produce(topic, b"x")
            producer.flush(1)
        assert documents


def test_an_admin_clients_statistics(client: Client, documents: Documents) -> None:
    conf = {"bootstrap.servers": client.bootstrap, **documents.conf}
    with AdminClient(conf) as admin:
        admin.list_topics(timeout=WAIT_S)
        document = next_document(admin, documents)
        check_level("client", document)
        assert document["type"] == "producer"
        assert sum(broker["req"]["Metadata"] for broker in document["brokers"].values()) >= 1
        assert admin.metrics().tx >= 2
    with pytest.raises(RuntimeError, match="closed"):
        admin.metrics()


def test_without_an_interval_there_are_no_documents(client: Client, documents: Documents) -> None:
    topic = client.topic(1)
    with client.producer(stats_cb=documents) as producer:
        deliver(producer, topic, b"x")
        assert producer._client.statistics.poll(time.monotonic() + 1e9)[1] == float("inf")
        assert not producer._client.engine.callbacks
    assert documents == []


def test_documents_of_a_client_that_does_not_poll_do_not_accumulate(
    client: Client, topic: str, documents: Documents
) -> None:
    with client.producer(**{"statistics.interval.ms": 1, "stats_cb": documents}) as producer:
        for number in range(5):
            producer.produce(topic, b"x")
            wait_for(lambda number=number: producer.metrics().txmsgs == number + 1)
        wait_for(lambda: producer._client.engine.callbacks)
        assert len(producer._client.engine.callbacks) == 1
        # the next document has the other messages
        poll_until(lambda: documents.total("brokers", "*", "int_latency") == 5, producer)


def test_closing_while_statistics_run_ends_them(client: Client) -> None:
    topic = client.topic(2)
    for _ in range(10):
        documents = Documents()
        producer = client.producer(**{"statistics.interval.ms": 1, "stats_cb": documents})
        producer.produce(topic, b"x")
        producer.close(WAIT_S)
        count = len(documents)
        with pytest.raises(RuntimeError, match="closed"):
            producer.metrics()
        consumer = assigned(
            client,
            topic,
            **{"statistics.interval.ms": 1, "stats_cb": documents, "group.id": f"of-{topic}"},
        )
        consumer.close()
        assert len(documents) >= count


def test_no_secret_is_in_a_document(client: Client, documents: Documents) -> None:
    conf = {"client.rack": "hidden", **documents.conf}
    with client.producer(**conf) as producer:
        next_document(producer, documents)
        assert "hidden" not in json.dumps(documents)
        assert "hidden" not in repr(producer.metrics())
        # The code that makes documents has no access to the configuration.
        assert not any(
            isinstance(each, Config) for each in vars(producer._client.statistics).values()
        )


# --- metrics() ---


def test_metrics_are_the_document_typed(produced: Any) -> None:
    producer, topic, _ = produced
    metrics = producer.metrics()
    assert isinstance(metrics, ClientMetrics)
    check_level("client", json.loads(to_json(metrics)))
    assert metrics.txmsgs == 300
    assert metrics.topics[topic].partitions[1].txmsgs == 100
    with pytest.raises(dataclasses.FrozenInstanceError):
        metrics.txmsgs = 0


def test_metrics_without_an_interval_have_no_windows(client: Client, topic: str) -> None:
    fill(client, topic, 10)
    with assigned(client, topic, **{"group.id": f"of-{topic}"}) as consumer:
        assert len(consumer.consume(10, WAIT_S)) == 10
        metrics = consumer.metrics()
        assert metrics.rxmsgs == 10
        assert metrics.topics[topic].partitions[0].app_offset == 10
        assert metrics.eos is None
        assert metrics.cgrp is not None
        for broker in metrics.brokers.values():
            assert [getattr(broker, name) for name in WINDOWS] == [Window()] * 4
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.metrics()


def test_each_metrics_call_begins_a_window_if_there_are_no_documents(client: Client) -> None:
    topic = client.topic(1)
    with client.producer(**{"statistics.interval.ms": 3_600_000}) as producer:
        deliver(producer, topic, b"x")
        assert producer.metrics().topics[topic].batchcnt.cnt == 1
        assert producer.metrics().topics[topic].batchcnt.cnt == 0
        for _ in range(3):
            producer.produce(topic, b"x", partition=0)
        assert producer.flush(WAIT_S) == 0
        batchcnt = producer.metrics().topics[topic].batchcnt
        assert batchcnt.sum == 3
        assert 1 <= batchcnt.min <= batchcnt.p50 <= batchcnt.max <= 3


def test_metrics_do_not_take_windows_from_documents(client: Client, documents: Documents) -> None:
    topic = client.topic(1)
    with client.producer(**documents.conf) as producer:
        for _ in range(5):
            deliver(producer, topic, b"x")
            producer.metrics()
        next_document(producer, documents)
    assert documents.total("topics", topic, "batchcnt") == 5


def test_callbacks_may_call_metrics(client: Client, topic: str) -> None:
    seen: list[int] = []

    def in_report(error: Any, message: Any) -> None:
        seen.append(producer.metrics().txmsgs)

    with client.producer(
        **{"statistics.interval.ms": OFTEN_MS, "stats_cb": lambda text: seen.append(-1)}
    ) as producer:
        producer.produce(topic, b"x", on_delivery=in_report)
        poll_until(lambda: 1 in seen and -1 in seen, producer)
        # in the control thread
        future = producer._client.main.begin_run(producer.metrics)
        assert future.result(WAIT_S).txmsgs == 1


def test_metrics_of_an_uninitialized_subclass_raise() -> None:
    class Unfinished(Consumer):
        def __init__(self) -> None:
            pass

    with pytest.raises(RuntimeError, match="not initialised"):
        Unfinished().metrics()
