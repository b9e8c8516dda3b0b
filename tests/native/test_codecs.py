"""Codecs against the Python packages, their size limits, and the fallback without libraries."""

from __future__ import annotations

import gzip
import io
import os
import resource
import subprocess
import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import kafka_native
from kafka_native._native import codec_fallback, records
from tests.client.support import together
from tests.oracle import codecs as packages
from tests.oracle import legacy
from tests.waiting import PROGRAM_S

# the directory of this build, which may be the build of a sanitizer
ROOT = Path(kafka_native.__file__).resolve().parents[1]
CODECS = records.CODEC_NAMES[1:]
BOTH = pytest.mark.parametrize("python_codecs", [False, True], ids=["library", "package"])
EACH = pytest.mark.parametrize("codec", CODECS)
MEBIBYTE = 1 << 20
TOO_LARGE, CORRUPT = -5, -6

PLAIN = st.binary(max_size=500) | st.builds(
    lambda piece, times: piece * times, st.binary(min_size=1, max_size=40), st.integers(1, 5000)
)


def run_program(program: str, *arguments: str, stdin: bytes = b"", **environment: str) -> str:
    """Run a Python program with this build, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=PROGRAM_S,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def status_of(codec: str, data: bytes, **options: int | bool) -> int:
    with pytest.raises(records.RecordError) as caught:
        records.decompress(codec, data, **options)  # type: ignore[arg-type]
    return caught.value.status


@EACH
@given(plain=PLAIN, level=st.integers(-1, 9), python_codecs=st.booleans())
@settings(max_examples=40)
def test_the_package_reads_our_output(
    codec: str, plain: bytes, level: int, python_codecs: bool
) -> None:
    packed = records.compress(codec, plain, level=level, python_codecs=python_codecs)
    assert packages.decompress(codec, packed) == plain


@EACH
@given(plain=PLAIN, python_codecs=st.booleans())
@settings(max_examples=40)
def test_we_read_the_output_of_the_package(codec: str, plain: bytes, python_codecs: bool) -> None:
    packed = packages.compress(codec, plain)
    assert records.decompress(codec, packed, python_codecs=python_codecs) == plain


@EACH
@BOTH
@given(data=st.binary(max_size=200))
@settings(max_examples=40)
def test_any_bytes_are_read_or_refused(codec: str, python_codecs: bool, data: bytes) -> None:
    status = 0
    try:
        records.decompress(codec, data, max_bytes=10_000, python_codecs=python_codecs)
    except records.RecordError as error:
        status = error.status
    assert status in (0, TOO_LARGE, CORRUPT)


@EACH
@BOTH
def test_every_truncation_is_refused(codec: str, python_codecs: bool) -> None:
    packed = records.compress(codec, b"some text, some text, some text and more " * 20)
    for size in range(len(packed)):
        assert status_of(codec, packed[:size], python_codecs=python_codecs) == CORRUPT, size


@EACH
@BOTH
def test_a_refused_stream_does_not_spoil_the_next(codec: str, python_codecs: bool) -> None:
    # After a reset liblz4 keeps the rest of a frame's announced size, and then refuses a frame
    # without one.
    plain = b"some text, some text, some text and more " * 20
    unsized = records.compress(codec, plain)
    for sized in (packages.compress(codec, plain), lz4.frame.compress(plain, store_size=True)):
        for size in (0, 10, len(sized) // 2, len(sized) - 1):
            status_of(codec, sized[:size], python_codecs=python_codecs)
            assert records.decompress(codec, unsized, python_codecs=python_codecs) == plain
        for cap in (0, 1, 100):
            status_of(codec, sized, max_bytes=cap, python_codecs=python_codecs)
            assert records.decompress(codec, unsized, python_codecs=python_codecs) == plain


@EACH
@BOTH
@given(plain=st.binary(min_size=1, max_size=70_000), short=st.integers(1, 70_000))
@settings(max_examples=15)
def test_the_cap_is_exact(codec: str, python_codecs: bool, plain: bytes, short: int) -> None:
    packed = packages.compress(codec, plain)
    assert (
        records.decompress(codec, packed, max_bytes=len(plain), python_codecs=python_codecs)
        == plain
    )
    cap = max(len(plain) - short, 0)
    assert status_of(codec, packed, max_bytes=cap, python_codecs=python_codecs) == TOO_LARGE


def zstd_of_unknown_size(data: bytes) -> bytes:
    """Compress as a stream: the frame doesn't contain its size."""
    deflate = zstandard.ZstdCompressor().compressobj()
    return deflate.compress(data) + deflate.flush()


def gzip_members(*parts: bytes) -> bytes:
    return b"".join(gzip.compress(part) for part in parts)


VARIANTS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip in three members": ("gzip", lambda data: gzip_members(data[:10], b"", data[10:])),
    "gzip with a name": ("gzip", lambda data: gzip_with_name(data)),
    "gzip stored": ("gzip", lambda data: gzip.compress(data, 0)),
    "snappy xerial": ("snappy", packages.xerial),
    "snappy xerial in small blocks": ("snappy", lambda data: packages.xerial(data, 100)),
    "snappy xerial twice": (
        "snappy",
        lambda data: packages.xerial(data[:50]) + packages.xerial(data[50:]),
    ),
    "lz4 linked blocks": (
        "lz4",
        lambda data: lz4.frame.compress(data, block_linked=True, content_checksum=True),
    ),
    "lz4 without a size": ("lz4", lambda data: lz4.frame.compress(data, store_size=False)),
    "lz4 block checksums": (
        "lz4",
        lambda data: lz4.frame.compress(data, block_checksum=True, block_linked=False),
    ),
    "lz4 of 4 MiB blocks": (
        "lz4",
        lambda data: lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX4MB),
    ),
    "lz4 in two frames": (
        "lz4",
        lambda data: lz4.frame.compress(data[:9]) + lz4.frame.compress(data[9:]),
    ),
    "zstd without a size": ("zstd", zstd_of_unknown_size),
    "zstd with a checksum": (
        "zstd",
        lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
    ),
    "zstd in two frames": (
        "zstd",
        lambda data: zstd_of_unknown_size(data[:9]) + packages.compress("zstd", data[9:]),
    ),
    "zstd after a skippable frame": (
        "zstd",
        lambda data: b"\x50\x2a\x4d\x18\x02\0\0\0ab" + packages.compress("zstd", data),
    ),
    "zstd of a long window": ("zstd", lambda data: zstd_of_window(data, 27)),
}


def gzip_with_name(data: bytes) -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile("a name", "wb", fileobj=out) as file:
        file.write(data)
    return out.getvalue()


def zstd_of_window(data: bytes, log: int) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=log, enable_ldm=True)
    deflate = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return deflate.compress(data) + deflate.flush()


@pytest.mark.parametrize("variant", VARIANTS)
@BOTH
def test_every_variant_of_a_format_is_read(variant: str, python_codecs: bool) -> None:
    codec, encode = VARIANTS[variant]
    plain = b"".join(b"line %d of some text\n" % i for i in range(20_000))
    packed = encode(plain)
    assert records.decompress(codec, packed, python_codecs=python_codecs) == plain
    assert (
        status_of(codec, packed, max_bytes=len(plain) - 1, python_codecs=python_codecs) == TOO_LARGE
    )


@BOTH
def test_a_window_beyond_128_mib_is_refused(python_codecs: bool) -> None:
    packed = zstd_of_window(b"text" * 1000, 28)
    assert status_of("zstd", packed, python_codecs=python_codecs) == CORRUPT


@pytest.mark.parametrize("size", [0, 1, 1000, 200_000])
@BOTH
def test_lz4_with_the_wrong_header_checksum_is_read_if_expected(
    size: int, python_codecs: bool
) -> None:
    plain = b"text and " * (size // 9) + b"!" * (size % 9)
    broken = packages.break_lz4_checksum(lz4.frame.compress(plain))
    assert records.decompress("lz4", broken, python_codecs=python_codecs, lz4_legacy=True) == plain
    # One checksum in 256 is right by chance. These are wrong.
    assert status_of("lz4", broken, python_codecs=python_codecs) == CORRUPT
    good = lz4.frame.compress(plain, store_size=False)
    assert records.decompress("lz4", good, python_codecs=python_codecs, lz4_legacy=True) == plain


@BOTH
def test_wrong_sizes_are_refused(python_codecs: bool) -> None:
    plain = b"text " * 100
    packed = bytearray(gzip.compress(plain))
    packed[-4:] = b"\xff\xff\xff\x7f"  # the trailer says 2 GiB
    assert status_of("gzip", bytes(packed), python_codecs=python_codecs) == CORRUPT
    packed[-4:] = (1).to_bytes(4, "little")
    assert status_of("gzip", bytes(packed), python_codecs=python_codecs) == CORRUPT
    huge = b"\xff\xff\xff\xff\x0f" + snappy.compress(plain)[2:]
    assert status_of("snappy", huge, python_codecs=python_codecs) == TOO_LARGE
    # within the limit, beyond the maximum of snappy
    large = b"\xff\xff\xff\x3f" + snappy.compress(plain)[2:]
    assert status_of("snappy", large, python_codecs=python_codecs) == CORRUPT
    negative = packages.XERIAL_HEADER + b"\xff\xff\xff\xff" + snappy.compress(plain)
    assert status_of("snappy", negative, python_codecs=python_codecs) == CORRUPT


# Decodes a decompression bomb, and prints the error and the growth of memory.
BOMB = """
import resource, sys
from kafka_native._native import records
codec, python_codecs, cap = sys.argv[1], sys.argv[2] == "True", int(sys.argv[3])
data = sys.stdin.buffer.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for magic_data in (data,):
    try:
        records.decode_batches(magic_data, max_bytes=cap, python_codecs=python_codecs, check_crcs=False)
    except records.RecordError as error:
        print(error.status, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, records.live_buffers())
    else:
        print("opened")
"""
BOMB_BYTES = 256 * MEBIBYTE
HUGE_BOMB_BYTES = 4096 * MEBIBYTE
"""The trailer of gzip has the size modulo 4 GiB. So it is 0 there."""
BOMB_CAP = 16 * MEBIBYTE


def zero_bomb(codec: str, expanded: int) -> bytes:
    """Return so many zeros, compressed piece by piece."""
    zeros = bytes(MEBIBYTE)
    times = expanded // MEBIBYTE
    if codec == "gzip":
        deflate = zlib.compressobj(1, zlib.DEFLATED, 31)
        return b"".join(deflate.compress(zeros) for _ in range(times)) + deflate.flush()
    if codec == "zstd":
        stream = zstandard.ZstdCompressor().compressobj()
        return b"".join(stream.compress(zeros) for _ in range(times)) + stream.flush()
    if codec == "lz4":
        context = lz4.frame.create_compression_context()
        begin = lz4.frame.compress_begin(context, block_linked=False)
        body = b"".join(lz4.frame.compress_chunk(context, zeros) for _ in range(times))
        return bytes(begin + body + lz4.frame.compress_flush(context))
    block = snappy.compress(zeros)
    return packages.XERIAL_HEADER + (len(block).to_bytes(4, "big") + block) * times


def wrapped_bomb(codec: str, magic: int, expanded: int) -> bytes:
    bomb = zero_bomb(codec, expanded)
    if magic == 1:
        message = legacy.Message(0, None, bomb)
        return legacy.encode_message(message, magic=1, attributes=records.CODEC_NAMES.index(codec))
    header = bytearray(records.encode_batch([(0, None, b"")])[:61])
    header[8:12] = (49 + len(bomb)).to_bytes(4, "big")
    header[22] = records.CODEC_NAMES.index(codec)
    return bytes(header) + bomb


def check_refused(codec: str, data: bytes) -> None:
    """Check that a bomb is refused, and how much memory it takes."""
    for python_codecs in (False, True):
        output = run_program(BOMB, codec, str(python_codecs), str(BOMB_CAP), stdin=data)
        status, grown_kib, live = map(int, output.split())
        assert status == TOO_LARGE
        assert live == 0
        if os.environ.get("KN_SANITIZE"):
            continue  # this would measure the sanitizer's own memory
        # The buffer doubles, so a move needs one and a half of it. The rest belongs to the
        # packages.
        assert grown_kib * 1024 < 2 * BOMB_CAP + 24 * MEBIBYTE, (codec, python_codecs, grown_kib)


@EACH
@pytest.mark.parametrize("magic", [1, 2])
def test_a_bomb_is_refused_with_little_memory(
    codec: str, magic: int, record_property: Callable[[str, object], None]
) -> None:
    if magic == 1 and codec == "zstd":
        magic = 2  # the old formats have no zstd
    data = wrapped_bomb(codec, magic, BOMB_BYTES)
    check_refused(codec, data)
    record_property("bomb", [codec, len(data), BOMB_BYTES])


@pytest.mark.slow
@EACH
def test_a_bomb_of_4_gib_is_refused_with_little_memory(
    codec: str, record_property: Callable[[str, object], None]
) -> None:
    data = wrapped_bomb(codec, 2, HUGE_BOMB_BYTES)
    check_refused(codec, data)
    record_property("bomb", [codec, len(data), HUGE_BOMB_BYTES])


def test_each_thread_has_its_own_contexts() -> None:
    plain = b"text of many threads " * 3000
    failures: list[object] = []

    def work(number: int) -> None:
        for codec in CODECS:
            for level in (1, 3, 6):
                packed = records.compress(codec, plain, level=level, python_codecs=number % 2 == 1)
                if records.decompress(codec, packed, python_codecs=number % 3 == 0) != plain:
                    failures.append((number, codec, level))

    assert together(*(partial(work, number) for number in range(6))) == [None] * 6
    assert failures == []
    assert records.live_buffers() == 0


@EACH
def test_a_higher_level_compresses_better(codec: str) -> None:
    plain = b"".join(
        b"record %d with a number %d in it;" % (i, i * i * 7919 % 100_003) for i in range(8000)
    )
    sizes = [len(records.compress(codec, plain, level=level)) for level in (1, 9)]
    if codec == "snappy":
        assert sizes[0] == sizes[1]  # has no levels
    else:
        assert sizes[1] < sizes[0]


def test_features_name_the_provider_of_each_codec() -> None:
    found = records.features()
    assert set(found) == {"crc32c", *CODECS}
    assert all(found.values())


SERVED = """
from kafka_native._native import records
print(records.features())
for codec in records.CODEC_NAMES:
    data = records.encode_batch([(0, b"k", b"v" * 1000)], codec=codec)
    assert records.decode_batches(data)[0].records[0].value == b"v" * 1000
"""


def test_an_environment_variable_disables_libraries() -> None:
    output = run_program(SERVED, KN_DISABLE_NATIVE_CODECS="lz4, zstd")
    assert "'lz4': 'Python lz4 " in output
    assert "'zstd': 'Python zstandard " in output
    assert f"'gzip': '{records.features()['gzip']}'" in output


MISSING = """
import sys
sys.modules["zstandard"] = None
from kafka_native._native import records
assert records.features()["zstd"] == "", records.features()
try:
    records.encode_batch([(0, None, b"v")], codec="zstd")
except records.RecordError as error:
    print(error.status, error.text)
"""


def test_error_of_a_codec_without_library_and_package() -> None:
    output = run_program(MISSING, KN_DISABLE_NATIVE_CODECS="zstd")
    assert output.strip() == (
        "-7 zstd: this build of kafka-native has no library for zstd, and the package zstandard "
        "isn't installed: pip install zstandard, or kafka-native[codecs] for all codecs"
    )


def test_a_package_that_fails_otherwise_is_reported_and_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: seen.append(what.exc_value))

    def broken(data: memoryview, level: int) -> bytes:
        raise RuntimeError("out of order")

    entry = codec_fallback.CODECS["zstd"]
    monkeypatch.setitem(codec_fallback.CODECS, "zstd", (entry[0], entry[1], broken, entry[3]))
    with pytest.raises(records.RecordError):
        records.compress("zstd", b"data", python_codecs=True)
    assert [str(error) for error in seen] == ["out of order"]
    assert records.live_buffers() == 0


def test_memory_is_measured_here_in_kibibytes() -> None:
    if sys.platform == "darwin":
        pytest.skip("macOS counts ru_maxrss in bytes")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 10_000
