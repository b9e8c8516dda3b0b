"""Apache Kafka's jars, fetched once through Maven and checked, and its Java tools."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests import downloads, shared_classes
from tests.harness.processes import output
from tests.shared_classes import LEAN
from tests.waiting import PROGRAM_S

KAFKA_VERSION = "4.4.0"
JARS = downloads.JarSet(
    f"kafka-{KAFKA_VERSION}", Path(__file__).parent / "pom.xml", "copy-dependencies"
)


def missing() -> str | None:
    """Return why Java can't be used here, or None."""
    absent = [program for program in ("java", "mvn") if shutil.which(program) is None]
    return f"{' and '.join(absent)} not installed" if absent else None


def jars() -> Path:
    """Return the folder with Kafka's jars."""
    return downloads.jars(JARS)


def java_command(
    main_class: str, *args: str, options: list[str] | None = None, plugins: Path | None = None
) -> list[str]:
    """The command line of a class in Kafka's jars; without options, one that suits a tool.

    ``plugins``: a folder of classes that are to be found, too.
    """
    if options is None:
        options = [*LEAN, "-Xmx256m"]
    classes = f"{jars()}/*" if plugins is None else f"{jars()}/*:{plugins}"
    mapped = shared_classes.options("broker" if main_class.startswith("kafka.") else "tool")
    return ["java", *options, *mapped, "-cp", classes, main_class, *args]


def compiled(source: Path, into: Path) -> Path:
    """Compile a source file that needs Kafka's jars, and return the folder ``into``."""
    options = ["-Xlint:all", "-Werror", "-d", str(into), "-cp", f"{jars()}/*"]
    output("javac", *options, str(source))
    return into


TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONFIGS = "org.apache.kafka.tools.ConfigCommand"
ACLS = "org.apache.kafka.tools.AclCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


def java_tool(main_class: str, *args: str, input: bytes | None = None) -> bytes:
    """Run a tool to its end, and return its output.

    A failure is an AssertionError with all output.
    """
    done = subprocess.run(
        java_command(main_class, *args),
        input=input or b"",
        capture_output=True,
        check=False,
        timeout=PROGRAM_S,
    )
    said = (done.stdout[-2000:] + done.stderr[-4000:]).decode(errors="replace")
    assert done.returncode == 0, f"{main_class} ended with {done.returncode}:\n{said}"
    print(done.stderr[-4000:].decode(errors="replace"))  # a tool may succeed after an error
    return done.stdout
