"""Rules of registered schemas: which run, in which order, with what; beside confluent_kafka's."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import avro as their_avro
from confluent_kafka.schema_registry import json_schema as their_json
from confluent_kafka.schema_registry import protobuf as their_protobuf
from confluent_kafka.schema_registry import rule_registry as their_registries
from confluent_kafka.schema_registry import serde as their_serde
from confluent_kafka.serialization import SerializationContext as TheirContext
from confluent_kafka.serialization import SerializationError as TheirError
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kafka_native.schema_registry import (
    avro,
    json_schema,
    protobuf,
    protobuf_files,
    rule_registry,
    rule_types,
)
from kafka_native.serialization import MessageField, SerializationContext, SerializationError
from tests.registry.memory_registry import MemoryRegistry

LATEST = {"auto.register.schemas": False, "use.latest.version": True}
READER = {"use.latest.version": True}


def executors(module: Any, trace: list[Any]) -> list[Any]:
    """Return executors and actions on one package's base classes, which note their calls."""

    def note(ctx: Any, *more: Any) -> None:
        trace.append((ctx.rule.name, str(ctx.rule_mode), ctx.subject, *more))

    class Whole(module.RuleExecutor):  # type: ignore[misc]
        """Evaluates the rule's expression with the message as m."""

        def type(self) -> str:
            return "WHOLE"

        def transform(self, ctx: Any, message: Any) -> Any:
            note(ctx, ctx.get_parameter("p"))
            return eval(ctx.rule.expr, {"m": message})

    class Fields(module.FieldRuleExecutor):  # type: ignore[misc]
        """Evaluates the rule's expression with each field's value as v."""

        def type(self) -> str:
            return "FIELDS"

        def new_transform(self, ctx: Any) -> Callable[..., Any]:
            def change(ctx: Any, field: Any, value: Any) -> Any:
                note(ctx, field.full_name, field.type_name(), sorted(field.tags))
                return eval(ctx.rule.expr, {"v": value})

            return change

    class Note(module.RuleAction):  # type: ignore[misc]
        """Notes the action, and goes on."""

        def type(self) -> str:
            return "NOTE"

        def run(self, ctx: Any, message: Any, ex: Exception | None) -> None:
            note(ctx, "action", ex is None, ctx.original_key)

    return [Whole(), Fields(), Note()]


class Package:
    """The classes of one package, with a rule registry whose executors note their calls."""

    def __init__(self, ours: bool, registry: MemoryRegistry) -> None:
        self.trace: list[Any] = []
        module, registries = rule_types, rule_registry
        if not ours:
            module, registries = their_serde, their_registries
        self.ours, self.registries = ours, registries
        whole, fields, note = executors(module, self.trace)
        self.rules = registries.RuleRegistry()
        self.rules.register_executor(whole)
        self.rules.register_executor(fields)
        self.rules.register_action(note)
        self.client = registry.client() if ours else registry.confluent_client()
        self.error = SerializationError if ours else TheirError

    def context(self, headers: Any = None, field: str = "value") -> Any:
        if self.ours:
            return SerializationContext("t", MessageField(field), headers)
        return TheirContext("t", field, headers)

    def write(self, value: Any, headers: Any = None) -> Any:
        value = copy.deepcopy(value)
        module: Any = avro if self.ours else their_avro
        serializer = module.AvroSerializer(
            self.client, '"string"', conf=LATEST, rule_registry=self.rules
        )
        return serializer(value, self.context(headers))

    def read(self, data: Any) -> Any:
        module: Any = avro if self.ours else their_avro
        reader = module.AvroDeserializer(self.client, conf=READER, rule_registry=self.rules)
        return reader(data, self.context())


def rule(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "WHOLE", **more}


SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "R",
        "namespace": "n",
        "fields": [
            {"name": "a", "type": "string", "confluent:tags": ["PII"]},
            {"name": "b", "type": ["null", "int"]},
            {"name": "c", "type": {"type": "array", "items": "string"}, "confluent:tags": ["PII"]},
            {
                "name": "d",
                "type": {
                    "type": "record",
                    "name": "D",
                    "fields": [{"name": "e", "type": "string", "confluent:tags": ["PII", "X"]}],
                },
            },
        ],
    }
)
VALUE = {"a": "x", "b": 1, "c": ["y", "z"], "d": {"e": "w"}}


def register(registry: MemoryRegistry, schema: str = SCHEMA, **rule_set: Any) -> None:
    metadata = {"tags": {"n.R.b": ["PII"]}, "properties": {"p": "of the schema"}}
    registry.register("t-value", {"schema": schema, "ruleSet": rule_set, "metadata": metadata})


def both(registry: MemoryRegistry, value: Any, headers: Any = None) -> tuple[Any, Any, list[Any]]:
    """Write and read with both packages: bytes, value and calls are equal."""
    results = []
    for ours in (True, False):
        package = Package(ours, registry)
        data = package.write(value, copy.copy(headers))
        results.append((data, package.read(data), package.trace))
    assert results[0] == results[1]
    return results[0]


UPPER = {"expr": "{**m, 'a': m['a'].upper()}"}
TAGGED = {"type": "FIELDS", "tags": ["PII"], "expr": "v"}
RULE_SETS: dict[str, list[dict[str, Any]]] = {
    "transform": [rule("up", **UPPER)],
    "order": [rule("one", expr="m"), rule("two", expr="m"), rule("w", expr="m", mode="WRITE")],
    "parameters": [rule("p", expr="m", params={"p": "of the rule"}), rule("q", expr="m")],
    "condition": [rule("ok", kind="CONDITION", expr="m['a']")],
    "fields": [rule("f", **TAGGED)],
    "all fields": [rule("f", type="FIELDS", expr="v")],
    "same tags": [rule("f", **TAGGED), rule("g", **TAGGED)],
    "disabled": [rule("up", disabled=True, **UPPER)],
    "note after success": [rule("up", onSuccess="NOTE", **UPPER)],
    "note after failure": [rule("up", expr="1/0", onFailure="NOTE")],
    "two actions": [rule("up", expr="1/0", onFailure="NONE,NOTE")],
    "unknown action ignored": [rule("up", expr="m", onFailure="NOBODY")],
    "read only": [rule("r", mode="READ", **UPPER)],
    "failed condition goes on": [rule("c", kind="CONDITION", expr="False", onFailure="NOTE")],
}


@pytest.mark.parametrize("name", RULE_SETS)
def test_rules_run_as_in_confluent_kafka(name: str) -> None:
    registry = MemoryRegistry()
    register(registry, domainRules=RULE_SETS[name])
    _, _, trace = both(registry, VALUE)
    assert bool(trace) == (name != "disabled")


def test_fields_with_tags_are_changed() -> None:
    registry = MemoryRegistry()
    encrypt = {"type": "FIELDS", "tags": ["PII"], "mode": "WRITE"}
    register(registry, domainRules=[rule("f", expr="str(v)[::-1] * 2 if v != 1 else 2", **encrypt)])
    _, value, trace = both(registry, VALUE)
    assert value == {"a": "xx", "b": 2, "c": ["yy", "zz"], "d": {"e": "ww"}}
    assert [each[3] for each in trace] == ["n.R.a", "n.R.b", "n.R.c", "n.R.c", "n.D.e"]


def test_encoding_rules_see_bytes() -> None:
    registry = MemoryRegistry()
    register(
        registry,
        encodingRules=[rule("flip", expr="(m if isinstance(m, bytes) else m.read())[::-1]")],
    )
    data, value, trace = both(registry, VALUE)
    assert value == VALUE
    plain = MemoryRegistry()
    register(plain)
    assert data[:5] + data[:4:-1] == both(plain, VALUE)[0]
    assert [each[1] for each in trace] == ["WRITE", "READ"]


def test_rules_run_only_where_they_are_enabled() -> None:
    for place, expected in (("CLIENT", 2), ("ALL", 2), ("SERVER", 0)):
        registry = MemoryRegistry()
        register(registry, domainRules=[rule("x", expr="m")], enableAt=place)
        assert len(both(registry, VALUE)[2]) == expected


def test_a_message_from_the_dead_letter_queue_skips_its_rule() -> None:
    registry = MemoryRegistry()
    register(registry, domainRules=[rule("x", expr="m"), rule("y", expr="m")])
    for headers in ([("__rule.name", b"x")], {"__rule.name": "x"}):
        trace = both(registry, VALUE, headers)[2]
        assert [each[0] for each in trace] == ["y", "y", "x"]


FAILURES = {
    "exception": (rule("bad", expr="1/0"), "rule bad of subject t-value failed: division by zero"),
    "condition": (
        rule("bad", kind="CONDITION", expr="m['b'] > 5", doc=None),
        "rule bad of subject t-value failed: the message doesn't satisfy `m['b'] > 5`",
    ),
    "documented": (
        rule("bad", kind="CONDITION", expr="False", doc="b is too small"),
        "rule bad of subject t-value failed: b is too small",
    ),
    "nothing": (rule("bad", expr="None"), "failed: the rule returned no message"),
    "type": (rule("bad", type="NOBODY"), "failed: no executor of type NOBODY is registered"),
    "action": (rule("bad", expr="1/0", onFailure="X"), "needs the action X, and no such action"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_refuses_the_message(name: str) -> None:
    registry = MemoryRegistry()
    bad, problem = FAILURES[name]
    register(registry, domainRules=[bad])
    with pytest.raises(SerializationError) as caught:
        Package(True, registry).write(VALUE)
    assert problem in str(caught.value)
    if name != "action":
        assert str(caught.value).startswith("topic t, value: rule bad of subject t-value failed")
    with pytest.raises((TheirError, their_serde.RuleError)):
        Package(False, registry).write(VALUE)


def test_overrides_replace_settings() -> None:
    registry = MemoryRegistry()
    register(registry, domainRules=[rule("x", expr="1/0")])
    for override in (("WHOLE", None, "NONE", None), ("WHOLE", None, None, True)):
        results = []
        for ours in (True, False):
            package = Package(ours, registry)
            package.rules.register_override(package.registries.RuleOverride(*override))
            results.append((package.write(VALUE), package.trace))
        assert results[0] == results[1]
        assert len(results[0][1]) == (0 if override[3] else 1)


def test_migrations_go_up_and_down() -> None:
    def schema(field: str) -> str:
        return f'{{"type": "record", "name": "R", "fields": [{{"name": "{field}", "type": "string"}}]}}'

    registry = MemoryRegistry()
    registry.register("t-value", {"schema": schema("v1"), "metadata": {"properties": {"v": "1"}}})
    for old, new in ((1, 2), (2, 3)):
        rules = [
            rule("up", mode="UPGRADE", expr=f"{{'v{new}': m['v{old}'] + '>{new}'}}"),
            rule("down", mode="DOWNGRADE", expr=f"{{'v{old}': m['v{new}'] + '<{old}'}}"),
        ]
        registry.register(
            "t-value",
            {
                "schema": schema(f"v{new}"),
                "metadata": {"properties": {"v": str(new)}},
                "ruleSet": {"migrationRules": rules},
            },
        )
    for old, new, expected in ((1, 3, "x>2>3"), (3, 1, "x<2<1"), (2, 3, "x>3"), (2, 2, "x")):
        results = []
        for ours in (True, False):
            package = Package(ours, registry)
            module: Any = avro if ours else their_avro
            write = {"auto.register.schemas": False, "use.latest.with.metadata": {"v": str(old)}}
            data = module.AvroSerializer(
                package.client, '"string"', conf=write, rule_registry=package.rules
            )({f"v{old}": "x"}, package.context())
            read = {"use.latest.with.metadata": {"v": str(new)}}
            reader = module.AvroDeserializer(package.client, conf=read, rule_registry=package.rules)
            results.append((data, reader(data, package.context()), package.trace))
        assert results[0] == results[1]
        assert results[0][1] == {f"v{new}": expected}


JSON_SCHEMA = {
    "type": "object",
    "definitions": {"Name": {"type": "string"}},
    "properties": {
        "a": {"type": "string", "confluent:tags": ["PII"]},
        "b": {"oneOf": [{"type": "null"}, {"type": "integer"}], "confluent:tags": ["PII"]},
        "c": {"type": "array", "items": {"type": "string"}, "confluent:tags": ["PII"]},
        "d": {
            "type": "object",
            "properties": {"e": {"$ref": "#/definitions/Name", "confluent:tags": ["PII"]}},
        },
        "f": {"type": ["string", "null"], "confluent:tags": ["PII"]},
        "g": {"allOf": [{"type": "string"}, {"maxLength": 9}], "confluent:tags": ["PII"]},
        "h": {"anyOf": [{"type": "integer"}, {"type": "string"}], "confluent:tags": ["PII"]},
        "i": {"type": "number"},
    },
}


def test_fields_of_json() -> None:
    registry = MemoryRegistry()
    value = {"a": "x", "b": 1, "c": ["y"], "d": {"e": "z"}, "f": "q", "g": "g", "h": "h", "i": 1.5}
    registry.register(
        "t-value",
        {
            "schema": json.dumps(JSON_SCHEMA),
            "schemaType": "JSON",
            "ruleSet": {
                "domainRules": [rule("f", **{**TAGGED, "expr": "v if v == 1 else v + '!'"})]
            },
        },
    )
    results = []
    for ours in (True, False):
        package = Package(ours, registry)
        module: Any = json_schema if ours else their_json
        data = module.JSONSerializer(
            None, package.client, conf=LATEST, rule_registry=package.rules
        )(copy.deepcopy(value), package.context())
        reader = module.JSONDeserializer(
            None, None, package.client, conf=READER, rule_registry=package.rules
        )
        results.append((data, reader(data, package.context()), package.trace))
    assert results[0] == results[1]
    assert results[0][1]["d"] == {"e": "z!!"}


def tagged_message() -> Any:
    """Return a class whose fields have tags of ``confluent/meta.proto``."""
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="m.proto", package="m", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    message = file.message_type.add(name="M")
    tags = protobuf_files._Options()
    tags.meta.tags.append("PII")
    inner = message.nested_type.add(name="In")
    inner.field.add(name="t", number=1, type=types.TYPE_STRING, label=1)
    entry = message.nested_type.add(name="MapEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=types.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=types.TYPE_STRING, label=1)
    for number, name in enumerate(("s", "r", "m", "l", "map", "at"), 1):
        field = message.field.add(name=name, number=number, label=3 if name in "rlmap" else 1)
        field.type = types.TYPE_STRING
        if name in ("m", "l", "map", "at"):
            field.type = types.TYPE_MESSAGE
            field.type_name = {"map": ".m.M.MapEntry", "at": ".google.protobuf.Timestamp"}.get(
                name, ".m.M.In"
            )
            field.label = 3 if name in ("l", "map") else 1
    for field in (*message.field, *inner.field):
        field.options.MergeFromString(tags.SerializeToString())
    pool = DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("m.M"))


def test_fields_of_protobuf() -> None:
    class_ = tagged_message()
    value = class_(s="a", r=["b", "c"], m={"t": "d"}, l=[{"t": "e"}], map={"k": "f"})
    value.at.seconds = 5
    registry = MemoryRegistry()
    registry.register(
        "t-value",
        {
            "schema": protobuf_files.text_of(class_.DESCRIPTOR.file),
            "schemaType": "PROTOBUF",
            "ruleSet": {
                "domainRules": [
                    rule("f", **{**TAGGED, "expr": "v + '!' if isinstance(v, str) else v"})
                ]
            },
        },
    )
    package = Package(True, registry)
    serializer = protobuf.ProtobufSerializer(
        class_, package.client, LATEST, rule_registry=package.rules
    )
    data = serializer(copy.deepcopy(value), package.context())
    expected = class_(s="a!", r=["b!", "c!"], m={"t": "d!"}, l=[{"t": "e!"}], map={"k": "f!"})
    expected.at.seconds = 5
    assert data == b"\0\0\0\0\1\0" + expected.SerializeToString()
    assert sorted({each[3] for each in package.trace}) == [
        *("m.M.In.t", "m.M.at", "m.M.map", "m.M.r", "m.M.s")
    ]
    theirs = Package(False, registry)
    other = their_protobuf.ProtobufSerializer(
        class_, theirs.client, LATEST, rule_registry=theirs.rules
    )
    assert other(copy.deepcopy(value), theirs.context()) == data
    reader = protobuf.ProtobufDeserializer(
        class_, READER, package.client, rule_registry=package.rules
    )
    assert reader(data, package.context()).m.t == "d!!"


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_field_rules_leave_the_programs_own_object_alone(kind: str) -> None:
    """It may write the object again, for instance when the queue was full."""
    class_ = tagged_message()
    schema, value, make = {
        "AVRO": (SCHEMA, VALUE, avro.AvroSerializer),
        "JSON": (
            json.dumps(JSON_SCHEMA),
            {"a": "x", "c": ["y"], "d": {"e": "z"}, "g": "g"},
            lambda client, **more: json_schema.JSONSerializer(None, client, **more),
        ),
        "PROTOBUF": (
            protobuf_files.text_of(class_.DESCRIPTOR.file),
            class_(s="a", r=["b"], m={"t": "d"}, l=[{"t": "e"}], map={"k": "f"}),
            lambda client, **more: protobuf.ProtobufSerializer(class_, client, **more),
        ),
    }[kind]
    registry = MemoryRegistry()
    change = rule("f", **{**TAGGED, "expr": "v + '!' if isinstance(v, str) else v"})
    content = {"schema": schema, "schemaType": kind, "ruleSet": {"domainRules": [change]}}
    registry.register("t-value", content)
    package = Package(True, registry)
    serializer = make(package.client, conf=LATEST, rule_registry=package.rules)
    before = copy.deepcopy(value)
    first = serializer(value, package.context())
    assert value == before
    assert serializer(value, package.context()) == first


def test_migrations_of_protobuf() -> None:
    class_ = tagged_message()
    registry = MemoryRegistry()
    text = protobuf_files.text_of(class_.DESCRIPTOR.file)
    registry.register("t-value", {"schema": text, "schemaType": "PROTOBUF"})
    up = [rule("up", mode="UPGRADE", expr="{**m, 's': m['s'] + '!'}")]
    registry.register(
        "t-value",
        {"schema": text, "schemaType": "PROTOBUF", "ruleSet": {"migrationRules": up}},
    )
    package = Package(True, registry)
    data = b"\0\0\0\0\1\0" + class_(s="x").SerializeToString()
    reader = protobuf.ProtobufDeserializer(
        class_, READER, package.client, rule_registry=package.rules
    )
    message = reader(data, package.context())
    assert isinstance(message, class_)
    assert message.s == "x!"
    registry.subjects["t-value"][1]["ruleSet"]["migrationRules"][0]["expr"] = "{'nope': 1}"
    with pytest.raises(SerializationError, match=r"the migration rules left no message m\.M"):
        reader(data, package.context())


def test_the_key_is_known_while_the_value_is_converted() -> None:
    registry = MemoryRegistry()
    register(registry, domainRules=[rule("x", expr="m", onSuccess="NOTE")])
    package = Package(True, registry)
    key = avro.AvroSerializer(package.client, '"string"')
    key("the key", SerializationContext("t", MessageField.KEY))
    package.write(VALUE)
    package.write(VALUE)
    actions = [each[-1] for each in package.trace if "action" in each]
    assert actions == ["the key", None]


def test_the_rules_of_a_value_see_the_key_as_its_own_rules_left_it() -> None:
    """What they have encrypted must not come into a dead letter queue with the value."""
    registry = MemoryRegistry()
    register(registry, domainRules=[rule("x", expr="m", onSuccess="NOTE")])
    encrypt = rule("f", **{**TAGGED, "expr": "v * 2"})
    registry.register("t-key", {"schema": SCHEMA, "ruleSet": {"domainRules": [encrypt]}})
    package = Package(True, registry)
    key = avro.AvroSerializer(package.client, conf=LATEST, rule_registry=package.rules)
    key(VALUE, SerializationContext("t", MessageField.KEY))
    package.write(VALUE)
    [seen] = [each[-1] for each in package.trace if "action" in each]
    assert (seen["a"], seen["d"]) == ("xx", {"e": "ww"})
    assert VALUE["a"] == "x"


def test_closing_closes_a_registry_of_its_own() -> None:
    closed: list[str] = []

    class Closing(rule_types.RuleExecutor):
        def type(self) -> str:
            return "CLOSING"

        def transform(self, ctx: Any, message: Any) -> Any:
            return message

        def close(self) -> None:
            closed.append("executor")
            raise RuntimeError("close")

    class Configured(rule_types.NoneAction):
        def configure(self, client_conf: Any, rule_conf: Any) -> None:
            closed.append(f"{client_conf['url']} {rule_conf}")

        def close(self) -> None:
            closed.append("action")

    rules = rule_registry.RuleRegistry()
    rules.register_executor(Closing())
    rules.register_action(Configured())
    client = MemoryRegistry().client()
    serializer = avro.AvroSerializer(client, rule_conf={"a": 1}, rule_registry=rules)
    serializer.own_schema_registry_client()
    with pytest.raises(RuntimeError, match="close"):
        serializer.close()
    assert closed == ["memory:// {'a': 1}", "action", "executor"]
    assert client.closed == 1
    rules.clear()
    assert rules.get_executors() == rules.get_actions() == rules.get_overrides() == []


def test_the_registry_of_the_process() -> None:
    shared = rule_registry.RuleRegistry.get_global_instance()
    before = shared.get_executors(), shared.get_actions(), shared.get_overrides()
    whole, _, note = executors(rule_types, [])
    try:
        rule_registry.RuleRegistry.register_rule_executor(whole)
        rule_registry.RuleRegistry.register_rule_action(note)
        override = rule_registry.RuleOverride("WHOLE", None, None, True)
        rule_registry.RuleRegistry.register_rule_override(override)
        assert shared.get_executor("WHOLE") is whole
        assert shared.get_action("NOTE") is note
        assert shared.get_override("WHOLE") is override
        avro.AvroSerializer(MemoryRegistry().client()).close()
    finally:
        shared.clear()
        for executor in before[0]:
            shared.register_executor(executor)
        for action in before[1]:
            shared.register_action(action)
        for each in before[2]:
            shared.register_override(each)
