"""A connection to a broker without a client, and the frames of Produce requests."""

from __future__ import annotations

import socket
import ssl
import struct
import time

from bench.adapters import Task
from kafka_native._native.records import encode_batch
from kafka_native.protocol import ApiKey, decode_response, encode_request
from kafka_native.protocol.produce import ProduceRequest, ProduceResponse

PRODUCE_VERSION = 9
FETCH_VERSION = 11
FETCH_BYTES = 2 << 20
TIMEOUT_MS = 30_000


class Connection:
    """Sends and receives frames over a blocking socket.

    With TLS it is Python's own, with one call for each TLS record.
    """

    def __init__(self, task: Task) -> None:
        host, _, port = (task.tls or task.bootstrap).split(",")[0].rpartition(":")
        host = host.strip("[]")
        self._socket = socket.create_connection((host, int(port)), 30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if task.tls:
            self._socket = ssl.create_default_context(cafile=task.ca).wrap_socket(
                self._socket, server_hostname=host
            )
        self._buffer = bytearray(1 << 16)

    def send(self, frame: bytes) -> None:
        """Send a frame that `framed` has made."""
        self._socket.sendall(frame)

    def receive(self) -> memoryview:
        """Receive the next frame. The next call overwrites its buffer."""
        size = struct.unpack(">i", self._exactly(4))[0]
        return self._exactly(size)

    def _exactly(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        got = 0
        while got < size:
            count = self._socket.recv_into(view[got:])
            if not count:
                raise ConnectionError("the broker has closed the connection")
            got += count
        return view


def framed(body: bytes) -> bytes:
    """Put the length in front of a body."""
    return struct.pack(">i", len(body)) + body


def produce_frame(task: Task, partition: int, records: int) -> bytes:
    """Make a request with one batch of ``records`` records."""
    now = int(time.time() * 1000)
    batch = encode_batch([(now, None, b"x" * task.size)] * records)
    data = ProduceRequest.Topic.Partition(index=partition, records=batch)
    topic = ProduceRequest.Topic(name=task.topic, partition_data=[data])
    acks = -1 if task.acks == "all" or task.idempotent else int(task.acks)
    message = ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[topic])
    return framed(encode_request(message, PRODUCE_VERSION, 1, "bench"))


def check_produced(frame: memoryview) -> None:
    """Raise an error if the broker has rejected a batch."""
    _, reply = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, bytes(frame))
    assert isinstance(reply, ProduceResponse)
    for topic in reply.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                raise RuntimeError(f"produce failed with error {partition.error_code}")
