"""Codecs of Python packages, for builds without the C library.

Each decompressor yields its output in pieces of bounded size, so that the caller can stop at a
maximum. No announced length or ratio decides how much memory it takes. The C side calls these
through `records.pyx`.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

PIECE_BYTES = 1 << 18
GZIP_WINDOW_BITS = 31

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES = 16
SNAPPY_RATIO_MAX = 32

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_WINDOW_MAX_BYTES = 1 << 27
ZSTD_LEVEL_DEFAULT = 3
LZ4_LEVEL_MAX = 12
GZIP_LEVEL_MAX = 9


class CorruptDataError(ValueError):
    """The compressed data is malformed or cut off."""


class TooLargeError(ValueError):
    """The data announces more than the cap allows."""


def gzip_compress(data: memoryview, level: int) -> bytes:
    """One gzip member."""
    deflate = zlib.compressobj(min(level, GZIP_LEVEL_MAX), zlib.DEFLATED, GZIP_WINDOW_BITS)
    return deflate.compress(data) + deflate.flush()


def gzip_decompress(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    """Every member of a gzip stream."""
    if not data:
        raise CorruptDataError("empty gzip stream")
    at = 0
    while at < len(data):
        inflate = zlib.decompressobj(GZIP_WINDOW_BITS)
        pending: bytes | memoryview = b""
        while not inflate.eof:
            if not pending:
                pending = data[at : at + PIECE_BYTES]
                at += len(pending)
            try:
                piece = inflate.decompress(pending, PIECE_BYTES)
            except zlib.error as error:
                raise CorruptDataError(str(error)) from error
            pending = inflate.unconsumed_tail
            if piece:
                yield piece
            elif not pending and at == len(data) and not inflate.eof:
                raise CorruptDataError("gzip stream is cut off")
        at -= len(inflate.unused_data)


def snappy_compress(data: memoryview, level: int) -> bytes:
    """One raw snappy block; snappy has no levels."""
    compressed: bytes = _package("snappy").compress(bytes(data))
    return compressed


def _snappy_block(block: memoryview, max_bytes: int) -> bytes:
    announced = shift = 0
    for byte in block[:5]:
        announced |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise CorruptDataError("snappy block without a size")
    if announced > max_bytes:
        raise TooLargeError("snappy block over the cap")
    if announced // SNAPPY_RATIO_MAX > len(block):
        raise CorruptDataError("snappy block announces more than it can hold")
    snappy = _package("snappy")
    try:
        plain: bytes = snappy.uncompress(bytes(block))
    except snappy.UncompressError as error:
        raise CorruptDataError(str(error)) from error
    if len(plain) != announced:
        raise CorruptDataError("snappy block of another size than announced")
    return plain


def snappy_decompress(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    """A raw block, or the blocks of the Xerial framing."""
    if data[:8] != XERIAL_MAGIC or len(data) < XERIAL_HEADER_BYTES:
        yield _snappy_block(data, max_bytes)
        return
    at = 0
    while at < len(data):
        if data[at : at + 8] == XERIAL_MAGIC and len(data) - at >= XERIAL_HEADER_BYTES:
            at += XERIAL_HEADER_BYTES
            continue
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        block = data[at + 4 : at + 4 + max(size, 0)]
        if len(data) - at < 4 or size < 0 or len(block) < size:
            raise CorruptDataError("malformed Xerial framing")
        yield _snappy_block(block, max_bytes)
        at += 4 + size


def lz4_compress(data: memoryview, level: int) -> bytes:
    """One frame of independent 64 KiB blocks, as the Java client expects them."""
    lz4 = _package("lz4.frame")
    compressed: bytes = lz4.compress(
        data,
        compression_level=max(0, min(level, LZ4_LEVEL_MAX)),
        block_size=lz4.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def lz4_decompress(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    """Every frame, in pieces."""
    lz4 = _package("lz4.frame")
    if not data:
        raise CorruptDataError("empty lz4 stream")
    at = 0
    while at < len(data):
        decoder = lz4.LZ4FrameDecompressor()
        while not decoder.eof:
            fed: bytes | memoryview = b""
            if decoder.needs_input:
                fed = data[at : at + PIECE_BYTES]
                at += len(fed)
            needed = decoder.needs_input
            try:
                piece = decoder.decompress(bytes(fed), PIECE_BYTES)
            except (RuntimeError, EOFError, ValueError) as error:
                raise CorruptDataError(str(error)) from error
            if piece:
                yield piece
            elif needed and not fed and not decoder.eof:
                raise CorruptDataError("lz4 frame is cut off")
        at -= len(decoder.unused_data or b"")


def zstd_compress(data: memoryview, level: int) -> bytes:
    """One frame with its content size."""
    zstd = _package("zstandard")
    level = ZSTD_LEVEL_DEFAULT if level == -1 else min(level, zstd.MAX_COMPRESSION_LEVEL)
    compressed: bytes = zstd.ZstdCompressor(level=level).compress(data)
    return compressed


def _zstd_steps(zstd: ModuleType, data: memoryview) -> Iterator[memoryview]:
    """Yield the parts of the frame at the start of data: its header, then its blocks.

    A block yields at most 128 KiB.
    """
    size = zstd.frame_header_size(data)
    parameters = zstd.get_frame_parameters(data)
    yield data[:size]
    at = size
    last = False
    while not last:
        header = int.from_bytes(data[at : at + 3], "little")
        last = bool(header & 1)
        run_length = (header >> 1) & 3 == 1
        size = 3 + (1 if run_length else header >> 3)
        if last and parameters.has_checksum:
            size += 4
        if len(data) - at < size:
            raise CorruptDataError("zstd frame is cut off")
        yield data[at : at + size]
        at += size


def zstd_decompress(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    """Every frame, block by block."""
    zstd = _package("zstandard")
    if not data:
        raise CorruptDataError("empty zstd stream")
    decompressor = zstd.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX_BYTES)
    while data:
        magic = bytes(data[:4])
        if (
            len(magic) == 4 and magic[0] & 0xF0 == 0x50 and magic[1:] == b"\x2a\x4d\x18"
        ):  # skippable
            size = 8 + int.from_bytes(data[4:8], "little")
            if len(data) < size:
                raise CorruptDataError("zstd frame is cut off")
            data = data[size:]
            continue
        if magic != ZSTD_MAGIC:
            raise CorruptDataError("not a zstd frame")
        try:
            decoder = decompressor.decompressobj()
            for step in _zstd_steps(zstd, data):
                piece = decoder.decompress(step)
                data = data[len(step) :]
                if piece:
                    yield piece
        except zstd.ZstdError as error:
            raise CorruptDataError(str(error)) from error
        if not decoder.eof:
            raise CorruptDataError("zstd frame is cut off")


def _package(name: str) -> Any:
    return importlib.import_module(name)


Compress = Callable[[memoryview, int], bytes]
Decompress = Callable[[memoryview, int], Iterator[bytes]]

CODECS: dict[str, tuple[str, str, Compress, Decompress]] = {
    "gzip": ("zlib", "zlib", gzip_compress, gzip_decompress),
    "snappy": ("snappy", "python-snappy", snappy_compress, snappy_decompress),
    "lz4": ("lz4.frame", "lz4", lz4_compress, lz4_decompress),
    "zstd": ("zstandard", "zstandard", zstd_compress, zstd_decompress),
}


def missing_text(codec: str) -> str:
    """Return why a codec is missing here, and what to install."""
    package = CODECS[codec][1]
    return (
        f"this build of kafka-native has no library for {codec}, and the package {package} isn't "
        f"installed: pip install {package}, or kafka-native[codecs] for all codecs"
    )


def library(codec: str) -> str | None:
    """Return the package that serves a codec, with its version, or None if it isn't installed."""
    module, distribution, _compress, _decompress = CODECS[codec]
    try:
        importlib.import_module(module)
    except ImportError:
        return None
    if codec == "gzip":
        return f"Python zlib {zlib.ZLIB_RUNTIME_VERSION}"
    from importlib.metadata import version  # here, because few need it and it takes long to import

    return f"Python {distribution} {version(distribution)}"
