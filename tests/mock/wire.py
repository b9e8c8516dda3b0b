"""A client with nothing but the protocol: one connection, requests and responses by hand."""

from __future__ import annotations

import itertools
import socket
from types import TracebackType
from typing import Any

from kafka_native._native import records
from kafka_native.mock import MockCluster
from kafka_native.protocol import decode_response, encode_request
from kafka_native.protocol.fetch import FetchRequest, FetchResponse
from kafka_native.protocol.produce import ProduceRequest, ProduceResponse
from kafka_native.protocol.schema import ZERO_UUID, Request, Response

TIMEOUT = 10.0
CLIENT_ID = "wire"


class Closed(Exception):
    """The broker closed the connection."""


class OneBroker:
    """A single broker, in place of a cluster."""

    def __init__(self, address: str) -> None:
        self.where = address

    def address(self, broker: int) -> str:
        return self.where


class Wire:
    """A connection to one broker."""

    def __init__(self, cluster: MockCluster | OneBroker, broker: int = 1) -> None:
        host, _, port = cluster.address(broker).rpartition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT)
        self._numbers = itertools.count(1)

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, message: Request, version: int) -> int:
        number = next(self._numbers)
        self.send_frame(encode_request(message, version, number, CLIENT_ID))
        return number

    def send_frame(self, frame: bytes) -> None:
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def read_frame(self) -> bytes:
        return self._read(int.from_bytes(self._read(4), "big"))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(size - len(data))
            except ConnectionError as error:
                raise Closed(len(data)) from error
            if not piece:
                raise Closed(len(data))
            data += piece
        return bytes(data)

    def receive(self, message: Request, version: int, number: int) -> Any:
        got, response = decode_response(message.api_key, version, self.read_frame())
        assert got == number
        return response

    def ask(self, message: Request, version: int | None = None) -> Any:
        """Send a request and return its response. By default use the broker's newest version."""
        version = message.max_version if version is None else version
        return self.receive(message, version, self.send(message, version))

    def is_closed(self) -> bool:
        """Wait until the broker closes the connection. Return False if it sends bytes instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def batch(*values: bytes, timestamp: int = 1000, **options: Any) -> bytes:
    """Return a record batch. Timestamps count up from the given one."""
    return records.encode_batch(
        [(timestamp + i, None, value) for i, value in enumerate(values)], **options
    )


def produce_request(topic: str, partition: int, data: bytes, *, acks: int = 1) -> ProduceRequest:
    part = ProduceRequest.Topic.Partition(index=partition, records=data)
    return ProduceRequest(
        acks=acks, topic_data=[ProduceRequest.Topic(name=topic, partition_data=[part])]
    )


def produce(
    wire: Wire,
    topic: str,
    partition: int,
    data: bytes,
    version: int = 12,
    topic_id: bytes = ZERO_UUID,
) -> ProduceResponse.Topic.Partition:
    """Produce one batch, and return the answer for its partition."""
    request = produce_request(topic, partition, data)
    request.topic_data[0].topic_id = topic_id
    response: ProduceResponse = wire.ask(request, version)
    return response.responses[0].partition_responses[0]


def fetch_request(
    topic: str,
    offsets: dict[int, int],
    *,
    topic_id: bytes = ZERO_UUID,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
    epoch: int = -1,
) -> FetchRequest:
    parts = [
        FetchRequest.Topic.Partition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=epoch,
        )
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchRequest.Topic(topic=topic, topic_id=topic_id, partitions=parts)]
        if parts
        else [],
    )


def fetched(response: FetchResponse) -> dict[int, FetchResponse.Topic.Partition]:
    """Return the partitions of a response about one topic."""
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def values(part: FetchResponse.Topic.Partition) -> list[bytes | None]:
    """Return the values of the fetched records."""
    return [
        record.value
        for one in records.decode_batches(part.records or b"")
        for record in one.records
    ]


def check(response: Response, **expected: object) -> None:
    """Compare some fields of a response."""
    assert {name: getattr(response, name) for name in expected} == expected
