"""The benchmarks of typed records: all libraries give the same records, and the command runs."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from click.testing import CliRunner
from google.protobuf.message import Message

from bench.adapters import Figures
from bench.codecs import (
    ENCODE,
    FROM_TOPIC,
    NESTED,
    OURS,
    PROJECTION,
    RAW,
    SCENARIOS,
    contestants,
    records,
)
from bench.codecs.main import main
from bench.codecs.page import TITLES, page_of
from bench.codecs.report import GOALS
from bench.report import verdicts
from kafka_native.cli.mock import mock_cluster
from kafka_native.codecs import AvroDecoder, JsonDecoder, ProtobufDecoder
from kafka_native.codecs.column_decoder import ColumnDecoder

COUNT = 50
ALONE = [
    (scenario, contestant)
    for scenario, names in SCENARIOS.items()
    for contestant in names
    if scenario not in FROM_TOPIC
]
DECODERS: dict[str, Callable[[], ColumnDecoder]] = {
    "avro_encode": lambda: AvroDecoder(records.FLAT),
    "json_encode": lambda: JsonDecoder(records.json_schema(nested=False)),
    "protobuf_encode": lambda: ProtobufDecoder(records.message_class(nested=False)),
}


def shown(found: Any) -> list[Any]:
    """Return the records of a library as dicts, with times as numbers and maps as dicts."""
    if isinstance(found, pyarrow.RecordBatch):
        found = found.to_struct_array()
    rows = found if isinstance(found, list) else found.to_pylist()
    if isinstance(rows[0], Message):
        of_order = "product" in rows[0].DESCRIPTOR.fields_by_name
        rows = list(map(contestants.order_fields if of_order else contestants.basket_fields, rows))
    if isinstance(rows[0], records.Order):
        rows = list(map(dataclasses.asdict, rows))
    for row in rows:
        if isinstance(row["created"], datetime.datetime):
            created = row["created"].replace(tzinfo=datetime.timezone.utc)
            row["created"] = round(created.timestamp() * 1000)
        if "attributes" in row:
            pairs = dict(row["attributes"]).items()
            row["attributes"] = {key: value for key, value in pairs if value is not None}
    return rows


@pytest.mark.parametrize(("scenario", "contestant"), ALONE)
def test_each_library_has_the_same_records(scenario: str, contestant: str) -> None:
    if why := contestants.missing(scenario, contestant):
        pytest.skip(why)
    with ExitStack() as stack:
        result = contestants.prepare(scenario, contestant, stack, COUNT)()
        found = list(result) if isinstance(result, map) else result
    if scenario in ENCODE:
        assert len(found) == COUNT
        found = pyarrow.array(DECODERS[scenario]().decode(found))
    found = shown(found)
    expected = records.rows(nested=scenario in NESTED, count=COUNT)
    if scenario == "avro_projection" and contestant in (OURS, "fastavro"):
        expected = [{name: row[name] for name in PROJECTION} for row in expected]
    assert found == expected


def test_the_flat_records_have_about_a_hundred_bytes() -> None:
    payloads = records.avro(nested=False, count=COUNT)
    assert 70 < sum(map(len, payloads)) / COUNT < 110
    assert len(records.FLAT["fields"]) == 10


def test_every_target_is_measured() -> None:
    for goal in GOALS:
        assert {OURS, goal.than or OURS} <= set(SCENARIOS[goal.scenario])
    slow = [Figures(1, 1.0, 1.0, more={"M records/s": 1.0})]
    found = verdicts("avro_messages", {OURS: slow, "confluent_kafka": slow}, GOALS)
    assert found == ["M records/s / confluent_kafka: 1.00, target at least 10: not reached"]


@pytest.mark.slow
def test_the_command_measures_every_scenario(tmp_path: Path) -> None:
    with mock_cluster() as bootstrap:
        arguments = ["--bootstrap", bootstrap, "--seconds", "0.01", "--messages", "25000"]
        page = tmp_path / "page.md"
        arguments += ["--rounds", "1", "--output", str(tmp_path), "--page", str(page)]
        result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    results = json.loads((tmp_path / "results.json").read_text())
    assert list(results) == list(SCENARIOS)
    for scenario, found in results.items():
        names = SCENARIOS[scenario]
        wanted = [name for name in names if not contestants.missing(scenario, name)]
        assert list(found) == wanted
        for rounds in found.values():
            assert all(figures["seconds"] > 0 and figures["count"] > 0 for figures in rounds)
    for scenario in FROM_TOPIC:
        assert {rounds[0]["count"] for rounds in results[scenario].values()} == {24_999}
    tables = page.read_text().partition("## Figures")[2]
    assert tables.count("### ") == len(SCENARIOS)
    assert tables.count("\n| ") == len(SCENARIOS) + sum(map(len, results.values()))


def test_the_page_names_the_libraries_that_are_faster() -> None:
    ours, theirs = ([Figures(count, 1.0, 0.5) for count in counts] for counts in ((2, 4), (3, 6)))
    found = {OURS: ours, "pyruhvro": theirs, "fastavro": ours}
    text = page_of({"avro": found, "topic": {OURS: ours, RAW: theirs}})
    assert "the medians of 2 rounds" in text
    faster = text.partition("## Where another library is faster\n\n")[2].partition("\n\n")[0]
    assert faster == "- Avro, flat records: pyruhvro is 1.50 times as fast."
    table = text.partition("### Avro, flat records")[2].partition("###")[0]
    assert (
        "| pyruhvro | 4.5e-06 (3e-06-6e-06) | 125000.000 (83333.333-166666.667) | 0.67 |" in table
    )
    assert "| fastavro and pyarrow | 3e-06 (2e-06-4e-06)" in table
    alone = page_of({"avro": {OURS: ours[:1]}})
    assert "In no table below." in alone
    assert f"| {OURS} | 2e-06 | 250000.000 |  |" in alone


def test_the_page_needs_all_scenarios(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["avro", "--page", str(tmp_path / "page.md")])
    assert result.exit_code == 2
    assert "--page needs all scenarios" in result.output


def test_the_page_has_a_title_for_each_scenario() -> None:
    assert set(TITLES) == set(SCENARIOS)
