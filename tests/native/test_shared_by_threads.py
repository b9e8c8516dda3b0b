"""Objects of the stateless extensions that several threads use at once.

On a Python with an interpreter lock most of these tests check the results only. On a free-threaded
Python they also meet each data race that the extensions guard against: see
docs/internals/free-threading.md.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_native._native import codec_core, encode_core, primitives, records
from kafka_native._native.avro_objects import OBJECT_CODES, ObjectProgram
from kafka_native._native.decoder import decode
from kafka_native._native.protobuf_objects import WIRE_CODES, WIRE_SHAPES, MessageProgram
from kafka_native.codecs import JsonDecoder
from kafka_native.protocol import ProtocolError
from kafka_native.protocol.fetch import FetchResponse
from kafka_native.protocol.metadata import MetadataResponse
from tests.native.at_once import run_at_once
from tests.waiting import WAIT_S

THREADS = 4
ROUNDS = 300
VERSION = 12
COLUMN = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_a_field_is_replaced_while_other_threads_encode_it() -> None:
    message = MetadataResponse(cluster_id="cluster-0")
    done = threading.Event()

    def replace() -> None:
        for number in range(20 * ROUNDS):
            message.cluster_id = f"cluster-{number}"
        done.set()

    def encode() -> set[str]:
        found = set()
        while not done.is_set():
            found.add(decode(MetadataResponse.plan(VERSION), message.encode(VERSION)).cluster_id)
            assert repr(message).startswith("MetadataResponse(cluster_id='cluster-")
            assert message == message
        return found

    for found in run_at_once(replace, encode, encode, encode)[1:]:
        assert all(name.startswith("cluster-") for name in found)


def test_a_list_changes_while_other_threads_encode_it() -> None:
    topics = [MetadataResponse.Topic(name=f"topic-{number}") for number in range(20)]
    message = MetadataResponse(topics=topics)
    reasons: set[str] = set()
    done = threading.Event()

    def change() -> None:
        for number in range(5 * ROUNDS):
            message.topics.clear()
            message.topics.extend(
                MetadataResponse.Topic(name=f"topic-{number}") for _ in range(number % 20)
            )
        done.set()

    def encode() -> None:
        while not done.is_set():
            try:
                body = message.encode(VERSION)
            except ProtocolError as error:
                reasons.add(error.reason)
            else:
                found = decode(MetadataResponse.plan(VERSION), body).topics
                assert all(topic.name.startswith("topic-") for topic in found)

    run_at_once(change, encode, encode, encode)
    assert reasons <= {"list changed while it was encoded"}


def test_threads_share_an_iterator_of_a_large_array() -> None:
    response = MetadataResponse(
        topics=[MetadataResponse.Topic(name=f"topic-{number}") for number in range(2000)]
    )
    names = {topic.name for topic in response.topics}
    array = decode(MetadataResponse.plan(VERSION), response.encode(VERSION), eager=0).topics
    for _ in range(10):
        iterator = iter(array)
        found = run_at_once(*[lambda: [topic.name for topic in iterator]] * THREADS)  # noqa: B023
        assert sum(map(len, found)) == len(names)
        assert names.issuperset(itertools.chain(*found))


def test_threads_make_the_view_of_a_frame_at_once() -> None:
    partitions = [
        FetchResponse.Topic.Partition(partition_index=number, records=b"r" * 9)
        for number in range(50)
    ]
    topic = FetchResponse.Topic(topic="t", partitions=partitions)
    body = FetchResponse(responses=[topic]).encode(VERSION)

    for _ in range(ROUNDS):
        fetched = decode(FetchResponse.plan(VERSION), body, eager=0).responses[0].partitions

        def read(fetched: Any = fetched) -> list[bytes]:
            return [bytes(fetched[index].records) for index in range(0, 50, 10)]

        assert run_at_once(*[read] * THREADS) == [[b"r" * 9] * 5] * THREADS


@pytest.mark.skipif(not codec_core.HAS_JSON, reason="this build has no simdjson")
def test_threads_export_a_column_at_once() -> None:
    # The first export frees the memory that decoding leaves behind.
    program = JsonDecoder(COLUMN)._program
    for _ in range(ROUNDS):
        column = program.decode([b'{"a": 1}'] * 20)
        assert not column.errors
        run_at_once(*[column.__arrow_c_array__] * THREADS)


def test_a_thread_waits_for_arrow_data_and_another_one_is_refused() -> None:
    begun, release = threading.Event(), threading.Event()

    def pieces() -> Iterator[tuple[int, list[encode_core.Records]]]:
        begun.set()
        assert release.wait(WAIT_S)
        yield 0, [encode_core.empty_records()]

    rows = encode_core.RowsStream(
        encode_core.ColumnInput(encode_core.empty_records()), 0, 1, pieces()
    )
    source = encode_core.ColumnInput(rows)

    def refused() -> str:
        assert begun.wait(WAIT_S)
        try:
            with pytest.raises(RuntimeError) as caught:
                source.next()
        finally:
            release.set()
        return str(caught.value)

    found = run_at_once(source.next, refused)
    assert found == [True, "two threads read the same Arrow data"]
    assert source.rows == 0


FIRST_USE = """
import threading
from kafka_native._native import codec_fallback, records

last, first = threading.Event(), threading.Event()
library = codec_fallback.library

def ordered(codec):
    found = library(codec)
    if threading.current_thread().name == "early":
        if codec == "zstd":  # the last one
            late.start()
            assert last.wait(60)
    elif codec == "gzip":  # the first one
        last.set()
        assert first.wait(60)
    return found

def compress():
    try:
        packed = records.compress("gzip", b"text" * 100, python_codecs=True)
        plain = records.decompress("gzip", packed, python_codecs=True)
        print("good" if plain == b"text" * 100 else "bad", flush=True)
    finally:
        if threading.current_thread().name == "early":
            first.set()

codec_fallback.library = ordered
early, late = [threading.Thread(target=compress, name=name) for name in ("early", "late")]
early.start()
early.join()
late.join()
"""


def test_threads_use_the_python_codecs_for_the_first_time_at_once() -> None:
    # The second thread begins to make the table of codecs before the first one has finished it.
    done = subprocess.run(
        [sys.executable, "-c", FIRST_USE], capture_output=True, text=True, timeout=WAIT_S * 4
    )
    assert (done.stdout.split(), done.stderr) == (["good", "good"], "")


def test_a_list_of_headers_changes_while_another_thread_encodes_it() -> None:
    record = records.Record(value=b"v", headers=[("name", b"content")])
    done = threading.Event()

    def change() -> None:
        for number in range(5 * ROUNDS):
            record.headers.append((f"name-{number}", b"content"))
            if number % 10 == 9:
                record.headers.clear()
        done.set()

    def encode() -> None:
        while not done.is_set():
            (batch,) = records.decode_batches(records.encode_batch([record]))
            assert all(content == b"content" for _, content in batch.records[0].headers)

    run_at_once(change, encode, encode, encode)


def test_threads_share_programs_and_checksums() -> None:
    numbers = (1, WIRE_CODES["INT32"], WIRE_SHAPES["single"], 0, -1, -1)
    protobuf = MessageProgram([([(*numbers, None, None, (0,))], None, ("a",), 0)])
    avro = ObjectProgram(
        [
            (OBJECT_CODES["DICT"], 0, 0, [(1, "a", "a", 0)], {"a": None}, None),
            (OBJECT_CODES["TEXT"], 0, 0, [], None, None),
        ]
    )

    def use() -> None:
        for _ in range(10 * ROUNDS):
            assert protobuf.read(b"\x08\x05") == {"a": 5}
            assert avro.read(b"\x06abc") == {"a": "abc"}
            assert primitives.crc32c(b"123456789") == 0xE3069283

    run_at_once(*[use] * THREADS)
