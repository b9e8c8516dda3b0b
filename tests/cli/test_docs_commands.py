"""The commands that the pages show: their options exist, and they run on a mock cluster."""

from __future__ import annotations

import html
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dev import terminal
from kafka_native import Consumer, Producer, TopicPartition
from kafka_native.mock import MockCluster, MockSchemaRegistry
from kafka_native.schema_registry import Schema, SchemaRegistryClient
from tests.cli.running import invoke
from tests.examples import pages
from tests.examples.pages import Block

NATIVE = ["kafka-native"]
SPARK = ["python", "-m", "kafka_native.spark"]
ORDER = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    {"name": "customer", "type": ["null", {"type": "record", "name": "Customer", "fields": [
        {"name": "city", "type": "string"}]}], "default": null}]}"""
FILES = {
    "order.avsc": ORDER,
    "changed.avsc": ORDER.replace('"long"', '"string"'),
    "orders.jsonl": '{"id":2,"price":"1.50"}\n',
    "keyed.txt": "ann:hello\n",
    "bob.password": "s3cret\n",
    **dict.fromkeys(("cat.png", "dog.png", "january.log", "february.log"), "a line\n"),
}
"""Files that the commands name."""

NOT_RUN = {
    ("mock",): "it runs until it is stopped",
    ("perf",): "it takes minutes",
    ("doctor",): "the pages show failures",
    ("transactions", "abort"): "it asks, and nothing hangs on this cluster",
    ("users", "set", "alice"): "it asks for a password",
    ("schemas", "list", "-r"): "a registry of others",
}
STATUS = {("schemas", "check"): 1}
"""Commands whose page shows a failure."""


def typed_text(block: Block) -> str:
    """Return what the user types. A block without a language has prompts and output."""
    text = block.text
    if block.language == "":
        lines = text.splitlines()
        text = "\n".join(line[2:] for line in lines if line.startswith("$ "))
    text = re.sub(r"  +# .*", "", text).replace("\\\n", " ")
    return re.sub(r"\|\s*\n", "| ", text)


def pipelines(block: Block) -> list[list[list[str]]]:
    """Return the pipelines of a block. Each is a list of commands, and a command a list of words."""
    lexer = shlex.shlex(typed_text(block), posix=True, punctuation_chars="|;&<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[list[str]]] = [[[]]]
    for token in lexer:
        if token.strip("\n") in ("", ";", "&", "&&", "||"):
            found.append([[]])
        elif token == "|":
            found[-1].append([])
        else:
            found[-1][-1].append(token)
    return [each for each in found if each != [[]]]


def shown(start: list[str]) -> list[tuple[str, list[list[str]]]]:
    """Return the pipelines with a command that begins so, and where they are."""
    return [
        (f"{page}:{block.line}: {shlex.join(words[:5])}", pipeline)
        for page in pages.pages()
        for block in pages.blocks(page, "sh", "")
        for pipeline in pipelines(block)
        for words in pipeline[-1:]
        if any(command[: len(start)] == start for command in pipeline)
    ]


def arguments(command: list[str]) -> list[str]:
    """Return a command's words without redirections."""
    for sign in ("<", ">"):
        if sign in command:
            command = command[: command.index(sign)]
    return command


def make_files(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text)


def cases(found: list[tuple[str, list[list[str]]]]) -> list[object]:
    return [pytest.param(pipeline, id=name) for name, pipeline in found]


@pytest.mark.parametrize("pipeline", cases(shown(NATIVE)))
def test_the_command_has_these_options(
    pipeline: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(click.Command, "invoke", lambda command, ctx: None)
    for command in pipeline:
        if command[:1] == NATIVE:
            done = invoke(*arguments(command[1:]))
            assert done.exit_code == 0, done.output


@pytest.mark.parametrize("pipeline", cases(shown(SPARK)))
def test_the_pipeline_of_spark_has_these_options(
    pipeline: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    from kafka_native.spark.commands import cli as spark

    monkeypatch.setattr(click.Command, "invoke", lambda command, ctx: None)
    [command] = pipeline
    done = CliRunner().invoke(spark, arguments(command[3:]))
    assert done.exit_code == 0, done.output


@contextmanager
def prepared(block: Block) -> Iterator[tuple[MockCluster, MockSchemaRegistry]]:
    """A cluster with the topics of the pages, a group, and a registry with the schemas."""
    with MockCluster(brokers=3) as cluster, MockSchemaRegistry() as registry:
        topics = {"greetings": 1, "counts": 1, "copy": 3, "orders": 3}
        for topic, partitions in topics.items():
            if f"topics create {topic}" not in block.text:
                cluster.create_topic(topic, partitions)
        if "> order.avsc" not in block.text:
            with SchemaRegistryClient({"url": registry.url}) as client:
                for topic in topics:
                    client.register_schema(f"{topic}-value", Schema(ORDER, "AVRO"))
        conf = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers"}
        with Producer(conf) as producer, Consumer(conf) as consumer:
            producer.produce("greetings", b"hello", key=b"a")
            if "orders" in cluster.topics:
                consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        yield cluster, registry


def run(pipeline: list[list[str]], addresses: dict[str, str], env: dict[str, str]) -> None:
    """Run a pipeline. Its commands of kafka-native run in this process."""
    data = b""
    for words in pipeline:
        command = [pages.replaced(word, addresses) for word in words]
        if command[0] == "jq":  # it only formats
            continue
        if "<" in command:
            data = Path(command[command.index("<") + 1]).read_bytes()
        if command[:1] != NATIVE:
            done = subprocess.run(arguments(command), input=data, capture_output=True, check=True)
            data = done.stdout
        else:
            data = run_native(arguments(command[1:]), data, env)
        if ">" in command and "~" not in command[-1]:
            Path(command[-1]).write_bytes(data)


def run_native(command: list[str], data: bytes, env: dict[str, str]) -> bytes:
    if command[0] == "consume" and not {"-e", "--to"} & {*command}:
        command.append("-e")  # it would wait for new messages
    done = invoke(*command, stdin=data, env=env)
    expected = next((STATUS[each] for each in STATUS if command[: len(each)] == [*each]), 0)
    assert done.exit_code == expected, done.output
    return done.stdout_bytes


def is_run(pipeline: list[list[str]]) -> bool:
    starts = [command[1:] for command in pipeline if command[:1] == NATIVE]
    if not starts:
        return pipeline[0][0] == "echo"
    return not any(start[: len(each)] == [*each] for each in NOT_RUN for start in starts)


def run_blocks() -> list[object]:
    """Return the blocks with commands that run."""
    return [
        pytest.param(block, id=f"{page}:{block.line}")
        for page in pages.pages()
        for block in pages.blocks(page, "sh", "")
        if "kafka-native" in block.text and any(map(is_run, pipelines(block)))
    ]


@pytest.mark.parametrize("block", run_blocks())
def test_the_commands_run(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    with prepared(block) as (cluster, registry):
        env = {"KAFKA_BOOTSTRAP": cluster.bootstrap_servers, "SCHEMA_REGISTRY_URL": registry.url}
        servers = ("localhost", "broker1", "other")
        addresses = dict.fromkeys((f"{each}:9092" for each in servers), env["KAFKA_BOOTSTRAP"])
        addresses["http://localhost:8081"] = registry.url
        for pipeline in filter(is_run, pipelines(block)):
            run(pipeline, addresses, env)


def test_what_is_not_run_is_shown_somewhere() -> None:
    starts = [c[1:] for _, pipeline in shown(NATIVE) for c in pipeline if c[:1] == NATIVE]
    for each in (*NOT_RUN, *STATUS):
        assert any(start[: len(each)] == [*each] for start in starts), each


def test_the_picture_of_a_terminal_shows_commands_that_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    picture = (pages.ROOT / "docs" / "terminal.svg").read_text(encoding="utf-8")
    shown_commands = [html.unescape(each) for each in re.findall("</tspan>(.*?)</text>", picture)]
    assert tuple(shown_commands) == terminal.COMMANDS
    monkeypatch.setattr(click.Command, "invoke", lambda command, ctx: None)
    for pipeline in pipelines(Block("dev/terminal.py", 1, "sh", "\n".join(shown_commands))):
        for command in pipeline:
            if command[:1] == NATIVE:
                assert invoke(*command[1:]).exit_code == 0, command
