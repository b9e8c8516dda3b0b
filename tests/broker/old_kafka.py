"""Apache Kafka with ZooKeeper: one broker and its ZooKeeper, as processes of this machine.

They run on a Java of today. The releases before 1.0 have the dependencies that they were released
with, and ZooKeeper is among those. The later ones have a newer ZooKeeper: theirs can't connect on
Java 14 and newer.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests import downloads
from tests.broker.cluster import HOST, TEST_OPTIONS, free_ports, quiet
from tests.harness.processes import started
from tests.waiting import wait_for

VERSIONS = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "0.11.0.3")
SCALA = {"0.11.0.3": "2.12"}
POM = Path(__file__).parent / "old-pom.xml"
NEWER_POM = Path(__file__).parent / "zookeeper-pom.xml"
UP_TIMEOUT_SECONDS = 180
LOG_FORMAT = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c %m%n
"""


def jars_of(version: str) -> downloads.JarSet:
    """Return a version's jars, and those that it needs."""
    if not version.startswith("0."):
        return downloads.JarSet(
            f"broker-{version}", NEWER_POM, "copy-dependencies", (f"kafka={version}",)
        )
    properties = (f"kafka={version}", f"scala={SCALA.get(version, '2.11')}")
    return downloads.JarSet(f"kafka-{version}", POM, "copy-dependencies", properties)


class OldKafka:
    """A broker of the ZooKeeper era, with automatic topic creation."""

    def __init__(self, version: str, java_options: Sequence[str] = TEST_OPTIONS) -> None:
        self.version = version
        self.port, self.keeper_port = free_ports(2)
        self.bootstrap = f"{HOST}:{self.port}"
        self.directory = Path(tempfile.mkdtemp(prefix="kafka-native-old-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self.libraries = self.jars()
        log_format = self.file("log4j.properties", LOG_FORMAT)
        self.java = [
            "java",
            *java_options,
            f"-Dlog4j.configuration=file:{log_format}",
            "-Dzookeeper.admin.enableServer=false",  # it would listen on a port of its own choice
            "-cp",
            f"{self.libraries}/*",
        ]

    def jars(self) -> Path:
        """Return the folder of its jars."""
        return downloads.jars(jars_of(self.version))

    def properties(self) -> dict[str, str]:
        """Return the broker's configuration."""
        return {
            "broker.id": "1",
            "host.name": HOST,
            "port": str(self.port),
            "zookeeper.connect": f"{HOST}:{self.keeper_port}",
            "log.dirs": str(self.directory / "data"),
            "num.partitions": "1",
            "log.cleaner.enable": "false",
            # a hundred years, for old timestamps; not all versions support "for ever"
            "log.retention.hours": "876000",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    def start(self) -> None:
        """Return when the broker leads a partition."""
        self.start_processes()
        admin = AdminClient(quiet(self.client_config))
        missing = f"leaders of Apache Kafka {self.version}"
        wait_for(
            lambda: self._leads(admin), lambda: f"{missing}:\n{self._said()}", UP_TIMEOUT_SECONDS
        )

    def start_processes(self) -> None:
        """Start ZooKeeper and the broker. Return when the broker accepts connections."""
        keeper_data = self.directory / "zookeeper"
        keeper = [
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(self.keeper_port),
            str(keeper_data),
        ]
        self._run("zookeeper", keeper)
        self._wait_for(self.keeper_port)
        self.run_broker()

    def run_broker(self) -> None:
        """Start the broker alone. Return when it accepts connections."""
        text = "".join(f"{name}={value}\n" for name, value in self.properties().items())
        self._run("broker", ["kafka.Kafka", self.file("broker.properties", text)])
        self._wait_for(self.port)

    @staticmethod
    def _leads(admin: AdminClient) -> bool:
        """A broker listens before it is a cluster member, and 0.8 has no member without a topic."""
        try:
            partitions = admin.list_topics("first", timeout=10).topics["first"].partitions
            return any(partition.leader == 1 for partition in partitions.values())
        except KafkaException:  # librdkafka can't use a cluster without members
            return False

    @property
    def can_be_asked(self) -> bool:
        """Return whether it supports ApiVersions."""
        return not self.version.startswith(("0.8.", "0.9."))

    @property
    def client_config(self) -> dict[str, Any]:
        """Return the properties that either client needs."""
        how = (
            {}
            if self.can_be_asked
            else {"api.version.request": False, "broker.version.fallback": self.version}
        )
        return {"bootstrap.servers": self.bootstrap, **how}

    def close(self) -> None:
        """End both processes, and delete their files."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=20)
        self._processes.clear()
        shutil.rmtree(self.directory, ignore_errors=True)

    def file(self, name: str, text: str) -> str:
        """Write a file into its directory, and return the path."""
        path = self.directory / name
        path.write_text(text)
        return str(path)

    def _run(self, name: str, command: list[str]) -> None:
        output = self.directory / f"{name}.out"
        self._processes.append(started(*self.java, *command, output=output, cwd=self.directory))

    def _wait_for(self, port: int) -> None:
        deadline = time.monotonic() + UP_TIMEOUT_SECONDS
        while time.monotonic() < deadline and all(
            process.poll() is None for process in self._processes
        ):
            with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
                return
            time.sleep(0.05)
        raise RuntimeError(f"Apache Kafka {self.version} did not come up:\n{self._said()}")

    def _said(self) -> str:
        return "".join(
            path.read_text(errors="replace")[-3000:]
            for path in sorted(self.directory.glob("*.out"))
        )
