"""The adapter of Apache Kafka's own client, in Java."""

from __future__ import annotations

import shutil
import subprocess
from functools import partial

from bench.adapters import Figures, Task
from bench.adapters.program import BUILT, SOURCES, run

SOURCE = SOURCES / "java" / "Bench.java"
CLASSES = BUILT / "java"
# The heap of a service that buffers the 256 MB of the producer's settings.
OPTIONS = ["-Xms1g", "-Xmx1g"]


def missing() -> str | None:
    """The reason why this adapter can't run here, or None."""
    from tests.broker import java

    if (reason := java.missing()) is not None:
        return reason
    if shutil.which("javac") is None:
        return "no Java compiler (javac)"
    program = CLASSES / "Bench.class"
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        CLASSES.mkdir(parents=True, exist_ok=True)
        command = ["javac", "-Xlint:all", "-d", str(CLASSES), "-cp", java.class_path(), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"javac failed: {done.stdout}{done.stderr}"
    return None


def _run(scenario: str, task: Task) -> Figures:
    from tests.broker import java

    classes = f"{java.class_path()}:{CLASSES}"
    return run(["java", *OPTIONS, "-cp", classes, "Bench"], scenario, task)


produce = partial(_run, "produce")  # KafkaProducer.send() in a loop
callback = partial(_run, "callback")  # the same, with a counting Callback for each record
latency = partial(_run, "latency")  # send().get(), one record at a time
round_trip = partial(_run, "round_trip")  # send() at a steady rate, to each Callback
consume = partial(_run, "consume")  # KafkaConsumer.poll(), max.poll.records=10000
poll = partial(_run, "poll")  # KafkaConsumer.poll(), max.poll.records=1
group = partial(_run, "group")  # KafkaConsumer.poll() in a group
cold = partial(_run, "cold")  # from the making of a consumer to its first record in a group
end_to_end = partial(_run, "end_to_end")  # one thread sends at a steady rate, one polls
transaction = partial(_run, "transaction")  # a record in a transaction
