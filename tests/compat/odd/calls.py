"""The public calls of both libraries with their parameters, and the cases made of them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from tests.compat.odd.values import ANY, FEW, POOLS, Env, Make

NONE_GIVEN = object()


class Parameter(NamedTuple):
    """A parameter of a call: which special values it gets, and its normal one if it needs one."""

    kind: str = "any"
    normal: Make | None = None


class Call(NamedTuple):
    """A method with its parameters, or a function that is given the subject."""

    name: str
    parameters: dict[str, Parameter]
    operator: Callable[..., Any] | None = None
    configures: bool = False
    """The parameters are properties of the configuration."""
    by_position: bool = False
    """The original takes no keywords."""


class Subject(NamedTuple):
    """A class with its calls, and the states that its objects are called in."""

    name: str
    states: tuple[str, ...]
    calls: tuple[Call, ...]


class Case(NamedTuple):
    """One call with its arguments."""

    subject: Subject
    state: str
    call: Call
    what: str
    positional: tuple[Make, ...] = ()
    named: tuple[tuple[str, Make], ...] = ()

    @property
    def id(self) -> str:
        return f"{self.subject.name}.{self.state}.{self.call.name}({self.what})"


def call(_name: str, /, **parameters: Parameter | str) -> Call:
    made = {
        name: Parameter(given) if isinstance(given, str) else given
        for name, given in parameters.items()
    }
    return Call(_name, made)


def positional(name: str, /, **parameters: Parameter | str) -> Call:
    return call(name, **parameters)._replace(by_position=True)


def operator(name: str, function: Callable[..., Any], *parameters: str) -> Call:
    return Call(name, {each: Parameter() for each in parameters}, function)


def properties(*names: str) -> Call:
    return Call("conf", {name: Parameter("number") for name in names}, configures=True)


def _topic(env: Env) -> Any:
    return env.topic


def _constant(value: Any) -> Make:
    return lambda env: value


TOPIC = Parameter("text", _topic)
ONE = Parameter("partition", lambda env: env.lib.TopicPartition(env.topic, 0, 5))
LIST = Parameter("partitions", lambda env: [env.lib.TopicPartition(env.topic, 0, 5)])
TIMEOUT = Parameter("number", _constant(0.05))
"""A call that has nothing to wait for."""
ENOUGH = Parameter("number", _constant(5))
"""A call that waits for brokers."""
X = Parameter("any", _constant("x"))
NUMBER = Parameter("number", _constant(1))
MESSAGE = Parameter(
    "message", lambda env: env.lib.Message(topic=env.topic, partition=0, offset=3, value=b"x")
)


def _hashable(subject: object) -> bool:
    return isinstance(hash(subject), int)


NO_ARGUMENTS = tuple(
    operator(each.__name__, each) for each in (len, bool, iter, _hashable, repr, str, int, float)
)
COMPARISONS = tuple(
    operator(name, getattr(__import__("operator"), name), "other")
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
)


def _entered(subject: Any) -> Any:
    with subject as inside:
        return inside is subject


CLIENT_CALLS = (
    *(operator(each.__name__, each) for each in (len, bool, iter)),
    operator("with", _entered),
    positional("__exit__", a=X, b=X, c=X),
    call("set_sasl_credentials", username=X, password=X),
    call("list_topics", topic=TOPIC, timeout=ENOUGH),
)
PROPERTIES = (
    "bootstrap.servers",
    "client.id",
    "enable.metrics.push",
    "socket.timeout.ms",
    "error_cb",
    "stats_cb",
    "throttle_cb",
    "oauth_cb",
    "logger",
    "log_level",
    "debug",
    "security.protocol",
    "no.such.property",
    "default.topic.config",
)
PRODUCER = Subject(
    "Producer",
    ("fresh", "closed", "never", "transaction", "offline"),
    (
        *CLIENT_CALLS,
        call("__init__", config=Parameter("any", lambda env: {})),
        properties(
            *PROPERTIES,
            "acks",
            "linger.ms",
            "enable.idempotence",
            "compression.type",
            "message.timeout.ms",
            "on_delivery",
            "transactional.id",
            "partitioner",
            "delivery.report.only.error",
        ),
        call(
            "produce",
            topic=TOPIC,
            value=Parameter("any", _constant(b"x")),
            key=Parameter("any", _constant(b"k")),
            partition=Parameter("number", _constant(0)),
            callback="any",
            on_delivery="any",
            timestamp="number",
            headers="headers",
        ),
        call(
            "produce_batch",
            topic=TOPIC,
            messages=Parameter("messages", lambda env: [{"value": b"x"}]),
            partition=Parameter("number", _constant(0)),
            callback="any",
            on_delivery="any",
        ),
        call("poll", timeout=TIMEOUT),
        call("flush", timeout=TIMEOUT),
        call("purge", in_queue="any", in_flight="any", blocking="any"),
        positional("init_transactions", timeout=ENOUGH),
        call("begin_transaction"),
        positional("abort_transaction", timeout=ENOUGH),
        positional("commit_transaction", timeout=ENOUGH),
        positional(
            "send_offsets_to_transaction",
            positions=LIST,
            group_metadata=Parameter("any", lambda env: _group_metadata(env)),
            timeout=ENOUGH,
        ),
        call("close"),
    ),
)
SERIALIZING = Subject(
    "SerializingProducer",
    ("fresh", "closed", "never"),
    (
        properties("key.serializer", "value.serializer", "bootstrap.servers"),
        call("__init__", conf=Parameter("any", lambda env: {})),
        call(
            "produce",
            topic=TOPIC,
            key=Parameter("any", _constant("k")),
            value=Parameter("any", _constant("x")),
            partition=Parameter("number", _constant(0)),
            on_delivery="any",
            timestamp="number",
            headers="headers",
        ),
        call("poll", timeout=TIMEOUT),
        call("flush", timeout=TIMEOUT),
        call("close"),
    ),
)
_CONSUMER_CALLS = (
    *CLIENT_CALLS,
    call(
        "subscribe",
        topics=Parameter("topics", lambda env: [env.topic]),
        on_assign="any",
        on_revoke="any",
        on_lost="any",
    ),
    call("unsubscribe"),
    call("poll", timeout=TIMEOUT),
    call("consume", num_messages=NUMBER, timeout=TIMEOUT),
    positional("assign", partitions=LIST),
    call("unassign"),
    call("assignment"),
    positional("incremental_assign", partitions=LIST),
    positional("incremental_unassign", partitions=LIST),
    call(
        "commit", message="message", offsets=LIST, asynchronous=Parameter("any", _constant(False))
    ),
    Call("commit of", {"message": MESSAGE, "asynchronous": Parameter("any", _constant(False))}),
    Call("commit all", {"asynchronous": Parameter("any", _constant(False))}),
    call("store_offsets", message="message", offsets=LIST),
    Call("store_offsets of", {"message": MESSAGE}),
    call("get_watermark_offsets", partition=ONE, timeout=ENOUGH, cached="any"),
    call("pause", partitions=LIST),
    call("resume", partitions=LIST),
    call("seek", partition=ONE),
    call("position", partitions=LIST),
    call("committed", partitions=LIST, timeout=ENOUGH),
    call("offsets_for_times", partitions=LIST, timeout=ENOUGH),
    call("consumer_group_metadata"),
    call("memberid"),
    call("close"),
)
CONSUMER = Subject(
    "Consumer",
    ("fresh", "subscribed", "assigned", "closed", "never", "offline"),
    (
        call("__init__", config=Parameter("any", lambda env: {})),
        properties(
            *PROPERTIES,
            "group.id",
            "auto.offset.reset",
            "enable.auto.commit",
            "enable.auto.offset.store",
            "on_commit",
            "session.timeout.ms",
            "partition.assignment.strategy",
            "isolation.level",
            "enable.partition.eof",
            "fetch.wait.max.ms",
        ),
        *_CONSUMER_CALLS,
    ),
)
DESERIALIZING = Subject(
    "DeserializingConsumer",
    ("fresh", "assigned", "closed", "never"),
    (
        properties("key.deserializer", "value.deserializer", "group.id"),
        call("__init__", conf=Parameter("any", lambda env: {})),
        call("poll", timeout=TIMEOUT),
        call("consume", num_messages=NUMBER, timeout=TIMEOUT),
        call("close"),
    ),
)
SHARE = Subject(
    "ShareConsumer",
    ("fresh", "subscribed", "closed", "never"),
    (
        call("__init__", config=Parameter("any", lambda env: {})),
        properties("group.id", "share.acknowledgement.mode", "client.id", "auto.offset.reset"),
        *(operator(each.__name__, each) for each in (len, bool, iter)),
        operator("with", _entered),
        positional("__exit__", a=X, b=X, c=X),
        call("set_sasl_credentials", username=X, password=X),
        call("subscribe", topics=Parameter("topics", lambda env: [env.topic])),
        call("unsubscribe"),
        call("subscription"),
        call("poll", timeout=TIMEOUT),
        call("acknowledge", message=MESSAGE, ack_type="number"),
        call(
            "acknowledge_offset",
            topic=TOPIC,
            partition=NUMBER,
            offset=NUMBER,
            ack_type="number",
        ),
        call("commit_sync", timeout=TIMEOUT),
        call("commit_async"),
        call("set_acknowledgement_commit_callback", callback=X),
        call("close"),
    ),
)
AIO_STATES = ("fresh", "closed", "never")
AIO_PRODUCER = Subject(
    "AIOProducer",
    AIO_STATES,
    (
        *(operator(each.__name__, each) for each in (len, bool, iter)),
        call(
            "__init__",
            producer_conf=Parameter("any", lambda env: {"bootstrap.servers": env.servers}),
            max_workers="number",
            executor="any",
            batch_size="number",
            buffer_timeout="number",
        ),
        call(
            "produce",
            topic=TOPIC,
            value=Parameter("any", _constant(b"x")),
            key=Parameter("any", _constant(b"k")),
            partition=Parameter("number", _constant(0)),
            on_delivery="any",
            timestamp="number",
            headers="headers",
        ),
        call("poll", timeout=TIMEOUT),
        call("flush", timeout=TIMEOUT),
        call("purge", in_queue="any"),
        call("list_topics", topic=TOPIC, timeout=ENOUGH),
        positional("init_transactions", timeout=ENOUGH),
        call("begin_transaction"),
        positional("commit_transaction", timeout=ENOUGH),
        positional("abort_transaction", timeout=ENOUGH),
        call("set_sasl_credentials", username=X, password=X),
        call("close"),
    ),
)
AIO_CONSUMER = Subject(
    "AIOConsumer",
    AIO_STATES,
    (
        *(operator(each.__name__, each) for each in (len, bool, iter)),
        call(
            "__init__",
            consumer_conf=Parameter(
                "any", lambda env: {"bootstrap.servers": env.servers, "group.id": env.group}
            ),
            max_workers="number",
            executor="any",
        ),
        *(
            each
            for each in _CONSUMER_CALLS
            if not each.operator and each.name not in ("__exit__", "memberid")
        ),
    ),
)


def _group_metadata(env: Env) -> Any:
    consumer = env.lib.Consumer({"bootstrap.servers": env.servers, "group.id": env.group})
    try:
        return consumer.consumer_group_metadata()
    finally:
        consumer.close()


def _value_type(name: str, *calls: Call, states: tuple[str, ...] = ("made", "never")) -> Subject:
    return Subject(name, states, (*NO_ARGUMENTS, *COMPARISONS, *calls))


def _getters(*names: str) -> tuple[Call, ...]:
    return tuple(call(name) for name in names)


def _set(name: str) -> Call:
    def assign(subject: Any, value: Any) -> Any:
        setattr(subject, name, value)
        return getattr(subject, name)

    return Call(f"{name} =", {"value": Parameter("number")}, assign)


TYPES = (
    _value_type(
        "KafkaError",
        call(
            "__init__",
            error=NUMBER,
            reason="any",
            fatal="any",
            retriable="any",
            txn_requires_abort="any",
        ),
        *_getters("code", "name", "str", "fatal", "retriable", "txn_requires_abort"),
    ),
    _value_type("KafkaException", call("__init__", error=X)),
    _value_type(
        "Message",
        call(
            "__init__",
            topic="text",
            partition="number",
            offset="number",
            key="any",
            value="any",
            headers="headers",
            error="any",
            timestamp="any",
            latency="number",
            leader_epoch="number",
            delivery_count="number",
        ),
        *_getters(
            "topic",
            "partition",
            "offset",
            "key",
            "value",
            "headers",
            "error",
            "timestamp",
            "latency",
            "leader_epoch",
            "delivery_count",
            "deserialized_key",
            "deserialized_value",
        ),
        call("set_headers", headers=Parameter("headers", lambda env: [])),
        call("set_key", key=X),
        call("set_value", value=X),
        call("set_error", error=X),
    ),
    _value_type(
        "TopicPartition",
        call(
            "__init__",
            topic=TOPIC,
            partition="number",
            offset="number",
            metadata="any",
            leader_epoch="number",
        ),
        *(
            _set(name)
            for name in ("topic", "partition", "offset", "metadata", "leader_epoch", "error")
        ),
    ),
    _value_type(
        "Uuid",
        call("__init__", most_significant_bits=NUMBER, least_significant_bits=NUMBER),
    ),
    _value_type(
        "NewTopic",
        call(
            "__init__",
            topic=TOPIC,
            num_partitions="number",
            replication_factor="number",
            replica_assignment="any",
            config="any",
        ),
    ),
    _value_type(
        "NewPartitions",
        call("__init__", topic=TOPIC, new_total_count=NUMBER, replica_assignment="any"),
    ),
    _value_type("Node", call("__init__", id=NUMBER, host=X, port=NUMBER, rack="any")),
    _value_type("Messages", call("__init__", messages="any"), states=("made",)),
    _value_type("TopicCollection", call("__init__", topic_names=Parameter("topics", lambda e: []))),
    _value_type(
        "ThrottleEvent", call("__init__", broker_name=X, broker_id=NUMBER, throttle_time=NUMBER)
    ),
    _value_type(
        "ConsumerGroupTopicPartitions", call("__init__", group_id=X, topic_partitions="partitions")
    ),
    _value_type(
        "ConfigResource",
        call(
            "__init__",
            restype=NUMBER,
            name=X,
            set_config="any",
            described_configs="any",
            error="any",
            incremental_configs="any",
        ),
        call("set_config", name=X, value=X, overwrite="any"),
        call("add_incremental_config", config_entry=X),
    ),
    _value_type(
        "ConfigEntry",
        call(
            "__init__",
            name=X,
            value=X,
            source="number",
            is_read_only="any",
            is_default="any",
            is_sensitive="any",
            is_synonym="any",
            synonyms="any",
            incremental_operation="any",
        ),
    ),
    _value_type(
        "AclBinding",
        call(
            "__init__",
            restype=NUMBER,
            name=X,
            resource_pattern_type=Parameter("number", _constant(3)),
            principal=X,
            host=X,
            operation=Parameter("number", _constant(2)),
            permission_type=Parameter("number", _constant(2)),
        ),
    ),
    Subject(
        "functions",
        ("made",),
        tuple(
            positional(name, key=Parameter("any", _constant(b"x")), partition_count=NUMBER)
            for name in ("murmur2", "consistent", "fnv1a")
        ),
    ),
    *(
        Subject(name, ("made",), (call("__call__", obj=X, ctx="any"),))
        for name in (
            "DoubleSerializer",
            "DoubleDeserializer",
            "IntegerSerializer",
            "IntegerDeserializer",
            "StringSerializer",
            "StringDeserializer",
        )
    ),
)
SUBJECTS = (
    PRODUCER,
    CONSUMER,
    SHARE,
    SERIALIZING,
    DESERIALIZING,
    AIO_PRODUCER,
    AIO_CONSUMER,
    *TYPES,
)


def _pool(subject: Subject, state: str, parameter: Parameter) -> dict[str, Make]:
    """Return the values that a parameter gets in a state: all of them in the first one."""
    if state == subject.states[0] and not subject.name.startswith("AIO"):
        return {**ANY, **POOLS[parameter.kind]}
    own = list(POOLS[parameter.kind].items())
    if state in ("closed", "never"):
        own = own[:1]
    return {**{name: ANY[name] for name in FEW}, **dict(own)}


def _cases_of(subject: Subject, state: str, call: Call) -> Iterator[Case]:
    normal = {name: each.normal for name, each in call.parameters.items() if each.normal}
    required = tuple(normal.items())
    names = list(call.parameters)

    def case(what: str, *positional: Make, **named: Make) -> Case:
        if call.by_position and not positional and not named.keys() - names:
            last = max((names.index(name) + 1 for name in named), default=0)
            positional = tuple(named.get(name, ANY["None"]) for name in names[:last])
            named = {}
        return Case(subject, state, call, what, positional, tuple(named.items()))

    if not call.configures:
        yield case("", **dict(required))
        if call.by_position:
            yield Case(subject, state, call, "by name", (), required)
        if call.operator is None:
            everything = [normal.get(name, ANY["None"]) for name in names]
            yield case("one too many", *everything, ANY["None"])
            yield case("keyword", **dict(required), no_such_keyword=ANY["1"])
            yield case("twice", *everything[:1], **dict(required))
            for count in range(len(names)):
                yield case(f"first {count}", *everything[:count])
    for name, parameter in call.parameters.items():
        for value, make in _pool(subject, state, parameter).items():
            yield case(f"{name}={value}", **{**dict(required), name: make})
            if names[0] == name and value in FEW and call.operator is None:
                yield case(f"{value}", make)


@cache
def cases() -> dict[str, Case]:
    """Return all cases by their id."""
    made = [
        case
        for subject in SUBJECTS
        for state in subject.states
        for each in subject.calls
        if not (each.name in ("__init__", "conf") and state != subject.states[0])
        for case in _cases_of(subject, state, each)
    ]
    return {case.id: case for case in made}


def sampled(share: int) -> list[str]:
    """Return the ids of one of ``share`` cases, always the same."""
    return [each for each in cases() if zlib.crc32(each.encode()) % share == 0]
