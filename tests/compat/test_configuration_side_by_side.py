"""Odd values of a configuration: both libraries take or refuse the same."""

from __future__ import annotations

import decimal
import fractions
import json
import logging
import pathlib
import time
import uuid
from typing import Any

import confluent_kafka
import pytest

import kafka_native
from kafka_native.compat.drop_in import confluent_kafka as drop_in
from kafka_native.mock import MockCluster
from tests.compat.sides import BOTH, next_message
from tests.compat.test_side_by_side import NOWHERE, assert_same, outcome
from tests.waiting import poll_until

Lib = Any


class Five:
    def __str__(self) -> str:
        return "5"


class Dumb:
    def __str__(self) -> str:
        raise ValueError("no text")


VALUES: list[Any] = [
    *(None, "", 0, 1, -1, 5, 1.0, 5.7, True, False, 2**31, 2**63),
    *("true", "TRUE", "T", "f", " true ", "5", "5.7", "1k", " 5", "5 ", "0x10", "010", "+5", "1e3"),
    *("abc", "All", "NONE", "Gzip", "READ_COMMITTED", "all", "EARLIEST", "Range", "PLAINTEXT"),
    *(b"abc", b"5", Five(), Dumb(), decimal.Decimal(5), fractions.Fraction(5), uuid.UUID(int=5)),
    *(pathlib.Path("/tmp"), [1], ("a", "b"), {}, "a\0b", "\u00e4", object, "a,b", float("inf")),
]
NAMES = [
    *("linger.ms", "acks", "client.id", "compression.type", "enable.idempotence", "debug"),
    *("on_delivery", "error_cb", "throttle_cb", "stats_cb", "default.topic.config", "logger"),
    *("topic.acks", "topic.linger.ms", "delivery.report.only.error", "retry.backoff.ms"),
    *("security.protocol", "partitioner", "no.such"),
]


def kind_of(call: Any) -> Any:
    """Return "made", or the class and code of the exception."""
    try:
        call()
    except Exception as error:
        cause = error.args[0] if error.args else None
        return type(error).__name__, cause.name() if hasattr(cause, "retriable") else None
    return "made"


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_value(name: str) -> None:
    made: list[Any] = []
    seen = [
        [
            kind_of(lambda v=value, lib=lib: made.append(lib.Producer({**NOWHERE, name: v})))
            for value in VALUES
        ]
        for lib in BOTH
    ]
    different = [
        (value, theirs, ours)
        for value, theirs, ours in zip(VALUES, *seen, strict=True)
        if theirs != ours
    ]
    assert not different


@pytest.mark.parametrize("name", ["group.protocol", "isolation.level", "on_commit"])
def test_values_of_consumers(name: str) -> None:
    def make(lib: Lib, value: Any) -> None:
        lib.Consumer({**NOWHERE, "group.id": "g", name: value}).close()

    for value in ("CLASSIC", "Read_Committed", None, "", print, 5):
        assert kind_of(lambda v=value: make(drop_in, v)) == kind_of(
            lambda v=value: make(confluent_kafka, v)
        ), value


@pytest.mark.parametrize(
    "servers",
    ["", "host:abc", ":9092", "host:99999", "ssl://h:1", "foo://h:1", "a b", "u:p@h:1", ",", "h:0"],
)
def test_bad_bootstrap_server_is_logged(servers: str) -> None:
    for lib in BOTH:
        lib.Producer({"bootstrap.servers": servers, "log_level": 0})


@pytest.mark.parametrize("args", [(), ({}, {}), (None,), ([],), ("x",), (5,)], ids=str)
@pytest.mark.parametrize("kind", ["Producer"])
def test_without_a_dict(kind: str, args: tuple[Any, ...]) -> None:
    assert_same(lambda lib: getattr(lib, kind)(*args))


def test_dict_and_keywords() -> None:
    for lib in BOTH:
        lib.Producer(**NOWHERE)
        lib.Producer({**NOWHERE, "linger.ms": "x"}, **{"linger.ms": 5})
        lib.Producer({"default.topic.config": {"acks": 1}, **NOWHERE})
    assert_same(lambda lib: lib.Producer({5: 5}))


def test_client_that_was_never_made() -> None:
    calls = {
        "poll": (0,), "flush": (0,), "produce": ("t",), "purge": (), "list_topics": (),
        "produce_batch": ("t", [{}]), "init_transactions": (), "begin_transaction": (),
        "commit_transaction": (), "abort_transaction": (), "cluster_id": (), "close": (),
        "set_sasl_credentials": ("u", "p"), "__len__": (), "__bool__": (), "__enter__": (),
    }  # fmt: skip

    def seen(lib: Lib) -> Any:
        class NeverOpened(lib.Producer):  # type: ignore[misc]
            def __init__(self) -> None:
                pass

        found = {
            name: outcome(lambda n=name, a=a: getattr(NeverOpened(), n)(*a))
            for name, a in calls.items()
        }
        found["__enter__"] = type(found["__enter__"]).__name__
        return found

    assert_same(seen)


def test_second_init() -> None:
    def again(lib: Lib) -> None:
        producer = lib.Producer(NOWHERE)
        producer.__init__(NOWHERE)

    assert_same(again)


# --- oauth_cb ---


def conf_of(lib: Lib, oauth_cb: Any, **own: Any) -> dict[str, Any]:
    return {
        **NOWHERE,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": oauth_cb,
        **own,
    }


MAKERS = ["Producer", "Consumer", "AdminClient"]


@pytest.mark.parametrize("name", MAKERS)
def test_constructor_asks_for_a_token(name: str) -> None:
    for lib in BOTH:
        calls: list[str] = []

        def oauth_cb(text: str, calls: list[str] = calls) -> tuple[str, float]:
            calls.append(text)
            return "token", time.time() + 100

        kind = getattr(lib if name != "AdminClient" else lib.admin, name)
        conf = conf_of(lib, oauth_cb, **{"sasl.oauthbearer.config": "c"})
        client = kind({**conf, **({"group.id": "g"} if name == "Consumer" else {})})
        assert calls == ["c"]
        del client


@pytest.mark.slow
@pytest.mark.parametrize("case", ["raises", "returns nonsense", "isn't asked"])
def test_constructor_without_a_token(case: str) -> None:
    def raising(text: str) -> Any:
        raise ValueError("no token")

    def nonsense(text: str) -> Any:
        return 5

    def made(lib: Lib) -> Any:
        began = time.monotonic()
        conf = conf_of(lib, raising if case == "raises" else nonsense)
        if case == "isn't asked":
            conf = {**NOWHERE, "oauth_cb": raising}
        found = outcome(lambda: lib.Producer(conf))
        assert 9 < time.monotonic() - began < 14
        return found

    assert_same(made)


def test_logger_is_called_by_poll() -> None:
    for lib in BOTH:
        lines: list[str] = []

        class Heard(logging.Handler):
            def emit(self, record: logging.LogRecord, lines: list[str] = lines) -> None:
                lines.append(record.getMessage())

        logger = logging.Logger("own")
        logger.addHandler(Heard())
        with MockCluster(brokers=1) as cluster:
            conf = {"bootstrap.servers": cluster.bootstrap_servers, "debug": "all"}
            producer = lib.Producer(conf, logger=logger)
            time.sleep(0.3)
            before = len(lines)
            producer.poll(0.1)
            assert not before
            assert lines


@pytest.mark.parametrize(
    "conf",
    [{}, {"transactional.id": "t"}, {"enable.idempotence": True}, {"enable.idempotence": "false"}],
)
def test_a_producer_is_idempotent_for_the_same_reasons(conf: dict[str, Any]) -> None:
    def is_idempotent(lib: Lib) -> bool:
        documents: list[str] = []
        statistics = {"statistics.interval.ms": 20, "stats_cb": documents.append}
        producer = lib.Producer({**NOWHERE, **statistics, **conf})
        poll_until(lambda: documents, producer)
        return "eos" in json.loads(documents[0])

    theirs, ours = map(is_idempotent, BOTH)
    assert ours == theirs


@pytest.mark.parametrize("conf", [{}, {"check.crcs": True}])
def test_a_consumer_checks_checksums_for_the_same_reason(conf: dict[str, Any]) -> None:
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 1)
        with kafka_native.Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            producer.produce("t", b"x", headers={"name": b"the bit is flipped here"})

        def is_refused(lib: Lib) -> bool:
            cluster.corrupt_next_fetch("t", 0)
            basics = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"}
            consumer = lib.Consumer({**basics, "log_level": 0, **conf})
            consumer.assign([lib.TopicPartition("t", 0, 0)])
            message = next_message(consumer)
            consumer.close()
            return message.error() is not None

        theirs, ours = map(is_refused, BOTH)
        assert ours == theirs == bool(conf)
