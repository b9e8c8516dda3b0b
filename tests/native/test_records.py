"""Record batches and message sets against the pure-Python twins in tests/oracle."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native._native import records
from tests.oracle import batch as twin
from tests.oracle import legacy

CODECS = st.sampled_from(records.CODEC_NAMES)
OLD_CODECS = st.sampled_from(["none", "gzip", "snappy", "lz4"])
TIMES = st.integers(-1, 1 << 44) | st.integers(-(1 << 63), (1 << 63) - 1)
CONTENT = (
    st.none() | st.binary(max_size=80) | st.builds(lambda size: b"x" * size, st.integers(80, 3000))
)
NAMES = st.text(max_size=20)
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=30)), max_size=4)
OFFSETS = st.integers(0, 1 << 40)
ROWS = st.lists(st.tuples(TIMES, CONTENT, CONTENT, HEADERS), min_size=1, max_size=20)
INT16 = st.integers(-(1 << 15), (1 << 15) - 1)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
META = st.fixed_dictionaries(
    {
        "base_offset": OFFSETS,
        "partition_leader_epoch": INT32,
        "producer_id": INT64,
        "producer_epoch": INT16,
        "base_sequence": INT32,
    }
)

Row = tuple[int, "bytes | None", "bytes | None", list[tuple[str, "bytes | None"]]]


def twin_records(rows: list[Row], offsets: list[int]) -> list[twin.Record]:
    return [
        twin.Record(
            offset, time, key, value, [(name.encode(), content) for name, content in headers]
        )
        for offset, (time, key, value, headers) in zip(offsets, rows, strict=True)
    ]


def as_twin(record: records.Record) -> twin.Record:
    headers = [(name.encode("utf-8", "surrogateescape"), value) for name, value in record.headers]
    return twin.Record(
        record.offset, record.timestamp, record.key, record.value, headers, record.attributes
    )


@given(ROWS, META, CODECS, st.booleans(), st.booleans(), st.booleans())
def test_the_twin_reads_our_batches(
    rows: list[Row],
    meta: dict[str, int],
    codec: str,
    transactional: bool,
    control: bool,
    log_append: bool,
) -> None:
    data = records.encode_batch(
        rows,
        codec=codec,
        transactional=transactional,
        control=control,
        timestamp_type=int(log_append),
        **meta,
    )
    seen = twin.decode(data)
    expected = twin_records(rows, list(range(meta["base_offset"], meta["base_offset"] + len(rows))))
    times = [row[0] for row in rows]
    if log_append:
        for record in expected:
            record.timestamp = max(times)
    assert seen.records == expected
    attributes = (8 if log_append else 0) | (16 if transactional else 0) | (32 if control else 0)
    assert (seen.attributes, seen.codec) == (attributes, codec)
    assert (seen.base_timestamp, seen.max_timestamp) == (times[0], max(times))
    assert {name: getattr(seen, name) for name in meta} == meta
    assert seen.last_offset_delta == len(rows) - 1
    if codec == "none":
        # with their own timestamps
        seen.records = twin_records(rows, [record.offset for record in expected])
        assert data == twin.encode(seen)


@st.composite
def sparse_batches(draw: st.DrawFn) -> twin.Batch:
    """Draw batches as compaction leaves them: gaps, a later last offset, times before the first."""
    rows = draw(ROWS)
    base = draw(OFFSETS)
    steps = draw(st.lists(st.integers(1, 1000), min_size=len(rows), max_size=len(rows)))
    offsets = [base + sum(steps[:i]) - 1 for i in range(1, len(rows) + 1)]
    made = twin.Batch(twin_records(rows, offsets), draw(CODECS), base)
    made.last_offset_delta = offsets[-1] - base + draw(st.integers(0, 1000))
    made.base_timestamp = draw(TIMES)
    made.attributes = draw(
        st.sampled_from([0, twin.LOG_APPEND_TIME, twin.TRANSACTIONAL, twin.CONTROL])
    )
    made.max_timestamp = draw(TIMES)
    return made


@given(sparse_batches(), st.booleans())
def test_we_read_the_batches_of_the_twin(wanted: twin.Batch, python_codecs: bool) -> None:
    data = twin.encode(wanted)
    [seen] = records.decode_batches(data, python_codecs=python_codecs)
    expected = copy.deepcopy(wanted.records)
    if wanted.attributes & twin.LOG_APPEND_TIME:
        assert wanted.max_timestamp is not None
        for record in expected:
            record.timestamp = wanted.max_timestamp
    assert [as_twin(record) for record in seen.records] == expected
    assert wanted.last_offset_delta is not None
    assert seen.last_offset == wanted.base_offset + wanted.last_offset_delta
    assert (seen.codec, seen.size_bytes) == (wanted.codec, len(data))
    assert seen.record_count == len(expected)
    assert seen.is_control == bool(wanted.attributes & twin.CONTROL)
    assert seen.is_transactional == bool(wanted.attributes & twin.TRANSACTIONAL)


@st.composite
def message_sets(draw: st.DrawFn) -> tuple[list[legacy.Message], dict[str, Any]]:
    count = draw(st.integers(1, 8))
    steps = draw(st.lists(st.integers(1, 100), min_size=count, max_size=count))
    base = draw(OFFSETS)
    times = draw(st.lists(st.integers(0, 1 << 44), min_size=count, max_size=count))
    messages = [
        legacy.Message(base + sum(steps[:i]), draw(CONTENT), draw(CONTENT), times[i])
        for i in range(count)
    ]
    magic = draw(st.integers(0, 1))
    how: dict[str, Any] = {"magic": magic, "codec": draw(OLD_CODECS)}
    if magic == 1:
        how["log_append_time"] = draw(st.none() | st.integers(0, 1 << 44))
    if how["codec"] == "snappy":
        how["xerial"] = draw(st.booleans())
    return messages, how


@given(message_sets(), st.booleans())
def test_we_read_message_sets(
    wanted: tuple[list[legacy.Message], dict[str, Any]], python_codecs: bool
) -> None:
    messages, how = wanted
    data = legacy.encode_set(messages, **how)
    batches = records.decode_batches(data, python_codecs=python_codecs)
    assert sum(batch.size_bytes for batch in batches) == len(data)
    seen = [record for batch in batches for record in batch.records]
    log_append = how.get("log_append_time")
    plain = how["codec"] == "none"
    for message, record in zip(messages, seen, strict=True):
        time, kind = message.timestamp, 0
        if how["magic"] == 0:
            time, kind = -1, -1
        elif log_append is not None:
            time, kind = (message.timestamp if plain else log_append), 1
        assert (record.offset, record.key, record.value) == (
            message.offset,
            message.key,
            message.value,
        )
        assert (record.timestamp, record.timestamp_type) == (time, kind)
    assert batches[-1].last_offset == messages[-1].offset
    assert all(batch.producer_id == -1 and not batch.is_control for batch in batches)


@st.composite
def records_to_write(draw: st.DrawFn) -> list[legacy.Message]:
    """Draw messages with the offsets that a writer gives, from any base on."""
    count, base = draw(st.integers(1, 8)), draw(OFFSETS)
    times = draw(st.lists(st.integers(0, 1 << 44), min_size=count, max_size=count))
    return [legacy.Message(base + i, draw(CONTENT), draw(CONTENT), times[i]) for i in range(count)]


@given(records_to_write(), st.integers(0, 1), OLD_CODECS, st.booleans())
def test_we_write_message_sets(
    messages: list[legacy.Message], magic: int, codec: str, python_codecs: bool
) -> None:
    data = records.encode_message_set(
        [
            (message.timestamp, message.key, message.value, [("dropped", b"1")])
            for message in messages
        ],
        magic=magic,
        codec=codec,
        base_offset=messages[0].offset,
        python_codecs=python_codecs,
    )
    plain = legacy.encode_set(messages, magic=magic)
    if data == plain:  # the codec saves nothing, or there is none
        return
    assert codec != "none"
    assert len(data) < len(plain)
    first = messages[0].offset if magic == 1 else 0
    inner = [dataclasses.replace(message, offset=message.offset - first) for message in messages]
    packed = data[26 + 8 * magic :]
    unpacked = records.decompress(codec, packed, lz4_legacy=codec == "lz4" and magic == 0)
    assert unpacked == legacy.encode_set(inner, magic=magic)
    wrapper = legacy.Message(
        messages[-1].offset, None, packed, max(message.timestamp for message in messages)
    )
    assert data == legacy.encode_message(
        wrapper, magic=magic, attributes=records.CODEC_NAMES.index(codec)
    )


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_a_message_set_worth_compressing_is_compressed(magic: int, codec: str) -> None:
    [wrapper] = records.batch_headers(
        records.encode_message_set([(1000, None, b"x" * 100)] * 20, magic=magic, codec=codec),
        check_crcs=True,
    )
    assert (wrapper.magic, wrapper.codec, wrapper.last_offset) == (magic, codec, 19)


@pytest.mark.parametrize(
    ("magic", "codec", "error"), [(2, "none", ValueError), (1, "zstd", records.RecordError)]
)
def test_message_sets_that_do_not_exist_are_refused(
    magic: int, codec: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        records.encode_message_set([(1000, None, b"x" * 100)], magic=magic, codec=codec)


SMALL: list[records.RecordLike] = [
    (1000, b"k", b"value", [("h", b"1"), ("n", None)]),
    (900, None, None, None),
]


def small_batches() -> dict[str, bytes]:
    """Return one small input of every kind."""
    found = {
        f"v2-{codec}": records.encode_batch(SMALL, codec=codec, base_offset=3)
        for codec in records.CODEC_NAMES
    }
    messages = [legacy.Message(offset, b"k", b"v" * offset, 5) for offset in range(3)]
    for magic in (0, 1):
        for codec in ("none", "gzip", "snappy", "lz4"):
            found[f"v{magic}-{codec}"] = legacy.encode_set(messages, magic=magic, codec=codec)
    found["v1-xerial"] = legacy.encode_set(messages, magic=1, codec="snappy", xerial=True)
    return found


SMALL_BATCHES = small_batches()


def outcome(data: bytes, **options: Any) -> str | int:
    """Return the number of records, or the text of the error. Any other exception is a bug."""
    try:
        return sum(len(batch.records) for batch in records.decode_batches(data, **options))
    except records.RecordError as error:
        return error.text


@pytest.mark.parametrize("name", SMALL_BATCHES)
def test_every_truncation_is_a_partial_batch(name: str) -> None:
    data = SMALL_BATCHES[name]
    whole = len(records.decode_batches(data))
    for size in range(len(data)):
        seen = records.decode_batches(data[:size])
        assert len(seen) < whole
        assert len(records.batch_headers(data[:size])) == len(seen)


@pytest.mark.parametrize("python_codecs", [False, True], ids=["library", "package"])
@pytest.mark.parametrize("name", SMALL_BATCHES)
def test_every_flipped_byte_is_an_error_or_harmless(name: str, python_codecs: bool) -> None:
    data = SMALL_BATCHES[name]
    good = outcome(data)
    assert isinstance(good, int)
    for at in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            broken = data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]
            checked = outcome(broken, python_codecs=python_codecs)
            assert isinstance(checked, str) or checked <= good
            outcome(broken, check_crcs=False, python_codecs=python_codecs)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    outcome(data, check_crcs=False)


@given(st.sampled_from(sorted(SMALL_BATCHES)), st.data())
def test_any_mutation_is_read_or_refused(name: str, draws: st.DataObject) -> None:
    data = bytearray(SMALL_BATCHES[name])
    for _ in range(draws.draw(st.integers(1, 5))):
        data[draws.draw(st.integers(0, len(data) - 1))] = draws.draw(st.integers(0, 255))
    outcome(bytes(data), check_crcs=False)


def test_a_wrong_checksum_has_its_own_error() -> None:
    for name, data in SMALL_BATCHES.items():
        broken = data[:-1] + bytes([data[-1] ^ 1])
        with pytest.raises(records.RecordError, match="checksum doesn't match") as caught:
            records.decode_batches(broken)
        assert caught.value.status == -4, name


def test_an_error_has_the_position() -> None:
    data = SMALL_BATCHES["v2-none"]
    broken = data + data[:30] + bytes([data[30] ^ 1]) + data[31:]
    with pytest.raises(records.RecordError, match=f"batch at byte {len(data)}"):
        records.decode_batches(broken)


def test_batch_headers_are_read_without_the_records() -> None:
    data = b"".join(
        records.encode_batch(SMALL, codec=codec, base_offset=10 * i)
        for i, codec in enumerate(records.CODEC_NAMES)
    )
    headers = records.batch_headers(data, check_crcs=True)
    assert [header.codec for header in headers] == list(records.CODEC_NAMES)
    assert [header.base_offset for header in headers] == [0, 10, 20, 30, 40]
    assert [header.last_offset for header in headers] == [1, 11, 21, 31, 41]
    ends = [header.position + header.size_bytes for header in headers]
    assert ends == [*(header.position for header in headers[1:]), len(data)]
    assert records.batch_headers(data[:-1])[-1].codec == "lz4"
    assert records.batch_headers(b"") == []


def test_a_broker_rewrites_offset_and_epoch_in_place() -> None:
    data = bytearray(SMALL_BATCHES["v2-gzip"] + SMALL_BATCHES["v2-none"])
    second = len(SMALL_BATCHES["v2-gzip"])
    records.set_base_offset(data, 1 << 40, 5)
    records.set_base_offset(data, 77, 6, position=second)
    first, other = records.decode_batches(data)
    base = 1 << 40
    found = (first.base_offset, first.partition_leader_epoch, first.records[1].offset)
    assert found == (base, 5, base + 1)
    assert (other.base_offset, other.partition_leader_epoch, other.records[1].offset) == (77, 6, 78)


def test_a_broker_marks_log_append_time_in_place() -> None:
    data = bytearray(SMALL_BATCHES["v2-lz4"])
    records.set_log_append_time(data, 123456)
    [batch] = records.decode_batches(data)
    assert batch.timestamp_type == 1
    assert [(record.timestamp, record.timestamp_type) for record in batch.records] == [
        (123456, 1)
    ] * 2


@pytest.mark.parametrize("position", [-1, 1, 10_000])
def test_rewriting_without_a_batch_is_refused(position: int) -> None:
    data = bytearray(SMALL_BATCHES["v2-none"])
    with pytest.raises(records.RecordError, match=f"no batch of magic 2 at byte {position}"):
        records.set_base_offset(data, 1, position=position)
    with pytest.raises(records.RecordError):
        records.set_log_append_time(bytearray(SMALL_BATCHES["v1-gzip"]), 1)
    assert data == SMALL_BATCHES["v2-none"]
    with pytest.raises((TypeError, BufferError)):
        records.set_base_offset(bytes(data), 1)


def test_record_objects_can_be_encoded_pickled_and_compared() -> None:
    [batch] = records.decode_batches(SMALL_BATCHES["v2-none"])
    assert records.encode_batch(batch.records, base_offset=3) == SMALL_BATCHES["v2-none"]
    assert pickle.loads(pickle.dumps(batch.records)) == batch.records
    assert "value" in repr(batch.records[0])
    assert batch.records[0] != batch.records[1]
    assert len(set(batch.records)) == 2


def test_header_names_that_are_no_utf8_survive() -> None:
    data = records.encode_batch([(0, None, None, [(b"\xff\xfe", b"v")])])
    [batch] = records.decode_batches(data)
    assert records.encode_batch(batch.records) == data


@pytest.mark.parametrize("bad", ["text", 5, bytearray(b"x")])
def test_keys_and_values_are_bytes(bad: object) -> None:
    with pytest.raises(TypeError, match="bytes or None"):
        records.encode_batch([(0, bad, None)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="bytes or None"):
        records.encode_batch([(0, None, bad)])  # type: ignore[list-item]
    assert records.live_buffers() == 0


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(ValueError, match="brotli"):
        records.encode_batch(SMALL, codec="brotli")


def test_an_empty_batch_is_allowed() -> None:
    data = records.encode_batch([], base_offset=5)
    [batch] = records.decode_batches(data)
    assert (batch.records, batch.record_count, batch.last_offset) == ([], 0, 4)


@settings(max_examples=20)
@given(ROWS, CODECS)
def test_both_ways_of_a_codec_read_each_other(rows: list[Row], codec: str) -> None:
    by_package = records.encode_batch(rows, codec=codec, python_codecs=True)
    by_library = records.encode_batch(rows, codec=codec)
    plain = records.decode_batches(records.encode_batch(rows))[0].records
    for data in (by_package, by_library):
        for python_codecs in (False, True):
            assert records.decode_batches(data, python_codecs=python_codecs)[0].records == plain


def test_no_buffer_is_left() -> None:
    assert records.live_buffers() == 0
