"""A client without references ends and frees everything, even if its callbacks refer to it."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafka_native import (
    Consumer,
    DeserializingConsumer,
    KafkaException,
    Producer,
    SerializingProducer,
    ShareConsumer,
    TopicPartition,
)
from kafka_native._native.engine import live_objects
from kafka_native.admin import AdminClient
from kafka_native.aio import AIOAdminClient, AIOConsumer, AIOProducer
from kafka_native.control.group.membership import LEAVE_TIMEOUT_S
from kafka_native.interceptors import ConsumerInterceptor, ProducerInterceptor
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import WAIT_S, wait_for

from .support import Client, client_threads, deliver

TOPIC = "dropped"


@pytest.fixture(scope="module", autouse=True)
def topic(cluster: MockCluster) -> None:
    cluster.create_topic(TOPIC, 1)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        producer.produce(TOPIC, b"x")


class Owner:
    """It owns a client whose callback is its method, as in most applications."""

    client: Any

    def called(self, *args: Any, **kwargs: Any) -> Any:
        return None


class OwnInterceptor(Owner, ProducerInterceptor, ConsumerInterceptor):
    """An interceptor of its own client's messages."""


_numbers = itertools.count()


def _group() -> str:
    return f"dropped-{next(_numbers)}"


Start = Callable[[Owner, dict[str, Any]], Any]


def _producer(owner: Owner, conf: dict[str, Any]) -> Any:
    producer = Producer(conf)
    deliver(producer, TOPIC, b"x", partition=0)
    return producer


def _consumer(owner: Owner, conf: dict[str, Any]) -> Any:
    consumer = Consumer({"group.id": "dropped", "auto.offset.reset": "earliest", **conf})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    assert consumer.poll(WAIT_S) is not None
    return consumer


def _commits(owner: Owner, conf: dict[str, Any]) -> Any:
    consumer = _consumer(owner, {**conf, "on_commit": owner.called})
    consumer.commit(asynchronous=True)
    return consumer


def _member(protocol: str) -> Start:
    def start(owner: Owner, conf: dict[str, Any]) -> Any:
        group = {"group.id": _group(), "auto.offset.reset": "earliest", "group.protocol": protocol}
        consumer = Consumer({**group, **conf})
        consumer.subscribe(
            [TOPIC], on_assign=owner.called, on_revoke=owner.called, on_lost=owner.called
        )
        assert consumer.poll(WAIT_S) is not None
        return consumer

    return start


def _sharing(owner: Owner, conf: dict[str, Any]) -> Any:
    consumer = ShareConsumer({"group.id": "dropped-share", **conf})
    consumer.set_acknowledgement_commit_callback(owner.called)
    consumer.subscribe([TOPIC])
    consumer.poll(0.1)
    return consumer


def _admin(owner: Owner, conf: dict[str, Any]) -> Any:
    admin = AdminClient(conf)
    admin.list_topics(timeout=WAIT_S)
    return admin


def _unserved(produce: Callable[[Producer, Owner], Any]) -> Start:
    def start(owner: Owner, conf: dict[str, Any]) -> Any:
        producer = Producer({**conf, "linger.ms": 0})
        produce(producer, owner)
        time.sleep(0.1)  # no poll() serves the report, whether or not the message is delivered
        return producer

    return start


def _unsent(owner: Owner, conf: dict[str, Any]) -> Any:
    producer = Producer({**conf, "linger.ms": 100_000})
    for _ in range(20):
        producer.produce(TOPIC, b"x", on_delivery=owner.called)
    return producer


def _rows(producer: Producer, owner: Owner) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    producer.produce_arrow(TOPIC, pyarrow.table({"value": [b"x"] * 5}), on_delivery=owner.called)


def _refused(owner: Owner, conf: dict[str, Any]) -> Any:
    """Leave a call of error_cb in the queue: no server listens, and no poll() follows."""
    producer = Producer({**conf, "bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(KafkaException):
        producer.list_topics(timeout=0.5)
    assert producer._client.engine.callbacks
    return producer


def _in_loop(start: Callable[[Owner, dict[str, Any]], Any]) -> Start:
    def run(owner: Owner, conf: dict[str, Any]) -> Any:
        async def main() -> Any:
            client = start(owner, conf)
            if isinstance(client, AIOProducer):
                await (await client.produce(TOPIC, b"x", on_delivery=owner.called))
            elif isinstance(client, AIOConsumer):
                await client.subscribe([TOPIC], on_assign=owner.called)
                assert await client.poll(WAIT_S) is not None
            else:
                await client.list_topics(timeout=WAIT_S)
            return client

        return asyncio.run(main())

    return run


def _with(start: Start, *names: str, **conf: Any) -> Start:
    return lambda owner, given: start(
        owner, {**given, **conf, **dict.fromkeys(names, owner.called)}
    )


SASL = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
STARTS: dict[str, Start] = {
    **{
        f"{kind}: {name}": _with(start, name)
        for kind, start in {
            "producer": _producer,
            "consumer": _consumer,
            "admin": _admin,
            "share": _sharing,
        }.items()
        for name in ("error_cb", "stats_cb", "throttle_cb", "log_cb")
        if (kind, name) != ("share", "stats_cb")
    },
    "producer: on_delivery": _with(_producer, "on_delivery"),
    "producer: partitioner_cb": _with(_unsent, "error_cb", partitioner_cb=lambda *_: 0),
    "producer: stats": _with(_producer, "stats_cb", **{"statistics.interval.ms": 10}),
    "producer: log.queue": _with(_producer, "log_cb", **{"log.queue": True, "debug": "all"}),
    "producer: debug": _with(_producer, "log_cb", debug="all"),
    "producer: oauth_cb": lambda owner, conf: Producer({**conf, **SASL, "oauth_cb": owner.called}),
    "producer: interceptors": lambda owner, conf: _producer(
        owner, {**conf, "interceptors": [owner]}
    ),
    "producer: unserved produce()": _unserved(
        lambda p, owner: p.produce(TOPIC, b"x", on_delivery=owner.called)
    ),
    "producer: unserved many": _unserved(
        lambda p, owner: p.produce_many(TOPIC, [b"x"] * 9, on_delivery=owner.called)
    ),
    "producer: unserved batch": _unserved(
        lambda p, owner: p.produce_batch(TOPIC, [{"value": b"x"}] * 9, on_delivery=owner.called)
    ),
    "producer: unserved rows": _unserved(_rows),
    "producer: unsent": _unsent,
    "producer: error_cb unserved": _with(_refused, "error_cb"),
    "consumer: interceptors": lambda owner, conf: _consumer(
        owner, {**conf, "interceptors": [owner]}
    ),
    "serializing producer": _with(
        lambda owner, conf: SerializingProducer(conf),
        "error_cb",
        "key.serializer",
        "value.serializer",
    ),
    "deserializing consumer": _with(
        lambda owner, conf: DeserializingConsumer({"group.id": "dropped", **conf}),
        "error_cb",
        "key.deserializer",
        "value.deserializer",
    ),
    "consumer: on_commit": _commits,
    "consumer: classic group": _member("classic"),
    "consumer: consumer group": _member("consumer"),
    "aio producer": _in_loop(
        _with(lambda owner, conf: AIOProducer(conf), "error_cb", "on_delivery", "log_cb")
    ),
    "aio consumer": _in_loop(
        _with(
            lambda owner, conf: AIOConsumer(
                {"group.id": _group(), "auto.offset.reset": "earliest", **conf}
            ),
            "error_cb",
            "on_commit",
            "log_cb",
        )
    ),
    "aio admin": _in_loop(_with(lambda owner, conf: AIOAdminClient(conf), "error_cb", "log_cb")),
}


def _descriptors() -> int:
    """Return the number of eventfds. Each client has some, and the mock cluster has none."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            found += "eventfd" in str(each.readlink())
    return found


linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="counts the descriptors in /proc"
)


def _wait_collecting(done: Callable[[], bool], what: str | Callable[[], str] = "") -> None:
    """Run the garbage collector until the condition is true."""

    def is_done_after_collection() -> bool:
        gc.collect()
        return done()

    wait_for(is_done_after_collection, what)


def _wait_threads_ended(before: set[str], wait: Callable[..., Any] = wait_for) -> None:
    """Wait until only these threads of clients run."""
    wait(lambda: client_threads() <= before, lambda: f"{client_threads() - before} run")


def _own(start: Start, conf: dict[str, Any]) -> weakref.ref[Owner]:
    owner = OwnInterceptor()
    owner.client = start(owner, conf)
    return weakref.ref(owner)


@pytest.mark.parametrize("kind", STARTS)
def test_an_owner_with_callbacks_is_collected_with_its_client(client: Client, kind: str):
    gc.collect()
    threads, engines = client_threads(), live_objects()["engines"]
    gone = [_own(STARTS[kind], {"bootstrap.servers": client.bootstrap}) for _ in range(2)]
    assert client_threads() - threads
    _wait_collecting(lambda: not any(each() for each in gone), "the owner is alive")
    _wait_threads_ended(threads, _wait_collecting)
    _wait_collecting(lambda: live_objects()["engines"] <= engines, "an engine is alive")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_is_dropped_leaves_its_group(client: Client, protocol: str):
    owner = Owner()
    group = f"left-{protocol}"
    owner.client = _member(protocol)(
        owner, {"bootstrap.servers": client.bootstrap, "group.id": group}
    )
    admin = AdminClient({"bootstrap.servers": client.bootstrap})

    def members() -> int:
        return len(admin.describe_consumer_groups([group])[group].result(WAIT_S).members)

    assert members() == 1
    del owner
    gc.collect()
    _wait_collecting(lambda: members() == 0)
    admin.close()


CLOSED: dict[str, Start] = {
    "producer": _producer,
    "producer with reports": _unserved(
        lambda p, owner: p.produce(TOPIC, b"x", on_delivery=owner.called)
    ),
    "producer with unsent messages": _unsent,
    "consumer": _consumer,
    "member": _member("classic"),
    "share consumer": _sharing,
    "admin": _admin,
    "serializing producer": STARTS["serializing producer"],
    "deserializing consumer": STARTS["deserializing consumer"],
}


def _close(client: Any) -> None:
    if isinstance(client, Producer):
        client.close(0)
    else:
        client.close()


@linux
@pytest.mark.parametrize("kind", [*CLOSED, "aio producer", "aio consumer", "aio admin"])
def test_close_frees_without_the_collector(client: Client, kind: str, collector_off: None):
    """This holds even while a reference to the closed client remains."""
    # the first clients import modules and fill caches, which is no leak
    kept = [_opened_and_closed(client, kind) for _ in range(2)]
    threads, descriptors, live = client_threads(), _descriptors(), live_objects()
    kept += [_opened_and_closed(client, kind) for _ in range(3)]
    _wait_threads_ended(threads)
    wait_for(lambda: _descriptors() <= descriptors)
    left = live_objects()
    left["cursors"] = live["cursors"]  # the closed clients keep them
    assert left == live


def _opened_and_closed(client: Client, kind: str) -> Any:
    conf = {"bootstrap.servers": client.bootstrap}
    if kind in CLOSED:
        opened = CLOSED[kind](Owner(), conf)
        _close(opened)
        return opened

    async def main() -> Any:
        group = {"group.id": _group(), "auto.offset.reset": "earliest"}
        if kind == "aio producer":
            opened: Any = AIOProducer(conf)
            await (await opened.produce(TOPIC, b"x"))
        elif kind == "aio consumer":
            opened = AIOConsumer({**conf, **group})
            await opened.subscribe([TOPIC])
            assert await opened.poll(WAIT_S) is not None
        else:
            opened = AIOAdminClient(conf)
            await opened.list_topics(timeout=WAIT_S)
        await opened.close()
        return opened

    return asyncio.run(main())


@linux
def test_closing_a_client_while_threads_wait_in_it(client: Client, collector_off: None):
    """Its descriptors are closed when the last thread has returned."""
    descriptors = _descriptors()
    consumer = client.consumer(**{"group.id": _group()})
    consumer.assign([TopicPartition(TOPIC, 0, 1_000_000)])
    waiting = [threading.Thread(target=consumer.poll, args=(WAIT_S,)) for _ in range(3)]
    for each in waiting:
        each.start()
    time.sleep(0.2)
    consumer.close()
    for each in waiting:
        each.join(WAIT_S)
        assert not each.is_alive()
    wait_for(lambda: _descriptors() <= descriptors)


@pytest.fixture
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def unraised(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the exceptions of destructors and threads."""
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    monkeypatch.setattr(threading, "excepthook", raised.append)
    return raised


def _drop_in_its_own_thread(conf: dict[str, Any]) -> None:
    """A callback of a future drops the last reference."""
    admin = AdminClient(conf)
    future = admin.list_consumer_groups()
    holder: list[Any] = [admin]
    del admin
    future.add_done_callback(lambda _: holder.clear())
    wait_for(lambda: not holder)


def _close_in_its_own_thread(conf: dict[str, Any]) -> None:
    admin = AdminClient(conf)
    admin.list_consumer_groups().add_done_callback(lambda _: admin.close())
    wait_for(lambda: admin._closed)


def _collect_in_anothers_thread(conf: dict[str, Any]) -> None:
    """The garbage collector runs on the control thread of an unrelated client."""
    for start in (_producer, _member("consumer"), _admin, _sharing):
        _own(_with(start, "error_cb", "log_cb"), conf)
    with AdminClient(conf) as other:
        collected: list[int] = []
        other.list_consumer_groups().add_done_callback(lambda _: collected.append(gc.collect()))
        wait_for(lambda: bool(collected))


def _drop_in_the_log_thread(conf: dict[str, Any]) -> None:
    holder: list[Any] = []

    def log_cb(*args: object) -> None:
        if holder:
            holder.clear()

    holder.append(Producer({**conf, "debug": "all", "log_cb": log_cb}))
    holder[0].list_topics(timeout=WAIT_S)
    wait_for(lambda: not holder)


def _drop_in_the_security_thread(conf: dict[str, Any]) -> None:
    holder: list[Any] = []

    def oauth_cb(_: str) -> tuple[str, float]:
        wait_for(lambda: bool(holder))
        holder.clear()
        return "token", time.time() + 1000

    holder.append(Producer({**conf, **SASL, "oauth_cb": oauth_cb}))
    wait_for(lambda: not holder)


def _drop_after_an_asynchronous_commit(conf: dict[str, Any]) -> None:
    _commits(Owner(), conf)


@pytest.mark.parametrize(
    "drop",
    [
        _drop_in_its_own_thread,
        _close_in_its_own_thread,
        _collect_in_anothers_thread,
        _drop_in_the_log_thread,
        _drop_in_the_security_thread,
        _drop_after_an_asynchronous_commit,
    ],
)
def test_a_destructor_does_not_deadlock_with_its_thread(
    client: Client, unraised: list[Any], collector_off: None, drop: Callable[[dict[str, Any]], None]
):
    threads = client_threads()
    drop({"bootstrap.servers": client.bootstrap})
    _wait_threads_ended(threads)
    assert unraised == []


def test_a_destructor_does_not_wait_for_a_silent_cluster(cluster: MockCluster, client: Client):
    threads = client_threads()
    # the timeout of its control thread
    conf = {"bootstrap.servers": client.bootstrap, "socket.timeout.ms": 1000}
    consumer = _member("classic")(Owner(), conf)
    cluster.delay_responses(None, WAIT_S, ApiKey.LEAVE_GROUP)
    try:
        began = time.monotonic()
        del consumer
        assert time.monotonic() - began < LEAVE_TIMEOUT_S
    finally:
        cluster.faults.clear()
    _wait_threads_ended(threads, _wait_collecting)


COME_BACK = 20
COSTS_MAX_BYTES = 16 << 10
"""Much less than the requests that a broker's thread prepares, or its histograms."""


class Heap(ctypes.Structure):
    """The result of mallinfo2()."""

    _fields_ = [(f"field{number}", ctypes.c_size_t) for number in range(10)]


def _allocated_bytes() -> int:
    """Return how many bytes malloc() has given out."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = Heap
    gc.collect()
    return int(mallinfo2().field7)


@linux
def test_a_broker_that_leaves_and_comes_back_costs_neither_descriptors_nor_memory(client: Client):
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("mallinfo2() needs glibc 2.33")
    fenced = client.cluster.broker_ids[-1]
    topic = client.topic(1)
    client.cluster.move_leader(topic, 0, fenced)

    def is_known(producer: Producer) -> bool:
        producer.list_topics(timeout=WAIT_S)
        return fenced in producer._client.main.pool.nodes

    def remove_and_restore(producer: Producer) -> int:
        producer.produce(topic, b"v", partition=0)
        assert producer.flush(WAIT_S) == 0
        client.cluster.remove_broker(fenced)
        wait_for(lambda: not is_known(producer))
        client.cluster.broker_up(fenced)
        wait_for(lambda: is_known(producer))
        client.cluster.move_leader(topic, 0, fenced)
        return _descriptors()

    with client.producer(**{"statistics.interval.ms": 600_000}, stats_cb=print) as producer:
        wait_for(lambda: is_known(producer))
        descriptors = remove_and_restore(producer)
        for _ in range(5):
            # the next thread may start before the last one has ended
            assert remove_and_restore(producer) <= descriptors + 1
        allocated_bytes = _allocated_bytes()
        for _ in range(COME_BACK):
            remove_and_restore(producer)
        costs_bytes = (_allocated_bytes() - allocated_bytes) / COME_BACK
        assert costs_bytes < COSTS_MAX_BYTES
