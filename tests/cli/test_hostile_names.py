"""Names and texts from the network never act on a terminal, a log or a reader of JSON."""

from __future__ import annotations

import ast
import json
import logging
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest
from rich.progress import Progress
from rich.table import Table

from kafka_native import Consumer, Message, Producer, ShareConsumer
from kafka_native.cleaning import escaped, escaped_data
from kafka_native.cli import envelope, formats
from kafka_native.cli.app import COMMANDS
from kafka_native.cli.reference import find
from kafka_native.mock import MockCluster
from kafka_native.mock.access import ALLOW, LITERAL, Acl, Credential
from kafka_native.protocol import ApiKey
from kafka_native.protocol.streams import StreamsGroupDescribeResponse, TaskIds
from kafka_native.terminal import lines, output
from kafka_native.terminal.progress import CleanTextColumn
from tests.cli import test_schemas
from tests.cli.running import ROOT, environment, invoke
from tests.cli.terminal import terminal
from tests.hostile import COLOURS, ESCAPED_MARKS, MARKS, check, unprintable
from tests.waiting import WAIT_S

GROUP, LIVE, SHARE, STREAMS = (f"{name}{MARKS}" for name in ("group", "live", "share", "streams"))
TOPIC, CLIENT, TRANSACTION, VALUE = (
    f"{name}{MARKS}" for name in ("topic", "client", "transaction", "value")
)
OWN_COLOURS = {
    "\x1b[0m",
    "\x1b[1m",
    "\x1b[2m",
    "\x1b[3m",
    "\x1b[32m",
    "\x1b[33m",
    "\x1b[1;31m",
    "\x1b[1;32m",
}
ALL_RESPONSES = 1_000_000


# --- the functions ---


def test_escaped_texts_are_printable_and_stay_different() -> None:
    assert escaped("\x1b\x9b\u202e\n\U000e0041 é") == r"\x1b\x9b\u202e\x0a\U000e0041 é"
    assert escaped(r"DOMAIN\user") == r"DOMAIN\user"
    assert escaped("\ud83d") == r"\ud83d"
    parts = [
        "",
        "a",
        "\\",
        "\\\\",
        "\x1b",
        r"\x1b",
        r"\\x1b",
        "\u202e",
        r"\u202e",
        "\U000e0041",
        r"\U000e0041",
    ]
    texts = {first + second + third for first in parts for second in parts for third in parts}
    assert len({escaped(each) for each in texts}) == len(texts)
    assert all(escaped(each).isprintable() for each in texts)


def test_every_character_is_escaped_unless_it_is_printable() -> None:
    for code in (
        *range(0x3000),
        *range(0xD800, 0xE010),
        *range(0xFE00, 0x10000),
        *range(0xE0000, 0xE0200),
    ):
        text = escaped(chr(code))
        assert text.isprintable()
        assert (text == chr(code)) == chr(code).isprintable()


def test_escaped_data_shows_bytes() -> None:
    assert escaped_data(b"\xff\x1b\xc2\x9b\n") == r"\xff\x1b\x9b\x0a"
    assert escaped_data(rb'{"a": "\u00e9\n"}') == r'{"a": "\u00e9\n"}', "JSON can be copied"
    assert escaped_data("€".encode()) == "€"


def test_json_has_every_unprintable_character_as_an_escape() -> None:
    data = {MARKS: [MARKS, "\ud800", "\U000e0041", "é", "\x7f\x80"]}
    for indent in (None, 2):
        text = lines.json_text(data, indent=indent)
        assert not unprintable(text)
        assert json.loads(text) == data
        assert "é" in text


# --- every command, on a cluster in which every name is hostile ---


def poison(*names: str) -> Callable[[Any], None]:
    """Return a function that sets these fields of a response to a hostile value, at any depth."""

    def walk(found: Any) -> None:
        if isinstance(found, list):
            for each in found:
                walk(each)
        elif hasattr(found, "__dataclass_fields__") or hasattr(type(found), "__slots__"):
            for name in fields(found):
                value = getattr(found, name)
                if name in names and (value is None or isinstance(value, str)):
                    setattr(found, name, VALUE)
                else:
                    walk(value)

    return walk


def fields(found: Any) -> list[str]:
    declared = getattr(found, "__dataclass_fields__", None)
    return list(declared if declared is not None else type(found).__slots__)


@pytest.fixture(scope="module")
def hostile() -> Iterator[MockCluster]:
    with (
        pytest.MonkeyPatch.context() as patch,
        MockCluster(brokers=2) as cluster,
        ExitStack() as stack,
    ):
        for module in ("state", "handlers.metadata"):
            patch.setattr(f"kafka_native.mock.{module}.is_valid_name", bool)
        with cluster.state.lock:
            cluster.state.cluster_id = VALUE
            cluster.state.add_topic(TOPIC, [[1, 2]], {"retention.ms": VALUE, VALUE: VALUE})
            acl = Acl(2, f"acl{MARKS}", LITERAL, f"User:{MARKS}", VALUE, 3, ALLOW)
            cluster.access.acls[acl] = None
            cluster.access.users[f"user{MARKS}"] = {1: Credential(4096, b"salt", b"password")}
            cluster.quorum.levels[f"feature{MARKS}"] = 1
        cluster.set_committed(GROUP, {(TOPIC, 0): 0})
        kind = StreamsGroupDescribeResponse.Group
        tasks = kind.Member.Assignment(
            active_tasks=[TaskIds(subtopology_id=f"task{MARKS}", partitions=[0])]
        )
        member = kind.Member(
            member_id=VALUE, client_id=VALUE, client_host=VALUE, process_id=VALUE, assignment=tasks
        )
        streams = kind(group_id=STREAMS, group_state="Stable", members=[member])
        cluster.set_streams_group(streams)
        cluster.edit_responses(ApiKey.DESCRIBE_CLUSTER, poison("host", "rack"), count=ALL_RESPONSES)
        cluster.edit_responses(ApiKey.METADATA, poison("rack"), count=ALL_RESPONSES)
        cluster.edit_responses(
            ApiKey.DESCRIBE_GROUPS, poison("client_host", "error_message"), count=ALL_RESPONSES
        )
        own = {"bootstrap.servers": cluster.bootstrap_servers, "client.id": CLIENT}
        producer = stack.enter_context(Producer({**own, "transactional.id": TRANSACTION}))
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce(
            TOPIC,
            MARKS.encode(),
            key=MARKS.encode(),
            headers=[(MARKS, MARKS.encode())],
            timestamp=1,
        )
        assert producer.flush(WAIT_S) == 0
        live = {**own, "group.id": LIVE, "group.instance.id": f"instance{MARKS}"}
        consumer = stack.enter_context(Consumer(live))
        consumer.subscribe([TOPIC])
        share = stack.enter_context(ShareConsumer({**own, "group.id": SHARE}))
        share.subscribe([TOPIC])
        with ActiveMembers(consumer, share):
            yield cluster


class ActiveMembers:
    """Two members that stay in their groups for a block."""

    def __init__(self, consumer: Consumer, share: ShareConsumer) -> None:
        self._ended, self._joined = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(consumer, share))

    def _serve(self, consumer: Consumer, share: ShareConsumer) -> None:
        while not self._ended.is_set():
            consumer.poll(0.05)
            share.poll(0.05)
            if consumer.assignment():
                self._joined.set()

    def __enter__(self) -> None:
        self._thread.start()
        assert self._joined.wait(WAIT_S)

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join(WAIT_S)


LISTINGS: dict[str, list[str]] = {
    "acls list": [],
    "cluster describe": ["--fenced"],
    "cluster features": [],
    "configs describe": ["topic", TOPIC, "--all"],
    "doctor": ["-t", TOPIC, "-G", GROUP],
    "groups describe": [GROUP, LIVE, SHARE, STREAMS],
    "groups lag": [GROUP, LIVE],
    "groups list": ["--type", "classic", "--type", "share", "--type", "streams"],
    "groups reset-offsets": [GROUP, "--to-latest"],
    "metadata": [],
    "topics describe": [TOPIC],
    "topics list": [],
    "topics offsets": [TOPIC],
    "transactions describe": [TRANSACTION],
    "transactions hanging": ["--max-transaction-timeout", "1s"],
    "transactions list": [],
    "users list": [],
}
"""Commands that change nothing, with their arguments."""

OTHER_COMMANDS: dict[str, list[str]] = {
    "acls create": ["-t", TOPIC, "--principal", VALUE, "--operation", "nosuch"],
    "acls delete": ["--all"],
    "cluster update-features": [f"{VALUE}=1", "--dry-run"],
    "configs set": ["topic", TOPIC, f"retention.ms={VALUE}", "--dry-run"],
    "configs unset": ["topic", TOPIC, VALUE, "--dry-run"],
    "groups delete": [LIVE, "-y"],
    "groups delete-offsets": [LIVE, "-t", TOPIC, "-y"],
    "topics alter": [TOPIC, "-p", "2", "--dry-run"],
    "topics create": [TOPIC, f"new{MARKS}", "--dry-run"],
    "topics delete": [f"nosuch{MARKS}", "-y"],
    "topics delete-records": [TOPIC, "--before", "0", "-y"],
    "transactions abort": [TOPIC, "0", "--start-offset", "77"],
    "transactions fence": [TRANSACTION],
    "users delete": [f"nosuch{MARKS}", "-y"],
    "users set": [f"user{MARKS}"],
    "perf produce": ["-t", f"nosuch{MARKS}"],
    "perf consume": ["-t", f"nosuch{MARKS}"],
    "perf latency": ["-t", f"nosuch{MARKS}"],
    "produce": ["-t", f"nosuch{MARKS}", "-p", "77"],
    "consume": [TOPIC, "-o", "77"],
}
"""Commands that change something or show messages, with arguments for which they print."""

WITHOUT_NAMES = {"completion", "mock", "perf all"}
"""Commands that get no names."""
WITHOUT_CLUSTER = set(test_schemas.COMMANDS)
"""Commands of a schema registry, which have their own test."""


def leaves(command: click.Command, path: str) -> list[str]:
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    return [
        leaf
        for name in command.list_commands(context)
        if (each := command.get_command(context, name)) is not None
        for leaf in leaves(each, f"{path} {name}")
    ]


def test_every_command_is_tried() -> None:
    everything = {leaf for name in COMMANDS for leaf in leaves(find(name), name)}
    assert everything == {*LISTINGS, *OTHER_COMMANDS, *WITHOUT_NAMES, *WITHOUT_CLUSTER}


def run(cluster: MockCluster, name: str, *more: str) -> Any:
    words = (LISTINGS | OTHER_COMMANDS)[name]
    return invoke(*name.split(), *words, *more, "-b", cluster.bootstrap_servers, "-m", "5")


@pytest.mark.parametrize("name", sorted(LISTINGS | OTHER_COMMANDS))
def test_no_command_prints_control_characters(hostile: MockCluster, name: str) -> None:
    done = run(hostile, name)
    assert not isinstance(done.exception, Exception), done.exception
    assert done.output
    check(done.stdout)
    check(done.stderr)


@pytest.mark.parametrize("name", sorted(LISTINGS))
def test_listings_show_hostile_names_escaped(hostile: MockCluster, name: str) -> None:
    done = run(hostile, name)
    if name == "transactions hanging":
        assert done.exit_code == 0
        return
    shown = done.stdout + done.stderr
    assert ESCAPED_MARKS in shown or (name == "doctor" and "?" in shown)
    document = json.loads(run(hostile, name, "--json").stdout)
    assert name == "doctor" or MARKS in "".join(strings(document))


def strings(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from (*strings(key), *strings(value))
    elif isinstance(data, list):
        for each in data:
            yield from strings(each)


@pytest.mark.parametrize("name", sorted((LISTINGS | OTHER_COMMANDS).keys() - {"consume"}))
def test_json_is_printable_too(hostile: MockCluster, name: str) -> None:
    done = run(hostile, name, "--json")
    check(done.stdout)
    check(done.stderr)


TERMINALS = [
    "groups describe",
    "groups list",
    "topics describe",
    "doctor",
    "metadata",
    "acls delete",
]


@pytest.mark.parametrize("name", TERMINALS)
def test_terminal_output_has_only_our_own_colours(hostile: MockCluster, name: str) -> None:
    words = [*name.split(), *(LISTINGS | OTHER_COMMANDS)[name], "-b", hostile.bootstrap_servers]
    with terminal(*words, columns=4000) as screen:
        if name == "acls delete":
            screen.wait_for("[y/N]")
            screen.type("n\n")
        screen.end()
        shown = screen.shown.replace("\r\n", "\n")
    assert "\x1b[35m" not in shown
    if name == "doctor":  # its progress line is overwritten
        shown = re.sub(r"\x1b\[(\?25[hl]|2K|1A)|\r", "", shown)
    else:
        assert set(COLOURS.findall(shown)) <= OWN_COLOURS
    check(COLOURS.sub("", shown))


def test_watched_table_of_lag_is_printable(hostile: MockCluster) -> None:
    words = ["groups", "lag", GROUP, f"nosuch{MARKS}", "--watch", "0.2"]
    with terminal(*words, "-b", hostile.bootstrap_servers, columns=4000) as screen:
        shown = screen.wait_for("total lag", 3)
    shown = re.sub(r"\x1b\[(\?25[hl]|2K|1A)|\r", "", COLOURS.sub("", shown))
    assert "Error: nosuch" in shown
    check(shown[: shown.rfind("total lag")])


# --- errors, questions, logs, tracebacks ---


@pytest.mark.parametrize(
    "words",
    [
        [f"nosuch{MARKS}"],
        ["topics", f"nosuch{MARKS}"],
        ["topics", "list", f"--no{MARKS}"],
        ["-F", f"nosuch{MARKS}", "-L"],
        ["metadata", "-F", f"nosuch{MARKS}"],
        ["metadata", "-b", f"nosuch{MARKS}:1", "-m", "0.5"],
        ["metadata", "-b", "127.0.0.1:1", "-X", f"no{MARKS}=1"],
        ["topics", "alter", "a", "-p", MARKS],
        ["topics", "delete", MARKS, "-b", "127.0.0.1:1"],
        ["consume", "a", "-p", MARKS, "-b", "127.0.0.1:1"],
        [f"-P{MARKS}"],
    ],
)
def test_errors_are_printable(words: list[str]) -> None:
    done = invoke(*words)
    assert done.exit_code in (1, 2)
    assert done.stderr
    check(done.stderr)


def test_error_messages_of_brokers_are_printable(cluster: MockCluster) -> None:
    def refuse(reply: Any) -> None:
        for topic in reply.topics:
            topic.error_code, topic.error_message = 44, MARKS

    for words in ([], ["--json"]):
        cluster.edit_responses(ApiKey.CREATE_TOPICS, refuse)
        done = invoke("topics", "create", "a", "-b", cluster.bootstrap_servers, *words)
        assert done.exit_code == 1
        check(done.stdout)
        check(done.stderr)


def test_log_lines_are_printable() -> None:
    formatter = lines.LogFormatter("%(levelname)s %(name)s: %(message)s")
    try:
        raise ValueError(MARKS)
    except ValueError:
        record = logging.LogRecord(
            "name", logging.ERROR, "", 1, f"text {MARKS}", (), sys.exc_info()
        )
    shown_lines = formatter.format(record).split("\n")
    assert not unprintable("\n".join(shown_lines))
    assert shown_lines[0].startswith(r"ERROR name: text \x1b[35m")
    assert shown_lines[0].endswith(r"\x0aforged")
    assert shown_lines[1].startswith("Traceback")


def test_logs_of_the_program_are_printable(cluster: MockCluster) -> None:
    words = ["metadata", "-b", cluster.bootstrap_servers, "-d", "all", "-X", f"client.id={MARKS}"]
    with terminal(*words, columns=4000) as screen:
        assert screen.end() == 0
    check(COLOURS.sub("", screen.shown.replace("\r\n", "\n")))


def test_tracebacks_are_printable() -> None:
    program = "import kafka_native.cli.app as app, kafka_native.cli as cli\n"
    program += f"def broken(**_): raise RuntimeError({MARKS!r})\napp.cli = broken\ncli.main()\n"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 1
    assert "RuntimeError" in done.stderr.decode()
    assert not unprintable(done.stderr.decode())


@pytest.mark.parametrize("main", ["kafka_native.cli", "kafka_native.spark.__main__"])
def test_errors_and_warnings_that_python_prints_are_printable(main: str) -> None:
    program = f"""
        import sys, threading, warnings
        import kafka_native.cli.app as app, kafka_native.spark.commands as commands
        def fail():
            raise ValueError({MARKS!r})
        class Held:
            __del__ = lambda _self: fail()
            __repr__ = lambda _self: {MARKS!r}
        def broken(**_):
            thread = threading.Thread(target=fail, name={"thread" + MARKS!r})
            thread.start()
            thread.join()
            Held()
            warnings.warn({MARKS!r})
        app.cli = commands.cli = broken
        from {main} import main
        main()
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(words, env=environment(), capture_output=True, check=True)
    shown = done.stderr.decode()
    assert not unprintable(shown)
    assert shown.count(f"ValueError: {ESCAPED_MARKS[:20]}") == 2
    assert f"thread{ESCAPED_MARKS}:" in shown
    assert f"UserWarning: {ESCAPED_MARKS}\n" in shown


def test_markup_in_strings_has_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(title="[red]title", caption=f"caption{MARKS}")
    table.add_column("[red]\x1b")
    table.add_row("[link=https://example.invalid]:smile:\x9b")
    console = output.printer()
    console.print(table)
    console.print(f"[bold]{MARKS.replace(chr(10), '')}")
    shown = capsys.readouterr().out
    assert not unprintable(shown)
    for text in (
        "[red]title",
        r"[red]\x1b",
        r"[link=https://example.invalid]:smile:\x9b",
        r"[bold]\x1b[35m",
    ):
        assert text in shown


def test_stderr_of_children_is_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    """This holds for children that start within the block, even for output after the block."""
    program = (
        "import "
        "sys\nsys.stderr.buffer.write(b'first\\n')\nsys.stderr.flush()\nsys.stdin.readline()\n"
    )
    program += f"sys.stderr.buffer.write({MARKS.encode()!r} + b'\\tx\\xff' + b'y' * 100_000)\n"
    with lines.escaped_children("child"):
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, text=True
        )
    print("own", file=sys.stderr, flush=True)
    process.communicate("\n", timeout=WAIT_S)
    for thread in threading.enumerate():
        if thread.name == "child-stderr":
            thread.join(WAIT_S)
            assert not thread.is_alive()
    shown = capfd.readouterr().err
    check(shown)
    own, *shown_lines = sorted(shown.splitlines(), key=lambda line: line != "own")
    assert own == "own"
    assert shown_lines[0] == "child: first"
    assert shown_lines[1] == "child: " + ESCAPED_MARKS.removesuffix(r"\x0d\x0aforged")
    assert shown_lines[2].startswith("child: forged  ")
    assert r"x\\xffyyy" in shown_lines[2]
    assert all(line.startswith("child: ") for line in shown_lines)
    assert sum(line.count("y") for line in shown_lines) == 100_000


def test_stderr_of_failed_child_is_printed_before_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError), lines.escaped_children("child"):
        subprocess.run([sys.executable, "-c", "import sys; sys.exit('no \x1b')"], check=True)
    assert capfd.readouterr().err == "child: no \\x1b\n"


def test_children_can_write_after_stderr_is_closed() -> None:
    program = "import subprocess, sys, threading\nfrom kafka_native.terminal import lines\n"
    program += "threading.excepthook = lambda failed: print(failed.exc_value)\n"
    program += "child = [sys.executable, '-c', 'import os; input(); os.write(2, bytes(100)); os.write(2, bytes(10**6))']\n"
    program += "with lines.escaped_children('x'):\n    child = subprocess.Popen(child, stdin=subprocess.PIPE)\n"
    program += "input()\nchild.communicate(b'\\n', timeout=60)\n"
    program += "[thread.join(60) for thread in threading.enumerate() if thread.name == 'x-stderr']\nprint('end')\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], env=environment(), **pipes) as process:  # type: ignore[call-overload]
        process.stderr.close()
        process.stderr = None
        shown, _ = process.communicate(b"\n", timeout=WAIT_S)
    assert shown == b"end\n"


def test_progress_shows_names_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    console = output.CleanConsole(force_terminal=True, width=400, no_color=True)
    with Progress(CleanTextColumn("{task.description}"), console=console) as bar:
        bar.add_task(MARKS, total=1)
    shown = re.sub(r"\x1b\[(\?25[hl]|2K|1A)|\r", "", COLOURS.sub("", capsys.readouterr().out))
    assert ESCAPED_MARKS in shown
    check(shown)


def test_titles_and_cells_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    table = output.CleanTable("heading", title=MARKS)
    table.add_row(MARKS)
    output.printer().print(table)
    shown = capsys.readouterr().out
    check(shown)
    assert shown.count(ESCAPED_MARKS) == 2


PRINTS = {
    "echo",
    "secho",
    "echo_via_pager",
    "confirm",
    "prompt",
    "print",
    "Console",
    "StreamHandler",
    "basicConfig",
}
RICH = {
    "rich",
    "rich.console",
    "rich.text",
    "rich.markup",
    "rich.table",
    "rich.panel",
    "rich.status",
}
PROGRESS = {"TextColumn", "Task", "track", "open", "wrap_file"}
"""The names in rich.progress that show texts."""
SOURCES = ("cli/**/*.py", "spark/commands/**/*.py", "spark/__main__.py")
"""The command lines. They print with the package `terminal`."""


def test_only_the_package_terminal_prints() -> None:
    """One module prints lines, another prints with rich. Both escape their output."""
    package = ROOT / "kafka_native"
    paths = [path for pattern in SOURCES for path in sorted(package.glob(pattern))]
    assert {"app.py", "common.py", "__main__.py"} <= {path.name for path in paths}
    wrong = []
    for path in paths:
        wrong += [
            f"{path.relative_to(package)}:{line}"
            for line in printing_lines(ast.parse(path.read_text()))
        ]
    assert not wrong


def printing_lines(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            shows = node.module in RICH or (node.module == "rich.progress" and names & PROGRESS)
            if shows or (node.module in ("click", "logging") and names & PRINTS):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "print":
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = ast.unparse(node.func.value)
            writes = node.func.attr in ("write", "writelines") and of in (
                "sys.stdout",
                "sys.stderr",
            )
            texts = node.func.attr in PROGRESS and of == "rich.progress"
            if (
                writes
                or texts
                or of in RICH
                or (node.func.attr in PRINTS and of in ("click", "logging"))
            ):
                yield node.lineno


def test_the_search_for_printing_finds_it() -> None:
    for text in (
        "click.echo(1)",
        "print(1)",
        "rich.console.Console()",
        "sys.stderr.write('')",
        "from rich.text import Text",
        "from rich.table import Table",
        "rich.table.Table()",
        "from rich.progress import TextColumn",
        "rich.progress.TextColumn('')",
        "logging.basicConfig()",
        "from click import echo",
    ):
        assert list(printing_lines(ast.parse(text))), text


# --- messages ---


SENT = {"key": b"k\x1b[1m\xff", "value": "v\x1b]0;t\x07\x9b\u202e\n\r\t".encode()}
HEADERS = [("h\x1b", b"\x1bh")]


@pytest.fixture
def sent(cluster: MockCluster) -> MockCluster:
    cluster.create_topic("t")
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        producer.produce("t", **SENT, headers=HEADERS)
        assert producer.flush(WAIT_S) == 0
    return cluster


def consumed(cluster: MockCluster, *words: str) -> str:
    with terminal("consume", "t", "-e", "-q", "-b", cluster.bootstrap_servers, *words) as screen:
        assert screen.end() == 0, screen.shown
    return screen.shown


def test_messages_on_a_terminal_are_escaped(sent: MockCluster) -> None:
    assert consumed(sent, "-K", "=") == r"k\x1b[1m\xff=v\x1b]0;t\x07\x9b\u202e\x0a\x0d\x09" + "\r\n"
    everything = consumed(sent, "-f", "%t %p %o %k %s %h %R %K\\n|\\n")
    assert everything.endswith("\r\n|\r\n")
    assert not unprintable(everything.replace("\r\n", "\n"))
    assert r"h\x1b=\x1bh" in everything
    assert r"\x00\x00\x00" in everything, "%R has four bytes"
    for option, member in (("-J", "payload"), ("--json", "value")):
        line = consumed(sent, option)
        assert not unprintable(line.replace("\r\n", "\n"))
        assert json.loads(line)[member].encode() == SENT["value"]


def test_raw_output_is_not_escaped(sent: MockCluster) -> None:
    assert (
        consumed(sent, "--raw", "-f", "%s")
        .encode("utf-8", "surrogateescape")
        .startswith(SENT["value"][:-3])
    )
    assert "\x1b[1m" in consumed(sent, "--raw", "-f", "%k")
    assert "\u202e" in consumed(sent, "--raw", "-J")


def test_pipes_and_files_get_unchanged_bytes(sent: MockCluster, tmp_path: Path) -> None:
    words = ["consume", "t", "-e", "-q", "-b", sent.bootstrap_servers]
    assert invoke(*words, "-K", "=", "-D", "").stdout_bytes == SENT["key"] + b"=" + SENT["value"]
    assert invoke(*words, "-f", "%h").stdout_bytes == b"h\x1b=\x1bh"
    assert "\u202e" in invoke(*words, "-J").stdout
    file = tmp_path / "out"
    with file.open("wb") as out:
        program = [sys.executable, "-m", "kafka_native.cli", *words]
        subprocess.run(program, stdout=out, env=environment(), check=True)
    assert file.read_bytes() == SENT["value"] + b"\n"


def test_arrow_is_not_written_to_a_terminal(sent: MockCluster) -> None:
    with terminal("consume", "t", "-e", "--arrow", "-", "-b", sent.bootstrap_servers) as screen:
        assert screen.end() == 2
    assert "--raw" in screen.shown


def test_every_letter_of_a_format_escapes_message_data() -> None:
    data = MARKS.encode()
    message = Message(MARKS, 0, 0, key=data, value=data, headers=[(MARKS, data)], timestamp=(1, 27))
    text = "".join(f"%{letter} " for letter in formats.LETTERS.split())
    shown = formats.render_of(text, escapes=True)([message]).decode()
    assert not unprintable(shown)
    for form in ("raw", "json"):
        assert not unprintable(envelope.writer(value_as=form, escapes=True)(message))
    assert unprintable(formats.render_of(text)([message]).decode())
