"""The Java client's batches are read as Java reads them, and Java reads ours.

tests/golden/batches holds its files, and golden.json their content in Java's words. `python
tests/golden/test_golden.py` writes both again with tests/golden/java.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from kafka_native._native import records
from tests.broker import java as kafka_java
from tests.harness.processes import output

ROOT = Path(__file__).resolve().parents[2]
BATCHES = Path(__file__).parent / "batches"
JAVA = Path(__file__).parent / "java"
DESCRIPTIONS: dict[str, list[dict[str, Any]]] = json.loads((BATCHES / "golden.json").read_text())
LONG_BYTES = 1000  # longer values are described by their digest


def described_bytes(data: bytes | None) -> str | None:
    if data is not None and len(data) > LONG_BYTES:
        return f"sha256 {hashlib.sha256(data).hexdigest()}"
    return None if data is None else data.hex()


def described_batch(batch: records.Batch) -> dict[str, Any]:
    """Describe a batch in Golden.java's words."""
    found = {
        name: getattr(batch, name)
        for name in (
            *(
                "magic",
                "base_offset",
                "last_offset",
                "codec",
                "timestamp_type",
                "max_timestamp",
                "producer_id",
            ),
            *(
                "producer_epoch",
                "base_sequence",
                "partition_leader_epoch",
                "is_transactional",
                "is_control",
                "size_bytes",
            ),
        )
    }
    found["records"] = [
        [
            record.offset,
            record.timestamp,
            described_bytes(record.key),
            described_bytes(record.value),
            [[name, described_bytes(value)] for name, value in record.headers],
        ]
        for record in batch.records
    ]
    if batch.magic < 2:
        # The wire has the offset of a wrapper's last message only. Java reads the first from its
        # content.
        found["base_offset"] = batch.records[0].offset
    return found


def describe(data: bytes, *, python_codecs: bool = False) -> list[dict[str, Any]]:
    batches = records.decode_batches(data, python_codecs=python_codecs)
    assert sum(batch.size_bytes for batch in batches) == len(data)
    return [described_batch(batch) for batch in batches]


@pytest.mark.parametrize("name", sorted(DESCRIPTIONS))
@pytest.mark.parametrize("python_codecs", [False, True], ids=["library", "package"])
def test_a_java_batch_is_read_as_java_reads_it(name: str, python_codecs: bool) -> None:
    assert (
        describe((BATCHES / name).read_bytes(), python_codecs=python_codecs) == DESCRIPTIONS[name]
    )


def test_every_golden_file_is_described() -> None:
    assert sorted(path.name for path in BATCHES.glob("*.bin")) == sorted(DESCRIPTIONS)
    assert len(DESCRIPTIONS) >= 30


def test_every_magic_and_codec_has_a_golden_file() -> None:
    found = {
        (batch["magic"], batch["codec"]) for batches in DESCRIPTIONS.values() for batch in batches
    }
    old = [(magic, codec) for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")]
    assert found == {*old, *((2, codec) for codec in records.CODEC_NAMES)}


@pytest.mark.parametrize("name", sorted(name for name in DESCRIPTIONS if name.startswith("v2")))
def test_the_headers_alone_are_read_the_same(name: str) -> None:
    data = (BATCHES / name).read_bytes()
    for header, batch in zip(
        records.batch_headers(data, check_crcs=True), DESCRIPTIONS[name], strict=True
    ):
        assert {key: getattr(header, key) for key in batch if key != "records"} == {
            key: value for key, value in batch.items() if key != "records"
        }
        assert header.record_count == len(batch["records"])


def test_a_flipped_byte_in_a_java_batch_is_a_checksum_error() -> None:
    for name in DESCRIPTIONS:
        data = bytearray((BATCHES / name).read_bytes())
        data[-1] ^= 1
        with pytest.raises(records.RecordError):
            records.decode_batches(data)


class Java:
    """Runs Golden.java with Apache Kafka's jars."""

    def __init__(self) -> None:
        if why := kafka_java.missing():
            pytest.skip(f"the Java client can't be fetched: {why}")
        self._jars = kafka_java.jars()

    def run(self, *args: str) -> str:
        command = ["java", "-cp", f"{self._jars}/*", str(JAVA / "Golden.java"), *args]
        return output(*command)


@pytest.fixture(scope="module")
def java() -> Java:
    return Java()


@pytest.mark.slow
def test_the_java_program_still_makes_the_golden_files(java: Java, tmp_path: Path) -> None:
    java.run("write", str(tmp_path))
    made = {path.name: describe(path.read_bytes()) for path in tmp_path.glob("*.bin")}
    for batches in (*made.values(), *DESCRIPTIONS.values()):
        for batch in batches:
            batch.pop("size_bytes", None)  # another Java may compress a byte better
    assert made == DESCRIPTIONS


@pytest.mark.slow
def test_java_reads_our_batches(java: Java, tmp_path: Path) -> None:
    text = b"a line of text that repeats\n"
    sample: list[records.RecordLike] = [
        (1_700_000_000_000, b"key", b"value", [("h", b"1"), ("null", None), ("", b"")]),
        (1_600_000_000_000, None, text * 20, None),
        (1_700_000_000_001, b"", None, None),
        (1_700_000_000_002, None, b"", None),
        *((1_700_000_000_003 + i, b"k%d" % i, text * 100, None) for i in range(60)),
    ]
    for codec in records.CODEC_NAMES:
        for level in (-1, 1, 9):
            for python_codecs in (False, True):
                kind = "package" if python_codecs else "library"
                data = records.encode_batch(
                    sample, codec=codec, level=level, base_offset=40, python_codecs=python_codecs
                )
                (tmp_path / f"{codec}-{level}-{kind}.bin").write_bytes(data)
    extra = {"producer_id": 4711, "producer_epoch": 3, "base_sequence": 99}
    (tmp_path / "transactional.bin").write_bytes(
        records.encode_batch(sample, transactional=True, **extra)
    )
    (tmp_path / "log-append.bin").write_bytes(records.encode_batch(sample, timestamp_type=1))
    files = sorted(map(str, tmp_path.glob("*.bin")))
    seen = json.loads(java.run("read", *files))
    assert seen == {Path(path).name: describe(Path(path).read_bytes()) for path in files}
    assert all(len(batches[0]["records"]) == len(sample) for batches in seen.values())


def regenerate() -> None:
    """Write the golden files again."""
    java = Java()
    for path in BATCHES.glob("*.bin"):
        path.unlink()
    with tempfile.TemporaryDirectory() as directory:
        java.run("write", directory)
        for path in Path(directory).glob("*.bin"):
            shutil.copy(path, BATCHES)
    (BATCHES / "golden.json").write_text(java.run("read", *sorted(map(str, BATCHES.glob("*.bin")))))


if __name__ == "__main__":
    os.chdir(ROOT)
    regenerate()
