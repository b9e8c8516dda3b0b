"""OperationDriver with a fake clock: rounds, back-off, deadlines, without threads or sockets."""

from __future__ import annotations

import logging
from typing import Any

from kafka_native.control.operations import (
    GRACE_S,
    AdminOperation,
    Operation,
    OperationDriver,
    Steps,
    Target,
)
from kafka_native.control.requests import ANY_BROKER, Call
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.protocol.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from tests.control.fakes import Clock

LIMIT_S = 10.0
QUESTION = MetadataRequest(topics=[])
MOVED = KafkaError(KafkaError.NOT_COORDINATOR)
GONE = KafkaError(KafkaError._TRANSPORT, "the peer closed the connection")


class Pool:
    """The part of the broker pool that operations use."""

    def __init__(self) -> None:
        self.nodes = {1: "one", 2: "two"}
        self.up = {1, 2}

    def is_up(self, target: int) -> bool:
        return target in self.up

    def coordinator(self, node_id: int, host: str, port: int) -> int:
        return node_id


class Run:
    """One operation that does `run()` for keys "a" and "b", both at broker 1 unless ``at``
    differs.
    """

    def __init__(self, *, change: bool = False) -> None:
        self.clock, self.pool = Clock(), Pool()
        metadata: Any = self
        pool: Any = self.pool
        logger = logging.getLogger("kafka_native.operations")
        self.operations = OperationDriver(
            pool, metadata, logger, backoff_s=0.1, backoff_max_s=1.0, clock=self.clock
        )
        self.at: dict[str, Any] = {"a": 1, "b": 1}
        self.settled: dict[str, Any] = {}
        self.ended: list[BaseException] = []
        self.change = change
        self.calls: list[Call] = []
        self.wake_at = 0.0

    def take(self, reply: MetadataResponse) -> None:
        """Take a Metadata response."""

    def begin(self) -> Run:
        self.operations.begin(self.steps, self.clock.now + LIMIT_S, self.ended.append)
        return self.poll()

    def steps(self, operation: Operation) -> Steps[None]:
        def place(operation: Operation, keys: list[str]) -> Steps[dict[str, Target]]:
            yield []
            return {key: self.at[key] for key in keys}

        kind: AdminOperation[str, str, dict[str, Any], Any] = AdminOperation(
            destination=place,
            request=lambda items: QUESTION,
            outcomes=lambda response, portion: response,
            change=self.change,
        )
        yield from operation.run(kind, {"a": "a", "b": "b"}, self.settled.__setitem__)

    def poll(self) -> Run:
        self.calls, self.wake_at = self.operations.poll(self.clock.now)
        return self

    def reply(self, *replies: Any) -> Run:
        for call, reply in zip(self.calls, replies, strict=True):
            call.on_reply(reply)
        return self.poll()

    def sleep(self) -> Run:
        """Wait until the operation is due again."""
        assert not self.calls
        self.clock.now = self.wake_at
        return self.poll()


def test_keys_of_one_broker_share_a_request_and_two_brokers_get_theirs_in_parallel() -> None:
    run = Run().begin()
    assert [call.target for call in run.calls] == [1]
    assert run.calls[0].deadline == run.clock.now + LIMIT_S
    run.reply({"a": "A", "b": "B"})
    assert run.settled == {"a": "A", "b": "B"}
    other = Run()
    other.at["b"] = 2
    assert [call.target for call in other.begin().calls] == [1, 2]
    other.reply({"a": "A"}, {"b": "B"})
    assert other.settled == {"a": "A", "b": "B"}
    assert other.ended == []


def test_only_moved_keys_are_requested_again_after_a_back_off() -> None:
    run = Run().begin().reply({"a": "A", "b": MOVED})
    assert run.settled == {"a": "A"}
    assert run.clock.now + 0.08 <= run.wake_at <= run.clock.now + 0.12
    run.at["b"] = 2
    run.sleep()
    assert [call.target for call in run.calls] == [2]
    assert run.reply({"b": "B"}).settled == {"a": "A", "b": "B"}


def test_a_read_is_retried_when_its_connection_ends_and_a_change_is_not() -> None:
    question = Run().begin().reply(GONE).sleep()
    assert question.reply({"a": "A", "b": "B"}).settled == {"a": "A", "b": "B"}
    change = Run(change=True).begin().reply(GONE)
    assert change.settled == {"a": GONE, "b": GONE}


def test_a_change_waits_for_its_connection_which_may_be_retried() -> None:
    run = Run(change=True)
    run.pool.up.clear()
    run.begin()
    asked = run.calls[0].message
    assert isinstance(asked, MetadataRequest)
    run.reply(GONE)
    assert run.settled == {}
    run.sleep()
    run.reply(MetadataResponse())
    assert len(run.calls) == 1
    assert run.reply({"a": "A", "b": "B"}).settled == {"a": "A", "b": "B"}


def test_a_change_is_sent_elsewhere_if_its_broker_leaves_before_it_is_sent() -> None:
    run = Run(change=True).begin().reply(KafkaError(KafkaError._UNKNOWN_BROKER, "it has left"))
    assert run.settled == {}
    run.at.update(a=2, b=2)
    run.sleep()
    assert [call.target for call in run.calls] == [2]
    assert run.reply({"a": "A", "b": "B"}).settled == {"a": "A", "b": "B"}


def test_at_the_deadline_each_key_has_its_last_error() -> None:
    run = Run().begin()
    while not run.settled:
        run.reply({"a": MOVED, "b": GONE})
        if not run.settled:
            run.sleep()
    assert run.clock.now < 1000 + LIMIT_S
    assert {error.code() for error in run.settled.values()} == {KafkaError._TIMED_OUT}
    assert "Not coordinator" in run.settled["a"].str()
    assert "closed the connection" in run.settled["b"].str()


def test_unanswered_and_unplaceable_keys_fail_alone() -> None:
    run = Run()
    run.at["b"] = KafkaError(KafkaError._UNKNOWN_BROKER)
    run.begin().reply({})
    assert run.settled["a"].code() == KafkaError._BAD_MSG
    assert run.settled["b"].code() == KafkaError._UNKNOWN_BROKER


def test_an_operation_without_replies_ends() -> None:
    run = Run().begin()
    assert run.wake_at == run.clock.now + LIMIT_S + GRACE_S
    late = run.calls[0]
    run.calls = []
    run.sleep()
    (error,) = run.ended
    assert isinstance(error, KafkaException)
    assert error.args[0].code() == KafkaError._TIMED_OUT
    late.on_reply({"a": "A", "b": "B"})
    assert run.poll().settled == {}


def test_closing_ends_open_and_later_operations() -> None:
    run = Run().begin()
    run.operations.close(KafkaError(KafkaError._DESTROY))
    run.begin()
    assert [error.args[0].code() for error in run.ended] == [KafkaError._DESTROY] * 2
    assert run.calls == []


def test_a_defect_ends_its_operation_only() -> None:
    run = Run().begin()
    run.reply(5)  # no mapping, although `outcomes` must return one
    assert isinstance(run.ended[0], AttributeError)
    assert run.begin().reply({"a": "A", "b": "B"}).settled == {"a": "A", "b": "B"}


def test_coordinators_of_an_old_broker_are_looked_up_one_by_one() -> None:
    run = Run()
    found: dict[str, Any] = {}

    def steps(operation: Operation) -> Steps[None]:
        found.update((yield from operation.coordinators(["g", "h"])))

    run.operations.begin(steps, run.clock.now + LIMIT_S, run.ended.append)
    run.poll()
    for _ in range(2):
        (call,) = run.calls
        assert isinstance(call.message, FindCoordinatorRequest)
        assert call.target is ANY_BROKER
        run.reply(FindCoordinatorResponse(node_id=2, host="h", port=9092))
    assert found == {"g": 2, "h": 2}
