"""The guide's snippets about maintain, mirror, snapshot and profile run on the mock cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_native import Producer
from kafka_native.mock import MockCluster
from kafka_native.spark.pipelines.lake import Lake
from kafka_native.spark.pipelines.translation import Piece, Translations
from tests.spark.conftest import ROOT

SECTIONS = ("tables", "maintain", "mirror", "snapshot", "profile")


def snippets(section: str) -> list[str]:
    """Return the snippets of one section, in order."""
    guide = (ROOT / "docs" / "guide" / "pipelines.md").read_text(encoding="utf-8")
    text = guide.partition(f"\n## {section}:")[2].partition("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.usefixtures("spark")
def test_the_pipelines_of_the_guide_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MockCluster(brokers=1) as here, MockCluster(brokers=1) as other:
        here.create_topic("orders-7", 2)
        other.create_topic("eu.orders-7", 2)
        addresses = {
            "old:9092": here.bootstrap_servers,
            "new:9092": other.bootstrap_servers,
            "localhost:9092": here.bootstrap_servers,
        }
        with Producer({"bootstrap.servers": here.bootstrap_servers}) as producer:
            for topic in ("orders-7", "profiles", "clicks"):
                for number in range(100):
                    producer.produce(topic, f"value {number}", f"key {number % 40}")
        Translations(str(tmp_path / "mirror" / "translation")).write(
            0, [Piece("orders", 3, "orders", 0, 9, 7, 16)]
        )
        Lake(tmp_path / "lake").prepare()
        for section in SECTIONS:
            found = snippets(section)
            assert found
            for snippet in found:
                for address, real in addresses.items():
                    snippet = snippet.replace(address, real)
                snippet = snippet.replace("/data", str(tmp_path)).replace(
                    "clicks.html", f"{tmp_path}/x.html"
                )
                exec(compile(snippet, f"pipelines.md, {section}", "exec"), {})
    output = capsys.readouterr().out
    assert re.search("100 records in [2-4] files; 2 partitions", output)
    assert "0 files became 0" in output
    assert "100 records in 1 batches" in output
    assert "40 keys of 100 records" in output
    assert "'count': 3" in output
    assert "<svg" in (tmp_path / "x.html").read_text(encoding="utf-8")
