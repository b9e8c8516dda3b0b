"""Results of delivering a message with confluent_kafka and with kafka_native, side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import confluent_kafka

import kafka_native
from tests.mock.secured import unsecured_jwt
from tests.waiting import WAIT_S

Lib = Any
DELIVERS = "delivers"
QUICK = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50, "log_level": 0}


class Outcomes(NamedTuple):
    """A line of the table."""

    case: str
    theirs: str
    ours: str


def login(
    mechanism: str = "PLAIN", user: str = "alice", password: str = "secret", **own: Any
) -> dict[str, Any]:
    return {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password, **own}


def bearer(lifetime_s: float) -> dict[str, Any]:
    """Return an unsecured token. For the client it is valid for an hour, so it is sent."""

    def token(config: str) -> tuple[str, float, str, dict[str, str]]:
        return unsecured_jwt("alice", lifetime_s), time.time() + 3600, "alice", {"traceId": "1"}

    return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": token}


def deliver(lib: Lib, conf: dict[str, Any], topic: str, wanted: str) -> str:
    """Try to deliver a message. Return ``DELIVERS``, or the name of the error that error_cb got."""
    errors: list[Any] = []
    reports: list[Any] = []
    producer = lib.Producer({**QUICK, "error_cb": errors.append, **conf})
    producer.produce(topic, b"x", on_delivery=lambda error, message: reports.append(error))
    deadline = time.monotonic() + WAIT_S
    found = ""
    while not found:
        assert time.monotonic() < deadline, f"{lib.__name__}: {errors}, {reports}"
        producer.poll(0.02)
        # The end of a connection may be reported before its reason.
        reported = wanted in [error.name() for error in errors]
        found = DELIVERS if reports == [None] else wanted if reported else ""
    producer.purge()
    producer.flush(WAIT_S)
    return found


def side_by_side(
    name: str, conf: dict[str, Any], topic: str, ours: str, theirs: str | None = None
) -> Outcomes:
    """Run both clients with a configuration. ``theirs`` is confluent_kafka's error, if another."""
    of_theirs = deliver(confluent_kafka, conf, topic, theirs or ours)
    return Outcomes(name, of_theirs, deliver(kafka_native, conf, topic, ours))


def printed() -> Iterator[list[Outcomes]]:
    """Yield a list of results, and print it as a table at the end."""
    rows: list[Outcomes] = []
    yield rows
    for row in (Outcomes("case", "confluent_kafka", "kafka_native"), *rows):
        print("{:36} {:24} {}".format(*row))
