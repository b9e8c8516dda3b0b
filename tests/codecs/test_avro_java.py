"""Records of Java's Avro, and its resolution of random pairs of schemas, equal ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_native.codecs import AvroDecoder, DecodeError, SchemaError
from tests.broker import java
from tests.codecs import avro_schemas as avro
from tests.codecs.java_avro import JavaAvro, running
from tests.codecs.test_avro_random import stored
from tests.codecs.test_avro_resolution import evolved

pytestmark = pytest.mark.slow
MANY = settings(
    deadline=None,
    max_examples=400,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)


@pytest.fixture(scope="module")
def java_avro(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaAvro]:
    if why := java.missing():
        pytest.skip(f"Java's Avro can't run: {why}")
    with running(tmp_path_factory.mktemp("classes")) as found:
        yield found


@st.composite
def written(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    schema = draw(avro.records(avro.Names(), 3))
    return schema, draw(st.lists(avro.values(schema), min_size=1, max_size=5))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    writer, rows = draw(written())
    bare = avro.bare(writer)
    return bare, draw(evolved(bare)), rows


def in_order(value: Any) -> Any:
    """Return the value with maps in the order of their keys: Java's maps have none."""
    if isinstance(value, dict):
        return {key: in_order(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return value[0], in_order(value[1])
    if isinstance(value, list):
        items = [in_order(each) for each in value]
        is_map = any(isinstance(each, tuple) for each in items)
        return sorted(items, key=lambda entry: entry[0]) if is_map else items
    return value


@MANY
@given(written())
def test_records_that_java_writes_have_the_same_values(
    java_avro: JavaAvro, case: tuple[Any, list[Any]]
) -> None:
    schema, rows = case
    records = [avro.encode(avro.bare(schema), row) for row in rows]
    answers = java_avro.rewrite(schema, schema, records)
    decoder = AvroDecoder(json.dumps(schema))
    expected = in_order([avro.shown(schema, row) for row in rows])
    for form in ("whole", "blocks"):
        array = pa.array(decoder.decode([each[form] for each in answers]))
        array.validate(full=True)
        assert in_order(stored(array)) == expected


@MANY
@given(pairs())
def test_records_are_resolved_as_java_does(
    java_avro: JavaAvro, case: tuple[Any, Any, list[Any]]
) -> None:
    writer, reader, rows = case
    records = [avro.encode(writer, row) for row in rows]
    answers = java_avro.rewrite(writer, reader, records)
    try:
        decoder = AvroDecoder(writer, reader)
    except SchemaError:
        assert answers == [None] * len(records)
        return
    plain = AvroDecoder(reader)
    for record, answer in zip(records, answers, strict=True):
        # Java doesn't check that a string is UTF-8. Then we can't read its record either.
        resolved = None if answer is None else read(plain, answer["whole"])
        assert read(decoder, record) == resolved


def read(decoder: AvroDecoder, record: bytes) -> Any:
    """Return the record's value, or None if it doesn't decode."""
    try:
        array = pa.array(decoder.decode([record]))
    except DecodeError:
        return None
    array.validate(full=True)
    return in_order(stored(array))
