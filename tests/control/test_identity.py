"""The producer id and epoch of an idempotent producer: requests, grants, epochs, returns."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_native._native.enums import PRODUCER_WAIVED
from kafka_native.control.producer.identity import LAST_EPOCH, Identity
from kafka_native.control.requests import NEVER, Backoff
from kafka_native.errors import KafkaError
from kafka_native.protocol.producer_ids import InitProducerIdResponse

from .fakes import event


class Engine:
    """Records the grants for the engine."""

    def __init__(self) -> None:
        self.granted: list[tuple[int, int]] = []

    def grant(self, producer_id: int, epoch: int) -> None:
        self.granted.append((producer_id, epoch))


class IdentityRig:
    """An identity, its engine, and the errors that it reports."""

    def __init__(self, *, demanded: bool = True) -> None:
        self.engine = Engine()
        self.errors: list[KafkaError] = []
        self.waived: list[KafkaError] = []
        engine: Any = self.engine
        delays = Backoff(0.1, 1.0, lambda low, high: 1.0)
        on_waived = None if demanded else self.waived.append
        self.identity = Identity(engine, delays, 60.0, self.errors.append, on_waived)
        self.now = 0.0

    def answer(self, reply: Any) -> None:
        """Poll, and answer the only request."""
        calls, again = self.identity.poll(self.now)
        assert again == NEVER
        [call] = calls
        assert call.deadline == self.now + 60
        call.on_reply(reply)

    def wait(self) -> float:
        """Poll without a request, and return the time until the next one."""
        calls, again = self.identity.poll(self.now)
        assert calls == []
        return again - self.now


def granted(producer_id: int, epoch: int = 0) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


def test_id_is_asked_for_once_and_granted():
    rig = IdentityRig()
    rig.answer(granted(7))
    assert rig.engine.granted == [(7, 0)]
    assert rig.identity.poll(99.0) == ([], NEVER)


@pytest.mark.parametrize(
    "reply",
    [
        KafkaError(KafkaError._TIMED_OUT),
        InitProducerIdResponse(error_code=KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_failed_request_is_made_again_after_a_growing_delay(reply: Any):
    rig = IdentityRig()
    for delay in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        rig.answer(reply)
        assert rig.wait() == pytest.approx(delay)
        rig.now += delay
    rig.answer(granted(7))
    assert rig.engine.granted == [(7, 0)]
    assert rig.errors == []


@pytest.mark.parametrize(
    ("producer_id", "epoch"), [(-1, 0), (-(2**63), 0), (4000, -1), (4000, -(2**15))]
)
def test_an_impossible_id_is_not_used(producer_id: int, epoch: int):
    rig = IdentityRig()
    rig.answer(granted(producer_id, epoch))
    assert rig.engine.granted == []
    rig.now += rig.wait()
    rig.answer(granted(4000))
    assert rig.engine.granted == [(4000, 0)]


def test_refusal_is_fatal_and_ends_all_requests():
    rig = IdentityRig()
    rig.answer(InitProducerIdResponse(error_code=KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    [error] = rig.errors
    assert error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    assert error.fatal()
    assert rig.identity.poll(99.0) == ([], NEVER)


def test_epoch_rises_once_however_many_partitions_want_it():
    rig = IdentityRig()
    rig.answer(granted(7, 3))
    for partition in range(3):
        rig.identity.on_out_of_sequence(event(offset=7, epoch=3, partition=partition))
    assert rig.engine.granted == [(7, 3), (7, 4)]
    # of an id that was returned long ago
    rig.identity.on_out_of_sequence(event(offset=6, epoch=4))
    assert rig.engine.granted == [(7, 3), (7, 4)]


def test_last_epoch_is_followed_by_a_new_id():
    rig = IdentityRig()
    rig.answer(granted(7, LAST_EPOCH))
    rig.identity.on_out_of_sequence(event(offset=7, epoch=LAST_EPOCH))
    rig.answer(granted(8))
    assert rig.engine.granted == [(7, LAST_EPOCH), (8, 0)]


def test_a_refusal_is_reported_and_numbers_are_waived_if_idempotence_is_a_default():
    rig = IdentityRig(demanded=False)
    rig.answer(KafkaError(KafkaError._UNSUPPORTED_FEATURE))
    assert [error.code() for error in rig.waived] == [KafkaError._UNSUPPORTED_FEATURE]
    assert rig.engine.granted == [(PRODUCER_WAIVED, -1)]
    assert rig.errors == []
    assert rig.identity.poll(99.0) == ([], NEVER)


def test_numbers_are_not_waived_once_messages_may_have_them():
    rig = IdentityRig(demanded=False)
    rig.answer(granted(7, LAST_EPOCH))
    rig.identity.on_out_of_sequence(event(offset=7, epoch=LAST_EPOCH))
    rig.answer(InitProducerIdResponse(error_code=KafkaError.CLUSTER_AUTHORIZATION_FAILED))
    assert rig.waived == []
    assert [error.fatal() for error in rig.errors] == [True]
