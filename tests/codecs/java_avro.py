"""Java's Avro, which reads records, resolves their schemas and writes them again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import downloads
from tests.harness.processes import output
from tests.shared_classes import LEAN

VERSION = "1.12.1"
JARS = downloads.JarSet(
    f"avro-{VERSION}", Path(__file__).with_name("avro-pom.xml"), "copy-dependencies"
)
SOURCE = Path(__file__).parent / "java" / "AvroWitness.java"


class JavaAvro:
    """A process with Java's Avro."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def rewrite(self, writer: Any, reader: Any, records: list[bytes]) -> list[Any]:
        """Return each record as Java writes it with the reader's schema: see AvroWitness.java.

        An answer is None, or has the bytes "whole" and "blocks".
        """
        asked = {"writer": writer, "reader": reader, "records": [each.hex() for each in records]}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the Java program has ended"
        return [
            None if each is None else {name: bytes.fromhex(text) for name, text in each.items()}
            for each in json.loads(line)
        ]


@contextmanager
def running(folder: Path) -> Iterator[JavaAvro]:
    """Compile and start the program. ``folder`` gets its classes."""
    libraries = f"{downloads.jars(JARS)}/*"
    output(
        "javac",
        "-Xlint:all,-processing",
        "-Werror",
        "-d",
        str(folder),
        "-cp",
        libraries,
        str(SOURCE),
    )
    command = ["java", *LEAN, "-Xmx256m", "-cp", f"{libraries}:{folder}", "AvroWitness"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            yield JavaAvro(process)
        finally:
            process.kill()
