"""Apicurio Registry, which others wrote, with its API for clients of Confluent's registry."""

from __future__ import annotations

import socket
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import downloads
from tests.harness.processes import started
from tests.mock.registry_calls import call
from tests.waiting import PROGRAM_S, wait_for

VERSION = "2.6.13.Final"
JARS = downloads.JarSet(
    f"apicurio-{VERSION}", Path(__file__).with_name("apicurio-pom.xml"), "copy-dependencies"
)


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run a registry that keeps everything in memory. Yields the URL of its API."""
    (archive,) = downloads.jars(JARS).iterdir()
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    port, log = free_port(), folder / "log"
    address = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"]
    jar = folder / f"apicurio-registry-app-{VERSION}-runner.jar"
    command = ["java", "-Xmx300m", "-XX:TieredStopAtLevel=1", *address, "-jar", str(jar)]
    process = started(*command, output=log, cwd=folder)
    try:
        place = f"http://127.0.0.1:{port}"

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()[-4000:]
            try:
                return call(place, "GET", "/apis/ccompat/v7/subjects").status == 200
            except OSError:
                return False

        wait_for(is_ready, lambda: log.read_text()[-4000:], PROGRAM_S)
        yield f"{place}/apis/ccompat/v7"
    finally:
        process.kill()
        process.wait()
