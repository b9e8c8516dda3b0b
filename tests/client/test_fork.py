"""A forked child can't use its parent's clients: calls raise, and the child can end."""

from __future__ import annotations

import io
import os
import textwrap
import threading
import time

import pytest

from kafka_native.logs import Logs
from tests.harness.libraries import no_threads_in_children
from tests.waiting import WAIT_S

from .support import Client, filled, run_program

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")

START = """
import _imp, ctypes, os, signal, sys, threading, time, warnings
from kafka_native import Consumer, Producer, ShareConsumer, TopicPartition
from kafka_native.admin import AdminClient
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks with threads
conf = {"bootstrap.servers": sys.argv[1]}
topic = sys.argv[2]

def fork(function=os.fork):
    child = function()
    if child == 0:
        signal.alarm(60)  # ends a child that hangs
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
    """Run a program that must print "ended" and no error."""
    program = START + textwrap.dedent(program)
    done = run_program(program, client.bootstrap, topic, timeout_s=3 * WAIT_S)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "ended\n")


def storm(client: Client, forks: int) -> None:
    """Run a program that forks so often while its threads use clients."""
    program = "from tests.client import forking; forking.main()"
    arguments = [client.bootstrap, client.topic(6), "--forks", str(forks)]
    done = run_program(program, *arguments)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


@no_threads_in_children
def test_children_end_despite_their_parents_threads(client: Client) -> None:
    storm(client, 15)


@no_threads_in_children
@pytest.mark.slow
def test_hundreds_of_children_end(client: Client) -> None:
    storm(client, 500)


def test_a_child_ends_while_another_thread_closes_a_client(client: Client) -> None:
    """The child inherits the locked lock of close()."""
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
        os._exit(0)  # atexit would wait for the locks
        """,
        client,
        client.topic(),
    )


@no_threads_in_children
def test_calls_raise_in_a_child_of_a_fork_outside_python(client: Client) -> None:
    """uWSGI's workers are such children: the master process has imported the application."""
    run(
        """
        producer = Producer({**conf, "queue.buffering.max.messages": 1})
        consumer = Consumer({**conf, "group.id": topic})
        admin = AdminClient(conf)
        producer.produce(topic, b"fills the queue")
        consumer.subscribe([topic])
        # Until PyOS_AfterFork_Child() the child must not give up the interpreter lock: nobody would
        # take it, and it would wait for ever. C programs run no Python code in between.
        usual_s = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        time.sleep(0.1)  # threads that wait for the lock since before don't ask for it any more
        _imp.acquire_lock()  # as os.fork() does: from Python 3.13 on, the child must hold it
        child = fork(ctypes.PyDLL(None).fork)
        if child:
            sys.setswitchinterval(usual_s)
            _imp.release_lock()
        else:
            ctypes.pythonapi.PyOS_AfterFork_Child()  # without it, Python itself may hang
            sys.setswitchinterval(usual_s)
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


def test_a_child_can_use_and_drop_its_parents_messages(client: Client) -> None:
    """Their buffers don't go back to the pool: another thread may hold its lock at the fork."""
    topic = filled(client, 2000)
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


@no_threads_in_children
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
            producer = Producer({**conf, **sasl, "log_level": 3})  # hides a warning
            while child is None: producer.poll(0.01)
            """,
    }.items(),
    ids=lambda case: case[0],
)
def test_a_child_can_return_from_a_callback(client: Client, program: tuple[str, str]) -> None:
    """This holds for all threads that run callbacks."""
    topic = filled(client, 10)
    end = """
        if child:
            ended(child)
            print("ended")
        """
    run(textwrap.dedent(program[1]) + textwrap.dedent(end), client, topic)


class _SlowFile(io.RawIOBase):
    """A slow file, such as a terminal."""

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


def test_a_hanging_log_handler_does_not_prevent_a_fork() -> None:
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
