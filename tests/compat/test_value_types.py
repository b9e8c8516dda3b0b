"""The value types of both libraries: the same results and exceptions, and the few differences."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import confluent_kafka.cimpl
import confluent_kafka.error
import pytest

from kafka_native.compat.drop_in import confluent_kafka as drop_in
from tests.compat.sides import BOTH

Lib = Any
EXPRESSIONS = [
    line
    for line in (Path(__file__).parent / "value_types.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]


def names_of(lib: Lib) -> dict[str, Any]:
    """Return the names that an expression uses."""
    return {
        "copy": copy,
        "pickle": pickle,
        "ck": lib,
        "ad": lib.admin,
        "ci": lib.cimpl,
        "TP": lib.TopicPartition,
        "KE": lib.KafkaError,
        "U": lib.Uuid,
        "NT": lib.admin.NewTopic,
        "NP": lib.admin.NewPartitions,
        "CR": lib.admin.ConfigResource,
        "CE": lib.admin.ConfigEntry,
        "RT": lib.admin.ResourceType,
    }


def result_of(lib: Lib, expression: str) -> str:
    """Return the text of the result, or the class of the exception."""
    try:
        text = repr(eval(expression, names_of(lib)))
    except Exception as error:
        return f"raises {type(error).__name__}"
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return text.replace(f"{drop_in.__name__}.", "confluent_kafka.")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_both_have_the_same_result(expression: str) -> None:
    theirs, ours = (result_of(lib, expression) for lib in BOTH)
    assert ours == theirs


CRASHES = "the original reads memory that isn't its own"
LATE = "the original returns a result and leaves an exception set: any later call may raise it"
EXTENSION = "more is accepted or defined here"
BUG = "a bug of the original: an exception that isn't meant, or a result without a sense"
ESCAPED = "texts that a broker could forge are one line"
DIFFERENCES = {
    "repr(TP.__new__(TP))": (CRASHES, "TopicPartition{topic=None,partition=0"),
    "hash(TP.__new__(TP)) is not None": (CRASHES, "True"),
    "TP.__new__(TP) == TP('a')": (CRASHES, "False"),
    "repr(NT.__new__(NT))": (CRASHES, "NewTopic(topic=None,num_partitions=0)"),
    "NT.__new__(NT) == NT('a')": (CRASHES, "False"),
    "repr(NP.__new__(NP))": (CRASHES, "NewPartitions(topic=None,new_total_count=0)"),
    "hash(U.__new__(U)) is not None": (CRASHES, "True"),
    "pickle.loads(pickle.dumps(TP('a', 1, 2, 'm', 3))).metadata": (EXTENSION, "'m'"),
    "copy.copy(NT('a', 3))": (EXTENSION, "NewTopic(topic=a,num_partitions=3)"),
    "copy.deepcopy(NP('a', 3))": (EXTENSION, "NewPartitions(topic=a,new_total_count=3)"),
    "pickle.loads(pickle.dumps(U(1, 2)))": (EXTENSION, "AAAAAAAAAAEAAAAAAAAAAg"),
    "pickle.loads(pickle.dumps(ck.KafkaException(KE(3)))).args[0].code()": (EXTENSION, "3"),
    "TP('a', 1, 2, None)": (EXTENSION, "TopicPartition{topic=a"),
    "ck.Message[int, str]": (EXTENSION, "confluent_kafka.cimpl.Message[int, str]"),
    "int(U(0, 5))": (EXTENSION, "5"),
    "ck.murmur2(key=b'x', partition_count=3)": (EXTENSION, "1"),
    "ck.murmur2(memoryview(b'x'), 3)": (EXTENSION, "1"),
    "TP('a') == 3": (BUG, "False"),
    "TP('a') < 3": (BUG, "raises TypeError"),
    "KE(3) == 'text'": (LATE, "False"),
    "hash(KE(-1))": (BUG, "-2"),
    "U(1, 2) == U(1, 2)": (BUG, "True"),
    "ck.Message(timestamp=(1, 'x'))": (BUG, "raises TypeError"),
    "KE(3, 'a\\nb')": (ESCAPED, 'KafkaError{code=UNKNOWN_TOPIC_OR_PART,val=3,str="a\\x0ab"}'),
    "TP('a\\nb')": (ESCAPED, "TopicPartition{topic=a\\x0ab"),
}


@pytest.mark.parametrize("expression", DIFFERENCES)
def test_what_differs(expression: str) -> None:
    reason, result = DIFFERENCES[expression]
    assert result_of(drop_in, expression).strip("'\"").startswith(result.strip("'\""))
    if reason not in {CRASHES, LATE}:
        assert result_of(confluent_kafka, expression) != result_of(drop_in, expression)


class Derived(drop_in.Message):
    """A program's own class."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_a_derived_message_need_not_call_the_constructor() -> None:
    message = Derived("a")
    message.set_value(b"v")
    assert (message.name, message.value(), message.partition(), len(message)) == ("a", b"v", 0, 1)
    assert type(copy.copy(message)) is drop_in.Message
