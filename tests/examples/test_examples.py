"""Every example runs on the mock cluster with the packages that it names alone, and prints its promised output."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_native._native import codec_core
from kafka_native.mock import MockCluster
from tests.examples import needs
from tests.waiting import PROGRAM_S

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples"

OUTPUT = {
    "command_line.sh": [
        "1 bob engaged",
        "copied:  2 ann 1 bob",
        '"lag":1',
        '"first":0,"end":3,"messages":3',
        "gone: exit status 1",
    ],
    "typed_command_line.sh": [
        "version 1, id 1",
        '{"sensor":"roof","degrees":21.5,"at":"2024-05-01T12:00:00Z"}',
        '{"sensor":"cellar","degrees":null,"at":"2024-05-01T12:00:00.250Z"}',
        "[21.5, None]",
        "refused: exit status 1",
        "compatible (BACKWARD)",
    ],
    "transactions.py": [
        "aborted: the till is short",
        "refused: _STATE",
        "processed: 3",
        "receipts: ['paid 0', 'paid 1', 'paid 2']",
    ],
    "avro_columns.py": [
        "1000 rows: ['sensor', 'degrees']",
        "{'sensor': 'sensor 0', 'degrees_max': 39}",
    ],
    "typed_columns.py": [
        "1000 rows: ['offset', 'sensor', 'degrees']",
        "('sensor 0', 39)",
        "(1000, 'there is no schema framing",
    ],
    "avro_objects.py": [
        "Order(id=1, state=<State.PAID: 'PAID'>, items=[Item(name='tea', count=2), Item(name='milk', count=1)])",
        "Order(id=2, state=<State.NEW: 'NEW'>, items=[])",
        "offset 2: field state, byte 1: an enum has no such symbol",
    ],
    "protobuf_columns.py": [
        "1000 rows: ['page', 'took']",
        "longest visit: 0:00:39",
    ],
    "json_columns.py": [
        "1000 rows: ['sensor', 'degrees']",
        "hottest: 19.5",
        "inferred: struct<sensor: string, degrees: double>",
    ],
    "produce_typed_columns.py": [
        "10000 records queued",
        "{'sensor': 'sensor 0', 'degrees': 0.0, 'place': 'unknown'}",
        "refused: row 0, field sensor: the schema doesn't allow null here",
    ],
    "produce_protobuf_columns.py": [
        "2 messages queued",
        "refused: sensr: the message has no such field",
        "('a', 21.5, {'city': 'Bern'})",
    ],
    "permissions.py": [
        "made: User:shop WRITE orders-",
        "made: User:billing READ billing",
        "orders-eu: ['User:shop']",
        "deleted: 2",
        "shop: [('SCRAM_SHA_512', 8192)]",
        "elections that failed: []",
    ],
    "admin.py": [
        "made: orders",
        "refused: no topic's name TOPIC_EXCEPTION",
        "5 partitions on ",
        "retention.ms: 60000",
        "messages: 0",
        "errors of brokers: []",
        "left: False",
    ],
    "asyncio_admin.py": [
        "made: aio-orders",
        "refused: no topic's name TOPIC_EXCEPTION",
        "3 brokers, errors: []",
        "partitions: 2",
        "deleted: True",
    ],
    "two_phase.py": ["Kafka: ['tea', 'coffee', 'milk']", "database: ['tea', 'coffee', 'milk']"],
    "hanging_transactions.py": [
        "open: ['shop']",
        "it writes to: [('orders', 0)]",
        "hangs: orders [0] from offset 0",
        "read: b'behind it'",
    ],
    "delegation_token.py": [
        "made: User:job-7 asked for by User:alice",
        "its HMAC is in the repr: False",
        "brokers seen with it: 3",
        "afterwards: _",
    ],
    "cluster_admin.py": [
        "made: 5 partitions, retention.ms 604800000",
        "page: [0, 1] on the last broker: True",
        "page: [4] on the last broker: True",
        "in directories: 1",
        "quotas of reports: {'consumer_byte_rate': 1000000.0}",
        "features known: True",
        "the active controller votes: True",
    ],
    "arrow.py": [
        "100 rows of ",
        "['offset', 'key', 'value']",
        "10000 rows, 10 cities",
        "'key': 'city 0'",
    ],
    "arrow_produce.py": [
        "100000 rows queued",
        "refused: value='readings'",
        "100000 of 100000 rows delivered, 0 failed",
    ],
    "produce.py": ["1000 messages delivered"],
    "consume.py": ["1000 messages read", "b'hello "],
    "groups.py": [
        "first has got [0, 1, 2, 3]",
        "first gives up",
        "1000 messages read by two members",
    ],
    "share_group.py": [
        "accepted: 90",
        "rejected: [9, 19, 29, ",
        "released once: [5, 15, 25, ",
        "failures: 0",
        "left to do: [0]",
    ],
    "asyncio_share.py": ["201 jobs done, failures: 0"],
    "share_arrow.py": ["errors: []", "9900 temperatures, sum 194000"],
    "share_renew.py": [
        "errors: []",
        "done, each once: [0, 1, 2, 3, 4, 5, 6, 7]",
        "renewed more than once: True",
    ],
    "streams_group.py": ["first runs [0, 1, 2, 3]", "first stops [", "second runs ["],
    "commits.py": [
        "committed: ",
        "partitions committed and waited for: 4",
        "the tenth message, plus one: 10",
    ],
    "data_contracts.py": [
        "failed: the amount has to be positive",
        "written and read: {'id': 1, 'amount': 20, 'mail': 'ada@example.com'}",
    ],
    "encryption.py": [
        "the card is in the message: False",
        "with the key: {'id': 7, 'card': '4111 1111'}",
        "no executor of type ENCRYPT is registered",
    ],
    "wakeup.py": ["1000 messages, then a signal", "left the group"],
    "seek.py": [
        "offsets 0 to 100",
        "first: [b'0', b'1', b'2']",
        "after seek: [b'90'",
        "paused: None",
        "resumed: b'93'",
    ],
    "connections.py": [
        "added servers: 3",
        "left in the queue: 0",
        "the last refresh: asking for 1 topic(s)",
        "connections for messages: 6",
    ],
    "shared_client.py": [
        "left to deliver: 0",
        "read by two members: 100",
        "control threads: 1",
        "closed: <Client rdkafka#client-1 (closed)>",
    ],
    "partition_queues.py": ["partitions: [14850, 14950, 15050]"],
    "lag.py": [
        "yet: None",
        "the first message: 49 and after the last: 0",
        "assigned: [0]",
        "them: 0",
    ],
    "from_confluent_kafka.py": [
        "refused: _VALUE_SERIALIZATION",
        "100 messages delivered by kafka_native.producer",
        "first: 'key 0' 0",
    ],
    "debug_log.py": [
        (
            "kafka_native.orders.topic [kafka-native orders#producer-1] orders#producer-1: "
            "greetings [0]: leader "
        ),
        "kafka_native.orders.msg [kn-broker-",
        "1 message(s) written from offset ",
        (
            "BROKER: [thrd:kafka-native rdkafka#producer-2]: 127.0.0.1:1/bootstrap: connect "
            "failed: 127.0.0.1:1: "
        ),
        "levels: [3, 4]",
    ],
    "tls.py": [
        "TLSv1.3 with CN=alice",
        "refused: ssl.key.location=.../nobody.key: no such file",
        "is for elsewhere.invalid, not 127.0.0.1",
        "is none of the CAs of ssl.ca.location=",
    ],
    "proxy.py": [
        "delivered: 30",
        "refused: 127.0.0.1:",
        (
            "proxy 127.0.0.1:3128: it wants a login: set proxy.url to "
            "http://user:password@host:port (HTTP says 407)"
        ),
    ],
    "errors.py": [
        "bootstrap.servers",
        "value must be bytes",
        "MSG_SIZE_TOO_LARGE",
        "delivery: _MSG_TIMED_OUT",
        "'_TRANSPORT', '_ALL_BROKERS_DOWN'",
    ],
    "produce_many.py": ["100000 messages delivered, 1 could not be queued: MSG_SIZE_TOO_LARGE"],
    "backpressure.py": ["100000 messages through a queue of 1000, 0 failed"],
    "partitioner.py": ["100 urgent messages in partition 0, 900 in the others"],
    "keyless.py": ["less than a third"],
    "client_metrics.py": [
        "org.apache.kafka.producer.request.latency.max = ",
        "org.apache.kafka.consumer.coordinator.commit.latency.avg = ",
        "ms, a sum, labels ['group_id', 'group_member_id']",
        "pushed by 2 clients, 2 said goodbye",
    ],
    "gapless.py": [
        "_GAPLESS_GUARANTEE",
        "x INVALID_RECORD (NOT_PERSISTED)",
        "0 to 49 without a gap: True",
    ],
    "exactly_once.py": ["1000 messages delivered, in order: True", "`acks` must be set to `all`"],
    "compacted.py": [
        "{'ada': 'London', 'grace': 'Arlington'}",
        "5 records, 1 of them tombstones",
        "delete: ada",
        "insert: barbara",
    ],
    "asyncio_produce.py": ["1000 messages delivered for 100 tasks", "refused: MSG_SIZE_TOO_LARGE"],
    "asyncio_consume.py": [
        "assigned: 2 partitions, committed so far: [-1001, -1001]",
        "1000 messages read, committed: [",
        "headers: [('page', b'",
        "within half a second: None",
    ],
    "assignor.py": ["strong: 9 partitions, weak: 3"],
    "interceptors.py": [
        "[('MSG_SIZE_TOO_LARGE', 1), ('delivered', 100)]",
        "[('origin', b'examples')] 1000 bytes",
    ],
    "monitoring.py": [
        "stats_cb: messages delivered: 1000",
        "metrics(): messages: 1000 bytes: 15000",
        "brokers up: [",
        "read up to 600 of 1000",
        "['kafka_native_partition_app_offset']",
    ],
    "tracing.py": [
        "working on b'an order' ['traceparent']",
        "['checkout', 'poll traced', 'process traced', 'send traced']",
        "one trace: True links of the poll: 1",
    ],
    "spark_stream.py": [
        "micro-batches: [400, 400, 200]",
        "after a restart: [100]",
        "rows in the files: 1100",
        "the checkpoint ends at {'readings': {'0': 1100}}",
    ],
    "test_with_mock_cluster.py": ["2 passed"],
    "test_with_faults.py": ["5 passed"],
    "test_with_mock_registry.py": ["3 passed"],
    "schema_registry.py": [
        "registered twice, one id: True",
        "compatible: False",
        "refused: 409 409",
        "latest version: 2 used by money: [2, 3]",
        "versions: [2]",
        "deleted: [1]",
        'the id still reads: {"type":"record","name":"Payment"',
    ],
    "typed_messages.py": [
        "refused: topic invoices, value, schema id 1: amount: 'a lot' isn't a valid double",
        "registered: 1",
        "read: {'id': 1, 'amount': 9.5, 'currency': 'EUR'}",
        "object: Payment(id=3, amount=1.5)",
    ],
    "typed_objects.py": [
        "dataclass: 1 2026-11-28T09:30:00+00:00 ['tea', 'milk']",
        "struct: OrderTime(id=1, at=datetime.datetime(2026, 11, 28, 9, 30, ",
        "value, schema id 1: the value doesn't fit OrderTime: Invalid RFC3339",
        "Reading: Reading(sensor='roof', degrees=None)",
        "ReadingDict: {'sensor': 'roof', 'degrees': 0.0}",
        "dict: {'sensor': 'roof', 'degrees': None}",
    ],
    "spark_progress.py": [
        "400 rows, 600 offsets behind",
        "200 rows, 0 offsets behind",
        'kafka_native_stream_rows_total{query="clicks"} 1000.0',
    ],
    "spark_typed.py": [
        "value: struct<sensor:string,degrees:int>",
        "sensor 0: 39",
        ", bytes b'not Avro'",
    ],
    "spark_typed_write.py": [
        "value: struct<sensor:string,degrees:double,at:timestamp>",
        "sensor 2: 24.5",
        '{"sensor":"sensor 0","degrees":0.0,"at":"1970-01-01T00:00:00Z"}',
    ],
    "spark_dead_letters.py": [
        "rows: 100\n",
        "dead letter: offset 100, schema id 2: ",
        "registered: 2",
        "replayed: 1, left: 0",
        "rows: 101",
    ],
    "spark_sink_dead_letters.py": [
        "written: 98\n",
        "dead letter, field None: a row is larger than kafka.max.request.size=1000",
        "dead letter, field sensor: the schema doesn't allow null here",
        "replayed: 1, left: 1, written: 100",
    ],
    "spark_tables.py": [
        "DeltaTarget: 100 records, next offset 100",
        "IcebergTarget: 20 records, next offset 120",
        "merged: 2 files",
        "customer 0: 41 records",
        "columns: topic, partition, offset, timestamp,",
        "Iceberg, from offset 100: 20",
    ],
    "spark_typed_archive.py": [
        "archived: 3, dead letters: 1",
        "archived: 3, dead letters: 0",
        "value moves from the reader's schema id 1",
        "added room string",
        "sensor a: 21.0 degrees, 2 with a room",
        "fields: ['sensor', 'degrees', 'room']",
    ],
    "spark_write.py": [
        "frame: 1000 rows written",
        "stream, first run: 300 rows in 3 micro-batches",
        "stream, second run: 0 rows",
        "column value (there are: id): select what to write AS value",
    ],
    "spark_secured.py": [
        "rows: 1000",
        "SASL authentication of user 'alice' with SCRAM-SHA-512 failed",
        "the password is in the error: False",
    ],
    "spark_connect.py": [
        "read: 1000 of key 3: 100",
        "copied: 1000 rows in micro-batch 0",
    ],
    "spark_exactly_once.py": [
        "first run: 100 rows",
        "the same batch again: 100 rows",
        "there is no column partition: to write exactly once",
    ],
}


AFTER = dict.fromkeys(("consume.py", "groups.py", "commits.py", "wakeup.py"), "produce.py")
"""The example that each of these continues, as the README of the examples says."""


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A cluster for one example alone, with the topics that need a number of partitions."""
    with MockCluster(brokers=3) as cluster:
        cluster.create_topic("greetings", 4)
        cluster.create_topic("numbers", 1)
        cluster.create_topic("ledger", 1)
        cluster.create_topic("readings", 1)
        cluster.create_topic("visits", 2)
        cluster.create_topic("temperatures", 1)
        yield cluster.bootstrap_servers


ON_SPARK = [name for name in OUTPUT if name.startswith("spark_")]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name.endswith(".sh") else [])
        for name in OUTPUT
        if not name.startswith("spark_")
    ],
)
def test_example_runs_alone_in_an_empty_folder(name: str, bootstrap: str, tmp_path: Path) -> None:
    if name == "json_columns.py" and not codec_core.HAS_JSON:
        pytest.skip("this build has no simdjson (libsimdjson-dev)")
    for each in (AFTER.get(name), name):
        if each is not None:
            run(each, bootstrap, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_SPARK)
def test_example_runs_on_spark(name: str, bootstrap: str, tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("no Spark: java is not installed")
    if name == "spark_connect.py":
        from tests.spark.support import connect_missing  # it imports PySpark

        if why := connect_missing():
            pytest.skip(f"no Spark Connect: {why}")
    run(name, bootstrap, tmp_path)


@functools.cache
def spark_python() -> str:
    """Return the guide's Python for Spark, if Spark is there."""
    try:
        from kafka_native.spark import worker_python
    except ImportError:
        return sys.executable
    return worker_python()


def run(name: str, bootstrap: str, folder: Path) -> None:
    program, needed = [], needs.named((EXAMPLES / name).read_text(encoding="utf-8"))
    environment = os.environ | {
        "BOOTSTRAP": bootstrap,
        "PYTHONPATH": f"{HERE / 'only_named'}{os.pathsep}{ROOT}",
        "PYSPARK_PYTHON": spark_python(),
        "HIDDEN_MODULES": str(folder / "hidden.json"),
    }
    if name.startswith("test_"):
        program = ["-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder)]
        program += ["-p", "no:cacheprovider", "-p", "kafka_native.pytest_plugin"]
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        needed.append("pytest")
    (folder / "hidden.json").write_text(json.dumps(needs.hidden_modules(needed)))
    if name == "spark_connect.py":
        environment["SPARK_TESTING"] = "1"  # PySpark's own: the server takes any free port
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["sh" if name.endswith(".sh") else sys.executable, *program, str(EXAMPLES / name)]
    done = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for text in OUTPUT[name]:
        assert text in done.stdout


def test_every_example_is_run_and_listed() -> None:
    found = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")}
    assert found == set(OUTPUT)
    page = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}`" in page for name in found)
