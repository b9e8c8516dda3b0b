"""The codecs of Python packages. They share no code with csrc's codec libraries."""

from __future__ import annotations

import zlib

import crc32c as crc32c_package
import lz4.frame
import snappy
import zstandard

from tests.oracle.checksum import xxh32_short

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
XERIAL_HEADER = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2


def fast_crc32c(data: bytes) -> int:
    """Return the checksum of the crc32c package."""
    return int(crc32c_package.crc32c(data))


def compress(codec: str, data: bytes) -> bytes:
    """Return one compressed unit with the package's defaults."""
    if codec == "gzip":
        deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
        return deflate.compress(data) + deflate.flush()
    if codec == "snappy":
        return bytes(snappy.compress(data))
    if codec == "lz4":
        return bytes(lz4.frame.compress(data, block_linked=False))
    if codec == "zstd":
        return zstandard.ZstdCompressor().compress(data)
    return data


def decompress(codec: str, data: bytes) -> bytes:
    """Return trusted data decompressed."""
    if codec == "gzip":
        return zlib.decompress(data, 31)
    if codec == "snappy":
        return snappy_decompress(data)
    if codec == "lz4":
        return bytes(lz4.frame.decompress(data))
    if codec == "zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def snappy_decompress(data: bytes) -> bytes:
    """Decompress raw or Xerial Snappy."""
    if not data.startswith(XERIAL_HEADER[:8]):
        return bytes(snappy.decompress(data))
    plain, at = b"", 16
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        plain += snappy.decompress(data[at + 4 : at + 4 + size])
        at += 4 + size
    return plain


def xerial(data: bytes, block_bytes: int = 32768) -> bytes:
    """Return Snappy in the Java client's framing."""
    out = XERIAL_HEADER
    for at in range(0, len(data), block_bytes):
        block = snappy.compress(data[at : at + block_bytes])
        out += len(block).to_bytes(4, "big") + block
    return out


def _lz4_descriptor_bytes(frame: bytes) -> int:
    flags = frame[4]
    return 2 + (8 if flags & 8 else 0) + (4 if flags & 1 else 0)


def break_lz4_checksum(frame: bytes) -> bytes:
    """Return an lz4 frame with the header checksum of the first Kafka clients, which includes the
    magic number.
    """
    at = 4 + _lz4_descriptor_bytes(frame)
    good = xxh32_short(frame[4:at]) >> 8 & 0xFF
    assert frame[at] == good
    # With the magic number the header has at least 6 bytes, and up to 15 with a content size.
    wrong = xxh32_short(frame[:at]) >> 8 & 0xFF
    return frame[:at] + bytes([wrong]) + frame[at + 1 :]
