"""The guides to the switch from kafka-python and aiokafka.

Their programs run on mock clusters, and the two programs of a task have the same outcome.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
from pathlib import Path
from typing import cast

import pytest

from kafka_native import Message, Producer
from kafka_native.mock import MockCluster

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^(\S+):\n\n```python\n(.*?)```", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"`([a-z0-9_]+)`")
ADDRESS = "localhost:9092"


def page(name: str) -> str:
    return (DOCS / "guide" / name).read_text(encoding="utf-8")


def programs(text: str, library: str) -> list[str]:
    return [code for name, code in BLOCK.findall(text) if name == library]


def outcome(codes: list[str]) -> tuple[list[str], list[tuple[bytes | None, bytes | None]]]:
    """Run programs one after the other on a new cluster.

    :return: What each one printed, and the keys and values of all records.
    """
    printed = []
    with MockCluster(brokers=1) as cluster:
        for topic in ("orders", "invoices"):
            cluster.create_topic(topic, 1)
        for code in codes:
            with contextlib.redirect_stdout(io.StringIO()) as shown:
                names = {"__name__": "guide"}
                exec(
                    compile(code.replace(ADDRESS, cluster.bootstrap_servers), "guide", "exec"),
                    names,
                )
            printed.append(shown.getvalue())
        records = [
            (record.key, record.value)
            for topic in ("orders", "invoices")
            for record in cluster.messages(topic, 0)
        ]
    return printed, records


def options(text: str) -> set[str]:
    """Return their options that the section about options names."""
    section = text.split("\n## Options\n")[1].split("\n## ")[0]
    table = {
        name
        for line in section.splitlines()
        if line.startswith("| ")
        for name in OPTION.findall(line.split(" | ")[0])
    }
    without = section.split("have no counterpart:")[1]
    return table | set(OPTION.findall(without))


def properties(text: str) -> set[str]:
    """Return our properties that the section about options names."""
    section = text.split("\n## Options\n")[1].split("\n## ")[0]
    return {
        name
        for line in section.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([a-z0-9_.]+)`", line.split(" | ")[1])
    }


def known_properties() -> set[str]:
    text = (DOCS / "CONFIGURATION.md").read_text(encoding="utf-8")
    serializers = {
        f"{part}.{kind}" for part in ("key", "value") for kind in ("serializer", "deserializer")
    }
    return set(re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)) | serializers


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("library", "module"), [("kafka-python", "kafka"), ("aiokafka", "aiokafka")]
)
def test_the_programs_of_a_task_have_the_same_outcome(library: str, module: str) -> None:
    pytest.importorskip(module)
    text = page(f"from-{library}.md")
    theirs, ours = programs(text, library), programs(text, "kafka_native")
    assert len(theirs) == len(ours) == 5
    printed, records = outcome(ours)
    assert outcome(theirs) == (printed, records)
    assert all(printed)
    assert len(records) == 8  # two of them end the transactions


@pytest.mark.filterwarnings("ignore")
def test_the_guide_names_each_option_of_kafka_python() -> None:
    kafka = pytest.importorskip("kafka")
    theirs = {*kafka.KafkaProducer.DEFAULT_CONFIG, *kafka.KafkaConsumer.DEFAULT_CONFIG}
    assert theirs - options(page("from-kafka-python.md")) == set()


def test_the_guide_names_each_option_of_aiokafka() -> None:
    aiokafka = pytest.importorskip("aiokafka")
    theirs = {
        name
        for client in (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer)
        for name, parameter in inspect.signature(client).parameters.items()
        if parameter.kind is not parameter.VAR_POSITIONAL
    }
    assert theirs - options(page("from-aiokafka.md")) == set()


@pytest.mark.parametrize("library", ["kafka-python", "aiokafka"])
def test_our_properties_exist(library: str) -> None:
    found = properties(page(f"from-{library}.md"))
    assert len(found) > 30
    assert found - known_properties() == set()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", ["kafka.partitioner.default", "aiokafka.partitioner"])
def test_murmur2_random_chooses_their_partitions(module: str) -> None:
    murmur2 = pytest.importorskip(module).murmur2
    keys = [b"key %d" % number for number in range(50)]
    chosen: dict[bytes, int] = {}

    def delivered(error: object, message: Message) -> None:
        assert error is None
        chosen[cast(bytes, message.key())] = cast(int, message.partition())

    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("orders", 7)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, "partitioner": "murmur2_random"}
        with Producer(conf) as producer:
            for key in keys:
                producer.produce("orders", b"", key=key, on_delivery=delivered)
    assert chosen == {key: (murmur2(key) & 0x7FFFFFFF) % 7 for key in keys}
