"""The codes of C, the error codes of Python, and the meaning of each status code agree."""

import re
from pathlib import Path

from kafka_native import errors
from kafka_native._native import enums
from kafka_native.errors import ErrorCode

KAFKA_ERRORS_H = Path(__file__).parents[2] / "csrc" / "base" / "kafka_errors.h"


def test_error_codes_of_c_are_those_of_python():
    declared = re.findall(r"KN_KAFKA_(\w+) = (-?\d+)", KAFKA_ERRORS_H.read_text())
    assert len(declared) > 20
    names = ErrorCode.__members__ | {"STORAGE_ERROR": ErrorCode.KAFKA_STORAGE_ERROR}
    assert {name: int(number) for name, number in declared}.items() <= names.items()


def test_every_status_has_a_meaning():
    statuses = {number for name, number in vars(enums).items() if name.startswith("STATUS_")}
    assert statuses == errors._STATUS_CODES.keys()
