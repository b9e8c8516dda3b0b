"""The exactly-once sink on a real Apache Kafka: drivers are killed inside of a transaction.

A proxy holds a request or a response of the micro-batch. Then all processes of the driver are
killed with SIGKILL, and the brokers say whether the transaction is open.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafka_native
from kafka_native.admin import AdminClient, TransactionState
from kafka_native.protocol import ApiKey
from tests.broker.cluster import Cluster, Listener
from tests.broker.support import create, running
from tests.harness.readers import by_theirs, open_transactions
from tests.harness.step_proxy import AFTER, ANSWERED, BEFORE, StepProxy
from tests.spark.killing import module_running
from tests.spark.micro_batches import seen
from tests.spark.streams import WAIT_S, wait_for
from tests.spark.support import needs_limits

pytestmark = [needs_limits, pytest.mark.slow, pytest.mark.broker]

PARTITIONS = 3
ROWS = 5000
BATCH = 500
STEPS = (
    (ApiKey.PRODUCE, ANSWERED),
    (ApiKey.TXN_OFFSET_COMMIT, ANSWERED),
    (ApiKey.END_TXN, BEFORE),
    (ApiKey.END_TXN, ANSWERED),
)
"""The steps of a micro-batch at which its driver is killed: after its first rows, and so on."""
SOURCE, TARGET = "rows", "copies"


class Holder:
    """Holds a step of a micro-batch until its connection may end. The proxy's threads call it."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._lock = threading.Lock()
        self._step: tuple[ApiKey, str] | None = None
        self._ended = 0
        self.held, self._released = threading.Event(), threading.Event()

    def arm(self, step: tuple[ApiKey, str]) -> None:
        """Hold the step once, after one transaction has ended."""
        with self._lock:
            self.held, self._released = threading.Event(), threading.Event()
            self._step, self._ended = step, 0

    def release(self) -> None:
        """End the held connection. The step isn't passed on."""
        self._released.set()

    def __call__(self, api: int, phase: str, port: int) -> bool:
        """Handle a step that the proxy reports."""
        with self._lock:
            if self._step != (api, phase) or self._ended == 0:
                self._ended += (api, phase) == (ApiKey.END_TXN, AFTER)
                return True
            self._step = None
        self.held.set()
        assert self._released.wait(2 * WAIT_S), "the driver wasn't killed"
        return False


@pytest.fixture
def holder() -> Holder:
    return Holder()


@pytest.fixture
def proxy(holder: Holder) -> Iterator[StepProxy]:
    with StepProxy(holder) as running_proxy:
        yield running_proxy


@pytest.fixture
def kafka(proxy: StepProxy) -> Iterator[Cluster]:
    """Yield a broker whose clients at the proxy stay there, with the rows."""
    if shutil.which("java") is None:
        pytest.skip("no Spark: java is not installed")
    listener = Listener("PLAINTEXT", {}, [proxy.port])
    with running(1, listeners={"CLIENTS": listener}) as cluster:
        proxy.target = cluster.listeners["CLIENTS"]
        create(cluster, SOURCE, 2)
        create(cluster, TARGET, PARTITIONS)
        with kafka_native.Producer({"bootstrap.servers": cluster.bootstrap}) as producer:
            for number in range(ROWS):
                producer.produce(SOURCE, str(number), partition=number % 2)
            assert producer.flush(WAIT_S) == 0
        yield cluster


def driver_settings(bootstrap: str, checkpoint: Path) -> str:
    servers = {"kafka.bootstrap.servers": bootstrap}
    source = {"subscribe": SOURCE, "startingOffsets": "earliest", "maxOffsetsPerTrigger": BATCH}
    sink = {"topic": TARGET, "kafka.transactional.id": TARGET}
    settings = {
        "master": "local[2]",
        "partitions": PARTITIONS,
        "source": {**servers, **source},
        "sink": {**servers, **sink, "checkpointLocation": str(checkpoint)},
    }
    return json.dumps(settings)


def rows_in(kafka: Cluster, isolation: str) -> Counter[int]:
    found = seen(kafka.bootstrap, TARGET, PARTITIONS, isolation)
    return Counter(int(text) for texts in found.values() for text in texts)


def state(kafka: Cluster) -> TransactionState:
    """Return the state of the sink's transaction, from its coordinator."""
    with AdminClient({"bootstrap.servers": kafka.bootstrap}) as admin:
        return admin.describe_transactions([TARGET])[TARGET].result(WAIT_S).state


def batch_in_progress(checkpoint: Path) -> int:
    """Return the micro-batch that Spark has begun and not ended."""
    begun, ended = (
        {int(path.name) for path in (checkpoint / name).glob("[0-9]*")}
        for name in ("offsets", "commits")
    )
    [batch] = begun - ended
    return batch


def check_killed(kafka: Cluster, step: tuple[ApiKey, str]) -> None:
    """Check that the kill was inside of the transaction, or directly after its end."""
    is_ended = step == (ApiKey.END_TXN, ANSWERED)
    if is_ended:  # the broker answers before it writes the markers
        wait_for(lambda: state(kafka) is TransactionState.COMPLETE_COMMIT, "the markers")
    else:
        assert state(kafka) is TransactionState.ONGOING
    committed, written = (
        rows_in(kafka, isolation).total() for isolation in ("read_committed", "read_uncommitted")
    )
    if not is_ended:
        assert written > committed, "rows of the open transaction"
    assert committed % BATCH == 0, "whole micro-batches"


@pytest.mark.timeout(1800)  # five starts of Spark, which take a minute each on a busy machine
def test_kills_inside_of_transactions_cost_no_row(
    kafka: Cluster, proxy: StepProxy, holder: Holder, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    settings = driver_settings(proxy.address, checkpoint)
    driver = "tests.broker.spark.driver"
    batches = []
    for number, step in enumerate(STEPS):
        holder.arm(step)
        with module_running(tmp_path / f"output-{number}", driver, settings) as command:
            command.wait_until(holder.held.is_set, f"step {step}")
            command.kill()
        check_killed(kafka, step)
        holder.release()
        batches.append(batch_in_progress(checkpoint))
    assert len(set(batches)) == len(STEPS), "each kill was in another micro-batch"
    with module_running(tmp_path / "output", driver, settings) as command:
        command.wait_until(lambda: rows_in(kafka, "read_committed").total() >= ROWS, "all rows")
    assert rows_in(kafka, "read_committed") == Counter(range(ROWS))
    assert rows_in(kafka, "read_uncommitted").total() > ROWS, "rows of aborted transactions"
    assert Counter(int(each) for each in by_theirs(kafka, TARGET, PARTITIONS, 0).values()) == (
        Counter(range(ROWS))
    )
    assert open_transactions(kafka, TARGET, TARGET) == []
