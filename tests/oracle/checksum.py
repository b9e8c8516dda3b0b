"""Pure-Python twins of csrc/base: checksums, hashes and varints, written from their definitions."""

from __future__ import annotations

CASTAGNOLI = 0x82F63B78
IEEE = 0xEDB88320
MASK = 0xFFFFFFFF


def crc(poly: int, data: bytes, start: int = 0) -> int:
    """Return a reflected CRC, computed bit by bit."""
    state = start ^ MASK
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (poly if state & 1 else 0)
    return state ^ MASK


def crc32c(data: bytes, start: int = 0) -> int:
    """Return the CRC32C of the data."""
    return crc(CASTAGNOLI, data, start)


def signed(value: int) -> int:
    """Return the low 32 bits as a signed number."""
    value &= MASK
    return value - (1 << 32) if value >> 31 else value


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2, as a signed number."""
    factor, shift = 0x5BD1E995, 24
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & MASK
        word = (word ^ word >> shift) * factor & MASK
        value = value * factor & MASK ^ word
    tail = data[whole:]
    if tail:
        value = (value ^ int.from_bytes(tail, "little")) * factor & MASK
    value = (value ^ value >> 13) * factor & MASK
    return signed(value ^ value >> 15)


def fnv1a(data: bytes) -> int:
    """Return FNV-1a on signed 32 bits, as an absolute value."""
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & MASK
    return abs(signed(value))


def xxh32_short(data: bytes) -> int:
    """Return xxHash32 with seed 0 for fewer than 16 bytes."""
    assert len(data) < 16

    def rotate(value: int, by: int) -> int:
        value &= MASK
        return (value << by | value >> (32 - by)) & MASK

    value = 374761393 + len(data)
    while len(data) >= 4:
        value = (
            rotate(value + int.from_bytes(data[:4], "little") * 3266489917, 17) * 668265263 & MASK
        )
        data = data[4:]
    for byte in data:
        value = rotate(value + byte * 374761393, 11) * 2654435761 & MASK
    value = (value ^ value >> 15) * 2246822519 & MASK
    value = (value ^ value >> 13) * 3266489917 & MASK
    return value ^ value >> 16


def uvarint(value: int) -> bytes:
    """Return an unsigned varint: seven bits a byte, the low ones first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """Return a zig-zag varint: 0, -1, 1, -2 ... become 0, 1, 2, 3 ..."""
    return uvarint(value * 2 if value >= 0 else -value * 2 - 1)


def read_varint(data: bytes, at: int = 0, *, bits: int = 64) -> tuple[int, int]:
    """Return the number at a position, and the position after it.

    Raise ValueError if it is cut off or too long.
    """
    value = 0
    for count, byte in enumerate(data[at : at + (bits + 6) // 7]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            if value >> bits:
                raise ValueError("varint is too large")
            return (value >> 1) ^ -(value & 1), at + count + 1
    raise ValueError("varint is cut off or too long")
