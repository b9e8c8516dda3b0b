"""GSSAPI on a real Apache Kafka, with MIT Kerberos.

Clients are processes: Kerberos reads its settings once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import kerberos
from tests.broker.cluster import HOST, TEST_OPTIONS, Cluster, Listener
from tests.broker.kerberos import REALM, Kdc
from tests.broker.support import TopicMaker, running
from tests.harness.processes import output

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PROGRAM = """\
import json, sys, time
from kafka_native import Consumer, Producer, TopicPartition

topic, settings = sys.argv[1], json.loads(sys.argv[2])
errors = []
with Producer({**settings, "error_cb": errors.append}) as producer:
    producer.produce(topic, b"hello")
    left = producer.flush(20 if len(sys.argv) == 3 else 3)
    print("left", left, *errors)
    producer.purge()
    producer.flush(5)
if left == 0:
    with Consumer({**settings, "group.id": "kerberos"}) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        print("value", consumer.consume(1, 20)[0].value())
"""


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    why = kerberos.missing()
    if why:
        pytest.skip(f"no Kerberos: {why}")
    with Kdc(tmp_path_factory.mktemp("kerberos")) as running:
        yield running


@pytest.fixture(scope="module")
def kerberized(kdc: Kdc) -> Iterator[Cluster]:
    """Yield one broker with a listener for Kerberos."""
    principal = f"kafka/{HOST}"
    login = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
        f'keyTab="{kdc.keytab(principal)}" principal="{principal}@{REALM}";'
    )
    values = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "gssapi.sasl.jaas.config": login,
        "sasl.kerberos.service.name": "kafka",
        "gssapi.connections.max.reauth.ms": "3000",
    }
    options = [*TEST_OPTIONS, f"-Djava.security.krb5.conf={kdc.conf}"]
    changes = {"super.users": "User:ANONYMOUS;User:app"}
    listeners = {"KERBEROS": Listener("SASL_PLAINTEXT", values)}
    with running(1, java_options=options, changes=changes, listeners=listeners) as cluster:
        yield cluster


def client(kdc: Kdc, cluster: Cluster, topic: str, *more: str, **own: str) -> str:
    """Return the output of a client that writes a message and reads it."""
    import json

    settings = {
        "bootstrap.servers": cluster.listeners["KERBEROS"],
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "GSSAPI",
        **{name.replace("_", "."): value for name, value in own.items()},
    }
    environment = {**os.environ, **kdc.environment, "KRB5CCNAME": f"FILE:{kdc.folder / 'tickets'}"}
    command = [sys.executable, "-c", PROGRAM, topic, json.dumps(settings), *more]
    return output(*command, env=environment, cwd=Path(__file__).parents[2])


def test_a_keytab_a_command_and_tickets_authenticate(
    kdc: Kdc, kerberized: Cluster, new_topic: TopicMaker
) -> None:
    keytab = str(kdc.keytab("app"))
    topic = new_topic(kerberized)
    without = client(kdc, kerberized, topic, "briefly")
    assert "left 1" in without
    assert "isn't possible" in without, "without tickets and keys the client can't log in"
    with_keytab = client(
        kdc, kerberized, topic, sasl_kerberos_keytab=keytab, sasl_kerberos_principal="app"
    )
    assert with_keytab == "left 0\nvalue b'hello'\n"
    command = "kinit -k -t %{sasl.kerberos.keytab} app"
    with_command = client(
        kdc,
        kerberized,
        topic,
        **{"sasl.kerberos.kinit.cmd": command, "sasl.kerberos.keytab": keytab},
    )
    assert "left 0" in with_command
    assert client(kdc, kerberized, topic) == "left 0\nvalue b'hello'\n", (
        "the command's tickets still exist"
    )


def test_another_service_name_is_an_error(
    kdc: Kdc, kerberized: Cluster, new_topic: TopicMaker
) -> None:
    own = {"sasl_kerberos_keytab": str(kdc.keytab("app2")), "sasl_kerberos_service_name": "other"}
    said = client(
        kdc, kerberized, new_topic(kerberized), "briefly", sasl_kerberos_principal="app2", **own
    )
    assert "_AUTHENTICATION" in said
    assert "not found in Kerberos database" in said
