"""The same calls of both libraries without a broker: the same results, exceptions and texts."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.cimpl
import confluent_kafka.error
import confluent_kafka.serialization
import pytest

import kafka_native
import kafka_native.admin
import kafka_native.error
import kafka_native.serialization
from tests.compat.sides import BOTH

Lib = Any
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


def quiet(lib: Lib) -> dict[str, Any]:
    return {**NOWHERE, "error_cb": lambda error: None}


def outcome(call: Callable[[], Any]) -> object:
    """Return the result of a call, or the class and text of its exception."""
    try:
        result = call()
    except Exception as error:
        return type(error).__name__, str(error)
    return result


def assert_same(call: Callable[[Lib], Any], *, text: str | None = None) -> None:
    """Check that both do the same. ``text`` is the text that both must have."""
    theirs, ours = (outcome(lambda lib=lib: call(lib)) for lib in BOTH)
    assert ours == theirs
    if text is not None:
        assert isinstance(ours, tuple)
        assert text in ours[1]


def assert_same_exception(call: Callable[[Lib], Any]) -> None:
    """Check that both raise the same class. Our text differs."""
    raised = []
    for lib in BOTH:
        with pytest.raises(Exception) as caught:  # noqa: PT011  # the classes are compared below
            call(lib)
        raised.append(caught.type.__name__)
    assert raised[0] == raised[1]


# --- hashing ---


@pytest.mark.parametrize("name", ["murmur2", "consistent", "fnv1a"])
@pytest.mark.parametrize(
    "key", [b"", b"a", b"abc", b"kafka", bytes(range(256)), "\u00e4".encode() * 33]
)
@pytest.mark.parametrize("count", [1, 2, 7, 1000, 2**31 - 1])
def test_keys_have_the_same_partitions(name: str, key: bytes, count: int) -> None:
    assert_same(lambda lib: getattr(lib, name)(key, count))


@pytest.mark.parametrize("name", ["murmur2", "consistent", "fnv1a"])
def test_bad_arguments_of_hashes(name: str) -> None:
    assert_same(lambda lib: getattr(lib, name)(b"a", 0), text="partition_count must be > 0, got 0")
    assert_same(
        lambda lib: getattr(lib, name)(b"a", -1), text="partition_count must be > 0, got -1"
    )
    for arguments in (("a", 3), (None, 3), (b"a",), (b"a", "3"), (b"a", 2**31)):
        assert_same_exception(lambda lib, given=arguments: getattr(lib, name)(*given))


# --- enums and value types ---


ENUMS = [
    "AcknowledgeType",
    "ConsumerGroupState",
    "ConsumerGroupType",
    "ElectionType",
    "IsolationLevel",
]
ADMIN_ENUMS = [
    "AclOperation",
    "AclPermissionType",
    "ConfigSource",
    "ResourcePatternType",
    "ResourceType",
]


@pytest.mark.parametrize("name", ENUMS + ADMIN_ENUMS)
def test_enums_have_the_same_members(name: str) -> None:
    def enum(lib: Lib) -> Any:
        return getattr(lib.admin if name in ADMIN_ENUMS else lib, name)

    # ours may have more: types and states of newer groups
    theirs = enum(confluent_kafka).__members__

    def described(lib: Lib) -> object:
        members = {key: each for key, each in enum(lib).__members__.items() if key in theirs}
        order = [each.name for each in sorted(members.values())]
        return {
            key: (each.name, each.value, repr(each), str(each)) for key, each in members.items()
        }, order

    assert_same(described)
    assert_same_exception(lambda lib: next(iter(enum(lib))) < object())


def test_user_alterations_have_one_base_class() -> None:
    for lib in BOTH:
        for name in ("UserScramCredentialUpsertion", "UserScramCredentialDeletion"):
            assert issubclass(getattr(lib.admin, name), lib.admin.UserScramCredentialAlteration)


def test_classes_for_groups_and_topics() -> None:
    def fields(lib: Lib) -> object:
        node = lib.Node(1, "h", 9092, "r")
        partitions = lib.ConsumerGroupTopicPartitions("g", [lib.TopicPartition("t", 1)])
        info = lib.TopicPartitionInfo(3, node, [node], [])
        return (
            str(node),
            vars(lib.TopicCollection(["a", "b"])),
            (partitions.group_id, str(partitions.topic_partitions)),
            lib.ConsumerGroupTopicPartitions("g").topic_partitions,
            (info.id, str(info.leader), [str(each) for each in info.replicas], info.isr),
        )

    assert_same(fields)


def test_messages_are_a_sequence() -> None:
    def seen(lib: Lib) -> object:
        three = [lib.Message(value=bytes([number])) for number in range(3)]
        messages = lib.Messages(iter(three))
        return (
            (
                len(messages),
                messages.count(),
                messages.is_empty(),
                bool(messages),
                bool(lib.Messages()),
            ),
            [message.value() for message in messages],
            messages[-1].value(),
            (type(messages[1:]).__name__, [message.value() for message in messages[1:]]),
            messages.records() is not messages.records(),
            repr(lib.Messages()),
            outcome(lambda: messages[3]),
        )

    assert_same(seen)


# --- Message ---

FIELDS: dict[str, Any] = {
    "topic": "t",
    "partition": 1,
    "offset": 2,
    "key": b"k",
    "value": b"v",
    "headers": [("a", b"b")],
    "timestamp": (1, 5),
    "latency": 0.5,
    "leader_epoch": 3,
}
GETTERS = [*FIELDS, "error", "delivery_count"]


def all_of(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name)() for name in GETTERS}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        FIELDS,
        *({name: value} for name, value in FIELDS.items()),
        {"value": "text"},
        {"key": {"any": "object"}, "value": 3},
        {"headers": {"a": b"b"}},
        {"partition": -1, "offset": -1, "leader_epoch": -1},
    ],
    ids=str,
)
def test_a_message_takes_keywords(fields: dict[str, Any]) -> None:
    assert_same(lambda lib: all_of(lib.Message(**fields)))


def test_a_message_takes_arguments_in_the_same_order() -> None:
    given = ("t", 1, 2, b"k", b"v", [("a", b"b")], None, (2, 7), 0.25, 9)
    for count in range(len(given) + 1):
        assert_same(lambda lib, some=given[:count]: all_of(lib.Message(*some)))


def test_messages_are_compared_by_their_fields() -> None:
    others = {
        "topic": "u",
        "partition": 2,
        "offset": 3,
        "key": b"x",
        "value": b"x",
        "headers": None,
        "timestamp": (1, 6),
        "leader_epoch": 4,
        "latency": 2.0,
    }

    def compared(lib: Lib) -> object:
        one = lib.Message(**FIELDS)
        differ = {
            name: one == lib.Message(**{**FIELDS, name: value}) for name, value in others.items()
        }
        failed = lib.Message(**FIELDS, error=lib.KafkaError(3))
        return (
            one == lib.Message(**FIELDS),
            one != lib.Message(**FIELDS),
            one == 3,
            one != 3,
            one == failed,
            differ,
        )

    assert_same(compared)
    assert_same_exception(lambda lib: hash(lib.Message()))
    assert_same_exception(lambda lib: lib.Message() < lib.Message())


def test_messages_are_changed_and_pickled() -> None:
    def changed(lib: Lib) -> object:
        message = lib.Message(**FIELDS)
        before = pickle.loads(pickle.dumps(message))
        message.set_topic("u")
        message.set_key({"a": 1})
        message.set_value([1, 2, 3])
        message.set_headers({"h": b"1"})
        message.set_error(lib.KafkaError(3))
        return (
            all_of(before),
            {**all_of(message), "error": message.error().code()},
            before == lib.Message(**FIELDS),
        )

    assert_same(changed)
    assert_same(
        lambda lib: (len(lib.Message(value=b"12")), len(lib.Message()), len(lib.Message(key=b"1")))
    )


@pytest.mark.parametrize("fields", [{"foo": 1}, {"partition": "x"}, {"timestamp": 3}], ids=str)
def test_messages_refuse_wrong_arguments(fields: dict[str, Any]) -> None:
    assert_same_exception(lambda lib: lib.Message(**fields))


# --- errors ---


def test_errors_look_and_compare_the_same() -> None:
    def seen(lib: Lib) -> object:
        error = lib.KafkaError(3, "why", fatal=True, retriable=True, txn_requires_abort=True)
        exception = lib.KafkaException(error)
        return (
            (
                str(error),
                repr(error),
                error.str(),
                error.name(),
                error.code(),
                bool(error),
                hash(error),
            ),
            (error.fatal(), error.retriable(), error.txn_requires_abort()),
            (
                error == 3,
                error != 3,
                error < 4,
                error >= lib.KafkaError(2),
                error == lib.KafkaError(3),
            ),
            (str(exception), repr(exception), exception.args[0] is error),
            str(pickle.loads(pickle.dumps(error))),
            str(copy.deepcopy(error)),
            [str(lib.KafkaError(code)) for code in (-195, -191, 0, 36, 999, -999)],
        )

    assert_same(seen)


@pytest.mark.parametrize(
    "name",
    [
        "KeyDeserializationError",
        "ValueDeserializationError",
        "KeySerializationError",
        "ValueSerializationError",
    ],
)
def test_errors_of_serialization(name: str) -> None:
    def seen(lib: Lib) -> object:
        cause = ValueError("no number")
        error = getattr(lib.error, name)(cause)
        bases = [each.__name__ for each in type(error).__mro__ if each.__module__ != "builtins"]
        return (
            error.code,
            error.name,
            str(error),
            error.exception is cause,
            error.kafka_message,
            bases,
        )

    assert_same(seen)


def test_errors_of_serializing_clients() -> None:
    def seen(lib: Lib) -> object:
        message = lib.Message(topic="t")
        consume = lib.error.ConsumeError(lib.KafkaError(3), kafka_message=message)
        produce = lib.error.ProduceError(lib.KafkaError(10), ValueError("x"))
        return (
            (
                consume.code,
                consume.name,
                consume.kafka_message is message,
                consume.exception,
                str(consume),
            ),
            (produce.code, produce.name, produce.kafka_message, str(produce)),
            issubclass(lib.serialization.SerializationError, lib.KafkaException),
        )

    assert_same(seen)


def test_errors_of_serialization_are_pickled_with_their_message() -> None:
    message = kafka_native.Message(topic="t", value=b"x")
    error = kafka_native.error.ValueDeserializationError(ValueError("no number"), message)
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert (twin.code, str(twin), repr(twin.exception)) == (
        error.code,
        str(error),
        repr(error.exception),
    )
    assert twin.kafka_message == message


# --- serializers ---

SERDES: list[tuple[str, tuple[Any, ...], list[Any]]] = [
    ("StringSerializer", (), ["", "text", "\u00e4", None, "\ud800"]),
    ("StringSerializer", ("latin_1",), ["\u00e4", "\u20ac"]),
    ("StringDeserializer", (), [b"", b"text", "\u00e4".encode(), None, b"\xff"]),
    ("StringDeserializer", ("utf_16",), ["\u00e4".encode("utf_16"), b"1"]),
    ("IntegerSerializer", (), [0, -1, 2**31 - 1, -(2**31), 2**31, None, "1", 1.5]),
    ("IntegerDeserializer", (), [b"\0\0\0\1", b"\xff\xff\xff\xff", None, b"", b"123", b"12345"]),
    ("DoubleSerializer", (), [0.0, -1.5, 3, None, "1", float("inf")]),
    (
        "DoubleDeserializer",
        (),
        [bytes(8), b"\x40\x09\x21\xfb\x54\x44\x2d\x18", None, b"", b"1234567"],
    ),
]


@pytest.mark.parametrize(("name", "arguments", "inputs"), SERDES)
def test_serializers_convert_and_refuse_the_same(
    name: str, arguments: tuple[Any, ...], inputs: list[Any]
) -> None:
    for each in inputs:
        assert_same(lambda lib, given=each: getattr(lib.serialization, name)(*arguments)(given))
        assert_same(
            lambda lib, given=each: getattr(lib.serialization, name)(*arguments)(given, None)
        )


def test_contexts_and_fields() -> None:
    def seen(lib: Lib) -> object:
        fields = lib.serialization.MessageField
        context = lib.serialization.SerializationContext("t", fields.KEY, [("a", b"b")])
        return (
            [(str(each), each.value, each == each.value) for each in fields],
            (context.topic, str(context.field), context.headers),
            lib.serialization.SerializationContext("t", fields.VALUE).headers,
        )

    assert_same(seen)
    assert_same(lambda lib: lib.serialization.Serializer()("x", None))
    assert_same(lambda lib: lib.serialization.Deserializer()(b"x", None))


# --- clients ---


@pytest.mark.parametrize("name", ["poll", "flush", "purge"])
def test_a_closed_producer_raises(name: str) -> None:
    def call(lib: Lib) -> object:
        producer = lib.Producer(quiet(lib))
        producer.close()
        return getattr(producer, name)()

    assert_same(call, text="Producer has been closed")


def test_producing_with_a_closed_producer() -> None:
    def call(lib: Lib) -> object:
        producer = lib.Producer(quiet(lib))
        producer.close()
        return producer.produce("t", b"x")

    assert_same(call, text="Producer has been closed")


CLOSED_CALLS: dict[str, tuple[str, ...]] = {
    "plain": (
        "poll",
        "consume",
        "assignment",
        "unassign",
        "unsubscribe",
        "memberid",
        "consumer_group_metadata",
        "commit",
    ),
    "partitions": (
        "assign",
        "incremental_assign",
        "incremental_unassign",
        "pause",
        "resume",
        "position",
        "committed",
        "offsets_for_times",
    ),
    "partition": ("seek", "get_watermark_offsets"),
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in CLOSED_CALLS.items() for name in names]
)
def test_a_closed_consumer_raises(kind: str, name: str) -> None:
    def call(lib: Lib) -> object:
        consumer = lib.Consumer({**quiet(lib), "group.id": "g"})
        consumer.close()
        consumer.close()
        one = lib.TopicPartition("t", 0, 1)
        arguments: dict[str, tuple[Any, ...]] = {
            "plain": (),
            "partitions": ([one],),
            "partition": (one,),
        }
        return getattr(consumer, name)(*arguments[kind])

    assert_same(call, text="Consumer closed")


@pytest.mark.parametrize("name", ["Producer", "Consumer"])
def test_topics_of_a_closed_client(name: str) -> None:
    def call(lib: Lib) -> object:
        client = getattr(lib, name)(
            {**quiet(lib), **({"group.id": "g"} if name == "Consumer" else {})}
        )
        client.close()
        return client.list_topics(timeout=1)

    assert_same(call, text="Handle has been closed")


UNINITIALIZED_CALLS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("Producer", "produce", ("t", b"x")),
    *(("Producer", name, ()) for name in ("poll", "flush", "purge", "list_topics")),
    *(("Consumer", name, ()) for name in (*CLOSED_CALLS["plain"], "list_topics")),
    *(("Consumer", name, ("partitions",)) for name in CLOSED_CALLS["partitions"]),
    *(("Consumer", name, ("partition",)) for name in CLOSED_CALLS["partition"]),
    ("Consumer", "subscribe", (["t"],)),
]


@pytest.mark.parametrize(("cls", "name", "given"), UNINITIALIZED_CALLS)
def test_an_uninitialized_client_raises(cls: str, name: str, given: tuple[Any, ...]) -> None:
    def call(lib: Lib) -> object:
        class Uninitialized(getattr(lib, cls)):  # type: ignore[misc]
            def __init__(self, conf: Any) -> None:
                pass

        one = lib.TopicPartition("t", 0, 1)
        arguments = {"partition": one, "partitions": [one]}
        client = Uninitialized({})
        assert "Uninitialized" in repr(client)
        return getattr(client, name)(
            *(arguments.get(each, each) if isinstance(each, str) else each for each in given)
        )

    assert_same_exception(call)
    with pytest.raises(RuntimeError, match=r"is not initialised: call super\(\).__init__\(conf\)"):
        call(kafka_native)


def with_producer(use: Callable[[Any], Any]) -> Callable[[Lib], Any]:
    def call(lib: Lib) -> Any:
        producer = lib.Producer({**quiet(lib), "message.timeout.ms": 1000})
        try:
            return use(producer)
        finally:
            producer.purge()
            producer.flush(10)

    return call


def with_consumer(use: Callable[[Any, Lib], Any]) -> Callable[[Lib], Any]:
    def call(lib: Lib) -> Any:
        consumer = lib.Consumer({**quiet(lib), "group.id": "g"})
        try:
            return use(consumer, lib)
        finally:
            consumer.close()

    return call


@pytest.mark.parametrize(
    "use",
    [
        lambda producer: producer.produce(3),
        lambda producer: producer.produce(),
        lambda producer: producer.produce("t", 3),
        lambda producer: producer.produce("t", 3.5),
        lambda producer: producer.produce("t", key=3),
        lambda producer: producer.produce("t", b"v", partition="x"),
        lambda producer: producer.produce("t", b"v", headers=3),
        lambda producer: producer.produce("t", b"v", headers=[3]),
        lambda producer: producer.produce("t", b"v", headers=[("a", 3)]),
        lambda producer: producer.produce("t", b"v", nonsense=1),
        lambda producer: producer.poll("x"),
        lambda producer: producer.flush("x"),
        lambda producer: producer.list_topics(3),
        lambda producer: producer.list_topics(timeout=0.1),
    ],
)
def test_a_producer_refuses_the_same(use: Callable[[Any], Any]) -> None:
    assert_same_exception(with_producer(use))


def test_values_of_properties_are_refused_in_the_same_words() -> None:
    assert_same(
        lambda lib: lib.Producer({**NOWHERE, "foo.bar": 1}),
        text='No such configuration property: "foo.bar"',
    )
    assert_same(
        lambda lib: lib.Producer({**NOWHERE, "batch.num.messages": ""}),
        text='property "batch.num.messages" cannot be set to empty value',
    )


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (
            lambda consumer, lib: consumer.consume(-1, 0),
            "num_messages must be between 0 and 1000000 (1M)",
        ),
        (
            lambda consumer, lib: consumer.consume(1_000_001, 0),
            "num_messages must be between 0 and 1000000 (1M)",
        ),
        (lambda consumer, lib: consumer.subscribe("t"), "expected list of topic unicode strings"),
        (
            lambda consumer, lib: consumer.subscribe(["t"], on_assign=3),
            "on_assign expects a callable",
        ),
        (lambda consumer, lib: consumer.store_offsets(), "expected either message or offsets"),
        (
            lambda consumer, lib: consumer.commit(message=lib.Message(), offsets=[]),
            "message and offsets are mutually exclusive",
        ),
        (
            lambda consumer, lib: consumer.store_offsets(lib.Message(), []),
            "message and offsets are mutually exclusive",
        ),
        (lambda consumer, lib: consumer.poll("x"), "must be real number, not str"),
    ],
)
def test_a_consumer_refuses_in_the_same_words(use: Callable[[Any, Lib], Any], text: str) -> None:
    assert_same(with_consumer(use), text=text)


@pytest.mark.parametrize(
    "use",
    [
        lambda consumer, lib: consumer.subscribe([]),
        lambda consumer, lib: consumer.subscribe(None),
        lambda consumer, lib: consumer.assign("x"),
        lambda consumer, lib: consumer.assign([3]),
        lambda consumer, lib: consumer.consume("x", 0),
        lambda consumer, lib: consumer.seek(3),
        lambda consumer, lib: consumer.seek(lib.TopicPartition("t", 0, 0)),
        lambda consumer, lib: consumer.position(3),
        lambda consumer, lib: consumer.commit(message=3),
        lambda consumer, lib: consumer.commit(offsets=3),
        lambda consumer, lib: consumer.get_watermark_offsets(3),
        lambda consumer, lib: consumer.committed([lib.TopicPartition("t", 0)], timeout=0.1),
        lambda consumer, lib: consumer.store_offsets(offsets=[lib.TopicPartition("t", 0, 1)]),
    ],
)
def test_a_consumer_refuses_the_same(use: Callable[[Any, Lib], Any]) -> None:
    assert_same_exception(with_consumer(use))


@pytest.mark.parametrize(
    "use",
    [
        lambda consumer, lib: consumer.poll(0),
        lambda consumer, lib: consumer.consume(0, 0),
        lambda consumer, lib: consumer.assignment(),
        lambda consumer, lib: str(consumer.position([lib.TopicPartition("t", 0)])),
        lambda consumer, lib: consumer.get_watermark_offsets(
            lib.TopicPartition("t", 0), cached=True
        ),
        lambda consumer, lib: (
            consumer.assign([lib.TopicPartition("t", 0)]),
            [(each.topic, each.partition) for each in consumer.assignment()],
        ),
    ],
)
def test_a_consumer_returns_the_same(use: Callable[[Any, Lib], Any]) -> None:
    assert_same(with_consumer(use))


@pytest.mark.parametrize("call", ["get_watermark_offsets", "offsets_for_times"])
def test_offsets_of_an_unreachable_cluster(call: str) -> None:
    def use(consumer: Any, lib: Lib) -> object:
        partition = lib.TopicPartition("t", 0, 1)
        deadline = time.monotonic() + 60
        while True:
            with pytest.raises(lib.KafkaException) as caught:
                getattr(consumer, call)(
                    partition if call == "get_watermark_offsets" else [partition], timeout=0.5
                )
            name = caught.value.args[0].name()
            # a refused connection takes a moment
            if name != "_TIMED_OUT" or time.monotonic() > deadline:
                return name

    assert_same(with_consumer(use))
