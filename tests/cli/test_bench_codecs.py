"""The benchmarks of typed records: all libraries give the same records, and the command runs."""

from __future__ import annotations

import dataclasses
import datetime
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from click.testing import CliRunner
from google.protobuf.message import Message

from bench.adapters import Figures
from bench.codecs import FROM_TOPIC, NESTED, OURS, PROJECTION, SCENARIOS, contestants, records
from bench.codecs.main import main
from bench.codecs.report import GOALS
from bench.report import verdicts
from kafka_native.cli.mock import mock_cluster

COUNT = 50
ALONE = [
    (scenario, contestant)
    for scenario, names in SCENARIOS.items()
    for contestant in names
    if scenario not in FROM_TOPIC
]


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
def test_each_library_decodes_the_same_records(scenario: str, contestant: str) -> None:
    if why := contestants.missing(scenario, contestant):
        pytest.skip(why)
    with ExitStack() as stack:
        result = contestants.prepare(scenario, contestant, stack, COUNT)()
        found = shown(list(result) if isinstance(result, map) else result)
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
        arguments += ["--rounds", "1", "--output", str(tmp_path)]
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
