"""Names outside a terminal's encoding are shown as escapes: no command fails because of a name."""

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
