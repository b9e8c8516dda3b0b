"""Decimals and times in rules: confluent_kafka's executor returns the same."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("celpy", reason="rules in CEL need kafka-native[rules]")
pytest.importorskip("google.protobuf", reason="the tests need protobuf")

from google.protobuf import message_factory

from kafka_native.codecs.protobuf_descriptors import message_of
from kafka_native.schema_registry.protobuf_decimals import (
    BYTES_MAX,
    DIGITS_MAX,
    decimal_of_message,
    set_decimal,
)
from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.cel.cel_executor import CelExecutor
from tests.registry.rules.contracts import RuleKind, context, rule

MESSAGE = {
    "price": Decimal("12.340"),
    "text": "7.5",
    "many": [Decimal("1.0"), Decimal("2")],
    "zero": Decimal("-0.00"),
    "at": datetime.datetime(2026, 5, 6, 7, 8, 9, 123000, tzinfo=datetime.timezone.utc),
}


def run(
    expr: str, message: Any = MESSAGE, executor: Any = None, kind: str = RuleKind.TRANSFORM
) -> Any:
    made = context(rule("CEL", expr, kind=kind))
    return (executor or CelExecutor()).transform(made, message)


EXPRESSIONS = [
    "decimals.eq(message.price, decimal('12.34')) && message.price == decimal('12.34')",
    "decimals.lt(message.price, 13) && decimals.le(message.price, '12.34')",
    "decimals.gt(message.price, 12.3) && decimals.ge(message.price, message.price)",
    "message.many == [decimal('1'), decimal('2.00')] && decimal('2.0') in message.many",
    "message.price != decimal('12.35')",
    "decimals.add(message.price, '0.0001')",
    "decimals.sub(1, message.price)",
    "decimals.mul(message.price, decimal(b'\\x04\\xd2', 2))",
    "decimals.div(1, 3)",
    "decimals.div(decimal('10'), decimal('4.0'))",
    "decimals.mod(decimal('-7.5'), 2)",
    "decimals.greatest(message.price, 12) == message.price",
    "decimals.least(message.price, 12)",
    "decimals.sqrt(2)",
    "decimals.sqrt(decimal('9.0'))",
    "decimals.sqrt(decimal('0.0625'))",
    "decimals.sqrt(decimal('0.000'))",
    "decimals.sqrt(decimal('1e5'))",
    "decimals.sqrt(decimal('4e3'))",
    "decimals.neg(message.price)",
    "decimals.abs(decimals.neg(message.price))",
    "[decimals.sign(message.price), decimals.sign(0), decimals.sign(-1)]",
    "decimals.round(decimal('2.345'), 2)",
    "decimals.round(decimal('-2.5'))",
    "decimals.round(decimal('1234'), -2)",
    "decimals.trunc(decimal('-2.999'), 1)",
    "decimals.trunc(decimal('2.5'), 4)",
    "decimals.floor(decimal('-2.1'))",
    "decimals.ceil(decimal('-2.9'))",
    "string(decimal('1e3')) + string(message.zero) + string(decimal('-0'))",
    "string(true) + string(1) + string(1.5) + string('x') + string(2u)",
    "string(message.at) + string(timestamp('2026-05-06T07:08:09Z'))",
    "double(message.price) + double('1.5') + double(2)",
    "timestamp(1700000000) == timestamp(1700000000000, 3)",
    "string(timestamp(-1, 9)) + string(timestamp(1700000000123456, 6))",
    "timestamp(message.at) == message.at && timestamp('1970-01-01T00:00:00Z') == timestamp(0)",
    "timestamp(2009, 2, 13) < timestamp(0, 0)",
]


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_results_are_those_of_confluent_kafka(expr: str) -> None:
    reason = "needs confluent_kafka[rules] as the witness"
    base = "confluent_kafka.schema_registry.rules.cel.cel_executor"
    theirs = pytest.importorskip(base, reason=reason).CelExecutor()
    expected, found = run(expr, executor=theirs), run(expr)
    assert found == expected
    if isinstance(found, Decimal):
        assert found.as_tuple() == expected.as_tuple(), "also the same zeros at the end"


@pytest.mark.parametrize(
    ("expr", "reason"),
    [
        ("decimal(null)", "decimal: null is no decimal"),
        ("decimal(true)", "decimal: bool is no decimal"),
        ("decimal(b'x')", "decimal: bytes need a scale"),
        ("decimal('x', 1)", "decimal: bytes and a scale are expected, not string"),
        ("decimal('1_000')", "decimal: '1_000' is no decimal"),
        ("decimal(' 1')", "decimal: ' 1' is no decimal"),
        ("decimal('NaN')", "decimal: 'NaN' is no decimal"),
        ("decimal('1e2147483648')", "is no decimal"),
        ("decimal(b'x', 1u)", "decimal: the scale has to be an int of 32 bits, not uint 1"),
        ("decimals.div(1, 0)", "decimals.div: division by zero"),
        ("decimals.div(0, 0)", "decimals.div: division by zero"),
        ("decimals.mod(1, 0)", "decimals.mod: division by zero"),
        ("decimals.sqrt(-1)", "decimals.sqrt: a negative number has no square root"),
        ("decimals.add('1e999999', 1)", "decimals.add: the result needs 1,000,000 digits"),
        ("decimals.mod('1e2147483647', 3)", "decimals.mod: the result needs 2,147,483,648 digits"),
        ("decimals.round(1, 2147483647)", "decimals.round: the result needs 2,147,483,648 digits"),
        ("string(decimal('1e-2147483647'))", "string: the result needs 2,147,483,648 digits"),
        ("string(null)", "string: null has no text"),
        ("string([1])", "string: list has no text"),
        ("double(true)", "double: bool is no number"),
        ("timestamp(true)", "timestamp: an int is expected, not bool"),
        ("timestamp(1u)", "timestamp: an int is expected, not uint"),
        ("timestamp(1, 4)", "timestamp: the precision is one of 0 (seconds), 3 (milliseconds), "),
        ("timestamp(99999999999999)", "timestamp: 99999999999999 is outside of the years 1 to"),
        ("timestamp('noon')", "timestamp: "),
        ("decimals.power(2, 3)", "there is no function decimals.power()"),
        ("[1].all(x, 'a'.first() == x)", "there is no function first()"),
        ("false && missing(1)", "there is no function missing()"),
    ],
)
def test_errors_name_the_function(expr: str, reason: str) -> None:
    with pytest.raises(RuleError) as caught:
        run(expr)
    assert reason in str(caught.value)
    assert "7.5" not in str(caught.value), "no value of the message"


def test_an_error_beside_or_is_ignored() -> None:
    assert run("decimals.gt(decimals.div(1, 0), 1) || true") is True


def test_zero_is_short_at_any_scale() -> None:
    assert run("decimals.add(decimal(b'', 2147483647), decimal(b'', -2147483647))") == 0
    assert run("decimals.round(decimal(b'', 2147483647))") == 0


PRICES = """syntax = "proto3";
import "confluent/type/decimal.proto";
message Prices {
  confluent.type.Decimal price = 1;
  repeated confluent.type.Decimal more = 2;
}
"""


def prices(price: str, *more: str) -> Any:
    made = message_factory.GetMessageClass(message_of(PRICES, None, None))()
    set_decimal(made.price, Decimal(price))
    for each in more:
        set_decimal(made.more.add(), Decimal(each))
    return made


@pytest.mark.parametrize(
    "expr",
    [
        "message.price == decimal('12.34') && decimal('12.34') == message.price",
        "message.price != decimal('12.35') && decimal('12.35') != message.price",
        "message.price == message.more[0] && message.more == [decimal('12.34'), decimal('-1')]",
        "decimal('-1') in message.more && !(decimal('1') in message.more)",
        "decimals.add(message.price, message.more[1]) == decimal('11.34')",
        "message.price.scale == 3 && size(message.price.value) == 2",
        "string(message.price) == '12.340' && double(message.price) == 12.34",
        "message.price != '12.34'",
    ],
)
def test_protobuf_decimals_in_conditions(expr: str) -> None:
    message = prices("12.340", "12.34", "-1")
    assert run(expr, message, kind=RuleKind.CONDITION) is True


def test_protobuf_decimals_in_transforms() -> None:
    expr = "{'price': decimals.mul(message.price, 2), 'more': [message.price, decimal('-0.5')]}"
    found = run(expr, prices("12.340"))
    assert decimal_of_message(found.price) == Decimal("24.680")
    assert (found.price.scale, found.price.precision) == (3, 5)
    assert [decimal_of_message(each) for each in found.more] == [Decimal("12.340"), Decimal("-0.5")]


def test_long_decimals() -> None:
    number = Decimal("123456789" * 9 + ".5")
    made = prices("0")
    set_decimal(made.price, number)
    assert decimal_of_message(made.price) == number
    for wrong in (Decimal("NaN"), Decimal("Infinity"), Decimal((0, (1,) * (DIGITS_MAX + 1), 0))):
        with pytest.raises(ValueError, match="no decimal"):
            set_decimal(made.price, wrong)
    made.price.value = b"\1" * (BYTES_MAX + 1)
    with pytest.raises(RuleError, match="a decimal of 4,167 bytes: at most 4,166 are read"):
        run("decimals.sign(message.price)", made, kind=RuleKind.CONDITION)
