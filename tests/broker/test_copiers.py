"""Short runs of Kafka's own TransactionalMessageCopier and ours in one group, with faults.
``python -m tests.broker.copies`` makes long ones.

The first tests check the rules themselves.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

import pytest

from tests.broker import java
from tests.broker.copies.planted import BUGS
from tests.broker.copies.run import Options, Run, copies_rig
from tests.broker.copies.verify import DAMAGED, RULES, Records, Result, read, violations
from tests.harness.cluster_run import Rig, module_rig
from tests.harness.runs import each_break

SENT = 6


def records(numbers: list[int], first: int = 0) -> Records:
    return Records(array("q", range(first, first + len(numbers))), array("q", numbers))


def good() -> Result:
    """Return six messages in two partitions, and their copies that two readers found."""
    found = {name: [records([0, 2, 4], 7), records([1, 3, 5], 9)] for name in ("after", "during")}
    copied = {"ours-0": 2, "java-1": 4}
    return Result(SENT, [records([0, 2, 4]), records([1, 3, 5])], found, copied)


def test_a_good_result_breaks_no_rule() -> None:
    assert violations(good()) == []


class Record:
    """A record of one of the clients."""

    def __init__(self, key: bytes, value: bytes) -> None:
        self._key, self._value = key, value

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return 9

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value


def test_a_record_with_the_key_of_another_one_is_damaged() -> None:
    found = read([Record(b"5", b"5"), Record(b"5", b"7"), Record(b"-3", b"-3")], 2)
    assert found == [Records(), Records(array("q", [9] * 3), array("q", [5, DAMAGED, -3]))]


def missed_by_one(result: Result) -> None:
    result.readings["during"][1] = records([1, 3], 9)


def elsewhere_for_one(result: Result) -> None:
    result.readings["during"][1] = records([1, 3, 5], 8)


def skipped(result: Result) -> None:
    for reading in result.readings.values():
        reading[0] = records([0, 4])


def not_in_the_input(result: Result) -> None:
    result.input[0] = records([0, 4])


def copied_twice(result: Result) -> None:
    for reading in result.readings.values():
        reading[0] = records([0, 2, 2, 4])


def twice_at_first(result: Result) -> None:
    result.readings["during"][1] = records([1, 1, 3, 5])


def overtaken(result: Result) -> None:
    for reading in result.readings.values():
        reading[0] = records([0, 4, 2])


def swapped(result: Result) -> None:
    for reading in result.readings.values():
        reading.reverse()


def damaged(result: Result) -> None:
    result.readings["after"][0] = records([0, 2, DAMAGED])


def never_sent(result: Result) -> None:
    result.readings["after"][0] = records([0, 2, 4, 6])


def doomed(result: Result) -> None:
    result.readings["during"][0] = records([0, -2, 2, 4])


def left_open(result: Result) -> None:
    result.open_transactions.append("producer 7 has an open transaction")


def idle(result: Result) -> None:
    result.copied["java-1"] = 0


def none_started(result: Result) -> None:
    result.copied.clear()


def reader_died(result: Result) -> None:
    result.reader_errors.append("the reader ended")


BREAKS: dict[str, list[Callable[[Result], None]]] = {
    "readers_agree": [missed_by_one, elsewhere_for_one],
    "nothing_lost": [skipped, missed_by_one, not_in_the_input],
    "nothing_twice": [copied_twice, twice_at_first],
    "in_order": [overtaken],
    "only_what_was_sent": [swapped, damaged, never_sent],
    "nothing_aborted_is_seen": [doomed],
    "nothing_is_open": [left_open],
    "all_took_part": [idle, none_started],
    "reader_continues": [reader_died],
}


@each_break(BREAKS)
def test_each_rule_can_be_broken(rule: str, break_it: Callable[[Result], None]) -> None:
    result = good()
    break_it(result)
    assert rule in {text.split(":")[0] for text in violations(result)}


def test_every_rule_has_a_violation() -> None:
    assert set(BREAKS) == {rule.__name__ for rule in RULES}
    assert set().union(*(bug.rules for bug in BUGS.values())) <= set(BREAKS)


three = module_rig(copies_rig, java.missing)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_kafkas_copiers_and_ours_copy_each_message_once(three: Rig) -> None:
    options = Options(seconds=25.0, rate=1000, lead=8_000, messages=100, fault_every_s=(0.5, 2.5))
    run = Run(three, options)
    result = run.run()
    print("\n".join([str(options), *run.lines()]))
    assert violations(result) == [], f"the processes' output is in {run.directory}"
    assert result.sent
    assert run.faults


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_of_a_copier_is_caught(
    three: Rig, name: str, record_property: Callable[[str, object], None]
) -> None:
    options = Options(
        seconds=8.0, rate=1000, messages=50, fault_every_s=(1.0, 2.0), bug=name, faults=("cut",)
    )
    run = Run(three, options)
    found = violations(run.run())
    print("\n".join([str(options), *run.lines(), *found]))
    assert {text.split(":")[0] for text in found} & BUGS[name].rules
    record_property("caught", name)
