"""Secrets are overwritten in memory after their last use."""

from __future__ import annotations

import gc
import hashlib
import hmac
import pickle
from typing import Any

import pytest

from kafka_native import Consumer, Producer
from kafka_native._native.primitives import wipe
from kafka_native.security.aws_msk_iam import AwsCredentials, AwsMskIam, signed_payload
from kafka_native.security.mechanisms import Credentials
from kafka_native.security.plain import Plain
from kafka_native.security.redaction import Secrets
from kafka_native.security.scram import Scram
from kafka_native.security.secret_buffer import SecretBuffer

from .test_scram import Server, converse, mechanism

PASSWORD = "s3cret-word"


def is_wiped(data: bytes | bytearray) -> bool:
    return len(data) > 1 and not any(data)


def test_wipe_overwrites_buffers_and_bytes() -> None:
    for data in (bytearray(PASSWORD.encode()), PASSWORD.encode()):
        wipe(data)
        assert data == bytes(len(PASSWORD))
    one = b"a"
    wipe(one)  # all code shares it
    assert one == b"a"
    wipe(b"")
    for wrong in (PASSWORD, memoryview(b"ab"), 3, None):
        with pytest.raises(TypeError):
            wipe(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("secret", [PASSWORD, "pässwörd", "a", "", "\ud800x"])
def test_a_buffer_returns_the_secret_until_it_is_wiped(secret: str) -> None:
    buffer = SecretBuffer(secret)
    assert buffer.text() == secret
    if len(secret) > 1:
        assert secret not in repr(buffer)
    buffer.wipe()
    assert not any(buffer.data)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(buffer)


def test_the_last_reference_overwrites_it() -> None:
    buffer = SecretBuffer(PASSWORD)
    data = buffer.data
    credentials = Credentials("user", PASSWORD)
    password = credentials._password.data
    del buffer, credentials
    gc.collect()
    assert is_wiped(data)
    assert is_wiped(password)


def test_taken_bytes_are_overwritten() -> None:
    source = bytes(bytearray(b"0123456789"))
    buffer = SecretBuffer.taken(source)
    assert buffer.data == b"0123456789"
    assert is_wiped(source)


def test_scram_overwrites_the_salted_password_and_the_unused_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(PASSWORD)
    scram = mechanism(password=PASSWORD)
    salted: list[bytes] = []
    given: list[Any] = []
    real = hashlib.pbkdf2_hmac

    def derive(name: str, password: Any, *args: Any) -> bytes:
        given.append(password)
        salted.append(real(name, password, *args))
        return salted[-1]

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", derive)
    assert converse(scram, server).done
    assert all(map(is_wiped, salted))
    assert len(salted) == 1
    assert all(map(is_wiped, given)), "the exchange's own copy of the password"
    credentials, cache = scram._state
    assert credentials.password == PASSWORD  # for the next salt
    buffers = [each.data for keys in cache.values() for each in keys]
    assert len(buffers) == 2
    assert not any(map(is_wiped, buffers))
    old = credentials._password.data
    scram.set_credentials(Credentials("user", "another"))
    del credentials, cache
    gc.collect()
    assert is_wiped(old)
    assert all(map(is_wiped, buffers))
    assert converse(scram, Server("another")).done
    [keys] = scram._state[1].values()
    scram.close()
    assert is_wiped(keys.client.data)
    assert is_wiped(keys.server.data)
    assert is_wiped(scram._state[0]._password.data)
    assert list(scram.secrets()) == []


def test_aws_overwrites_the_signing_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = AwsCredentials("AK", PASSWORD, "t0ken")
    expected = signed_payload(credentials, "h", "eu-west-1", "agent", 0.0)
    digests: list[bytes] = []
    real = hmac.digest

    def digest(*args: Any) -> bytes:
        digests.append(real(*args))
        return digests[-1]

    monkeypatch.setattr(hmac, "digest", digest)
    assert signed_payload(credentials, "h", "eu-west-1", "agent", 0.0) == expected
    *keys, signature = digests
    assert len(keys) == 4
    assert all(map(is_wiped, keys))
    assert signature.hex() == expected["x-amz-signature"]
    assert (credentials.secret_key, credentials.session_token) == (PASSWORD, "t0ken")


def test_aws_keeps_no_credentials_after_an_exchange() -> None:
    buffers: list[bytearray] = []

    def find() -> AwsCredentials:
        found = AwsCredentials("AK", PASSWORD, "t0ken")
        assert found._session_token is not None
        buffers.extend((found._secret_key.data, found._session_token.data))
        return found

    aws = AwsMskIam(find, "agent", "eu-west-1")
    aws.exchange("h", 1).begin()
    gc.collect()
    assert len(buffers) == 2
    assert all(map(is_wiped, buffers))
    assert aws.user == "AK"
    assert PASSWORD in list(aws.secrets())  # for redaction, until close()
    aws.close()
    assert list(aws.secrets()) == []


def test_secrets_for_redaction_are_overwritten() -> None:
    secrets = Secrets(["lasting"])
    secrets.add("recent", "recent", "other")
    assert list(secrets) == ["other", "recent", "lasting"]
    buffers = [each.data for each in (*secrets._recent, *secrets._lasting)]
    secrets.wipe()
    assert list(secrets) == []
    assert all(map(is_wiped, buffers))


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("kind", [Producer, Consumer])
def test_a_closed_client_has_no_password(kind: Any, name: str) -> None:
    conf = {
        "bootstrap.servers": "127.0.0.1:1",
        "log_level": 0,
        "group.id": "g",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": name,
        "sasl.username": "user",
        "sasl.password": PASSWORD,
    }
    client = kind(conf)
    own = client._client._mechanism
    assert isinstance(own, (Plain, Scram))
    assert own._credentials.password == PASSWORD
    client.close()
    assert is_wiped(own._credentials._password.data)
    assert list(own.secrets()) == []
