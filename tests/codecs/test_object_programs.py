"""Programs that make Python objects, as garbage of which the collector has cleared a part."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest

from kafka_native._native.avro_objects import OBJECT_CODES, ObjectProgram
from kafka_native._native.protobuf_objects import WIRE_CODES, WIRE_SHAPES, MessageProgram


def capsule(destructor: Any) -> Any:
    """Return an object without references that calls a function when it is freed.

    The garbage collector calls `__del__` of a Python class earlier, before it clears objects.
    """
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return new(1, None, ctypes.cast(destructor, ctypes.c_void_p))


def message_program(names: tuple[str], default: str, link: Any) -> MessageProgram:
    numbers = (1, WIRE_CODES["INT32"], WIRE_SHAPES["single"], 0, -1, -1)
    return MessageProgram([([(*numbers, link, None, (default,))], None, names, 0)])


def record_program(names: tuple[str], default: str, link: Any) -> ObjectProgram:
    code = OBJECT_CODES["CONSTANT"]
    return ObjectProgram([(code, 0, 0, [], default, names), (code, 0, 0, [], link, None)])


@pytest.mark.parametrize(
    ("build", "expected"), [(message_program, {"cleared": "zero!"}), (record_program, "zero!")]
)
def test_a_program_in_a_cycle_keeps_its_objects(build: Any, expected: Any) -> None:
    names = ("cleared",)
    found: list[Any] = []

    @ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
    def find(_: Any) -> None:
        kinds = (MessageProgram, ObjectProgram)
        programs = [each for each in gc.get_objects() if type(each) in kinds]
        found.extend(
            each.read(b"")
            for each in programs
            if names in gc.get_referents(*gc.get_referents(each))
        )

    def leave_a_cycle() -> None:
        link: list[Any] = []
        default = "".join(["zero", "!"])  # only the program has it
        cycle = [build(names, default, link)]
        cycle += [cycle, capsule(find)]  # the last one is freed first
        link.append(cycle)

    leave_a_cycle()
    gc.collect()
    assert found == [expected]
