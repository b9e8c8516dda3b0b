"""The tests of this folder once more, with every producer and consumer as a role of a Client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TIMEOUT_S = 1200


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S + 60)
def test_roles_pass_the_tests_of_clients() -> None:
    options = ["-q", "-n", "2", "-p", "tests.client.as_roles", "-m", "not slow", "--reruns", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(HERE)],
        cwd=HERE.parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert " passed" in done.stdout
