"""The own tests of programs that are written for confluent_kafka pass with kafka_native, too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.compat.programs import PROGRAMS, Program
from tests.compat.programs.environments import environment_or_skip
from tests.compat.programs.runs import on_both, run_own_tests
from tests.reporting import PROGRAM_ROW


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [each for each in PROGRAMS if each.tests], ids=lambda each: each.name
)
def test_the_same_tests_pass_with_both_libraries(
    program: Program,
    record_property: Callable[[str, object], None],
) -> None:
    assert program.tests
    folder = environment_or_skip(program)
    theirs, ours = on_both(partial(run_own_tests, program, folder))
    counts = len(theirs.tests), theirs.passed, ours.passed
    record_property("program", PROGRAM_ROW.format(program.name, program.version, *counts))
    assert theirs.passed, f"with confluent_kafka:\n{theirs.log}"
    different = {
        name: (theirs.tests.get(name), ours.tests.get(name))
        for name in sorted({*theirs.tests, *ours.tests})
        if theirs.tests.get(name) != ours.tests.get(name)
    }
    assert not different, f"{different}\n{ours.log}"
