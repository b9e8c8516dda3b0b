"""Bootstrap server lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_native.config import parse, parse_bootstrap
from kafka_native.errors import KafkaError, KafkaException


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        ("", []),
        (" , ,", []),
        ("h1", [("h1", 9092)]),
        ("h1:9093", [("h1", 9093)]),
        ("h1:9092,[::1]:9093,PLAINTEXT://h2", [("h1", 9092), ("::1", 9093), ("h2", 9092)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        ("plaintext://[fe80::1]:5", [("fe80::1", 5)]),
        ("[::1]", [("::1", 9092)]),
        ("::1", [("::1", 9092)]),
        ("127.0.0.1:65535", [("127.0.0.1", 65535)]),
        ("broker_1.example.com.:9092", [("broker_1.example.com.", 9092)]),
    ],
)
def test_servers_are_split_into_hosts_and_ports(
    servers: str, expected: list[tuple[str, int]]
) -> None:
    assert parse_bootstrap(servers) == expected
    assert parse({"bootstrap.servers": servers}, "producer").bootstrap == expected


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ("h:0", "is not a port"),
        ("h:65536", "is not a port"),
        ("h:x", "is not a port"),
        ("h:", "is not a port"),
        ("h:-1", "is not a port"),
        ("h:٣", "is not a port"),
        ("h:999999999999999999999", "is not a port"),
        ("http://h:1", 'unsupported protocol "http"'),
        ("h:1/path", "is not a port"),
        ("a b:1", "Invalid bootstrap server"),
        ("[::1", "Invalid bootstrap server"),
        ("[nonsense]:1", "is not an IPv6 address"),
        ("[]:1", "is not an IPv6 address"),
        (":9092", "Invalid bootstrap server"),
        ("user@h:1", "Invalid bootstrap server"),
        ("good:1,://", "Invalid bootstrap server"),
        ("\u200d:1", "Invalid bootstrap server"),
        (f"{'ä' * 70}:1", "Invalid bootstrap server"),
    ],
)
def test_bad_server_is_a_clear_error(servers: str, words: str) -> None:
    with pytest.raises(KafkaException, match=words) as caught:
        parse_bootstrap(servers)
    assert caught.value.args[0] == KafkaError._INVALID_ARG
    with pytest.raises(KafkaException, match=words):
        parse({"bootstrap.servers": servers}, "consumer")


@pytest.mark.parametrize("protocol", ["SSL", "sasl_plaintext", "SASL_SSL"])
def test_protocol_must_match_security_protocol(protocol: str) -> None:
    with pytest.raises(
        KafkaException, match=r"isn't that of security\.protocol, which is plaintext"
    ) as caught:
        parse_bootstrap(f"h:1,{protocol}://h:1")
    assert caught.value.args[0] == KafkaError._INVALID_ARG
    assert parse_bootstrap(f"{protocol}://h:1,h:2", protocol.lower()) == [("h", 1), ("h", 2)]
    with pytest.raises(KafkaException, match=r"isn't that of security\.protocol"):
        parse_bootstrap("PLAINTEXT://h:1", protocol.lower())


@given(st.text(alphabet="ab:/[]., 1", max_size=20))
def test_any_text_is_parsed_or_refused_cleanly(servers: str) -> None:
    found: list[tuple[str, int]] = []
    error = KafkaError(KafkaError._INVALID_ARG)
    try:
        found = parse_bootstrap(servers)
    except KafkaException as caught:
        error = caught.args[0]
    assert error == KafkaError._INVALID_ARG
    assert all(host and 0 < port < 65536 for host, port in found)
