"""The package has the names and signatures of confluent_kafka.schema_registry."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from enum import Enum
from typing import Any

import pytest

import kafka_native.schema_registry as ours
from kafka_native.schema_registry import schemas, serde

theirs = pytest.importorskip("confluent_kafka.schema_registry")

# The serializers' modules have tests of their own, beside `test_serde_api`.
OWN_NAMES = {
    "": theirs.__all__,
    ".schema_registry_client": [
        "AsyncSchemaRegistryClient",
        "SchemaRegistryClient",
        "SchemaRegistryError",
        "normalize_identity_pool",
        *schemas.__all__,
    ],
    ".serde": serde.__all__,
    ".error": ["OAuthTokenError", "SchemaParseException", "SchemaRegistryError", "UnknownType"],
}
# confluent_kafka keeps these two in a module that isn't public.
ELSEWHERE = {"RulePhase", "SchemaVersion"}
# Two types of functions, and a base class whose methods are for confluent_kafka's own serializers.
NAMES_ONLY = {"BaseSerde", "FieldTransform", "FieldTransformer"}
NAMES = [(module, name) for module, names in OWN_NAMES.items() for name in names]


def signature(function: Any) -> list[tuple[str, Any, Any]] | None:
    """Return names, kinds and defaults."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [(each.name, each.kind, repr(each.default)) for each in parameters]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{m}:{n}" for m, n in NAMES])
def test_a_name_is_that_of_confluent_kafka(module: str, name: str) -> None:
    own = getattr(importlib.import_module(f"kafka_native.schema_registry{module}"), name)
    where = ".common.schema_registry_client" if name in ELSEWHERE else module
    other = getattr(importlib.import_module(f"confluent_kafka.schema_registry{where}"), name)
    if own is other or name in NAMES_ONLY:  # fastavro's classes are the same in both packages
        return
    if not callable(other):
        assert [str(each) for each in own] == [str(each) for each in other]
        return
    if inspect.isclass(other) and issubclass(other, Enum):
        assert [(each.name, each.value) for each in own] == [(e.name, e.value) for e in other]
        assert [str(each) for each in own] == [str(each) for each in other]
        return
    if not is_value_type(other):
        assert signature(own) == signature(other)
    if inspect.isclass(other):
        assert_same_methods(own, other)


def is_value_type(value: Any) -> bool:
    """Return whether a class has fields. A default list is compared by a value."""
    if not hasattr(value, "__attrs_attrs__"):
        return False
    own = getattr(schemas, value.__name__)
    fields = [(each.name, each.default) for each in value.__attrs_attrs__]
    assert list(inspect.signature(own).parameters) == [name for name, _ in fields]
    needed = [p.name for p in inspect.signature(own).parameters.values() if p.default is p.empty]
    assert needed == [name for name, default in fields if repr(default) == "NOTHING"]
    return True


def assert_same_methods(own: type, other: type) -> None:
    wrong = {}
    for name, member in vars(other).items():
        is_public = not name.startswith("_") or name in ("__aenter__", "__call__", "__enter__")
        if not is_public or not (
            callable(member) or isinstance(member, (classmethod, staticmethod))
        ):
            continue
        mine = getattr(own, name, None)
        if mine is None:
            wrong[name] = "missing"
        elif signature(mine) != signature(getattr(other, name)):
            wrong[name] = f"{signature(mine)} instead of {signature(getattr(other, name))}"
        elif inspect.iscoroutinefunction(mine) != inspect.iscoroutinefunction(getattr(other, name)):
            wrong[name] = "a coroutine function in one of the two"
    assert wrong == {}


def test_both_clients_have_the_same_methods() -> None:
    def public(client: type) -> dict[str, Any]:
        found = {name: each for name, each in vars(client).items() if not name.startswith("_")}
        return {name.replace("aclose", "close"): signature(each) for name, each in found.items()}

    assert public(ours.AsyncSchemaRegistryClient) == public(ours.SchemaRegistryClient)


def test_importing_needs_no_http_library() -> None:
    program = (
        "import sys, kafka_native, kafka_native.schema_registry as r\n"
        "assert not {'httpx', 'httpx2', 'fastavro', 'attrs', 'confluent_kafka'} & set(sys.modules)\n"
        "sys.modules['httpx2'] = None\n"
        "try:\n"
        "    r.SchemaRegistryClient({'url': 'http://localhost'})\n"
        "except ImportError as error:\n"
        "    assert \"pip install 'kafka-native[registry]'\" in str(error)\n"
        "    print('named')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("named\n", 0), done.stderr
