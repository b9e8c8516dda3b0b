"""produce_arrow() with a codec: typed columns become records of the registry's framing."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient as OtherRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kafka_native import OFFSET_BEGINNING, ArrowReport, Message
from kafka_native.codecs import Avro, EncodeError, Json, SchemaError, encoded_rows
from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import (
    Rule,
    RuleKind,
    RuleMode,
    RuleSet,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from tests.waiting import WAIT_S

from .support import Client, partitions_of, read_all
from .typed_support import sent

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": ["null", "string"]}],
}
ROWS = [{"id": 1, "who": "ann"}, {"id": 2, "who": None}, {"id": 3, "who": "bob"}]
UTC = datetime.timezone.utc


def read_by_others(
    server: MockSchemaRegistry, messages: list[Message], field: MessageField = MessageField.VALUE
) -> list[Any]:
    """Return what confluent_kafka's deserializer reads."""
    with OtherRegistryClient({"url": server.url}) as client:
        deserialize = AvroDeserializer(client)
        return [
            deserialize(
                each.value() if field == MessageField.VALUE else each.key(),
                SerializationContext(str(each.topic()), field),
            )
            for each in messages
        ]


def test_values_and_keys_are_read_by_confluent_kafka(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    topic = client.topic()
    messages = sent(
        client,
        pa.Table.from_pylist(ROWS),
        3,
        topic,
        value=Avro(registry, schema=PAYMENT),
        value_columns=["id", "who"],
        key=Avro(registry, schema="long"),
        key_columns="id",
    )
    assert read_by_others(server, messages) == ROWS
    assert read_by_others(server, messages, MessageField.KEY) == [1, 2, 3]
    assert registry.get_subjects() == [f"{topic}-key", f"{topic}-value"]


def test_a_schema_is_made_from_the_columns(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    row = {
        "int": 5,
        "big": 1 << 40,
        "real": 1.5,
        "text": "x",
        "blob": b"\xff",
        "flag": True,
        "day": datetime.date(2026, 11, 28),
        "time": datetime.time(1, 2, 3, 4000),
        "at": datetime.datetime(2026, 11, 28, 1, 2, 3, 4000, UTC),
        "price": decimal.Decimal("12.34"),
        "list": [1, None],
        "map": {"k": 1.5},
        "inner": {"a": 1, "b": {"c": "y"}},
        "none": None,
        "fixed": b"ab",
    }
    kinds = pa.schema(
        [
            ("int", pa.int16()),
            ("big", pa.int64()),
            ("real", pa.float64()),
            ("text", pa.dictionary(pa.int8(), pa.string())),
            pa.field("blob", pa.binary(), nullable=False),
            ("flag", pa.bool_()),
            ("day", pa.date32()),
            ("time", pa.time64("us")),
            ("at", pa.timestamp("ms", "UTC")),
            ("price", pa.decimal128(9, 2)),
            ("list", pa.list_(pa.int32())),
            ("map", pa.map_(pa.string(), pa.float32())),
            ("inner", pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.string())]))])),
            ("none", pa.null()),
            ("fixed", pa.binary(2)),
        ]
    )
    table = pa.Table.from_pylist([row, dict.fromkeys(row) | {"blob": b""}], kinds)
    topic = client.topic()
    messages = sent(client, table, 2, topic, value=Avro(registry))
    assert read_by_others(server, messages) == [row, dict.fromkeys(row) | {"blob": b""}]
    text = registry.get_latest_version(f"{topic}-value").schema.schema_str
    schema = json.loads(text or "")
    assert schema["name"] == topic.replace("-", "_")
    fields = {each["name"]: each for each in schema["fields"]}
    assert fields["int"] == {"name": "int", "type": ["null", "int"], "default": None}
    assert fields["blob"] == {"name": "blob", "type": "bytes"}


def test_a_schema_is_registered_once(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    topic = client.topic()
    avro = Avro(registry, schema=PAYMENT, normalize=True)
    table = pa.Table.from_pylist(ROWS)
    with client.producer() as producer:
        assert producer.produce_arrow(topic, table, value=avro) == 3
        asked = len(server.requests)
        assert producer.produce_arrow(topic, table, value=avro) == 3
        narrow = table.set_column(0, "id", table["id"].cast(pa.int8()))
        assert producer.produce_arrow(topic, narrow, value=avro) == 3
        assert len(server.requests) == asked
    assert read_by_others(server, read_all(client, topic, 9)[:3]) == ROWS
    assert [each.method for each in server.requests if "normalize" in each.query] == ["POST"]


def test_without_registration_the_schema_must_be_there(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    topic = client.topic()
    avro = Avro(registry, schema=PAYMENT, auto_register=False)
    table = pa.Table.from_pylist(ROWS)
    with client.producer() as producer, pytest.raises(SchemaRegistryError) as caught:
        producer.produce_arrow(topic, table, value=avro)
    assert caught.value.queued == 0  # type: ignore[attr-defined]
    registry.register_schema(f"{topic}-value", Schema(json.dumps(PAYMENT), "AVRO"))
    assert read_by_others(server, sent(client, table, 3, topic, value=avro)) == ROWS


def test_the_latest_version_of_a_subject(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    registry.register_schema("name", Schema('{"type": "fixed", "name": "Name", "size": 3}'))
    record = {"type": "record", "name": "R", "fields": [{"name": "who", "type": "Name"}]}
    used = [SchemaReference("Name", "name", 1)]
    registry.register_schema("people", Schema(json.dumps(record), "AVRO", used))
    avro = Avro(registry, subject="people", use_latest_version=True, ignore_extra=True)
    table = pa.table({"who": [b"ann"], "extra": [1]})
    messages = sent(client, table, 1, client.topic(), value=avro)
    assert read_by_others(server, messages) == [{"who": b"ann"}]
    own = Avro(registry, subject="others", schema=Schema(json.dumps(record), "AVRO", used))
    messages = sent(client, table.select(["who"]), 1, client.topic(), value=own)
    assert read_by_others(server, messages) == [{"who": b"ann"}]
    registry.register_schema("odd", Schema('{"type": "object"}', "JSON"))
    odd = Avro(registry, subject="odd", use_latest_version=True)
    with client.producer() as producer, pytest.raises(SchemaError, match="of type JSON, not AVRO"):
        producer.produce_arrow(client.topic(), table, value=odd)


def test_a_schema_with_rules_is_refused(client: Client, registry: SchemaRegistryClient) -> None:
    """A rule may encrypt a field: without it, the field would be readable."""
    kind, mode = RuleKind.TRANSFORM, RuleMode.WRITE
    rule = Rule("r", None, kind, mode, "ENCRYPT", ["PII"], None, None, None, None, False)
    contract = Schema(json.dumps(PAYMENT), "AVRO", [], None, RuleSet(None, [rule]))
    registry.register_schema("contract", contract)
    latest = Avro(registry, subject="contract", use_latest_version=True)
    own = Avro(registry, subject="contract", schema=contract)
    with client.producer() as producer:
        for avro in (latest, own):
            with pytest.raises(SchemaError, match="subject contract has data-contract rules"):
                producer.produce_arrow("topic", pa.Table.from_pylist(ROWS), value=avro)
        assert len(producer) == 0


def test_null_rows_are_tombstones_without_a_registry(client: Client) -> None:
    column = pa.array([{"id": 1, "who": "a"}, None])
    for data in (column, pa.table({"value": column}), pa.chunked_array([column])):
        messages = sent(client, data, 2, client.topic(), value=Avro(None, schema=PAYMENT))
        assert [each.value() for each in messages] == [b"\2\2\2a", None]
    unregistered = Avro(None, schema=Schema(json.dumps(PAYMENT), "AVRO"))
    [message] = sent(client, column[:1], 1, client.topic(), value=unregistered)
    assert message.value() == b"\2\2\2a"
    texts = pa.array(["a", None])
    messages = sent(client, texts, 2, client.topic(), value=Avro(None, schema="string"))
    assert [each.value() for each in messages] == [b"\2a", None]


@pytest.mark.parametrize("columns", ["who", 1, ["who"], None])
def test_null_rows_are_tombstones_whichever_columns_are_encoded(
    client: Client, columns: Any
) -> None:
    rows = pa.array([{"key": "k", "who": "a"}, None, {"key": "l", "who": "b"}])
    assert rows.field("who")[1].as_py() == ""  # what pyarrow has below a null
    chosen = {"key": Json(), "value": Json(), "value_columns": columns}
    messages = sent(client, rows, 3, client.topic(), **chosen)
    assert [each.value() is None for each in messages] == [False, True, False]
    assert [each.key() for each in messages] == [b'"k"', None, b'"l"']
    [message] = sent(client, rows[1:2], 1, client.topic(), **chosen)
    assert (message.key(), message.value()) == (None, None)


def test_null_rows_have_no_other_columns(client: Client) -> None:
    rows = pa.array([{"key": "k", "id": 1, "to": 0}, None])
    producer = client.producer()
    for roles in ({"key": "key"}, {"partition": "to"}, {"timestamp": "id"}, {"value": "key"}):
        arguments = {"value": Json(), "key": Json(), **roles}
        with pytest.raises(ValueError, match="row 1: the struct that should be a row is null") as e:
            producer.produce_arrow("t", rows, **arguments)
        assert e.value.queued == 0  # type: ignore[attr-defined]
    assert len(producer) == 0


def test_the_value_is_made_of_the_columns_without_another_role(client: Client) -> None:
    table = pa.table(
        {
            "id": [7],
            "key": ["k"],
            "sent": pa.array([1000], pa.timestamp("ms")),
            "to": [0],
            "who": ["a"],
        }
    )
    avro = Avro(None, schema=PAYMENT)
    roles = {"timestamp": "sent", "partition": "to"}
    [message] = sent(client, table, 1, client.topic(), value=avro, key="key", **roles)
    assert (message.key(), message.value(), message.timestamp()[1]) == (b"k", b"\x0e\2\2a", 1000)
    name = Avro(None, schema="string")
    for key in (
        {"key": name},
        {"key": name, "key_columns": "key"},
        {"key": name, "key_columns": 1},
    ):
        [message] = sent(client, table, 1, client.topic(), value=avro, **key, **roles)
        assert (message.key(), message.value()) == (b"\2k", b"\x0e\2\2a")
    pair = Avro(None, schema={"type": "record", "name": "K", "fields": PAYMENT["fields"][:1]})
    keyed = {"value": "who", "key": pair, "key_columns": ["id"]}
    [message] = sent(client, table, 1, client.topic(), **keyed)
    assert (message.key(), message.value()) == (b"\x0e", b"a")


def test_rows_before_a_bad_chunk_are_queued_and_reported(client: Client) -> None:
    topic = client.topic()
    good = pa.RecordBatch.from_pylist(ROWS)
    bad = pa.RecordBatch.from_pylist([{"id": 4, "who": "a"}, {"id": None, "who": "b"}], good.schema)
    reports: list[ArrowReport] = []
    with client.producer() as producer:
        with pytest.raises(
            EncodeError, match=r"row 4, field value.id: the schema doesn.t allow null"
        ) as caught:
            producer.produce_arrow(
                topic,
                pa.Table.from_batches([good, bad]),
                value=Avro(None, schema=PAYMENT),
                on_delivery=reports.append,
            )
        producer.flush()
    assert caught.value.queued == 3  # type: ignore[attr-defined]
    assert (caught.value.row, caught.value.path) == (4, "value.id")
    assert [(each.rows, each.delivered) for each in reports] == [(3, 3)]
    assert len(read_all(client, topic, 3)) == 3


def test_columns_that_do_not_fit_register_and_queue_nothing(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    table = pa.table({"id": ["text"], "who": ["a"]})
    with client.producer() as producer:
        with pytest.raises(SchemaError, match="id: a column of string can't be") as caught:
            producer.produce_arrow("topic", table, value=Avro(registry, schema=PAYMENT))
        assert caught.value.queued == 0  # type: ignore[attr-defined]
        assert len(producer) == 0
    assert registry.get_subjects() == []


def test_a_full_column_ends_a_piece(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and keys fill their columns at different rows. No row is lost or moved."""
    monkeypatch.setattr(encoded_rows, "BYTES_MAX", 100)
    count = 500
    ids = [number * (1 << (number % 50)) for number in range(count)]
    names = ["x" * (number % 30) for number in range(count)]
    table = pa.table({"id": ids, "who": names, "raw": [str(each) for each in ids]})
    table = pa.concat_tables([table[:123], table[123:]])[1:]
    messages = sent(
        client,
        table,
        count - 1,
        client.topic(),
        value=Avro(None, schema="long"),
        value_columns="id",
        key=Avro(None, schema="string"),
        key_columns="who",
        headers=None,
    )
    expected = pa.chunked_array([pa.array(ids[1:])])
    whole = Avro(None, schema="long").encoder("t", "value", ("l", "", 2, (), None, None))
    values = pa.chunked_array(whole.encode(expected)).to_pylist()
    assert [each.value() for each in messages] == values
    assert [(each.key() or b"")[1:] for each in messages] == [each.encode() for each in names[1:]]


def test_rows_with_their_own_topics_need_a_subject(
    client: Client, server: MockSchemaRegistry, registry: SchemaRegistryClient
) -> None:
    topics = [client.topic(), client.topic()]
    table = pa.table({"id": [1, 2], "who": ["a", "b"], "topic": topics})
    with client.producer() as producer:
        with pytest.raises(ValueError, match="pass subject= to the codec"):
            producer.produce_arrow(
                None, table, value=Avro(registry, schema=PAYMENT), topic_column="topic"
            )
        avro = Avro(registry, subject="both", schema=PAYMENT)
        assert producer.produce_arrow(None, table, value=avro, topic_column="topic") == 2
    for topic, row in zip(topics, [{"id": 1, "who": "a"}, {"id": 2, "who": "b"}], strict=True):
        assert read_by_others(server, read_all(client, topic, 1)) == [row]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"value_columns": ["id"]}, "value_columns needs a codec"),
        ({"key_columns": ["id"]}, "key_columns needs a codec"),
        ({"value": True, "value_columns": "none"}, "value_columns='none': there is no such column"),
        ({"value": True, "value_columns": [2]}, "value_columns=2: there are 2 columns"),
        ({"value": True, "value_columns": [1.5]}, "value_columns has names or indices, not float"),
        ({"key": True}, "there is no column 'key': pass key_columns="),
    ],
)
def test_bad_arguments(client: Client, arguments: dict[str, Any], text: str) -> None:
    avro = Avro(None, schema=PAYMENT)
    made = {name: avro if each is True else each for name, each in arguments.items()}
    with client.producer() as producer:
        with pytest.raises((TypeError, ValueError), match=text):
            producer.produce_arrow("topic", pa.table({"id": [1], "who": ["a"]}), **made)
        assert len(producer) == 0


def test_options_that_contradict_each_other(registry: SchemaRegistryClient) -> None:
    with pytest.raises(ValueError, match="don't pass schema="):
        Avro(registry, schema=PAYMENT, use_latest_version=True)
    with pytest.raises(ValueError, match="needs a schema registry"):
        Avro(None, use_latest_version=True)


def test_a_consumer_reads_what_the_same_codec_wrote(
    client: Client, server: MockSchemaRegistry
) -> None:
    topic = client.topic()
    avro = Avro(server.url)
    table = pa.Table.from_pylist(ROWS)
    with client.producer() as producer:
        assert producer.produce_arrow(topic, table, value=avro) == 3
    with client.consumer(**{"group.id": topic}) as consumer:
        consumer.assign(partitions_of(topic, 1, OFFSET_BEGINNING))
        batch = pa.table(consumer.consume_arrow(3, timeout=WAIT_S, value=avro))
    assert batch["value"].to_pylist() == ROWS
    avro.close()
