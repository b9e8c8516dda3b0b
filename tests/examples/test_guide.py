"""The snippets of the guide run, one after the other, against the mock cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_native import Producer
from kafka_native.mock import MockCluster

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


@pytest.mark.parametrize(
    ("page", "least"), [("consuming.md", 7), ("asyncio.md", 3), ("monitoring.md", 4), ("transactions.md", 2)]
)
def test_the_snippets_of_the_guide_run(page: str, least: int) -> None:
    snippets = re.findall(r"```python\n(.*?)```", (GUIDE / page).read_text(encoding="utf-8"), re.DOTALL)
    assert len(snippets) >= least
    with MockCluster(brokers=2) as cluster:
        cluster.create_topic("greetings", 3)
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            for number in range(3000):
                producer.produce("greetings", f"hello {number}", partition=number % 3)
        names = {"bootstrap": cluster.bootstrap_servers}
        for number, snippet in enumerate(snippets):
            exec(compile(snippet, f"{page}, snippet {number}", "exec"), names)
