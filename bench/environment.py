"""What a run was measured with: the machine, the versions and the settings."""

from __future__ import annotations

import datetime
import os
import platform
import re
from importlib import metadata
from pathlib import Path

from dev.version import read_commit

Environment = dict[str, dict[str, str]]


def environment(versions: dict[str, str], settings: dict[str, object], command: str) -> Environment:
    """Return what a reader needs to judge a run and to repeat it.

    :param versions: Those of the other clients and of the broker.
    """
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return {
        "machine": {
            "processor": processor(),
            "cores": str(os.cpu_count()),
            "kernel": f"{platform.system()} {platform.release()}",
        },
        "versions": {
            platform.python_implementation(): platform.python_version(),
            "kafka_native": f"{version('kafka-native')} (commit {read_commit()})",
            **versions,
        },
        "settings": {name: str(value) for name, value in settings.items()},
        "run": {"date": today.isoformat(), "command": command},
    }


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """Return the processor's name. Linux has it in a file."""
    file = Path("/proc/cpuinfo")
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    found = re.search(r"^model name\s*:\s*(.*\S)", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()
