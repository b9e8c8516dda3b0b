"""The opaque fields of JoinGroup and SyncGroup that consumers of a classic group use.

A 16-bit version precedes each struct. A reader decodes an unknown version as the newest version
that it knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._native.wire import ProtocolError
from kafka_native.protocol.schema import Struct, Versioned, array, data, int32, string

if TYPE_CHECKING:
    from typing_extensions import Self


class _Prefixed(Versioned):
    """A struct that is preceded by its version."""

    def pack(self, version: int) -> bytes:
        """Return the version and the body."""
        return self.encode(version, version.to_bytes(2, "big", signed=True))

    @classmethod
    def unpack(cls, raw: bytes | bytearray | memoryview) -> Self:
        """Decode the version and the body. Fields of newer versions are ignored."""
        version = int.from_bytes(raw[:2], "big", signed=True)
        if len(raw) < 2 or version < 0:
            raise ProtocolError("no version in front", cls.__qualname__, version)
        return cls.decode(raw, min(version, cls.max_version), 2, whole=False)


class ConsumerProtocolSubscription(_Prefixed, versions="0-3"):
    """The topics that a member subscribes to, and the partitions that it owns."""

    class OwnedPartitions(Struct):
        """The partitions of one topic that the member owns."""

        topic: str = string("1+")
        partitions: list[int] = array(int32(), "1+")

    topics: list[str] = array(string(), "0+")
    user_data: bytes | None = data("0+", nullable="0+", default=None)
    owned_partitions: list[OwnedPartitions] = array(OwnedPartitions, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(_Prefixed, versions="0-3"):
    """The partitions that are assigned to a member."""

    class AssignedPartitions(Struct):
        """Partitions of one topic."""

        topic: str = string("0+")
        partitions: list[int] = array(int32(), "0+")

    assigned_partitions: list[AssignedPartitions] = array(AssignedPartitions, "0+")
    user_data: bytes | None = data("0+", nullable="0+", default=None)
