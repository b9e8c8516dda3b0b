"""The configuration, compared with the installed confluent_kafka where possible."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_native import config
from kafka_native._reference.property import CONSUMER, without_secrets
from kafka_native.config import PROPERTIES, Config, Property, State, duration_ms, parse
from kafka_native.errors import KafkaError, KafkaException

LIBRDKAFKA = [p for p in PROPERTIES.values() if not p.python_only]
NUMBERS = [p for p in LIBRDKAFKA if p.kind in ("integer", "float")]
PLAIN = {"bootstrap.servers": "localhost:1"}


@pytest.fixture(autouse=True)
def _forget_warnings() -> Iterator[None]:
    before = set(config._warned)
    config._warned.clear()
    yield
    config._warned.clear()
    config._warned.update(before)


def ours(conf: dict[Any, Any], role: Any = "producer") -> KafkaError | None:
    """Return the error of a configuration here, or None if it is accepted."""
    try:
        parse(conf, role)
    except KafkaException as error:
        found: KafkaError = error.args[0]
        return found
    return None


def theirs(conf: dict[Any, Any], role: str = "producer") -> confluent_kafka.KafkaError | None:
    """Return the error of a configuration in confluent_kafka, or None if it is accepted."""
    quiet = logging.getLogger("quiet")
    quiet.setLevel(logging.CRITICAL + 1)
    try:
        if role == "producer":
            confluent_kafka.Producer({**conf, "logger": quiet})
        else:
            confluent_kafka.Consumer({"group.id": "g", **conf, "logger": quiet}).close()
    except confluent_kafka.KafkaException as error:
        found: confluent_kafka.KafkaError = error.args[0]
        return found
    return None


def assert_same_error(conf: dict[Any, Any], role: str = "producer") -> None:
    mine, other = ours(conf, role), theirs(conf, role)
    assert mine is not None, conf
    assert other is not None, conf
    text = other.str().rstrip("\n")
    for name in conf:  # librdkafka names the property that an alias stands for
        declared = PROPERTIES.get(name)
        if declared is not None and declared.alias_of:
            text = text.replace(f'"{declared.alias_of}"', f'"{name}"')
    assert (mine.code(), mine.str()) == (other.code(), text), conf


@pytest.mark.parametrize("declared", NUMBERS, ids=lambda p: p.name)
def test_numbers_have_librdkafkas_range_and_words(declared: Property) -> None:
    for outside in (declared.minimum - 1, declared.maximum + 1):
        if -(2**31) <= outside < 2**31:  # librdkafka itself wraps beyond
            assert_same_error({declared.name: outside})
    assert_same_error({declared.name: "x"})
    assert_same_error({declared.name: True})
    if declared.kind == "integer":
        assert_same_error({declared.name: ""})


# confluent_kafka accepts only a bool for delivery.report.only.error. Here it is a boolean like all
# others.
BOOLEANS = [p for p in LIBRDKAFKA if p.kind == "boolean" and p.name != "delivery.report.only.error"]


@pytest.mark.parametrize("declared", BOOLEANS, ids=lambda p: p.name)
def test_booleans_refuse_what_librdkafka_refuses(declared: Property) -> None:
    for value in ("yes", "off", 2, ""):
        assert_same_error({declared.name: value})


@pytest.mark.parametrize("declared", [p for p in LIBRDKAFKA if p.choices], ids=lambda p: p.name)
def test_choices_refuse_what_librdkafka_refuses(declared: Property) -> None:
    assert_same_error({declared.name: "nonsense"})
    if declared.kind == "enum":
        assert_same_error({declared.name: ""})


# In librdkafka the ones of TLS and SASL need other settings too.
ENUMS = [
    p
    for p in LIBRDKAFKA
    if p.kind == "enum" and not p.name.startswith(("sasl.", "ssl", "security"))
]


@pytest.mark.parametrize("declared", ENUMS, ids=lambda p: p.name)
def test_every_choice_is_one_of_librdkafkas(declared: Property) -> None:
    for choice in declared.choices:
        assert theirs({**PLAIN, declared.name: choice}) is None
        assert theirs({**PLAIN, declared.name: choice.upper()}) is None
        assert (
            ours({**PLAIN, declared.name: choice.upper()}) is None
            or declared.state is State.REFUSED
        )


@pytest.mark.parametrize(
    "declared", [p for p in LIBRDKAFKA if p.kind == "internal"], ids=lambda p: p.name
)
def test_properties_of_the_c_interface_are_errors(declared: Property) -> None:
    other = theirs({declared.name: "x"})
    mine = ours({declared.name: "x"})
    assert other is not None
    assert mine == other.code() == KafkaError._INVALID_ARG


@pytest.mark.parametrize("name", ["foo", "linger.m", "", "LINGER.MS", 5])
def test_unknown_property_is_an_error_in_librdkafkas_words(name: object) -> None:
    assert_same_error({name: 1})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("linger.m", "linger.ms"),
        ("bootstrap.server", "bootstrap.servers"),
        ("Acks", "acks"),
        ("group_id", "group.id"),
    ],
)
def test_unknown_property_comes_with_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(KafkaException, match=f'did you mean "{meant}"'):
        parse({name: 1}, "producer")


@pytest.mark.parametrize(
    ("conf", "role"),
    [
        ({"on_commit": print}, "producer"),
        ({"on_delivery": print}, "consumer"),
        ({"on_delivery": 5}, "producer"),
        ({"on_commit": 5}, "consumer"),
        ({"default.topic.config": {"foo": 1}}, "producer"),
        ({"partitioner": "foo"}, "producer"),
        ({"partitioner": "MURMUR2"}, "producer"),
        ({"linger.ms": 10, "message.timeout.ms": 5}, "producer"),
        ({"reconnect.backoff.ms": 100, "reconnect.backoff.max.ms": 50}, "producer"),
        ({"fetch.max.bytes": 1}, "consumer"),
        ({"fetch.max.bytes": 1000, "message.max.bytes": 2000}, "consumer"),
        ({"receive.message.max.bytes": 1000}, "consumer"),
        ({"max.poll.interval.ms": 100}, "consumer"),
        ({"partition.assignment.strategy": "foo"}, "consumer"),
        ({"partition.assignment.strategy": "range,cooperative-sticky"}, "consumer"),
        ({"debug": "all,foo"}, "producer"),
        ({"message.max.bytes": b"2000"}, "producer"),
        ({"message.max.bytes": []}, "producer"),
    ],
)
def test_errors_are_worded_as_in_confluent_kafka(conf: dict[str, Any], role: str) -> None:
    assert_same_error(conf, role)


@pytest.mark.parametrize(
    ("conf", "role", "text"),
    [
        ({"linger.ms": "5ms"}, "producer", 'property "linger.ms"" (hint: got "5ms"; write a num'),
        ({"batch.size": "1MB"}, "producer", '(hint: got "1MB"; write a whole number from 1 to 21'),
        ({"acks": "most"}, "producer", '"acks"" (hint: got "most"; write a whole number from -1'),
        ({"acks": 2000}, "producer", '"acks" value 2000 is outside'),
        ({"topic.acks": "x"}, "producer", '"topic.acks"'),
        (
            {"topics": {"t": {"acks": "x"}}},
            "producer",
            'Topic "t": Invalid value for configuration ',
        ),
        ({"topics": {"t": {"acks": "x"}}}, "producer", '"acks"" (hint: got "x"'),
        (
            {"compression.type": "zip"},
            "producer",
            'value "zip" for configuration property "compres',
        ),
        ({"enable.idempotence": "yes"}, "producer", 'true or false" (hint: got "yes")'),
        ({"linger.ms": [5]}, "producer", "(hint: got an object of the type list)"),
        ({"linger.ms": True}, "producer", "(hint: got True; write a number"),
        ({"sasl.mechanism": "PLAIN,GSSAPI"}, "producer", '"sasl.mechanism": PLAIN,GSSAPI'),
        ({"linger.ms": 10, "delivery.timeout.ms": 5}, "producer", "`delivery.timeout.ms` must be"),
        (
            {"retries": 0, "enable.idempotence": True},
            "producer",
            "`retries` must be set >= 1",
        ),
        ({"request.required.acks": 1, "enable.idempotence": True}, "producer", "`request.requ"),
        ({"fetch.message.max.bytes": "x"}, "consumer", '"fetch.message.max.bytes""'),
    ],
)
def test_errors_name_the_users_key_and_show_the_value(
    conf: dict[str, Any], role: Any, text: str
) -> None:
    with pytest.raises(KafkaException) as raised:
        parse(conf, role)
    assert text in str(raised.value).replace('"}', '"'), str(raised.value)


@pytest.mark.parametrize(
    "conf",
    [
        {"sasl.password": ["hunter2"]},
        {"sasl.username": "me", "linger.ms": "https://me:hunter2@host/"},
        {"batch.size": "-----BEGIN PRIVATE KEY-----hunter2"},
    ],
)
def test_errors_never_show_a_secret_value(conf: dict[str, Any]) -> None:
    with pytest.raises(KafkaException) as raised:
        parse(conf, "producer")
    assert "hunter2" not in str(raised.value)


def test_errors_cut_a_long_value_and_print_it_on_one_line() -> None:
    with pytest.raises(KafkaException) as raised:
        parse({"linger.ms": "5\n\x1b[2J" + "x" * 500}, "producer")
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    ("name", "role", "client"),
    [
        ("key.serializer", "producer", "SerializingProducer"),
        ("value.serializer.builder", "producer", "SerializingProducer"),
        ("key.deserializer", "consumer", "DeserializingConsumer"),
        ("value.deserializer", "consumer", "AsyncDeserializingConsumer"),
    ],
)
def test_properties_of_converting_clients_come_with_their_names(
    name: str, role: Any, client: str
) -> None:
    with pytest.raises(KafkaException, match=f"hint: .*{client}"):
        parse({**PLAIN, name: print}, role)


@pytest.mark.parametrize("name", ["error_cb", "stats_cb", "oauth_cb", "throttle_cb"])
@pytest.mark.parametrize("value", [5, "x", {}, []], ids=repr)
def test_uncallable_callback_gives_confluent_kafkas_error(name: str, value: object) -> None:
    kind = ValueError if name == "throttle_cb" else TypeError
    conf = {"group.id": "g", name: value}
    calls: list[Any] = [confluent_kafka.Producer, confluent_kafka.Consumer]
    for call in (
        *calls,
        lambda conf: parse(conf, "producer"),
        lambda conf: parse(conf, "consumer"),
    ):
        with pytest.raises(kind, match=f"expected {name} property as a callable function"):
            call(conf)


@pytest.mark.parametrize("name", ["error_cb", "stats_cb", "oauth_cb", "throttle_cb", "on_delivery"])
def test_callback_of_none_is_no_callback(name: str) -> None:
    assert parse({**PLAIN, name: None}, "producer").function(name) is None


def test_topic_properties_may_be_in_a_mapping_of_their_own() -> None:
    for conf in ({"acks": 1}, {}, {"auto.offset.reset": "earliest"}):
        assert theirs({**PLAIN, "default.topic.config": conf}) is None
        assert ours({**PLAIN, "default.topic.config": conf}) is None
    assert_same_error({"default.topic.config": {"foo": 1}})
    assert_same_error({"default.topic.config": {5: 1}})
    assert ours({**PLAIN, "default.topic.config": None}) is None
    assert ours({**PLAIN, "default.topic.config": [("acks", 1)]}) == KafkaError._INVALID_ARG


@pytest.mark.parametrize(
    ("conf", "role"),
    [
        ({"test.mock.num.brokers": "x"}, "producer"),
        ({"test.mock.num.brokers": -1}, "producer"),
        ({"test.mock.broker.rtt": -1}, "producer"),
        ({"test.mock.broker.rtt": 3_600_001}, "consumer"),
        ({"on_commit": None}, "producer"),
        ({"on_delivery": None}, "consumer"),
        ({"delivery_cb": print}, "producer"),
        ({"linger.ms": b"1"}, "producer"),
        ({"linger.ms": True}, "producer"),
        ({b"linger.ms": 1}, "producer"),
        ({"acks": None}, "producer"),
        ({"compression.type": None}, "producer"),
        ({"enable.idempotence": True, "acks": 1}, "producer"),
    ],
    ids=str,
)
def test_python_specific_errors_are_the_same(conf: dict[Any, Any], role: str) -> None:
    assert_same_error(conf, role)


DEPRECATED = [p for p in LIBRDKAFKA if p.deprecated and p.kind != "internal"]


@pytest.mark.parametrize("declared", DEPRECATED, ids=lambda p: p.name)
def test_deprecated_properties_are_warned_about_once(
    declared: Property, caplog: pytest.LogCaptureFixture
) -> None:
    role: Any = "consumer" if declared.scope == CONSUMER else "producer"
    said = f"Configuration property {declared.name} is deprecated"
    for expected in (1, 0):
        caplog.clear()
        parse({**PLAIN, declared.name: declared.default}, role)
        assert len([message for message in caplog.messages if message.startswith(said)]) == expected


def test_librdkafka_warns_about_the_same() -> None:
    for declared in DEPRECATED:
        logger = logging.getLogger(f"deprecated.{declared.name}")
        lines: list[str] = []
        logger.addFilter(lambda record, lines=lines: lines.append(record.getMessage()) is not None)  # type: ignore[misc]
        client: Any
        if declared.scope == CONSUMER:
            client = confluent_kafka.Consumer(
                {"group.id": "g", declared.name: declared.default, "logger": logger}
            )
            client.close()
        else:
            client = confluent_kafka.Producer({declared.name: declared.default, "logger": logger})
            client.poll(0)
        assert any(f"property {declared.name} is deprecated" in line for line in lines), (
            declared.name
        )


ACCEPTED: list[tuple[str, Any, Any]] = [
    ("acks", "all", -1),
    ("acks", -1, -1),
    ("acks", "1", 1),
    ("acks", 1.0, 1),
    ("linger.ms", 0.5, 0.5),
    ("linger.ms", "0.5", 0.5),
    ("linger.ms", 5, 5.0),
    ("compression.type", "LZ4", "lz4"),
    ("socket.nagle.disable", "1", True),
    ("socket.nagle.disable", "t", True),
    ("socket.nagle.disable", 1, True),
    ("socket.nagle.disable", "True", True),
    ("socket.nagle.disable", 0, False),
    ("socket.nagle.disable", False, False),
    ("message.max.bytes", "1000", 1000),
    ("message.max.bytes", " 1000 ", 1000),
    ("message.max.bytes", "0x1000", 4096),
    ("message.max.bytes", 1e6, 1_000_000),
    ("client.id", 5, "5"),
    ("client.id", "", ""),
    ("client.id", None, "rdkafka"),
    ("topic.metadata.refresh.interval.ms", -1, -1),
    ("partitioner", "murmur2", "murmur2"),
    ("security.protocol", "PLAINTEXT", "plaintext"),
    ("queue.buffering.max.messages", 0, 0),
]


@pytest.mark.parametrize(("name", "value", "meaning"), ACCEPTED)
def test_values_are_accepted_as_confluent_kafka_accepts_them(
    name: str, value: object, meaning: object
) -> None:
    assert theirs({**PLAIN, name: value}) is None
    parsed = parse({**PLAIN, name: value}, "producer")[name]
    assert (parsed, type(parsed)) == (meaning, type(meaning))


@pytest.mark.parametrize(
    "value", ["1k", "1e6", "1000x", "1_000x", "٣٠٠٠x", float("nan"), float("inf"), 1000.5, 1 << 70]
)
def test_numbers_that_librdkafka_would_bend_are_errors(value: object) -> None:
    assert ours({"message.max.bytes": value}) == KafkaError._INVALID_ARG


def test_too_long_names_are_errors_instead_of_being_cut() -> None:
    assert ours({**PLAIN, "client.id": "x" * 255}) is None
    assert ours({**PLAIN, "client.id": "é" * 128}) == KafkaError._INVALID_ARG
    assert ours({**PLAIN, "client.rack": "x" * 256}) == KafkaError._INVALID_ARG


@pytest.mark.parametrize(
    "name",
    [
        each.name
        for each in PROPERTIES.values()
        if each.kind == "string" and not each.name.endswith((".location", ".file", ".keytab"))
    ],
)
def test_a_text_that_is_not_utf8_is_an_error_that_does_not_show_it(name: str) -> None:
    with pytest.raises(KafkaException, match="is not encodable as UTF-8") as raised:
        parse({name: "caf\udce9"}, "producer")
    assert raised.value.args[0] == KafkaError._INVALID_ARG
    assert "caf" not in str(raised.value)


def test_a_path_may_have_bytes_that_are_not_utf8() -> None:
    path = os.fsdecode(b"/tmp/caf\xe9")
    parsed = parse({"ssl.ca.location": Path(path), "security.protocol": "ssl"}, "producer")
    assert parsed.text("ssl.ca.location") == path


def test_a_rack_aware_producer_needs_a_rack() -> None:
    aware = {**PLAIN, "partitioner.rack.aware": True}
    for rack in ({}, {"client.rack": ""}, {"client.rack": " "}):
        with pytest.raises(KafkaException, match=r"requires `client\.rack`"):
            parse({**aware, **rack}, "producer")
    assert parse({**aware, "client.rack": "east"}, "producer").flag("partitioner.rack.aware")


def test_a_list_of_servers_is_an_error_with_advice() -> None:
    with pytest.raises(KafkaException, match="comma-separated"):
        parse({"bootstrap.servers": ["a", "b"]}, "producer")


def test_defaults_are_there_and_typed() -> None:
    conf = parse(PLAIN, "producer")
    assert conf.integer("batch.size") == 1_000_000
    assert conf.number("linger.ms") == 5.0
    assert conf.flag("check.crcs") is True
    assert conf.text("client.rack") == ""
    assert conf.text("partitioner") == "consistent_random"
    assert conf.function("error_cb") is None
    for name, declared in PROPERTIES.items():
        if declared.kind not in ("internal", "callable", "object"):
            again = config._convert(
                declared, name, declared.default if declared.default is not None else None
            )
            assert again == dict(declared.synonyms).get(str(declared.default), declared.default), (
                name
            )


def test_value_is_read_by_name_alias_and_attribute() -> None:
    conf = parse({**PLAIN, "linger.ms": 7, "acks": 1}, "producer")
    assert (
        conf["linger.ms"]
        == conf["queue.buffering.max.ms"]
        == conf.linger_ms
        == conf.queue_buffering_max_ms
        == 7.0
    )
    assert conf["request.required.acks"] == conf.acks == 1
    assert conf.is_set("queue.buffering.max.ms")
    assert conf.is_set("linger.ms")
    assert not conf.is_set("batch.size")
    assert "linger.ms" not in list(conf)
    assert len(conf) == len(list(conf))
    for bad in (lambda: conf["nonsense"], lambda: conf.is_set("nonsense")):
        with pytest.raises(KeyError):
            bad()
    with pytest.raises(AttributeError):
        _ = conf.nonsense
    for getter, name in (
        (conf.integer, "linger.ms"), (conf.integer, "check.crcs"), (conf.flag, "acks"), (conf.text, "acks"),
        (conf.number, "client.id"), (conf.function, "acks"),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            getter(name)


def test_last_of_two_names_wins() -> None:
    assert (
        parse({**PLAIN, "linger.ms": 5, "queue.buffering.max.ms": 6}, "producer")["linger.ms"]
        == 6.0
    )
    assert (
        parse({**PLAIN, "queue.buffering.max.ms": 6, "linger.ms": 5}, "producer")["linger.ms"]
        == 5.0
    )


def test_config_cant_be_changed_and_survives_copy_and_pickle() -> None:
    conf = parse({**PLAIN, "linger.ms": 7}, "producer")
    with pytest.raises(AttributeError):
        conf.linger_ms = 8
    with pytest.raises(AttributeError):
        del conf.linger_ms
    for twin in (copy.copy(conf), copy.deepcopy(conf), pickle.loads(pickle.dumps(conf))):
        assert isinstance(twin, Config)
        assert (dict(twin), twin.role, twin.is_set("linger.ms")) == (dict(conf), "producer", True)


def test_users_mapping_stays_unchanged() -> None:
    conf = {**PLAIN, "default.topic.config": {"acks": 1}}
    parse(conf, "producer")
    assert conf == {**PLAIN, "default.topic.config": {"acks": 1}}


def test_default_topic_config_is_merged_over_the_rest() -> None:
    assert parse({**PLAIN, "acks": 0, "default.topic.config": {"acks": 1}}, "producer").acks == 1
    assert ours({"default.topic.config": 5}) == KafkaError._INVALID_ARG


def test_start_offsets_have_one_spelling() -> None:
    for words, meaning in (
        ("smallest earliest beginning", "earliest"),
        ("largest latest end", "latest"),
    ):
        for word in words.split():
            assert (
                parse({**PLAIN, "auto.offset.reset": word}, "consumer").auto_offset_reset == meaning
            )
    assert parse(PLAIN, "consumer").auto_offset_reset == "latest"


def test_sizes_adapt_to_each_other_as_in_librdkafka() -> None:
    conf = parse({**PLAIN, "message.max.bytes": 200_000_000}, "consumer")
    assert (conf.fetch_max_bytes, conf.receive_message_max_bytes) == (200_000_000, 200_000_512)
    assert parse({**PLAIN, "message.timeout.ms": 5}, "producer").linger_ms == pytest.approx(4.9)
    assert (
        parse(
            {**PLAIN, "retry.backoff.ms": 100, "retry.backoff.max.ms": 50}, "producer"
        ).retry_backoff_ms
        == 50
    )


def test_property_of_the_other_client_is_checked_logged_and_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conf = parse({**PLAIN, "auto.offset.reset": "earliest"}, "producer")
    text = (
        "property auto.offset.reset is a consumer property and will be ignored by this producer "
        "instance"
    )
    assert f"Configuration {text}" in caplog.messages
    assert not conf.is_set("auto.offset.reset")
    assert conf.auto_offset_reset == "latest"
    assert_same_error({"auto.offset.reset": "foo"})
    assert ours({**PLAIN, "transactional.id": "t"}, "consumer") is None


CONSUMER_NUMBERS = [p for p in LIBRDKAFKA if p.scope == CONSUMER and p.kind == "integer"]


@pytest.mark.parametrize("declared", CONSUMER_NUMBERS, ids=lambda p: p.name)
def test_librdkafka_assigns_properties_to_the_same_clients(declared: Property) -> None:
    logger = logging.getLogger(f"scope.{declared.name}")
    lines: list[str] = []
    logger.addFilter(lambda record: lines.append(record.getMessage()) is not None)
    logger.setLevel(logging.DEBUG)
    producer = confluent_kafka.Producer(
        {**PLAIN, declared.name: declared.default, "logger": logger}
    )
    producer.poll(0)
    assert any("is a consumer property" in line for line in lines)


def warnings_about(
    name: str, conf: dict[str, Any], caplog: pytest.LogCaptureFixture, role: Any = "consumer"
) -> list[str]:
    caplog.clear()
    parse({**PLAIN, **conf}, role)
    return [
        m
        for m in caplog.messages
        if m.startswith(f"Configuration property {name} is accepted but has no effect")
    ]


def test_property_without_effect_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    assert len(warnings_about("enabled_events", {"enabled_events": 1000}, caplog)) == 1
    assert warnings_about("enabled_events", {"enabled_events": 1000}, caplog) == []


def test_default_or_harmless_value_is_not_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_about("enabled_events", {"enabled_events": 0}, caplog) == []
    assert warnings_about("enable.auto.commit", {"enable.auto.commit": False}, caplog) == []
    assert warnings_about("enabled_events", {"enabled_events": 1000}, caplog) != []


def test_warnings_go_to_the_users_logger(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("mine")
    parse({**PLAIN, "logger": logger, "enabled_events": 5}, "producer")
    assert [r.name for r in caplog.records] == ["mine"]
    assert ours({"logger": 5}) == KafkaError._INVALID_ARG


def test_missing_bootstrap_servers_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    parse({}, "producer")
    assert any("No `bootstrap.servers` configured" in m for m in caplog.messages)


@pytest.mark.parametrize(("conf", "role"), [({"plugin.library.paths": "x"}, "producer")])
def test_properties_that_are_dangerous_to_ignore_are_refused(
    conf: dict[str, Any], role: Any
) -> None:
    with pytest.raises(KafkaException, match="not supported by this version") as caught:
        parse({**PLAIN, **conf}, role)
    assert caught.value.args[0] == KafkaError._NOT_IMPLEMENTED


@pytest.mark.parametrize(
    "name",
    [
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "partition.assignment.strategy",
        "group.protocol.type",
    ],
)
def test_properties_of_the_classic_protocol_are_refused_in_the_other(name: str) -> None:
    value = {"partition.assignment.strategy": "range", "group.protocol.type": "consumer"}.get(
        name, 6000
    )
    conf = {**PLAIN, "group.id": "g", name: value}
    parse(conf, "consumer")
    with pytest.raises(
        KafkaException, match=f"`{name}` is not supported for `group.protocol=consumer`"
    ):
        parse({**conf, "group.protocol": "consumer"}, "consumer")
    parse(
        {**PLAIN, "group.id": "g", "group.protocol": "consumer", "max.poll.interval.ms": 1000},
        "consumer",
    )


def test_defaults_of_refused_properties_are_accepted() -> None:
    for declared in PROPERTIES.values():
        if declared.state is State.REFUSED and declared.default is not None:
            assert ours({**PLAIN, declared.name: declared.default}) is None


def test_secrets_are_never_shown() -> None:
    sensitive = [p for p in PROPERTIES.values() if p.sensitive]
    assert len(sensitive) >= 8
    for declared in sensitive:
        if declared.state is State.REFUSED:
            with pytest.raises(KafkaException) as caught:
                parse({**PLAIN, declared.name: "s3cret-word"}, "producer")
            assert "s3cret-word" not in repr(caught.value) + str(caught.value)
        else:
            conf = parse({**PLAIN, declared.name: "s3cret-word"}, "producer")
            assert "s3cret-word" not in repr(conf) + str(conf)
            assert "[redacted]" in repr(conf)


def test_a_long_value_is_refused_without_a_long_search_for_secrets() -> None:
    """A search whose time grows with the square of the length would take an hour."""
    for end in ("", "@", ":", "?"):
        with pytest.raises(KafkaException, match=r'got "x+…"'):
            parse({**PLAIN, "linger.ms": "x" * 1_000_000 + end}, "producer")


def test_logins_and_queries_are_redacted_wherever_they_begin() -> None:
    for text, shown in {
        "ab:c@d": "[redacted]@d",
        "http://h,ab:c@d": "http://[redacted]@d",
        "e, ab:c@d": "e, [redacted]@d",
        "a@b:c@d": "a@[redacted]@d",
        "a:b": "a:b",
        "http://h/p?q=1": "http://h/p?[redacted]",
    }.items():
        assert without_secrets(text) == shown


def test_names_that_hold_secrets_are_marked() -> None:
    for declared in PROPERTIES.values():
        if declared.kind == "string" and any(
            w in declared.name for w in ("password", "secret", "passphrase", "key.pem")
        ):
            assert declared.sensitive, declared.name


ANY_VALUE = st.one_of(st.text(max_size=20), st.integers(), st.floats(), st.booleans(), st.none())


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(sorted(PROPERTIES)), ANY_VALUE, max_size=4))
def test_any_value_is_parsed_or_refused_cleanly(conf: dict[str, Any]) -> None:
    cant_be_called = any(
        p.kind == "callable" and conf.get(p.name) is not None for p in PROPERTIES.values()
    )
    for role in ("producer", "consumer"):
        with contextlib.suppress(*[TypeError, ValueError] if cant_be_called else []):
            assert ours(conf, role) in (None, KafkaError._INVALID_ARG, KafkaError._NOT_IMPLEMENTED)


def test_something_else_than_a_mapping_is_a_type_error() -> None:
    for call in (lambda c: parse(c, "producer"), confluent_kafka.Producer):
        with pytest.raises(TypeError):
            call(5)


@pytest.mark.parametrize("version", ["0.8.0", "0.8.2.2", "0.9.0.1", "0.10.2.1", "4.0"])
def test_broker_versions_from_0_8_on_are_taken(version: str) -> None:
    assert (
        parse({"broker.version.fallback": version}, "producer")["broker.version.fallback"]
        == version
    )


@pytest.mark.parametrize("version", ["0.7.2", "0.6"])
def test_older_broker_versions_are_refused(version: str) -> None:
    with pytest.raises(KafkaException, match=rf'"broker\.version\.fallback": {version}') as caught:
        parse({"broker.version.fallback": version}, "consumer")
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG


@pytest.mark.parametrize("text", ["by_duration:PT1H", "By_Duration:p7dt1h2m3.5s"])
def test_auto_offset_reset_takes_a_duration(text: str) -> None:
    config = parse({"bootstrap.servers": "a", "auto.offset.reset": text}, "consumer")
    assert config["auto.offset.reset"] == "by_duration:" + text.split(":")[1].upper()


@pytest.mark.parametrize(
    "text", ["", "1h", "PT", "P", "P1", "P1W", "PT-1H", "-PT1H", "PT1H2", "PT1.5H", "P1Y", "PT٣H"]
)
def test_auto_offset_reset_refuses_an_invalid_duration(text: str) -> None:
    with pytest.raises(KafkaException, match="duration"):
        parse({"bootstrap.servers": "a", "auto.offset.reset": f"by_duration:{text}"}, "consumer")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("PT1H", 3_600_000), ("P2DT3H4M5.6789S", 183_845_678), ("PT0S", 0), ("P1D", 86_400_000)],
)
def test_durations_are_read_as_java_reads_them(text: str, expected: int) -> None:
    assert duration_ms(text) == expected
