"""The valid values of ``proxy.url``. No error text shows its content."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

import pytest

from kafka_native import Consumer, KafkaError, KafkaException, Producer
from kafka_native.admin import AdminClient
from kafka_native.config import parse
from kafka_native.security.proxy import Proxy, proxy_of

SECRET = "s3cret-word"


def proxy(url: str | None) -> Proxy | None:
    return proxy_of(parse({"bootstrap.servers": "b:1", "proxy.url": url}, "producer"))


@pytest.mark.parametrize(
    ("url", "scheme", "host", "port", "login"),
    [
        ("socks5://proxy:1080", "socks5", "proxy", 1080, b""),
        ("SOCKS5H://Proxy.Example:1/", "socks5h", "proxy.example", 1, b""),
        ("http://[::1]:3128", "http", "::1", 3128, b""),
        ("socks5://me:word@proxy:1080", "socks5", "proxy", 1080, b"\x01\x02me\x04word"),
        (
            "socks5h://m%40e:w%2F%C3%A4@proxy:1080",
            "socks5h",
            "proxy",
            1080,
            b"\x01\x03m@e\x04w/\xc3\xa4",
        ),
        ("http://me:w:d@proxy:80", "http", "proxy", 80, b"Proxy-Authorization: Basic bWU6dzpk\r\n"),
        ("http://token@proxy:80", "http", "proxy", 80, b"Proxy-Authorization: Basic dG9rZW46\r\n"),
    ],
)
def test_url_has_scheme_address_and_login(
    url: str, scheme: str, host: str, port: int, login: bytes
) -> None:
    assert proxy(url) == (scheme, host, port, login)


@pytest.mark.parametrize("url", [None, ""])
def test_without_an_url_there_is_no_proxy(url: str | None) -> None:
    assert proxy(url) is None


def test_the_longest_login_has_room() -> None:
    for scheme in ("socks5", "http"):
        found = proxy(f"{scheme}://{'u' * 255}:{'p' * 255}@{'h' * 255}:1080")
        assert found is not None
        with Producer({"proxy.url": f"{scheme}://{'u' * 255}:{'p' * 255}@{'h' * 255}:1080"}):
            pass


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (f"{SECRET}", "begins with none of"),
        (f"proxy:1080/{SECRET}", "begins with none of"),
        (f"https://me:{SECRET}@proxy:1080", "without TLS"),
        (f"socks4://me:{SECRET}@proxy:1080", "begins with none of"),
        (f"socks5://me:{SECRET}@proxy", "no port"),
        (f"socks5://me:{SECRET}@proxy:0", "no port"),
        (f"socks5://me:{SECRET}@:1080", "no host"),
        (f"socks5://me:{SECRET}@{'h' * 256}:1080", "no port"),
        (f"socks5://proxy:{SECRET}", "isn't an URL"),
        (f"socks5://me:{SECRET}/x@proxy:1080", "isn't an URL"),
        (f"socks5://me:{SECRET}@proxy:99999", "isn't an URL"),
        (f"socks5://me:{SECRET}@[::1:1080", "isn't an URL"),
        (f"socks5://me:{SECRET}@proxy:1080/path", "after the port"),
        (f"http://me:{SECRET}@proxy:1080/?q", "after the port"),
        (f"http://me:{SECRET}@proxy:1080#x", "after the port"),
        (f"socks5://me:{SECRET} @proxy:1080", "characters"),
        (f"socks5://me:{SECRET}\r\n@proxy:1080", "characters"),
        (f"socks5://mé:{SECRET}@proxy:1080", "characters"),
        (f"socks5://:{SECRET}@proxy:1080", "a user has 1 to 255 bytes"),
        (f"socks5://me:{SECRET}{'x' * 255}@proxy:1080", "a password no more"),
        (f"socks5://{SECRET}@proxy:1080", "has a password"),
        (f"http://m%3Ae:{SECRET}@proxy:1080", "no colon"),
    ],
)
@pytest.mark.parametrize("kind", [Producer, Consumer, AdminClient])
def test_error_of_a_wrong_url_hides_the_url(kind: Any, url: str, text: str) -> None:
    with pytest.raises(KafkaException) as caught:
        kind({"bootstrap.servers": "b:1", "group.id": "g", "proxy.url": url})
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG
    assert text in caught.value.args[0].str()
    everything = "".join(traceback.format_exception(caught.value))
    assert "proxy.url" in everything
    assert SECRET not in everything
    assert "%40 stands for @" in everything, "a hint text how to write one"


def test_nothing_shows_the_login() -> None:
    config = parse(
        {"bootstrap.servers": "b:1", "proxy.url": f"http://me:{SECRET}@[::1]:1"}, "producer"
    )
    found = proxy_of(config)
    assert repr(found) == "Proxy(http://[redacted]@[::1]:1)"
    assert repr(proxy("socks5://h:1")) == "Proxy(socks5://h:1)"
    assert SECRET not in f"{config!r} {config} {pickle.loads(pickle.dumps(config))!r}"
