"""Each row of librdkafka's table of properties is declared: type, range, default, aliases."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from kafka_native._reference.__main__ import safer_defaults
from kafka_native._reference.safer_defaults import SAFER_DEFAULTS
from kafka_native.config import PROPERTIES, State, parse
from kafka_native.errors import KafkaException

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "guide" / "from-confluent-kafka.md"
with (HERE / "librdkafka_config.tsv").open(encoding="utf-8") as _file:
    ROWS = list(csv.DictReader(_file, delimiter="\t", quoting=csv.QUOTE_NONE))
GLOBAL = {row["name"] for row in ROWS if row["scope"] == "global"}
# A few names occur twice, for the client and for topics. In one mapping they are the client's.
COUNTED = [row for row in ROWS if row["scope"] == "global" or row["name"] not in GLOBAL]
KINDS = {
    "integer": {"integer"},
    "float": {"float"},
    "boolean": {"boolean"},
    "enum value": {"enum"},
    "string": {"string"},
    "CSV flags": {"flags"},
    "pattern list": {"patterns"},
    "see dedicated API": {"internal", "callable", "object"},
}
OF_LIBRDKAFKA_ITSELF = {"builtin.features"}  # its default describes the build
OWN_ALIASES = {"dr_cb", "dr_msg_cb"}
SPELLED = {"largest": "latest"}


def default_of(name: str) -> str:
    default = PROPERTIES[name].default
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default is None else f"{default:g}" if isinstance(default, float) else str(default)


def test_table_is_whole() -> None:
    assert len(ROWS) == 199
    assert len(GLOBAL) == 177


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: row["name"])
def test_row_is_declared_as_librdkafka_has_it(row: dict[str, str]) -> None:
    declared = PROPERTIES[row["name"]]
    assert declared.kind in KINDS[row["type"]]
    assert declared.scope == row["cp"]
    assert declared.importance == row["importance"]
    own_alias = row["name"] in OWN_ALIASES
    assert declared.alias_of == ("on_delivery" if own_alias else row["alias_of"])
    assert declared.deprecated == bool(row["deprecated"])
    if declared.kind in ("integer", "float"):
        assert f"{declared.minimum} .. {declared.maximum}" == row["range"]
    if declared.kind in ("enum", "flags"):
        assert ", ".join(declared.choices) == row["range"]


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: row["name"])
def test_default_is_librdkafkas_or_a_safer_one(row: dict[str, str]) -> None:
    name = row["name"]
    if name in SAFER_DEFAULTS:
        assert row["default"] == SAFER_DEFAULTS[name].librdkafka
        assert default_of(name) != row["default"]
    elif name not in OF_LIBRDKAFKA_ITSELF:
        assert default_of(name) == SPELLED.get(row["default"], row["default"])


def test_guide_lists_the_safer_defaults() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    section = text.split("\n### Defaults\n", 1)[1].split("\n### ", 1)[0]
    table = [line for line in section.splitlines() if line.startswith("| `")]
    assert table == safer_defaults().splitlines()


# --- each row is accepted, and the error for an unsettable one says so ---


def sample(name: str, default: str) -> Any:
    """Return a valid value of the property."""
    declared = PROPERTIES[name]
    if declared.kind == "callable":
        return print
    if declared.kind == "object":
        return []
    if declared.kind in ("enum", "flags"):
        return declared.choices[0] if declared.choices else "x"
    return default or {"patterns": "^a"}.get(declared.kind, "x")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['scope']}-{row['name']}")
def test_row_is_accepted_in_one_mapping_and_as_a_topic_property(row: dict[str, str]) -> None:
    name = row["name"]
    declared = PROPERTIES[name]
    role: Any = "consumer" if row["cp"] == "C" else "producer"
    value = sample(name, row["default"])
    spellings = [
        {name: value},
        *([{"default.topic.config": {name: value}}] if row["scope"] == "topic" else []),
    ]
    for conf in spellings:
        if declared.state is State.INTERNAL:
            with pytest.raises(KafkaException, match="must be set through dedicated") as caught:
                parse(conf, role)
            assert declared.doc in str(caught.value)
        elif declared.state is State.REFUSED and value != default_of(name):
            with pytest.raises(KafkaException, match="not supported by this version"):
                parse(conf, role)
        elif row["alias_of"]:
            assert parse(conf, role)[name] == parse({row["alias_of"]: value}, role)[row["alias_of"]]
        else:
            assert parse(conf, role).is_set(name)
