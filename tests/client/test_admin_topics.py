"""AdminClient: topics, destinations of requests, timeouts, bad input, ends of futures."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from kafka_native import Client as SharedClient
from kafka_native import KafkaError, KafkaException
from kafka_native.admin import AclBindingFilter, AdminClient, NewPartitions, NewTopic
from kafka_native.mock.faults import CLOSE_CONNECTION
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .admin_support import admin_of, cluster_and_admin, expect_error, expect_success
from .support import Client, check_refused

EVERY_ACL = AclBindingFilter("any", None, "any", None, None, "any", "any")


def test_topics_are_made_listed_grown_and_deleted(client: Client, admin: AdminClient) -> None:
    placed = NewTopic("placed", replica_assignment=[[2, 3]])
    made = admin.create_topics([NewTopic("made", 3, 2, config={"retention.ms": "5000"}), placed])
    assert [future.result(WAIT_S) for future in made.values()] == [None, None]
    found = admin.list_topics(timeout=WAIT_S)
    assert set(found.brokers) == {1, 2, 3}
    assert len(found.topics["made"].partitions) == 3
    assert len(found.topics["made"].partitions[0].replicas) == 2
    assert found.topics["placed"].partitions[0].replicas == [2, 3]
    assert client.cluster.topics["made"].configs["retention.ms"] == "5000"
    expect_success(admin.create_partitions([NewPartitions("made", 5)])["made"])
    assert len(admin.list_topics("made", timeout=WAIT_S).topics["made"].partitions) == 5
    gone = admin.delete_topics(["made", "placed"])
    assert [future.result(WAIT_S) for future in gone.values()] == [None, None]
    assert {"made", "placed"}.isdisjoint(admin.list_topics(timeout=WAIT_S).topics)


def test_forbidden_topic_deletion_is_an_error(client: Client, admin: AdminClient) -> None:
    """The broker has delete.topic.enable=false (KIP-322)."""
    there = client.topic()
    client.cluster.push_request_errors(ApiKey.DELETE_TOPICS, [KafkaError.TOPIC_DELETION_DISABLED])
    expect_error(admin.delete_topics([there])[there], KafkaError.TOPIC_DELETION_DISABLED)
    assert there in admin.list_topics(timeout=WAIT_S).topics


def test_an_error_concerns_only_its_topic(client: Client, admin: AdminClient) -> None:
    there = client.topic()
    made = admin.create_topics(
        [NewTopic(there), NewTopic("fine-1", 1), NewTopic("too-many", 1, 99)]
    )
    expect_error(made[there], KafkaError.TOPIC_ALREADY_EXISTS)
    expect_error(made["too-many"], KafkaError.INVALID_REPLICATION_FACTOR)
    expect_success(made["fine-1"])
    gone = admin.delete_topics(["fine-1", "never-was"])
    expect_success(gone["fine-1"])
    expect_error(gone["never-was"], KafkaError.UNKNOWN_TOPIC_OR_PART)
    expect_error(
        admin.create_partitions([NewPartitions(there, 1)])[there], KafkaError.INVALID_PARTITIONS
    )


def test_invalid_topics_fail_alone_without_a_request(client: Client, admin: AdminClient) -> None:
    made = admin.create_topics(
        [
            NewTopic("twice", 1),
            NewTopic("twice", 2),
            NewTopic("huge", 1, 2**20),
            NewTopic("value", 1, config={"retention.ms": 5}),  # type: ignore[dict-item]
            NewTopic("fine-2", 1),
        ]
    )
    for name in ("twice", "huge", "value"):
        expect_error(made[name], KafkaError._INVALID_ARG)
    expect_success(made["fine-2"])
    assert "twice" not in admin.list_topics(timeout=WAIT_S).topics


def test_validate_only_changes_nothing(client: Client, admin: AdminClient) -> None:
    there = client.topic()
    expect_success(admin.create_topics([NewTopic("tried", 1)], validate_only=True)["tried"])
    assert "tried" not in client.cluster.topics
    expect_success(admin.create_partitions([NewPartitions(there, 4)], validate_only=True)[there])
    assert len(client.cluster.topics[there].partitions) == 1


def test_changes_follow_the_controller(client: Client, admin: AdminClient) -> None:
    client.cluster.clear_requests()
    client.cluster.push_request_errors(ApiKey.CREATE_TOPICS, [KafkaError.NOT_CONTROLLER, 0])
    expect_success(admin.create_topics([NewTopic("after-all", 1)])["after-all"])
    seen = client.cluster.requests_of(ApiKey.CREATE_TOPICS)
    assert [each.broker for each in seen] == [client.cluster.controller_id()] * 2


def test_a_change_is_not_sent_again_after_a_disconnect(client: Client, admin: AdminClient) -> None:
    client.cluster.clear_requests()
    client.cluster.push_request_errors(ApiKey.CREATE_TOPICS, [CLOSE_CONNECTION], done=True)
    future = admin.create_topics([NewTopic("made-or-not", 1)])["made-or-not"]
    expect_error(future, KafkaError._TRANSPORT)
    assert len(client.cluster.requests_of(ApiKey.CREATE_TOPICS)) == 1
    assert "made-or-not" in admin.list_topics(timeout=WAIT_S).topics


def test_old_brokers_are_asked_in_their_versions() -> None:
    versions = {
        ApiKey.CREATE_TOPICS: 2,
        ApiKey.DELETE_TOPICS: 3,
        ApiKey.CREATE_PARTITIONS: 1,
        ApiKey.METADATA: 4,
    }
    with cluster_and_admin(max_versions=versions) as (_, admin):
        expect_success(admin.create_topics([NewTopic("old", 1, 1)])["old"])
        expect_success(admin.create_partitions([NewPartitions("old", 2)])["old"])
        assert len(admin.list_topics(timeout=WAIT_S).topics["old"].partitions) == 2
        expect_success(admin.delete_topics(["old"])["old"])


def test_an_unreachable_cluster_times_out() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but not listening
        conf = {
            "bootstrap.servers": f"127.0.0.1:{closed.getsockname()[1]}",
            "reconnect.backoff.ms": 20,
        }
        with AdminClient(conf) as admin:
            futures = [
                admin.create_topics([NewTopic("never", 1)], request_timeout=0.3)["never"],
                admin.describe_acls(EVERY_ACL, request_timeout=0.3),
                # changes that any broker accepts
                admin.create_delegation_token(request_timeout=0.3),
                admin.unregister_broker(1, request_timeout=0.3),
            ]
            for future in futures:
                expect_error(future, KafkaError._TIMED_OUT)


def test_a_change_that_was_not_sent_in_time_times_out() -> None:
    with cluster_and_admin(brokers=1) as (cluster, admin):
        expect_success(admin.create_topics([NewTopic("first", 1)])["first"])

        def throttle(reply: Any) -> None:
            reply.throttle_time_ms = 60_000

        cluster.edit_responses(ApiKey.CREATE_TOPICS, throttle)
        expect_success(admin.create_topics([NewTopic("throttled", 1)])["throttled"])
        cluster.clear_requests()
        future = admin.create_topics([NewTopic("later", 1)], request_timeout=0.3)["later"]
        expect_error(future, KafkaError._TIMED_OUT)
        future = admin.create_delegation_token(request_timeout=0.3)
        expect_error(future, KafkaError._TIMED_OUT)
        assert cluster.requests == []


def test_futures_complete_on_the_control_thread_and_cannot_be_cancelled(
    client: Client,
) -> None:
    client.cluster.delay_responses(None, 0.2, ApiKey.CREATE_TOPICS)
    try:
        with admin_of(client) as admin:
            admin.list_topics(timeout=WAIT_S)
            names = [f"parallel-{number}" for number in range(20)]
            before = threading.active_count()
            futures = [admin.create_topics([NewTopic(name, 1)])[name] for name in names]
            client.cluster.wait_for_requests(ApiKey.CREATE_TOPICS)
            # the mock cluster has one thread a connection
            assert threading.active_count() < before + len(names)
            threads: list[str] = []
            futures[-1].add_done_callback(
                lambda future: threads.append(threading.current_thread().name)
            )
            assert not futures[0].cancel()
            assert [future.result(WAIT_S) for future in futures] == [None] * 20
            admin.list_topics(
                timeout=WAIT_S
            )  # its result comes after the callback, on the same thread
            assert threads[0].startswith("kafka-native")
    finally:
        client.cluster.delay_responses(None, 0, ApiKey.CREATE_TOPICS)


def test_closing_or_dropping_the_client_fails_open_operations(client: Client) -> None:
    client.cluster.delay_responses(None, 3.0, ApiKey.METADATA)
    try:
        admin = admin_of(client)
        future = admin.create_topics([NewTopic("late", 1)])["late"]
        admin.close()
        expect_error(future, KafkaError._DESTROY)
        dropped = admin_of(client).create_topics([NewTopic("late", 1)])["late"]
        expect_error(dropped, KafkaError._DESTROY)
    finally:
        client.cluster.delay_responses(None, 0, ApiKey.METADATA)
    for call in (
        lambda: admin.create_topics([NewTopic("later", 1)]),
        admin.list_topics,
        lambda: admin.poll(0),
    ):
        with pytest.raises(RuntimeError, match="AdminClient has been closed"):
            call()
    admin.close()
    assert "closed" in repr(admin)


def test_invalid_arguments_are_refused(client: Client, admin: AdminClient) -> None:
    bad: Any
    for bad in (None, "topic", ["topic"], [None, NewTopic("x")], {}):
        with pytest.raises(TypeError):
            admin.create_topics(bad)
        with pytest.raises(TypeError):
            admin.create_partitions(bad)
    check_refused(admin.delete_topics, TypeError, None, "topic", [None], [NewTopic("x")])
    for call in (admin.create_topics, admin.delete_topics, admin.create_partitions):
        with pytest.raises(ValueError, match="non-empty list"):
            call([])
    for bad in (-7, float("-inf"), float("nan")):
        with pytest.raises(ValueError, match="request_timeout"):
            admin.delete_topics(["x"], request_timeout=bad)
        with pytest.raises(ValueError, match="operation_timeout"):
            admin.delete_topics(["x"], operation_timeout=bad)
    with pytest.raises(TypeError, match="request_timeout"):
        admin.delete_topics(["x"], request_timeout="1")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        AdminClient("x")  # type: ignore[arg-type]
    with pytest.raises(KafkaException, match="No such configuration property"):
        AdminClient({"bogus": 1})


def test_poll_runs_the_callbacks() -> None:
    errors: list[KafkaError] = []
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        server = f"127.0.0.1:{closed.getsockname()[1]}"
        with AdminClient({"bootstrap.servers": server, "error_cb": errors.append}) as admin:
            assert admin.poll(0) == 0
            admin.create_topics([NewTopic("never", 1)], request_timeout=5)
            assert admin.poll(WAIT_S) >= 1
            assert errors
            assert len(admin) == 0
            assert admin


@pytest.mark.parametrize("kind", [AdminClient, SharedClient])
def test_closing_ends_a_poll_in_another_thread(client: Client, kind: Any) -> None:
    owner = kind({"bootstrap.servers": client.bootstrap})
    served: list[int] = []
    threads = [threading.Thread(target=lambda: served.append(owner.poll())) for _ in range(2)]
    for thread in threads:
        thread.daemon = True
        thread.start()
    time.sleep(0.1)  # both wait now
    owner.close()
    for thread in threads:
        thread.join(WAIT_S)
    assert served == [0, 0]
    with pytest.raises(RuntimeError, match="closed"):
        owner.poll(0)
