"""Odd arguments of the admin client have the same outcome with both libraries.

The outcome is the class of an exception, the code and the flags of its error, the results of the
futures, and whether the call is done at once, waits or times out.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from kafka_native import Producer
from kafka_native.mock import MockCluster
from tests.compat.admin_odd_calls import LIBRARIES, TOPIC
from tests.waiting import WAIT_S

Outcome = dict[str, Any]
SILENCE_S = 20.0
"""The time without a line after which the process hangs."""
REPEATS = 3
"""How often calls that differ are made again, alone."""
SAMPLE = 11
"""The fast test makes one call of so many."""


class Allowed(NamedTuple):
    """A difference that stays: the id and both outcomes match."""

    reason: str
    id: str = ""
    theirs: str = ""
    ours: str = ""

    def matches(self, name: str, theirs: Outcome, ours: Outcome) -> bool:
        return bool(
            re.search(self.id, name)
            and re.search(self.theirs, json.dumps(theirs))
            and re.search(self.ours, json.dumps(ours))
        )


ALLOWED = (
    Allowed("the original ends the process or hangs", theirs='"crash"'),
    Allowed("the original sets an exception and returns a result", theirs='"SystemError"'),
    Allowed("the futures of the original never end", theirs='"never"'),
    Allowed(
        "elect_leaders() of the original takes no options, because of a missing comma",
        r"elect_leaders.*=",
    ),
    Allowed(
        "the original sends a name with a wrong length, and the broker ends the connection",
        r"a long name",
        ours="_INVALID_ARG",
    ),
    Allowed("the original reads freed memory", r"groups\(a NUL\)|user NUL|broker NUL"),
    Allowed(
        "the original's ValueError has no text, as the text isn't set",
        r"Acl\w+\.(name|principal|host) (text|surrogate)|group id surrogate",
        theirs="ValueError",
    ),
    Allowed("the exception of a __str__() is passed on, here it has no text to build", r" Mute$"),
    Allowed(
        "resources without settings: the error's code is that of the broker's answer",
        r"ConfigResource(\.restype| set restype_int)",
        ours="_INVALID_ARG|RuntimeError|AttributeError|ValueError",
    ),
    Allowed(
        "a partition without a topic is refused, and isn't awaited or asked for",
        r"no topic$",
        ours="ValueError",
    ),
    Allowed(
        "the original has no code for a topic that this client may not see, or a partition "
        "that doesn't exist",
        theirs="_NOENT",
        ours="TOPIC_AUTHORIZATION_FAILED|_UNKNOWN_PARTITION",
    ),
    Allowed("ints beyond a C long", r"10\*\*30", ours="OverflowError"),
    Allowed("an extension: librdkafka's callbacks as functions", r"conf dr_cb", ours="TypeError"),
)


def made(library: str, servers: str, step: int, pattern: str) -> dict[str, Outcome]:
    """Make the calls on one library, in as many processes as it takes."""
    found: dict[str, Outcome] = {}
    first = 0
    while True:
        program = (sys.executable, "-m", "tests.compat.admin_odd_calls")
        process = subprocess.Popen(
            [*program, library, servers, str(first), str(step), pattern],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        last = None
        assert process.stdout is not None
        for line in lines_of(process):
            entry = json.loads(line)
            if entry == "done":
                process.wait(WAIT_S)
                process.stdout.close()
                return found
            last = entry
            if len(entry) == 3:
                found[entry[1]] = entry[2]
        code = process.wait(WAIT_S)
        process.stdout.close()
        # SILENCE_S may have ended it
        crash = "hangs" if code == -signal.SIGKILL else code
        assert last is not None, f"{library} ends with {code} before its first call"
        found[last[1]] = {"crash": crash}
        first = last[0] + 1


def lines_of(process: subprocess.Popen[str]) -> Any:
    """Yield the lines of a process. One that is silent for too long is killed."""
    assert process.stdout is not None
    while True:
        watch = threading.Timer(SILENCE_S, process.kill)
        watch.start()
        line = process.stdout.readline()
        watch.cancel()
        if not line:
            return
        yield line


def outcomes(library: str, step: int, pattern: str = "") -> dict[str, Outcome]:
    with MockCluster(brokers=2) as cluster:
        cluster.create_topic(TOPIC, 2)
        with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
            for number in range(10):
                producer.produce(TOPIC, str(number), partition=0)
        return made(library, cluster.bootstrap_servers, step, pattern)


def on_both(step: int, pattern: str = "") -> dict[str, tuple[Outcome, Outcome]]:
    """Return both outcomes of the calls that differ without being allowed.

    Calls with a pattern are made on one library after the other.
    """
    with ThreadPoolExecutor(1 if pattern else len(LIBRARIES)) as threads:
        theirs, ours = threads.map(lambda each: outcomes(each, step, pattern), LIBRARIES)
    assert pattern or len(theirs) > 8000 / step
    assert not [name for name, each in ours.items() if each.get("crash", "hangs") != "hangs"]
    return {
        name: (there, ours[name])
        for name, there in theirs.items()
        if not has_same_outcome(there, ours[name])
        and not any(each.matches(name, there, ours[name]) for each in ALLOWED)
    }


def differences(step: int) -> list[str]:
    """Return the calls that differ each time, because a busy machine makes differences."""
    found = on_both(step)
    for _ in range(REPEATS):
        if found:
            found = on_both(step, f"^({'|'.join(map(re.escape, found))})$")
    return [
        f"{name}\n  original {there}\n  ours     {here}" for name, (there, here) in found.items()
    ]


def without(outcome: Outcome, *names: str) -> Outcome:
    return {name: value for name, value in outcome.items() if name not in names}


def has_same_outcome(theirs: Outcome, ours: Outcome) -> bool:
    """Compare all but the texts. On a busy machine, "at once" may take longer."""
    prompt = {"at once", "short"}
    times = {theirs.get("time"), ours.get("time")}
    if not times <= prompt and len(times) > 1:
        return False
    return without(theirs, "text", "time", "call") == without(ours, "text", "time", "call")


def test_some_odd_calls_have_the_same_outcome() -> None:
    found = differences(SAMPLE)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_odd_calls_have_the_same_outcome() -> None:
    found = differences(1)
    assert not found, "\n".join(found)
