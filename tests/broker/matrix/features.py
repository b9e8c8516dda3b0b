"""The columns of the matrix: what each feature must do with a broker of a release.

A check returns the note of its cell, or an empty text. It raises AssertionError (or any other
exception) if the feature doesn't work. Where a release lacks the feature, the check requires a
clear error at once, and raises Missing.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType
from typing import Any

import confluent_kafka

import kafka_native
from kafka_native import KafkaError, KafkaException, TopicPartition
from kafka_native.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from tests.broker.cluster import quiet
from tests.broker.matrix.brokers import PASSWORD, USER, Broker
from tests.broker.support import CODECS, flush, read
from tests.harness.processes import output
from tests.waiting import WAIT_S, poll_until, wait_for

COUNT = 50
FIRST_MS = 1_700_000_000_000
EARLIEST = MappingProxyType({"auto.offset.reset": "earliest"})
numbers = itertools.count()


class Missing(Exception):
    """The release doesn't have the feature, and the client says so. The text is its error."""


Check = Callable[[Broker], str]


def new_name(kind: str) -> str:
    """Return a name that no other check uses."""
    return f"{kind}-{next(numbers)}"


def producer_of(broker: Broker, **config: Any) -> kafka_native.Producer:
    """Return a producer of ours."""
    base = {**broker.our_config, "message.timeout.ms": int(WAIT_S * 1000), "linger.ms": 2}
    return kafka_native.Producer(base | dotted(config))


def dotted(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return `linger_ms=5` as `{"linger.ms": 5}`. Callbacks keep their names."""
    return {
        name if callable(value) else name.replace("_", "."): value for name, value in config.items()
    }


def witness_of(broker: Broker, **config: Any) -> confluent_kafka.Consumer:
    """Return a consumer of librdkafka."""
    base = {**broker.client_config, "group.id": "witness", "enable.auto.commit": False, **EARLIEST}
    return confluent_kafka.Consumer(quiet(base | dotted(config)))


def codecs_of(broker: Broker) -> tuple[str, ...]:
    """Return the codecs of the release."""
    return CODECS if broker.at_least(2, 1) else CODECS[:4]


def error_of(call: Callable[[], Any]) -> KafkaError:
    """Return the error that a call raises. A call that succeeds fails the check."""
    try:
        outcome = call()
    except KafkaException as error:
        found = error.args[0]
        assert isinstance(found, KafkaError)
        return found
    raise AssertionError(f"no error, but {outcome!r}")


def missing(error: KafkaError | None) -> Missing:
    """Return the outcome of a check whose feature the release lacks. The error must be clear."""
    assert error is not None, "no error"
    assert error.code() == KafkaError._UNSUPPORTED_FEATURE, error
    return Missing(error.str())


def write(producer: Any, topic: str, values: list[bytes]) -> None:
    """Produce to partition 0 and require that each message is delivered."""
    errors: list[Any] = []
    for at, value in enumerate(values):
        producer.produce(
            topic,
            value,
            b"key",
            0,
            timestamp=FIRST_MS + at,
            headers=[("h", b"x")],
            on_delivery=lambda error, _: errors.append(error),
        )
    flush(producer)
    assert errors == [None] * len(values), [each for each in errors if each is not None][:1]


def values_of(kind: str) -> list[bytes]:
    """Return values that tell which check has written them."""
    return [f"{kind} {at} ".encode() * 5 for at in range(COUNT)]


def check_records(broker: Broker, records: list[Any], values: list[bytes]) -> None:
    """Require these values in order, with the fields that the release stores."""
    assert [each.value for each in records] == values
    assert [each.offset for each in records] == list(range(len(values)))
    assert {each.key for each in records} == {b"key"}
    if broker.at_least(0, 10):
        assert [each.timestamp - FIRST_MS for each in records] == list(range(len(values)))
    assert {each.headers for each in records} == (
        {(("h", b"x"),)} if broker.at_least(0, 11) else {()}
    )


# --- the columns ---


def produce(broker: Broker) -> str:
    """Produce with each codec. librdkafka reads the messages."""
    witness = witness_of(broker)
    for codec in codecs_of(broker):
        topic = new_name("produce")
        with producer_of(broker, compression_type=codec, acks="all") as producer:
            write(producer, topic, values_of(codec))
        check_records(broker, read(witness, topic, [0], COUNT, settle=0.05), values_of(codec))
    witness.close()
    return ""


def consume(broker: Broker) -> str:
    """Read the messages that librdkafka writes with each codec, and find offsets by time."""
    base = quiet({**broker.client_config, "linger.ms": 2, "max.in.flight": 1})
    for codec in codecs_of(broker):
        topic = new_name("consume")
        write(
            confluent_kafka.Producer({**base, "compression.type": codec}), topic, values_of(codec)
        )
        with kafka_native.Consumer(broker.our_config) as consumer:
            check_records(broker, read(consumer, topic, [0], COUNT, settle=0.05), values_of(codec))
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S)
            assert (low, high) == (0, COUNT)
            if broker.at_least(0, 10, 1):
                wanted = [TopicPartition(topic, 0, FIRST_MS + 20)]
                [found] = consumer.offsets_for_times(wanted, timeout=WAIT_S)
                assert found.offset == 20
    return ""


def group(broker: Broker) -> str:
    """Share a topic between two members. A third continues where they have committed."""
    if not broker.at_least(0, 9):
        raise missing(_first_error(broker))
    if not broker.at_least(0, 10, 1):
        error = _first_error(broker)
        assert error.code() == KafkaError.INVALID_SESSION_TIMEOUT, error
        assert "session.timeout.ms=45000" in error.str()  # the default (KIP-735)
        _members_share(broker, session_timeout_ms=10_000)
        return "session.timeout.ms up to 30000"
    _members_share(broker)
    if broker.at_least(4):
        _members_share(broker, group_protocol="consumer")
        return "both protocols"
    return ""


def _first_error(broker: Broker) -> KafkaError:
    """Return the first error of a member with the default configuration."""
    errors: list[KafkaError] = []
    config = {**broker.our_config, "group.id": "refused", "error_cb": errors.append}
    with kafka_native.Consumer(config) as consumer:
        consumer.subscribe(["first"])

        def found() -> KafkaError | None:
            message = consumer.poll(0.05)
            own = None if message is None else message.error()
            return own or next(iter(errors), None)

        error: KafkaError = wait_for(found, "an error")
        return error


def _members_share(broker: Broker, **config: Any) -> None:
    topic, name = new_name("group"), new_name("members")
    with producer_of(broker) as producer:
        for partition in range(2):
            producer.produce(topic, b"%d" % partition, partition=partition)
        flush(producer)
    base = {
        **broker.our_config,
        **EARLIEST,
        "group.id": name,
        "enable.auto.commit": False,
        **dotted(config),
    }
    first, second = kafka_native.Consumer(base), kafka_native.Consumer(base)
    with first, second:
        for each in (first, second):
            each.subscribe([topic])
        found: dict[int, bytes] = {}

        def is_shared() -> bool:
            for each in (first, second):
                for message in each.consume(10, 0.05):
                    assert message.error() is None, message.error()
                    found[message.partition()] = message.value()
            return [len(each.assignment()) for each in (first, second)] == [1, 1]

        wait_for(lambda: is_shared() and len(found) == 2, lambda: f"two members, {found}")
        assert found == {0: b"0", 1: b"1"}
        offsets = [TopicPartition(topic, each, 1) for each in range(2)]
        for each in (first, second):
            owned = {place.partition for place in each.assignment()}
            own = [place for place in offsets if place.partition in owned]
            each.commit(offsets=own, asynchronous=False)
    with kafka_native.Consumer(base) as third:
        third.subscribe([topic])
        poll_until(lambda: len(third.assignment()) == 2, third)
        committed = third.committed(offsets, WAIT_S)
        assert [place.offset for place in committed] == [1, 1]
        with producer_of(broker) as producer:
            producer.produce(topic, b"later", partition=1)
            flush(producer)
        seen: list[bytes] = []
        wait_for(
            lambda: seen.extend(each.value() for each in third.consume(10, 0.05)) or seen, "later"
        )
        assert seen == [b"later"]


def idempotence(broker: Broker) -> str:
    """Produce with sequence numbers."""
    topic = new_name("idempotence")
    ignored: list[KafkaError] = []
    with producer_of(broker, enable_idempotence=True, error_cb=ignored.append) as producer:
        if not broker.at_least(0, 11):
            producer.produce(topic, b"never")
            raise missing(wait_for(producer.fatal_error, "a fatal error"))
        write(producer, topic, values_of("numbered"))
        assert producer.fatal_error() is None
    witness = witness_of(broker)
    records = read(witness, topic, [0], COUNT, settle=0.05)
    witness.close()
    check_records(broker, records, values_of("numbered"))
    return ""


def transaction(broker: Broker) -> str:
    """Commit and abort, also with messages that were not sent, and with offsets of a group."""
    topic, name = new_name("transaction"), new_name("group-of-transactions")
    config = {"transactional.id": "matrix", "error_cb": lambda error: None}
    with producer_of(broker, **config) as producer:
        if not broker.at_least(0, 11):
            raise missing(error_of(lambda: producer.init_transactions(WAIT_S)))
        producer.init_transactions(WAIT_S)
        _transact(producer, topic, b"committed", commit=True)
        _transact(producer, topic, b"aborted", commit=False)
        producer.begin_transaction()
        producer.produce(topic, b"never sent", partition=0)
        producer.abort_transaction(WAIT_S)  # the message may be in the queue or on its way
        producer.begin_transaction()
        producer.produce(topic, b"sent", partition=0)
        flush(producer)
        producer.produce(topic, b"never sent", partition=0)
        producer.abort_transaction(WAIT_S)
        base = {**broker.our_config, **EARLIEST, "group.id": name}
        with kafka_native.Consumer({**base, "enable.auto.commit": False}) as consumer:
            consumer.subscribe([topic])
            poll_until(lambda: consumer.assignment(), consumer)
            producer.begin_transaction()
            producer.produce(topic, b"with offsets", partition=0)
            offsets = [TopicPartition(topic, 0, 3)]
            member = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, member, WAIT_S)
            producer.commit_transaction(WAIT_S)
            # before 2.5 a coordinator names the last offset until the markers are written
            wait_for(
                lambda: [place.offset for place in consumer.committed(offsets, WAIT_S)] == [3],
                "the committed offset",
            )
    expected = [b"committed", b"with offsets"]
    witness = witness_of(broker, isolation_level="read_committed")
    ours = kafka_native.Consumer(
        {**broker.our_config, **EARLIEST, "isolation.level": "read_committed"}
    )
    for reader in (witness, ours):
        assert [each.value for each in read(reader, topic, [0], 2, settle=0.05)] == expected
        reader.close()
    return ""


def _transact(producer: kafka_native.Producer, topic: str, value: bytes, *, commit: bool) -> None:
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    flush(producer)
    if commit:
        producer.commit_transaction(WAIT_S)
    else:
        producer.abort_transaction(WAIT_S)


def done(futures: Mapping[Any, Future[Any]]) -> Any:
    """Return the result of the only future."""
    [future] = futures.values()
    return future.result(WAIT_S)


def admin(broker: Broker) -> str:
    """Create, change, describe and delete topics; list, describe and delete groups."""
    with AdminClient(broker.our_config) as client:
        topic = new_name("admin")
        # from 2.4 on the broker chooses the number of replicas (KIP-464)
        new = NewTopic(topic, 1) if broker.at_least(2, 4) else NewTopic(topic, 1, 1)
        if not broker.at_least(0, 10, 1):
            error = error_of(lambda: done(client.create_topics([new])))
            if not broker.at_least(0, 9):
                raise missing(error)
            missing(error)
            _admin_groups(broker, client)
            return "groups only"
        assert done(client.create_topics([new])) is None
        wait_for(lambda: _partitions(client, topic) == 1, "the topic")
        if broker.at_least(1):
            done(client.create_partitions([NewPartitions(topic, 3)]))
            wait_for(lambda: _partitions(client, topic) == 3, "three partitions")
        if broker.at_least(0, 11):
            _admin_configs(broker, client, topic)
            _admin_records(broker, client)
        _admin_groups(broker, client)
        done(client.delete_topics([topic]))
        wait_for(lambda: _partitions(client, topic) == 0, "the end of the topic")
    return ""


def _partitions(client: AdminClient, topic: str) -> int:
    found = client.list_topics(timeout=WAIT_S).topics.get(topic)
    return 0 if found is None else len(found.partitions)


def _admin_configs(broker: Broker, client: AdminClient, topic: str) -> None:
    name, value = "retention.ms", "123456"
    resource = ConfigResource(ResourceType.TOPIC, topic)
    if broker.at_least(2, 3):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
        done(client.incremental_alter_configs([resource]))
    else:
        done(client.alter_configs([ConfigResource(ResourceType.TOPIC, topic, {name: value})]))
    wanted = ConfigResource(ResourceType.TOPIC, topic)
    wait_for(lambda: done(client.describe_configs([wanted]))[name].value == value, "the change")


def _admin_records(broker: Broker, client: AdminClient) -> None:
    topic = new_name("admin-records")
    with producer_of(broker) as producer:
        write(producer, topic, values_of("deleted"))
    deleted = done(client.delete_records([TopicPartition(topic, 0, 20)]))
    assert deleted.low_watermark == 20


def _admin_groups(broker: Broker, client: AdminClient) -> None:
    topic, name = new_name("admin-group"), new_name("listed")
    with producer_of(broker) as producer:
        write(producer, topic, [b"value"])
    config = {
        **broker.our_config,
        "group.id": name,
        "session.timeout.ms": 10_000,
        "enable.auto.commit": False,
    }
    with kafka_native.Consumer(config) as consumer:
        consumer.subscribe([topic])
        poll_until(consumer.assignment, consumer)
        listed = client.list_consumer_groups().result(WAIT_S)
        assert name in {each.group_id for each in listed.valid}, listed.errors
        described = done(client.describe_consumer_groups([name]))
        assert [len(each.assignment.topic_partitions) for each in described.members] == [2]
    if broker.at_least(1, 1):
        wait_for(lambda: not done(client.describe_consumer_groups([name])).members, "no members")
        done(client.delete_consumer_groups([name]))


def tls(broker: Broker) -> str:
    """Write and read over TLS, with the broker's certificate and name checked."""
    if not broker.has_tls:
        config = {**broker.our_config, "security.protocol": "ssl"}
        error = _refusal(config)
        assert error.code() in (KafkaError._SSL, KafkaError._TRANSPORT), error
        raise Missing(error.str())
    _round_trip(broker.tls_config)
    error = _refusal({**broker.tls_config, "ssl.ca.location": "probe"})
    assert error.code() == KafkaError._SSL, error
    return ""


def _round_trip(config: Mapping[str, Any]) -> None:
    """Write messages and read them with these properties."""
    topic = new_name("secured")
    timeout = {"message.timeout.ms": int(WAIT_S * 1000)}
    with kafka_native.Producer({**config, **timeout}) as producer:
        write(producer, topic, values_of("secured"))
    with kafka_native.Consumer({**config}) as consumer:
        records = read(consumer, topic, [0], COUNT, settle=0.05)
        assert [each.value for each in records] == values_of("secured")


def _refusal(config: Mapping[str, Any]) -> KafkaError:
    """Return the first error of a client whose connection is refused."""
    errors: list[KafkaError] = []
    with kafka_native.Producer({**config, "error_cb": errors.append}) as producer:
        producer.produce("first", b"never")
        wait_for(lambda: producer.poll(0.05) or errors, "an error")
        producer.purge()
    return errors[0]


GSSAPI_PROGRAM = """\
import json, sys
from tests.broker.matrix.features import _round_trip
_round_trip(json.loads(sys.argv[1]))
"""


def sasl(broker: Broker) -> str:
    """Write and read with each mechanism of the release. A wrong password is an error."""
    if not broker.at_least(0, 9):
        error = _refusal(broker.sasl_config("PLAIN") | broker.our_config)
        raise missing(error)
    assert broker.mechanisms, "GSSAPI needs a KDC"
    for mechanism in broker.mechanisms:
        config = broker.sasl_config(mechanism)
        if mechanism == "GSSAPI":
            _with_kerberos(broker, config)
            continue
        _round_trip(config)
        error = _refusal({**config, "sasl.password": "wrong"})
        assert error.code() == KafkaError._AUTHENTICATION, error
        assert USER in error.str()
        assert PASSWORD not in error.str()
    return ", ".join(dict.fromkeys(each.partition("-")[0] for each in broker.mechanisms))


def _with_kerberos(broker: Broker, config: dict[str, Any]) -> None:
    """Write and read in a process: Kerberos reads its settings once."""
    assert broker.kdc is not None
    own = {name: value for name, value in config.items() if "sasl.pass" not in name}
    del own["sasl.username"]
    own |= {
        "sasl.kerberos.keytab": str(broker.kdc.keytab(USER)),
        "sasl.kerberos.principal": USER,
    }
    cache = f"FILE:{broker.kdc.folder / 'tickets'}"
    environment = {**os.environ, **broker.kdc.environment, "KRB5CCNAME": cache}
    command = [sys.executable, "-c", GSSAPI_PROGRAM, json.dumps(own)]
    output(*command, env=environment, cwd=Path(__file__).parents[3])


FEATURES: dict[str, Check] = {
    "produce": produce,
    "consume": consume,
    "group": group,
    "idempotence": idempotence,
    "transaction": transaction,
    "admin": admin,
    "TLS": tls,
    "SASL": sasl,
}
"""The columns, by name."""
