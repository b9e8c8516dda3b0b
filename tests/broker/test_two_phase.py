"""Two-phase commit (KIP-939) on Apache Kafka 4.4, whose brokers have a part of it as an unstable
feature. Those of 4.3 have the same part.

They give transactions without a timeout. But they always refuse KeepPreparedTxn with
UNSUPPORTED_VERSION, so clients complete a prepared transaction by its identity. The tests kill
processes between prepare and the end.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native import KafkaError, KafkaException, PreparedTxnState, Producer
from kafka_native.admin import AdminClient, TransactionState
from kafka_native.errors import ErrorCode
from kafka_native.protocol.producer_ids import InitProducerIdRequest
from tests.broker.cluster import Cluster, quiet
from tests.broker.support import TopicMaker, running
from tests.harness import readers
from tests.harness.processes import guarded
from tests.mock.wire import Wire
from tests.waiting import WAIT_S, wait_for

ROOT = Path(__file__).resolve().parents[2]
PROPERTY = "transaction.two.phase.commit.enable"
UNSTABLE = {"unstable.api.versions.enable": "true"}

pytestmark = [pytest.mark.broker, pytest.mark.slow]


@pytest.fixture(scope="module")
def unstable() -> Iterator[Cluster]:
    """Yield one broker with two-phase commit."""
    soon = {
        "transaction.max.timeout.ms": "5000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    with running(1, changes={**UNSTABLE, PROPERTY: "true", **soon}) as cluster:
        yield cluster


def of(cluster: Cluster, name: str) -> Producer:
    return Producer(
        quiet({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, PROPERTY: True})
    )


def prepared_and_killed(cluster: Cluster, topic: str, *values: str) -> PreparedTxnState:
    """Return the state of a transaction that a killed process has prepared."""
    command = [
        sys.executable,
        "-m",
        "tests.broker.preparer",
        cluster.bootstrap,
        topic,
        topic,
        *values,
    ]
    with subprocess.Popen(
        guarded(*command), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        process.send_signal(signal.SIGKILL)
    return PreparedTxnState(said)


def seen(cluster: Cluster, topic: str) -> list[str]:
    """Return the values of committed readers, which must agree."""
    ours, theirs = (
        sorted(read(cluster, topic, 2, 0).values()) for read in (readers.by_ours, readers.by_theirs)
    )
    assert ours == theirs
    return ours


def wait_until_another_took_too_long(cluster: Cluster, topic: str, name: str) -> None:
    """Begin a later transaction without two-phase commit, and wait until the broker aborts it."""
    conf = {
        "bootstrap.servers": cluster.bootstrap,
        "transactional.id": name,
        "transaction.timeout.ms": 5000,
    }
    with Producer(quiet(conf)) as producer:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        producer.produce(topic, "late", partition=0)
        assert producer.flush(WAIT_S) == 0
        with AdminClient(quiet({"bootstrap.servers": cluster.bootstrap})) as admin:

            def is_aborted() -> bool:
                found = admin.describe_transactions([name])[name].result(WAIT_S)
                return bool(found.state is TransactionState.COMPLETE_ABORT)

            wait_for(is_aborted, "the end of the other transaction")


def commit_one(producer: Producer, topic: str, value: str) -> None:
    with producer.transaction(timeout=WAIT_S):
        producer.produce(topic, value, partition=0)


def test_a_killed_processs_prepared_transaction_is_completed_as_decided(
    unstable: Cluster, new_topic: TopicMaker, tool: object
) -> None:
    for decided in (True, False):
        topic = new_topic(unstable, 2)
        state = prepared_and_killed(unstable, topic, "one", "two")
        assert state.has_transaction()
        assert seen(unstable, topic) == []
        assert not decided or readers.open_transactions(unstable, topic, topic) != []
        with of(unstable, topic) as producer:
            producer.init_transactions(WAIT_S, keep_prepared_txn=True)
            assert seen(unstable, topic) == []
            producer.complete_transaction(state if decided else PreparedTxnState(), WAIT_S)
            assert seen(unstable, topic) == (["one", "two"] if decided else [])
            commit_one(producer, topic, "zero")
        with of(unstable, topic) as again:  # nothing is open, and the last decision is repeated
            again.init_transactions(WAIT_S, keep_prepared_txn=True)
            again.complete_transaction(state, WAIT_S)
            commit_one(again, topic, "zzz")
        assert seen(unstable, topic) == (
            ["one", "two", "zero", "zzz"] if decided else ["zero", "zzz"]
        )
        assert readers.open_transactions(unstable, topic, topic) == []


def test_a_prepared_transaction_outlasts_the_timeout_and_a_new_instance_aborts_it(
    unstable: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(unstable, 2)
    state = prepared_and_killed(unstable, topic, "one", "two")
    wait_until_another_took_too_long(unstable, topic, f"{topic}-another")
    with of(unstable, topic) as producer:
        producer.init_transactions(WAIT_S, keep_prepared_txn=True)
        producer.complete_transaction(state, WAIT_S)
        assert seen(unstable, topic) == ["one", "two"]
    prepared_and_killed(unstable, topic, "three", "four")
    with of(unstable, topic) as producer:
        producer.init_transactions(WAIT_S)
        commit_one(producer, topic, "five")
    assert seen(unstable, topic) == ["five", "one", "two"]


def test_a_producer_ends_its_prepared_transaction(unstable: Cluster, new_topic: TopicMaker) -> None:
    topic = new_topic(unstable, 2)
    with of(unstable, topic) as producer:
        producer.init_transactions(WAIT_S)
        states = []
        for value in ("one", "two", "three"):
            producer.begin_transaction()
            producer.produce(topic, value, partition=0)
            states.append(producer.prepare_transaction(WAIT_S))
            producer.complete_transaction(states[0 if value == "two" else -1], WAIT_S)
        assert len(set(states)) == 3
    assert seen(unstable, topic) == ["one", "three"]


def test_the_broker_refuses_to_keep_a_prepared_transaction(
    unstable: Cluster, new_topic: TopicMaker
) -> None:
    """This is why clients complete by identity. If this test fails, brokers keep it."""
    topic = new_topic(unstable, 2)
    asked = InitProducerIdRequest(
        transactional_id=topic, transaction_timeout_ms=60_000, enable2_pc=True
    )
    where: Any = SimpleNamespace(address=lambda broker: unstable.bootstrap)
    codes = []
    with Wire(where) as wire:
        for asked.keep_prepared_txn in (False, True):
            codes.append(ErrorCode(wire.ask(asked, 6).error_code).name)
    assert codes == ["NO_ERROR", "UNSUPPORTED_VERSION"]


def test_brokers_without_two_phase_commit_have_distinct_errors(
    kafka: Cluster, new_topic: TopicMaker
) -> None:
    topic = new_topic(kafka, 2)
    with of(kafka, topic) as producer, pytest.raises(KafkaException) as caught:
        producer.init_transactions(WAIT_S)
    error = caught.value.args[0]
    assert (error, error.fatal(), "unstable.api.versions.enable=true" in error.str()) == (
        KafkaError._UNSUPPORTED_FEATURE,
        True,
        True,
    )
    with (
        running(1, changes=UNSTABLE) as cluster,
        of(cluster, topic) as producer,
        pytest.raises(KafkaException, match=rf"`{PROPERTY}=true` of the brokers") as caught,
    ):
        producer.init_transactions(WAIT_S)
    assert caught.value.args[0] == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
