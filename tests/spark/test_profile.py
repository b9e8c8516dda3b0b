"""Profiles: measurements, merges, the report, and whole runs on Spark."""

from __future__ import annotations

import itertools
import json
import random
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from kafka_native import Producer
from kafka_native.mock import MockCluster
from kafka_native.spark.commands import cli
from kafka_native.spark.pipelines import measurements
from kafka_native.spark.pipelines.measurements import (
    KeyCounts,
    Measured,
    Sizes,
    Timeline,
    floor_of,
    width_of,
)
from kafka_native.spark.pipelines.profile import PartitionProfile, Profile, plan_profile, profile
from kafka_native.spark.pipelines.profile_report import html_of

_numbers = itertools.count()
NASTY = '<script>alert("x")</script> & $\\frac{1}{0}$ \x00\u202e --> '


def sizes_of(values: list[int]) -> Sizes:
    made = Sizes()
    made.add(pa.array(values, pa.int32()))
    return made


def test_sizes_are_exact_when_small_and_close_when_large() -> None:
    chance = random.Random(3)
    values = [chance.randrange(200) for _ in range(500)] + [
        chance.randrange(1 << 24) for _ in range(500)
    ]
    sizes = sizes_of(values)
    assert (sizes.count, sizes.total, sizes.smallest, sizes.largest) == (
        1000,
        sum(values),
        min(values),
        max(values),
    )
    for share in (0.1, 0.4, 0.5, 0.9, 0.99, 1.0):
        exact = sorted(values)[max(0, int(share * 1000 + 0.5) - 1)]
        assert abs(sizes.percentile(share) - exact) <= exact * 0.01
    assert sizes_of([7, 7, 255]).percentile(0.5) == 7
    assert Sizes().percentile(0.5) == 0


def test_size_buckets_have_no_gaps() -> None:
    size = 0
    while size < 1 << 31:
        assert floor_of(size) == size
        assert floor_of(size + width_of(size) - 1) == size
        assert width_of(size) <= max(1, size / 127)
        size += width_of(size)


def keys_of(keys: list[bytes | None], keys_max: int = 10_000) -> KeyCounts:
    made = KeyCounts(keys_max)
    for start in range(0, len(keys), 500):
        made.add(pa.array(keys[start : start + 500], pa.binary()))
    return made


def test_keys_are_counted_exactly_while_they_fit() -> None:
    keys = [b"a"] * 50 + [b"b"] * 30 + [None] * 7 + [b""] * 3
    counts = keys_of(keys)
    assert counts.top(3) == [(b"a", 50), (b"b", 30), (b"", 3)]
    assert (counts.total, counts.nulls, counts.distinct, counts.slack) == (83, 7, 3, 0)


def test_heavy_keys_are_found_among_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "_PENDING_ROWS", 1000)
    chance = random.Random(5)
    keys = [
        b"heavy" if chance.random() < 0.2 else b"%d" % chance.randrange(5000) for _ in range(20_000)
    ]
    counts = keys_of(keys, keys_max=100)
    [(key, count), *_] = counts.top(5)
    true = Counter(keys)[b"heavy"]
    assert key == b"heavy"
    assert count <= true <= count + counts.slack
    assert 0 < counts.slack <= 20_000 / 100


def test_long_keys_are_counted_by_their_beginnings() -> None:
    counts = keys_of([b"x" * 600 + b"1", b"x" * 600 + b"2", b"y"])
    assert counts.top(2) == [(b"x" * measurements.KEY_MAX_BYTES, 2), (b"y", 1)]


def times_of(seconds: list[int]) -> Timeline:
    made = Timeline()
    made.add(
        pa.array([each * 1_000_000 for each in seconds], pa.int64()),
        pa.array([10] * len(seconds), pa.int64()),
    )
    return made


def test_time_buckets_widen_when_there_are_many_and_keep_their_sums() -> None:
    narrow, wide = times_of([5, 5, 6]), times_of(list(range(9000)))
    assert narrow.buckets == {5: (2, 20), 6: (1, 10)}
    assert wide.width_ms == 8000
    narrow.merge(wide)
    assert narrow.width_ms == 8000
    assert sum(count for count, _ in narrow.buckets.values()) == 9003
    assert sum(size for _, size in narrow.buckets.values()) == 90030
    assert narrow.buckets[0] == (11, 110)
    assert (narrow.first_ms, narrow.last_ms) == (0, 8_999_000)


def test_records_without_a_timestamp_have_no_time() -> None:
    """The source gives them -1 ms, which isn't 1969."""
    times = Timeline()
    for given in ([-1000, None], [-1000, 5_000_000, -1000]):
        times.add(pa.array(given, pa.int64()), pa.array([10] * len(given), pa.int64()))
    assert (times.first_ms, times.last_ms, times.buckets) == (5000, 5000, {5: (1, 10)})


def batch_of(rows: list[tuple[Any, Any, Any, int | None]]) -> Any:
    """Return rows of key, value, headers, timestamp in microseconds."""
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    kinds = {
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": header,
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    columns = {
        name: pa.array([row[at] for row in rows], kind)
        for at, (name, kind) in enumerate(kinds.items())
    }
    return pa.record_batch(columns)


def test_merged_halves_equal_the_whole_also_from_json() -> None:
    chance = random.Random(7)
    headers = [{"key": "h", "value": b"12345"}, {"key": "ø", "value": None}]
    rows: list[tuple[Any, Any, Any, int | None]] = [
        (
            None if number % 9 == 0 else b"k%d" % chance.randrange(20),
            None if number % 5 == 0 else b"v" * chance.randrange(1000),
            [None, [], headers][number % 3],
            None if number % 11 == 0 else number * 300_000,
        )
        for number in range(1000)
    ]
    whole, halves = Measured(), []
    whole.add(batch_of(rows))
    for start in (0, 500):
        half = Measured()
        half.add(batch_of(rows).slice(start, 500))
        halves.append(Measured.from_json(json.loads(json.dumps(half.to_json()))))
    halves[0].merge(halves[1])
    both, one = halves[0].to_json(), whole.to_json()
    for sampled in ("compression", "values"):
        del both[sampled], one[sampled]
    for each in (both, one):
        counted = each.pop("keys")
        each["keys"] = sorted(zip(counted["keys"], counted["counts"], strict=True))
    assert both == one
    assert whole.records == 1000
    assert whole.sizes["headers"].total == 333 * (1 + 5 + 2)
    assert whole.keys.nulls == len(range(0, 1000, 9))
    assert whole.tombstones == 200
    assert whole.sizes["record"].count == 1000
    assert whole.sizes["value"].count == 800


def test_compression_is_estimated_for_text_and_noise() -> None:
    text, noise = Measured(), Measured()
    text.add(batch_of([(None, b"the same words again and again " * 20, None, 0)] * 200))
    chance = random.Random(1)
    noise.add(batch_of([(None, chance.randbytes(600), None, 0) for _ in range(200)]))
    for codec in ("lz4", "zstd", "gzip"):
        assert text.compression.packed[codec] * 10 < text.compression.raw
        assert noise.compression.packed[codec] > 0.9 * noise.compression.raw


def section_of(rows: list[tuple[Any, Any, Any, int | None]], partitions: int = 1) -> str:
    """Return the page for a topic with these records in each partition."""
    from kafka_native.spark.pipelines import profile as module
    from kafka_native.spark.pipelines.snapshot import PartitionRange

    planned = [PartitionRange("t", number, 0, len(rows)) for number in range(partitions)]
    measured: dict[tuple[str, int], Measured] = {}
    for number in range(partitions):
        measured["t", number] = Measured()
        measured["t", number].add(batch_of(rows))
    lags: dict[tuple[str, int], dict[str, Any]] = {
        ("t", number): {} for number in range(partitions)
    }
    return html_of({"made": "now", "topics": {"t": module._topic(planned, measured, lags)}})


def test_report_says_that_no_key_stands_out() -> None:
    page = section_of([(b"k%d" % number, b"{}", None, 0) for number in range(500)])
    assert "No key stands out: each has at most 1 records (0.20%)." in page
    assert "k17" not in page
    skewed = [(b"k%d" % number, b"{}", None, 0) for number in range(400)]
    page = section_of([*skewed, *[(b"heavy", b"{}", None, 0)] * 100])
    assert "No key stands out" not in page
    assert "<td>heavy</td><td>100</td><td>20.00%</td>" in page
    page = section_of([(b"one", b"{}", None, 0)] * 9 + [(b"two", b"{}", None, 0)])
    assert "<td>one</td><td>9</td><td>90.00%</td>" in page  # few keys are all shown


def test_report_names_the_formats_of_values() -> None:
    framed = b"\0\0\0\0\x07\x03abc"
    page = section_of([(None, framed, None, 0)] * 3 + [(None, b'{"a": 1}', None, 0)])
    assert "By 4 samples the values look like: " in page
    assert "Avro with the registry&#x27;s framing 75.0%, JSON 25.0%; schema ids 7." in page
    assert "<td>7</td><td>Avro</td><td>3</td>" in page


@pytest.mark.parametrize("partitions", [2, 3, 12])
def test_partitions_have_whole_numbers_at_the_axis(partitions: int) -> None:
    from matplotlib.figure import Figure

    from kafka_native.spark.pipelines import profile_report

    axes = Figure().subplots()
    found: Any = [{"partition": number, "records": number} for number in range(partitions)]
    profile_report._bars(axes, found)
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


# --- on Spark ---


def fill(cluster: MockCluster, count: int) -> str:
    """Produce records, half of which have the same key."""
    topic = f"clicks-{next(_numbers)}"
    cluster.create_topic(topic, 3)
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for number in range(count):
            key = NASTY.encode() if number % 2 else b"user-%d" % number
            value = None if number % 10 == 0 else b"x" * (number % 300)
            producer.produce(
                topic, value, key, timestamp=1_600_000_000_000 + number * 100, partition=number % 2
            )
    return topic


def test_profile_of_a_topic_and_its_report(
    cluster: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = fill(cluster, 2000)
    conf = {"bootstrap.servers": cluster.bootstrap_servers}
    cluster.set_committed("readers", {(topic, 0): 400})
    found = profile(spark, conf, topics=[topic], groups=["readers"], min_partitions=5)
    made = found["topics"][topic]
    assert (made["records"], made["tombstones"]) == (2000, 200)
    assert made["sizes"]["value"]["bytes"] == sum(
        number % 300 for number in range(2000) if number % 10
    )
    assert made["keys"]["top"][0]["count"] == 1000
    assert made["keys"]["top"][0]["hex"] == NASTY.encode().hex()
    assert made["keys"]["distinct"] == 1001
    assert made["keys"]["top_shares"]["1"] == 0.5
    assert [each["records"] for each in made["partitions"]] == [1000, 1000, 0]
    assert [each["lag"]["readers"] for each in made["partitions"]] == [600, None, None]
    assert made["partitions"][1]["first_ms"] == 1_600_000_000_100
    assert sum(bucket[1] for bucket in made["times"]["buckets"]) == 2000
    page = html_of(json.loads(json.dumps(found)))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg") == 3
    check_page(page)
    [first, *_] = plan_profile(conf, topics=[topic], starting="1600000100000")
    assert (first.start, first.end) == (500, 1000)


def test_command_writes_figures_and_report(
    cluster: MockCluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = fill(cluster, 30)
    where = ["profile", "--bootstrap", cluster.bootstrap_servers, "--topics", topic]
    done = CliRunner().invoke(cli, [*where, "--dry-run"])
    assert "3 partitions, 30 offsets; nothing was read" in done.output
    files = {"--html": tmp_path / "new" / "report.html", "--json": tmp_path / "figures.json"}
    done = CliRunner().invoke(
        cli, [*where, *(str(each) for pair in files.items() for each in pair)]
    )
    assert done.exit_code == 0, done.output
    assert f"profile: {topic}" in done.output
    assert json.loads(files["--json"].read_text())["topics"][topic]["records"] == 30
    check_page(files["--html"].read_text())


def check_page(page: str) -> None:
    """Check that a page is well-formed, and neither runs nor fetches anything."""
    body = page.partition("<body>")[2].partition("</body>")[0]
    root = ElementTree.fromstring(f'<body xmlns:xlink="http://www.w3.org/1999/xlink">{body}</body>')
    for element in root.iter():
        name = str(element.tag).rpartition("}")[2]
        assert name not in ("script", "iframe", "img", "link", "object")
        for attribute, value in element.attrib.items():
            assert not attribute.startswith("on")
            assert not value.startswith(("http:", "https:", "javascript:"))


def odd_profile(**changes: Any) -> Profile:
    """Return a profile with names, keys and times that no normal cluster has."""
    measured = Measured()
    measured.add(
        batch_of([(NASTY.encode(), b"\xff" * 10_000_000, None, -(2**62)), (b"", b"", None, 2**62)])
    )
    from kafka_native.spark.pipelines import profile as module
    from kafka_native.spark.pipelines.snapshot import PartitionRange

    topic = module._topic(
        [PartitionRange(NASTY, 0, 0, 2)], {(NASTY, 0): measured}, {(NASTY, 0): {NASTY: 7}}
    )
    return {"made": NASTY, "topics": {NASTY: topic}}


def test_report_of_odd_data_is_a_sound_page() -> None:
    page = html_of(odd_profile())
    assert "<script" not in page
    assert "\u202e" not in page
    check_page(page)


def test_report_of_an_empty_topic() -> None:
    nothing: PartitionProfile = {
        "partition": 0, "start": 0, "end": 0, "records": 0, "bytes": 0, "tombstones": 0, "without_key": 0,
        "first_ms": None, "last_ms": None, "lag": {},
    }  # fmt: skip
    made = odd_profile()["topics"][NASTY]
    made["records"] = 0
    made["partitions"] = [nothing]
    page = html_of({"made": "now", "topics": {"empty": made}})
    assert "<svg" not in page
    check_page(page)
