"""Common parts of the commands: options, exit statuses, errors, completion, kcat's letters."""

from __future__ import annotations

import json
import logging
import pwd
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from kafka_native.cli import kcat
from kafka_native.cli.app import COMMANDS
from kafka_native.cli.connection import Connection, connected, user_file
from kafka_native.mock import MockCluster
from kafka_native.terminal.lines import OutageHandler
from tests.cli.running import PROGRAM, environment, invoke, run
from tests.cli.terminal import output_on_terminal
from tests.waiting import PROGRAM_S


@pytest.mark.parametrize(
    ("redirections", "words", "status"),
    [
        (">&-", "metadata", 0),
        (">&- 2>&-", "consume -t t -e", 0),
        ("<&-", "produce -t t", 0),
        ("2>&-", "consume -t missing", 1),
    ],
)
def test_a_closed_standard_stream_is_like_the_null_device(
    cluster: MockCluster, redirections: str, words: str, status: int
) -> None:
    cluster.create_topic("t")
    script = f'exec "$@" {redirections}'
    command = ["sh", "-c", script, "sh", *PROGRAM, *words.split(), "-b", cluster.bootstrap_servers]
    done = subprocess.run(
        command, env=environment(), capture_output=True, timeout=PROGRAM_S, check=False
    )
    assert (done.returncode, done.stderr) == (status, b"")


def test_a_user_without_a_home_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_number: int) -> None:
        raise KeyError

    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert not user_file().exists()


@click.command()
@connected()
def probe(connection: Connection) -> None:
    click.echo(json.dumps(dict(connection.properties)))


def merged(*arguments: str, **variables: str) -> dict[str, str]:
    from click.testing import CliRunner

    unset: dict[str, str | None] = dict.fromkeys(
        ("KAFKA_BOOTSTRAP", "BOOTSTRAP", "KAFKA_NATIVE_CONFIG")
    )
    done = CliRunner().invoke(
        probe, list(arguments), env={**unset, "XDG_CONFIG_HOME": "/nowhere", **variables}
    )
    assert done.exit_code == 0, done.output
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_later_sources_of_properties_win(tmp_path: Path) -> None:
    own, other = tmp_path / "kafka-native.conf", tmp_path / "other.conf"
    own.write_text("# mine\nmetadata.broker.list=own:1\nclient.id=own\n\nsasl.password = a b=c\n")
    other.write_text("bootstrap.servers: other:1\n")
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert merged(**home) == {
        "bootstrap.servers": "own:1",
        "client.id": "own",
        "sasl.password": "a b=c",
    }
    assert merged(**home, KAFKA_BOOTSTRAP="env:1")["bootstrap.servers"] == "env:1"
    assert merged("-F", str(other), **home, KAFKA_BOOTSTRAP="env:1") == {
        "bootstrap.servers": "other:1"
    }
    assert merged("-F", "none", **home, BOOTSTRAP="env:1") == {"bootstrap.servers": "env:1"}
    options = "-X bootstrap.servers=x:1 -X topic.acks=all -d broker"
    everything = ["-F", str(other), *shlex.split(options)]
    assert merged(*everything) == {
        "bootstrap.servers": "x:1",
        "request.required.acks": "all",
        "debug": "broker",
    }
    assert merged(*everything, "-b", "b:1")["bootstrap.servers"] == "b:1"


def test_properties_of_the_other_kind_of_client_are_left_out() -> None:
    connection = Connection(
        {
            "bootstrap.servers": "a:1",
            "group.id": "g",
            "queue.buffering.max.ms": "5",
        }
    )
    assert connection.config("consumer") == {
        "bootstrap.servers": "a:1",
        "group.id": "g",
    }
    made = connection.config(
        "producer", {"compression.type": "lz4", "retries": None}, linger_ms=1, acks=0
    )
    assert made == {
        "bootstrap.servers": "a:1",
        "queue.buffering.max.ms": "5",
        "request.required.acks": 0,
        "compression.codec": "lz4",
    }
    assert "a:1" not in repr(connection)


def test_missing_bootstrap_servers_are_wrong_usage() -> None:
    done = invoke("metadata")
    assert done.exit_code == 2
    assert "no broker is named: write -b HOST:PORT" in done.stderr


@pytest.mark.parametrize("pair", ["sasl.password", "=secret"])
def test_a_refused_property_is_not_shown(pair: str) -> None:
    done = invoke(
        "metadata", "-b", "a:1", "-X", pair.replace("sasl.password", "sasl.password:secret")
    )
    assert done.exit_code == 2
    assert "write PROPERTY=VALUE" in done.stderr
    assert "secret" not in done.stderr


def test_a_bad_line_of_a_file_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "bad.conf"
    file.write_text("client.id=x\nsasl.password\n")
    done = invoke("metadata", "-F", str(file))
    assert done.exit_code == 1
    assert done.stderr == f"Error: {file}: line 2: write name=value\n"
    missing = invoke("metadata", "-F", str(tmp_path / "none.conf"))
    assert missing.exit_code == 1
    assert missing.stderr == f"Error: {tmp_path / 'none.conf'}: No such file or directory\n"


def test_errors_are_one_line_and_status_1() -> None:
    done = invoke("metadata", "-b", "127.0.0.1:1", "-m", "0.5")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert "127.0.0.1:1" in done.stderr
    unknown = invoke("metadata", "-b", "127.0.0.1:1", "-X", "client.ids=5")
    assert unknown.exit_code == 2
    assert (
        'No such configuration property: "client.ids" (hint: did you mean "client.id"?)'
        in unknown.stderr
    )


def test_metadata_as_a_table_and_as_json(cluster: MockCluster) -> None:
    cluster.create_topic("greetings", 3)
    cluster.create_topic("x" * 249, 1)
    done = invoke("metadata", "-b", cluster.bootstrap_servers)
    assert done.exit_code == 0, done.stderr
    assert "2 topics, 4 partitions" in done.stdout
    assert "controller" in done.stdout
    assert "x" * 249 in done.stdout, "without a terminal nothing is cut off"
    assert "\x1b" not in done.stdout
    document = json.loads(
        invoke("metadata", "-b", cluster.bootstrap_servers, "--json", "-t", "greetings").stdout
    )
    assert [topic["topic"] for topic in document["topics"]] == ["greetings"]
    assert [each["partition"] for each in document["topics"][0]["partitions"]] == [0, 1, 2]
    assert len(document["brokers"]) == 2


def test_unknown_topic_is_status_1(cluster: MockCluster) -> None:
    done = invoke("metadata", "-b", cluster.bootstrap_servers, "-t", "nosuch")
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: topic nosuch: Broker: Unknown topic or partition\n",
    )
    assert "nosuch" not in cluster.topics


def test_colour_is_for_terminals_only(cluster: MockCluster) -> None:
    cluster.create_topic("greetings", 1)
    command = [*PROGRAM, "metadata", "-b", cluster.bootstrap_servers]
    shown, _ = output_on_terminal(command, "stdout")
    assert b"\x1b[1m" in shown
    assert b"greetings" in shown


def test_help_lists_every_command_without_importing_one() -> None:
    program = "import sys\nfrom kafka_native.cli.app import cli\n"
    program += "try:\n    cli(['--help'])\nexcept SystemExit as end:\n    print(end.code)\n"
    program += "print([name for name in sys.modules if name.startswith(('kafka_native.cli.commands', 'rich'))])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=True,
    )
    assert done.stdout.endswith("0\n[]\n")
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str) -> None:
    done = invoke(name, "--help")
    assert done.exit_code == 0
    assert f"sage: kafka-native {name}" in done.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    done = invoke("completion", shell)
    assert done.exit_code == 0
    assert f"_KAFKA_NATIVE_COMPLETE={shell}_complete" in done.stdout
    assert invoke("completion", "tcsh").exit_code == 2


def completed(line: str) -> list[str]:
    done = run(
        _KAFKA_NATIVE_COMPLETE="bash_complete",
        COMP_WORDS=line,
        COMP_CWORD=str(len(line.split(" ")) - 1),
    )
    return [each.partition(",")[2] for each in done.stdout.decode().splitlines()]


def test_completion_suggests_commands_and_options() -> None:
    assert completed("kafka-native m") == ["metadata", "mock"]
    assert "--bootstrap" in completed("kafka-native metadata --boot")
    assert completed("kafka-native completion ") == ["bash", "zsh", "fish"]


@pytest.mark.parametrize(
    ("given", "translated"),
    [
        ("-L -b h:1", "metadata -bh:1"),
        ("-b h:1 -L -J -t x", "metadata -bh:1 --json -tx"),
        ("-P -b h:1 -t x file one", "produce -bh:1 -tx -- file one"),
        ("-C -qe -t x -o -10", "consume -q -e -tx -o-10"),
        ("-G group -b h:1 a b", "consume -G group -bh:1 -- a b"),
        ("-C -t x --from 5 --json", "consume -tx --from 5 --json"),
        ("-h", "-h"),
        ("-Vq", "--version"),
        ("-C -h", "--help"),
        ("mock -P", "mock -P"),
        ("--version", "--version"),
    ],
)
def test_kcats_letters(given: str, translated: str) -> None:
    assert kcat.translated(given.split()) == translated.split()


def test_an_empty_value_of_a_letter_of_kcat_does_not_take_the_next_letter() -> None:
    given = ["-C", "-t", "t", "-D", "", "-e"]
    assert kcat.translated(given) == ["consume", "-tt", "-D", "", "-e"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("-P -L", "one of them"),
        ("-C -w", "-w"),
        ("-P file", "write -t TOPIC"),
        ("-P -t", "requires"),
    ],
)
def test_wrong_letters_of_kcat_are_refused(given: str, text: str) -> None:
    done = invoke(*given.split())
    assert done.exit_code == 2
    assert text in done.stderr


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("cosume x", "No such command 'cosume'. Did you mean 'consume'?"),
        ("topic list", "No such command 'topic'. Did you mean 'topics'?"),
        ("zzz", "No such command 'zzz'.\n"),
        ("topics lst", "No such command 'lst'."),
    ],
)
def test_a_mistyped_command_gets_a_suggestion(given: str, text: str) -> None:
    done = invoke(*given.split())
    assert (done.exit_code, text in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("group", ["topics", "acls"])
def test_a_group_alone_shows_its_help(group: str) -> None:
    done = invoke(group)
    assert "\\x0a" not in done.output
    assert "\nCommands:\n" in done.output


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("consume t -K : -J", "-K is for lines"),
        ("consume t -D , -f %s", "-D is for lines"),
        ("consume t -Z --json", "-Z is for text"),
        ("consume t --columns key", "--columns is for --arrow and --parquet"),
        ("consume t -u --parquet f", "-u is for text"),
        ("consume t --value-as hex --parquet f", "--value-as is for text"),
        ("produce t -l", "-l is for FILEs"),
        ("produce t --key-as hex", "--key-as is for the keys of -K"),
        (f"produce t {__file__} -D ,", "-D is for stdin"),
    ],
)
def test_an_option_without_effect_is_refused(given: str, text: str) -> None:
    done = invoke(*given.split(), "-b", "localhost:1")
    assert (done.exit_code, text in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("produce t -X linger.ms=5ms", 'property "linger.ms" (hint: got "5ms"'),
        ("topics list -X acks=many", '"acks"'),
        ("consume t -X no.such=1", 'No such configuration property: "no.such"'),
        ("schemas list -r nourl", "the schema registry needs http://"),
        ("produce t /no/such/file", "does not exist"),
    ],
)
def test_wrong_usage_has_the_status_2(given: str, text: str) -> None:
    words = given.split()
    more = () if "schemas" in words else ("-b", "localhost:1")
    done = invoke(*words, *more)
    assert (done.exit_code, text in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("words", ["metadata", "consume t -e", "topics delete a -y"])
def test_a_broker_that_is_down_is_reported_once(words: str) -> None:
    with bound_port() as port:
        done = run(*words.split(), "-b", f"127.0.0.1:{port}", "-m", "2")
    assert done.returncode == 1
    assert f"127.0.0.1:{port}".encode() in done.stderr
    assert done.stderr.count(b"\n") == 1, done.stderr


@contextmanager
def bound_port() -> Iterator[int]:
    """Yield a port on which nothing listens. It stays bound, so that no other program takes it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_held_outages_are_printed_unless_they_are_reported(capsys: Any) -> None:
    handler = OutageHandler()
    handler.setStream(sys.stderr)

    def log(name: str, text: str, level: int = logging.ERROR) -> None:
        handler.handle(logging.LogRecord(name, level, "", 0, text, None, None))

    handler.hold()
    log("kafka_native.c.broker", "c: h1:1: connect failed: refused")
    log("kafka_native.c.broker", "c: h2:1: connect failed: refused")
    log("kafka_native.c.broker", "c: 2/2 brokers are down")
    log("kafka_native.c.broker", "c: a warning", logging.WARNING)
    assert capsys.readouterr().err == "c: a warning\n"
    handler.print_held("Error: no broker: h2:1: connect failed: refused (hint: ...)")
    assert capsys.readouterr().err == "c: h1:1: connect failed: refused\n"
    log("kafka_native.c.broker", "c: 2/2 brokers are down")
    assert capsys.readouterr().err == ""
    log("kafka_native.c.broker", "c: h2:1: connect failed: refused")
    assert capsys.readouterr().err == "c: h2:1: connect failed: refused\n"


def test_a_reminder_without_a_reason_is_printed(capsys: Any) -> None:
    handler = OutageHandler()
    handler.setStream(sys.stderr)
    handler.hold()
    text = "c: 2/2 brokers are down"
    record = logging.LogRecord("kafka_native.c.broker", logging.ERROR, "", 0, text, None, None)
    handler.handle(record)
    handler.print_held("Error: something else")
    assert capsys.readouterr().err == f"{text}\n"


def test_kcats_listing(cluster: MockCluster) -> None:
    cluster.create_topic("greetings", 2)
    done = run("-L", "-J", "-b", cluster.bootstrap_servers)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["topics"][0]["topic"] == "greetings"
