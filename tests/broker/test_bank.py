"""Short runs of transactions under faults. ``python -m tests.broker.bank`` makes long ones.

The first tests check the rules themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kafka_native import KafkaException, Producer
from tests.broker.bank.planted import BUGS
from tests.broker.bank.run import Options, Run, bank_rig
from tests.broker.bank.verify import RULES, Result, violations
from tests.broker.cluster import quiet
from tests.broker.support import create, end_of, their_consumer
from tests.harness import readers
from tests.harness.cluster_run import Rig, module_rig
from tests.harness.runs import each_break
from tests.waiting import wait_for

DUMPED = """Dumping /data/entries-0/00000000000000000000.log
baseOffset: 0 lastOffset: 3 count: 4 baseSequence: 0 lastSequence: 3 producerId: 7 producerEpoch: 1 partitionLeaderEpoch: 0 isTransactional: true isControl: false position: 0
baseOffset: 4 lastOffset: 4 count: 1 baseSequence: -1 lastSequence: -1 producerId: {ender} producerEpoch: 1 partitionLeaderEpoch: 0 isTransactional: true isControl: true position: 9
baseOffset: 5 lastOffset: 5 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 0 isTransactional: false isControl: false position: 99
"""


def good() -> Result:
    """Return two orders, and the entries that three readers found."""
    orders = {0: (1, 2, 30), 1: (2, 3, 5)}
    entries = [(0, 1, -30), (0, 2, 30), (1, 2, -5), (1, 3, 5)]
    found = {(index % 2, index): json.dumps([*entry, False]) for index, entry in enumerate(entries)}
    return Result(orders, {name: dict(found) for name in ("a", "b", "c")})


def test_a_good_result_breaks_no_rule() -> None:
    assert violations(good()) == []


def missed_by_one(result: Result) -> None:
    result.readings["b"].popitem()


def elsewhere_for_one(result: Result) -> None:
    result.readings["c"][1, 77] = result.readings["c"].pop((1, 1))


def skipped(result: Result) -> None:
    result.orders[2] = (1, 3, 4)


def processed_twice(result: Result) -> None:
    for found in result.readings.values():
        found[0, 10], found[1, 11] = found[0, 0], found[1, 1]


def half_an_order(result: Result) -> None:
    for found in result.readings.values():
        del found[0, 0]


def doomed(result: Result) -> None:
    for found in result.readings.values():
        found[0, 10] = json.dumps([9, 1, -1, True])


def left_open(result: Result) -> None:
    result.open_transactions.append("producer 7 has an open transaction")


BREAKS: dict[str, list[Callable[[Result], None]]] = {
    "readers_agree": [missed_by_one, elsewhere_for_one],
    "each_order_once": [skipped, processed_twice, half_an_order],
    "sum_is_conserved": [half_an_order],
    "nothing_aborted_is_seen": [doomed],
    "nothing_is_open": [left_open],
}


@each_break(BREAKS)
def test_each_rule_can_be_broken(rule: str, break_it: Callable[[Result], None]) -> None:
    result = good()
    break_it(result)
    assert rule in {text.split(":")[0] for text in violations(result)}


def test_every_rule_has_a_violation() -> None:
    assert set(BREAKS) == {rule.__name__ for rule in RULES}
    assert set().union(*(bug.rules for bug in BUGS.values())) <= set(BREAKS)


def test_open_transactions_are_found_in_the_tools_output() -> None:
    assert list(readers.open_in_logs(DUMPED.format(ender=7))) == []
    assert list(readers.open_in_logs(DUMPED.format(ender=8))) == [
        "producer 7 has an open transaction in entries-0"
    ]
    line = (
        '| offset: 3 keySize: 5 key: {{"type":"0","data":{{"transactionalId":"{}"}}}} payload: {}\n'
    )
    ended, ongoing = (
        f'{{"version":"1","data":{{"transactionStatus":{status}}}}}' for status in (4, 1)
    )
    assert (
        list(readers.open_in_states(line.format("g-0", ongoing) + line.format("g-0", ended), "g"))
        == []
    )
    assert list(
        readers.open_in_states(line.format("g-0", ended) + line.format("g-0", ongoing), "g")
    ) == ["g-0 is in state 1"]
    named = '{"version":"1","data":{"transactionStatus":"CompleteCommit"}}'
    assert list(readers.open_in_states(line.format("g-0", named), "g")) == []
    named = named.replace("CompleteCommit", "Ongoing")
    assert list(readers.open_in_states(line.format("g-0", named), "g")) == [
        "g-0 is in state Ongoing"
    ]
    assert list(readers.open_in_states(line.format("other", ongoing), "g")) == [
        "the transaction log has none of the processors"
    ]


three = module_rig(bank_rig)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("more", [False, True])
def test_a_processor_whose_transaction_timed_out_aborts_and_continues(
    three: Rig, more: bool
) -> None:
    """This holds whether it produces (the leader reports it) or commits (the coordinator does):
    KIP-588, with KIP-890.
    """
    topic = f"late-{more}"
    create(three.cluster, topic)
    conf = {
        "bootstrap.servers": three.cluster.bootstrap,
        "transactional.id": topic,
        "transaction.timeout.ms": 5000,
    }
    with Producer(quiet(conf)) as producer:
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, "late")
        assert producer.flush(60) == 0
        reader = their_consumer(three.cluster)
        wait_for(lambda: end_of(reader, topic, 0) == 2, "the abort's marker", 120)
        reader.close()
        if more:
            producer.produce(topic, "later")
        with pytest.raises(KafkaException) as caught:
            producer.commit_transaction(60)
        assert caught.value.args[0].txn_requires_abort(), caught.value
        producer.abort_transaction(60)
        with producer.transaction(timeout=60):
            producer.produce(topic, "in time")
    assert list(readers.by_theirs(three.cluster, topic, 1, 0).values()) == ["in time"]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(900)
def test_the_sum_of_money_is_conserved(three: Rig) -> None:
    options = Options(seconds=120.0, timeout_s=4.0, fault_every_s=(0.2, 1.5))
    run = Run(three, options)
    result = run.run()
    print("\n".join([str(options), *run.lines()]))
    assert violations(result) == [], f"the processors' output is in {run.directory}"
    assert result.orders
    assert run.faults


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("name", BUGS)
def test_every_planted_bug_of_a_processor_is_caught(
    three: Rig, name: str, record_property: Callable[[str, object], None]
) -> None:
    options = Options(
        seconds=20.0, timeout_s=4.0, fault_every_s=(0.2, 1.0), bug=name, faults=("cut", "refuse")
    )
    run = Run(three, options)
    found = violations(run.run())
    print("\n".join([str(options), *run.lines(), *found]))
    assert {text.split(":")[0] for text in found} & BUGS[name].rules
    record_property("caught", name)
