"""``consume -s`` and ``produce -s``: keys and values with schemas of a registry."""

from __future__ import annotations

import json
import signal
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from kafka_native.mock import MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from kafka_native.schema_registry.avro import AvroSerializer
from kafka_native.schema_registry.schema_ids import header_schema_id_serializer
from kafka_native.serialization import MessageField, SerializationContext
from tests.cli.running import invoke, started
from tests.cli.terminal import terminal
from tests.cli.typed_support import (
    LINES,
    ORDER,
    PERSON,
    POINT,
    UNFRAMED,
    Shell,
    committed,
    framed,
    text,
)
from tests.hostile import MARKS, check
from tests.waiting import WAIT_S

# --- there and back, in each format ---


def test_avro_there_and_back(shell: Shell, client: SchemaRegistryClient) -> None:
    done = shell.produce("orders", "-s", "value=avro", stdin=text(LINES))
    assert (done.exit_code, done.output) == (0, "")
    serializer = AvroSerializer(client, ORDER)
    [first, _] = shell.payloads("orders")
    assert first is not None
    assert first[:5] == framed(client.get_latest_version("orders-value").schema_id or 0, b"")
    found = shell.consume("orders", "-s", "value=avro")
    assert (found.exit_code, found.stdout) == (0, text(LINES))
    context = SerializationContext("orders", MessageField.VALUE)
    at = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    assert first == serializer({"id": 1, "at": at, "lines": []}, context)


def test_json_there_and_back(shell: Shell) -> None:
    lines = ['{"name":"Ada"}', '{"name":"Grete","age":1.5,"tags":["a",null]}']
    assert shell.produce("people", "-s", "value=json", stdin=text(lines)).exit_code == 0
    [first, _] = shell.payloads("people")
    assert first is not None
    assert json.loads(first[5:]) == {"name": "Ada"}
    assert shell.consume("people", "-s", "value=json").stdout == text(lines)


def test_protobuf_there_and_back(shell: Shell) -> None:
    value = {
        "x_axis": "-5",
        "ratio": "NaN",
        "parts": [{"data": "AP8="}],
        "at": "2024-05-01T12:00:00.250Z",
    }
    assert shell.produce("points", "-s", "value=protobuf", stdin=json.dumps(value)).exit_code == 0
    [first] = shell.payloads("points")
    assert first is not None
    assert first[5:7] == b"\0\x08", "the indexes of the first message, then field 1"
    found = shell.consume("points", "-s", "value=protobuf")
    assert json.loads(found.stdout) == value


def test_protobufs_other_messages(shell: Shell) -> None:
    words = ("-s", "value=protobuf", "--message", "k.Other")
    assert shell.produce("points", *words, stdin='{"name":"n"}').exit_code == 0
    assert shell.consume("points", "-s", "value=protobuf").stdout == '{"name":"n"}\n'
    point = '{"x_axis":"1","ratio":0.5,"parts":[]}'
    for line, more in ((point, ()), (point, ()), ('{"name":"m"}', words[2:]), (point, ())):
        assert shell.produce("points", *words[:2], *more, stdin=line).exit_code == 0
    found = shell.consume("points", "-s", "value=protobuf").stdout
    assert found.splitlines() == ['{"name":"n"}', point, point, '{"name":"m"}', point]
    missing = shell.produce("points", *words[:3], "k.None", stdin='{"name":"n"}')
    assert (missing.exit_code, "no message k.None" in missing.stderr) == (1, True)


def test_keys_have_schemas_too(shell: Shell, client: SchemaRegistryClient) -> None:
    client.register_schema("people-key", Schema('"long"', "AVRO"))
    words = ("-s", "key=avro", "-s", "value=json", "-K", "|")
    assert shell.produce("people", *words, stdin='7|{"name":"Ada"}\n').exit_code == 0
    more = ("-s", "key=avro", "-s", "value=json", "-k", "8")
    assert shell.produce("people", *more, stdin='{"name":"Eva"}').exit_code == 0
    found = shell.consume("people", *words[:4], "-f", "%k %s %K\n")
    assert found.stdout == '7 {"name":"Ada"} 1\n8 {"name":"Eva"} 1\n'
    wrong = shell.produce("people", *words, stdin='x|{"name":"Ada"}\n')
    assert "message 1 of the input: key: not JSON" in wrong.stderr


def test_references_of_schemas(shell: Shell, client: SchemaRegistryClient) -> None:
    client.register_schema("name", Schema('{"type":"record","name":"N","fields":[]}', "AVRO"))
    line = '{"type":"record","name":"L","fields":[{"name":"n","type":"N"}]}'
    client.register_schema("copy-value", Schema(line, "AVRO", [SchemaReference("N", "name", 1)]))
    assert shell.produce("copy", "-s", "value=avro", stdin='{"n":{}}').exit_code == 0
    assert shell.consume("copy", "-s", "value=avro").stdout == '{"n":{}}\n'


def test_confluent_kafka_reads_what_is_written(shell: Shell, registry: MockSchemaRegistry) -> None:
    theirs = pytest.importorskip("confluent_kafka.schema_registry")
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
    serialization = pytest.importorskip("confluent_kafka.serialization")
    shell.produce("orders", "-s", "value=avro", stdin=text(LINES))
    context = serialization.SerializationContext("orders", serialization.MessageField.VALUE)
    client = theirs.SchemaRegistryClient({"url": registry.url})
    read = avro.AvroDeserializer(client)
    found = [read(each, context) for each in shell.payloads("orders")]
    at = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)
    assert found == [
        {"id": 1, "at": at, "lines": []},
        {
            "id": 2,
            "at": at.replace(microsecond=250_000),
            "lines": [{"price": Decimal("12.30")}, {"price": Decimal("0.01")}],
        },
    ]
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    write = avro.AvroSerializer(client, conf=conf)
    shell.send("orders", [write(each, context) for each in found])
    assert shell.consume("orders", "-s", "value=avro").stdout == text(LINES * 2)


# --- envelopes ---


def test_envelopes_have_typed_values_and_schema_ids(shell: Shell) -> None:
    shell.produce("orders", "-s", "value=avro", "-k", "k", stdin=text(LINES))
    found = [json.loads(each) for each in shell.consume("orders", "-s", "avro", "--json", "-E").stdout.splitlines()]  # fmt: skip
    assert [each["key"] for each in found] == [None, None]
    assert "key: the payload has no schema framing" in found[0]["key_error"]
    found = [json.loads(each) for each in shell.consume("orders", "-s", "value=avro", "--json").stdout.splitlines()]  # fmt: skip
    assert [each["key"] for each in found] == ["k", "k"]
    assert [each["value"] for each in found] == [json.loads(line) for line in LINES]
    assert [each["value_schema_id"] for each in found] == [1, 1]
    assert "key_schema_id" not in found[0]


@pytest.mark.parametrize("kind", ["avro", "protobuf", "json"])
def test_envelopes_copy_a_topic(shell: Shell, client: SchemaRegistryClient, kind: str) -> None:
    topic, value = {
        "avro": ("orders", LINES[1]),
        "protobuf": ("points", '{"x_axis":"1"}'),
        "json": ("people", '{"name":"Ada"}'),
    }[kind]
    client.register_schema("copy-value", client.get_latest_version(f"{topic}-value").schema)
    shell.produce(topic, "-s", f"value={kind}", "-H", "h=1", "-k", "k", stdin=value)
    shell.send(topic, [None])
    lines = shell.consume(topic, "-s", f"value={kind}", "--json").stdout
    assert shell.produce("copy", "-s", f"value={kind}", "-J", stdin=lines).exit_code == 0
    wanted, found = (shell.cluster.messages(each, 0) for each in (topic, "copy"))
    assert [(m.key, m.value, m.timestamp, m.headers) for m in found] == [
        (m.key, m.value, m.timestamp, m.headers) for m in wanted
    ]


def test_an_envelopes_own_topic_has_the_schema(shell: Shell) -> None:
    lines = [
        {"topic": "orders", "value": json.loads(LINES[0])},
        {"topic": "copy", "value": json.loads(LINES[0])},
    ]
    words = ("produce", "-s", "value=avro", "-J", *shell.servers)
    done = invoke(*words, stdin=text([json.dumps(each) for each in lines]).encode())
    assert done.exit_code == 1
    assert "message 2 of the input: subject copy-value has no schema" in done.stderr
    assert len(shell.payloads("orders")) == 1
    unnamed = invoke(*words, stdin=b'{"value":1}')
    assert "names no topic" in unnamed.stderr


def test_an_envelope_with_an_error_is_not_sent(shell: Shell) -> None:
    shell.send("orders", [UNFRAMED])
    lines = shell.consume("orders", "-s", "value=avro", "--json", "-E").stdout
    assert json.loads(lines)["value"] is None
    done = shell.produce("orders", "-s", "value=avro", "-J", stdin=lines)
    assert done.exit_code == 1
    assert "unknown member 'value_error'" in done.stderr
    named = json.loads(shell.consume("orders", "-s", "value=avro", "-J", "-E").stdout)
    assert named["payload"] is None
    assert named["payload_error"] == json.loads(lines)["value_error"]
    assert "value_error" not in named


# --- messages that can't be decoded ---


REASONS = [
    "orders [0] at offset 1: value: the payload has no schema framing: its first byte is 0x7b",
    "orders [0] at offset 2: value, schema id 77: the registry doesn't know this schema",
    "orders [0] at offset 3: value, schema id 1: field lines can't be read from the payload",
    "orders [0] at offset 4: value, schema id 2: the schema is of type PROTOBUF",
]


def test_the_first_bad_message_ends_the_command(damaged: Shell) -> None:
    done = damaged.consume("orders", "-s", "value=avro")
    assert (done.exit_code, done.stdout) == (1, f"{LINES[0]}\n")
    assert done.stderr.startswith(f"Error: {REASONS[0]}")
    assert done.stderr.count("\n") == 1
    assert "-E goes on" in done.stderr


@pytest.mark.parametrize("output", ["lines", "envelopes"])
def test_the_command_goes_on_after_bad_messages(damaged: Shell, output: str) -> None:
    words = ["consume", "orders", "-e", "-s", "value=avro", "-E", *damaged.servers]
    done = invoke(*words, *(["--json"] if output == "envelopes" else []))
    assert done.exit_code == 1
    reported = done.stderr.splitlines()
    assert all(line.startswith(start) for line, start in zip(reported, REASONS, strict=False))
    assert reported[-1] == "Error: 4 of 6 messages couldn't be decoded"
    if output == "lines":
        assert done.stdout == text(LINES)
        return
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["offset"] for each in found] == list(range(6))
    assert [each.get("value_error") is None for each in found] == [True, *[False] * 4, True]
    for each, reason in zip(found[1:5], REASONS, strict=True):
        assert each["value"] is None
        assert f"orders [0] at offset {each['offset']}: {each['value_error']}".startswith(reason)


def test_a_group_commits_what_is_printed(damaged: Shell) -> None:
    """The message that ends the command is the first one of the next command."""
    words = ["-G", "g", "-s", "value=avro", "-o", "beginning", *damaged.servers]
    done = invoke("consume", "orders", "-e", "-q", *words)
    assert done.stdout == f"{LINES[0]}\n"
    assert committed(damaged, "g") == 1
    again = invoke("consume", "orders", "-e", "-q", "-E", *words)
    assert again.stdout == f"{LINES[1]}\n"
    assert committed(damaged, "g") == 6


def test_a_message_without_its_registry_ends_the_command(
    shell: Shell, registry: MockSchemaRegistry
) -> None:
    shell.send("orders", [framed(1, b"")])
    registry.listener_down(0)
    no_retries = ("-X", "schema.registry.max.retries=0")
    done = shell.consume("orders", "-s", "value=avro", "-E", *no_retries)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "orders [0] at offset 0: schema registry: " in done.stderr
    assert "no registry answered" in done.stderr
    assert done.stderr.count("\n") == 1


def test_ids_in_headers(shell: Shell, client: SchemaRegistryClient) -> None:
    conf = {"schema.id.serializer": header_schema_id_serializer}
    serializer = AvroSerializer(client, '"string"', conf=conf)
    headers: list[tuple[str, bytes]] = []
    context = SerializationContext("copy", MessageField.VALUE, headers)
    shell.send("copy", [serializer("x", context)], headers=headers)
    found = json.loads(shell.consume("copy", "-s", "value=avro", "--json").stdout)
    assert found["value"] == "x"
    assert len(found["value_schema_id"]) == 36


def test_nulls(shell: Shell, client: SchemaRegistryClient) -> None:
    client.register_schema("copy-value", Schema('["null","string"]', "AVRO"))
    shell.send(
        "copy", [None, framed(client.get_latest_version("copy-value").schema_id or 0, b"\0")]
    )
    assert shell.consume("copy", "-s", "value=avro").stdout == "\nnull\n"
    assert shell.consume("copy", "-s", "value=avro", "-Z").stdout == "NULL\nnull\n"
    assert shell.produce("copy", "-s", "value=avro", "-Z", stdin='null\n\n"x"\n').exit_code == 0
    assert shell.payloads("copy")[2:4] == [None, None]


def test_hostile_texts_do_not_reach_a_terminal(shell: Shell, client: SchemaRegistryClient) -> None:
    client.register_schema("copy-value", Schema('"string"', "AVRO"))
    assert shell.produce("copy", "-s", "value=avro", stdin=json.dumps(MARKS)).exit_code == 0
    shell.send("copy", [MARKS.encode()])
    done = shell.consume("copy", "-s", "value=avro")
    assert json.loads(done.stdout) == MARKS
    check(done.stderr)
    with terminal("consume", "copy", "-e", "-q", "-s", "value=avro", *shell.servers) as screen:
        assert screen.end() == 1
        check(screen.shown.replace("\r\n", "\n"))


# --- input that is refused ---


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id":1', "value: not JSON"),
        ("", "value: not JSON"),
        ('{"id":"x","at":1,"lines":[]}', 'value: id: "x" is no long'),
        ('{"id":1,"at":1}', "value: lines: the field is missing"),
        ('{"id":1,"at":1,"lines":[],"z":1}', "value: z: record shop.Order has no such field"),
        ('{"id":1,"id":2,"at":1,"lines":[]}', "value: the member 'id' is there twice"),
        ('{"id":1,"at":"noon","lines":[]}', 'value: at: "noon" is no timestamp-millis'),
        ('{"id":1,"at":1,"lines":[{"price":"x"}]}', 'value: lines[0].price: "x" is no decimal'),
        ('{"id":1,"at":1,"lines":[{"price":"1.234"}]}', "value, schema id 1: lines[0].price: "),
        ('{"id":1,"at":NaN,"lines":[]}', 'value: NaN is no JSON number: write "NaN"'),
    ],
)  # fmt: skip
def test_a_line_that_does_not_fit_is_named(shell: Shell, line: str, reason: str) -> None:
    done = shell.produce(
        "orders", "-s", "value=avro", "--json", stdin=text([LINES[0], line, LINES[1]])
    )
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: message 2 of the input: {reason}")
    assert done.stderr.count("\n") == 1
    assert json.loads(done.stdout)["delivered"] == 1
    assert len(shell.payloads("orders")) == 1, "the message before it is sent, none after it"


def test_a_field_may_be_named_value(shell: Shell, client: SchemaRegistryClient) -> None:
    schema = '{"type":"record","name":"V","fields":[{"name":"value","type":"long"}]}'
    client.register_schema("copy-value", Schema(schema, "AVRO"))
    done = shell.produce("copy", "-s", "value=avro", stdin='{"value":"x"}')
    assert 'message 1 of the input: value: value: "x" is no long' in done.stderr


@pytest.mark.parametrize(
    ("topic", "kind", "line", "reason"),
    [
        ("people", "json", '{"name":5}', "value, schema id 3: $.name: 5 is not of type 'string'"),
        ("points", "protobuf", '{"z":5}', 'value: no message k.Point: Message type "k.Point" has'),
        ("points", "protobuf", "[]", "value: no message k.Point: "),
        ("points", "protobuf", '{"x_axis":"a"}', "value: no message k.Point: "),
    ],
)
def test_other_formats_name_the_line_too(
    shell: Shell, topic: str, kind: str, line: str, reason: str
) -> None:
    done = shell.produce(topic, "-s", f"value={kind}", stdin=line)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: message 1 of the input: {reason}")
    assert done.stderr.count("\n") == 1


def test_a_registry_that_ends_is_the_reason_of_a_line(
    shell: Shell, registry: MockSchemaRegistry
) -> None:
    """The messages before are sent."""
    lines = [{"topic": topic, "value": json.loads(LINES[0])} for topic in ("orders", "copy")]
    registry.faults.fail(503, count=9, path="/subjects/copy-value/*")
    words = ("produce", "-s", "value=avro", "-J", *shell.servers)
    done = invoke(
        *words,
        *("-X", "schema.registry.max.retries=0"),
        stdin=text([json.dumps(each) for each in lines]).encode(),
    )
    assert done.exit_code == 1
    assert "message 2 of the input: schema registry: " in done.stderr
    assert len(shell.payloads("orders")) == 1


# --- schemas ---


def test_a_schema_file_is_registered(
    shell: Shell, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    file = tmp_path / "schema"
    for kind, schema, line in (
        ("avro", ORDER, LINES[1]),
        ("json", PERSON, '{"name":"Ada"}'),
        ("protobuf", POINT, '{"x_axis":"1","ratio":0.5,"parts":[]}'),
    ):
        topic = f"new-{kind}"
        shell.cluster.create_topic(topic, 1)
        file.write_text(schema)
        words = ("-s", f"value={kind}", "--schema", str(file))
        assert shell.produce(topic, *words, stdin=line).exit_code == 0
        assert shell.consume(topic, "-s", f"value={kind}").stdout == f"{line}\n"
        assert shell.produce(topic, *words, stdin=line).exit_code == 0
        assert client.get_versions(f"{topic}-value") == [1]


@pytest.mark.parametrize(
    ("kind", "inner", "outer", "line"),
    [
        ("avro", '{"type":"record","name":"n.N","fields":[]}', '{"type":"record","name":"L","fields":[{"name":"n","type":"n.N"}]}', '{"n":{}}'),
        ("json", '{"type":"object","properties":{"a":{"type":"integer"}}}', '{"properties":{"n":{"$ref":"n.N"}}}', '{"n":{"a":1}}'),
        ("protobuf", 'syntax = "proto3"; message N { string a = 1; }', 'syntax = "proto3"; import "n.N"; message L { N n = 1; }', '{"n":{"a":"x"}}'),
    ],
)  # fmt: skip
def test_a_schema_file_has_references(
    shell: Shell,
    client: SchemaRegistryClient,
    tmp_path: Path,
    kind: str,
    inner: str,
    outer: str,
    line: str,
) -> None:
    client.register_schema("a:b", Schema(inner, kind.upper()))
    file = tmp_path / "outer"
    file.write_text(outer)
    words = ("-s", f"value={kind}", "--schema", str(file), "--reference", "n.N=a:b:1")
    done = shell.produce("copy", *words, stdin=line)
    assert (done.exit_code, done.output) == (0, "")
    assert shell.consume("copy", "-s", f"value={kind}").stdout == f"{line}\n"
    [found] = client.get_latest_version("copy-value").schema.references or []
    assert (found.name, found.subject, found.version) == ("n.N", "a:b", 1)


def test_keys_have_references_of_their_own(
    shell: Shell, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    client.register_schema("name", Schema('{"type":"record","name":"N","fields":[]}', "AVRO"))
    file = tmp_path / "key.avsc"
    file.write_text('{"type":"array","items":"N"}')
    words = ("-s", "key=avro", "--key-schema", str(file), "--key-reference", "N=name:1")
    assert shell.produce("copy", *words, "-K", "|", stdin="[{}]|x").exit_code == 0
    assert shell.consume("copy", "-s", "key=avro", "-K", "|").stdout == "[{}]|x\n"
    missing = shell.produce("copy", *words[:-1], "N=name:2", "-K", "|", stdin="[{}]|x")
    assert (missing.exit_code, "HTTP 4" in missing.stderr) == (1, True)


def test_an_older_version_of_a_schema_can_write(
    shell: Shell, client: SchemaRegistryClient, tmp_path: Path
) -> None:
    old, new = (json.dumps({"type": "record", "name": "A", "fields": fields}) for fields in ([], [{"name": "b", "type": "int", "default": 1}]))  # fmt: skip
    for each in (old, new):
        client.register_schema("copy-value", Schema(each, "AVRO"))
    file = tmp_path / "old.avsc"
    file.write_text(old)
    assert (
        shell.produce("copy", "-s", "value=avro", "--schema", str(file), stdin="{}").exit_code == 0
    )
    assert shell.produce("copy", "-s", "value=avro", stdin="{}").exit_code == 0
    assert shell.consume("copy", "-s", "value=avro").stdout == '{}\n{"b":1}\n'


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-t", "copy", "-s", "value=avro"], "subject copy-value has no schema: write --value-schema"),
        (["-t", "people", "-s", "value=avro"], "people-value has a schema of type json, and -s says avro"),
        (["-t", "orders", "-s", "avro"], "subject orders-key has no schema: write --key-schema FILE"),
    ],
)  # fmt: skip
def test_a_missing_schema_is_found_before_the_input(
    shell: Shell, words: list[str], reason: str
) -> None:
    done = invoke("produce", *words, *shell.servers, stdin=b"{}")
    assert done.exit_code == 1
    assert reason in done.stderr
    assert "message" not in done.stderr


def test_an_incompatible_schema_file_is_refused(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "new.avsc"
    file.write_text('{"type":"record","name":"shop.Order","fields":[{"name":"n","type":"int"}]}')
    done = shell.produce("orders", "-s", "value=avro", "--schema", str(file), stdin='{"n":1}')
    assert done.exit_code == 1
    assert "HTTP 409" in done.stderr
    assert shell.payloads("orders") == []


# --- the options ---


@pytest.mark.parametrize(
    "words",
    [
        "consume t -s value=xml -r http://r",
        "consume t -s both=avro -r http://r",
        "consume t -s value=avro",
        "consume t -s value=avro -r http://r --value-as hex",
        "produce -t t -s value=avro",
        "produce -t t -s key=avro -r http://r --key-as hex",
        "produce -t t -s key=avro -r http://r --message M",
        "produce -t t -s key=avro -r http://r --schema /dev/null",
        "produce -t t -s value=avro -r http://r --key-schema /dev/null",
        "produce -J -s key=avro -r http://r -k 1",
        "produce -t t -s value=avro -r http://r --reference a=b:1",
        "produce -t t -s key=avro -r http://r --key-schema /dev/null --key-reference a=b",
    ],
)
def test_wrong_options_are_status_2(words: str) -> None:
    done = invoke(*words.split(), "-b", "127.0.0.1:1")
    assert done.exit_code == 2, done.output


def test_kcats_letters(shell: Shell) -> None:
    servers = [f"{shell.servers[at]}{shell.servers[at + 1]}" for at in (0, 2)]
    done = invoke("-P", *servers, "-t", "orders", "-s", "value=avro", stdin=LINES[0].encode())
    assert done.exit_code == 0, done.output
    found = invoke("-C", *servers, "-t", "orders", "-s", "value=avro", "-e", "-q")
    assert found.stdout == f"{LINES[0]}\n"


def test_values_arrive_while_the_command_waits(shell: Shell) -> None:
    """Without -e the command prints typed values as they come, and Ctrl+C ends it."""
    shell.produce("orders", "-s", "value=avro", stdin=LINES[0])
    with started("consume", "orders", "-q", "-s", "value=avro", *shell.servers) as process:
        assert process.stdout is not None
        assert process.stdout.readline().decode() == f"{LINES[0]}\n"
        shell.produce("orders", "-s", "value=avro", stdin=LINES[1])
        assert process.stdout.readline().decode() == f"{LINES[1]}\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 130
