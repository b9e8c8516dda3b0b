"""Rules of the types CEL and CEL_FIELD."""

from __future__ import annotations

import datetime
import sys
import threading
import uuid
from typing import Any

import pytest

pytest.importorskip("celpy", reason="rules in CEL need kafka-native[rules]")
pytest.importorskip("google.protobuf", reason="the tests need protobuf")

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.cel.cel_executor import CelExecutor
from kafka_native.schema_registry.rules.cel.cel_field_executor import CelFieldExecutor
from tests.registry.rules.contracts import RuleKind, RuleMode, Schemas, context, rule

ORDER = {"id": 7, "card": "4111", "scan": b"\x00\xff"}


def theirs(kind: str) -> Any:
    reason = "needs confluent_kafka[rules] as the witness"
    base = "confluent_kafka.schema_registry.rules.cel"
    executor = pytest.importorskip(f"{base}.cel_executor", reason=reason)
    field = pytest.importorskip(f"{base}.cel_field_executor", reason=reason)
    return executor.CelExecutor() if kind == "CEL" else field.CelFieldExecutor()


def ours(kind: str) -> Any:
    return CelExecutor() if kind == "CEL" else CelFieldExecutor()


def run(expr: str, message: Any, condition: bool = False, executor: Any = None) -> Any:
    kind = RuleKind.CONDITION if condition else RuleKind.TRANSFORM
    return (executor or CelExecutor()).transform(context(rule("CEL", expr, kind=kind)), message)


CONDITIONS = [
    ("message.id > 3", True),
    ("message.id > 30", False),
    ("message.card.startsWith('41') && size(message.scan) == 2", True),
    ("message.card == '4111' ? message.id == 8 : true", False),
    ("message.id == 1 ; message.card == 'never'", True),
    ("message.id == 7 ; message.card == 'never'", False),
    (" ; message.id == 7", True),
    ("has(message.card) && !has(message.missing)", True),
    ("message.scan == b'\\x00\\xff'", True),
    ("[1, 2, 3].exists(x, x == message.id - 5)", True),
    ("message.card.matches('^[0-9]+$')", True),
    ("now > timestamp('2020-01-01T00:00:00Z')", True),
    ("'a@example.com'.isEmail() && !message.card.isEmail()", True),
    ("'127.0.0.1'.isIpv4() && !'127.0.0.1'.isIpv6() && '::1'.isIpv6()", True),
    ("'0b8e5b6a-3f7e-4b8e-9a51-0f7f0c2f5c11'.isUuid() && !'x'.isUuid()", True),
    ("'www.example.com'.isHostname() && !'-x.com'.isHostname()", True),
    ("'http://x.com/a'.isUri() && !'a/b'.isUri()", True),
]


@pytest.mark.parametrize(("expr", "expected"), CONDITIONS)
def test_conditions(expr: str, expected: bool) -> None:
    assert run(expr, ORDER, condition=True) is expected
    assert bool(run(expr, ORDER, condition=True, executor=theirs("CEL"))) is expected


TRANSFORMS = [
    "{'id': message.id + 1, 'card': message.card + '!', 'scan': message.scan}",
    "message",
    "message.id == 8 ; {'id': 0}",
    "{'id': message.id, 'card': null, 'scan': b'x', 'tags': ['a', 'b'], 'm': {'k': 1.5}}",
    "{'flag': message.id == 7}",
]


@pytest.mark.parametrize("expr", TRANSFORMS)
def test_transforms(expr: str) -> None:
    result = run(expr, ORDER)
    assert result == run(expr, ORDER, executor=theirs("CEL"))
    assert types(result) <= {dict, list, str, bytes, int, float, bool, type(None)}


def types(value: Any) -> set[type]:
    found = {type(value)}
    if isinstance(value, dict):
        return found.union(*(types(each) for pair in value.items() for each in pair))
    if isinstance(value, list):
        return found.union(*map(types, value))
    return found


def test_logical_types_become_plain_values_again() -> None:
    when = datetime.datetime(2026, 5, 6, 7, 8, 9, 123000, tzinfo=datetime.timezone.utc)
    message = {
        "when": when,
        "day": datetime.date(1970, 1, 11),
        "length": datetime.timedelta(days=2, seconds=5),
        "flag": True,
        "uuid": uuid.UUID(int=5),
        "none": None,
    }
    result = run("message", message)
    assert result == {
        **message,
        "day": 10,
        "uuid": "00000000-0000-0000-0000-000000000005",
    }
    assert [type(each) for each in result.values()] == [
        datetime.datetime,
        int,
        datetime.timedelta,
        bool,
        str,
        type(None),
    ]
    assert run("message.flag && message.day == 10 && message.none == null", message, True) is True
    assert run("message.when + duration('1s') > message.when", message, True) is True


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        ("message.", "message."),
        ("message.missing == 1", "missing"),
        ("message.card + 1", "card"),
        ("isEmail(message.id)", "needs a string"),
        ("unknown(message.id)", "unknown"),
        ("1 / 0", "1 / 0"),
    ],
)
def test_failures_name_the_rule_and_the_expression(expr: str, words: str) -> None:
    with pytest.raises(RuleError, match="the rule r1 failed") as caught:
        run(expr, ORDER)
    assert words in str(caught.value)


def test_a_semicolon_in_text_does_not_end_the_guard() -> None:
    assert run("'a;b' == \"a;b\" ; message.card + ';'", ORDER) == "4111;"
    assert run("message.card + ';'", ORDER) == "4111;"


def test_a_rule_without_expression_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert run(None, ORDER) is ORDER  # type: ignore[arg-type]
    assert run(None, {}, condition=True) is True  # type: ignore[arg-type]
    assert "has no expression" in caplog.text


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ("'%s is %d'.format([message.card, message.id])", "4111 is 7"),
        ("'%.2f %e %x %X %o %b %%'.format([1.5, 1.5, 255, 255, 8, 5])", None),
        ("'%s %s %s'.format([true, null, [1, 'a']])", "true null [1, a]"),
        ("'%x'.format(['hi'])", "6869"),
        ("'%s'.format([{'b': 2, 'a': b'x'}])", "{a: x, b: 2}"),
    ],
)
def test_format(expr: str, expected: str | None) -> None:
    expected = "1.50 1.500000e+00 ff FF 10 101 %" if expected is None else expected
    assert run(expr, ORDER) == expected


@pytest.mark.parametrize("values", ["[]", "['x']", "1"])
def test_format_refuses_values_that_do_not_fit(values: str) -> None:
    with pytest.raises(RuleError, match="format"):
        run(f"'%d'.format({values})", ORDER)


@pytest.mark.parametrize(
    ("make", "package"), [(ours, "ours"), (ours, "theirs"), (theirs, "theirs")]
)
def test_serializers_run_conditions_and_transforms_of_fields(make: Any, package: str) -> None:
    schemas = Schemas()
    schemas.register(
        rule("CEL", "message.id > 0", kind=RuleKind.CONDITION, mode=RuleMode.WRITE, name="c"),
        rule(
            "CEL_FIELD",
            "typeName == 'STRING' && 'PII' in tags ; name + ':' + value + ':' + fullName",
            mode=RuleMode.WRITE,
            tags=["PII"],
            name="f",
        ),
        rule("CEL", "message.id == 9 ; {'id': 1, 'scan': b'z'}", mode=RuleMode.READ, name="t"),
    )
    executors = [make("CEL"), make("CEL_FIELD")]
    sent = schemas.write(executors, dict(ORDER), package)
    found = schemas.read(executors, sent, package)
    assert found == {**ORDER, "card": "card:4111:Order.card"}
    sent = schemas.write(executors, {**ORDER, "id": 9}, package)
    assert schemas.read(executors, sent, package) == {"id": 1, "scan": b"z"}
    with pytest.raises(Exception) as caught:  # noqa: PT011 - SerializationError of each package
        schemas.write(executors, {**ORDER, "id": 0}, package)
    assert "message.id > 0" in str(caught.value.__cause__)


def test_fields_with_containers_stay_as_they_are() -> None:
    ctx = context(rule("CEL_FIELD", "'changed'"))
    field = ctx.enter_field({}, "Order.tags", "tags", "ARRAY", set())
    value = ["a"]
    assert CelFieldExecutor().new_transform(ctx)(ctx, field, value) is value


def test_fields_see_the_record_around_them() -> None:
    ctx = context(rule("CEL_FIELD", "message.id == 7 ? value + '!' : value"))
    field = ctx.enter_field(ORDER, "Order.card", "card", "STRING", set())
    field.field_type = type("T", (str,), {"name": "STRING"})("STRING")
    assert CelFieldExecutor().new_transform(ctx)(ctx, field, "x") == "x!"


def test_threads_share_an_executor() -> None:
    executor = CelExecutor()
    results: list[Any] = []

    def work(number: int) -> None:
        results.extend(
            run(f"message.id + {number}", {"id": number}, executor=executor) for _ in range(20)
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(results) == sorted([0, 2, 4, 6] * 20)


def test_a_missing_celpy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "kafka_native.schema_registry.rules.cel.cel_executor"
    for module in (name, "kafka_native.schema_registry.rules.cel.programs"):
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "celpy", None)
    with pytest.raises(ImportError, match=r"pip install 'kafka-native\[rules\]'"):
        __import__(name)


def test_executors_register_themselves(shared_registry: Any) -> None:
    CelExecutor.register()
    CelFieldExecutor.register()
    assert isinstance(shared_registry.get_executor("CEL"), CelExecutor)
    assert isinstance(shared_registry.get_executor("CEL_FIELD"), CelFieldExecutor)


# Protobuf


def protobuf_class() -> Any:
    """Return a message class with fields of each kind, made without a compiler."""
    proto = descriptor_pb2.FileDescriptorProto(
        name="rules_test.proto",
        package="rules_test",
        syntax="proto3",
        dependency=[
            "google/protobuf/timestamp.proto",
            "google/protobuf/duration.proto",
            "google/protobuf/wrappers.proto",
        ],
    )
    message = proto.message_type.add(name="Order")
    entry = message.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    for number, name, kind in ((1, "key", 9), (2, "value", 3)):
        entry.field.add(name=name, number=number, type=kind, label=1)
    own = ".rules_test.Order"
    for number, (name, kind, label, type_name) in enumerate(
        [
            ("id", 5, 1, None),
            ("card", 9, 1, None),
            ("scan", 12, 1, None),
            ("big", 4, 1, None),
            ("tags", 9, 3, None),
            ("counts", 11, 3, f"{own}.CountsEntry"),
            ("child", 11, 1, own),
            ("children", 11, 3, own),
            ("when", 11, 1, ".google.protobuf.Timestamp"),
            ("length", 11, 1, ".google.protobuf.Duration"),
            ("name", 11, 1, ".google.protobuf.StringValue"),
        ],
        1,
    ):
        message.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)
    pool = descriptor_pool.Default()
    try:
        found = pool.FindMessageTypeByName("rules_test.Order")
    except KeyError:
        pool.Add(proto) if hasattr(pool, "Add") else pool.AddSerializedFile(
            proto.SerializeToString()
        )
        found = pool.FindMessageTypeByName("rules_test.Order")
    return message_factory.GetMessageClass(found)


def full() -> Any:
    order = protobuf_class()(id=7, card="4111", scan=b"\xff", big=2**63, tags=["a", "b"])
    order.counts["x"] = 3
    order.child.card = "inner"
    order.children.add().id = 1
    order.when.FromDatetime(datetime.datetime(2026, 5, 6, 7, 8, 9))
    order.length.FromSeconds(90)
    order.name.value = "n"
    return order


@pytest.mark.parametrize(
    "expr",
    [
        "message.id == 7 && message.card == '4111' && message.scan == b'\\xff'",
        "message.big == 9223372036854775808u",
        "message.tags == ['a', 'b'] && message.counts['x'] == 3",
        "message.child.card == 'inner' && message.children[0].id == 1",
        "message.child.child.child.card == ''",
        "message.when > timestamp('2026-05-06T07:08:08Z')",
        "message.length == duration('90s') && message.name == 'n'",
        "has(message.child) && !has(message.child.child) && !has(message.child.id)",
        "has(message.tags) && !has(message.child.tags) && message.child.name == null",
    ],
)
def test_conditions_of_protobuf_messages(expr: str) -> None:
    assert run(expr, full(), condition=True) is True


@pytest.mark.parametrize(
    "expr",
    [
        "message",
        "{'id': message.id + 1, 'card': 'x', 'tags': message.tags + ['c'], 'scan': b'y'}",
        "{'child': message.child, 'children': message.children, 'counts': {'a': 1}}",
        "{'child': {'card': 'new', 'child': {'id': 3}}, 'name': 'text', 'card': null}",
        "{'when': message.when, 'length': message.length, 'big': message.big}",
        "message.id == 8 ; {'id': 0}",
    ],
)
def test_transforms_of_protobuf_messages(expr: str) -> None:
    result = run(expr, full())
    assert isinstance(result, protobuf_class())
    assert result == run(expr, full(), executor=theirs("CEL"))


def test_copied_times_keep_their_nanoseconds() -> None:
    order = full()
    order.when.nanos = order.length.nanos = 123456789
    copied = run("{'when': message.when, 'length': message.length}", order)
    assert (copied.when, copied.length) == (order.when, order.length)
    later = run("{'when': message.when + duration('1s')}", order)
    assert (later.when.seconds, later.when.nanos) == (order.when.seconds + 1, 123456000)


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        ("{'nothing': 1}", "has no field nothing"),
        ("{'id': 'text'}", "doesn't fit the field rules_test.Order.id: StringType"),
        ("{'id': 99999999999}", "doesn't fit the field rules_test.Order.id"),
        ("{'child': 5}", "rules_test.Order.child"),
        ("message.id", "message or a map, not IntType"),
    ],
)
def test_results_that_are_no_message_are_refused(expr: str, words: str) -> None:
    with pytest.raises(RuleError, match=words):
        run(expr, full())


def test_fields_of_protobuf_messages_have_the_type_of_their_descriptor() -> None:
    ctx = context(rule("CEL_FIELD", "value + 1u"))
    order = full()
    descriptor = order.DESCRIPTOR.fields_by_name["big"]
    from confluent_kafka.schema_registry.serde import FieldType

    field = ctx.enter_field(order, "Order.big", "big", FieldType.LONG, set(), descriptor)
    assert CelFieldExecutor().new_transform(ctx)(ctx, field, 5) == 6
