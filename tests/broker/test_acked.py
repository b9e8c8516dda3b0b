"""Short runs of producers under faults. ``python -m tests.broker.acked`` makes long ones.

The first tests check the rules themselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka.errors import MessageSizeTooLargeError

from dev.version import read_commit
from kafka_native.mock import MockCluster
from tests.broker import java, test_planted
from tests.broker.acked.aio_producer import AioProducer
from tests.broker.acked.java_producer import SOURCE as JAVA_SOURCE
from tests.broker.acked.java_producer import JavaProducer
from tests.broker.acked.ledger import (
    LIFE_SHIFT,
    NOT_PERSISTED,
    PERSISTED,
    POSSIBLY_PERSISTED,
    Life,
    Report,
    Result,
    number_of,
)
from tests.broker.acked.peer_producer import Written
from tests.broker.acked.planted import BUGS
from tests.broker.acked.run import Options, Run, acked_rig
from tests.broker.acked.verify import RULES, violations
from tests.harness import reliability
from tests.harness.cluster_run import CLIENT_FAULTS, Rig, module_rig
from tests.harness.runs import count_broken, each_break
from tests.waiting import WAIT_S

LOST = number_of(0, 5)


def good() -> Result:
    """Life 0 wrote five messages, and one failed. Life 1 was killed before its last report."""
    first, second = Life(0), Life(1, killed=True)
    first.sent = {number_of(0, count): count % 2 for count in range(6)}
    second.sent = {number_of(1, count): 0 for count in range(2)}
    log = {
        0: [(0, number_of(0, 0)), (1, number_of(0, 2)), (2, number_of(1, 0)), (3, number_of(0, 4))],
        1: [(0, number_of(0, 1)), (2, number_of(0, 3))],
    }
    first.reports = [
        Report(number_of(0, count), count % 2, offset, PERSISTED)
        for count, offset in enumerate((0, 0, 1, 2, 3))
    ]
    first.reports.append(Report(LOST, 1, -1, NOT_PERSISTED))
    second.reports = [Report(number_of(1, 0), 0, 2, PERSISTED)]
    return Result([first, second], {"a": log, "b": {key: [*rows] for key, rows in log.items()}})


def test_a_good_result_breaks_no_rule() -> None:
    assert violations(good()) == []


def test_a_message_that_may_be_written_may_be_there_or_not() -> None:
    result = good()
    result.lives[0].reports[-1] = Report(LOST, 1, -1, POSSIBLY_PERSISTED)
    assert violations(result) == []
    for log in result.logs.values():
        log[1].append((5, LOST))
    assert violations(result) == []


def missed_by_one(result: Result) -> None:
    result.logs["b"][1].pop()


def elsewhere_for_one(result: Result) -> None:
    result.logs["b"][1][0] = (1, number_of(0, 1))


def acked_and_gone(result: Result) -> None:
    for log in result.logs.values():
        del log[0][1]


def acked_without_an_offset_and_gone(result: Result) -> None:
    reports = result.lives[0].reports
    reports[4] = reports[4]._replace(offset=-1)
    acked_and_gone(result)


def acked_elsewhere(result: Result) -> None:
    reports = result.lives[0].reports
    reports[4] = reports[4]._replace(offset=4)


def written_again(result: Result) -> None:
    for log in result.logs.values():
        log[0].append((7, number_of(0, 4)))


def written_again_by_a_killed_one(result: Result) -> None:
    for log in result.logs.values():
        log[0].append((7, number_of(1, 0)))


def behind_a_later_one(result: Result) -> None:
    for log in result.logs.values():
        log[0][1], log[0][3] = (1, number_of(0, 4)), (3, number_of(0, 2))


def there_although_it_failed(result: Result) -> None:
    for log in result.logs.values():
        log[1].append((5, LOST))


def reported_twice(result: Result) -> None:
    result.lives[0].reports.append(result.lives[0].reports[0])


def never_reported(result: Result) -> None:
    result.lives[0].reports.pop()


def reported_and_never_sent(result: Result) -> None:
    result.lives[0].reports.append(Report(number_of(0, 9), 1, -1, POSSIBLY_PERSISTED))


def reported_behind_a_later_one(result: Result) -> None:
    reports = result.lives[0].reports
    reports[2], reports[4] = reports[4], reports[2]


def bytes_of_another(result: Result) -> None:
    result.damaged.append("[0] @3: in t [0]: 't 1 7'")


def in_another_partition(result: Result) -> None:
    result.lives[1].sent[number_of(1, 0)] = 1


def of_nobody(result: Result) -> None:
    for log in result.logs.values():
        log[0].append((7, number_of(3, 0)))


def too_late(result: Result) -> None:
    result.late.append("7 messages had no outcome")


BREAKS: dict[str, list[Callable[[Result], None]]] = {
    "readers_agree": [missed_by_one, elsewhere_for_one],
    "acked_is_there": [acked_and_gone, acked_without_an_offset_and_gone, acked_elsewhere],
    "nothing_twice": [written_again, written_again_by_a_killed_one],
    "in_order": [behind_a_later_one],
    "failures_are_honest": [there_although_it_failed],
    "one_report_each": [reported_twice, never_reported, reported_and_never_sent],
    "reports_in_order": [reported_behind_a_later_one],
    "every_byte_is_its_own": [bytes_of_another, in_another_partition, of_nobody],
    "settles": [too_late],
}


@each_break(BREAKS)
def test_each_rule_can_be_broken(rule: str, break_it: Callable[[Result], None]) -> None:
    result = good()
    break_it(result)
    assert rule in broken_rules(result)


def test_every_rule_has_a_violation() -> None:
    assert set(BREAKS) == {rule.__name__ for rule in RULES}
    assert {bug.rule for bug in BUGS.values()} <= set(BREAKS)


def test_every_planted_bug_of_the_core_has_a_run() -> None:
    csrc = Path(__file__).resolve().parents[2] / "csrc"
    found = {
        name
        for source in csrc.glob("*/*.c")
        for name in re.findall(r'kn_planted\("([^"]+)"\)', source.read_text())
    }
    planted = [*test_planted.BUGS, test_planted.SHOWN_ABORTED]
    assert found == {each.bug for each in planted}


def broken_rules(result: Result) -> set[str]:
    return {text.split(":")[0] for text in violations(result)}


def test_a_ledger_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "life-0.ledger"
    path.write_text("s 1 0\ns 2 1\nr 1 0 77 persisted\nr 2 1 7")
    life = Life.read(0, path, killed=True)
    assert life.sent == {1: 0, 2: 1}
    assert life.reports == [Report(1, 0, 77, PERSISTED)]


def test_a_run_is_a_line_with_its_seed_and_commit(tmp_path: Path) -> None:
    for broken in ([], ["in_order: ..."]):
        faults = {"kill": 2}
        reliability.record("acked", {"seed": 7}, 59.6, faults, 1000, broken, folder=tmp_path)
    good, bad = map(json.loads, (tmp_path / "acked.jsonl").read_text().splitlines())
    assert (good["verdict"], bad["verdict"]) == ("passed", "broken")
    assert (good["options"], good["seconds"], good["faults"]) == ({"seed": 7}, 60, {"kill": 2})
    assert good["commit"] == read_commit()


def test_the_violations_are_counted() -> None:
    result = good()
    assert count_broken(RULES, result) == {}
    acked_and_gone(result)
    reported_twice(result)
    counts = count_broken(RULES, result)
    assert (counts["acked_is_there"], counts["one_report_each"]) == (1, 1)


def check_calls(producer: AioProducer | JavaProducer) -> object:
    """Write 50 messages and one that is too large. Return the error of the last one."""
    reports: list[tuple[object, int | None]] = []

    def on_delivery(error: object, message: Written) -> None:
        reports.append((error, message.offset()))

    for _ in range(50):
        producer.produce("t", b"value", partition=1, on_delivery=on_delivery)
    assert producer.flush(WAIT_S) == 0
    assert reports == [(None, offset) for offset in range(50)]
    producer.produce("t", bytes(2 << 20), partition=1, on_delivery=on_delivery)
    assert producer.flush(WAIT_S) == 0
    error, offset = reports[-1]
    assert offset is None
    return error


def test_the_producer_of_aiokafka_has_the_calls_of_the_others() -> None:
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 2)
        producer = AioProducer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        assert isinstance(check_calls(producer), MessageSizeTooLargeError)


@pytest.mark.slow
def test_the_producer_of_java_has_the_calls_of_the_others(tmp_path: Path) -> None:
    if why := java.missing():
        pytest.skip(why)
    classes = java.compiled(JAVA_SOURCE, tmp_path)
    with MockCluster(brokers=1) as cluster:
        cluster.create_topic("t", 2)
        conf = {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True}
        producer = JavaProducer(conf, "t", classes)
        assert check_calls(producer)
        producer.close()


three = module_rig(acked_rig)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_no_acked_message_is_lost_written_twice_or_out_of_order(three: Rig) -> None:
    options = Options(seconds=60.0, timeout_s=4.0, fault_every_s=(0.2, 1.5))
    run = Run(three, options)
    result = run.run()
    print("\n".join([str(options), *run.lines()]))
    assert violations(result) == [], f"the producers' output is in {run.directory}"
    assert run.count(PERSISTED)
    assert run.faults


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_faults_of_the_process_and_a_rolling_restart_break_no_rule(three: Rig) -> None:
    faults = (*CLIENT_FAULTS, "roll")
    options = Options(seconds=40.0, timeout_s=4.0, fault_every_s=(0.2, 1.5), faults=faults)
    run = Run(three, options)
    result = run.run()
    print("\n".join([str(options), *run.lines()]))
    assert violations(result) == [], f"the producers' output is in {run.directory}"
    assert run.count(PERSISTED)
    assert set(run.faults) == set(faults)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_every_planted_bug_is_caught_by_its_rule(
    three: Rig, record_property: Callable[[str, object], None]
) -> None:
    options = Options(
        seconds=4.0, processes=len(BUGS), bug="each", faults=("cut",), fault_every_s=(5, 6)
    )
    result = Run(three, options).run()
    for life, (name, bug) in zip(result.lives, BUGS.items(), strict=True):
        its_logs = {
            reader: {
                partition: [row for row in rows if row[1] >> LIFE_SHIFT == life.name]
                for partition, rows in log.items()
            }
            for reader, log in result.logs.items()
        }
        foreign = [text for text in result.damaged if name == "foreign"]
        assert bug.rule in broken_rules(Result([life], its_logs, foreign)), name
        record_property("caught", name)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_librdkafka_without_idempotence_loses_messages_or_writes_them_twice(three: Rig) -> None:
    """The faults are real ones: a client without idempotence breaks the rules."""
    options = Options(
        seconds=30.0,
        client="confluent",
        weak=True,
        faults=("broker", "leaders", "cut"),
        fault_every_s=(0.2, 1.0),
    )
    found = broken_rules(Run(three, options).run())
    assert found & {"acked_is_there", "nothing_twice"}
