"""Reads the signs of hardening from a shared object's ELF headers (64 bits, little-endian)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PT_DYNAMIC, PT_LOAD, PT_GNU_STACK, PT_GNU_RELRO, PT_GNU_PROPERTY = (
    2,
    1,
    0x6474E551,
    0x6474E552,
    0x6474E553,
)
PF_X, PF_W = 1, 2
SHT_DYNSYM = 11
DT_NULL, DT_STRTAB, DT_RPATH, DT_BIND_NOW, DT_RUNPATH, DT_FLAGS, DT_FLAGS_1 = (
    0,
    5,
    15,
    24,
    29,
    30,
    0x6FFFFFFB,
)
DF_BIND_NOW, DF_1_NOW = 8, 1
EM_X86_64 = 62
STT_FUNC = 2
STB_WEAK = 2
ENDBR64 = bytes.fromhex("f30f1efa")
# The bits of the properties GNU_PROPERTY_X86_FEATURE_1_AND and GNU_PROPERTY_AARCH64_FEATURE_1_AND.
FEATURES = {0xC0000002: {1: "IBT", 2: "SHSTK"}, 0xC0000000: {1: "BTI", 2: "PAC"}}


@dataclass(frozen=True)
class Segment:
    """A program header of an ELF file."""

    kind: int
    flags: int
    offset: int
    address: int
    size: int


@dataclass(frozen=True)
class Symbol:
    """A symbol of the dynamic linker. It is imported if it has no address."""

    name: str
    address: int
    is_function: bool
    is_weak: bool


class Elf:
    """A shared object in ELF format."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = path.read_bytes()
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no ELF file of 64 bits, little-endian")
        self.machine: int = struct.unpack_from("<H", self._data, 18)[0]
        start, self._sections_start = struct.unpack_from("<QQ", self._data, 32)
        size, count, self._section_size, self._section_count = struct.unpack_from(
            "<4H", self._data, 54
        )
        self.segments = [
            Segment(kind, flags, offset, address, length)
            for kind, flags, offset, address, _, length in (
                struct.unpack_from("<IIQQQQ", self._data, start + size * number)
                for number in range(count)
            )
        ]

    @cached_property
    def dynamic(self) -> list[tuple[int, int]]:
        """Return the entries of the dynamic section."""
        entries: list[tuple[int, int]] = []
        for segment in self._of(PT_DYNAMIC):
            for tag, value in struct.iter_unpack("<qQ", self._bytes(segment)):
                if tag == DT_NULL:
                    break
                entries.append((tag, value))
        return entries

    def binds_now(self) -> bool:
        """Return whether loading resolves all symbols, so that their table can become read-only."""
        bits = {DT_FLAGS: DF_BIND_NOW, DT_FLAGS_1: DF_1_NOW}
        return any(tag == DT_BIND_NOW or value & bits.get(tag, 0) for tag, value in self.dynamic)

    def has_relro(self) -> bool:
        """Return whether relocated data become read-only."""
        return any(self._of(PT_GNU_RELRO))

    def has_executable_stack(self) -> bool:
        """Return whether it requires an executable stack, as an object without the header does."""
        stacks = list(self._of(PT_GNU_STACK))
        return not stacks or any(segment.flags & PF_X for segment in stacks)

    def writable_code(self) -> list[Segment]:
        """Return segments that are both writable and executable."""
        return [
            segment
            for segment in self._of(PT_LOAD)
            if segment.flags & PF_W and segment.flags & PF_X
        ]

    def run_paths(self) -> list[str]:
        """Return the folders in which the dynamic linker searches for its libraries."""
        table = self._offset(next(value for tag, value in self.dynamic if tag == DT_STRTAB))
        paths = [
            self._text(table + value)
            for tag, value in self.dynamic
            if tag in (DT_RPATH, DT_RUNPATH)
        ]
        return [folder for path in paths for folder in path.split(":")]

    def features(self) -> set[str]:
        """Return the branch and return protections with which the whole object is marked."""
        found: set[str] = set()
        for segment in self._of(PT_GNU_PROPERTY):
            note = self._bytes(segment)
            name_size, size = struct.unpack_from("<II", note)
            properties = note[12 + name_size : 12 + name_size + size]
            while properties:
                kind, length = struct.unpack_from("<II", properties)
                bits = int.from_bytes(properties[8 : 8 + length], "little")
                found |= {name for bit, name in FEATURES.get(kind, {}).items() if bits & bit}
                properties = properties[8 + (length + 7) // 8 * 8 :]
        return found

    def unmarked_functions(self) -> list[str]:
        """Return exported functions (x86-64) without the mark of an indirect branch target."""
        exported = [symbol for symbol in self.symbols if symbol.is_function and symbol.address]
        starts = {symbol.name: self._offset(symbol.address) for symbol in exported}
        return sorted(
            name for name, start in starts.items() if self._data[start : start + 4] != ENDBR64
        )

    def imported(self) -> set[str]:
        """Return the names that other objects must provide."""
        return {symbol.name for symbol in self.symbols if not symbol.address}

    def compiler_options(self) -> str:
        """Return the compiler options in the debugging information, or an empty text."""
        start = self._data.find(b"GNU C11 ")
        return self._text(start) if start >= 0 else ""

    @cached_property
    def symbols(self) -> list[Symbol]:
        """Return the symbols of the dynamic linker."""
        sections = [
            struct.unpack_from(
                "<IIQQQQIIQQ", self._data, self._sections_start + number * self._section_size
            )
            for number in range(self._section_count)
        ]
        symbols: list[Symbol] = []
        for section in sections:
            if section[1] == SHT_DYNSYM:
                names = sections[section[6]][4]
                raw = self._data[section[4] : section[4] + section[5]]
                for name, info, _, _, address, _ in struct.iter_unpack("<IBBHQQ", raw):
                    kind, binding = info & 15, info >> 4
                    symbols.append(
                        Symbol(
                            self._text(names + name),
                            address,
                            kind == STT_FUNC,
                            binding == STB_WEAK,
                        )
                    )
        return symbols

    def _of(self, kind: int) -> Iterator[Segment]:
        return (segment for segment in self.segments if segment.kind == kind)

    def _bytes(self, segment: Segment) -> bytes:
        return self._data[segment.offset : segment.offset + segment.size]

    def _offset(self, address: int) -> int:
        for segment in self._of(PT_LOAD):
            if segment.address <= address < segment.address + segment.size:
                return segment.offset + address - segment.address
        raise ValueError(f"{self.path} has no address {address:#x}")

    def _text(self, start: int) -> str:
        return self._data[start : self._data.index(b"\0", start)].decode()
