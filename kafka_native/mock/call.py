"""The input and the output of a request handler."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kafka_native.mock.access import GROUP, TOPIC, TRANSACTIONAL_ID
from kafka_native.protocol import encode_response

if TYPE_CHECKING:
    from kafka_native.mock.cluster import MockCluster
    from kafka_native.mock.server import Broker, Connection
    from kafka_native.protocol.schema import Response

# A placeholder in a response. The broker sends the stored record bytes in its place, uncopied.
RECORDS_HERE = os.urandom(16)
_MARK = {
    0: len(RECORDS_HERE).to_bytes(4, "big") + RECORDS_HERE,
    1: bytes([len(RECORDS_HERE) + 1]) + RECORDS_HERE,
}


class Call(NamedTuple):
    """One request, on the broker that received it."""

    cluster: MockCluster
    broker: Broker
    connection: Connection
    api_key: int
    version: int
    client_id: str

    def denies_topic(self, name: str) -> bool:
        """Return whether the ACLs or the test forbid the client this request for a topic."""
        return name in self.cluster.groups.settings.denied_topics or self._denies(TOPIC, name)

    def denies_group(self, group_id: str) -> bool:
        """Return whether the ACLs or the test forbid the client this request for a group."""
        return group_id in self.cluster.groups.settings.denied_groups or self._denies(
            GROUP, group_id
        )

    def denies_transactional_id(self, name: str) -> bool:
        """Return whether the ACLs forbid the client this request for a transactional id."""
        return self._denies(TRANSACTIONAL_ID, name)

    def _denies(self, kind: int, name: str) -> bool:
        who = self.connection
        return self.cluster.access.denies(
            who.login.principal, who.peer[0], kind, name, self.api_key
        )


class Reply(NamedTuple):
    """A response with ``RECORDS_HERE`` in its record fields, and the records for them, in order."""

    message: Response
    records: list[list[memoryview]]


def _unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def frame_pieces(
    reply: Response | Reply, version: int, correlation_id: int
) -> list[bytes | memoryview]:
    """Return a response frame in pieces, length first. Records are not copied."""
    if not isinstance(reply, Reply):
        frame = encode_response(reply, version, correlation_id)
        return [len(frame).to_bytes(4, "big") + frame]
    frame = encode_response(reply.message, version, correlation_id)
    compact = reply.message.flexible.has(version)
    mark = _MARK[compact]
    pieces: list[bytes | memoryview] = [b""]
    start = 0
    for slices in reply.records:
        at = frame.index(mark, start)
        size = sum(map(len, slices))
        pieces.append(
            frame[start:at] + (_unsigned_varint(size + 1) if compact else size.to_bytes(4, "big"))
        )
        pieces.extend(slices)
        start = at + len(mark)
    pieces.append(frame[start:])
    pieces[0] = sum(map(len, pieces)).to_bytes(4, "big")
    return pieces
