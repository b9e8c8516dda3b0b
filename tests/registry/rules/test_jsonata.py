"""Rules of the type JSONATA."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

pytest.importorskip("jsonata", reason="rules in JSONata need kafka-native[rules]")

from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.jsonata.jsonata_executor import JsonataExecutor
from tests.registry.rules.contracts import context, rule

MESSAGE = {"name": "ada", "items": [{"price": 1.5}, {"price": 2}], "note": None}


def run(expr: str | None, message: Any = None, executor: Any = None) -> Any:
    executor = executor or JsonataExecutor()
    ctx = context(rule("JSONATA", expr), mode="UPGRADE")
    return executor.transform(ctx, MESSAGE if message is None else message)


EXPRESSIONS = [
    "$merge([$sift($, function($v, $k) {$k != 'name'}), {'fullName': $.name}])",
    "{'total': $sum(items.price), 'first': items[0].price}",
    "items.price",
    "items[price > 1.6]",
    "missing",
    "{'upper': $uppercase(name), 'note': note}",
    "($x := 5; {'x': $x})",
]


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_results_are_those_of_confluent_kafka_in_plain_types(expr: str) -> None:
    result = run(expr)
    assert types(result) <= {dict, list, str, int, float, bool, type(None)}
    other = pytest.importorskip(
        "confluent_kafka.schema_registry.rules.jsonata.jsonata_executor",
        reason="confluent_kafka[rules] is the witness",
    )
    assert result == run(expr, executor=other.JsonataExecutor())


def types(value: Any) -> set[type]:
    found = {type(value)}
    if isinstance(value, dict):
        return found.union(*map(types, value.values()))
    if isinstance(value, list):
        return found.union(*map(types, value))
    return found


def test_variables_of_one_message_are_unknown_to_the_next() -> None:
    executor = JsonataExecutor()
    expr = "(flag ? ($kept := 'old'; $kept) : $kept)"
    assert run(expr, {"flag": True}, executor) == "old"
    assert run(expr, {"flag": False}, executor) is None


@pytest.mark.parametrize("expr", ["{'a': ", "$unknown(1)", "$number('x')", "1 + 'a'"])
def test_failures_name_the_rule(expr: str) -> None:
    with pytest.raises(RuleError, match="the rule r1 failed"):
        run(expr)


def test_endless_recursion_is_an_error_of_the_rule() -> None:
    with pytest.raises(RuleError, match="r1"):
        run("($f := function($x) { 1 + $f($x + 1) }; $f(1))")


@pytest.mark.parametrize("expr", ["", None])
def test_a_rule_needs_an_expression(expr: str | None) -> None:
    with pytest.raises(RuleError, match="no expression"):
        run(expr)


def test_the_message_itself_is_not_changed() -> None:
    message = {"a": {"b": 1}}
    result = run("$ ~> |a|{'b': 2}|", message)
    assert (message, result) == ({"a": {"b": 1}}, {"a": {"b": 2}})


def test_threads_share_an_executor() -> None:
    executor = JsonataExecutor()
    results: list[Any] = []

    def work(number: int) -> None:
        results.extend(run("($x := a; $x + a)", {"a": number}, executor) for _ in range(50))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(results) == sorted([0, 2, 4, 6] * 50)


def test_a_missing_jsonata_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "kafka_native.schema_registry.rules.jsonata.jsonata_executor"
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jsonata", None)
    with pytest.raises(ImportError, match=r"pip install 'kafka-native\[rules\]'"):
        __import__(name)


def test_the_executor_registers_itself(shared_registry: Any) -> None:
    JsonataExecutor.register()
    assert isinstance(shared_registry.get_executor("JSONATA"), JsonataExecutor)
