"""KafkaError and KafkaException: the same data and behaviour as in confluent_kafka."""

from __future__ import annotations

import copy
import operator
import pathlib
import pickle
import re

import confluent_kafka
import pytest

from kafka_native import errors
from kafka_native._reference.error_codes import TEXTS
from kafka_native.errors import ErrorCode, KafkaError, KafkaException, from_status

NEWER = {
    "GROUP_DELETION_FAILED": 134,
    "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED": 135,
    "CONTROLLER_ID_NOT_REGISTERED": 136,
}
"""Apache Kafka's codes that the newest confluent_kafka doesn't have yet."""
STATUS_H = pathlib.Path(__file__).parents[2] / "csrc" / "base" / "status.h"


def constants(cls: type) -> dict[str, int]:
    return {
        n: v for n in dir(cls) if not n.startswith("__") and isinstance(v := getattr(cls, n), int)
    }


def test_constants_are_those_of_confluent_kafka() -> None:
    theirs = constants(confluent_kafka.KafkaError)
    assert len(theirs) > 180
    assert constants(KafkaError) == theirs | NEWER


def test_names_and_texts_are_those_of_librdkafka() -> None:
    for code in set(constants(confluent_kafka.KafkaError).values()) - set(NEWER.values()):
        ours, theirs = KafkaError(code), confluent_kafka.KafkaError(code)
        assert (ours.code(), ours.name(), ours.str(), str(ours), repr(ours)) == (
            theirs.code(), theirs.name(), theirs.str(), str(theirs), repr(theirs))  # fmt: skip


@pytest.mark.parametrize("code", [-300, -136, 137, 99999])
def test_unknown_code_reads_as_in_confluent_kafka(code: int) -> None:
    assert str(KafkaError(code)) == str(confluent_kafka.KafkaError(code))


@pytest.mark.parametrize(
    "args",
    [
        (3,),
        (3, None),
        (3, "r"),
        (3, ""),
        (3, "r", True),
        (3, "r", 1, 0, 1),
        (-150, 'a "quoted" text', True),
        (0,),
    ],
)
def test_methods_answer_as_confluent_kafka(args: tuple[object, ...]) -> None:
    ours, theirs = KafkaError(*args), confluent_kafka.KafkaError(*args)  # type: ignore[arg-type]
    for method in (
        "code",
        "name",
        "str",
        "fatal",
        "retriable",
        "txn_requires_abort",
        "__repr__",
        "__str__",
        "__hash__",
    ):
        mine, other = getattr(ours, method)(), getattr(theirs, method)()
        assert (mine, type(mine)) == (other, type(other)), method
    assert bool(ours) is bool(theirs) is True


def test_flags_are_set_by_name() -> None:
    error = KafkaError(3, reason="r", fatal=True, retriable=True, txn_requires_abort=True)
    assert error.fatal()
    assert error.retriable()
    assert error.txn_requires_abort()
    assert str(error) == 'KafkaError{FATAL,code=UNKNOWN_TOPIC_OR_PART,val=3,str="r"}'


@pytest.mark.parametrize(
    ("args", "expected"),
    [(("x",), TypeError), ((3, 5), TypeError), ((), TypeError), ((1 << 40,), OverflowError)],
)
def test_ill_typed_arguments_raise_what_confluent_kafka_raises(
    args: tuple[object, ...], expected: type[Exception]
) -> None:
    for cls in (KafkaError, confluent_kafka.KafkaError):
        with pytest.raises(expected):
            cls(*args)  # type: ignore[arg-type]


def test_comparison_and_hash_go_by_code() -> None:
    error = KafkaError(3, "some text")
    assert error == 3
    assert error == KafkaError(3)
    assert error != 4
    assert error != KafkaError(4)
    assert error < 4
    assert error <= KafkaError(3)
    assert error > 2
    assert error >= KafkaError(3)
    assert {KafkaError(3): "x"}[KafkaError(3, "other")] == "x"
    assert {3: "x"}[error] == "x"  # type: ignore[index]


def test_comparison_with_something_else_is_unequal_and_unordered() -> None:
    error = KafkaError(3)
    assert operator.eq(error, "3") is False
    assert error != "3"
    assert error is not None
    with pytest.raises(TypeError):
        _ = error < "a"  # type: ignore[operator]


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_error_survives_copy_and_pickle(duplicate: object) -> None:
    error = KafkaError(3, "text", True, True, True)
    twin = duplicate(error)  # type: ignore[operator]
    assert twin == error
    assert repr(twin) == repr(error)
    assert (twin.fatal(), twin.retriable(), twin.txn_requires_abort()) == (True, True, True)


def test_exception_reads_as_in_confluent_kafka() -> None:
    ours = KafkaException(KafkaError(3))
    theirs = confluent_kafka.KafkaException(confluent_kafka.KafkaError(3))
    assert str(ours) == str(theirs)
    assert repr(ours) == repr(theirs)
    assert ours.args[0] == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert str(KafkaException("foo", 3)) == str(confluent_kafka.KafkaException("foo", 3))


def test_hint_shows_in_the_text_and_nowhere_else() -> None:
    plain, hinted = (
        KafkaException(KafkaError(3)),
        KafkaException(KafkaError(3), hint="create the topic first"),
    )
    assert hinted.args == plain.args
    assert hinted.hint == "create the topic first"
    assert str(hinted) == f"{plain} (hint: create the topic first)"
    twin = pickle.loads(pickle.dumps(hinted))
    assert twin.args == hinted.args
    assert str(twin) == str(hinted)


def test_every_status_of_the_c_core_has_an_error() -> None:
    declared = {int(v) for v in re.findall(r"KN_\w+ = (-?\d+)", STATUS_H.read_text())}
    assert len(declared) > 10
    assert declared == set(errors._STATUS_CODES)
    assert from_status(-9) == KafkaError._TIMED_OUT
    assert from_status(-4, "partition 3").str() == "partition 3"


def test_unknown_status_is_an_error_that_keeps_its_number() -> None:
    error = from_status(-4711, "odd")
    assert error == KafkaError._FAIL
    assert "-4711" in error.str()
    assert "odd" in error.str()


def test_protocol_codes_agree_with_the_public_constants() -> None:
    for name, value in constants(KafkaError).items():
        if not name.startswith("_"):
            assert ErrorCode[name] == value
    assert KafkaError(106).name() == "FETCH_SESSION_TOPIC_ID_ERROR"
    assert {c.value for c in ErrorCode} <= set(TEXTS)


def test_retriable_codes_are_the_transient_ones() -> None:
    assert errors.is_retriable(ErrorCode.NOT_LEADER_FOR_PARTITION)
    assert errors.is_retriable(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not errors.is_retriable(ErrorCode.MSG_SIZE_TOO_LARGE)
    assert not errors.is_retriable(ErrorCode.NO_ERROR)
