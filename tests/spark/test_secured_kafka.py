"""Clusters with TLS and SASL, with Spark's own options: equal rows, and no visible secrets."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from kafka_native.admin import ScramMechanism
from kafka_native.spark.pipelines.archive import archive
from kafka_native.spark.pipelines.mirror import mirror
from tests.broker.certificates import Authority
from tests.broker.cluster import Cluster, Listener
from tests.broker.sasl import MODULES, add_user
from tests.broker.support import TopicMaker, running
from tests.spark.conftest import ROOT
from tests.spark.streams import completed, started, wait_for
from tests.waiting import PROGRAM_S

pytestmark = [pytest.mark.slow, pytest.mark.broker]

JVM, OURS = "kafka", "kafka_native"
SECRET = "s3cret-word"
KEY = "kafka.ssl.keystore.key"
KEY_SECRET = "s3cret-of-the-key"
SCRAM = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
}
COMMON_NAME = "RULE:^CN=([^,]*),.*$/$1/,DEFAULT"


class Secured(NamedTuple):
    """A broker, and the options for each of its listeners."""

    cluster: Cluster
    options: dict[str, dict[str, str]]

    def of(self, format_: str, listener: str) -> dict[str, str]:
        """Return a connector's options. Ours has an encrypted key, unlike Java's."""
        locked = {
            name: locked_key(value) for name, value in self.options[listener].items() if name == KEY
        }
        if format_ == JVM or not locked:
            return self.options[listener]
        return {**self.options[listener], **locked, "kafka.ssl.key.password": KEY_SECRET}

    def properties(self, listener: str) -> dict[str, str]:
        """Return the same for a pipeline."""
        return {
            name.removeprefix("kafka."): value for name, value in self.of(OURS, listener).items()
        }


def locked_key(key: str) -> str:
    private: Any = load_pem_private_key(key.encode(), None)
    locked: bytes = private.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(KEY_SECRET.encode())
    )
    return locked.decode()


def login(password: str) -> str:
    """Return a JAAS configuration, as in Spark jobs."""
    return f'{MODULES}.scram.ScramLoginModule required username="alice" password="{password}";'


def pem_options(authority: Authority) -> dict[str, dict[str, str]]:
    """Return the options of the listeners for passwords and for certificates."""
    certificate, key = (
        Path(name).read_text(encoding="ascii") for name in authority.client("alice")
    )
    trust = {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": Path(authority.ca).read_text(encoding="ascii"),
    }
    own = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": certificate,
        KEY: key,
    }
    user = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": login(SECRET),
    }
    return {"SASLTLS": {**trust, **user}, "MUTUAL": {**trust, **own}}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    authority = Authority(tmp_path_factory.mktemp("certificates"))
    listeners = {
        "SASLTLS": Listener("SASL_SSL", authority.listener() | SCRAM),
        "MUTUAL": Listener(
            "SSL", authority.listener("required") | {"ssl.principal.mapping.rules": COMMON_NAME}
        ),
    }
    may = {"super.users": "User:ANONYMOUS;User:alice"}
    with running(1, changes=may, listeners=listeners) as cluster:
        add_user(cluster, "alice", SECRET, [ScramMechanism.SCRAM_SHA_512])
        options = pem_options(authority)
        for name, each in options.items():
            each["kafka.bootstrap.servers"] = cluster.listeners[name]
        yield Secured(cluster, options)


def rows(spark: SparkSession, format_: str, options: dict[str, str], topic: str) -> list[Row]:
    """Return a topic's rows from either connector, in order."""
    frame = spark.read.format(format_).options(**options).option("subscribe", topic).load()
    return sorted(frame.collect(), key=lambda row: (row.partition, row.offset))


def values(found: list[Row]) -> list[int]:
    return sorted(int(bytes(row.value)) for row in found)


@pytest.mark.parametrize("listener", ["SASLTLS", "MUTUAL"])
def test_one_reads_what_the_other_wrote(
    connected: SparkSession, secured: Secured, new_topic: TopicMaker, tmp_path: Path, listener: str
) -> None:
    ours, theirs = (secured.of(format_, listener) for format_ in (OURS, JVM))
    topic, copy = (new_topic(secured.cluster, partitions=2) for _ in range(2))
    for format_, options, first in ((OURS, ours, 0), (JVM, theirs, 500)):
        frame = connected.range(first, first + 500, 1, 2).selectExpr(
            "cast(cast(id as string) as binary) value", "cast(cast(id % 7 as string) as binary) key"
        )
        frame.write.format(format_).options(**options).option("topic", topic).mode("append").save()
    found = rows(connected, JVM, theirs, topic)
    assert values(found) == list(range(1000))
    assert rows(connected, OURS, ours, topic) == found

    stream = connected.readStream.format(OURS).options(**ours).option("subscribe", topic)
    writer = (
        stream.option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
        .writeStream.format(OURS)
    )
    writer = (
        writer.options(**ours).option("topic", copy).option("checkpointLocation", str(tmp_path))
    )
    query = completed(writer.trigger(availableNow=True).start)
    assert query.exception() is None
    found = rows(connected, JVM, theirs, copy)
    assert values(found) == list(range(1000))
    assert rows(connected, OURS, ours, copy) == found


def test_pipelines_take_the_same_options(
    connected: SparkSession, secured: Secured, new_topic: TopicMaker, tmp_path: Path
) -> None:
    topic, copy = (new_topic(secured.cluster, partitions=2) for _ in range(2))
    frame = connected.range(1000).selectExpr("cast(id as string) value", "cast(id as string) key")
    sasl, mutual = secured.options["SASLTLS"], secured.options["MUTUAL"]
    frame.write.format(OURS).options(**sasl).option("topic", topic).mode("append").save()
    mirrored = mirror(
        connected,
        secured.properties("SASLTLS"),
        secured.properties("MUTUAL"),
        (tmp_path / "mirror").as_uri(),
        topics=[topic],
        to=copy,
    )
    assert mirrored.records == 1000
    kept = [[(row.partition, row.key, row.value, row.timestamp) for row in rows(connected, JVM, *each)]
            for each in ((sasl, topic), (mutual, copy))]  # fmt: skip
    assert kept[0] == kept[1]
    done = archive(
        secured.properties("MUTUAL"), str(tmp_path / "lake"), topics=[copy], session=connected
    )
    assert done.records == 1000


WRONG = "s3cret-but-wrong"


def test_a_wrong_password_ends_queries_with_the_reason(
    connected: SparkSession, secured: Secured, new_topic: TopicMaker, tmp_path: Path
) -> None:
    """Without the immediate error each query would wait for one or two minutes."""
    topic = new_topic(secured.cluster)
    options = {**secured.options["SASLTLS"], "kafka.sasl.jaas.config": login(WRONG)}
    said = r"_AUTHENTICATION.*SASL authentication of user 'alice' with SCRAM-SHA-512 failed"
    with pytest.raises(PySparkException, match=said):
        rows(connected, OURS, options, topic)
    writer = (
        connected.sql("select 'x' value")
        .write.format(OURS)
        .options(**options)
        .option("topic", topic)
    )
    with pytest.raises(PySparkException, match=said):
        writer.mode("append").save()
    stream = connected.readStream.format(OURS).options(**options).option("subscribe", topic).load()
    query = started(
        stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start
    )
    wait_for(lambda: not query.isActive, "the query's end")
    assert re.search(said, str(query.exception()))


def redaction() -> str:
    """Return the pattern with which Spark redacts other secrets, from the guide."""
    guide = (ROOT / "docs" / "guide" / "spark.md").read_text(encoding="utf-8")
    [found] = re.findall(r'"spark\.sql\.redaction\.options\.regex", r"(.+?)"\)', guide)
    return str(found)


PROGRAM = """
import json, sys, time
from tests.spark.conftest import make_session
from kafka_native.spark.pipelines.archive import archive

said = json.load(sys.stdin)
session = make_session(**said["conf"])
session.sparkContext.setLogLevel("INFO")
options, topic = said["options"], said["topic"]


def attempt(work):
    try:
        print("DONE", work())
    except Exception as error:
        print("FAILED", error)


def read(options, **more):
    return session.read.format("kafka_native").options(**options).option("subscribe", topic).options(**more).load()


def write(options, topic):
    frame = session.range(100).selectExpr("cast(id as string) value")
    frame.write.format("kafka_native").options(**options).option("topic", topic).mode("append").save()


def stream(options, place):
    frame = session.readStream.format("kafka_native").options(**options).option("subscribe", topic)
    frame = frame.option("startingOffsets", "earliest").load().select("value")
    writer = frame.writeStream.format("kafka_native").options(**options).option("topic", said["copy"])
    query = writer.option("checkpointLocation", place).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.explain(True)
        print(query.recentProgress, query.exception())
    return "streamed"


try:
    for each in options:
        attempt(lambda: write(each, topic))
        frame = read(each)
        frame.explain("extended")
        attempt(lambda: frame.collect()[0].offset)
        beyond = {"endingOffsets": json.dumps({topic: {"0": 1_000_000}}), "fetchOffset.numRetries": "0"}
        attempt(lambda: read(each, **beyond).count())
        attempt(lambda: stream(each, said["checkpoint"] + each["kafka.security.protocol"]))
    config = {name.removeprefix("kafka."): value for name, value in options[1].items()}
    attempt(lambda: archive(config, said["lake"], topics=[topic], session=session).records)
    wrong = {**options[0], "kafka.sasl.jaas.config": said["wrong"]}
    attempt(lambda: read(wrong).count())
    attempt(lambda: write(wrong, topic))
    attempt(lambda: stream(wrong, said["checkpoint"] + "wrong"))
    attempt(lambda: read({**options[1], "kafka.ssl.key.password": "s3cret-no-key"}).count())
finally:
    session.stop()
"""


def test_secrets_are_in_no_plan_log_checkpoint_or_error(
    connected: SparkSession, secured: Secured, new_topic: TopicMaker, tmp_path: Path
) -> None:
    """The driver's log at level INFO, and the event log of Spark's history server."""
    folder = tmp_path / "left"
    (folder / "events").mkdir(parents=True)
    topic, copy = new_topic(secured.cluster), new_topic(secured.cluster)
    options = [secured.of(OURS, listener) for listener in ("SASLTLS", "MUTUAL")]
    given = {"options": options, "topic": topic, "copy": copy, "wrong": login(WRONG)}
    given |= {"checkpoint": str(folder / "checkpoint-"), "lake": str(folder / "lake")}
    given["conf"] = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.sql.ui.explainMode": "extended",  # by default it shows no options of a sink
        "spark.sql.redaction.options.regex": redaction(),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=PROGRAM_S,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    (folder / "stdout").write_text(done.stdout, encoding="utf-8")
    (folder / "stderr").write_text(done.stderr, encoding="utf-8")
    secrets = ["s3cret", *(line for line in options[1][KEY].splitlines() if "--" not in line)]
    left = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shown = {
        str(path.relative_to(folder))
        for path, text in left.items()
        for each in secrets
        if each.encode() in text
    }
    assert shown == set()
    events = b"".join(text for path, text in left.items() if "events" in path.parts)
    assert b"kafka.ssl.keystore.key=*********(redacted)" in events
    outcomes = re.findall(r"^(DONE|FAILED) ", done.stdout, re.M)
    assert outcomes == ["DONE", "DONE", "FAILED", "DONE"] * 2 + ["DONE"] + ["FAILED"] * 4, (
        done.stdout
    )
    assert "INFO DAGScheduler" in done.stderr
