"""Methods that change brokers, partitions and responses act only where a test says."""

from __future__ import annotations

import time

import pytest

from kafka_native.errors import ErrorCode
from kafka_native.mock import CLOSE_CONNECTION, MockCluster
from kafka_native.protocol import ApiKey, decode_response
from kafka_native.protocol.coordinator import FindCoordinatorRequest
from kafka_native.protocol.metadata import DescribeClusterRequest, MetadataRequest, MetadataResponse
from kafka_native.protocol.offsets import ListOffsetsRequest
from kafka_native.protocol.produce import ProduceRequest, ProduceResponse
from tests.mock.test_mock_produce import sequenced
from tests.mock.wire import Closed, Wire, batch, fetch_request, fetched, produce, values

ADVERTISED_ADDRESS = "broker.example:1234"


def metadata(wire: Wire, *topics: str, version: int = 13) -> MetadataResponse:
    reply: MetadataResponse = wire.ask(
        MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in topics]), version
    )
    return reply


def produce_two(wire: Wire) -> list[int]:
    """Write to partitions 0 and 3 of "a" in one request to broker 1, and return the error codes."""
    parts = [ProduceRequest.Topic.Partition(index=index, records=batch(b"x")) for index in (0, 3)]
    topic = ProduceRequest.Topic(name="a", partition_data=parts)
    response: ProduceResponse = wire.ask(ProduceRequest(acks=-1, topic_data=[topic]), 12)
    return [part.error_code for part in response.responses[0].partition_responses]


# --- errors ---


def test_errors_of_one_partition_leave_the_others_served(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", 4)
    cluster.push_request_errors(
        ApiKey.PRODUCE,
        [ErrorCode.NOT_ENOUGH_REPLICAS, 0, ErrorCode.KAFKA_STORAGE_ERROR],
        topic="a",
        partition=3,
    )
    assert [produce_two(wire) for _ in range(4)] == [[0, 19], [0, 0], [0, 56], [0, 0]]
    assert (cluster.watermarks("a", 0), cluster.watermarks("a", 3)) == ((0, 4), (0, 2))


def test_errors_of_a_topic_apply_to_its_next_partitions(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", 4)
    cluster.create_topic("b")
    cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.NOT_ENOUGH_REPLICAS] * 3, topic="a")
    assert produce(wire, "b", 0, batch(b"x")).error_code == 0
    assert [produce_two(wire), produce_two(wire)] == [[19, 19], [19, 0]]


def test_errors_of_a_partition_can_be_for_one_broker(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    cluster.push_request_errors(
        ApiKey.PRODUCE, [ErrorCode.KAFKA_STORAGE_ERROR], 2, topic="a", partition=0
    )
    assert produce(wire, "a", 0, batch(b"x")).error_code == 0
    cluster.move_leader("a", 0, 2)
    with Wire(cluster, 2) as other:
        assert produce(other, "a", 0, batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_errors_of_partitions_in_fetch_list_offsets_and_metadata(
    cluster: MockCluster, wire: Wire
) -> None:
    cluster.create_topic("a", 4)
    assert produce_two(wire) == [0, 0]
    for key in (ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA):
        cluster.push_request_errors(key, [ErrorCode.KAFKA_STORAGE_ERROR], topic="a", partition=3)
    parts = fetched(wire.ask(fetch_request("a", {0: 0, 3: 0}), 12))
    assert (parts[0].error_code, values(parts[0])) == (0, [b"x"])
    assert (parts[3].error_code, values(parts[3])) == (56, [])
    asked = [
        ListOffsetsRequest.Topic.Partition(partition_index=index, timestamp=-1) for index in (0, 3)
    ]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.Topic(name="a", partitions=asked)]
    )
    found = wire.ask(request, 7).topics[0].partitions
    assert [(part.error_code, part.offset) for part in found] == [(0, 1), (56, -1)]
    assert [part.error_code for part in metadata(wire, "a").topics[0].partitions] == [0, 0, 0, 56]
    assert [part.error_code for part in metadata(wire, "a").topics[0].partitions] == [0] * 4


def test_error_of_a_topic_in_metadata(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    cluster.create_topic("b")
    cluster.push_request_errors(ApiKey.METADATA, [ErrorCode.TOPIC_AUTHORIZATION_FAILED], topic="a")
    assert [topic.error_code for topic in metadata(wire, "a", "b").topics] == [29, 0]
    assert [topic.error_code for topic in metadata(wire, "a", "b").topics] == [0, 0]


@pytest.mark.parametrize(
    "where", [{}, {"topic": "a", "partition": 0}, {"topic": "a"}, {"broker": 1}], ids=str
)
def test_done_stores_the_batch_and_answers_with_the_error(
    where: dict, cluster: MockCluster, wire: Wire
) -> None:
    cluster.create_topic("a")
    cluster.push_request_errors(ApiKey.PRODUCE, [ErrorCode.REQUEST_TIMED_OUT], done=True, **where)
    answers = [produce(wire, "a", 0, sequenced(0)) for _ in range(2)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(7, -1), (0, 0)]
    assert cluster.watermarks("a", 0) == (0, 2)


@pytest.mark.parametrize("done", [False, True])
def test_connection_closed_before_or_after_the_append(done: bool, cluster: MockCluster) -> None:
    cluster.create_topic("a")
    cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION], done=done)
    with Wire(cluster) as wire, pytest.raises(Closed):
        produce(wire, "a", 0, batch(b"x"))
    assert cluster.watermarks("a", 0) == (0, int(done))


def test_errors_that_cannot_be_answered_are_refused_at_once(cluster: MockCluster) -> None:
    with pytest.raises(ValueError, match="one topic"):
        cluster.push_request_errors(ApiKey.HEARTBEAT, [ErrorCode.UNKNOWN_MEMBER_ID], topic="a")
    with pytest.raises(ValueError, match="one topic"):
        cluster.push_request_errors(ApiKey.PRODUCE, [CLOSE_CONNECTION], topic="a")
    with pytest.raises(ValueError, match="needs a topic"):
        cluster.push_request_errors(ApiKey.PRODUCE, [1], partition=0)
    with pytest.raises(ValueError, match="Fetch"):
        cluster.push_request_errors(ApiKey.FETCH, [1], done=True)


def test_rebootstrap_required_is_error_of_whole_response(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    cluster.push_request_errors(ApiKey.METADATA, [ErrorCode.REBOOTSTRAP_REQUIRED] * 2)
    reply = metadata(wire, "a")
    assert (reply.error_code, reply.topics) == (129, [])
    assert metadata(wire, "a", version=12).error_code == 0  # no room for it
    assert metadata(wire, "a").error_code == 0


# --- answers ---


def test_delays_of_an_api_of_a_broker_and_of_both(cluster: MockCluster, wire: Wire) -> None:
    cluster.delay_responses(None, 0.2, ApiKey.METADATA)
    cluster.delay_responses(2, 0.0)

    def seconds(to: Wire) -> float:
        start = time.monotonic()
        to.ask(MetadataRequest(topics=[]), 12)
        return time.monotonic() - start

    assert seconds(wire) >= 0.2
    wire.ask(DescribeClusterRequest())  # other APIs have no delay
    cluster.delay_responses(1, 0.4, ApiKey.METADATA)
    with Wire(cluster, 2) as other:
        assert seconds(other) >= 0.2
    assert seconds(wire) >= 0.4
    cluster.faults.clear()
    assert cluster.faults.delay(1, ApiKey.METADATA) == 0.0


def test_mixed_up_response(cluster: MockCluster, wire: Wire) -> None:
    cluster.mix_up_responses(1, ApiKey.METADATA)
    numbers = []
    for _ in range(2):
        wire.send(MetadataRequest(topics=[]), 12)
        numbers.append(decode_response(ApiKey.METADATA, 12, wire.read_frame())[0])
    assert numbers == [1_000_001, 2]


def test_edited_response(cluster: MockCluster, wire: Wire) -> None:
    def lie(response: ProduceResponse) -> None:
        response.responses[0].partition_responses[0].base_offset = 77

    cluster.create_topic("a")
    cluster.edit_responses(ApiKey.PRODUCE, lie, broker=1, count=2)
    assert [produce(wire, "a", 0, batch(b"x")).base_offset for _ in range(3)] == [77, 77, 2]


# --- brokers ---


def test_clients_get_the_advertised_address(cluster: MockCluster, wire: Wire) -> None:
    listening = cluster.address(2)
    cluster.advertise(2, ADVERTISED_ADDRESS)
    assert cluster.address(2) == listening
    assert cluster.bootstrap_servers.split(",")[1] == ADVERTISED_ADDRESS
    brokers = [f"{broker.host}:{broker.port}" for broker in metadata(wire).brokers]
    assert brokers == [cluster.address(1), ADVERTISED_ADDRESS, cluster.address(3)]
    brokers = [
        f"{broker.host}:{broker.port}" for broker in wire.ask(DescribeClusterRequest()).brokers
    ]
    assert brokers[1] == ADVERTISED_ADDRESS
    cluster.create_topic("a")
    cluster.move_leader("a", 0, 2)
    response = wire.ask(ProduceRequest(acks=1, topic_data=[ProduceRequest.Topic(name="a", partition_data=[
        ProduceRequest.Topic.Partition(index=0, records=batch(b"x"))])]), 12)  # fmt: skip
    assert [f"{node.host}:{node.port}" for node in response.node_endpoints] == [ADVERTISED_ADDRESS]
    for broker in (1, 3):
        cluster.remove_broker(broker)
    assert wire.ask(FindCoordinatorRequest(key="g"), 3).host == "broker.example"
    cluster.advertise(2, None)
    assert cluster.bootstrap_servers.split(",")[1] == listening


@pytest.mark.parametrize("address", ["", "host", "host:", ":9092", "host:port"])
def test_advertised_address_has_host_and_port(address: str, cluster: MockCluster) -> None:
    with pytest.raises(ValueError, match="host:port"):
        cluster.advertise(1, address)


def test_broker_comes_back_on_another_port(cluster: MockCluster, wire: Wire) -> None:
    before = cluster.address(2)
    with pytest.raises(ValueError, match="is up"):
        cluster.broker_up(2, port=0)
    cluster.broker_down(2)
    cluster.broker_up(2, port=0)
    assert cluster.address(2) != before
    with Wire(cluster, 2) as other:
        assert [broker.port for broker in metadata(other).brokers][1] == int(
            cluster.address(2).rpartition(":")[2]
        )


def test_removed_broker_is_in_no_metadata_leads_nothing_and_still_answers(
    cluster: MockCluster,
) -> None:
    cluster.create_topic("a")
    with Wire(cluster) as wire:
        cluster.remove_broker(1)
        assert [broker.node_id for broker in metadata(wire).brokers] == [2, 3]
        assert cluster.leader("a", 0) == 2
        assert produce(wire, "a", 0, batch(b"x")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.broker_up(1)
        assert [broker.node_id for broker in metadata(wire).brokers] == [1, 2, 3]


def test_partition_without_leader(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    cluster.move_leader("a", 0, -1)
    [part] = metadata(wire, "a").topics[0].partitions
    assert (part.error_code, part.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert produce(wire, "a", 0, batch(b"x")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- producers ---


def test_the_last_five_batches_are_duplicates_and_older_ones_out_of_order(
    cluster: MockCluster, wire: Wire
) -> None:
    cluster.create_topic("a")
    for number in range(7):
        assert produce(wire, "a", 0, sequenced(2 * number)).base_offset == 2 * number
    again = [produce(wire, "a", 0, sequenced(2 * number)) for number in range(7)]
    assert [answer.error_code for answer in again] == [45, 45, 0, 0, 0, 0, 0]
    assert [answer.base_offset for answer in again[2:]] == [4, 6, 8, 10, 12]
    # a batch with the same first sequence may be another one
    assert produce(wire, "a", 0, sequenced(12, 1)).error_code == 45
    assert cluster.watermarks("a", 0) == (0, 14)


def test_duplicates_are_known_to_the_next_leader_too(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a")
    assert produce(wire, "a", 0, sequenced(0)).base_offset == 0
    cluster.move_leader("a", 0, 2)
    with Wire(cluster, 2) as other:
        answer = produce(other, "a", 0, sequenced(0))
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert produce(other, "a", 0, sequenced(2)).base_offset == 2


@pytest.mark.parametrize("refuse", [False, True])
def test_forgotten_producer(refuse: bool, cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", 4)
    for partition in (0, 3):
        assert produce(wire, "a", partition, sequenced(0)).error_code == 0
    cluster.forget_producers("a", 0, refuse=refuse)
    assert produce(wire, "a", 3, sequenced(4)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    answer = produce(wire, "a", 0, sequenced(4))
    assert answer.error_code == (ErrorCode.UNKNOWN_PRODUCER_ID if refuse else 0)
    assert produce(wire, "a", 0, sequenced(0, epoch=1)).error_code == 0


# --- requests ---


def test_requests_by_api_and_broker_with_times(cluster: MockCluster, wire: Wire) -> None:
    cluster.create_topic("a", 2)
    produce(wire, "a", 0, batch(b"x"), version=9)
    with Wire(cluster, 2) as other:
        produce(other, "a", 1, batch(b"x"), version=11)
    metadata(wire)
    found = cluster.requests_of(ApiKey.PRODUCE)
    assert [(seen.broker, seen.version) for seen in found] == [(1, 9), (2, 11)]
    assert found[0].time <= found[1].time
    assert cluster.requests_of(ApiKey.PRODUCE, broker=2) == found[1:]
    assert cluster.wait_for_requests(ApiKey.PRODUCE, 2) == found
    with pytest.raises(TimeoutError, match="2 of 3"):
        cluster.wait_for_requests(ApiKey.PRODUCE, 3, timeout=0.01)
