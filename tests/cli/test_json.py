"""With ``--json`` each command prints only JSON: one document, or one for each line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import pytest

from kafka_native import Producer
from kafka_native.cli.app import cli
from kafka_native.mock import MockCluster
from tests.cli import test_schemas
from tests.cli.running import invoke, started
from tests.waiting import WAIT_S

SHELL_COMMANDS = ("completion",)
"""Commands that print a shell program."""
ACL = ("--principal", "User:a", "--operation", "read", "-t", "guarded")
COMMANDS: dict[str, tuple[str, ...]] = {
    "acls create": ACL,
    "acls delete": ("-t", "guarded", "--yes"),
    "acls list": (),
    "cluster describe": (),
    "cluster features": (),
    "cluster update-features": ("transaction.version=1", "--downgrade", "safe", "--yes"),
    "configs describe": ("topic", "a", "--all"),
    "configs set": ("topic", "a", "retention.ms=1000"),
    "configs unset": ("topic", "a", "retention.ms"),
    "consume": ("-t", "a", "-o", "beginning", "-e"),
    "doctor": (),
    "groups delete": ("g", "--yes"),
    "groups delete-offsets": ("g", "-t", "a", "--yes"),
    "groups describe": ("g",),
    "groups lag": ("g",),
    "groups list": (),
    "groups reset-offsets": ("g", "--to-earliest"),
    "metadata": (),
    "perf all": ("--messages", "100", "--codecs", "none", "--latency-messages", "5"),
    "perf consume": ("-t", "a", "--messages", "2"),
    "perf latency": ("-t", "a", "--messages", "3"),
    "perf produce": ("-t", "a", "--messages", "10"),
    "produce": ("-t", "a"),
    "topics alter": ("a", "-p", "3"),
    "topics create": ("new",),
    "topics delete": ("a", "--yes"),
    "topics delete-records": ("a", "--before", "end", "--yes"),
    "topics describe": ("a",),
    "topics list": (),
    "topics offsets": ("a",),
    "transactions abort": ("a", "1", "--start-offset", "0", "--yes"),
    "transactions describe": ("open",),
    "transactions fence": ("open", "--yes"),
    "transactions hanging": (),
    "transactions list": (),
    "users delete": ("alice", "--yes"),
    "users list": (),
    "users set": ("alice", "--password-stdin"),
}
ELSEWHERE = {"mock", *test_schemas.COMMANDS}
"""Commands without a cluster, which have their own tests."""
INPUT = {"produce": b'{"value": "x"}\n', "users set": b"secret\n"}


def all_commands(command: click.Command = cli, name: str = "") -> Iterator[str]:
    """Yield the names of all commands that aren't groups of others."""
    if not isinstance(command, click.Group):
        yield name
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        found = command.get_command(context, each)
        assert found is not None
        yield from all_commands(found, f"{name} {each}".strip())


def test_every_command_is_listed() -> None:
    assert {*COMMANDS, *SHELL_COMMANDS, *ELSEWHERE} == set(all_commands())


@pytest.fixture
def eventful() -> Iterator[MockCluster]:
    """Yield a cluster for which each command has output."""
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("a", 2)
        cluster.set_committed("g", {("a", 0): 1})
        conf = {"bootstrap.servers": cluster.bootstrap_servers}
        with Producer(conf) as producer:
            producer.produce("a", b'{"json": true}', b"k", headers={"h": b"1"}, partition=0)
            producer.produce("a", b"\xff", partition=0)
            assert producer.flush(WAIT_S) == 0
        user = ["users", "set", "alice", "--password-stdin", "-b", cluster.bootstrap_servers]
        assert invoke(*user, stdin=b"x").exit_code == 0
        assert invoke("acls", "create", *ACL, "-b", cluster.bootstrap_servers).exit_code == 0
        with Producer({**conf, "transactional.id": "open"}) as producer:
            producer.init_transactions(WAIT_S)
            producer.begin_transaction()
            producer.produce("a", b"x", partition=1, timestamp=1)
            assert producer.flush(WAIT_S) == 0
            yield cluster


@pytest.mark.parametrize("name", COMMANDS)
def test_stdout_has_json_and_nothing_else(name: str, eventful: MockCluster) -> None:
    words = [*name.split(), *COMMANDS[name], "--json", "-b", eventful.bootstrap_servers]
    done = invoke(*words, stdin=INPUT.get(name, b""))
    assert done.exit_code == 0, done.output
    try:
        found = [json.loads(done.stdout)]
    except json.JSONDecodeError:
        found = [json.loads(line) for line in done.stdout.splitlines()]
    if name != "transactions hanging":
        assert all(found)
        assert found or name == "produce", "no output"


def test_mock_prints_its_address() -> None:
    with started("mock", "--brokers", "2", "--json") as process:
        assert process.stdout is not None
        assert len(json.loads(process.stdout.readline())["bootstrap.servers"].split(",")) == 2
        process.terminate()
        assert process.wait(30) == 0
