"""Names outside a terminal's encoding are shown as escapes: no command fails because of a name.

Bytes of arguments that aren't UTF-8 are kept in messages and paths, and an error in others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_native import Producer
from kafka_native.mock import MockCluster
from tests.cli.running import run
from tests.cli.terminal import terminal
from tests.hostile import unprintable
from tests.waiting import WAIT_S

NAME = "\u00db\u65e5\U0001f600"
"""A character of Latin-1, one of no 8-bit encoding, and one outside the BMP.

The first is C3 9B in UTF-8, and 9B is CSI in Latin-1.
"""
SHOWN = {"ascii": r"\xdb\u65e5\U0001f600", "latin-1": "\u00db" + r"\u65e5\U0001f600", "utf-8": NAME}
COMMANDS = [
    "topics list", "topics describe NAME", "topics describe noNAME", "topics delete noNAME -y", "topics offsets NAME",
    "metadata", "groups list", "groups describe NAME", "groups lag NAME", "groups delete noNAME -y", "doctor -t NAME",
    "topics list -d all", "consume noNAME",
]  # fmt: skip


@pytest.fixture(scope="module")
def named() -> Iterator[MockCluster]:
    with pytest.MonkeyPatch.context() as patch, MockCluster(brokers=1) as cluster:
        for module in ("state", "handlers.metadata"):
            patch.setattr(f"kafka_native.mock.{module}.is_valid_name", bool)
        cluster.create_topic(NAME, 1)
        cluster.set_committed(NAME, {(NAME, 0): 0})
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            producer.produce(
                NAME, NAME.encode() + b"\xff", key=NAME, headers=[(NAME, NAME.encode())]
            )
            assert producer.flush(WAIT_S) == 0
        yield cluster


@pytest.mark.parametrize("encoding", SHOWN)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_is_shown_in_the_encoding_of_the_output(
    named: MockCluster, encoding: str, command: str
) -> None:
    words = command.replace("NAME", NAME).split(" ")
    done = run(*words, "-b", named.bootstrap_servers, "-m", "5", PYTHONIOENCODING=encoding)
    shown = (done.stdout + done.stderr).decode(encoding)  # fails for any other character
    assert "Traceback" not in shown
    assert not unprintable(shown)
    assert SHOWN[encoding] in shown or command.startswith("doctor")


@pytest.mark.parametrize("encoding", SHOWN)
@pytest.mark.parametrize(
    "command", ["topics list", "groups describe NAME", "doctor -t NAME", "metadata"]
)
def test_json_stays_the_same_document(named: MockCluster, encoding: str, command: str) -> None:
    words = command.replace("NAME", NAME).split(" ")
    done = run(
        *words, "--json", "-b", named.bootstrap_servers, "-m", "5", PYTHONIOENCODING=encoding
    )
    document = json.loads(done.stdout.decode(encoding))
    assert NAME in json.dumps(document, ensure_ascii=False)


@contextmanager
def encoded(patch: pytest.MonkeyPatch, encoding: str) -> Iterator[None]:
    with patch.context() as here:
        here.setenv("PYTHONIOENCODING", encoding)
        yield


@pytest.mark.parametrize("encoding", SHOWN)
def test_messages_are_shown_in_the_encoding_of_the_terminal(
    named: MockCluster, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {}
    with encoded(monkeypatch, encoding):
        for option in ("-J", "-f%t %k %s %h\\n"):
            with terminal(
                "consume", NAME, "-e", "-q", option, "-b", named.bootstrap_servers
            ) as screen:
                assert screen.end() == 0, screen.shown
                # fails for any other character
                shown[option] = screen.data.decode(encoding).replace("\r\n", "\n")
    assert not unprintable("".join(shown.values()))
    assert json.loads(shown["-J"])["key"] == NAME
    name = SHOWN[encoding]
    assert shown["-f%t %k %s %h\\n"] == f"{name} {name} {name}\\xff {name}={name}\n"


OTHER_BYTES = "caf\udce9"
"""How Python decodes the argument $'caf\\xe9'."""


@pytest.mark.parametrize(
    "command",
    [
        "topics list -X client.id=BYTES", "topics list -X sasl.password=BYTES", "topics list -X BYTES=1",
        "topics list -b BYTES", "topics list -d BYTES", "topics describe BYTES", "topics create new -c retention.ms=BYTES",
        "produce NAME -X transactional.id=BYTES", "produce BYTES", "consume BYTES -e", "consume NAME -G BYTES -e",
        "consume -G readers BYTES -e", "consume -G readers ^BYTES -e", "consume NAME -e --arrow /nowhere/BYTES",
        "groups describe BYTES", "groups lag BYTES", "configs set topic NAME retention.ms=BYTES", "users list BYTES",
        "perf produce -t BYTES", "schemas list -r http://localhost:1/BYTES",
        "schemas show BYTES -r http://localhost:1",
        "schemas list -r http://localhost:1 -X schema.registry.basic.auth.user.info=secret:BYTES",
    ],
)  # fmt: skip
def test_bytes_that_are_not_utf8_are_an_error_in_one_line(named: MockCluster, command: str) -> None:
    words = command.replace("NAME", NAME).replace("BYTES", OTHER_BYTES).split(" ")
    servers = [] if "-b" in words or words[0] == "schemas" else ["-b", named.bootstrap_servers]
    done = run(*words, *servers, "-m", "5")
    shown = done.stderr.decode()
    assert done.returncode in (1, 2)
    assert "Traceback" not in shown
    assert [line for line in shown.splitlines() if line.startswith("Error: ")], shown
    assert "secret" not in shown


@pytest.mark.parametrize("option", [f"-Xclient.id={OTHER_BYTES}", f"-b{OTHER_BYTES}"])
def test_doctor_reports_bytes_that_are_not_utf8_as_a_fault_of_the_configuration(
    option: str,
) -> None:
    done = run("doctor", "-X", "bootstrap.servers=localhost:1", option, "-m", "5")
    assert done.returncode == 10
    assert b"Traceback" not in done.stderr
    assert b"is not encodable as UTF-8" in done.stdout
