"""The broker pool: handshakes, waiting calls, failures, without sockets or threads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafka_native._native.engine import THROTTLE_MAX_MS
from kafka_native.control.brokers.bootstrap import shuffle
from kafka_native.control.brokers.pool import NEXT_SERVER_S
from kafka_native.control.brokers.versions import ApiRanges, Handshake, software_version
from kafka_native.control.producer.produce_router import ProduceRouter
from kafka_native.control.requests import Call
from kafka_native.errors import STATUS_CLOSED, STATUS_STALE, STATUS_TRANSPORT, KafkaError
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_native.protocol.offsets import ListOffsetsRequest
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse

from .fakes import TOPIC_ID, Cluster, api_versions, event


def test_call_waits_for_a_broker_and_goes_out_when_its_handshake_ends():
    cluster = Cluster()
    replies = cluster.call()
    assert cluster.engine.connects == [0]
    assert cluster.engine.submitted == []
    cluster.bring_up(0)
    [sent] = cluster.engine.submitted
    assert (sent.handle, sent.api_key, sent.version) == (
        0,
        MetadataRequest.api_key,
        MetadataRequest.max_version,
    )
    assert sent.timeout_ms == 60_000
    cluster.answer(cluster.metadata_reply("t", []))
    assert [broker.node_id for broker in replies[0].brokers] == [1, 2]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("b1.example\n[ERROR] gone", "b1.example?[ERROR] gone:9092/1"),
        ("b1\x1b[2J\0.example", "b1?[2J?.example:9092/1"),
        ("b" * 400, f"{'b' * 255}:9092/1"),
        ("ü" * 70 + ".example", f"{'?' * 70}.example:9092/1"),
        ("bücher.example", "bücher.example:9092/1"),
    ],
)
def test_invalid_host_does_no_harm(host, name):
    cluster = Cluster()
    for _ in range(2):
        cluster.pool.update(1, host, 9092, None)
        cluster.pool.coordinator(1, host, 9092)
    assert cluster.pool.nodes[1].name == name
    assert len(cluster.engine.brokers) == len(cluster.pool.bootstrap) + 2, (
        "twice the same is the same"
    )


def test_old_broker_is_asked_again_in_a_version_it_has():
    cluster = Cluster()
    cluster.pool.on_connected(event())
    first = cluster.engine.submitted.pop()
    assert first.version == ApiVersionsRequest.max_version
    assert first.how == {"generation": 1, "handshake": True}
    refusal = ApiVersionsResponse(
        error_code=35,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)],
    )
    cluster.pool.on_reply(event(token=first.token, body=refusal.encode(0)))
    second = cluster.engine.submitted.pop()
    assert second.version == 2
    cluster.pool.on_reply(
        event(token=second.token, body=api_versions({0: (3, 7), 1: (4, 11), 3: (0, 5)}).encode(2))
    )
    assert cluster.engine.opened == [(0, 1, 7, 11)]


@pytest.mark.parametrize(
    ("ranges", "produce", "fetch"),
    [({0: (0, 2), 1: (0, 3)}, 2, 3), ({0: (14, 20), 1: (3, 99)}, -1, 18), ({0: (3, 99)}, 13, -1)],
)
def test_data_versions_are_the_newest_common_ones(ranges, produce, fetch):
    offer = ApiRanges(ranges)
    assert (offer.produce, offer.fetch) == (produce, fetch)


def test_request_that_the_broker_lacks_fails_with_a_clear_error():
    cluster = Cluster()
    cluster.bring_up(0, api_versions({18: (0, 4)}))
    replies = cluster.call()
    assert replies[0].code() == KafkaError._UNSUPPORTED_FEATURE
    assert "MetadataRequest" in replies[0].str()


def test_garbage_instead_of_api_versions_closes_the_connection_with_an_error():
    cluster = Cluster()
    cluster.call()
    cluster.pool.on_connected(event())
    sent = cluster.engine.submitted.pop()
    cluster.pool.on_reply(event(token=sent.token, body=b"\0\0\xff\xff\xff\xff\x0f"))
    assert cluster.engine.closed == [(0, 1, -15)]
    assert cluster.errors[0].code() == KafkaError._BAD_MSG
    assert "ApiVersions" in cluster.errors[0].str()


@pytest.mark.parametrize(
    "code", [KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED]
)
def test_refused_handshake_is_reported_once_with_its_own_code(code):
    """A failed security handshake arrives in this place."""
    cluster = Cluster()
    for generation in range(1, 4):
        cluster.pool.on_connected(event(generation=generation))
        broker = cluster.pool.bootstrap[0]
        broker.handshake = SimpleNamespace(
            on_reply=lambda body: KafkaError(code, "who are you?"), expected=None
        )
        sent = cluster.engine.submitted.pop()
        cluster.pool.on_reply(event(token=sent.token, generation=generation, body=b""))
        cluster.pool.on_disconnected(
            event(status=-15, attempts=1, generation=generation, text="malformed data")
        )
    reported = [error for error in cluster.errors if error.code() != KafkaError._ALL_BROKERS_DOWN]
    assert [error.code() for error in reported] == [code]
    assert reported[0].str() == f"{broker.name}: who are you?"
    assert len(cluster.errors) == 2


def test_each_kind_of_error_is_reported_once_until_the_broker_works():
    cluster = Cluster()
    lost = {"status": STATUS_TRANSPORT, "attempts": 1, "text": "h:1 (1.2.3.4:1): gone"}
    for _ in range(3):
        cluster.pool.on_disconnected(event(**lost, generation=1))
        cluster.pool.on_disconnected(event(**lost, generation=0))
        cluster.pool.on_disconnected(event(**lost | {"status": -9}, generation=0))
    codes = [error.code() for error in cluster.errors]
    assert codes.count(KafkaError._TRANSPORT) == 2, "a connection that ended, and one that failed"
    assert codes.count(KafkaError._TIMED_OUT) == 1
    cluster.bring_up(0)
    cluster.pool.on_disconnected(event(**lost, generation=1))
    assert len(cluster.errors) == len(codes), "a handshake alone doesn't show that it works"
    cluster.bring_up(0)
    cluster.pool.on_working(event())
    cluster.pool.on_disconnected(event(**lost, generation=1))
    assert [error.code() for error in cluster.errors[len(codes) :]].count(
        KafkaError._TRANSPORT
    ) == 1


@pytest.mark.parametrize(("peer_closed", "level"), [(0, 3), (2, 6), (3, 4)])
def test_report_of_a_closed_connection_depends_on_open_requests(peer_closed, level):
    cluster, levels = Cluster(), []
    cluster.pool._on_error = lambda error, level: levels.append(level)
    gone = event(
        status=STATUS_TRANSPORT, attempts=1, generation=1, peer_closed=peer_closed, text="gone"
    )
    cluster.pool.on_disconnected(gone)
    assert levels[0] == level
    quiet = Cluster(reports_closes=False)
    quiet.pool.on_disconnected(gone)
    reported = [error.code() for error in quiet.errors]
    assert (KafkaError._TRANSPORT in reported) == (peer_closed == 0), (
        "log.connection.close=false is about closes only"
    )


def test_failed_connect_is_reported_once_and_the_next_candidate_is_tried():
    cluster = Cluster(bootstrap=2)
    replies = cluster.call()
    first = cluster.engine.connects[-1]
    for _ in range(3):
        cluster.lose("boot:9092: refused", broker=first)
    assert [error.code() for error in cluster.errors] == [KafkaError._TRANSPORT]
    assert set(cluster.engine.connects) == {0, 1}
    assert replies == []
    cluster.lose("boot:9092: refused", broker=1 - first)
    assert [error.code() for error in cluster.errors][-1] == KafkaError._ALL_BROKERS_DOWN
    cluster.bring_up(first)
    assert len(cluster.engine.submitted) == 1


def test_new_clients_spread_over_the_bootstrap_servers():
    begun = set()
    for _ in range(100):
        cluster = Cluster(bootstrap=3, shuffle=shuffle)
        cluster.call()
        begun.update(cluster.engine.connects)
    assert begun == {0, 1, 2}


def test_each_round_has_each_server_once_in_an_order_of_its_own():
    rounds = set()
    cluster = Cluster(bootstrap=3, shuffle=shuffle)
    cluster.call()
    for _ in range(100):
        while len(cluster.engine.connects) < 3:
            cluster.lose("refused", broker=cluster.engine.connects[-1], generation=0)
        assert sorted(cluster.engine.connects) == [0, 1, 2]
        rounds.add(tuple(cluster.engine.connects))
        last = cluster.engine.connects[-1]
        cluster.engine.connects.clear()
        cluster.lose("refused", broker=last, generation=0)
    assert len(rounds) == 6, "every order occurs"


def test_idle_close_by_the_broker_is_no_error():
    cluster = Cluster()
    cluster.bring_up(0)
    cluster.pool.on_disconnected(event(broker=0, attempts=0))
    assert cluster.errors == []


def test_call_to_a_node_fails_when_its_broker_cannot_be_reached():
    cluster = Cluster()
    cluster.pool.update(7, "b7", 9092, None)
    replies = cluster.call(ListOffsetsRequest(), 7)
    cluster.lose("b7:9092: refused", broker=1)
    assert replies == [KafkaError._TRANSPORT]
    cluster.call(ListOffsetsRequest(), 8, replies=replies)
    assert replies[1] == KafkaError._UNKNOWN_BROKER


def test_waiting_call_ends_at_its_deadline():
    cluster = Cluster()
    replies = cluster.call(timeout_s=1.0)
    _, wake_up = cluster.pool.poll(1000.0)
    assert wake_up == 1001.0
    cluster.pool.poll(1001.0)
    assert replies == [KafkaError._TRANSPORT]


def test_broker_that_moved_gets_a_new_connection_and_keeps_its_calls():
    cluster = Cluster()
    cluster.pool.update(7, "old", 9092, None)
    replies = cluster.call(ListOffsetsRequest(), 7)
    cluster.pool.update(7, "new", 9093, None)
    assert cluster.engine.stopped == [1]
    cluster.bring_up(2)
    assert [sent.handle for sent in cluster.engine.submitted] == [2]
    assert replies == []


@pytest.mark.parametrize("moves", [True, False])
def test_call_to_a_broker_that_leaves_ends_like_one_whose_connection_does(moves):
    """The caller must not get "closed": the client isn't closed, and a retry helps."""
    cluster = Cluster()
    cluster.pool.update(7, "old", 9092, None)
    cluster.bring_up(1)
    replies = cluster.call(ListOffsetsRequest(), 7)
    if moves:
        cluster.pool.update(7, "new", 9093, None)
    else:
        cluster.pool.remove_missing({8})
    assert cluster.engine.stopped == [1]
    assert replies == []
    cluster.pool.on_reply(
        event(broker=1, token=cluster.engine.submitted.pop().token, status=STATUS_CLOSED)
    )
    assert replies == [KafkaError._TRANSPORT]
    assert "old:9092/7" in replies[0].str()
    assert "left" in replies[0].str()


def test_leaders_get_the_new_connection_of_a_broker_that_moved():
    """A new address is no new leader: the epoch stays."""
    cluster = Cluster()
    router = ProduceRouter(cluster.engine, cluster.metadata, cluster.pool)
    router.ask("t", 2000.0, lambda count: None, cluster.clock.now)
    cluster.bring_up(0)
    cluster.turn(router)
    cluster.answer_metadata((1, 5), (2, 5))
    topic = cluster.engine.topic("t")
    assert topic.partitions == (TOPIC_ID, [1, 2], [5, 5])
    other = cluster.metadata_reply("other", [])
    other.brokers[0].port = 9999
    cluster.metadata.take(other)
    assert cluster.engine.stopped == [1]
    assert topic.partitions == (TOPIC_ID, [3, 2], [5, 5])


# --- control connections ---


class DataCluster(Cluster):
    """Node 7 is up, and carries data."""

    def __init__(self) -> None:
        super().__init__()
        assert self.add_node(7) == 1
        self.engine.on_connect = lambda handle: None

    def add_node(self, node_id: int, *, carries_data: bool = True) -> int:
        """Add a node, and bring it up. Return its handle."""
        self.pool.update(node_id, f"b{node_id}", 9092, None)
        handle = len(self.engine.brokers) - 1
        self.bring_up(handle)
        if carries_data:
            assert self.pool.data_handle(node_id, "t", 0) == handle
        return handle

    def sent_to(self) -> list[int]:
        return [sent.handle for sent in self.engine.submitted]


def test_call_to_a_node_that_carries_data_goes_around_it():
    cluster = DataCluster()
    cluster.call(ListOffsetsRequest(), 7)
    assert (cluster.sent_to(), cluster.engine.connects) == ([], [2])
    cluster.bring_up(2)
    cluster.call(ListOffsetsRequest(), 7)
    assert cluster.sent_to() == [2, 2]
    assert [broker.name for broker in cluster.pool.brokers()][1:] == [
        "b7:9092/7",
        "b7:9092/control 7",
    ]


def test_call_to_a_node_without_data_needs_no_further_connection():
    cluster = Cluster()
    cluster.pool.update(7, "b7", 9092, None)
    cluster.bring_up(1)
    cluster.call(ListOffsetsRequest(), 7)
    assert [sent.handle for sent in cluster.engine.submitted] == [1]


def test_call_for_data_stays_on_the_connection_of_the_node():
    cluster = DataCluster()
    call = Call(ListOffsetsRequest(), 7, cluster.clock.now + 1, lambda reply: None, is_data=True)
    cluster.pool.send(call)
    assert cluster.sent_to() == [1]


def test_call_to_any_broker_prefers_a_connection_without_data():
    cluster = DataCluster()
    cluster.add_node(8, carries_data=False)
    for _ in range(4):
        cluster.call()
    assert cluster.sent_to() == [2] * 4


def test_call_to_any_broker_opens_one_control_connection_if_all_carry_data():
    cluster = DataCluster()
    cluster.add_node(8)
    cluster.call()
    assert cluster.engine.connects[-1] == 3
    cluster.bring_up(3)
    for _ in range(3):
        cluster.call()
    assert cluster.sent_to() == [3] * 4


@pytest.mark.parametrize("moves", [True, False])
def test_control_connection_ends_with_its_node(moves):
    cluster = DataCluster()
    cluster.call(ListOffsetsRequest(), 7)
    cluster.bring_up(2)
    if moves:
        cluster.pool.update(7, "new", 9093, None)
    else:
        cluster.pool.remove_missing({8})
    assert sorted(cluster.engine.stopped) == [1, 2]


def test_call_goes_behind_data_if_there_is_no_memory_for_another_connection(monkeypatch):
    cluster = DataCluster()

    def refuse(*_: object) -> int:
        raise MemoryError

    monkeypatch.setattr(cluster.engine, "broker_add", refuse)
    cluster.call(ListOffsetsRequest(), 7)
    cluster.call()
    assert cluster.sent_to() == [1, 1]


def test_call_to_any_broker_goes_to_another_after_one_has_failed():
    cluster = DataCluster()
    cluster.add_node(8)
    cluster.call()
    cluster.bring_up(cluster.engine.connects[-1])
    [sent] = cluster.engine.submitted
    cluster.engine.submitted.clear()
    failed = event(broker=sent.handle, token=sent.token, status=STATUS_TRANSPORT, text="too late")
    cluster.pool.on_reply(failed)
    cluster.call()
    cluster.bring_up(cluster.engine.connects[-1])
    assert [cluster.node_of(each) for each in cluster.engine.submitted] != [cluster.node_of(sent)]


def test_calls_to_any_broker_open_one_control_connection_between_them():
    cluster = DataCluster()
    cluster.add_node(8)
    before = len(cluster.engine.connects)
    for _ in range(5):
        cluster.call()
    assert len(cluster.engine.connects) == before + 1


def test_call_to_any_broker_goes_to_another_if_a_control_connection_takes_long():
    cluster = DataCluster()
    cluster.add_node(8)
    cluster.call()
    first = cluster.engine.connects[-1]
    cluster.clock.now += NEXT_SERVER_S
    cluster.pool.poll(cluster.clock.now)
    second = cluster.engine.connects[-1]
    assert second != first
    cluster.bring_up(second)
    assert cluster.sent_to() == [second]


# --- the end of connections and calls ---


def test_bootstrap_connection_closes_once_a_real_broker_is_up():
    cluster = Cluster()
    cluster.bring_up(0)
    cluster.pool.update(1, "b1", 9092, None)
    cluster.pool.poll(1000.0)
    assert cluster.engine.closed == []
    cluster.bring_up(1)
    cluster.pool.poll(1000.0)
    assert cluster.engine.closed == [(0, 1, 0)]


def test_closing_ends_every_call():
    cluster = Cluster()
    replies = cluster.call()
    cluster.pool.fail_all(KafkaError(KafkaError._DESTROY))
    assert replies == [KafkaError._DESTROY]


def test_reply_that_cannot_be_read_is_an_error_of_its_call_alone():
    cluster = Cluster()
    cluster.bring_up(0)
    replies = cluster.call()
    sent = cluster.engine.submitted.pop()
    cluster.pool.on_reply(event(token=sent.token, body=b"\1"))
    assert replies == [KafkaError._BAD_MSG]
    assert "METADATA" in replies[0].str()


def test_software_version_has_only_allowed_characters():
    assert software_version("1.0+local/x") == "1.0-local-x"
    assert software_version("+") == "unknown"
    assert Handshake("1.0").request()


def test_server_that_never_answers_delays_no_call():
    cluster = Cluster(bootstrap=2)
    cluster.call()
    assert cluster.engine.connects == [0]
    cluster.pool.on_connected(event(broker=0))
    _, wake_up = cluster.pool.poll(cluster.clock())
    assert wake_up == pytest.approx(cluster.clock() + NEXT_SERVER_S)
    assert cluster.engine.connects == [0]
    cluster.clock.now = wake_up
    cluster.pool.poll(wake_up)
    assert cluster.engine.connects == [0, 1]
    cluster.bring_up(1)
    assert cluster.engine.submitted[-1].handle == 1


def test_call_for_a_connection_that_has_just_ended_goes_to_another_broker():
    cluster = Cluster(bootstrap=2)
    cluster.bring_up(0)
    replies = cluster.call()
    [sent] = cluster.engine.submitted
    assert (sent.handle, sent.how) == (0, {"generation": 1})
    cluster.pool.on_disconnected(event(broker=0, attempts=0))
    cluster.pool.on_reply(event(broker=0, token=sent.token, status=STATUS_STALE))
    assert replies == []
    cluster.engine.submitted.clear()
    cluster.bring_up(1)
    assert [sent.handle for sent in cluster.engine.submitted] == [1]


def test_call_for_a_node_whose_connection_has_just_ended_waits_for_the_next_one():
    cluster = Cluster()
    cluster.pool.update(7, "b7", 9092, None)
    cluster.bring_up(1)
    replies = cluster.call(ListOffsetsRequest(), 7)
    sent = cluster.engine.submitted.pop()
    cluster.pool.on_disconnected(event(broker=1, attempts=0))
    cluster.pool.on_reply(event(broker=1, token=sent.token, status=STATUS_STALE))
    assert cluster.engine.connects == [1]
    cluster.bring_up(1)
    assert [sent.handle for sent in cluster.engine.submitted] == [1]
    cluster.clock.now = 1060.0
    cluster.pool.on_reply(
        event(broker=1, token=cluster.engine.submitted.pop().token, status=STATUS_STALE)
    )
    assert [reply.code() for reply in replies] == [KafkaError._TRANSPORT]


def test_throttled_broker_gets_nothing_until_its_time():
    cluster = Cluster()
    cluster.bring_up(0)
    replies = cluster.call()
    reply = MetadataResponse(throttle_time_ms=2000)
    sent = cluster.engine.submitted.pop()
    cluster.pool.on_reply(event(token=sent.token, body=reply.encode(sent.version)))
    assert len(replies) == 1  # the response that came with it counts
    assert cluster.throttles == [("boot0", 2.0)]
    cluster.call(replies=replies)
    assert cluster.engine.submitted == []
    _, wake_up = cluster.pool.poll(1001.0)
    assert wake_up == 1002.0
    cluster.clock.now = 1002.0
    cluster.pool.poll(1002.0)
    assert len(cluster.engine.submitted) == 1


@pytest.mark.parametrize("said_ms", [THROTTLE_MAX_MS + 1, 2**31 - 1])
def test_throttle_time_has_a_bound_and_a_longer_one_is_warned_of(said_ms: int):
    cluster = Cluster()
    cluster.bring_up(0)
    replies = []
    reply = MetadataResponse(throttle_time_ms=said_ms)
    for _ in range(3):
        cluster.call(timeout_s=1e6, replies=replies)
    for sent in list(cluster.engine.submitted):
        cluster.pool.on_reply(event(token=sent.token, body=reply.encode(sent.version)))
    cluster.engine.submitted.clear()
    assert cluster.throttles == [("boot0", THROTTLE_MAX_MS / 1000)] * 3
    assert len([line for line in cluster.lines if "throttle" in line]) == 1, "once while it holds"
    cluster.call(timeout_s=1e6, replies=replies)
    assert cluster.pool.poll(1000.0)[1] == 1000.0 + THROTTLE_MAX_MS / 1000
    cluster.clock.now = 1000.0 + THROTTLE_MAX_MS / 1000
    cluster.pool.poll(cluster.clock.now)
    assert len(cluster.engine.submitted) == 1


@pytest.mark.parametrize("said_ms", [-1, -(2**31)])
def test_negative_throttle_time_is_ignored(said_ms: int):
    cluster = Cluster()
    cluster.bring_up(0)
    replies = []
    for _ in range(2):
        cluster.call(replies=replies)
        sent = cluster.engine.submitted.pop()
        body = MetadataResponse(throttle_time_ms=said_ms).encode(sent.version)
        cluster.pool.on_reply(event(token=sent.token, body=body))
    assert (len(replies), cluster.throttles) == (2, [])


def test_another_broker_is_asked_while_one_is_throttled():
    cluster = Cluster(bootstrap=2)
    for handle in (0, 1):
        cluster.bring_up(handle)
    replies = cluster.call()
    sent = cluster.engine.submitted.pop()
    cluster.pool.on_reply(
        event(token=sent.token, body=MetadataResponse(throttle_time_ms=2000).encode(sent.version))
    )
    for _ in range(4):
        cluster.call(replies=replies)
    assert {request.handle for request in cluster.engine.submitted} == {1 - sent.handle}


def test_a_refusal_is_remembered_until_a_broker_is_up():
    cluster = Cluster()
    pool = cluster.pool
    assert pool.refusal() is None
    pool.on_connected(event())
    pool.refuse(pool.bootstrap[0], KafkaError(KafkaError._AUTHENTICATION, "a wrong password"))
    pool.on_disconnected(event(status=STATUS_TRANSPORT, attempts=1))
    refusal = pool.refusal()
    assert (refusal.code(), refusal.str()) == (KafkaError._AUTHENTICATION, "a wrong password")
    cluster.bring_up(0)
    assert pool.refusal() is None
    pool.on_disconnected(event(status=STATUS_TRANSPORT, attempts=1, text="cut off"))
    assert pool.refusal() is None, "it is only unreachable"


# --- one cause, one report ---


def refused(handle: int, **how: object) -> object:
    text = "connect failed: 127.0.0.1:9092: Connection refused"
    return event(
        **{
            "broker": handle,
            "status": STATUS_TRANSPORT,
            "attempts": 1,
            "generation": 0,
            "text": text,
        }
        | how
    )


def texts(cluster: Cluster) -> list[str]:
    return [error.str() for error in cluster.errors]


def test_cluster_that_is_down_is_reported_at_once_then_once_a_minute_then_is_back():
    cluster = Cluster()
    for node in (1, 2):
        cluster.pool.update(node, f"b{node}", 9092, None)
    start = cluster.clock.now
    while cluster.clock.now < start + 150:
        for handle in (0, 1, 2):
            cluster.pool.on_disconnected(refused(handle))
        cluster.clock.now += 0.5
    reported = texts(cluster)
    assert [text.split(":")[0] for text in reported[:4]] == [
        "boot0",
        "b1",
        "b2",
        "2/2 brokers are down",
    ]
    assert [text.split(": ")[0] for text in reported[4:]] == [
        "2/2 brokers are down for 60 s",
        "2/2 brokers are down for 120 s",
    ]
    assert "Connection refused" in reported[-1], "the reminder says why"
    assert cluster.lines.count("starting again from the bootstrap servers") == 1
    cluster.lines.clear()
    for handle in (1, 2):
        cluster.bring_up(handle)
        cluster.pool.on_working(event(broker=handle))
        cluster.pool.on_working(event(broker=handle))
    assert cluster.lines == ["b1:9092/1 is back, after 150.0 s", "b2:9092/2 is back, after 150.0 s"]
    assert texts(cluster) == reported
    cluster.pool.on_disconnected(refused(1))
    cluster.pool.on_disconnected(refused(2))
    assert [text.split(":")[0] for text in texts(cluster)[len(reported) :]] == [
        "b1",
        "b2",
        "2/2 brokers are down",
    ]


def test_listener_that_closes_after_the_handshake_is_one_report():
    """A plaintext client at a SASL listener: ApiVersions is answered, the next request isn't."""
    cluster = Cluster()
    start = cluster.clock.now
    for generation in range(1, 200):
        cluster.call()
        cluster.pool.on_connected(event(generation=generation))
        sent = cluster.engine.submitted.pop()
        cluster.pool.on_reply(
            event(token=sent.token, generation=generation, body=api_versions().encode(sent.version))
        )
        gone = {
            "status": STATUS_TRANSPORT,
            "generation": generation,
            "text": f"closed with {generation} requests unanswered",
        }
        for sent in cluster.engine.submitted:
            cluster.pool.on_reply(event(token=sent.token, **gone))
        cluster.engine.submitted.clear()
        cluster.pool.on_disconnected(event(attempts=generation, peer_closed=3, **gone))
        cluster.clock.now += 0.25
    assert cluster.clock.now < start + 60
    closed, down = texts(cluster)
    assert "is its listener one for SASL?" in closed
    assert down == "1/1 brokers are down"
    assert cluster.lines == []


def test_refused_authentication_is_one_report_a_minute():
    cluster = Cluster()
    for generation in range(1, 400):
        cluster.pool.on_connected(event(generation=generation))
        cluster.pool.refuse(
            cluster.pool.bootstrap[0],
            KafkaError(KafkaError._AUTHENTICATION, f"id {generation}: no"),
        )
        cluster.pool.on_disconnected(
            event(status=-15, attempts=1, generation=generation, text="malformed data")
        )
        cluster.clock.now += 0.25
    assert [error.code() for error in cluster.errors] == [
        KafkaError._AUTHENTICATION,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._ALL_BROKERS_DOWN,
    ]
    assert "no" in cluster.errors[2].str()


def test_broker_and_the_bootstrap_server_that_it_is_are_one_cause():
    cluster = Cluster()
    cluster.pool.update(1, "boot0", 9092, None)
    cluster.pool.coordinator(1, "boot0", 9092)
    for handle in (0, 1, 2):
        cluster.pool.on_disconnected(refused(handle))
    assert [error.code() for error in cluster.errors] == [
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"text": "connect failed: 127.0.0.1:9092: No route to host"},
        {"status": -9, "text": "connect failed: 127.0.0.1:9092: Connection timed out"},
        {
            "generation": 1,
            "peer_closed": 3,
            "text": "the peer closed the connection with 1 requests unanswered",
        },
        {"status": -21, "text": "certificate verify failed", "verify_error": 20},
    ],
)
def test_changed_cause_is_reported_at_once(change):
    cluster = Cluster(bootstrap=2)
    for _ in range(2):
        cluster.pool.on_disconnected(
            refused(0, text="connect failed: 10.1.2.3:9092: Connection refused")
        )
        cluster.pool.on_disconnected(
            refused(0, text="connect failed: 10.44.5.66:9092: Connection refused")
        )
    assert len(cluster.errors) == 1
    for _ in range(2):
        cluster.pool.on_disconnected(refused(0, **change))
    assert len(cluster.errors) == 2


def test_one_broker_of_many_is_reminded_of_by_itself():
    cluster = Cluster()
    for node in (1, 2):
        cluster.pool.update(node, f"b{node}", 9092, None)
    cluster.bring_up(2)
    start = cluster.clock.now
    while cluster.clock.now < start + 150:
        cluster.pool.on_disconnected(refused(1))
        cluster.clock.now += 0.5
    assert [text.split(":")[0] for text in texts(cluster)] == ["b1"] * 3
