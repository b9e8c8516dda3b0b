"""Headers, frames and the registry, and frames that another client wrote."""

from __future__ import annotations

import socket
import struct
import threading

import pytest
from confluent_kafka.admin import AdminClient

from kafka_native.protocol import (
    ApiKey,
    ProtocolError,
    UnsupportedVersion,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    headers,
    registry,
)
from kafka_native.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_native.protocol.sasl import SaslHandshakeRequest
from kafka_native.protocol.schema import Request
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse


@pytest.mark.parametrize("key", list(registry.api_keys()), ids=lambda key: key.name)
def test_a_request_and_its_response_come_back_from_their_frames(key: ApiKey) -> None:
    request, response = registry.request(key), registry.response(key)
    for version in range(request.min_version, request.max_version + 1):
        header, message = decode_request(encode_request(request(), version, 77, "client"))
        assert (header.request_api_key, header.request_api_version) == (key, version)
        assert (header.correlation_id, header.client_id) == (77, "client")
        assert message == request()
        assert decode_response(key, version, encode_response(response(), version, -5)) == (
            -5,
            response(),
        )


def test_header_versions() -> None:
    assert headers.request_header_version(ApiKey.METADATA, 8) == 1
    assert headers.request_header_version(ApiKey.METADATA, 9) == 2
    assert headers.response_header_version(ApiKey.METADATA, 8) == 0
    assert headers.response_header_version(ApiKey.METADATA, 9) == 1
    assert headers.request_header_version(ApiKey.API_VERSIONS, 3) == 2
    assert headers.response_header_version(ApiKey.API_VERSIONS, 3) == 0
    assert headers.request_header_version(ApiKey.SASL_HANDSHAKE, 1) == 1
    with pytest.raises(KeyError):
        headers.request_header_version(ApiKey.VOTE, 0)


def test_frames_are_these_bytes() -> None:
    # Written by hand from Kafka's protocol guide.
    assert encode_request(ApiVersionsRequest(), 0, 1, None) == bytes.fromhex(
        "0012 0000 00000001 ffff"
    )
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    assert encode_request(request, 3, 2, "me") == bytes.fromhex(
        "0012 0003 00000002 0002 6d65 00 0261 0231 00"
    )
    assert encode_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 3, "") == bytes.fromhex(
        "0011 0001 00000003 0000 0005 504c41494e"
    )
    response = MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=1, host="h", port=9092)], controller_id=1
    )
    assert encode_response(response, 1, 4) == bytes.fromhex(
        "00000004 00000001 00000001 0001 68 00002384 ffff 00000001 00000000"
    )
    assert encode_response(response, 9, 4) == bytes.fromhex(
        "00000004 00 00000000 02 00000001 0268 00002384 00 00 00 00000001 01 80000000 00"
    )


def test_an_undeclared_api_or_version_is_reported_with_its_correlation_id() -> None:
    for key, version in ((ApiKey.METADATA, 14), (ApiKey.METADATA, -1), (ApiKey.VOTE, 0), (4711, 3)):
        with pytest.raises(UnsupportedVersion, match="not supported") as caught:
            decode_request(struct.pack(">hhih", key, version, 99, -1))
        assert (caught.value.api_key, caught.value.api_version, caught.value.correlation_id) == (
            key,
            version,
            99,
        )


@pytest.mark.parametrize("size", range(10))
def test_a_frame_without_a_whole_header_is_a_protocol_error(size: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_request(encode_request(MetadataRequest(), 1, 1, None)[:size])
    assert not isinstance(caught.value, UnsupportedVersion)


def test_a_refused_version_of_api_versions_is_read_as_version_0() -> None:
    refusal = ApiVersionsResponse(
        error_code=35,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)],
    )
    frame = encode_response(refusal, 0, 8)
    assert decode_response(ApiKey.API_VERSIONS, 4, frame) == (8, refusal)


def test_bytes_behind_a_body_are_ignored() -> None:
    # as librdkafka 2.16 writes it
    frame = bytes.fromhex("0003 000c 00000003 0002 6d65 00 00 00 00 00 010000")
    assert decode_request(frame)[1] == MetadataRequest(topics=None, allow_auto_topic_creation=False)
    frame = encode_response(MetadataResponse(), 12, 1) + b"more"
    assert decode_response(ApiKey.METADATA, 12, frame) == (1, MetadataResponse())


def _receive(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            return None
        data += piece
    return data


def _answer(connection: socket.socket, port: int, seen: list[tuple[int, Request]]) -> None:
    """Act as a broker for one connection of a client that sends ApiVersions and Metadata."""
    while (size := _receive(connection, 4)) is not None:
        frame = _receive(connection, struct.unpack(">i", size)[0])
        assert frame is not None
        header, request = decode_request(frame)
        version = header.request_api_version
        seen.append((version, request))
        reply: ApiVersionsResponse | MetadataResponse
        if isinstance(request, ApiVersionsRequest):
            keys = [ApiVersionsResponse.ApiVersion(api_key=key, max_version=9) for key in (0, 1, 2)]
            keys += [ApiVersionsResponse.ApiVersion(api_key=3, max_version=12)]
            keys += [ApiVersionsResponse.ApiVersion(api_key=18, max_version=4)]
            reply = ApiVersionsResponse(api_keys=keys)
        else:
            broker = MetadataResponse.Broker(node_id=1, host="127.0.0.1", port=port)
            partition = MetadataResponse.Topic.Partition(
                leader_id=1, replica_nodes=[1], isr_nodes=[1]
            )
            topic = MetadataResponse.Topic(name="witness", partitions=[partition])
            reply = MetadataResponse(
                brokers=[broker], topics=[topic], controller_id=1, cluster_id="c"
            )
        answer = encode_response(reply, version, header.correlation_id)
        connection.sendall(struct.pack(">i", len(answer)) + answer)


def _serve(listener: socket.socket, seen: list[tuple[int, Request]]) -> None:
    port = listener.getsockname()[1]
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(connection, port, seen), daemon=True).start()


def test_librdkafka_and_the_codec_understand_each_other() -> None:
    seen: list[tuple[int, Request]] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=_serve, args=(listener, seen), daemon=True).start()
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        metadata = client.list_topics(timeout=10)
    assert list(metadata.topics) == ["witness"]
    assert [(broker.id, broker.port) for broker in metadata.brokers.values()] == [(1, port)]
    version, first = seen[0]
    assert isinstance(first, ApiVersionsRequest)
    assert version >= 3
    assert first.client_software_version
    assert isinstance(seen[-1][1], MetadataRequest)
    assert seen[-1][0] >= 9
