"""AdminClient: descriptions of transactions and producers, and aborts of hanging ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, Producer, TopicPartition
from kafka_native.admin import (
    AbortTransactionSpec,
    AdminClient,
    HangingTransaction,
    TransactionListing,
    TransactionState,
)
from kafka_native.errors import ErrorCode
from kafka_native.mock import MockCluster
from kafka_native.mock.faults import CLOSE_CONNECTION
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S

from .admin_support import admin_of, code_of, expect_error, expect_success, invalid_calls, result_of
from .support import Client, fill, read_all

LONG_AGO_MS = 1_000_000


@contextmanager
def transaction(
    client: Client, name: str, *partitions: TopicPartition, timestamp: int = 0
) -> Iterator[Producer]:
    """Yield a producer with an open transaction and a message in each of these partitions."""
    with client.producer(**{"transactional.id": name}) as producer:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for each in partitions:
            producer.produce(each.topic, b"x", partition=each.partition, timestamp=timestamp)
        assert producer.flush(WAIT_S) == 0
        yield producer


def test_transactions_are_listed_by_each_filter(client: Client, admin: AdminClient) -> None:
    place = TopicPartition(client.topic(), 0)
    with transaction(client, "list-open", place):
        with transaction(client, "list-done", place) as other:
            other.commit_transaction(WAIT_S)
        found = result_of(admin.list_transactions())
        assert found.errors == []
        by_id = {
            each.transactional_id: each
            for each in found.valid
            if each.transactional_id.startswith("list-")
        }
        assert by_id.keys() == {"list-open", "list-done"}
        assert by_id["list-open"].state is TransactionState.ONGOING
        assert by_id["list-done"].state is TransactionState.COMPLETE_COMMIT
        producer_id = by_id["list-open"].producer_id

        def ids(**filters: Any) -> set[str]:
            listed = result_of(admin.list_transactions(**filters))
            assert listed.errors == []
            return {each.transactional_id for each in listed.valid}

        is_open = {TransactionState.ONGOING}
        assert ids(states=is_open, transactional_id_pattern="list-.*") == {"list-open"}
        others = {TransactionState.COMPLETE_COMMIT, TransactionState.EMPTY}
        assert ids(states=others) >= {"list-done"}
        assert ids(producer_ids={producer_id}) == {"list-open"}
        assert ids(producer_ids={producer_id + 1_000_000}) == set()
        assert ids(transactional_id_pattern="list-d.*") == {"list-done"}
        assert ids(transactional_id_pattern="list") == set(), "the pattern must match the whole id"
        assert "list-open" not in ids(duration_ms=3_600_000)
        requests = client.cluster.requests_of(ApiKey.LIST_TRANSACTIONS)
        assert len(requests) % 3 == 0, "every broker gets a request"


def test_a_refusing_broker_is_among_the_errors(
    client: Client,
    admin: AdminClient,
) -> None:
    client.cluster.push_request_errors(
        ApiKey.LIST_TRANSACTIONS, [KafkaError.CLUSTER_AUTHORIZATION_FAILED], 2
    )
    found = result_of(admin.list_transactions())
    [error] = found.errors
    assert error.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED

    def unknown(response: Any) -> None:
        response.unknown_state_filters = ["Dead"]

    client.cluster.edit_responses(ApiKey.LIST_TRANSACTIONS, unknown)
    try:
        found = result_of(admin.list_transactions(states={TransactionState.DEAD}))
    finally:
        client.cluster.edit_responses(ApiKey.LIST_TRANSACTIONS, None)
    (error, *_) = found.errors
    assert error.args[0].code() == KafkaError._UNSUPPORTED_FEATURE
    assert "Dead" in error.args[0].str()


def test_a_state_of_a_newer_broker_is_unknown() -> None:
    assert TransactionState("Undecided") is TransactionState.UNKNOWN


def test_transactions_are_described_by_coordinators(client: Client, admin: AdminClient) -> None:
    topic = client.topic(3)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 2)]
    names = [f"describe-{number}" for number in range(4)]
    with transaction(client, names[0], *places):
        for name in names[1:]:
            with transaction(client, name, places[0]) as producer:
                producer.abort_transaction(WAIT_S)
        futures = admin.describe_transactions([*names, "describe-nothing"])
        expect_error(futures.pop("describe-nothing"), ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        described = {name: result_of(future) for name, future in futures.items()}
        found = described[names[0]]
        assert (found.state, found.topic_partitions) == (TransactionState.ONGOING, places)
        assert found.transaction_timeout_ms == 60_000
        assert found.transaction_start_time_ms is not None
        coordinator = client.cluster.coordinator_of(names[0])
        assert coordinator is not None
        assert found.coordinator_id == coordinator.id
        for name in names[1:]:
            each = described[name]
            assert (each.state, each.topic_partitions) == (TransactionState.COMPLETE_ABORT, [])
            assert each.transaction_start_time_ms is None


def test_a_moved_coordinator_is_looked_up_again(client: Client, admin: AdminClient) -> None:
    with transaction(client, "moved"):
        client.cluster.push_request_errors(
            ApiKey.DESCRIBE_TRANSACTIONS,
            [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS],
        )
        assert (
            result_of(admin.describe_transactions(["moved"])["moved"]).state
            is TransactionState.EMPTY
        )


def test_a_timeout_names_the_missing_response() -> None:
    with MockCluster(brokers=1) as cluster:
        client = Client(cluster)
        with admin_of(client) as admin, transaction(client, "late"):
            result_of(admin.describe_transactions(["late"])["late"])  # connects the client
            cluster.push_request_errors(
                ApiKey.DESCRIBE_TRANSACTIONS, [KafkaError.NOT_COORDINATOR] * 1000
            )
            late = admin.describe_transactions(["late"], request_timeout=1.0)["late"]
            with pytest.raises(KafkaException, match=r"Not done in time: .*coordinator") as error:
                result_of(late)
            assert error.value.args[0].code() == KafkaError._TIMED_OUT
            cluster.delay_responses(1, 2.0, ApiKey.LIST_TRANSACTIONS)
            (silent,) = result_of(admin.list_transactions(request_timeout=0.2)).errors
            assert silent.args[0].code() == KafkaError._TIMED_OUT
            assert "ListTransactions" in silent.args[0].str()
            assert cluster.address(1) in silent.args[0].str()


def test_producers_of_partitions_are_described(client: Client, admin: AdminClient) -> None:
    topic = client.topic(2)
    fill(client, topic, 3, partition=1, **{"enable.idempotence": True})
    written, read = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with transaction(client, "producers", written, timestamp=LONG_AGO_MS):
        nowhere = TopicPartition("nowhere", 0)
        futures = admin.describe_producers([written, read, nowhere])
        expect_error(futures[nowhere], KafkaError.UNKNOWN_TOPIC_OR_PART)
        (open_one,) = result_of(futures[written])
        described = result_of(admin.describe_transactions(["producers"])["producers"])
        assert open_one.producer_id == described.producer_id
        assert open_one.producer_epoch == described.producer_epoch
        assert (open_one.current_transaction_start_offset, open_one.last_sequence) == (0, 0)
        assert (open_one.last_timestamp, open_one.coordinator_epoch) == (LONG_AGO_MS, None)
        (other,) = result_of(futures[read])
        assert (other.current_transaction_start_offset, other.last_sequence) == (None, 2)
        leader = client.cluster.leader(topic, 0)
        follower = next(
            each for each in client.cluster.topics[topic].partitions[0].replicas if each != leader
        )
        [same] = result_of(admin.describe_producers([written], broker=follower)[written])
        assert same == open_one
        assert client.cluster.requests_of(ApiKey.DESCRIBE_PRODUCERS, follower)
        expect_error(
            admin.describe_producers([written], broker=99)[written], KafkaError._UNKNOWN_BROKER
        )


def test_a_hanging_transaction_is_found_and_aborted(client: Client, admin: AdminClient) -> None:
    topic = client.topic(2)
    stuck, fine = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with (
        transaction(client, "hangs", stuck, timestamp=LONG_AGO_MS),
        transaction(client, "is-open", fine, timestamp=LONG_AGO_MS),
    ):
        fill(client, topic, 5, partition=0)
        assert result_of(admin.find_hanging_transactions([stuck, fine])).valid == []
        client.cluster.hang_transaction("hangs")
        nowhere = TopicPartition("nowhere", 0)
        found = result_of(admin.find_hanging_transactions([stuck, fine, nowhere]))
        (hanging,) = found.valid
        assert isinstance(hanging, HangingTransaction)
        assert hanging.topic_partition == stuck
        [(place, error)] = found.errors.items()
        assert (place, error.args[0].code()) == (nowhere, KafkaError.UNKNOWN_TOPIC_OR_PART)
        everywhere = result_of(admin.find_hanging_transactions())
        assert hanging in everywhere.valid
        leader = client.cluster.leader(topic, 0)
        assert hanging in result_of(admin.find_hanging_transactions(broker=leader)).valid
        long = result_of(
            admin.find_hanging_transactions([stuck], max_transaction_timeout_ms=1 << 50)
        )
        assert long.valid == [], "it is younger than that"
        log = client.cluster.topics[topic].partitions[0].log
        assert log.last_stable_offset == 0
        expect_success(admin.abort_transaction(hanging.abort_spec))
        assert log.last_stable_offset == log.end_offset == 7
        assert result_of(admin.find_hanging_transactions([stuck])).valid == []
    values = {message.value() for message in read_all(client, topic, 5)}
    assert values >= {b"0", b"4"}, "consumers with read_committed continue"


def test_nothing_hangs_while_a_coordinator_refuses(client: Client, admin: AdminClient) -> None:
    place = TopicPartition(client.topic(), 0)
    with transaction(client, "undecided", place, timestamp=LONG_AGO_MS):
        for api_key in (ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_TRANSACTIONS):
            client.cluster.push_request_errors(api_key, [KafkaError.CLUSTER_AUTHORIZATION_FAILED])
            expect_error(
                admin.find_hanging_transactions([place]), KafkaError.CLUSTER_AUTHORIZATION_FAILED
            )
        client.cluster.push_request_errors(
            ApiKey.DESCRIBE_TRANSACTIONS, [ErrorCode.TRANSACTIONAL_ID_NOT_FOUND]
        )
        assert len(result_of(admin.find_hanging_transactions([place])).valid) == 1


def test_a_refused_abort_fails_and_is_not_sent_twice(
    client: Client,
    admin: AdminClient,
) -> None:
    place = TopicPartition(client.topic(), 0)
    with (
        transaction(client, "epochs", place),
        transaction(client, "epochs", place),
    ):
        (state,) = result_of(admin.describe_producers([place])[place])
        old = AbortTransactionSpec(place, state.producer_id, 0)
        expect_error(admin.abort_transaction(old), KafkaError.INVALID_PRODUCER_EPOCH)
        client.cluster.push_request_errors(
            ApiKey.WRITE_TXN_MARKERS, [KafkaError.NOT_LEADER_FOR_PARTITION]
        )
        spec = AbortTransactionSpec(place, state.producer_id, state.producer_epoch)
        expect_success(admin.abort_transaction(spec))
        sent = len(client.cluster.requests_of(ApiKey.WRITE_TXN_MARKERS))
        client.cluster.push_request_errors(ApiKey.WRITE_TXN_MARKERS, [CLOSE_CONNECTION])
        expect_error(admin.abort_transaction(spec), KafkaError._TRANSPORT)
        assert len(client.cluster.requests_of(ApiKey.WRITE_TXN_MARKERS)) == sent + 1


def test_fencing_producers_aborts_their_transactions(client: Client, admin: AdminClient) -> None:
    topic = client.topic(2)
    names = [f"fenced-{number}" for number in range(3)]
    with transaction(client, names[0], TopicPartition(topic, 0)) as producer:
        before = result_of(admin.describe_transactions([names[0]])[names[0]])
        fenced = {name: result_of(future) for name, future in admin.fence_producers(names).items()}
        assert list(fenced) == names
        assert fenced[names[0]].producer_id == before.producer_id
        assert fenced[names[0]].producer_epoch > before.producer_epoch
        with pytest.raises(KafkaException) as refused:
            producer.commit_transaction(WAIT_S)
        assert refused.value.args[0].code() in (KafkaError._FENCED, KafkaError._FATAL)
        (state,) = result_of(
            admin.describe_producers([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        )
        assert state.current_transaction_start_offset is None
        described = result_of(admin.describe_transactions([names[0]])[names[0]])
        assert described.topic_partitions == []
        client.cluster.push_request_errors(
            ApiKey.INIT_PRODUCER_ID, [KafkaError.CLUSTER_AUTHORIZATION_FAILED]
        )
        again = admin.fence_producers([names[1]])
        expect_error(again[names[1]], KafkaError.CLUSTER_AUTHORIZATION_FAILED)


PLACE = TopicPartition("t", 0)


@invalid_calls(
    {
        "list_transactions": [
            ({"states": {"Ongoing"}}, TypeError, "'states' must be a set of TransactionState"),
            ({"states": {TransactionState.UNKNOWN}}, ValueError, "UNKNOWN state is not allowed"),
            ({"producer_ids": {-1}}, ValueError, "'producer_ids' must be 0 to"),
            ({"producer_ids": {True}}, TypeError, "'producer_ids' must be an int, not bool"),
            ({"duration_ms": 1.5}, TypeError, "'duration_ms' must be an int"),
            (
                {"transactional_id_pattern": b"x"},
                TypeError,
                "transactional_id_pattern must be a str",
            ),
        ],
        "describe_transactions": [
            ({"transactional_ids": "t"}, TypeError, "expected a list of str"),
            ({"transactional_ids": []}, ValueError, "non-empty list"),
        ],
        "describe_producers": [
            (
                {"partitions": [TopicPartition("t", -1)]},
                ValueError,
                "'partition' cannot be negative",
            ),
            ({"partitions": [PLACE], "broker": -2}, ValueError, "there is no broker -2"),
        ],
        "abort_transaction": [
            ({"spec": PLACE}, TypeError, "expected an AbortTransactionSpec"),
            (
                {"spec": AbortTransactionSpec(PLACE, -1, 0)},
                ValueError,
                "'producer_id' must be 0 to",
            ),
            (
                {"spec": AbortTransactionSpec(PLACE, 1, 1 << 15)},
                ValueError,
                "0 to 32767, not 32768",
            ),
        ],
        "find_hanging_transactions": [
            ({"partitions": []}, ValueError, "non-empty list"),
            ({"max_transaction_timeout_ms": -1}, ValueError, "max_transaction_timeout_ms"),
        ],
        "fence_producers": [({"transactional_ids": [5]}, TypeError, "one item is of type int")],
    }
)
def test_arguments_are_checked_before_any_request(
    client: Client,
    admin: AdminClient,
    call: str,
    argument: dict[str, Any],
    error: type[Exception],
    text: str,
) -> None:
    with pytest.raises(error, match=text):
        getattr(admin, call)(**argument)


def test_invalid_and_duplicate_ids_fail_alone(client: Client, admin: AdminClient) -> None:
    with transaction(client, "fits"):
        futures = admin.describe_transactions(["fits", "x" * 40_000, "\ud800", "twice", "twice"])
        assert result_of(futures["fits"]).state is TransactionState.EMPTY
        for name in ("\ud800", "twice"):
            expect_error(futures[name], KafkaError._INVALID_ARG)
        assert code_of(futures["x" * 40_000]) in (
            KafkaError._INVALID_ARG,
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        )


def test_brokers_without_these_calls_are_an_unsupported_feature() -> None:
    old = {ApiKey.DESCRIBE_TRANSACTIONS: -1, ApiKey.DESCRIBE_PRODUCERS: -1}
    with MockCluster(brokers=1, max_versions={ApiKey.LIST_TRANSACTIONS: 0, **old}) as cluster:
        client = Client(cluster)
        place = TopicPartition(client.topic(), 0)
        with admin_of(client) as admin, transaction(client, "old", place):
            (listed,) = result_of(admin.list_transactions()).valid
            assert isinstance(listed, TransactionListing)
            assert (listed.transactional_id, listed.state) == ("old", TransactionState.ONGOING)
            for newer in ({"duration_ms": 5}, {"transactional_id_pattern": "o.*"}):
                found = result_of(admin.list_transactions(**newer))
                (error,) = found.errors
                assert (found.valid, error.args[0].code()) == ([], KafkaError._UNSUPPORTED_FEATURE)
                assert "ListTransactions" in error.args[0].str()
            expect_error(
                admin.describe_transactions(["old"])["old"], KafkaError._UNSUPPORTED_FEATURE
            )
            expect_error(admin.describe_producers([place])[place], KafkaError._UNSUPPORTED_FEATURE)
