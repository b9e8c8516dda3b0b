"""The options of a source and a sink, without a JVM."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from kafka_native.spark import KafkaNativeDataSource
from kafka_native.spark.errors import OptionError
from kafka_native.spark.options import SinkOptions, SourceOptions
from kafka_native.spark.properties import client_properties

BASE = {"kafka.bootstrap.servers": "localhost:9092"}


def parse(**options: Any) -> SourceOptions:
    if not {"assign", "subscribePattern", "subscribe"} & set(options):
        options["subscribe"] = "a"
    return SourceOptions.parse(
        {**BASE, **{name.replace("__", "."): str(value) for name, value in options.items()}}
    )


def test_defaults_are_the_connectors() -> None:
    options = parse()
    assert options.subscription.topics == ("a",)
    assert (options.starting, options.ending, options.by_timestamp_strategy) == (
        None,
        None,
        "error",
    )
    assert (options.fail_on_data_loss, options.poll_timeout_s) == (True, 120.0)
    assert (options.fetch_retries, options.retry_interval_s) == (3, 1.0)
    assert (
        options.min_partitions,
        options.max_records_per_partition,
        options.max_trigger_delay_s,
    ) == (None, None, 900)
    assert options.columns == (
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    )
    # Java's default, not librdkafka's
    assert options.consumer["isolation.level"] == "read_uncommitted"
    assert options.consumer["enable.auto.commit"] == "false"


def test_option_names_ignore_case() -> None:
    options = SourceOptions.parse(
        {
            "KAFKA.Bootstrap.Servers": "x:1",
            "SUBSCRIBE": "a, b,a",
            "FailOnDataLoss": "FALSE",
            "MINPARTITIONS": "7",
        }
    )
    assert options.consumer["bootstrap.servers"] == "x:1"
    assert options.subscription.topics == ("a", "b")
    assert (options.fail_on_data_loss, options.min_partitions) == (False, 7)


def test_every_option_is_parsed() -> None:
    options = parse(
        assign='{"t":[0,2]}',
        startingOffsets='{"t":{"0":23,"2":-2}}',
        endingOffsets="latest",
        failOnDataLoss="false",
        kafkaConsumer__pollTimeoutMs=5000,
        fetchOffset__numRetries=0,
        fetchOffset__retryIntervalMs=10,
        maxOffsetsPerTrigger=100,
        minOffsetsPerTrigger=10,
        maxTriggerDelay="2m",
        minPartitions=4,
        maxRecordsPerPartition=50,
        groupIdPrefix="mine",
        includeHeaders="true",
        rows="ranges",
        kafka__default__api__timeout__ms=1234,
    )
    assert options.subscription.partitions == (("t", 0), ("t", 2))
    assert options.starting is not None
    assert options.ending is not None
    assert (options.starting.kind, dict(options.starting.values)) == (
        "offsets",
        {("t", 0): 23, ("t", 2): -2},
    )
    assert options.ending.kind == "latest"
    assert (options.poll_timeout_s, options.fetch_retries, options.retry_interval_s) == (
        5.0,
        0,
        0.01,
    )
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (100, 10)
    assert (
        options.max_trigger_delay_s,
        options.min_partitions,
        options.max_records_per_partition,
    ) == (120.0, 4, 50)
    assert options.consumer["group.id"].startswith("mine-")
    assert options.columns[-1] == "headers"
    assert (options.rows, options.api_timeout_s) == ("ranges", 1.234)
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_timestamp_for_all_wins_over_those_of_partitions_and_these_over_offsets() -> None:
    all_three = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"a":{"0":5}}',
        "startingTimestamp": 7,
    }
    limits = []
    while all_three:
        found = parse(**all_three).starting
        assert found is not None
        limits.append((found.kind, found.timestamp, dict(found.values)))
        all_three.popitem()
    assert limits == [("timestamp", 7, {}), ("timestamps", 0, {("a", 0): 5}), ("earliest", 0, {})]


def test_options_of_a_newer_spark_are_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {**BASE, "subscribe": "a", "path": "x", "__internal": "1", "spark.job.tag": "x"}
    with caplog.at_level(logging.WARNING, "kafka_native.spark"):
        SourceOptions.parse(given)
        SinkOptions.parse({**BASE, "queryName": "x"})
        assert caplog.messages == []
        SourceOptions.parse({**given, "realTimeMode": "on"})
    [warning] = caplog.messages
    assert warning.startswith("option realtimemode is ignored")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"subscribe": "a", "assign": '{"a":[0]}'},
            "exactly one of subscribe, subscribePattern and assign",
        ),
        ({"subscribe": " , "}, "option subscribe: no topic is named"),
        ({"subscribePattern": "("}, "option subscribePattern: '(' is no regular expression"),
        ({"assign": "a"}, "option assign: this isn't JSON"),
        ({"assign": '{"a":[-1]}'}, "option assign: topic 'a': -1 is no partition"),
        ({"assign": "{}"}, "option assign: no partition is named"),
        (
            {"startingOffsets": "soon"},
            "option startingOffsets: 'soon' isn't valid: write earliest, latest",
        ),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "option startingOffsets: a [0]: -3 isn't valid"),
        (
            {"startingOffsets": '{"a":{"x":1}}'},
            "option startingOffsets: topic 'a': 'x' is no partition",
        ),
        (
            {"startingOffsets": '{"a":[1]}'},
            "option startingOffsets: expected an object of partitions",
        ),
        ({"startingOffsets": '{"a":'}, "option startingOffsets: this isn't JSON"),
        (
            {"startingOffsetsByTimestamp": '{"a":{"0":-1}}'},
            "option startingOffsetsByTimestamp: a [0]: -1 isn't valid",
        ),
        (
            {"endingTimestamp": "now"},
            "option endingTimestamp: 'now' isn't valid: write a whole number",
        ),
        ({"startingOffsetsByTimestampStrategy": "x"}, "write error or latest"),
        (
            {"failOnDataLoss": "yes"},
            "option failOnDataLoss: 'yes' isn't valid: write true or false",
        ),
        (
            {"minPartitions": "0"},
            "option minPartitions: '0' isn't valid: write a whole number of at least 1",
        ),
        ({"maxRecordsPerPartition": "-5"}, "option maxRecordsPerPartition"),
        (
            {"maxTriggerDelay": "soon"},
            "option maxTriggerDelay: 'soon' isn't valid: write a duration",
        ),
        ({"columns": "key,valu"}, "option columns: there is no column 'valu'"),
        ({"columns": "key,KEY"}, "option columns: a column is named twice"),
        ({"rows": "all"}, "option rows: 'all' isn't valid: write records or ranges"),
        ({"startingOffset": "latest"}, "there is no such option: did you mean startingOffsets?"),
        ({"start_offsets": "latest"}, "there is no such option: did you mean startingOffsets?"),
        ({"failOnLoss": "true"}, "there is no such option: did you mean failOnDataLoss?"),
        ({"security.protocol": "ssl"}, "begin with kafka.: write kafka.security.protocol"),
        (
            {"kafka.auto.offset.reset": "latest"},
            "kafka.auto.offset.reset: it can't be set: write startingOffsets",
        ),
        ({"kafka.key.deserializer": "x"}, "option kafka.key.deserializer: it can't be set"),
        ({"kafka.enable.auto.commit": "true"}, "option kafka.enable.auto.commit: it can't be set"),
        ({"kafka.interceptor.classes": "x"}, "option kafka.interceptor.classes: it can't be set"),
        (
            {"kafka.metric.reporters": "x"},
            "option kafka.metric.reporters: Java classes can't be loaded here",
        ),
        ({"kafka.sasl.login.callback.handler.class": "x"}, "Java classes can't be loaded here"),
        ({"kafka.ssl.truststore.location": "x.jks"}, "write kafka.ssl.ca.location"),
        ({"kafka.fetch.min.bites": "1"}, 'No such configuration property: "fetch.min.bites"'),
        ({"kafka.fetch.min.bytes": "few"}, "fetch.min.bytes"),
    ],
)
def test_error_names_the_option_and_says_what_to_write(options: dict[str, str], text: str) -> None:
    base = (
        BASE
        if {"assign", "subscribe", "subscribePattern"} & set(options)
        else {**BASE, "subscribe": "a"}
    )
    with pytest.raises(OptionError) as raised:
        SourceOptions.parse({**base, **options})
    assert text in str(raised.value)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_servers_and_a_subscription_are_needed() -> None:
    with pytest.raises(OptionError, match=r"option kafka\.bootstrap\.servers: it is missing"):
        SourceOptions.parse({"subscribe": "a"})
    with pytest.raises(OptionError, match="exactly one of"):
        SourceOptions.parse(BASE)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffsets": "latest"}, "option startingOffsets: it can't be latest"),
        (
            {"startingOffsets": '{"a":{"0":-1}}'},
            "option startingOffsets: a [0] can't be latest (-1)",
        ),
        ({"endingOffsets": "earliest"}, "option endingOffsets: it can't be earliest"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "option endingOffsets: a [0] can't be earliest (-2)"),
    ],
)
def test_a_batch_query_can_not_start_at_the_end(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse(**options).for_batch()
    assert text in str(raised.value)
    if "startingOffsets" in options:
        parse(**options).for_stream()


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(option: str) -> None:
    value = {
        "endingOffsets": "latest",
        "endingTimestamp": "5",
        "endingOffsetsByTimestamp": '{"a":{"0":5}}',
    }[option]
    with pytest.raises(OptionError, match=f"option {option}: a stream has no end"):
        parse(**{option: value}).for_stream()


def test_a_minimum_above_the_maximum_is_refused() -> None:
    with pytest.raises(OptionError, match="minOffsetsPerTrigger"):
        parse(minOffsetsPerTrigger=10, maxOffsetsPerTrigger=5).for_stream()


@pytest.mark.parametrize(
    ("java", "own"),
    [
        ({"fetch.max.wait.ms": "10"}, {"fetch.wait.max.ms": "10"}),
        ({"request.timeout.ms": "40000"}, {"socket.timeout.ms": "40000"}),
        ({"receive.buffer.bytes": "-1"}, {"socket.receive.buffer.bytes": "0"}),
        ({"max.partition.fetch.bytes": "2000"}, {"max.partition.fetch.bytes": "2000"}),
        ({"partition.assignment.strategy": "org.apache.X"}, {}),
        ({"max.poll.records": "100"}, {"max.poll.records": "100"}),
        ({"group.id": "g"}, {"group.id": "g"}),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca"},
            {"ssl.ca.location": "/ca"},
        ),
        (
            {"ssl.keystore.type": "pem", "ssl.keystore.location": "/own"},
            {"ssl.certificate.location": "/own", "ssl.key.location": "/own"},
        ),
    ],
)
def test_java_properties_become_our_own(java: dict[str, str], own: dict[str, str]) -> None:
    plain = parse().consumer
    found = SourceOptions.parse(
        {**BASE, "subscribe": "a", **{f"kafka.{n}": v for n, v in java.items()}}
    ).consumer
    assert {name: value for name, value in found.items() if plain.get(name) != value} == own


def test_user_and_password_are_read_from_jaas() -> None:
    for module in (
        "org.apache.kafka.common.security.plain.PlainLoginModule",
        "a.scram.ScramLoginModule",
    ):
        text = f'{module} required username="al\\"ice" password="se;cret";'
        found = client_properties({"kafka.sasl.jaas.config": text}, "consumer")
        assert found == {"sasl.username": 'al"ice', "sasl.password": "se;cret"}
    token = 'a.ScramLoginModule required username="id" password="hmac" tokenauth="true";'
    found = client_properties({"kafka.sasl.jaas.config": token}, "consumer")
    assert found == {"sasl.username": "id", "sasl.password": "hmac", "sasl.scram.tokenauth": "true"}
    for text in (
        "x.Krb5LoginModule required useKeyTab=true principal=secret;",
        "x.OtherLoginModule required keyTab=secret;",
        "PlainLoginModule required password=secret;",
        "secret",
    ):
        with pytest.raises(OptionError) as raised:
            client_properties({"kafka.sasl.jaas.config": text}, "consumer")
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (
            'useKeyTab=true keyTab="/etc/app.keytab" principal="app@X" serviceName=kafka',
            {
                "sasl.kerberos.keytab": "/etc/app.keytab",
                "sasl.kerberos.principal": "app@X",
                "sasl.kerberos.service.name": "kafka",
            },
        ),
        ("useTicketCache=true principal=app@X", {"sasl.kerberos.principal": "app@X"}),
        ("useTicketCache=true", {}),
    ],
)
def test_kerberos_is_read_from_jaas(options: str, found: dict[str, str]) -> None:
    text = f"com.sun.security.auth.module.Krb5LoginModule required {options};"
    assert client_properties({"kafka.sasl.jaas.config": text}, "consumer") == found


def test_a_sink_takes_values_as_large_as_javas_producer() -> None:
    base = {**BASE, "topic": "t"}
    assert SinkOptions.parse(base).producer["message.max.bytes"] == "1048576"
    for name in ("max.request.size", "message.max.bytes"):
        given = SinkOptions.parse({**base, f"kafka.{name}": "5000000"})
        assert given.producer["message.max.bytes"] == "5000000"


def test_table_of_create_table_is_refused_with_what_to_write() -> None:
    source = KafkaNativeDataSource({"option.subscribe": "a", "provider": "kafka_native"})
    with pytest.raises(OptionError, match="write CREATE TEMPORARY VIEW name USING kafka_native"):
        source.schema()
    with pytest.raises(OptionError, match="no options for a table of CREATE TABLE"):
        SourceOptions.parse({"subscribe": "a"})


SECRETS = {
    "kafka.sasl.password": "s3cret",
    "kafka.ssl.key.password": "s3cret",
    "kafka.ssl.keystore.password": "s3cret",
    "kafka.sasl.jaas.config": 'x.PlainLoginModule required username="me" password="s3cret";',
    "kafka.ssl.key.pem": "s3cret",
    "kafka.sasl.oauthbearer.client.secret": "s3cret",
    "kafka.ssl.truststore.password": "s3cret",
}


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_shown_nowhere(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    options = {**BASE, "subscribe": "a", name: SECRETS[name]}
    shown = [repr(KafkaNativeDataSource(CaseInsensitiveDict(options)))]
    for make in (SourceOptions.parse, SinkOptions.parse):
        try:
            parsed = make(options if make is SourceOptions.parse else {**BASE, name: SECRETS[name]})
            shown += [repr(parsed), str(parsed)]
        except OptionError as error:  # this version may lack it
            shown.append(repr(error) + str(error))
    assert "localhost:9092" in shown[0]
    assert "s3cret" not in "".join(shown) + caplog.text


def test_the_schema_is_the_connectors() -> None:
    source = KafkaNativeDataSource(
        CaseInsensitiveDict({**BASE, "subscribe": "a", "includeHeaders": "true"})
    )
    assert source.name() == "kafka_native"
    assert source.schema() == (
        "`key` binary, `value` binary, `topic` string, `partition` int, `offset` bigint, "
        "`timestamp` timestamp, "
        "`timestampType` int, `headers` array<struct<key:string,value:binary>>"
    )
    chosen = KafkaNativeDataSource(
        CaseInsensitiveDict({**BASE, "subscribe": "a", "columns": "VALUE,offset"})
    )
    assert chosen.schema() == "`value` binary, `offset` bigint"
    ranges = KafkaNativeDataSource(
        CaseInsensitiveDict({**BASE, "subscribe": "a", "rows": "ranges"})
    )
    assert ranges.schema() == (
        "`topic` string, `partition` int, `start_offset` bigint, `end_offset` bigint, "
        "`topic_id` string, `lost` string"
    )
    with pytest.raises(OptionError, match="leave schema"):
        source.reader(StructType().add("key", "binary"))


def test_a_sinks_producer_is_like_javas() -> None:
    options = SinkOptions.parse(
        {**BASE, "topic": "t", "kafka.buffer.memory": "33554432", "checkpointLocation": "x"}
    )
    assert options.topic == "t"
    assert options.producer["partitioner"] == "murmur2_random"
    assert options.producer["queue.buffering.max.kbytes"] == "32768"
    with pytest.raises(OptionError, match=r"kafka\.value\.serializer"):
        SinkOptions.parse({**BASE, "kafka.value.serializer": "x"})
    with pytest.raises(OptionError, match=r"kafka\.compression\.level"):
        SinkOptions.parse({**BASE, "kafka.compression.zstd.level": "3"})
