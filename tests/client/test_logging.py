"""The logs of clients: their texts, their loggers, and that logging never blocks a client."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_native import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    ProducerInterceptor,
    TopicCollection,
)
from kafka_native._native.enums import LOG_CONTEXTS
from kafka_native._reference.property import State
from kafka_native.admin import AdminClient
from kafka_native.config import PROPERTIES
from kafka_native.logs import LEVELS, Logs, contexts_of, default_sink, mask_of
from kafka_native.mock import MockCluster
from kafka_native.protocol import ApiKey
from tests.waiting import poll_until, wait_for

from .log_support import PlainLogger, captured_log
from .support import Client, assigned, deliver, errors_into

ROOT = Path(__file__).parents[2]
NOWHERE = {
    "bootstrap.servers": "127.0.0.1:1",
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 10,
}
VALUE = "a value that no log may show"
KEY = "a key that no log may show"


class Seeing(ProducerInterceptor):
    """An interceptor whose name is in the log."""


def fail_to_connect(producer: Producer) -> None:
    """Produce, and wait until the producer finds all brokers down."""
    producer.produce("t", VALUE)
    wait_for(lambda: producer._client.main.pool.all_down())


def produce_with(client: Client, topic: str, **conf: Any) -> None:
    with client.producer(
        **{"interceptors": [Seeing()], "enable.idempotence": True, **conf}
    ) as producer:
        deliver(producer, topic, VALUE, key=KEY)


def consume_with(client: Client, topic: str, **conf: Any) -> None:
    produce_with(client, topic)
    with client.consumer(
        **{"group.id": f"of-{topic}", "auto.offset.reset": "earliest", **conf}
    ) as consumer:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        consumer.commit(asynchronous=False)


def describe_with(client: Client, topic: str, **conf: Any) -> None:
    with AdminClient({"bootstrap.servers": client.bootstrap, **conf}) as admin:
        assert admin.describe_topics(TopicCollection([topic]))[topic].result(30).name == topic


def use_mock_with(client: Client, topic: str, **conf: Any) -> None:
    produce_with(client, topic, **{"test.mock.num.brokers": 1, **conf})


def push_with(client: Client, topic: str, **conf: Any) -> None:
    with MockCluster(brokers=1, client_metrics=True) as cluster:
        cluster.subscribe_metrics(["*"], 60_000)
        with Client(cluster).producer(**conf) as producer:
            producer.client_instance_id(30)
            producer.list_topics(timeout=30)


SUBJECTS: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "generic": (produce_with, (r"a producer of kafka_native", r"closed$")),
    "broker": (
        produce_with,
        (r"connecting \(attempt 1", r": up$", r"closed: .*closed on request|: up$"),
    ),
    "topic": (
        produce_with,
        (r"topic-\d+ \[0\]: leader \d \(epoch 0\), was -1", r"1 partition\(s\), id [0-9a-f]{32}"),
    ),
    "metadata": (produce_with, (r"asking for 1 topic", r"brokers 1, 2, 3, controller \d")),
    "feature": (produce_with, (r"bootstrap: PRODUCE 0-\d+, FETCH",)),
    "queue": (produce_with, (r"1 message\(s\) of 1 partition\(s\) leave the queue",)),
    "msg": (
        produce_with,
        (
            r"topic-\d+ \[0\]: a batch of 1 message\(s\), \d+ bytes",
            r"1 message\(s\) written from offset 0",
        ),
    ),
    "protocol": (
        produce_with,
        (
            r"PRODUCE v\d+ request sent: correlation id \d+",
            r"METADATA v\d+ response: .* \d+\.\d+ ms",
        ),
    ),
    "cgrp": (
        consume_with,
        (r"its coordinator is broker", r"rebalance: assign topic-\d+ \[0\]", r"rebalance: revoke"),
    ),
    "fetch": (
        consume_with,
        (r"\[0\]: fetched from offset 0 on", r"fetch of 1 partition", r"bytes from offset 0 on"),
    ),
    "interceptor": (produce_with, (r"called in this order: Seeing", r"Seeing is closed")),
    "consumer": (
        consume_with,
        (r"subscribes to", r"\[0\]: assigned", r"offset 1 is committed", r"not assigned any more"),
    ),
    "admin": (describe_with, (r"MetadataRequest|DescribeTopicPartitionsRequest", r"is done")),
    "eos": (produce_with, (r"producer id \d+, epoch 0",)),
    "assignor": (consume_with, (r"range gives 1 partition\(s\) to",)),
    "mock": (use_mock_with, (r"the mock cluster listens at 127.0.0.1:\d+",)),
    "conf": (produce_with, (r"enable.idempotence = True", r"debug = conf")),
    "telemetry": (
        push_with,
        (
            r"metrics go to ",
            r"subscription \d+: 10 metric\(s\) each 60 s",
            r"pushes \d+ bytes.* last ones",
        ),
    ),
}
AT_BROKERS = {"security"}
"""Contexts that log something only with SASL: tests/broker/test_sasl.py."""
NO_SUBJECT = {"plugin"}


def test_contexts_are_those_of_debug_and_numbered_as_in_the_core() -> None:
    assert (*LOG_CONTEXTS, "all") == PROPERTIES["debug"].choices
    assert SUBJECTS.keys() | NO_SUBJECT | AT_BROKERS == set(LOG_CONTEXTS)
    header = (ROOT / "csrc" / "net" / "log.h").read_text(encoding="utf-8")
    enum = header[header.index("enum kn_log_context") : header.index("};")]
    assert [name.lower() for name in re.findall(r"KN_LOG_(\w+)", enum)] == list(LOG_CONTEXTS)
    row = PROPERTIES["debug"]
    assert row.state is State.EFFECTIVE
    assert all(context in row.note for context in NO_SUBJECT), (
        "the note of the property names the contexts without lines"
    )


@pytest.mark.parametrize("context", SUBJECTS)
def test_each_context_has_lines_on_its_own_logger(context: str, client: Client) -> None:
    act, patterns = SUBJECTS[context]
    with captured_log() as log:
        act(client, client.topic(), **{"client.id": log.client_id, "debug": context})
        names = {record.name for record in log.records}
        assert names == {f"kafka_native.{log.client_id}.{context}"}
        for pattern in patterns:
            assert log.matching(pattern), (pattern, log.lines)
        name = f"{log.client_id}#"
        assert all(line.startswith(name) for line in log.lines), "each line names its client"
        assert not log.matching("no log may show"), "no line has a key or a value"


def test_working_client_without_debug_logs_nothing_and_starts_no_thread(client: Client) -> None:
    with captured_log() as log:
        logging.getLogger(f"kafka_native.{log.client_id}").setLevel(logging.DEBUG)
        topic = client.topic()
        with client.producer(**{"client.id": log.client_id}) as producer:
            deliver(producer, topic, VALUE)
            assert not [
                each.name for each in threading.enumerate() if f"log {log.client_id}" in each.name
            ]
        assert log.lines == []


def test_lines_of_broker_threads_name_their_thread_and_their_time(client: Client) -> None:
    with captured_log() as log:
        produce_with(client, client.topic(), **{"client.id": log.client_id, "debug": "msg,generic"})
        sent = [record for record in log.records if record.name.endswith(".msg")]
        assert {record.threadName for record in sent if record.threadName} <= {
            f"kn-broker-{each}" for each in (1, 2, 3)
        }
        assert sent
        first, last = log.records[0].created, log.records[-1].created
        assert all(first - 1 <= record.created <= last + 1 for record in sent)


def test_log_thread_name_off_leaves_the_thread_out() -> None:
    logger = PlainLogger()
    with Producer({**NOWHERE, "logger": logger, "log.thread.name": False}) as producer:
        fail_to_connect(producer)
        wait_for(lambda: logger.calls)
        producer.close(0)
    assert not [text for text in logger.texts() if "thrd:" in text]


# --- the logger ---


def test_own_logging_logger_gets_every_line(client: Client) -> None:
    logger = logging.getLogger("of the application")
    seen: list[str] = []
    logger.addFilter(lambda record: seen.append(record.getMessage()) is not None)
    logger.setLevel(logging.DEBUG)
    produce_with(client, client.topic(), debug="broker,topic", logger=logger)
    assert [text for text in seen if text.startswith("BROKER [rdkafka#producer-")]
    assert [text for text in seen if text.startswith("TOPIC [rdkafka#producer-")]


def test_log_cb_gets_name_level_facility_and_text(client: Client) -> None:
    lines: list[tuple[str, int, str, str]] = []
    produce_with(client, client.topic(), debug="eos", log_cb=lambda *line: lines.append(line))
    assert lines
    for name, level, facility, text in lines:
        assert name.startswith("rdkafka#producer-")
        assert (level, facility) == (7, "EOS")
        assert text.startswith("[thrd:kafka-native rdkafka#producer-")
    with pytest.raises(KafkaException, match="mutually exclusive"):
        Producer({**NOWHERE, "log_cb": print, "logger": PlainLogger()})
    with pytest.raises(TypeError, match="log_cb"):
        Producer({**NOWHERE, "log_cb": 5})


def test_remarks_about_the_configuration_go_to_the_own_logger() -> None:
    lines: list[Any] = []
    conf = {**NOWHERE, "session.timeout.ms": 6000}
    Producer({**conf, "log_cb": lambda *line: lines.append(line)}).close()
    plain = PlainLogger()
    Producer({**conf, "logger": plain}).close()
    assert lines[0][1:3] == (4, "CONFWARN")
    assert "session.timeout.ms is a consumer property" in lines[0][3]
    assert "session.timeout.ms is a consumer property" in plain.texts()[0]
    Producer({**conf, "logger": (silent := PlainLogger()), "log_level": 3}).close()
    assert silent.calls == []


@pytest.mark.parametrize(
    ("level", "conf", "expected"), [(2, {}, 0), (3, {}, 1), (2, {"debug": "broker"}, 2)]
)
def test_log_level_is_a_syslog_level_and_debug_raises_it(
    level: int, conf: dict[str, str], expected: int
) -> None:
    logger = PlainLogger()
    with Producer({**NOWHERE, "logger": logger, "log_level": level, **conf}) as producer:
        fail_to_connect(producer)
        producer.purge()
        producer.flush(0)
    levels = {call[0] for call in logger.calls}
    assert (
        levels == ({logging.ERROR, logging.DEBUG}, {logging.ERROR})[expected == 1]
        if expected
        else not levels
    )


def test_levels_are_pythons() -> None:
    assert LEVELS == (50, 50, 50, 40, 30, 20, 20, 10)


# --- log.queue ---


def test_with_log_queue_the_applications_poll_calls_the_logger(client: Client) -> None:
    threads: list[str] = []

    class Naming(PlainLogger):
        def log(self, *args: Any) -> None:
            threads.append(threading.current_thread().name)

    own = threading.current_thread().name
    with client.producer(**{"log.queue": True, "logger": Naming(), "debug": "all"}) as producer:
        producer.produce(client.topic(), VALUE)
        poll_until(lambda: len(threads) > 20, producer)
    assert set(threads) == {own}


def test_with_log_queue_poll_raises_the_loggers_exception() -> None:
    class Broken(PlainLogger):
        def log(self, *args: Any) -> None:
            super().log(*args)
            raise ZeroDivisionError("of the logger")

    logger = Broken()
    producer = Producer({**NOWHERE, "log.queue": True, "logger": logger})
    producer.produce("t", VALUE)
    with pytest.raises(ZeroDivisionError, match="of the logger"):
        wait_for(lambda: producer.poll(0.01) == -1)
    assert len(logger.calls) == 1
    producer.close(0)


# --- logging never blocks ---


class Stuck(logging.Handler):
    """A handler that blocks until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.entered.set()
        self.go_on.wait(60)
        self.lines.append(record.getMessage())


def test_handler_that_blocks_delays_neither_deliveries_nor_heartbeats(
    client: Client, cluster: MockCluster
) -> None:
    stuck = Stuck()
    logger = logging.getLogger("stuck")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(stuck)
    topic, delivered = client.topic(), []
    conf = {"debug": "all", "logger": logger}
    timing = {"heartbeat.interval.ms": 100, "auto.offset.reset": "earliest"}
    consumer = client.consumer(**{"group.id": f"of-{topic}", **timing, **conf})
    try:
        consumer.subscribe([topic])
        with client.producer(**{"batch.num.messages": 10, **conf}) as producer:
            assert stuck.entered.wait(30)
            for number in range(5000):
                producer.produce(topic, str(number), on_delivery=errors_into(delivered))
            assert producer.flush(60) == 0
            assert delivered == [None] * 5000
            read = 0
            while read < 5000:
                messages = consumer.consume(1000, 30)
                assert messages, f"only {read} messages"
                read += len(messages)
            cluster.clear_requests()
            cluster.wait_for_requests(ApiKey.HEARTBEAT, 3, timeout=30)
            assert not stuck.go_on.is_set()
            assert not stuck.lines, "all of this happens during the first line"
            stuck.go_on.set()
    finally:
        stuck.go_on.set()
        consumer.close()
    assert len(stuck.lines) > 100


def test_lines_that_do_not_fit_are_counted() -> None:
    go_on, texts = threading.Event(), []

    def sink(name: str, line: Any) -> None:
        go_on.wait(60)
        texts.append(line.text)

    logs = Logs("x", sink, contexts=("msg",), lines_max=5)
    for number in range(100):
        logs["msg"].debug("line %d", number)
    logs.say_dropped(7)
    go_on.set()
    logs.close()
    lines = [text for text in texts if text.startswith("line")]
    assert lines == [f"line {number}" for number in range(len(lines))]
    assert 5 <= len(lines) <= 6, "the line that the sink has, and the lines that wait"
    assert f"{100 - len(lines) + 7} log lines were dropped" in "".join(texts)


def resting_logs(monkeypatch: pytest.MonkeyPatch, idle_s: float) -> tuple[Logs, list[str]]:
    """Return a log whose thread ends after ``idle_s``, and the texts of its lines."""
    monkeypatch.setattr("kafka_native.logs.IDLE_S", idle_s)
    texts: list[str] = []
    return Logs("resting", lambda name, line: texts.append(line.text)), texts


def test_the_log_thread_ends_after_a_while_and_starts_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs, texts = resting_logs(monkeypatch, 0.01)

    def is_resting() -> bool:
        return not any("log resting" in thread.name for thread in threading.enumerate())

    for number in range(20):
        logs["broker"].warning("line %d", number)
        if number % 5 == 0:
            wait_for(is_resting, "the end of the thread")
    logs.close()
    assert texts == [f"line {number}" for number in range(20)]


def test_each_of_many_lines_is_logged_while_the_log_thread_rests_and_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs, texts = resting_logs(monkeypatch, 0.0001)
    for number in range(3000):
        logs["broker"].warning("line %d", number)
        time.sleep(0.0001)
    wait_for(lambda: len(texts) == 3000, "all lines, without close()")
    logs.close()
    assert texts == [f"line {number}" for number in range(3000)]


def test_names_from_the_network_stay_in_their_line() -> None:
    """A name from the network starts no line, and sends no commands to the terminal."""
    texts: list[str] = []
    logs = Logs("x", lambda name, line: texts.append(line.text))
    logs["broker"].warning("topic %s isn't there", "t\nERROR all is lost\x1b[2J\u202e\0")
    logs.close()
    assert texts == ["topic t?ERROR all is lost?[2J?? isn't there"]


def test_engine_counts_lines_that_the_control_thread_does_not_take(client: Client) -> None:
    logger, held, go_on = PlainLogger(), threading.Event(), threading.Event()
    delivered: list[Any] = []
    conf = {
        "debug": "msg",
        "logger": logger,
        "linger.ms": 0,
        "batch.num.messages": 1,
        "enable.idempotence": False,
    }
    with client.producer(**conf) as producer:
        topic = client.topic()
        deliver(producer, topic, VALUE)
        producer._client.main.post(lambda: [held.set(), go_on.wait(60)])
        assert held.wait(30)
        try:
            for _ in range(2500):
                producer.produce(topic, VALUE, on_delivery=errors_into(delivered))
            poll_until(lambda: len(delivered) == 2500, producer, timeout_s=60)
        finally:
            go_on.set()
    assert len(logger.calls) < 2500
    dropped = [
        int(match[1])
        for text in logger.texts()
        if (match := re.search(r"(\d+) log lines were dr", text))
    ]
    assert sum(dropped) + len(logger.calls) - len(dropped) == 2 * 2501, (
        "a line for each sent message, and a line for each written message"
    )


def test_handler_that_raises_is_reported_once_and_stops_nothing(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(PlainLogger):
        def log(self, *args: Any) -> None:
            super().log(*args)
            raise ZeroDivisionError("of the handler")

    logger = Broken()
    produce_with(client, client.topic(), logger=logger, debug="all")
    assert len(logger.calls) > 20
    assert capsys.readouterr().err.count("ZeroDivisionError: of the handler") == 1


def test_close_waits_for_a_handler_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_native.logs.END_S", 0.05)
    go_on = threading.Event()
    logs = Logs("x", lambda name, line: go_on.wait(60) and None)
    logs["generic"].info("stuck")
    logs.close()
    assert not go_on.is_set()
    go_on.set()


def test_after_close_the_caller_calls_the_sink_but_not_in_a_forked_child() -> None:
    texts: list[str] = []
    logs = Logs("x", lambda name, line: texts.append(f"{line.thread}: {line.text}"))
    logs.close()
    logs["generic"].warning("late")
    assert texts == [f"{threading.current_thread().name}: late"]
    child = os.fork()
    if child == 0:
        logs["generic"].error("in the child")
        os._exit(len(texts))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_caller_calls_the_sink_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter refuses threads while it ends."""
    texts: list[str] = []
    logs = Logs("x", lambda name, line: texts.append(line.text))

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        logs["generic"].warning("late")
    assert texts == ["late"]
    logs["generic"].warning("and later")
    logs.close()
    assert texts == ["late", "and later"]


@pytest.mark.parametrize("before", [0, 1])
def test_line_after_the_finalizer_of_the_logs_is_not_lost(before: int) -> None:
    """The garbage collector calls the finalizers of a cycle in any order."""
    texts: list[str] = []
    logs = Logs("x", lambda name, line: texts.append(line.text))
    for _ in range(before):
        logs["generic"].warning("first")
    logs.__del__()
    logs["generic"].warning("last")
    wait_for(lambda: texts.count("last") == 1, "the line")
    logs.close()
    assert texts.count("first") == before
    wait_for(
        lambda: not [each for each in threading.enumerate() if each.name == "kafka-native log x"],
        "the threads' end",
    )


def test_exceptions_reach_handlers_as_exceptions() -> None:
    with captured_log() as log:
        logs = Logs(log.client_id, default_sink(log.client_id, (), thread_names=True))
        try:
            raise ZeroDivisionError("cause")
        except ZeroDivisionError:
            logs["generic"].exception("%d went wrong", 1)
        logs.close()
        [record] = log.records
        assert record.exc_info
        assert record.exc_info[0] is ZeroDivisionError
        assert record.getMessage() == f"{log.client_id}: 1 went wrong"


def test_contexts_may_have_blanks_and_capitals() -> None:
    assert contexts_of("Broker, topic") == {"broker", "topic"}
    assert contexts_of("all") == set(LOG_CONTEXTS)
    assert contexts_of("") == set()
    assert mask_of(contexts_of("generic,topic")) == 0b101


# --- secrets ---


@pytest.mark.parametrize(
    "name", sorted(name for name, declared in PROPERTIES.items() if declared.sensitive)
)
def test_secrets_are_in_no_line_and_no_error(name: str) -> None:
    logger, secret, shown = PlainLogger(), "s3cret-canary", ""
    try:
        producer = Producer({**NOWHERE, "debug": "all", "logger": logger, name: secret})
    except KafkaException as error:
        shown = f"{error} {error!r} {error.args[0].str()}"
    else:
        with pytest.raises(KafkaException):
            producer.list_topics(timeout=0.2)
        producer.close(0)
        assert any("[redacted]" in text for text in logger.texts())
    assert secret not in shown + "".join(logger.texts())


# --- log.connection.close ---


def closes(log_level: int, lines: list[Any]) -> list[Any]:
    return [call for call in lines if call[0] == log_level and "closed the connection" in call[-1]]


def test_closed_idle_connection_is_only_a_debug_line(client: Client, cluster: MockCluster) -> None:
    errors: list[KafkaError] = []
    logger, topic = PlainLogger(), client.topic()
    with client.producer(logger=logger, debug="broker", error_cb=errors.append) as producer:
        deliver(producer, topic, VALUE)
        wait_for(lambda: cluster.connection_count(cluster.leader(topic, 0)) == 1)
        cluster.disconnect(cluster.leader(topic, 0))
        wait_for(lambda: any("closed the idle connection" in text for text in logger.texts()))
        deliver(producer, topic, VALUE)
        producer.poll(0)
    assert {call[0] for call in logger.calls} == {logging.DEBUG}
    assert errors == []


@pytest.mark.parametrize(("wanted", "expected"), [(True, 1), (False, 0)])
def test_connection_closed_during_a_request_is_a_warning_if_wanted(
    client: Client, cluster: MockCluster, wanted: bool, expected: int
) -> None:
    topic, logger, errors = client.topic(), PlainLogger(), []
    leader = cluster.leader(topic, 0)
    for conf in ({"logger": logger, "debug": "broker"}, {"error_cb": errors.append}):
        with assigned(
            client, topic, **{"log.connection.close": wanted, "fetch.wait.max.ms": 10_000, **conf}
        ) as consumer:
            cluster.clear_requests()
            poll_until(lambda: cluster.requests_of(ApiKey.FETCH, leader), consumer)
            cluster.disconnect(leader)
            # after the next Fetch no more lines follow
            poll_until(lambda: len(cluster.requests_of(ApiKey.FETCH, leader)) > 1, consumer)
            consumer.poll(0)
    assert len(closes(logging.WARNING, logger.calls)) == expected
    assert [error.code() for error in errors] == [KafkaError._TRANSPORT] * expected


def test_consumer_without_debug_logs_its_errors() -> None:
    logger = PlainLogger()
    consumer = Consumer({**NOWHERE, "group.id": "g", "logger": logger})
    consumer.subscribe(["t"])
    wait_for(lambda: len(logger.calls) >= 2)
    consumer.close()
    assert [call[0] for call in logger.calls] == [logging.ERROR, logging.ERROR]
    assert "refused" in logger.texts()[0]
    assert "1/1 brokers are down" in logger.texts()[1]
