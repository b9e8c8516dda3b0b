"""Hooks for every test: a session fails if a C object is alive at its end."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import re
import signal
import time
from typing import Any

import hypothesis
import pytest

from tests import shared_classes
from tests.harness.libraries import under_tsan

pytest_plugins = ["tests.lanes", "tests.reporting", "tests.recording"]

LIVE_WAIT_SECONDS = 2.0
LEFT = "live_objects"
LEFT_BY_WORKERS = pytest.StashKey[list[str]]()
WITNESS = re.compile(r"\b(?:import|from|importorskip\(['\"])\s*confluent_kafka\b")


def live_objects() -> dict[str, int]:
    """Return csrc's counters of live objects by kind. Empty if the engine extension isn't built."""
    try:
        engine = importlib.import_module("kafka_native._native.engine")
    except ImportError:
        return {}
    counters = getattr(engine, "live_objects", None)
    return {} if counters is None else {kind: count for kind, count in counters().items() if count}


def pytest_configure(config: pytest.Config) -> None:
    """Configure the process for all tests.

    - A crash in C prints every Python stack.
    - Examples of hypothesis have no time limit. They are the same in each run, unless
      KN_RANDOM_EXAMPLES is set.
    - Programs react to SIGINT. A shell's background programs ignore it, and their children inherit
      that.
    - Spark starts as fast as possible, because sessions of tests live for seconds.
    """
    faulthandler.enable()
    is_random = "KN_RANDOM_EXAMPLES" in os.environ
    hypothesis.settings.register_profile("project", deadline=None, derandomize=not is_random)
    hypothesis.settings.load_profile("project")
    os.environ.update(shared_classes.for_spark({}))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Check that a run with a preloaded sanitizer tests the sanitizer's build, not the normal
    one.
    """
    kind = os.environ.get("KN_SANITIZE")
    if kind and os.environ.get("LD_PRELOAD"):
        wire = importlib.import_module("kafka_native._native.wire")
        assert f"/build/{kind}/" in str(wire.__file__), f"{wire.__file__} is not a {kind} build"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip librdkafka under TSan: it is not instrumented, and its threads crash TSan's runtime."""
    if not under_tsan():
        return
    skip = pytest.mark.skip(reason="librdkafka's threads don't run under ThreadSanitizer")
    for item in items:
        if WITNESS.search(item.path.read_text(encoding="utf-8")):
            item.add_marker(skip)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a session in which a C object outlived its owner.

    Failed tests keep objects in tracebacks.
    """
    if exitstatus != pytest.ExitCode.OK:
        return
    deadline = time.monotonic() + LIVE_WAIT_SECONDS
    gc.collect()
    while live_objects() and time.monotonic() < deadline:
        time.sleep(0.05)
        gc.collect()
    left = ", ".join(f"{count} {kind}" for kind, count in sorted(live_objects().items()))
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[LEFT] = left
    elif left := left or ", ".join(session.config.stash.get(LEFT_BY_WORKERS, [])):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(
                f"FAILED: C objects alive at the end of the session: {left}", red=True, bold=True
            )


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Collect the results of a ``pytest -n`` process that has ended."""
    if left := getattr(node, "workeroutput", {}).get(LEFT):
        node.config.stash.setdefault(LEFT_BY_WORKERS, []).append(left)
