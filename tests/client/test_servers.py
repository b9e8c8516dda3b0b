"""Servers that fork, or run greenlets: the recipes of docs/guide/servers.md."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.libraries import no_threads_in_children
from tests.waiting import WAIT_S, wait_for

from .support import Client, read_all

ROOT = Path(__file__).resolve().parents[2]
REQUESTS = 20
GRACE = "--graceful-timeout 1"
"""A gevent worker that gets SIGTERM while it starts ends only after this timeout."""
GUNICORN = "-m gunicorn -k {} -w 2 -b unix:SOCKET app:application"
UWSGI = "--http-socket SOCKET --module app --master --processes 2 --enable-threads --die-on-term"

WSGI = """
import functools, os
from kafka_native import Producer

conf = {"bootstrap.servers": os.environ["BOOTSTRAP"]}
of_the_master = Producer(conf)  # made where the application is imported: the wrong place if that is before the fork

@functools.cache
def producer():
    return Producer(conf)

def application(environ, start_response):
    try:
        of_the_master.poll(0)
        own = True
    except RuntimeError as error:
        assert "belongs to the parent" in str(error)
        own = False
    offsets = []
    producer().produce(os.environ["TOPIC"], environ["PATH_INFO"],
                       on_delivery=lambda error, message: offsets.append(message.offset()))
    left = producer().flush(60)
    start_response("200 OK", [("Content-Type", "application/json")])
    body = '{"pid": %d, "offset": %d, "left": %d, "imported_here": %s}' % (
        os.getpid(), offsets[0], left, "true" if own else "false")
    return [body.encode()]
"""

TASKS = """
import functools, os
from celery import Celery
from kafka_native import Producer

folder = os.environ["FOLDER"]
app = Celery("tasks", broker="filesystem://", backend=f"file://{folder}/results")
app.conf.broker_transport_options = {"data_folder_in": f"{folder}/queue", "data_folder_out": f"{folder}/queue"}
app.conf.broker_connection_retry_on_startup = True
conf = {"bootstrap.servers": os.environ["BOOTSTRAP"]}
of_the_master = Producer(conf)

@functools.cache
def producer():
    return Producer(conf)

@app.task
def send(text):
    try:
        of_the_master.poll(0)
    except RuntimeError as error:
        assert "belongs to the parent" in str(error)
    else:
        raise AssertionError("this is the master")
    offsets = []
    producer().produce(os.environ["TOPIC"], text, on_delivery=lambda error, message: offsets.append(message.offset()))
    assert producer().flush(60) == 0
    return os.getpid(), offsets[0]
"""


def needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def environment_of(folder: Path, client: Client, topic: str) -> dict[str, str]:
    """Return the environment of a server and of its clients."""
    return os.environ | {
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "BOOTSTRAP": client.bootstrap,
        "TOPIC": topic,
        "FOLDER": str(folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


@contextlib.contextmanager
def running(command: list[str], folder: Path, client: Client, topic: str) -> Iterator[Path]:
    """Yield the output file of a server, which must end on SIGTERM without a traceback."""
    log = folder / "log"
    environment = environment_of(folder, client, topic)
    with log.open("w") as file:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=file, stderr=file, start_new_session=True
        )
    try:
        yield log
        server.send_signal(signal.SIGTERM)
        assert server.wait(WAIT_S) == 0, log.read_text()[-4000:]
    except BaseException:
        print(log.read_text()[-8000:])
        raise
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
    assert "Traceback" not in log.read_text(), log.read_text()[-8000:]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=WAIT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WAIT_S)
        self.sock.connect(str(self._path))


def get(path: Path, url: str) -> dict[str, int]:
    connection = UnixConnection(path)
    connection.request("GET", url)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == 200, body
    found: dict[str, int] = json.loads(body)
    return found


@pytest.mark.parametrize(
    ("packages", "command", "forked"),
    [
        (["gunicorn", "gevent"], GUNICORN.format(f"gevent {GRACE}"), False),
        pytest.param(
            ["gunicorn", "gevent"],
            GUNICORN.format(f"gevent {GRACE} --preload"),
            True,
            marks=no_threads_in_children,
        ),
        pytest.param(
            ["gunicorn"],
            GUNICORN.format("gthread --threads 4 --preload"),
            True,
            marks=no_threads_in_children,
        ),
        pytest.param(["uwsgi"], UWSGI, True, marks=no_threads_in_children),
        (["uwsgi"], f"{UWSGI} --lazy-apps", False),
    ],
    ids=[
        "gunicorn-gevent",
        "gunicorn-gevent-preload",
        "gunicorn-gthread-preload",
        "uwsgi",
        "uwsgi-lazy",
    ],
)
def test_each_worker_of_a_web_server_has_a_producer(
    client: Client, tmp_path: Path, packages: list[str], command: str, forked: bool
) -> None:
    """A producer from before the fork raises an error, and doesn't hang."""
    for package in packages:
        if package == "uwsgi":
            if not Path(sys.executable).with_name("uwsgi").exists():
                pytest.skip("uwsgi is not installed")
        else:
            needs(package)
    (tmp_path / "app.py").write_text(textwrap.dedent(WSGI))
    path, topic = tmp_path / "s", client.topic()
    program = (
        str(Path(sys.executable).with_name("uwsgi")) if packages == ["uwsgi"] else sys.executable
    )
    prefix = [program, "-H", sys.prefix] if packages == ["uwsgi"] else [program]
    arguments = command.replace("SOCKET", str(path)).split()
    with running([*prefix, *arguments], tmp_path, client, topic) as log:
        wait_for(path.exists, "the server's socket")
        if "lazy" in command:  # the other worker may still import the application
            wait_for(lambda: log.read_text().count("WSGI app 0") == 2, "both workers")
        answers = [get(path, f"/{number}") for number in range(REQUESTS)]
    assert sorted(each["offset"] for each in answers) == list(range(REQUESTS))
    assert {each["left"] for each in answers} == {0}
    assert {each["imported_here"] for each in answers} == {not forked}
    values = {message.value() for message in read_all(client, topic, REQUESTS)}
    assert values == {f"/{number}".encode() for number in range(REQUESTS)}


@pytest.mark.slow
def test_each_worker_of_celery_has_a_producer(client: Client, tmp_path: Path) -> None:
    needs("celery")
    (tmp_path / "tasks.py").write_text(textwrap.dedent(TASKS))
    for each in ("queue", "results"):
        (tmp_path / each).mkdir()
    topic = client.topic()
    worker = "-m celery -A tasks worker --pool prefork -c 2 -l warning"
    send = (
        "import tasks, os\n"
        f"results = [tasks.send.delay(str(number)) for number in range({REQUESTS})]\n"
        f"print(sorted(result.get(timeout={WAIT_S})[1] for result in results))\n"
    )
    with running([sys.executable, *worker.split()], tmp_path, client, topic):
        done = subprocess.run(
            [sys.executable, "-c", send],
            env=environment_of(tmp_path, client, topic),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=3 * WAIT_S,
            check=False,
        )
        assert (done.returncode, done.stdout.strip()) == (0, str(list(range(REQUESTS)))), (
            done.stderr
        )
    values = {message.value() for message in read_all(client, topic, REQUESTS)}
    assert values == {str(number).encode() for number in range(REQUESTS)}
