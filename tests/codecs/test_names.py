"""The names of kafka_native.codecs: each is there, and its module is imported when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafka_native import codecs
from tests.harness.libraries import not_under_tsan

FORMATS = [
    f"{name}_{role}"
    for name in ("avro", "json", "protobuf")
    for role in ("codec", "decoder", "encoder")
]


def test_every_name_is_there() -> None:
    assert {getattr(codecs, name).__name__ for name in codecs.__all__} == set(codecs.__all__)
    assert set(codecs.__all__) <= set(dir(codecs))
    with pytest.raises(AttributeError, match="has no attribute 'Xml'"):
        _ = codecs.Xml


@not_under_tsan
def test_a_consumer_imports_no_format() -> None:
    program = (
        "import sys; from kafka_native import Consumer; from kafka_native.codecs import Codec; "
        "print(*(each for each in sys.modules if 'codecs.' in each))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    found = done.stdout.split()
    assert "kafka_native.codecs.codec" in found
    assert not {f"kafka_native.codecs.{each}" for each in FORMATS} & {*found}
