"""Timeouts: every method takes any number. More than a year is endless, and NaN is refused."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_native import (
    Client,
    CompactedTopic,
    Consumer,
    Producer,
    ShareConsumer,
    StreamsGroupMember,
    TopicPartition,
)
from kafka_native.admin import AdminClient, NewTopic
from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer
from kafka_native.deadlines import FOR_EVER_S, deadline_of, left_s, seconds
from kafka_native.mock import MockCluster
from kafka_native.streams_group import Subtopology, Topology
from tests.waiting import WAIT_S

LONG = [math.inf, sys.maxsize, 1e10, 2_678_400, 2_147_484, 2_147_483.6]
"""Months, more than 32 bits of milliseconds, more than 64 bits of nanoseconds."""
TOPIC = "t"
Make = Callable[..., Any]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    with MockCluster(brokers=1, two_phase_commit=True, client_metrics=True) as running:
        running.create_topic(TOPIC, 1)
        running.subscribe_metrics(["*"], 60_000)
        running.share.settings.auto_offset_reset = "earliest"
        with Producer({"bootstrap.servers": running.bootstrap_servers}) as producer:
            for number in range(100):
                producer.produce(TOPIC, str(number), str(number))
        yield running


@pytest.fixture
def make(cluster: MockCluster) -> Iterator[Make]:
    """Yield a function that makes clients. They are closed at the end."""
    made: list[Any] = []

    def of(kind: Callable[..., Any], *arguments: Any, **conf: Any) -> Any:
        made.append(kind({"bootstrap.servers": cluster.bootstrap_servers, **conf}, *arguments))
        return made[-1]

    yield of
    for client in made:
        # close() of these is a coroutine
        if not isinstance(client, AIOProducer | AIOConsumer | AIOAdminClient):
            client.close() if isinstance(client, AdminClient | CompactedTopic) else client.close(0)


def consumer(make: Make) -> Any:
    reader = make(Consumer, **{"group.id": "g", "fetch.wait.max.ms": 20})
    reader.assign([TopicPartition(TOPIC, 0, 0)])
    return reader


def producer(make: Make, **conf: Any) -> Any:
    writer = make(Producer, **conf)
    writer.produce(TOPIC, b"x")
    return writer


def two_phase(transactional_id: str) -> dict[str, Any]:
    """Return settings for transactions that can be prepared."""
    return {"transactional.id": transactional_id, "transaction.two.phase.commit.enable": True}


def transacting(make: Make, timeout: float = WAIT_S) -> Any:
    """Return a producer in a transaction with a message."""
    writer = make(Producer, **two_phase(f"x{next(_numbers)}"))
    writer.init_transactions(timeout)
    writer.begin_transaction()
    writer.produce(TOPIC, b"x")
    return writer


def send_offsets(make: Make, timeout: float) -> None:
    writer = transacting(make)
    writer.send_offsets_to_transaction(
        [TopicPartition(TOPIC, 0, 1)], consumer(make).consumer_group_metadata(), timeout
    )
    writer.abort_transaction(timeout)


def end_block(make: Make, timeout: float) -> None:
    writer = transacting(make)
    writer.abort_transaction(timeout)
    with writer.transaction(timeout=timeout):
        writer.produce(TOPIC, b"y")


def complete(make: Make, timeout: float) -> None:
    first = transacting(make)
    state = first.prepare_transaction(timeout)
    successor = make(Producer, **two_phase(first._client.config["transactional.id"]))
    successor.init_transactions(timeout, keep_prepared_txn=True)
    successor.complete_transaction(state, timeout)


def sharing(make: Make) -> Any:
    reader = make(ShareConsumer, **{"group.id": f"s{next(_numbers)}"})
    reader.subscribe([TOPIC])
    return reader


def commit_shared(make: Make, timeout: float) -> None:
    reader = sharing(make)
    assert reader.poll(WAIT_S)
    reader.commit_sync(timeout)


def streaming(make: Make) -> Any:
    topology = Topology([Subtopology("0", source_topics=[TOPIC])])
    return make(
        lambda conf: StreamsGroupMember(conf, topology), **{"group.id": f"t{next(_numbers)}"}
    )


def commit_streaming(make: Make, timeout: float) -> None:
    member = streaming(make)
    assert member.poll(WAIT_S)
    member.commit([TopicPartition(TOPIC, 0, 1)], timeout)


def compacted(make: Make) -> Any:
    return make(CompactedTopic, TOPIC)


def with_role(make: Make) -> Any:
    client = make(Client)
    client.producer().produce(TOPIC, b"x")
    return client


def callback_poll(client: Any, timeout: float) -> None:
    client._client.callbacks.put(lambda: None)
    assert client.poll(timeout) == 1


CALLS: dict[type, dict[str, Callable[[Make, float], object]]] = {
    Producer: {
        "abort_transaction": lambda make, timeout: transacting(make).abort_transaction(timeout),
        "client_instance_id": lambda make, timeout: make(Producer).client_instance_id(timeout),
        "close": lambda make, timeout: producer(make).close(timeout),
        "cluster_id": lambda make, timeout: make(Producer).cluster_id(timeout),
        "commit_transaction": lambda make, timeout: transacting(make).commit_transaction(timeout),
        "complete_transaction": complete,
        "flush": lambda make, timeout: producer(make).flush(timeout),
        "init_transactions": transacting,
        "list_topics": lambda make, timeout: make(Producer).list_topics(TOPIC, timeout),
        "poll": lambda make, timeout: producer(make).poll(timeout),
        "prepare_transaction": complete,
        "produce_arrow": lambda make, timeout: make(Producer).produce_arrow(
            TOPIC, consumer(make).consume_arrow(1, WAIT_S, columns=["value"]), timeout=timeout
        ),
        "send_offsets_to_transaction": send_offsets,
        "transaction": end_block,
    },
    Consumer: {
        "arrow_stream": lambda make, timeout: next(iter(consumer(make).arrow_stream(1, timeout))),
        "client_instance_id": lambda make, timeout: consumer(make).client_instance_id(timeout),
        "close": lambda make, timeout: consumer(make).close(timeout),
        "cluster_id": lambda make, timeout: consumer(make).cluster_id(timeout),
        "committed": lambda make, timeout: consumer(make).committed(
            [TopicPartition(TOPIC, 0)], timeout
        ),
        "consume": lambda make, timeout: consumer(make).consume(3, timeout),
        "consume_arrow": lambda make, timeout: consumer(make).consume_arrow(3, timeout),
        "consume_callback": lambda make, timeout: consumer(make).consume_callback(
            lambda message: None, 3, timeout
        ),
        "get_watermark_offsets": lambda make, timeout: consumer(make).get_watermark_offsets(
            TopicPartition(TOPIC, 0), timeout
        ),
        "list_topics": lambda make, timeout: consumer(make).list_topics(TOPIC, timeout),
        "offsets_for_times": lambda make, timeout: consumer(make).offsets_for_times(
            [TopicPartition(TOPIC, 0, 0)], timeout
        ),
        "poll": lambda make, timeout: consumer(make).poll(timeout).value(),
        "seek_to_time": lambda make, timeout: consumer(make).seek_to_time(0, timeout=timeout),
    },
    ShareConsumer: {
        "client_instance_id": lambda make, timeout: sharing(make).client_instance_id(timeout),
        "close": lambda make, timeout: sharing(make).close(timeout),
        "commit_sync": commit_shared,
        "consume_arrow": lambda make, timeout: sharing(make).consume_arrow(timeout),
        "poll": lambda make, timeout: sharing(make).poll(timeout),
    },
    StreamsGroupMember: {
        "client_instance_id": lambda make, timeout: streaming(make).client_instance_id(timeout),
        "close": lambda make, timeout: streaming(make).close(timeout),
        "commit": commit_streaming,
        "poll": lambda make, timeout: streaming(make).poll(timeout),
    },
    Client: {
        "aclose": lambda make, timeout: asyncio.run(with_role(make).aclose(timeout)),
        "close": lambda make, timeout: with_role(make).close(timeout),
        "poll": lambda make, timeout: callback_poll(make(Client), timeout),
    },
    CompactedTopic: {
        "poll": lambda make, timeout: compacted(make).poll(timeout),
        "scan": lambda make, timeout: compacted(make).scan(timeout),
    },
    AdminClient: {
        "client_instance_id": lambda make, timeout: make(AdminClient).client_instance_id(timeout),
        "cluster_id": lambda make, timeout: make(AdminClient).cluster_id(timeout),
        "list_groups": lambda make, timeout: make(AdminClient).list_groups(timeout=timeout),
        "list_topics": lambda make, timeout: make(AdminClient).list_topics(timeout=timeout),
        "poll": lambda make, timeout: callback_poll(make(AdminClient), timeout),
    },
}
WAITS = [(kind, name) for kind, calls in CALLS.items() for name in calls]
NAMES = [f"{kind.__name__}.{name}" for kind, name in WAITS]


def methods_with(kind: type, parameter: str) -> set[str]:
    """Return the public methods that have such a parameter."""
    methods = inspect.getmembers(kind, lambda each: inspect.isroutine(each))
    return {
        name
        for name, each in methods
        if not name.startswith("_") and parameter in inspect.signature(each).parameters
    }


@pytest.mark.parametrize("kind", CALLS)
def test_every_call_with_a_timeout_is_tried(kind: type) -> None:
    assert methods_with(kind, "timeout") == set(CALLS[kind])


def check_ends(work: Callable[[], object]) -> None:
    """Check that a function ends, in its own thread, so that a hang doesn't stop the tests."""
    outcome: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert outcome, "the call hangs although the response has arrived"
    if outcome[0] is not None:
        raise outcome[0]


@pytest.mark.parametrize(("kind", "name"), WAITS, ids=NAMES)
def test_long_timeouts_are_taken(make: Make, kind: type, name: str) -> None:
    for timeout in LONG:
        check_ends(lambda timeout=timeout: CALLS[kind][name](make, timeout))


@pytest.mark.parametrize(("kind", "name"), WAITS, ids=NAMES)
def test_nan_is_refused(make: Make, kind: type, name: str) -> None:
    with pytest.raises(ValueError, match="isn't a number"):
        check_ends(lambda: CALLS[kind][name](make, math.nan))


def test_endless_waits_without_events_use_no_cpu(make: Make) -> None:
    reader, idle = make(Consumer, **{"group.id": "g", "fetch.wait.max.ms": 20}), make(Producer)
    reader.assign([])
    waits: list[Callable[[], object]] = [
        lambda: idle.poll(math.inf),
        lambda: reader.poll(math.inf),
        lambda: make(AdminClient).poll(math.inf),
    ]
    for wait in waits:
        thread = threading.Thread(target=wait, daemon=True)
        busy = time.thread_time()
        thread.start()
        thread.join(0.3)
        assert thread.is_alive(), "the call returned without an event"
        assert time.thread_time() - busy < 0.3
    reader.wakeup()
    idle.close(0)


def test_coroutines_take_long_timeouts(make: Make) -> None:
    async def main(timeout: float) -> None:
        writer, reader, admin = (
            make(AIOProducer),
            make(AIOConsumer, **{"group.id": "g", "fetch.wait.max.ms": 20}),
            make(AIOAdminClient),
        )
        await reader.assign([TopicPartition(TOPIC, 0, 0)])
        await writer.produce(TOPIC, b"x")
        assert await writer.flush(timeout) == 0
        await writer.produce(TOPIC, b"x")
        assert await writer.poll(timeout) >= 1
        message = await reader.poll(timeout)
        assert message is not None
        assert message.error() is None
        assert len(await reader.consume(2, timeout)) == 2
        batch = await reader.consume_arrow(1, timeout, columns=["value"])
        assert (await (await writer.produce_arrow(TOPIC, batch, timeout=timeout))).delivered == 1
        assert len(await anext(reader.arrow_stream(1, timeout))) == 1
        where = TopicPartition(TOPIC, 0, 0)
        for call in (
            writer.list_topics(TOPIC, timeout),
            reader.cluster_id(timeout),
            reader.committed([where], timeout),
            reader.get_watermark_offsets(where, timeout),
            reader.offsets_for_times([where], timeout),
            reader.seek_to_time(0, timeout=timeout),
            admin.list_groups(timeout=timeout),
        ):
            await call
        await writer.close(timeout)
        await reader.close(timeout)
        await admin.close()

    async def transact(timeout: float) -> None:
        writer = make(AIOProducer, **{"transactional.id": "aio"})
        await writer.init_transactions(timeout)
        await writer.begin_transaction()
        await writer.produce(TOPIC, b"x")
        await writer.commit_transaction(timeout)
        await writer.begin_transaction()
        await writer.abort_transaction(timeout)
        await writer.close(timeout)

    for timeout in LONG:
        asyncio.run(asyncio.wait_for(main(timeout), WAIT_S))
        asyncio.run(asyncio.wait_for(transact(timeout), WAIT_S))


def test_options_and_futures_of_an_admin_client_take_long_timeouts(make: Make) -> None:
    client = make(AdminClient)
    for number, timeout in enumerate(LONG):
        topic = f"made-{number}"
        made = client.create_topics(
            [NewTopic(topic, 1)], request_timeout=timeout, operation_timeout=timeout
        )[topic]
        check_ends(lambda made=made, timeout=timeout: made.result(timeout))
        assert made.exception(timeout) is None
        gone = client.delete_topics([topic], request_timeout=timeout)[topic]
        check_ends(lambda gone=gone, timeout=timeout: gone.result(timeout))
    for bad in (math.nan, -2, -math.inf):
        with pytest.raises(ValueError, match="request_timeout"):
            client.delete_topics([TOPIC], request_timeout=bad)


def test_seconds_and_deadlines_of_timeouts() -> None:
    for for_ever in (None, -1, -0.001, -math.inf, math.inf, FOR_EVER_S + 1, sys.maxsize, 10**400):
        assert seconds(for_ever) == -1
        assert deadline_of(for_ever) is None
    for bounded in (0, 0.5, 86_400, FOR_EVER_S):
        assert seconds(bounded) == bounded
        assert 0 <= bounded - left_s(deadline_of(bounded)) < WAIT_S
    with pytest.raises(ValueError, match="isn't a number"):
        seconds(math.nan)
    with pytest.raises(TypeError, match="must be a number of seconds, not str"):
        seconds("1")  # type: ignore[arg-type]
