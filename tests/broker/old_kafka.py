"""Apache Kafka from before 0.11 and of 0.11: one broker and its ZooKeeper, as processes of this
machine.

They run on a Java of today with the dependencies that they were released with, and ZooKeeper is
among those.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
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
UP_TIMEOUT_SECONDS = 180
LOG_FORMAT = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c %m%n
"""


def jars_of(version: str) -> downloads.JarSet:
    """Return a version's jars, and those with which it was released."""
    properties = (f"kafka={version}", f"scala={SCALA.get(version, '2.11')}")
    return downloads.JarSet(f"kafka-{version}", POM, "copy-dependencies", properties)


class OldKafka:
    """A broker of the ZooKeeper era, with automatic topic creation."""

    def __init__(self, version: str) -> None:
        self.version = version
        self._port, self._keeper_port = free_ports(2)
        self.bootstrap = f"{HOST}:{self._port}"
        self._directory = Path(tempfile.mkdtemp(prefix="kafka-native-old-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        libraries = downloads.jars(jars_of(version))
        log_format = self._file("log4j.properties", LOG_FORMAT)
        self._java = [
            "java",
            *TEST_OPTIONS,
            f"-Dlog4j.configuration=file:{log_format}",
            "-cp",
            f"{libraries}/*",
        ]

    def start(self) -> None:
        """Return when the broker accepts connections."""
        properties = {
            "broker.id": "1",
            "host.name": HOST,
            "port": str(self._port),
            "zookeeper.connect": f"{HOST}:{self._keeper_port}",
            "log.dirs": str(self._directory / "data"),
            "num.partitions": "1",
            "log.cleaner.enable": "false",
            # a hundred years, for old timestamps; not all versions support "for ever"
            "log.retention.hours": "876000",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
        }
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        keeper_data = self._directory / "zookeeper"
        keeper = [
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(self._keeper_port),
            str(keeper_data),
        ]
        self._run("zookeeper", keeper)
        self._wait_for(self._keeper_port)
        self._run("broker", ["kafka.Kafka", self._file("broker.properties", text)])
        self._wait_for(self._port)
        admin = AdminClient(quiet(self.client_config))
        missing = f"leaders of Apache Kafka {self.version}"
        wait_for(
            lambda: self._leads(admin), lambda: f"{missing}:\n{self._said()}", UP_TIMEOUT_SECONDS
        )

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
        shutil.rmtree(self._directory, ignore_errors=True)

    def _file(self, name: str, text: str) -> str:
        path = self._directory / name
        path.write_text(text)
        return str(path)

    def _run(self, name: str, command: list[str]) -> None:
        output = self._directory / f"{name}.out"
        self._processes.append(started(*self._java, *command, output=output, cwd=self._directory))

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
            for path in sorted(self._directory.glob("*.out"))
        )
