"""`kafka_native.errors` imports no compiled module, so its status codes are compared with C's."""

from kafka_native import errors
from kafka_native._native import enums


def statuses(module):
    return {name: number for name, number in vars(module).items() if name.startswith("STATUS_")}


def test_status_codes_of_errors_are_those_of_c():
    named = statuses(errors)
    assert named.pop("STATUS_NO_MEMORY") == enums.STATUS_NOMEM
    assert named
    assert named.items() <= statuses(enums).items()


def test_every_status_has_a_meaning():
    assert {0, *statuses(enums).values()} == errors._STATUS_CODES.keys()
