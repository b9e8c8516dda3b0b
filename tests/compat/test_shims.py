"""The classes of `kafka_native.compat.aiokafka` and `kafka_native.compat.kafka`.

A program has the same outcome with their import and with the original one.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import kafka_native.compat.aiokafka as aio_shim
import kafka_native.compat.kafka as kafka_shim
from kafka_native.compat import _options
from kafka_native.mock import ListenerSecurity, MockCluster
from tests.compat.test_guides_of_others import known_properties, outcome, page, programs
from tests.waiting import WAIT_S

MODULES = {"kafka-python": "kafka", "aiokafka": "aiokafka"}

SYNC = """
import json
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

assert issubclass(KafkaTimeoutError, KafkaError)
seen = []
with_json = KafkaProducer(
    bootstrap_servers=["localhost:9092"],
    value_serializer=lambda value: json.dumps(value).encode(),
    key_serializer=str.encode,
    linger_ms=1,
    acks=1,
    client_id="shop",
)
for number in range(6):
    sent = with_json.send("orders", {"number": number}, key=f"k{number}", timestamp_ms=1000 + number)
    sent.add_callback(lambda metadata: seen.append((metadata.topic, metadata.partition)))
print(sent.get(timeout=10).offset, sent.get().timestamp, sent.succeeded(), sent.failed())
with_json.send("orders", None, key="gone", partition=0, headers=[("a", b"b")])
with_json.flush(timeout=10)
print(seen, with_json.partitions_for("orders"))
with_json.close()

consumer = KafkaConsumer(
    "orders",
    bootstrap_servers="localhost:9092",
    auto_offset_reset="earliest",
    consumer_timeout_ms=1000,
    value_deserializer=json.loads,
)
for record in list(consumer)[:6]:
    print(record.key, record.value, record.timestamp, record.timestamp_type, record.headers)
where = TopicPartition("orders", 0)
print(sorted(consumer.assignment()), consumer.position(where), consumer.topics() >= {"orders"})
print(consumer.beginning_offsets([where]), consumer.end_offsets([where]))
consumer.pause(where)
print(consumer.paused())
consumer.seek(where, 4)
print(consumer.poll(timeout_ms=200))
consumer.resume(where)
found = consumer.poll(timeout_ms=5000, max_records=2)
print({each: [record.offset for record in records] for each, records in found.items()})
consumer.close()
"""
ASYNC = """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

assert issubclass(UnknownTopicOrPartitionError, KafkaError)


async def main():
    producer = AIOKafkaProducer(
        bootstrap_servers="localhost:9092", value_serializer=str.encode, compression_type="gzip"
    )
    await producer.start()
    for number in range(6):
        await producer.send("orders", f"v{number}", key=b"k", timestamp_ms=1000 + number)
    metadata = await producer.send_and_wait("orders", "last", partition=0)
    print(metadata.topic, metadata.partition, metadata.offset, metadata.topic_partition)
    print(await producer.partitions_for("orders"))
    await producer.flush()
    await producer.stop()

    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers="localhost:9092",
        auto_offset_reset="earliest",
        value_deserializer=bytes.decode,
    )
    await consumer.start()
    where = TopicPartition("orders", 0)
    record = await consumer.getone()
    print(record.key, record.value, record.timestamp, record.timestamp_type, record.headers)
    print(consumer.assignment(), await consumer.position(where))
    consumer.seek(where, 5)
    found = await consumer.getmany(timeout_ms=5000, max_records=2)
    print({each: [record.value for record in records] for each, records in found.items()})
    consumer.pause(where)
    print(consumer.paused(), await consumer.getmany(timeout_ms=200))
    consumer.resume(where)
    print(await consumer.beginning_offsets([where]), await consumer.end_offsets([where]))
    await consumer.stop()


asyncio.run(main())
"""

SYNC_GROUP = """
from kafka import (
    ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
)
from kafka.errors import KafkaError


class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        if assigned:
            print("assigned", assigned)
            consumer.seek(where, 1)

    def on_partitions_revoked(self, revoked):
        if revoked:
            print("revoked", revoked)


class Broken(Listener):
    def on_partitions_assigned(self, assigned):
        if assigned:
            raise ValueError(assigned)


where = TopicPartition("orders", 0)
options = {"bootstrap_servers": "localhost:9092", "group_id": "billing", "enable_auto_commit": False}
producer = KafkaProducer(bootstrap_servers="localhost:9092", transactional_id="billing-1", retries=9)
producer.init_transactions()
producer.begin_transaction()
for number in range(4):
    producer.send("orders", b"v%d" % number)
producer.commit_transaction()

consumer = KafkaConsumer(**options)
consumer.subscribe(["orders"], listener=Listener())
record = next(consumer)
print(record.offset, consumer.highwater(where), consumer.group_metadata().group_id)
producer.begin_transaction()
producer.send("invoices", record.value)
position = {where: OffsetAndMetadata(record.offset + 1, "", -1)}
producer.send_offsets_to_transaction(position, consumer.group_metadata())
producer.commit_transaction()
print(consumer.committed(where))
producer.begin_transaction()
producer.send_offsets_to_transaction({where: OffsetAndMetadata(3, "", -1)}, "billing")
producer.abort_transaction()
print(consumer.committed(where))
consumer.close()
consumer = KafkaConsumer(**options)
print(consumer.committed(where))
consumer.subscribe(["orders"], listener=Broken())
try:
    while True:
        consumer.poll(100)
except KafkaError as error:
    print(type(error.__cause__))
"""
ASYNC_GROUP = """
import asyncio
from aiokafka import (
    AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
)

where = TopicPartition("orders", 0)


class Listener(ConsumerRebalanceListener):
    async def on_partitions_assigned(self, assigned):
        await asyncio.sleep(0)
        print("assigned", set(assigned))
        consumer.seek(where, 1)

    def on_partitions_revoked(self, revoked):
        if revoked:
            print("revoked", revoked)


class Broken(Listener):
    async def on_partitions_assigned(self, assigned):
        print("raising")
        raise ValueError(assigned)


async def main():
    producer = AIOKafkaProducer(bootstrap_servers="localhost:9092", transactional_id="billing-1")
    await producer.start()
    async with producer.transaction():
        for number in range(4):
            await producer.send("orders", b"v%d" % number)

    global consumer
    for listener in (Listener(), Broken()):
        consumer = AIOKafkaConsumer(
            bootstrap_servers="localhost:9092",
            group_id="billing",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        consumer.subscribe(topics=["orders"], listener=listener)
        await consumer.start()
        record = await consumer.getone()
        print(record.offset, consumer.highwater(where), consumer.subscription())
        async with producer.transaction():
            await producer.send("invoices", record.value)
            await producer.send_offsets_to_transaction({where: record.offset + 1}, "billing")
        print(await consumer.committed(where))
        await producer.begin_transaction()
        await producer.send_offsets_to_transaction({where: OffsetAndMetadata(3, "")}, "billing")
        await producer.abort_transaction()
        print(await consumer.seek_to_committed())
        print((await consumer.getone()).offset)
        await consumer.stop()
    by_hand = AIOKafkaConsumer(bootstrap_servers="localhost:9092", auto_offset_reset="earliest")
    by_hand.assign([where])
    await by_hand.start()
    print(by_hand.assignment(), (await by_hand.getone()).offset)
    await by_hand.stop()
    await producer.stop()


asyncio.run(main())
"""


def shimmed(code: str, module: str) -> str:
    """Change the imports."""
    changed = re.sub(rf"^from {module}\b", f"from kafka_native.compat.{module}", code, flags=re.M)
    assert changed != code
    return changed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("module", "code", "count"),
    [
        ("kafka", SYNC, 7),
        ("aiokafka", ASYNC, 7),
        ("kafka", SYNC_GROUP, 7),
        ("aiokafka", ASYNC_GROUP, 9),
    ],
)
def test_a_program_has_the_same_outcome(module: str, code: str, count: int) -> None:
    pytest.importorskip(module)
    mine = outcome([shimmed(code, module)])
    assert mine == outcome([code])
    assert len(mine[1]) == count


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", MODULES)
def test_the_programs_of_the_guide_run_with_another_import(library: str) -> None:
    module = MODULES[library]
    codes = programs(page(f"from-{library}.md"), library)
    theirs = outcome(codes)
    assert outcome([shimmed(code, module) for code in codes]) == theirs
    assert all(theirs[0])


@pytest.mark.parametrize(
    ("module", "name", "table"),
    [
        ("aiokafka", "AIOKafkaProducer", _options.AIOKAFKA_PRODUCER),
        ("aiokafka", "AIOKafkaConsumer", _options.CONSUMER),
        ("kafka", "KafkaProducer", _options.KAFKA_PRODUCER),
        ("kafka", "KafkaConsumer", _options.KAFKA_CONSUMER),
    ],
)
def test_names_and_options_are_theirs(module: str, name: str, table: dict[str, str]) -> None:
    original = getattr(pytest.importorskip(module), name)
    shim = getattr(importlib.import_module(f"kafka_native.compat.{module}"), name)
    public = {each for each in vars(shim) if not each.startswith("_")}
    assert {each for each in public if not hasattr(original, each)} == set()
    known = getattr(original, "DEFAULT_CONFIG", None) or inspect.signature(original).parameters
    assert set(table) - set(known) == set()
    assert set(table.values()) - known_properties() == set()


@pytest.mark.parametrize("module", MODULES.values())
@pytest.mark.parametrize("kind", ["Producer", "Consumer"])
def test_each_of_their_options_is_taken_or_its_error_says_what_to_do(
    module: str, kind: str
) -> None:
    name = f"AIOKafka{kind}" if module == "aiokafka" else f"Kafka{kind}"
    original = getattr(pytest.importorskip(module), name)
    shim = getattr(importlib.import_module(f"kafka_native.compat.{module}"), name)
    known = getattr(original, "DEFAULT_CONFIG", None) or inspect.signature(original).parameters
    tables = {
        "AIOKafkaProducer": _options.AIOKAFKA_PRODUCER,
        "AIOKafkaConsumer": _options.CONSUMER,
        "KafkaProducer": _options.KAFKA_PRODUCER,
        "KafkaConsumer": _options.KAFKA_CONSUMER,
    }
    own = {"key_serializer", "value_serializer", "key_deserializer", "value_deserializer"}
    own |= {"topics"} if module == "aiokafka" else {"consumer_timeout_ms"}
    for option in set(known) - set(tables[name]) - own:
        with pytest.raises(TypeError, match=f"{option} has no counterpart"):
            shim(**{option: 0})


@pytest.mark.parametrize("module", MODULES.values())
def test_errors_have_their_names_and_codes(module: str) -> None:
    original = pytest.importorskip(f"{module}.errors")
    errors = importlib.import_module(f"kafka_native.compat.{module}.errors")
    for name in errors.__all__:
        found = getattr(errors, name)
        codes = {getattr(each, "errno", None) for each in (found, getattr(original, name, None))}
        if name not in ("BrokerResponseError", "KafkaError"):
            assert len(codes - {None}) <= 1
        assert hasattr(original, name), name


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"group_idd": "a"}, "unknown option group_idd: did you mean group_id?"),
        ({"ssl_context": 1}, "ssl_context has no counterpart in kafka_native: name the files"),
        ({"value_deserializer": 1}, "value_deserializer must be a function of one argument"),
    ],
)
@pytest.mark.parametrize("client", [aio_shim.AIOKafkaConsumer, kafka_shim.KafkaConsumer])
def test_an_option_without_a_counterpart_is_refused(
    client: type[Any], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        client("orders", **options)


def test_properties() -> None:
    found = _options.properties(
        {"bootstrap_servers": ["a:1", "b:2"], "acks": 1, "linger_ms": None, "ssl.ca.pem": "x"},
        _options.AIOKAFKA_PRODUCER,
        _options.DEFAULTS,
    )
    assert found == {
        "partitioner": "murmur2_random",
        "bootstrap.servers": "a:1,b:2",
        "acks": 1,
        "enable.idempotence": False,
        "ssl.ca.pem": "x",
    }
    defaults = {"ssl_context": None, "api_version": None, "ssl_check_hostname": True}
    servers = {"bootstrap.servers": "localhost:9092"}
    assert _options.properties(defaults, _options.CONSUMER, {}) == servers
    with pytest.raises(TypeError, match=r"ssl\.endpoint\.identification\.algorithm"):
        _options.properties({"ssl_check_hostname": False}, _options.KAFKA_CONSUMER, {})
    none = _options.properties({"auto_offset_reset": "none"}, _options.CONSUMER, {})
    assert none == {"auto.offset.reset": "error", "bootstrap.servers": "localhost:9092"}


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 1)
        yield cluster.bootstrap_servers


def test_a_message_that_fails(bootstrap: str) -> None:
    from kafka_native.compat.kafka.errors import (
        KafkaError,
        KafkaTimeoutError,
        MessageSizeTooLargeError,
    )

    failures: list[KafkaError] = []
    with kafka_shim.KafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=0, delivery_timeout_ms=300
    ) as producer:
        with pytest.raises(MessageSizeTooLargeError) as raised:
            producer.send("orders", b"x" * 2_000_000)
        assert raised.value.errno == 10
        lost = producer.send("missing", b"x", partition=99)
        lost.add_errback(failures.append)
        with pytest.raises(KafkaTimeoutError, match="no outcome after 0"):
            lost.get(timeout=0)
        with pytest.raises(KafkaError):
            lost.get()
        assert failures == [lost.exception]
        assert lost.failed()


def test_aiokafka_logs_in_with_plain_by_default() -> None:
    secured = ListenerSecurity("sasl_plaintext", mechanisms=["PLAIN"], users={"shop": "secret"})
    with MockCluster(brokers=1, security=secured) as cluster:
        options = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_plain_username": "shop",
            "sasl_plain_password": "secret",
        }

        async def send_and_read() -> Any:
            async with aio_shim.AIOKafkaProducer(**options) as producer:
                await producer.send_and_wait("orders", b"tea")
            reader = aio_shim.AIOKafkaConsumer("orders", auto_offset_reset="earliest", **options)
            async with reader:
                return (await reader.getone()).value

        assert asyncio.run(asyncio.wait_for(send_and_read(), WAIT_S)) == b"tea"
        assert {login.mechanism for login in cluster.logins} == {"PLAIN"}


def test_a_client_that_is_not_started() -> None:
    from kafka_native.compat.aiokafka.errors import IllegalStateError

    with pytest.raises(IllegalStateError, match="start"):
        asyncio.run(aio_shim.AIOKafkaConsumer("orders").getone())
