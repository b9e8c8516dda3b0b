"""Odd arguments and moments of a producer: the same exceptions, codes and reports in both."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_native import KafkaError
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.compat.sides import BOTH
from tests.waiting import WAIT_S, wait_for

Lib = Any
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


class Index:
    def __index__(self) -> int:
        return 0


class Text(str):
    __slots__ = ()


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 2)
        yield cluster


def tried(call: Callable[[], Any]) -> Any:
    """Return the result, or the class of the exception with its code and flags."""
    try:
        result = call()
    except Exception as error:
        return type(error).__name__, described(error.args[0] if error.args else None)
    return result if isinstance(result, (int, type(None), tuple, list)) else type(result).__name__


def described(error: Any) -> Any:
    if not hasattr(error, "txn_requires_abort"):
        return None
    return error.name(), error.fatal(), error.retriable(), error.txn_requires_abort()


def assert_same(use: Callable[[Lib], Any]) -> None:
    theirs, ours = (tried(lambda lib=lib: use(lib)) for lib in BOTH)
    assert ours == theirs


def report_to(seen: list[Any]) -> Callable[[Any, Any], None]:
    def report(error: Any, message: Any) -> None:
        seen.append(
            (
                described(error),
                (message.topic(), message.partition(), message.key(), message.value()),
                message.headers(),
                message.timestamp() if error else message.timestamp()[0],
                type(message.latency()).__name__,
                message.offset() is None,
            )
        )

    return report


ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    *(
        (args, {})
        for args in (
            (), ("t", "v", "k", 0, None, None, 0, None), ("t",) * 9, (None,), (5,), (b"t",),
            ("t\0x",), (Text("t"),), ("t", 5), ("t", [1]), ("t", "\ud800"), ("t", "v", 5),
            ("\ud800",),
        )
    ),
    *(
        (("t", "v"), {name: value})
        for name, values in {
            "partition": ("0", 1.0, None, True, Index(), 2**31, 2**63),
            "timestamp": (None, "5", 1.5, -1, 2**63, True, Index()),
            "headers": (
                None, [], {}, [("a",)], [("a", b"b", 1)], [(5, b"b")], [(b"a", b"b")], {5: b"b"},
                [(None, b"b")], [("a", 5)], [("a", "\ud800")], "ab", 5, iter([("a", b"b")]),
            ),
            "foo": (1,),
        }.items()
        for value in values
    ),
]  # fmt: skip


@pytest.mark.parametrize(("args", "keywords"), ARGUMENTS)
def test_arguments_of_produce(
    cluster: MockCluster, args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    def use(lib: Lib) -> Any:
        producer = lib.Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        producer.produce(*args, **keywords)
        return producer.flush(WAIT_S)

    assert_same(use)


BATCHES: list[Any] = [
    [], None, [5], ({"value": b"x"},), [{"value": 5}], [{"foo": 1}], [{5: 1}], [{}],
    [{"partition": "0"}], [{"partition": 1}], [{"partition": 2**40}], [{"partition": -5}],
    [{"partition": 9}], [{"partition": 1.0}], [{"timestamp": 5}], [{"timestamp": 0}],
    [{"headers": [("a", b"b")]}], [{"headers": 5}], [{"headers": [("a", 5)]}],
    [{"on_delivery": 5}], [{"value": b"x"}, {"value": 5}],
    [{"_error": 1, "value": b"x"}], [{"value": bytearray(b"x")}],
]  # fmt: skip


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("partition", [-1, 1])
def test_messages_of_produce_batch(cluster: MockCluster, batch: Any, partition: int) -> None:
    def use(lib: Lib) -> Any:
        given, seen = copy.deepcopy(batch), []  # type: ignore[var-annotated]
        producer = lib.Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        queued = tried(
            lambda: producer.produce_batch(
                "t", given, partition, on_delivery=lambda error, message: seen.append(error)
            )
        )
        return [queued, producer.flush(WAIT_S), seen, str(given)]

    assert_same(use)


def test_callbacks_of_produce_batch(cluster: MockCluster) -> None:
    def use(lib: Lib) -> Any:
        producer = lib.Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        all_of: list[Any] = []
        own: list[Any] = []
        messages = [
            {"value": b"1", "callback": report_to(own)},
            {"value": b"2", "on_delivery": report_to(own)},
            {"value": b"3", "headers": [("a", b"b")], "partition": 1},
        ]
        producer.produce_batch("t", messages, 0, on_delivery=report_to(all_of))
        producer.flush(WAIT_S)
        return [own, all_of]

    assert_same(use)


@pytest.mark.parametrize("partition", [-2, 7, 2**31 - 1])
def test_partition_that_does_not_exist(cluster: MockCluster, partition: int) -> None:
    """``produce()`` raises if the topic is known. Else the report has the error at once."""
    for known in (False, True):

        def use(lib: Lib, known: bool = known) -> Any:
            conf = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
            seen: list[Any] = []
            producer = lib.Producer(conf)
            if known:
                producer.produce("t", "x")
                producer.flush(WAIT_S)

            def note(error: Any, message: Any) -> None:
                seen.append((described(error), message.timestamp()))

            batch: list[dict[str, Any]] = [{"value": "x"}, {"value": "y"}]
            return [
                tried(lambda: producer.produce("t", "x", partition=partition, on_delivery=note)),
                tried(lambda: producer.produce_batch("t", batch, partition, on_delivery=note)),
                producer.flush(3),
                seen,
                [described(each.get("_error")) for each in batch],
            ]

        assert_same(use)


def test_reports_of_delivered_messages(cluster: MockCluster) -> None:
    def use(lib: Lib) -> Any:
        seen: list[Any] = []
        producer = lib.Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        producer.produce("t", "v", "k", 0, report_to(seen), timestamp=5, headers={"a": b"b"})
        producer.flush(WAIT_S)
        return seen

    assert_same(use)


@pytest.mark.parametrize("end", ["purge", "timeout"])
def test_reports_of_messages_that_were_never_sent(end: str) -> None:
    def use(lib: Lib) -> Any:
        seen: list[Any] = []
        producer = lib.Producer({**NOWHERE, "message.timeout.ms": 500})
        producer.produce("t", "v", "k", -1, report_to(seen), timestamp=5, headers={"a": b"b"})
        if end == "purge":
            producer.purge()
        producer.flush(WAIT_S)
        return seen

    assert_same(use)


def test_callback_that_is_not_callable_fails_at_delivery(cluster: MockCluster) -> None:
    """The original raises a SystemError, which is a flaw. We raise the TypeError of the call."""
    for lib in BOTH:
        producer = lib.Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        producer.produce("t", "v", on_delivery=5)
        with pytest.raises((SystemError, TypeError)):
            producer.flush(WAIT_S)
        assert producer.flush(WAIT_S) == 0


CALLS: list[tuple[str, tuple[Any, ...]]] = [
    ("poll", ("0",)), ("poll", (None,)), ("poll", (0, 0)), ("poll", (True,)), ("flush", ("0",)),
    ("flush", (None,)), ("flush", (0, 0)), ("purge", (1, 2, 3)), ("purge", (None, None, None)),
    ("purge", (1, 1, 1, 1)), ("list_topics", (5,)), ("list_topics", (None, "x")),
    ("list_topics", (None, None)), ("cluster_id", ("x",)), ("cluster_id", (None,)),
    ("set_sasl_credentials", (1, 2)), ("set_sasl_credentials", ("a", "b")),
    ("init_transactions", ()), ("begin_transaction", ()), ("begin_transaction", (1,)),
    ("commit_transaction", ()), ("abort_transaction", ()), ("send_offsets_to_transaction", ()),
    ("close", (1,)), ("close", ("x",)), ("close", ()), ("__exit__", (None, None, None)),
    ("__exit__", ()), ("__len__", ()), ("__bool__", ()), ("__enter__", ()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), CALLS, ids=str)
@pytest.mark.parametrize("state", ["open", "closed"])
def test_other_calls(cluster: MockCluster, state: str, name: str, args: tuple[Any, ...]) -> None:
    def use(lib: Lib) -> Any:
        producer = lib.Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        if state == "closed":
            producer.close()
        return getattr(producer, name)(*args)

    assert_same(use)


@pytest.mark.parametrize("gapless", [False, True])
def test_fatal_error_is_raised_by_poll(gapless: bool) -> None:
    code = KafkaError.INVALID_RECORD if gapless else KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER

    def use(lib: Lib) -> Any:
        heard: list[Any] = []
        raised: list[Any] = []
        with MockCluster(brokers=1) as cluster:
            cluster.create_topic("t", 1)
            conf = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
            conf |= {"enable.idempotence": True, "enable.gapless.guarantee": gapless}
            producer = lib.Producer({**conf, "error_cb": heard.append})
            producer.produce("t", "x")
            producer.flush(WAIT_S)
            cluster.push_request_errors(ApiKey.PRODUCE, [code])
            producer.produce("t", "y")

            def poll() -> bool:
                outcome = tried(lambda: producer.poll(0.1))
                raised.extend([outcome] if isinstance(outcome, tuple) else [])
                return bool(raised)

            wait_for(poll)
            after = tried(lambda: producer.produce("t", "z"))
            return [raised, after, tried(lambda: producer.flush(1)), heard]

    assert_same(use)


@pytest.mark.parametrize("call", ["produce", "produce_batch"])
def test_topic_that_is_known_to_be_missing(cluster: MockCluster, call: str) -> None:
    def use(lib: Lib) -> Any:
        producer = lib.Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        seen: list[Any] = []
        for topic in ("", "a b", "x" * 512, "x" * 513):
            for _ in range(2):
                batch = [{"value": b"v"}]
                if call == "produce":
                    result = tried(lambda: producer.produce(topic, b"v", callback=report_to(seen)))  # noqa: B023
                else:
                    result = tried(lambda: producer.produce_batch(topic, batch))  # noqa: B023
                left = producer.flush(WAIT_S)
                seen.append((result, left, described(batch[0].get("_error"))))
        return seen

    assert_same(use)


def test_topic_that_the_cluster_does_not_have_is_reported_then_refused() -> None:
    def use(lib: Lib) -> Any:
        with MockCluster(brokers=1) as cluster:
            cluster.push_request_errors(ApiKey.METADATA, [3] * 100, topic="new")
            producer = lib.Producer(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "topic.metadata.propagation.max.ms": 300,
                    "log_level": 0,
                }
            )
            seen: list[Any] = []
            producer.produce("new", b"v", callback=report_to(seen))
            producer.flush(WAIT_S)
            return seen, tried(lambda: producer.produce("new", b"v"))

    assert_same(use)


def test_texts_of_headers_end_at_a_nul(cluster: MockCluster) -> None:
    def use(lib: Lib) -> Any:
        conf = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0}
        name = f"headers-{lib.__name__}"
        producer = lib.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        headers = [("a\0b", "c\0d"), ("e", b"f\0g"), ("\0", "\0")]
        producer.produce(name, b"v", partition=0, headers=headers, timestamp=-7)
        producer.flush(WAIT_S)
        consumer = lib.Consumer(conf)
        consumer.assign([lib.TopicPartition(name, 0, 0)])
        message = wait_for(lambda: consumer.poll(0.1))
        consumer.close()
        return message.headers(), message.timestamp()

    assert_same(use)


@pytest.mark.parametrize("state", ["closed", "uninitialised"])
@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        ((1,), {}),
        (("t", 1), {}),
        (("t", b"v", 1.5), {}),
        (("t",), {"partition": 1.5}),
        (("t",), {"partition": 2**40}),
        (("t",), {"timestamp": None}),
        (("t",), {"headers": 1}),
        (("t",), {"headers": [(1, b"v")]}),
        (("t\0",), {}),
        (("t",), {}),
    ],
)
def test_wrong_arguments_of_a_closed_producer(
    state: str, args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    def use(lib: Lib) -> Any:
        if state == "closed":
            producer = lib.Producer(NOWHERE)
            producer.close()
        else:
            producer = type("Own", (lib.Producer,), {"__init__": lambda self: None})()
        return tried(lambda: producer.produce(*args, **keywords))

    assert_same(use)


def test_poll_counts_errors_without_error_cb() -> None:
    for lib in BOTH:
        producer = lib.Producer(NOWHERE)
        assert wait_for(lambda: producer.poll(0.5)) > 0  # noqa: B023
