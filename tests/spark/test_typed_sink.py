"""Typed columns of sinks without a JVM: each format, and what is refused before a row is queued."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as OtherRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer as OtherJSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as OtherDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

from kafka_native import Producer
from kafka_native._native import codec_core
from kafka_native.codecs import AvroEncoder
from kafka_native.codecs.protobuf_descriptors import message_of
from kafka_native.mock import MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import (
    ConfigCompatibilityLevel,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from kafka_native.spark import log, producers
from kafka_native.spark.column_types import arrow_type
from kafka_native.spark.errors import OptionError
from kafka_native.spark.writers import StreamWriter, WriteError, stream_writer
from tests.spark.support import needs_stream_writer
from tests.spark.typed_topics import (
    NESTED,
    ORDER,
    ORDERS,
    nested_rows,
    read,
    sink_options,
    source,
    spark_type,
    task_writer,
    write,
)

pytestmark = pytest.mark.usefixtures("no_consumer_left", "no_producer_left")

needs_simdjson = pytest.mark.skipif(not codec_core.HAS_JSON, reason="this build has no simdjson")


@pytest.fixture
def no_producer_left() -> Iterator[None]:
    yield
    producers.close_idle()


def test_a_sink_encodes_what_the_source_reads(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    options = {"schema_registry_url": registry.url, "value_format": "avro"}
    # The columns of the frame are the fields. Their schema is made and registered.
    assert write(mock_cluster, topic, ORDERS, **options) == 2
    assert client.get_latest_version(f"{topic}-value").version == 1
    # A column value is the record. The subject has a schema now.
    value = pa.table({"value": ORDERS.to_struct_array().combine_chunks(), "key": [b"a", b"b"]})
    value = pa.concat_tables([value, pa.table({"value": [None], "key": [b"c"]}, value.schema)])
    assert write(mock_cluster, topic, value, **options) == 3
    made = source(mock_cluster, topic, columns="key,value", **options)
    orders = ORDERS.to_pylist()
    assert [row["value"] for row in read(made, 5)] == [*orders, *orders, None]
    assert [row["key"] for row in read(made, 5)] == [None, None, b"a", b"b", b"c"]
    assert client.get_versions(f"{topic}-value") == [1]
    # Keys and values, with a schema of the options.
    text = json.dumps({"type": "record", "name": "Id", "fields": [{"name": "id", "type": "long"}]})
    both = pa.table({"id": [7], "key": ["k"]})
    typed = {**options, "value_schema": text, "key_format": "avro"}
    client.set_config(
        f"{topic}-value", config=ServerConfig(compatibility=ConfigCompatibilityLevel.NONE)
    )
    assert write(mock_cluster, topic, both, **typed) == 1
    made = source(mock_cluster, topic, columns="key,value", key_format="avro", **options)
    assert read(made, 6, 5) == [{"key": "k", "value": {"id": 7}}]


def test_a_frame_that_doesnt_fit_is_refused_before_a_row_is_queued(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    options = {"schema_registry_url": registry.url, "value_format": "avro"}
    number = {"name": "id", "type": "long"}
    text = json.dumps({"type": "record", "name": "Id", "fields": [number]})
    client.register_schema(f"{topic}-value", Schema(text))
    with pytest.raises(OptionError, match=r"value\.format: the columns don't fit: .*customer"):
        write(mock_cluster, topic, ORDERS, **options)
    with pytest.raises(WriteError, match=r"row 1, field value\.id: "):
        write(mock_cluster, topic, pa.table({"id": [1, None]}), **options)
    with pytest.raises(OptionError, match=r"key\.format: there is no column key"):
        write(mock_cluster, topic, pa.table({"id": [1]}), key_format="avro", **options)
    with pytest.raises(OptionError, match=r"value\.subject: no schema is found"):
        write(mock_cluster, topic, pa.table({"id": [1]}), value_schema="7", **options)
    assert mock_cluster.messages(topic, 0) == []


def test_records_without_a_registry_have_no_framing(mock_cluster: MockCluster, topic: str) -> None:
    text = json.dumps(ORDER)
    assert write(mock_cluster, topic, ORDERS, value_format="avro", value_schema=text) == 2
    made = source(mock_cluster, topic, value_format="avro", value_schema=text, columns="value")
    assert [row["value"] for row in read(made, 2)] == ORDERS.to_pylist()


@pytest.mark.parametrize("is_flat", [True, False])
def test_each_avro_type_is_written_as_it_was(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
    is_flat: bool,
) -> None:
    """Unions, times and nanoseconds have other types in Spark."""
    text = json.dumps(NESTED)
    records = pa.chunked_array(AvroEncoder(text).encode(nested_rows(12))).to_pylist()
    with Producer({"bootstrap.servers": mock_cluster.bootstrap_servers}) as producer:
        for each in records:
            producer.produce(topic, each)
        assert producer.flush(30) == 0
    made = source(
        mock_cluster,
        topic,
        value_format="avro",
        value_schema=text,
        columns="value",
        flatten=str(is_flat).lower(),
    )
    kind = made.schema()
    assert isinstance(kind, StructType)
    frame = pa.Table.from_pylist(read(made, 12), schema=pa.schema(list(arrow_type(kind))))
    client.register_schema(f"{topic}-copy", Schema(text))
    latest = {"schema_registry_url": registry.url, "value_subject": f"{topic}-copy"}
    assert write(mock_cluster, topic, frame, value_format="avro", value_schema=text) == 12
    assert write(mock_cluster, topic, frame, value_format="avro", **latest) == 12
    assert write(mock_cluster, topic, frame, value_format="avro", value_schema=1, **latest) == 12
    given = {**latest, "value_subject": f"{topic}-given", "value_schema": text}
    assert write(mock_cluster, topic, frame, value_format="avro", **given) == 12
    found = values_of(mock_cluster, topic)[12:]
    assert found[:12] == records
    assert [each[5:] for each in found[12:]] == records * 3


# --- JSON and Protobuf ---


VISITS = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Other {}
message Visit {
  message Place { string city = 1; }
  enum Kind { UNKNOWN = 0; PAID = 1; }
  string page = 1;
  uint32 seconds = 2;
  uint64 bytes = 3;
  google.protobuf.Timestamp at = 4;
  repeated string tags = 5;
  map<string, int32> counts = 6;
  Place place = 7;
  Kind kind = 8;
}
"""
VISIT_ROWS = pa.table(
    {
        "page": ["home", "end"],
        "seconds": pa.array([7, 1 << 31]),
        "bytes": pa.array([Decimal(1), Decimal((1 << 64) - 1)], pa.decimal128(20, 0)),
        "at": pa.array([1_000_001, 0], pa.timestamp("us", "UTC")),
        "tags": pa.array([["a", "b"], []]),
        "counts": pa.array([[("x", 1)], []], pa.map_(pa.string(), pa.int32())),
        "place": pa.array([{"city": "Bern"}, None]),
        "kind": ["PAID", "UNKNOWN"],
    }
)


def values_of(cluster: MockCluster, topic: str) -> list[bytes]:
    """Return the values of the topic's records."""
    return [each.value or b"" for each in cluster.messages(topic, 0)]


def read_by_others(
    registry: MockSchemaRegistry, topic: str, values: list[bytes], class_: Any = None
) -> list[Any]:
    """Return what confluent_kafka's deserializers read: messages of a class, or else JSON."""
    context = SerializationContext(topic, MessageField.VALUE)
    with OtherRegistryClient({"url": registry.url}) as client:
        if class_ is None:
            read_json = OtherJSONDeserializer(None, schema_registry_client=client)
            return [read_json(each, context) for each in values]
        deserialize = OtherDeserializer(class_, {"use.deprecated.format": False}, client)
        return [MessageToDict(deserialize(each, context)) for each in values]


@needs_simdjson
def test_json_with_a_registry(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    options = {"schema_registry_url": registry.url, "value_format": "json"}
    # The schema is made from the columns and registered. Then it is the latest version.
    assert write(mock_cluster, topic, ORDERS, **options) == 2
    value = pa.table({"value": ORDERS.to_struct_array().combine_chunks(), "key": [b"a", b"b"]})
    assert write(mock_cluster, topic, value, **options) == 2
    registered = client.get_latest_version(f"{topic}-value")
    assert (registered.version, registered.schema.schema_type) == (1, "JSON")
    assert json.loads(registered.schema.schema_str or "")["title"] == topic
    first = [ORDERS.to_pylist()[0], {"id": 2, "lines": []}]  # nulls are left out
    found = read_by_others(registry, topic, values_of(mock_cluster, topic))
    assert found == [*first, *first]
    made = source(mock_cluster, topic, columns="key,value", **options)
    orders = [{name: row[name] for name in sorted(row)} for row in ORDERS.to_pylist()]
    rows = read(made, 4)
    assert [{name: row["value"][name] for name in sorted(row["value"])} for row in rows] == [
        *orders,
        *orders,
    ]
    assert [row["key"] for row in rows] == [None, None, b"a", b"b"]


@needs_simdjson
def test_json_by_a_schema_of_the_options(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
    tmp_path: Path,
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "at": {"type": "string", "format": "date-time"},
            "price": {"type": "number"},
            "id": {"type": "string", "format": "uuid"},
        },
        "required": ["at"],
    }
    (tmp_path / "visit.json").write_text(json.dumps(schema))
    uuid = "01234567-89ab-cdef-0123-456789abcdef"
    table = pa.table({
        "at": pa.array([1_000_001, None], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
        "id": [uuid, None],
        "key": ["a", "b"],
    })  # fmt: skip
    options = {
        "schema_registry_url": registry.url,
        "value_format": "json",
        "key_format": "json",
        "value_subject": f"{topic}-visits",
    }
    typed = {**options, "value_schema": str(tmp_path / "visit.json")}
    with pytest.raises(WriteError, match=r"row 1, field value\.at: .*null"):
        write(mock_cluster, topic, table, **typed)
    assert write(mock_cluster, topic, table.slice(0, 1), **typed) == 1
    assert sorted(each for each in client.get_subjects() if each.startswith(f"{topic}-")) == [
        f"{topic}-key",
        f"{topic}-visits",
    ]
    [value] = values_of(mock_cluster, topic)
    assert json.loads(value[5:]) == {"at": "1970-01-01T00:00:01.000001Z", "price": 1.5, "id": uuid}
    [key] = [each.key for each in mock_cluster.messages(topic, 0)]
    assert (key or b"")[5:] == b'"a"'
    # A version of the subject
    client.set_config(
        f"{topic}-visits", config=ServerConfig(compatibility=ConfigCompatibilityLevel.NONE)
    )
    client.register_schema(f"{topic}-visits", Schema('{"type": "string"}', "JSON"))
    with pytest.raises(OptionError, match=r"value\.format: the columns don't fit"):
        write(mock_cluster, topic, table.slice(0, 1), **options)
    assert write(mock_cluster, topic, table.slice(0, 1), **options, value_schema="1") == 1
    assert values_of(mock_cluster, topic) == [value, value]


@needs_simdjson
def test_json_without_a_registry(mock_cluster: MockCluster, topic: str) -> None:
    # Without a schema, the columns' types say how values are written.
    assert write(mock_cluster, topic, ORDERS, value_format="json") == 2
    # A schema of Spark's makes other types.
    fields = [StructField("id", DoubleType()), StructField("customer", StringType())]
    kind = StructType(fields).json()
    table = ORDERS.select(["id", "customer"])
    assert write(mock_cluster, topic, table, value_format="json", value_schema=kind) == 2
    assert [json.loads(each) for each in values_of(mock_cluster, topic)] == [
        ORDERS.to_pylist()[0],
        {"id": 2, "lines": []},
        {"id": 1.0, "customer": "ann"},
        {"id": 2.0},
    ]
    made = source(mock_cluster, topic, value_format="json", value_schema=kind, columns="value")
    assert [row["value"]["id"] for row in read(made, 4)] == [1.0, 2.0, 1.0, 2.0]
    with pytest.raises(OptionError, match=r"value\.format: the columns don't fit: .*lines"):
        write(mock_cluster, topic, ORDERS, value_format="json", value_schema=kind)
    with pytest.raises(OptionError, match=r"schema\.registry\.url: it is missing"):
        write(mock_cluster, topic, ORDERS, value_format="json", value_schema="1")
    assert len(values_of(mock_cluster, topic)) == 4


def test_protobuf_with_a_registry(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "visits.proto").write_text(VISITS)
    options = {
        "schema_registry_url": registry.url,
        "value_format": "protobuf",
        "value_message": "shop.Visit",
    }
    with pytest.raises(OptionError, match=rf"value\.schema: {topic}-value has no versions"):
        write(mock_cluster, topic, VISIT_ROWS, **options)
    typed = {**options, "value_schema": str(tmp_path / "visits.proto")}
    assert write(mock_cluster, topic, VISIT_ROWS, **typed) == 2
    assert client.get_latest_version(f"{topic}-value").schema.schema_type == "PROTOBUF"
    # The latest version, and a version
    assert write(mock_cluster, topic, VISIT_ROWS, **options) == 2
    assert write(mock_cluster, topic, VISIT_ROWS.slice(0, 1), **options, value_schema="1") == 1
    assert client.get_versions(f"{topic}-value") == [1]
    class_ = GetMessageClass(message_of(VISITS, "shop.Visit", {}))
    values = values_of(mock_cluster, topic)
    assert {each[5:7] for each in values} == {b"\2\2"}  # the second message of the file
    first = {
        "page": "home",
        "seconds": 7,
        "bytes": "1",
        "at": "1970-01-01T00:00:01.000001Z",
        "tags": ["a", "b"],
        "counts": {"x": 1},
        "place": {"city": "Bern"},
        "kind": "PAID",
    }
    second = {
        "page": "end",
        "seconds": 1 << 31,
        "bytes": str((1 << 64) - 1),
        "at": "1970-01-01T00:00:00Z",
    }
    found = read_by_others(registry, topic, values, class_)
    assert found == [first, second, first, second, first]
    made = source(mock_cluster, topic, columns="value", **options)
    rows = VISIT_ROWS.to_pylist()
    assert [row["value"] for row in read(made, 5)] == [*rows, *rows, rows[0]]


def test_protobuf_takes_decimals_without_a_fraction(mock_cluster: MockCluster, topic: str) -> None:
    text = (
        'syntax = "proto3"; message A { message B { uint64 n = 1; } '
        "int64 small = 1; repeated B list = 2; map<string, uint64> by_name = 3; uint64 big = 4; }"
    )
    wide, big = pa.decimal128(20, 0), Decimal((1 << 64) - 1)
    table = pa.table({
        "small": pa.array([Decimal(-5), None], pa.decimal128(18, 0)),
        "list": pa.array([[{"n": big}], []], pa.list_(pa.struct([("n", wide)]))),
        "by_name": pa.array([[("a", big)], []], pa.map_(pa.string(), wide)),
        "big": pa.array([big, Decimal(0)], wide),
    })  # fmt: skip
    typed = {"value_format": "protobuf", "value_schema": text}
    assert write(mock_cluster, topic, table, **typed) == 2
    [first, second] = [
        row["value"] for row in read(source(mock_cluster, topic, columns="value", **typed), 2)
    ]
    assert first == {"small": -5, "list": [{"n": big}], "by_name": [("a", big)], "big": big}
    assert second == {"small": 0, "list": [], "by_name": [], "big": 0}
    negative = pa.table({"big": pa.array([Decimal(-1)], wide)})
    with pytest.raises(
        WriteError, match=r"after 0 rows of the task: column value: .*out of bounds"
    ):
        write(mock_cluster, topic, negative, **typed)
    fraction = pa.table({"big": pa.array([Decimal("1.5")], pa.decimal128(20, 1))})
    with pytest.raises(OptionError, match="big: a column of decimal"):
        write(mock_cluster, topic, fraction, **typed)


def test_protobuf_with_imports_of_the_registry(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
) -> None:
    city = 'syntax = "proto3"; package shop; message City { string name = 1; }'
    order = (
        'syntax = "proto3"; package shop; import "city.proto"; '
        "message Order { int64 id = 1; City city = 2; }"
    )
    client.register_schema("city.proto", Schema(city, "PROTOBUF"))
    references = [SchemaReference("city.proto", "city.proto", 1)]
    client.register_schema(f"{topic}-value", Schema(order, "PROTOBUF", references))
    options = {"schema_registry_url": registry.url, "value_format": "protobuf"}
    rows = pa.table({"id": [1, 2], "city": [{"name": "Bern"}, None]})
    assert write(mock_cluster, topic, rows, **options) == 2
    made = source(mock_cluster, topic, columns="value", **options)
    assert [row["value"] for row in read(made, 2)] == rows.to_pylist()


def test_protobuf_without_a_registry(mock_cluster: MockCluster, topic: str, tmp_path: Path) -> None:
    typed = {"value_format": "protobuf", "value_schema": VISITS, "value_message": "shop.Visit"}
    assert write(mock_cluster, topic, VISIT_ROWS, **typed) == 2
    # A descriptor set
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    message_of(VISITS, "shop.Visit", {}).file.CopyToProto(files.file.add())
    (tmp_path / "visits.desc").write_bytes(files.SerializeToString())
    keys = VISIT_ROWS.select(["seconds"]).append_column("value", pa.array([b"a", b"b"]))
    keys = keys.rename_columns(["key", "value"]).set_column(
        0, "key", VISIT_ROWS.select(["seconds"]).to_struct_array().combine_chunks()
    )
    key = {"key_format": "protobuf", "key_schema": str(tmp_path / "visits.desc")}
    assert write(mock_cluster, topic, keys, **key, key_message="shop.Visit") == 2
    made = source(mock_cluster, topic, columns="value", **typed)
    assert [row["value"] for row in read(made, 2)] == VISIT_ROWS.to_pylist()
    records = mock_cluster.messages(topic, 0)[2:]
    assert [(each.key, each.value) for each in records] == [
        (b"\x10\x07", b"a"),
        (b"\x10\x80\x80\x80\x80\x08", b"b"),
    ]


@pytest.mark.parametrize(
    ("options", "columns", "text"),
    [
        (
            {"value_format": "protobuf", "value_schema": VISITS, "value_message": "shop.No"},
            {"page": ["a"]},
            "option value.format: the columns don't fit: the schema has no message shop.No",
        ),
        (
            {"value_format": "protobuf", "value_schema": VISITS, "value_message": "shop.Visit"},
            {"pages": ["a"]},
            "option value.format: the columns don't fit: pages: the message has no such field",
        ),
        (
            {"value_format": "protobuf", "value_schema": VISITS, "value_message": "shop.Visit"},
            {"seconds": ["a"]},
            "option value.format: the columns don't fit: seconds: a column of string",
        ),
        (
            {"value_format": "protobuf", "value_schema": "syntax = ;"},
            {"page": ["a"]},
            "option value.schema: it is neither a schema, a version nor a file",
        ),
        (
            {"value_format": "protobuf", "value_schema": "message {"},
            {"page": ["a"]},
            "option value.format: the columns don't fit: the Protobuf schema",
        ),
        pytest.param(
            {"value_format": "json", "value_schema": '{"type": "boolean"}'},
            {"value": [1]},
            "option value.format: the columns don't fit: a column of int64",
            marks=needs_simdjson,
        ),
        pytest.param(
            {"value_format": "json", "key_format": "json", "key_schema": '{"type": "integer"}'},
            {"value": [1], "key": ["a"]},
            "option key.format: the columns don't fit: a column of string",
            marks=needs_simdjson,
        ),
    ],
)
def test_columns_that_dont_fit_are_refused_before_a_row_is_queued(
    mock_cluster: MockCluster,
    topic: str,
    options: dict[str, str],
    columns: dict[str, list[Any]],
    text: str,
) -> None:
    with pytest.raises(OptionError) as caught:
        write(mock_cluster, topic, pa.table(columns), **options)
    assert text in str(caught.value)
    assert mock_cluster.messages(topic, 0) == []


def test_tasks_ask_no_registry(mock_cluster: MockCluster, topic: str) -> None:
    with MockSchemaRegistry() as running:
        options = {"schema_registry_url": running.url, "value_format": "avro"}
        writer = task_writer(mock_cluster, topic, ORDERS.schema, **options)
        with SchemaRegistryClient({"url": running.url}) as client:
            schema = client.get_latest_version(f"{topic}-value").schema.schema_str
    assert writer.write(iter(ORDERS.to_batches())).rows == 2  # the registry is gone
    expected = AvroEncoder(schema or "", prefix=b"\0\0\0\0\1").encode(ORDERS)
    assert values_of(mock_cluster, topic) == pa.chunked_array(expected).to_pylist()


# --- schemas beside a checkpoint ---


def subject_requests(registry: MockSchemaRegistry, subject: str) -> int:
    """Return how many requests for a subject the registry has got."""
    return sum(subject in each.path for each in registry.requests)


def micro_batch_writer(
    cluster: MockCluster, topic: str, schema: pa.Schema, **more: Any
) -> StreamWriter:
    """Return a writer as Spark makes one for each micro-batch, and one for each commit."""
    options = sink_options(cluster, topic, **more)
    return stream_writer(CaseInsensitiveDict(options), spark_type(schema), False)


@needs_stream_writer
@pytest.mark.parametrize("format_", ["avro", pytest.param("json", marks=needs_simdjson)])
def test_a_stream_asks_the_registry_once(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
    tmp_path: Path,
    format_: str,
) -> None:
    subject = f"{topic}-value"
    options = {
        "schema_registry_url": registry.url,
        "value_format": format_,
        "checkpointLocation": tmp_path,
    }
    (tmp_path / "metadata").write_text('{"id": "q-1"}')  # Spark starts the query
    first = micro_batch_writer(mock_cluster, topic, ORDERS.schema, **options)
    asked = subject_requests(registry, subject)
    assert asked
    for _ in range(3):
        writer = micro_batch_writer(mock_cluster, topic, ORDERS.schema, **options)
        assert writer._options == first._options
        assert writer.write(iter(ORDERS.to_batches())).rows == 2
    assert subject_requests(registry, subject) == asked
    made = source(mock_cluster, topic, columns="value", **{**options, "checkpointLocation": ""})
    assert [row["value"]["id"] for row in read(made, 6)] == [1, 2] * 3

    # Other columns, options or queries find schemas anew.
    def has_asked(schema: pa.Schema, **more: Any) -> bool:
        before = subject_requests(registry, subject)
        micro_batch_writer(mock_cluster, topic, schema, **{**options, **more})
        return subject_requests(registry, subject) > before

    fewer = pa.schema(list(ORDERS.schema)[:1])
    assert has_asked(fewer)
    assert not has_asked(fewer)
    assert has_asked(ORDERS.schema)
    assert has_asked(ORDERS.schema, value_schema="1")
    assert not has_asked(ORDERS.schema, value_schema="1")
    (tmp_path / "metadata").write_text('{"id": "q-2"}')
    assert has_asked(ORDERS.schema, value_schema="1")


@needs_stream_writer
def test_a_stream_moves_to_a_newer_schema(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    client: SchemaRegistryClient,
    topic: str,
    tmp_path: Path,
) -> None:
    options = {
        "schema_registry_url": registry.url,
        "value_format": "avro",
        "checkpointLocation": tmp_path,
    }
    (tmp_path / "metadata").write_text('{"id": "q-1"}')
    old = client.register_schema(f"{topic}-value", Schema(json.dumps(ORDER)))
    note = {"name": "note", "type": "string", "default": ""}
    fields = [*ORDER["fields"], note]  # type: ignore[misc]

    def schema_id(**more: Any) -> int:
        made = micro_batch_writer(mock_cluster, topic, ORDERS.schema, **{**options, **more})
        assert made._options.encodings is not None
        return int.from_bytes(made._options.encodings.columns[0].prefix[1:], "big")

    assert schema_id() == old
    new = client.register_schema(f"{topic}-value", Schema(json.dumps({**ORDER, "fields": fields})))
    assert schema_id() == old
    assert schema_id(value_schema_upgrade="true") == new
    assert schema_id() == new


@needs_stream_writer
def test_without_its_checkpoint_a_stream_asks_with_each_micro_batch(
    mock_cluster: MockCluster,
    registry: MockSchemaRegistry,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = {"schema_registry_url": registry.url, "value_format": "avro"}
    caplog.set_level("INFO", logger=log.logger.name)
    asked = [0]
    places: list[dict[str, Any]] = [
        {},
        {"checkpointLocation": tmp_path},
        {"checkpointLocation": "unknown://a"},
    ]
    for place in places * 2:
        micro_batch_writer(mock_cluster, topic, ORDERS.schema, **options, **place)
        asked.append(subject_requests(registry, f"{topic}-value"))
        assert asked[-1] > asked[-2]
    texts = [each.getMessage() for each in caplog.records]
    assert len([each for each in texts if "each micro-batch asks the schema registry" in each]) == 4
    assert list(tmp_path.iterdir()) == []
