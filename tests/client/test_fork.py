"""A forked child can't use its parent's clients: calls raise, and the child can end."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from kafka_native.logs import Logs
from tests.waiting import PROGRAM_S, WAIT_S

from .support import Client, fill

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")

START = """
import _imp, ctypes, os, signal, sys, threading, time, warnings
from kafka_native import Consumer, Producer, ShareConsumer, TopicPartition
from kafka_native.admin import AdminClient
warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on, of any fork beside threads
conf = {"bootstrap.servers": sys.argv[1]}
topic = sys.argv[2]

def fork(function=os.fork):
    child = function()
    if child == 0:
        signal.alarm(60)  # ends one that hangs; faulthandler's thread would outlive the program's
    return child

def ended(child):
    pid, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status

def refused(*calls):
    for call in calls:
        try:
            call()
        except RuntimeError as error:
            assert "belongs to the parent" in str(error), error
        else:
            raise AssertionError("a child's call returned")

def fork_once(*_):
    global child
    if child is None:
        child = fork()

child = None
"""


def run(program: str, client: Client, topic: str) -> None:
    """Run a program, which must end by itself and without an error."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", START + textwrap.dedent(program), client.bootstrap, topic]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=3 * WAIT_S, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "ended\n")


def storm(client: Client, forks: int) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "tests.client.forking",
        client.bootstrap,
        client.topic(6),
        "--forks",
        str(forks),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]


def test_children_end_whatever_their_parents_threads_are_at(client: Client) -> None:
    storm(client, 15)


@pytest.mark.slow
def test_hundreds_of_children_end(client: Client) -> None:
    storm(client, 500)


def test_a_child_ends_while_another_thread_closes_a_client(client: Client) -> None:
    """The child also has the lock that close() holds."""
    run(
        """
        group = {**conf, "group.id": topic}
        clients = [Producer(conf), Consumer(group), ShareConsumer(group), AdminClient(conf)]
        held = threading.Event()

        def hold():
            for each in clients:
                each._client._closing.acquire()
            clients[1]._closing.acquire()
            clients[2]._access_lock.acquire()
            held.set()
            time.sleep(300)

        threading.Thread(target=hold, daemon=True).start()
        held.wait()
        child = fork()
        if child == 0:
            for each in clients:
                each.close()
            del clients, each
            sys.exit(0)
        ended(child)
        print("ended", flush=True)
        os._exit(0)  # this one's at-exit would wait for the locks
        """,
        client,
        client.topic(),
    )


def test_a_child_of_a_fork_that_python_does_not_see_is_told_so(client: Client) -> None:
    """uWSGI's workers are such children: the master has imported the application."""
    run(
        """
        producer = Producer({**conf, "queue.buffering.max.messages": 1})
        consumer = Consumer({**conf, "group.id": topic})
        admin = AdminClient(conf)
        producer.produce(topic, b"fills the queue")
        consumer.subscribe([topic])
        _imp.acquire_lock()  # as Python's own fork does: from 3.13 on, the child has to hold it
        child = fork(ctypes.PyDLL(None).fork)
        if child:
            _imp.release_lock()
        else:
            ctypes.pythonapi.PyOS_AfterFork_Child()  # without it, Python itself may hang
            refused(
                lambda: producer.produce(topic, b"x"),
                lambda: producer.produce("another", b"x"),
                lambda: producer.poll(0),
                lambda: producer.list_topics(),
                lambda: consumer.poll(0),
                lambda: consumer.commit(asynchronous=False),
                lambda: admin.describe_cluster(),
            )
            for each in (producer, consumer, admin):
                each.close()
            with Producer(conf) as own:
                own.produce(topic, b"own")
                assert own.flush(60) == 0
            os._exit(0)
        ended(child)
        assert producer.flush(60) == 0
        print("ended")
        """,
        client,
        client.topic(),
    )


def test_what_a_child_has_of_its_parents_messages_can_be_used_and_dropped(client: Client) -> None:
    """Their buffers go to no pool, because other threads may hold its lock during the fork."""
    topic = client.topic()
    fill(client, topic, 2000)
    run(
        """
        consumer = Consumer({**conf, "group.id": topic})
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(1000, 60)
        columns = consumer.consume_arrow(1000, 60)
        over = False

        def busy():
            reader = Consumer({**conf, "group.id": "h"})
            while not over:
                reader.assign([TopicPartition(topic, 0, 0)])
                reader.consume(500, 1)
                reader.consume_arrow(500, 1)
            reader.close()

        thread = threading.Thread(target=busy)
        thread.start()
        for number in range(20):
            child = fork()
            if child == 0:
                assert [int(message.value()) for message in messages] == list(range(1000))
                assert len(columns) == 1000
                del messages[:], columns
                del consumer
                os._exit(0)
            ended(child)
        over = True
        thread.join()
        print("ended")
        """,
        client,
        topic,
    )


@pytest.mark.parametrize(
    "program",
    {
        "poll": """
            producer = Producer({**conf, "on_delivery": fork_once})
            producer.produce(topic, b"x")
            while child is None: producer.poll(1)
            """,
        "flush": """
            producer = Producer({**conf, "on_delivery": fork_once})
            for _ in range(100): producer.produce(topic, b"x")
            left = producer.flush(60)
            assert left == 0
            """,
        "produce_arrow": """
            import pyarrow
            producer = Producer(conf)
            producer.produce_arrow(topic, pyarrow.table({"value": ["x"] * 100}), on_delivery=fork_once)
            while child is None: producer.poll(1)
            """,
        "partitioner_cb": """
            producer = Producer({**conf, "partitioner_cb": lambda *_: fork_once() or 0})
            try: producer.produce(topic, b"x")
            except RuntimeError: assert child == 0
            """,
        "on_assign": """
            consumer = Consumer({**conf, "group.id": topic})
            consumer.subscribe([topic], on_assign=fork_once)
            while child is None: consumer.poll(1)
            """,
        "consume_callback": """
            consumer = Consumer({**conf, "group.id": topic})
            consumer.assign([TopicPartition(topic, 0, 0)])
            while child is None: consumer.consume_callback(fork_once, 100, 1)
            """,
        "stats_cb": """
            producer = Producer({**conf, "stats_cb": fork_once, "statistics.interval.ms": 20})
            while child is None: producer.poll(1)
            """,
        "log_cb": """
            producer = Producer({**conf, "log_cb": fork_once, "debug": "all"})
            while child is None: time.sleep(0.01)
            """,
        "oauth_cb": """
            def oauth(_):
                fork_once()
                return "token", time.time() + 60
            sasl = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": oauth}
            producer = Producer({**conf, **sasl, "log_level": 3})  # without TLS is a warning
            while child is None: producer.poll(0.01)
            """,
    }.items(),
    ids=lambda case: case[0],
)
def test_a_callback_may_fork_and_the_child_return_from_it(
    client: Client, program: tuple[str, str]
) -> None:
    """This holds on every thread that runs callbacks."""
    topic = client.topic()
    fill(client, topic, 10)
    end = """
        if child:
            ended(child)
            print("ended")
        """
    run(textwrap.dedent(program[1]) + textwrap.dedent(end), client, topic)


class _SlowFile(io.RawIOBase):
    """A slow file, as a terminal may be."""

    def __init__(self) -> None:
        self.entered = threading.Event()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.entered.set()
        time.sleep(0.3)
        return len(memoryview(data))  # type: ignore[arg-type]


def test_a_fork_waits_until_a_log_thread_has_left_its_handler() -> None:
    """Otherwise its locks, such as a buffered file's, would stay locked in the child."""
    raw = _SlowFile()
    file = io.BufferedWriter(raw, 1)

    def write(name: str, line: object) -> None:
        file.write(b"a line\n")

    logs = Logs("x", write)
    logs["generic"].warning("a line")
    assert raw.entered.wait(WAIT_S)
    child = os.fork()
    if child == 0:
        threading.Timer(WAIT_S, os._exit, (1,)).start()
        file.write(b"the child's\n")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    logs.close()


def test_a_handler_that_hangs_does_not_keep_a_process_from_forking() -> None:
    go_on = threading.Event()
    logs = Logs("x", lambda name, line: go_on.wait(WAIT_S) and None)
    logs["generic"].warning("a line")
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert not go_on.is_set()
    go_on.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    logs.close()
