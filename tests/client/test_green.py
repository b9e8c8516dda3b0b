"""gevent and eventlet replace Python's threads by greenlets. A client's threads stay threads."""

from __future__ import annotations

import importlib.util
import textwrap
import threading

import pytest

from kafka_native import threads
from tests.waiting import WAIT_S

from .support import Client, run_program

GEVENT = """
from gevent import monkey
monkey.patch_all()
import gevent
from gevent import sleep, spawn
in_thread = lambda call, *args: gevent.get_hub().threadpool.apply(call, args)
end = lambda greenlet: greenlet.get()
queue = False
"""
EVENTLET = """
import warnings
warnings.simplefilter("ignore")  # it is deprecated
import eventlet
eventlet.monkey_patch()
from eventlet import sleep, spawn, tpool
in_thread = tpool.execute
end = lambda greenlet: greenlet.wait()
queue = True  # handlers' locks are eventlet's, which threads may not share
"""
FIRST = """
import kafka_native.admin, kafka_native.consumer, kafka_native.producer
"""
PROGRAM = """
import faulthandler, logging, os, sys
faulthandler.dump_traceback_later(120, exit=True)
from kafka_native import Consumer, Producer, ShareConsumer
from kafka_native.admin import AdminClient, NewTopic

logging.basicConfig(level=logging.DEBUG, stream=open(os.devnull, "w"))
group, topic = sys.argv[2], sys.argv[3]
conf = {"bootstrap.servers": sys.argv[1], "debug": "all", "log.queue": queue, "reconnect.backoff.ms": 20}
ticks, delivered, read = 0, [], []

def tick():
    global ticks
    while True:
        ticks += 1
        sleep(0.005)

spawn(tick)
admin = AdminClient(conf)
admin.create_topics([NewTopic(topic, 3)])[topic].result(60)

def produce():
    with Producer(conf) as producer:
        for number in range(100):
            producer.produce(topic, str(number), on_delivery=lambda error, message: delivered.append(message.offset()))
        assert producer.flush(60) == 0
        assert topic in producer.list_topics(timeout=60).topics

for greenlet in [spawn(produce) for _ in range(5)]:
    end(greenlet)
assert len(delivered) == 500

def consume():
    consumer = Consumer({**conf, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic], on_assign=lambda *_: None, on_revoke=lambda *_: None)
    before = ticks
    while len(read) < 500:
        message = in_thread(consumer.poll, 60)
        assert message.error() is None
        read.append(message.value())
        sleep(0)
    assert ticks > before  # other greenlets have run
    assert len(consumer.commit(asynchronous=False)) == 3
    consumer.unsubscribe()
    consumer.close()

end(spawn(consume))
share = ShareConsumer({**conf, "group.id": group + "-share"})
share.subscribe([topic])
assert share.poll(0.1) is not None
share.close()
admin.poll(0)
admin.close()
assert sorted(read) == sorted(str(number).encode() for number in range(100) for _ in range(5))
print("ended", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("order", ["patched first", "imported first"])
@pytest.mark.parametrize(("package", "patch"), [("gevent", GEVENT), ("eventlet", EVENTLET)])
def test_clients_work_in_greenlets(client: Client, package: str, patch: str, order: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    program = patch + PROGRAM if order == "patched first" else FIRST + patch + PROGRAM
    arguments = [client.bootstrap, client.topic(), f"{package}-{order[:3]}"]
    done = run_program(program, *arguments, timeout_s=3 * WAIT_S)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "ended\n")


def test_an_event_stays_set() -> None:
    event = threads.Event()
    assert not event.wait(0)
    thread = threads.Thread(event.set, "sets it")
    thread.start()
    assert event.wait(WAIT_S)
    assert event.is_set()
    assert event.wait(0)
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_a_thread_knows_itself_and_its_name() -> None:
    seen: list[object] = []
    thread = threads.Thread(
        lambda: seen.extend((thread.is_current(), threads.current_name())), "its name"
    )
    assert not thread.started
    thread.start()
    thread.join(WAIT_S)
    assert seen == [True, "its name"]
    assert thread.started
    assert not thread.is_current()


def test_threads_work_while_the_standard_library_is_patched() -> None:
    """The test patches the parts that gevent would patch."""
    program = """
    import _thread, threading
    _thread.start_new_thread = threading.Thread.start = lambda *_: 1 / 0  # as a patch replaces them
    from kafka_native import threads
    assert threads.is_patched()
    go_on, seen = threads.Lock(), []
    go_on.acquire()
    def work():
        go_on.acquire()
        seen.extend((thread.is_current(), threads.current_name()))
        future.set_result("done")
    future = threads.new_future()
    thread = threads.Thread(work, "its name")
    thread.start()
    assert thread.is_alive() and not thread.is_current()
    thread.join(0.01)
    try:
        future.result(0.01)
    except TimeoutError as error:
        pass
    except Exception as error:  # before Python 3.11 futures have their own TimeoutError
        assert type(error).__name__ == "TimeoutError"
    go_on.release()
    assert future.result(60) == "done"
    thread.join(60)
    assert not thread.is_alive() and seen == [True, "its name"]
    print("ended")
    """
    done = run_program(textwrap.dedent(program), timeout_s=WAIT_S)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "ended\n")


def test_without_patches_threading_knows_the_thread() -> None:
    go_on = threads.Event()
    thread = threads.Thread(lambda: go_on.wait(WAIT_S), "its name")
    thread.start()
    assert "its name" in [each.name for each in threading.enumerate()]
    go_on.set()
    thread.join(WAIT_S)
