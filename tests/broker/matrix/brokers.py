"""One broker of any release of Apache Kafka, with listeners for TLS and SASL where it has them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

from kafka_native.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests import downloads
from tests.broker import cluster, java, old_kafka
from tests.broker.cluster import HOST, free_ports
from tests.broker.kerberos import REALM, Kdc
from tests.broker.old_kafka import OldKafka
from tests.broker.sasl import MODULES
from tests.shared_classes import LEAN
from tests.waiting import PROGRAM_S, WAIT_S

RELEASES = (
    *("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.8.2"),
    *("3.3.2", "3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1", "4.4.0"),
)
"""The releases of the matrix. Those before 3.0 run with ZooKeeper, the others with KRaft."""
KRAFT_POM = Path(java.__file__).with_name("kraft-pom.xml")
OPTIONS = [*LEAN, "-Xms64m", "-Xmx256m"]
USER, PASSWORD = "matrix", "of-the-matrix"


def version_of(release: str) -> tuple[int, ...]:
    """Return a release as numbers, to compare it."""
    return tuple(int(part) for part in release.split("."))


def jars_of(release: str) -> downloads.JarSet:
    """Return the jars of a release."""
    if release == java.KAFKA_VERSION:
        return java.JARS
    if version_of(release) < (3,):
        return old_kafka.jars_of(release)
    properties = (f"kafka={release}",)
    return downloads.JarSet(f"broker-{release}", KRAFT_POM, "copy-dependencies", properties)


class Broker(OldKafka):
    """A broker with ZooKeeper."""

    def __init__(self, release: str, kdc: Kdc | None = None) -> None:
        """``kdc`` has the keys of the broker. Only 0.9 needs it, whose one mechanism is GSSAPI."""
        super().__init__(release, OPTIONS)
        self.tls_port, self.sasl_port = free_ports(2)
        self.kdc = kdc
        self.java[1:1] = self._security_options()
        self.ca = str(self.directory / "ca.pem")

    def jars(self) -> Path:
        """Return the folder of its jars."""
        return downloads.jars(jars_of(self.version))

    def at_least(self, *version: int) -> bool:
        """Return whether the release is this version or newer."""
        return version_of(self.version) >= version

    @property
    def our_config(self) -> dict[str, Any]:
        """Return the properties of a client of ours. Its warnings would hide the table."""
        return {**self.client_config, "log_level": 3}

    @property
    def has_tls(self) -> bool:
        """Return whether the release has listeners with TLS."""
        return self.at_least(0, 9)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Return the SASL mechanisms that this broker offers."""
        if not self.at_least(0, 10):
            return ("GSSAPI",) if self.at_least(0, 9) and self.kdc is not None else ()
        # with KRaft, SCRAM came in 3.5
        has_scram = self.at_least(0, 10, 2) and (self.at_least(3, 5) or not self.at_least(3))
        return ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") if has_scram else ("PLAIN",)

    def _security_options(self) -> list[str]:
        if not self.mechanisms:
            return []
        options = []
        if self.mechanisms == ("GSSAPI",):
            assert self.kdc is not None
            options.append(f"-Djava.security.krb5.conf={self.kdc.conf}")
            principal = f"kafka/{HOST}"
            modules = (
                "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
                f'storeKey=true keyTab="{self.kdc.keytab(principal)}" '
                f'principal="{principal}@{REALM}";'
            )
        else:
            modules = (
                f'{MODULES}.plain.PlainLoginModule required username="broker" '
                f'password="{PASSWORD}" user_broker="{PASSWORD}" user_{USER}="{PASSWORD}";'
            )
        if "SCRAM-SHA-256" in self.mechanisms:
            modules += f"\n{MODULES}.scram.ScramLoginModule required;"
        login = self.file("login.conf", f"KafkaServer {{\n{modules}\n}};\n")
        return [*options, f"-Djava.security.auth.login.config={login}"]

    def listeners(self) -> dict[str, int]:
        """Return the port of each protocol."""
        found = {"PLAINTEXT": self.port}
        if self.has_tls:
            found["SSL"] = self.tls_port
        if self.mechanisms:
            found["SASL_PLAINTEXT"] = self.sasl_port
        return found

    def properties(self) -> dict[str, str]:
        """Return the broker's configuration."""
        found = {**super().properties(), "num.partitions": "2", "delete.topic.enable": "true"}
        if not self.has_tls:
            return found
        del found["host.name"], found["port"]
        return found | self.listener_properties()

    def listener_properties(self) -> dict[str, str]:
        """Return the properties of the listeners, TLS and SASL."""
        found = {
            "listeners": ",".join(
                f"{name}://{HOST}:{port}" for name, port in self.listeners().items()
            ),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": self._keystore(),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
        }
        if self.mechanisms == ("GSSAPI",):
            found["sasl.kerberos.service.name"] = "kafka"
        elif self.mechanisms:
            found["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        return found

    def _keystore(self) -> str:
        """Write a certificate and its authority. PEM is for Kafka from 2.7 on only."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca)
        leaf = authority.issue_cert(HOST, "localhost", common_name="broker")
        key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        first, *others = (load_pem_x509_certificate(pem.bytes()) for pem in leaf.cert_chain_pems)
        stored = pkcs12.serialize_key_and_certificates(
            b"broker", key, first, others, BestAvailableEncryption(PASSWORD.encode())
        )
        path = self.directory / "broker.p12"
        path.write_bytes(stored)
        return str(path)

    @property
    def tls_config(self) -> dict[str, Any]:
        """Return the properties of a client with TLS."""
        return {
            **self.our_config,
            "bootstrap.servers": f"{HOST}:{self.tls_port}",
            "security.protocol": "ssl",
            "ssl.ca.location": self.ca,
        }

    def sasl_config(self, mechanism: str) -> dict[str, Any]:
        """Return the properties of a client with SASL."""
        return {
            **self.our_config,
            "bootstrap.servers": f"{HOST}:{self.sasl_port}",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def start(self) -> None:
        """Return when the broker leads a partition and knows the user."""
        super().start()
        scram = [each for each in self.mechanisms if each.startswith("SCRAM")]
        if scram and self.at_least(2, 7):
            with AdminClient(self.our_config) as admin:
                for each in scram:
                    info = ScramCredentialInfo(ScramMechanism[each.replace("-", "_")], 4096)
                    change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
                    admin.alter_user_scram_credentials([change])[USER].result(WAIT_S)
        elif scram:
            credentials = ",".join(f"{each}=[password={PASSWORD}]" for each in scram)
            self.run_tool(
                *("kafka.admin.ConfigCommand", "--zookeeper", f"{HOST}:{self.keeper_port}"),
                *("--alter", "--add-config", credentials),
                *("--entity-type", "users", "--entity-name", USER),
            )

    def run_tool(self, main_class: str, *args: str) -> None:
        """Run a class of the release to its end."""
        done = subprocess.run(
            [*self.java, main_class, *args],
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
            check=False,
        )
        assert done.returncode == 0, f"{main_class}:\n{done.stdout}{done.stderr}"


class KraftBroker(Broker):
    """A broker that is its own controller."""

    def properties(self) -> dict[str, str]:
        """Return the broker's configuration."""
        data = str(self.directory / "data")
        found = cluster.properties(1, [self.port], [self.keeper_port], data)
        listeners = self.listener_properties()
        listeners["listeners"] += f",CONTROLLER://{HOST}:{self.keeper_port}"
        protocols = [f"{name}:{name}" for name in self.listeners()]
        return {
            **{
                name: value
                for name, value in found.items()
                if not name.startswith(("group.share.", "advertised.", "authorizer.", "super."))
            },
            **listeners,
            "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
            "auto.create.topics.enable": "true",
        }

    def start_processes(self) -> None:
        """Make the broker's storage and start it. Return when it accepts connections."""
        text = "".join(f"{name}={value}\n" for name, value in self.properties().items())
        path = self.file("broker.properties", text)
        cluster_id = "TWF0cml4T2ZSZWxlYXNlcw"
        self.run_tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", path)
        self.run_broker()


def broker_of(release: str, kdc: Kdc | None = None) -> Broker:
    """Return a broker of this release. It isn't started."""
    return (Broker if version_of(release) < (3,) else KraftBroker)(release, kdc)
