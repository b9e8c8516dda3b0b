"""Typed columns without a JVM: options, types, and tasks that decode."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType

from kafka_native import Producer
from kafka_native._native import codec_core
from kafka_native.codecs import AvroEncoder, SchemaError
from kafka_native.mock import MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from kafka_native.spark import KafkaNativeDataSource
from kafka_native.spark.column_types import arrow_type, conform, spark_column
from kafka_native.spark.errors import MalformedRecordError, OptionError
from kafka_native.spark.kept_schemas import difference, keep
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.typed_columns import spark_avro_schema
from tests.spark.typed_topics import LINE, ORDER, ORDERS, read, source

pytestmark = pytest.mark.usefixtures("no_consumer_left")

needs_simdjson = pytest.mark.skipif(not codec_core.HAS_JSON, reason="this build has no simdjson")


def produce(cluster: MockCluster, topic: str, *values: Any, key: bytes | None = None) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for value in values:
            producer.produce(topic, value, key)
        assert producer.flush(30) == 0


def encoded(client: SchemaRegistryClient, topic: str, schema: Any, rows: pa.Table) -> list[bytes]:
    """Register a schema, and return the rows as records with its framing."""
    number = client.register_schema(f"{topic}-value", Schema(json.dumps(schema)))
    encoder = AvroEncoder(schema, prefix=b"\0" + number.to_bytes(4, "big"))
    return pa.chunked_array(encoder.encode(rows)).to_pylist()


# --- options ---


BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a"}
REGISTRY = {"schema.registry.url": "http://localhost:8081"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"value.format": "xml"}, "option value.format: 'xml' isn't valid: write avro or protobuf"),
        ({"value.format": "avro"}, "option schema.registry.url: it is missing"),
        ({"value.subject": "a"}, "option value.subject: it needs value.format"),
        ({"mode": "FAILFAST"}, "option mode: it needs value.format or key.format"),
        (REGISTRY, "option schema.registry.url: it needs value.format"),
        (
            {"value.format": "avro", "schema.registry.timeout": "3"},
            "option schema.registry.url: it is missing: write the registry's URL",
        ),
        (
            {**REGISTRY, "value.format": "avro", "subscribe": "a,b"},
            "option value.subject: the query doesn't name exactly one topic",
        ),
        (
            {**REGISTRY, "value.format": "avro", "value.schema": '"int"', "value.subject": "a"},
            "option value.subject: value.schema has the schema already",
        ),
        ({"value.format": "avro", "value.schema": "/no/such/file"}, "nor a file that can be read"),
        ({"value.format": "json", "value.message": "A"}, "option value.message: only Protobuf"),
        (
            {**REGISTRY, "value.format": "avro", "mode": "IGNORE"},
            "option mode: 'IGNORE' isn't valid: write FAILFAST or PERMISSIVE or DROPMALFORMED",
        ),
        (
            {**REGISTRY, "value.format": "avro", "rows": "ranges"},
            "option rows: ranges have no typed columns",
        ),
        (
            {
                **REGISTRY,
                "value.format": "json",
                "columnNameOfCorruptRecord": "Offset",
            },
            "option columnNameOfCorruptRecord: there is a column offset already",
        ),
        ({"columns": "value.id"}, "option columns: there is no column 'value.id'"),
        (
            {**REGISTRY, "value.format": "avro", "columns": "value,value.id"},
            "option columns: value and value.id are named: write one of them",
        ),
    ],
)
def test_an_invalid_option_says_what_to_write(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        SourceOptions.parse({**BASE, **options})
    assert text in str(caught.value)


def test_the_default_mode_is_that_of_sparks_functions() -> None:
    for format_, mode in [("avro", "FAILFAST"), ("protobuf", "FAILFAST"), ("json", "PERMISSIVE")]:
        options = SourceOptions.parse({**BASE, **REGISTRY, "value.format": format_})
        assert options.typed is not None
        assert options.typed.mode == mode
    assert options.columns[-2:] == ("_corrupt_record", "_corrupt_record_reason")


def test_fields_of_columns_are_a_projection() -> None:
    chosen = {"columns": "offset,value.id,VALUE.lines.sku"}
    options = SourceOptions.parse({**BASE, **REGISTRY, "value.format": "avro", **chosen})
    assert options.columns == ("offset", "value")
    assert options.typed is not None
    assert options.typed.decodings[0].fields == ("id", "lines.sku")


def test_secrets_of_the_registry_are_hidden() -> None:
    secrets = {
        "schema.registry.url": "http://user:s3cret@localhost:8081",
        "schema.registry.basic.auth.user.info": "user:s3cret",
        "schema.registry.bearer.auth.token": "s3cret",
        "schema.registry.ssl.key.password": "s3cret",
        "value.format": "avro",
    }
    options = SourceOptions.parse({**BASE, **secrets})
    shown = repr(options) + repr(options.typed)
    assert "s3cret" not in shown + repr(KafkaNativeDataSource(CaseInsensitiveDict(BASE | secrets)))
    with pytest.raises(OptionError) as caught:
        KafkaNativeDataSource(CaseInsensitiveDict({**BASE, **secrets})).schema()
    assert "s3cret" not in str(caught.value)


# --- types ---


def test_types_and_columns_of_spark() -> None:
    columns = {
        "small": pa.array([1], pa.uint8()),
        "large": pa.array([1 << 63], pa.uint64()),
        "at": pa.array([1], pa.timestamp("ms", "UTC")),
        "local": pa.array([1], pa.timestamp("ms")),
        "nanos": pa.array([1], pa.timestamp("ns", "UTC")),
        "time": pa.array([1], pa.time64("us")),
        "lasts": pa.array([1], pa.duration("us")),
        "fixed": pa.array([b"ab"], pa.binary(2)),
        "symbol": pa.array(["a"]).dictionary_encode(),
        "amount": pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
        "map": pa.array([[("k", {"x": 1})]], pa.map_(pa.string(), pa.struct([("x", pa.uint16())]))),
        "list": pa.array([[1, None]], pa.list_(pa.field("item", pa.uint32()))),
    }
    array = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
    array = pa.concat_arrays([array, pa.nulls(1, array.type), array]).slice(0, 2)
    found = spark_column(array.type)
    assert found.spark.simpleString() == (
        "struct<small:smallint,large:decimal(20,0),at:timestamp,local:timestamp_ntz,nanos:bigint,"
        "time:bigint,lasts:interval day to second,fixed:binary,symbol:string,amount:decimal(10,2),"
        "map:map<string,struct<x:int>>,list:array<bigint>>"
    )
    assert found.arrow == arrow_type(found.spark)
    made = conform(array, found.arrow)
    made.validate(full=True)
    assert made.type == found.arrow
    assert made.null_count == 1
    [row, nothing] = made.to_pylist()
    assert nothing is None
    assert row["large"] == 1 << 63
    assert (row["nanos"], row["time"], row["small"]) == (1, 1, 1)
    assert (row["fixed"], row["symbol"], row["amount"]) == (b"ab", "a", Decimal("1.50"))
    assert (row["map"], row["list"]) == ([("k", {"x": 1})], [1, None])
    assert conform(array.slice(1, 1), found.arrow).to_pylist() == [None]
    lists = pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int32())).slice(1, 3)
    assert (
        conform(lists, pa.list_(pa.field("element", pa.int64()))).to_pylist() == lists.to_pylist()
    )


def test_a_type_that_spark_lacks_names_the_field() -> None:
    wide = pa.struct([("a", pa.list_(pa.struct([("b", pa.decimal256(50, 2))])))])
    with pytest.raises(SchemaError, match=r"^a\[\]\.b: a decimal of 50 digits"):
        spark_column(wide)
    with pytest.raises(SchemaError, match="Spark has no type for month_day_nano_interval"):
        spark_column(pa.month_day_nano_interval())


def test_avro_schemas_are_read_as_by_from_avro() -> None:
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "nanos", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        {"name": "number", "type": ["null", "int", "long"]},
        {"name": "real", "type": ["float", "double"], "default": 1.5},
    ]}  # fmt: skip
    fields = spark_avro_schema(schema)["fields"]
    assert fields[0] == schema["fields"][0]  # type: ignore[index]
    assert fields[1]["type"] == {"type": "long"}
    assert fields[2]["type"] == ["null", "long"]
    assert fields[3] == {"name": "real", "type": ["double"], "default": 1.5}


# --- tasks ---


def test_avro_values_are_a_struct(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    produce(mock_cluster, topic, *encoded(client, topic, ORDER, ORDERS), None)
    options = {"schema_registry_url": registry.url, "value_format": "avro"}
    made = source(mock_cluster, topic, columns="offset,value", **options)
    kind = made.schema()
    assert isinstance(kind, StructType)
    assert kind.simpleString() == (
        "struct<offset:bigint,value:struct<id:bigint,customer:string,"
        "lines:array<struct<sku:string,count:int>>>>"
    )
    [first, second] = ORDERS.to_pylist()
    assert read(made, 3) == [
        {"offset": 0, "value": first},
        {"offset": 1, "value": second},
        {"offset": 2, "value": None},
    ]
    chosen = source(
        mock_cluster, topic, columns="value.lines.sku,partition,value.id", flatten="true", **options
    )
    assert [list(row) for row in read(chosen, 1)] == [["id", "lines", "partition"]]
    assert read(chosen, 3)[0] == {"id": 1, "lines": [{"sku": "a"}], "partition": 0}
    assert read(chosen, 3)[2] == {"id": None, "lines": None, "partition": 0}


def test_the_query_keeps_its_schema_and_takes_newer_records(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    produce(mock_cluster, topic, *encoded(client, topic, ORDER, ORDERS))
    options = {"schema_registry_url": registry.url, "value_format": "avro", "columns": "value"}
    made = source(mock_cluster, topic, **options)
    before = made.schema()
    newer = {
        **ORDER,
        "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}],
    }  # type: ignore[misc]
    rows = ORDERS.append_column("note", pa.array(["x", "y"]))
    produce(mock_cluster, topic, *encoded(client, topic, newer, rows))
    assert made.schema() == before
    assert [row["value"] for row in read(made, 4)] == ORDERS.to_pylist() * 2
    assert [row["value"]["note"] for row in read(source(mock_cluster, topic, **options), 4)] == [
        "", "", "x", "y",
    ]  # fmt: skip
    old = source(mock_cluster, topic, **options, value_schema="1")
    assert old.schema() == before


def test_a_worker_asks_for_a_schema_once(mock_cluster: MockCluster, topic: str) -> None:
    with MockSchemaRegistry() as running:
        with SchemaRegistryClient({"url": running.url}) as client:
            produce(mock_cluster, topic, *encoded(client, topic, ORDER, ORDERS))
        options = {"schema_registry_url": running.url, "value_format": "avro", "columns": "value"}
        made = source(mock_cluster, topic, **options)
        assert len(read(made, 2)) == 2
    assert len(read(made, 2)) == 2  # the registry is gone


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED", "PERMISSIVE"])
def test_bad_records(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
    mode: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    [first, second] = encoded(client, topic, ORDER, ORDERS)
    produce(mock_cluster, topic, first, b"no Avro", None, second, first[:-1])
    options = {"schema_registry_url": registry.url, "value_format": "avro", "mode": mode}
    made = source(mock_cluster, topic, **options, columns="value.id,offset")
    if mode == "FAILFAST":
        with pytest.raises(MalformedRecordError) as caught:
            read(made, 5)
        assert f"{topic} [0] at offset 1: its value doesn't decode: " in str(caught.value)
        assert "mode=PERMISSIVE" in str(caught.value)
        assert read(made, 1) == [{"value": {"id": 1}, "offset": 0}]  # a bad one after the range
        return
    if mode == "DROPMALFORMED":
        assert read(made, 5) == [
            {"value": {"id": 1}, "offset": 0},
            {"value": None, "offset": 2},
            {"value": {"id": 2}, "offset": 3},
            {"value": {"id": 1}, "offset": 4},  # its end is cut off, but no field of it is read
        ]
        assert "1 records don't decode and are left out" in caplog.text
        return
    assert [row["value"] for row in read(made, 5)] == [{"id": 1}, None, None, {"id": 2}, {"id": 1}]
    rows = read(source(mock_cluster, topic, **options, columnNameOfCorruptRecord="bad"), 5)
    assert [row["bad"] for row in rows] == [None, b"no Avro", None, None, first[:-1]]
    assert [row["bad_reason"] is None for row in rows] == [True, False, True, True, False]
    only = source(mock_cluster, topic, **options, columns="offset,_corrupt_record_reason")
    assert [row["offset"] for row in read(only, 5) if row["_corrupt_record_reason"]] == [1, 4]


def test_unions_and_references_are_those_of_from_avro(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    line = {"type": "record", "name": "Money", "fields": [
        {"name": "euros", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                   "scale": 2}}]}  # fmt: skip
    client.register_schema("money", Schema(json.dumps(line)))
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "price", "type": "Money"},
        {"name": "what", "type": ["string", "null", {"type": "array", "items": ["int", "boolean"]}]},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
    ]}  # fmt: skip
    references = [SchemaReference("Money", "money", 1)]
    number = client.register_schema(
        f"{topic}-value", Schema(json.dumps(schema), "AVRO", references)
    )
    framing = b"\0" + number.to_bytes(4, "big")
    records = [b"\x02\x7d\x00\x02a\x02u", b"\x02\x7d\x04\x04\x00\x0a\x02\x01\x00\x02u"]
    produce(mock_cluster, topic, *(framing + each for each in records))
    made = source(
        mock_cluster, topic, schema_registry_url=registry.url, value_format="avro", columns="value"
    )
    assert made.schema().simpleString() == (  # type: ignore[union-attr]
        "struct<value:struct<price:struct<euros:decimal(9,2)>,"
        "what:struct<member0:string,member1:array<struct<member0:int,member1:boolean>>>,id:string>>"
    )
    inner = [{"member0": 5, "member1": None}, {"member0": None, "member1": True}]
    price = {"euros": Decimal("1.25")}
    assert [row["value"] for row in read(made, 2)] == [
        {"price": price, "what": {"member0": "a", "member1": None}, "id": "u"},
        {"price": price, "what": {"member0": None, "member1": inner}, "id": "u"},
    ]


def test_unions_of_numbers_without_a_registry(mock_cluster: MockCluster, topic: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "whole", "type": ["null", "int", "long"]},
        {"name": "real", "type": ["float", "double"]},
    ]}  # fmt: skip
    produce(
        mock_cluster,
        topic,
        b"\x02\x0a\x00" + struct.pack("<f", 1.5),
        b"\x04\x0c\x02" + struct.pack("<d", 2.5),
        b"\x00\x00" + struct.pack("<f", 3.5),
    )
    made = source(
        mock_cluster, topic, value_format="avro", value_schema=json.dumps(schema), columns="value"
    )
    assert made.schema().simpleString() == "struct<value:struct<whole:bigint,real:double>>"  # type: ignore[union-attr]
    assert [row["value"] for row in read(made, 3)] == [
        {"whole": 5, "real": 1.5},
        {"whole": 6, "real": 2.5},
        {"whole": None, "real": 3.5},
    ]


@needs_simdjson
def test_json_by_a_schema_of_spark_or_a_json_schema(mock_cluster: MockCluster, topic: str) -> None:
    produce(
        mock_cluster,
        topic,
        b'{"id": 1, "at": "2026-01-02T03:04:05Z", "tags": {"a": [1, null]}}',
        b'{"id": "no"}',
        key=b'{"type": "string"}',
    )
    kind = StructType.fromJson(
        json.loads(
            '{"type": "struct", "fields": ['
            '{"name": "id", "type": "long", "nullable": true, "metadata": {}},'
            '{"name": "at", "type": "timestamp", "nullable": true, "metadata": {}},'
            '{"name": "tags", "type": {"type": "map", "keyType": "string", "valueType": {'
            '"type": "array", "elementType": "integer", "containsNull": true}, '
            '"valueContainsNull": true}, "nullable": true, "metadata": {}}]}'
        )
    )
    made = source(mock_cluster, topic, value_format="json", value_schema=kind.json())
    rows = read(made, 2)
    assert rows[0]["value"]["tags"] == [("a", [1, None])]
    assert rows[0]["key"] == b'{"type": "string"}'
    assert (rows[1]["value"], rows[1]["_corrupt_record"]) == (None, b'{"id": "no"}')
    schema = {"properties": {"at": {"type": "string", "format": "time"}, "id": {"type": "integer"}}}
    text = json.dumps({"type": "object", **schema})
    made = source(mock_cluster, topic, value_format="json", value_schema=text, columns="value")
    assert made.schema().simpleString() == "struct<value:struct<at:string,id:bigint>>"  # type: ignore[union-attr]
    flat = source(
        mock_cluster, topic, value_format="json", value_schema=text, columns="value", flatten="true"
    )
    assert flat._parsed().other_columns == ["at", "id"]


def test_protobuf_by_message_and_projection(mock_cluster: MockCluster, topic: str) -> None:
    pytest.importorskip("google.protobuf")
    text = (
        'syntax = "proto3"; package p; import "google/protobuf/timestamp.proto"; '
        "message Other {} message Visit { string page = 1; uint32 seconds = 2; "
        "google.protobuf.Timestamp at = 3; repeated string tags = 4; }"
    )
    produce(mock_cluster, topic, b"\x0a\x04home\x10\x07\x1a\x04\x08\x01\x10\x00", b"\x0a\x09x")
    options = {"value_format": "protobuf", "value_schema": text, "value_message": "p.Visit"}
    made = source(mock_cluster, topic, columns="value", mode="PERMISSIVE", **options)
    assert made.schema().simpleString() == (  # type: ignore[union-attr]
        "struct<value:struct<page:string,seconds:bigint,at:timestamp,tags:array<string>>>"
    )
    [good, bad] = read(made, 2)
    assert good["value"]["seconds"] == 7
    assert good["value"]["at"].timestamp() == 1
    assert bad["value"] is None


def test_columns_that_cant_be_say_so(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    def schema_of(**options: Any) -> Any:
        return source(mock_cluster, topic, **{"value_format": "avro", **options}).schema()

    number = {"name": "offset", "type": "int"}
    text = json.dumps({"type": "record", "name": "R", "fields": [number]})
    with pytest.raises(OptionError, match="two columns are named offset: leave one out"):
        schema_of(value_schema=text, flatten="true")
    flat = schema_of(value_schema=text, flatten="true", columns="value,partition")
    assert flat.fieldNames() == ["offset", "partition"]
    with pytest.raises(OptionError, match="the value has no fields"):
        schema_of(value_schema='"long"', flatten="true")
    with pytest.raises(OptionError, match=r"value\.schema: x: there is no such field"):
        schema_of(value_schema=text, columns="value.x")
    with pytest.raises(OptionError, match=rf"doesn't return {topic}-value version latest"):
        schema_of(schema_registry_url=registry.url)
    client.register_schema(f"{topic}-value", Schema('{"type": "object"}', "JSON"))
    with pytest.raises(OptionError, match="a schema of type JSON, not AVRO"):
        schema_of(schema_registry_url=registry.url)


# --- schemas beside a checkpoint ---


def test_a_restarted_stream_keeps_its_schema(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def loaded(**more: Any) -> KafkaNativeDataSource:
        made = source(
            mock_cluster,
            topic,
            schema_registry_url=registry.url,
            value_format="avro",
            checkpointLocation=tmp_path,
            **more,
        )
        made.schema()
        return made

    def fields(made: KafkaNativeDataSource) -> list[str]:
        kind = made.schema()
        assert isinstance(kind, StructType)
        return kind["value"].dataType.fieldNames()  # type: ignore[attr-defined, no-any-return]

    client.register_schema(f"{topic}-value", Schema(json.dumps(ORDER)))
    first = loaded()
    (tmp_path / "metadata").write_text('{"id": "q-1"}')  # Spark starts the query
    keep(first._parsed())
    note = {"name": "note", "type": "string", "default": ""}
    newer = {**ORDER, "fields": [*ORDER["fields"][1:], note]}  # type: ignore[index]
    client.register_schema(f"{topic}-value", Schema(json.dumps(newer)))
    assert fields(loaded()) == ["id", "customer", "lines"]
    keep(loaded()._parsed())
    servers = f"127.0.0.1:1,{mock_cluster.bootstrap_servers}"  # of the same cluster
    assert fields(loaded(kafka_bootstrap_servers=servers)) == ["id", "customer", "lines"]
    assert "moves" not in caplog.text
    assert fields(loaded(value_schema="2")) == ["customer", "lines", "note"]
    upgraded = loaded(value_schema_upgrade="true")
    assert fields(upgraded) == ["customer", "lines", "note"]
    assert f"({topic}-value version 2): added note string; removed id bigint" in caplog.text
    assert fields(loaded()) == ["id", "customer", "lines"]  # it hasn't been started
    keep(upgraded._parsed())
    assert fields(loaded()) == ["customer", "lines", "note"]
    with pytest.raises(OptionError, match=r"the stream keeps .* version 2\), but the frame has"):
        keep(first._parsed())
    (tmp_path / "metadata").write_text('{"id": "q-2"}')  # another query in the folder
    keep(first._parsed())
    assert fields(loaded()) == ["id", "customer", "lines"]


def test_difference_names_each_field() -> None:
    before = spark_column(pa.struct([("a", pa.int32()), ("b", pa.list_(LINE))])).spark
    wider = pa.struct([("sku", pa.string()), ("count", pa.int64())])
    after = spark_column(
        pa.struct([("b", pa.list_(wider)), ("c", pa.map_("string", "bool"))])
    ).spark
    assert difference(before, after) == [
        "added c[] boolean",
        "removed a int",
        "changed b[].count from int to bigint",
    ]
    assert difference(before, before) == []
