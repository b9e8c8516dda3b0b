"""Groups of the consumer protocol (KIP-848) on the mock cluster, through the public API."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, KafkaException, TopicPartition
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, wait_for

from .groups import Reader, Workers, keys
from .support import Client, fill, filled

HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
EVERY_S = 0.2


@pytest.fixture(autouse=True)
def quick(cluster: MockCluster) -> Iterator[None]:
    """Shorten the heartbeat interval, and clear faults after each test."""
    cluster.set_heartbeat_interval(EVERY_S)
    yield
    cluster.faults.clear()


@pytest.fixture
def workers(client: Client) -> Any:
    with Workers(client, **{"group.protocol": "consumer"}) as made:
        yield made


# --- joining, sharing, leaving ---


def test_members_share_partitions_and_read_all_once(client: Client, workers: Workers) -> None:
    topic = filled(client, 50, 6)
    first = workers.join(topic)
    workers.settle(*keys(topic, 6))
    workers.join(topic)
    workers.join(topic)
    workers.settle(*keys(topic, 6))
    assert sorted(len(reader.owned) for reader in workers.readers) == [2, 2, 2]
    for partition in range(6):
        fill(client, topic, 50, partition=partition, start=50)
    workers.expect_read(topic, dict.fromkeys(range(6), 100))
    assert first.calls("lost") == []
    info = client.cluster.group(workers.group)
    assert (info.type, info.state, len(info.members)) == ("consumer", "Stable", 3)
    own_id = first.member_id
    workers.leave(first)
    workers.settle(*keys(topic, 6))
    fill(client, topic, 10, partition=0, start=100)
    workers.expect_read(topic, {0: 110, **dict.fromkeys(range(1, 6), 100)})
    assert own_id in {left.member_id for left in client.cluster.group(workers.group).left}


def test_offsets_are_committed_on_revocation_and_close(client: Client, workers: Workers) -> None:
    topic = client.topic(2)
    fill(client, topic, 30, partition=0)
    fill(client, topic, 40, partition=1)
    reader = workers.join(topic, **{"auto.commit.interval.ms": 3_600_000})
    workers.expect_read(topic, {0: 30, 1: 40})
    workers.leave(reader)
    offsets = client.cluster.group(workers.group).offsets
    assert {key: each.offset for key, each in offsets.items()} == {(topic, 0): 30, (topic, 1): 40}
    workers.join(topic)
    workers.settle(*keys(topic, 2))
    fill(client, topic, 5, partition=1)
    workers.expect_read(topic, {0: 30, 1: 45})


def test_revoked_partitions_only_are_revoked(client: Client, workers: Workers) -> None:
    topic, first = workers.start(4)
    workers.join(topic)
    workers.settle(*keys(topic, 4))
    assert first.consumer.rebalance_protocol() == "COOPERATIVE"
    [revoked] = first.calls("revoke")
    assert len(revoked) == 2
    assert first.calls("assign") == [keys(topic, 4)]


def test_a_slow_callback_delays_no_heartbeats(client: Client, workers: Workers) -> None:
    topic, first = workers.start(2)
    heartbeats: list[int] = []

    def slow(what: str, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if what == "revoke":
            before = len(client.cluster.requests_of(HEARTBEAT))
            wait_for(
                lambda: len(client.cluster.requests_of(HEARTBEAT)) > before + 10, "heartbeats go on"
            )
            heartbeats.append(len(second.owned))

    first.on_call = slow
    second = workers.join(topic)
    workers.settle(*keys(topic, 2))
    assert heartbeats == [0]  # no other member owned the partition before the callback ended
    assert first.calls("lost") == []


def test_unsubscribe_leaves_and_subscribe_rejoins(client: Client, workers: Workers) -> None:
    topic, reader = workers.start(2)
    own_id = reader.member_id
    reader.consumer.unsubscribe()
    workers.until(lambda: reader.owned == set(), "revoked")
    wait_for(lambda: client.cluster.group(workers.group).members == {}, "left")
    assert reader.consumer.assignment() == []
    reader.subscribe([topic])
    workers.settle(*keys(topic, 2))
    assert reader.member_id == own_id  # KIP-1082: a consumer keeps its member id


def test_another_subscription_keeps_common_topics(client: Client, workers: Workers) -> None:
    both, old, new = client.topic(2), client.topic(1), client.topic(1)
    reader = workers.join(both, old)
    workers.settle(*keys(both, 2), (old, 0))
    reader.subscribe([both, new])
    workers.settle(*keys(both, 2), (new, 0))
    assert reader.calls("revoke") == [[(old, 0)]]
    assert reader.calls("assign")[-1] == [(new, 0)]


def test_partitions_that_are_added_are_read(client: Client, workers: Workers) -> None:
    topic, _ = workers.start(1)
    client.cluster.create_partitions(topic, 3)
    workers.settle(*keys(topic, 3))


# --- topics and patterns ---


def test_a_pattern_finds_topics_that_are_created_later(client: Client, workers: Workers) -> None:
    prefix = f"pattern{workers.group}"
    client.cluster.create_topic(f"{prefix}-a", 2)
    client.cluster.create_topic(f"other-{prefix}", 1)
    workers.join(f"^{prefix}")
    workers.settle(*keys(f"{prefix}-a", 2))
    client.cluster.create_topic(f"{prefix}-b", 1)
    workers.settle(*keys(f"{prefix}-a", 2), (f"{prefix}-b", 0))
    fill(client, f"{prefix}-b", 10, partition=0)
    workers.expect_read(f"{prefix}-b", {0: 10})


def test_names_and_patterns_mixed(client: Client, workers: Workers) -> None:
    prefix, plain = f"mixed{workers.group}", client.topic(1)
    client.cluster.create_topic(f"{prefix}-a", 1)
    workers.join(plain, f"^{prefix}")
    workers.settle((plain, 0), (f"{prefix}-a", 0))


def test_a_topic_that_is_created_later_is_read(client: Client, workers: Workers) -> None:
    client.cluster.clear_requests()
    reader = workers.join("not-there-yet", **{"allow.auto.create.topics": False})
    workers.until(lambda: HEARTBEAT in {each.api_key for each in client.cluster.requests}, "joined")
    client.cluster.create_topic("not-there-yet", 1)
    workers.settle(("not-there-yet", 0))
    assert reader.calls("revoke") == []


def test_a_topic_that_metadata_hides_is_read_later(client: Client, workers: Workers) -> None:
    prefix = f"hidden{workers.group}"
    client.cluster.clear_requests()
    workers.join(f"^{prefix}")
    workers.until(lambda: HEARTBEAT in {each.api_key for each in client.cluster.requests}, "joined")
    client.cluster.create_topic(f"{prefix}-a", 1)
    client.cluster.hide_topic(f"{prefix}-a", 3)
    workers.settle((f"{prefix}-a", 0))


def test_a_recreated_topic_is_read_from_its_beginning(client: Client, workers: Workers) -> None:
    topic = filled(client, 5)
    reader = workers.join(topic)
    workers.expect_read(topic, {0: 5})
    client.cluster.delete_topic(topic)
    workers.until(lambda: not reader.owned, "revoked")
    client.cluster.create_topic(topic, 1)
    fill(client, topic, 3, partition=0)
    workers.until(
        lambda: reader.read[topic, 0, 0] == 2 and reader.read[topic, 0, 2] == 2, "the new messages"
    )


def test_an_invalid_expression_is_an_error_until_replaced(client: Client, workers: Workers) -> None:
    topic = client.topic(1)
    reader = workers.join("^(unclosed")
    workers.until(lambda: reader.errors, "an error")
    assert reader.errors[0].code() == KafkaError.INVALID_REGULAR_EXPRESSION
    reader.subscribe([topic])
    workers.settle((topic, 0))


# --- fencing, crashes, slow applications ---


@pytest.mark.parametrize("how", ["fence", "expel"])
def test_a_fenced_member_loses_all_and_rejoins(client: Client, workers: Workers, how: str) -> None:
    topic, reader = workers.start(2)
    own_id = reader.member_id
    verb = client.cluster.fence_member if how == "fence" else client.cluster.expel_member
    verb(workers.group, own_id)
    workers.until(lambda: reader.calls("lost"), "on_lost")
    assert reader.calls("lost") == [keys(topic, 2)]
    assert reader.calls("revoke") == []
    workers.settle(*keys(topic, 2))
    assert reader.member_id == own_id
    assert reader.errors == []


def test_lost_offsets_are_not_committed(client: Client, workers: Workers) -> None:
    topic = filled(client, 10)
    reader = workers.join(topic, **{"auto.commit.interval.ms": 3_600_000})
    workers.expect_read(topic, {0: 10})
    client.cluster.fence_member(workers.group, reader.member_id)
    workers.until(lambda: reader.calls("lost"), "on_lost")
    assert client.cluster.group(workers.group).offsets == {}
    workers.until(lambda: reader.read[topic, 0, 9] == 2, "read again")  # they were never committed


def test_a_member_that_does_not_poll_leaves_until_it_does(client: Client, workers: Workers) -> None:
    topic, slow = workers.start(2, **{"max.poll.interval.ms": 600})
    other = workers.join(topic)
    workers.settle(*keys(topic, 2))
    slow.polls = False
    workers.until(lambda: len(other.owned) == 2, "the other member owns everything")
    assert slow.calls("lost") == []
    slow.polls = True
    workers.until(lambda: slow.calls("lost"), "on_lost")
    workers.settle(*keys(topic, 2))
    assert KafkaError._MAX_POLL_EXCEEDED in [error.code() for error in slow.errors]


OWN_PROCESS = """
import threading
from kafka_native.mock import MockCluster
with MockCluster(brokers=1, group_heartbeat=0.3, group_session=2.0) as cluster:
    cluster.create_topic("t", 2)
    print(cluster.bootstrap_servers, flush=True)
    input()
    threading.Timer(1.0, cluster.rebalance_group, ["held"]).start()
    print("soon", flush=True)
    input()
"""


@pytest.mark.slow
def test_heartbeats_go_on_while_the_interpreter_lock_is_held_and_the_epoch_changes() -> None:
    # For two sessions the member cannot process the new epoch. Its old heartbeat must be enough.
    command = [sys.executable, "-c", OWN_PROCESS]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        servers = process.stdout.readline().strip()
        conf = {"group.id": "held", "group.protocol": "consumer"}
        with Workers(Client(MockAddress(servers)), **conf) as workers:  # type: ignore[arg-type]
            reader = workers.join("t")
            workers.settle(("t", 0), ("t", 1))
            print(file=process.stdin, flush=True)
            assert process.stdout.readline() == "soon\n"
            ctypes.PyDLL(None).sleep(4)  # a C call that keeps the interpreter lock
            until = time.monotonic() + 2.5
            workers.until(
                lambda: time.monotonic() > until,
                "an expelled member would have lost its partitions",
            )
            assert [what for what, _ in reader.log] == ["assign"]
            assert reader.errors == []
    finally:
        process.communicate("\n", timeout=WAIT_S)


class MockAddress:
    """The address of a mock cluster in another process."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers


# --- static members ---


def test_a_static_member_gets_its_partitions_back(client: Client, workers: Workers) -> None:
    topic = client.topic(4)
    one = workers.join(topic, **{"group.instance.id": "one"})
    workers.join(topic, **{"group.instance.id": "two"})
    workers.settle(*keys(topic, 4))
    mine, epoch = set(one.owned), client.cluster.group(workers.group).generation
    workers.leave(one)
    again = workers.join(topic, **{"group.instance.id": "one"})
    workers.settle(*keys(topic, 4))
    assert again.owned == mine
    # the other member had no rebalance
    assert client.cluster.group(workers.group).generation == epoch
    assert len(workers.readers[0].calls("revoke")) <= 1


def test_a_second_instance_is_refused_and_the_first_stays(client: Client, workers: Workers) -> None:
    topic, first = workers.start(1, **{"group.instance.id": "same"})
    with Workers(client, **workers.conf) as others:
        second = others.join(topic, **{"group.instance.id": "same"})
        others.until(lambda: second.errors, "an error")
        assert [error.code() for error in second.errors] == [KafkaError._FATAL]
    fill(client, topic, 3, partition=0)
    workers.expect_read(topic, {0: 3})
    assert first.errors == []


# --- coordinators ---


def test_a_moved_coordinator_causes_no_rebalance(client: Client, workers: Workers) -> None:
    _, reader = workers.start(2)
    calls = list(reader.log)
    for broker in (1, 2, 3, 1):
        client.cluster.move_coordinator(workers.group, broker)
        client.cluster.clear_requests()
        workers.until(
            lambda b=broker: len(client.cluster.requests_of(HEARTBEAT, b)) > 2,
            f"heartbeats to {broker}",
        )  # type: ignore[misc]
    client.cluster.move_coordinator(workers.group, None)
    assert reader.log == calls
    assert reader.errors == []
    assert list(client.cluster.group(workers.group).members) == [reader.member_id]


@pytest.mark.parametrize(
    "code", [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, -195]
)
def test_brief_heartbeat_errors_are_harmless(client: Client, workers: Workers, code: int) -> None:
    topic = client.topic(2)
    client.cluster.push_request_errors(HEARTBEAT, [code] * 2)
    reader = workers.join(topic)
    workers.settle(*keys(topic, 2))
    client.cluster.push_request_errors(HEARTBEAT, [code] * 3)
    client.cluster.clear_requests()
    workers.until(lambda: len(client.cluster.requests_of(HEARTBEAT)) > 6, "heartbeats go on")
    assert [what for what, _ in reader.log] == ["assign"]
    assert {error.code() for error in reader.errors} <= {KafkaError._TRANSPORT}


def test_a_lost_response_does_not_fence(client: Client, workers: Workers) -> None:
    topic, reader = workers.start(4)
    for _ in range(3):
        client.cluster.close_mid_frame(None, 3, HEARTBEAT)
        client.cluster.rebalance_group(workers.group)
        client.cluster.clear_requests()
        workers.until(lambda: len(client.cluster.requests_of(HEARTBEAT)) > 3, "heartbeats go on")
    assert reader.calls("lost") == []
    workers.settle(*keys(topic, 4))


def test_a_changed_heartbeat_interval_is_used(client: Client, workers: Workers) -> None:
    workers.start(1)
    client.cluster.set_heartbeat_interval(0.1, workers.group)
    workers.until(lambda: longest_pause(client) < 0.9, "the shorter interval is used")
    client.cluster.set_heartbeat_interval(1.0, workers.group)
    client.cluster.clear_requests()
    workers.until(lambda: longest_pause(client) >= 0.9, "the longer interval is used")


def longest_pause(client: Client) -> float:
    """Return the longest pause in seconds between the last three heartbeats."""
    times = [request.time for request in client.cluster.requests_of(HEARTBEAT)][-3:]
    return max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)


# --- errors ---


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_ASSIGNOR,
        KafkaError.INVALID_REQUEST,
    ],
)
def test_fatal_errors_are_fatal(client: Client, workers: Workers, code: int) -> None:
    _, reader = workers.start(1)
    # The answer to a replaced heartbeat is ignored: the coordinator repeats its content.
    client.cluster.push_request_errors(HEARTBEAT, [code] * 100)
    workers.until(lambda: reader.errors, "an error")
    assert reader.errors[0].code() == KafkaError._FATAL
    workers.until(lambda: not reader.owned, "nothing is owned")


def test_a_full_group_is_a_clear_error(client: Client, workers: Workers) -> None:
    topic = client.topic(2)
    client.cluster.set_group_max_size(1)
    try:
        workers.join(topic)
        workers.settle(*keys(topic, 2))
        with Workers(client, **workers.conf) as others:
            second = others.join(topic)
            others.until(lambda: second.errors, "an error")
            assert second.errors[0].code() == KafkaError._FATAL
    finally:
        client.cluster.set_group_max_size(None)


@pytest.mark.slow
def test_a_denied_topic_is_a_temporary_error(client: Client, workers: Workers) -> None:
    topic = client.topic(1)
    client.cluster.deny_topic(topic)
    reader = workers.join(topic)
    workers.until(lambda: reader.errors, "an error")
    assert KafkaError.TOPIC_AUTHORIZATION_FAILED in {error.code() for error in reader.errors}
    client.cluster.deny_topic(topic, False)
    workers.settle((topic, 0))


def test_an_old_broker_is_an_error_that_names_the_remedy(client: Client) -> None:
    with MockCluster(max_versions={HEARTBEAT: -1}) as old:
        old.create_topic("t", 1)
        with Workers(Client(old), **{"group.protocol": "consumer"}) as workers:
            reader = workers.join("t")
            workers.until(lambda: reader.errors, "an error")
            assert reader.errors[0].code() == KafkaError._FATAL
            assert "group.protocol=classic" in reader.errors[0].str()


@pytest.mark.parametrize(
    "name",
    [
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "partition.assignment.strategy",
        "group.protocol.type",
    ],
)
def test_classic_properties_are_refused(name: str) -> None:
    value: Any = {"partition.assignment.strategy": "range", "group.protocol.type": "consumer"}.get(
        name, 6000
    )
    conf = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "group.protocol": "consumer"}
    text = f"`{name}` is not supported for `group.protocol=consumer`"
    with pytest.raises(KafkaException, match=text):
        Consumer({**conf, name: value})


# --- from one protocol to the other ---


def test_live_migration_there_and_back(client: Client, workers: Workers) -> None:
    topic = client.topic(4)
    classic = {"group.protocol": "classic", "heartbeat.interval.ms": 200}
    classic |= {"partition.assignment.strategy": "cooperative-sticky"}
    sent: Counter[int] = Counter()

    def more() -> None:
        for partition in range(4):
            fill(client, topic, 10, partition=partition)
            sent[partition] += 10
        workers.expect_read(topic, dict(sent))

    old: list[Reader] = [workers.join(topic, **classic), workers.join(topic, **classic)]
    workers.settle(*keys(topic, 4))
    assert client.cluster.group(workers.group).type == "classic"
    more()
    new = [workers.join(topic)]
    workers.settle(*keys(topic, 4))
    assert client.cluster.group(workers.group).type == "consumer"
    more()
    for reader in old:
        new.append(workers.join(topic))
        workers.leave(reader)
        workers.settle(*keys(topic, 4))
        more()
    back = workers.join(topic, **classic)
    workers.settle(*keys(topic, 4))
    for reader in new:
        workers.leave(reader)
    workers.settle(*keys(topic, 4))
    assert client.cluster.group(workers.group).type == "classic"
    more()
    assert len(back.owned) == 4


# --- the end ---


def test_close_leaves_and_never_hangs(client: Client, workers: Workers) -> None:
    topic, reader = workers.start(1)
    workers.leave(reader)
    assert reader.calls("revoke") == [[(topic, 0)]]
    assert client.cluster.group(workers.group).members == {}


def test_close_ends_without_a_coordinator(client: Client, workers: Workers) -> None:
    _, reader = workers.start(1)
    client.cluster.move_coordinator(workers.group, -1)
    try:
        closer = threading.Thread(target=lambda: workers.leave(reader))
        closer.start()
        closer.join(WAIT_S)
        assert not closer.is_alive()
    finally:
        client.cluster.move_coordinator(workers.group, None)
