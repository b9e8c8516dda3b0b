"""Keys and ciphertexts have Tink's formats."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.encryption.ciphers import ALGORITHMS, Cryptor
from kafka_native.schema_registry.rules.encryption.localkms.local_client import LocalKmsClient
from kafka_native.schema_registry.rules.encryption.localkms.local_driver import LocalKmsDriver

ERRORS_OF_MALFORMED_KEYS = {
    "the data encryption key doesn't fit AES256_GCM",
    "the data encryption key has another version than 0",
    "the data encryption key is cut off",
    "the data encryption key is malformed",
}
EACH_ALGORITHM = pytest.mark.parametrize("algorithm", ALGORITHMS)
# Made by Tink 1.16.
SIV_KEY = b"\x12\x40" + bytes(range(64))
SIV_TEXT = bytes.fromhex("4c796974c0dfa6582b0961c08ee00b524803219221")
LOCAL_TEXT = bytes.fromhex(
    "5c556211b855e7cc9042f3c546e2ebcb21e6781976f25b1e83090b239f68376410661ab6"
)


def theirs(algorithm: str) -> Any:
    pytest.importorskip("tink", reason="needs Tink as the witness")
    from confluent_kafka.schema_registry.rules.encryption import encrypt_executor

    return encrypt_executor.Cryptor(encrypt_executor.DekAlgorithm[algorithm])


@EACH_ALGORITHM
@pytest.mark.parametrize("plaintext", [b"", b"x", b"sixteen bytes...", bytes(1000)])
def test_tink_reads_what_we_write_and_the_other_way_round(algorithm: str, plaintext: bytes) -> None:
    tink, ours = theirs(algorithm), Cryptor(algorithm)
    for key in (tink.generate_key(), ours.generate_key()):
        assert tink.decrypt(key, ours.encrypt(key, plaintext, b""), b"") == plaintext
        assert ours.decrypt(key, tink.encrypt(key, plaintext, b""), b"") == plaintext
        assert tink.decrypt(key, ours.encrypt(key, plaintext, b"more"), b"more") == plaintext


@EACH_ALGORITHM
def test_keys_have_the_size_of_tinks(algorithm: str) -> None:
    key, other = theirs(algorithm).generate_key(), Cryptor(algorithm).generate_key()
    assert (len(key), key[:2]) == (len(other), other[:2])


def test_siv_is_deterministic_and_has_tinks_bytes() -> None:
    siv = Cryptor("AES256_SIV")
    assert siv.encrypt(SIV_KEY, b"hello", b"") == SIV_TEXT
    assert siv.decrypt(SIV_KEY, SIV_TEXT, b"") == b"hello"


@pytest.mark.parametrize("algorithm", ["AES128_GCM", "AES256_GCM"])
def test_gcm_has_another_nonce_each_time(algorithm: str) -> None:
    gcm = Cryptor(algorithm)
    key = gcm.generate_key()
    assert len({gcm.encrypt(key, b"same", b"")[:12] for _ in range(100)}) == 100


@EACH_ALGORITHM
def test_a_changed_bit_is_refused(algorithm: str) -> None:
    cryptor = Cryptor(algorithm)
    key = cryptor.generate_key()
    text = cryptor.encrypt(key, b"secret", b"")
    for index in range(len(text)):
        changed = bytearray(text)
        changed[index] ^= 1
        with pytest.raises(RuleError, match="changed"):
            cryptor.decrypt(key, bytes(changed), b"")
    with pytest.raises(RuleError, match="another key"):
        cryptor.decrypt(cryptor.generate_key(), text, b"")
    with pytest.raises(RuleError, match="another key"):
        cryptor.decrypt(key, text, b"other data")


@EACH_ALGORITHM
def test_short_ciphertexts_are_refused(algorithm: str) -> None:
    cryptor = Cryptor(algorithm)
    key = cryptor.generate_key()
    for size in range(16):
        with pytest.raises(RuleError, match="too short"):
            cryptor.decrypt(key, bytes(size), b"")


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(RuleError, match="AES128_GCM, AES256_GCM, AES256_SIV"):
        Cryptor("ROT13")


@EACH_ALGORITHM
def test_keys_of_other_algorithms_are_refused(algorithm: str) -> None:
    for other in set(ALGORITHMS) - {algorithm}:
        key = Cryptor(other).generate_key()
        with pytest.raises(RuleError, match=f"doesn't fit {algorithm}"):
            Cryptor(algorithm).encrypt(key, b"x", b"")


def test_unknown_fields_of_a_key_are_skipped_and_other_versions_refused() -> None:
    siv = Cryptor("AES256_SIV")
    more = b"\x08\x00" + b"\x21" + bytes(8) + b"\x2d" + bytes(4) + b"\x32\x01x"
    assert siv.encrypt(more + SIV_KEY, b"hello", b"") == SIV_TEXT
    with pytest.raises(RuleError, match="another version than 0"):
        siv.encrypt(b"\x08\x01" + SIV_KEY, b"hello", b"")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_malformed_keys_raise_rule_errors_without_the_key(key: bytes) -> None:
    with pytest.raises(RuleError) as caught:
        Cryptor("AES256_GCM").encrypt(key, b"x", b"")
    assert str(caught.value) in ERRORS_OF_MALFORMED_KEYS


@pytest.mark.parametrize("size", range(66))
def test_keys_that_are_cut_off_are_refused(size: int) -> None:
    with pytest.raises(RuleError):
        Cryptor("AES256_SIV").encrypt(SIV_KEY[:size], b"x", b"")


def test_the_local_kms_has_tinks_key_and_format() -> None:
    aead = LocalKmsClient("mysecret").get_aead("local-kms://key")
    assert aead.decrypt(LOCAL_TEXT, b"") == b"data key"
    pytest.importorskip("tink", reason="needs Tink as the witness")
    pytest.importorskip("hkdf", reason="needs confluent_kafka[rules] as the witness")
    from confluent_kafka.schema_registry.rules.encryption.localkms import local_client

    other = local_client.LocalKmsClient("mysecret").get_aead("local-kms://key")
    assert other.decrypt(aead.encrypt(b"data key", b""), b"") == b"data key"
    assert aead.decrypt(other.encrypt(b"data key", b""), b"") == b"data key"


def test_the_local_kms_takes_its_secret_from_the_configuration_then_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = LocalKmsDriver()
    monkeypatch.delenv("LOCAL_SECRET", raising=False)
    with pytest.raises(RuleError, match="LOCAL_SECRET"):
        driver.new_kms_client({}, None)
    monkeypatch.setenv("LOCAL_SECRET", "other")
    configured = driver.new_kms_client({"secret": "mysecret"}, None)
    assert configured.get_aead("local-kms://key").decrypt(LOCAL_TEXT, b"") == b"data key"
    with pytest.raises(RuleError):
        driver.new_kms_client({}, None).get_aead("local-kms://key").decrypt(LOCAL_TEXT, b"")
    monkeypatch.setenv("LOCAL_SECRET", "mysecret")
    found = driver.new_kms_client({}, "local-kms://key")
    assert found.does_support("local-kms://key")
    assert not found.does_support("aws-kms://key")
    assert found.get_aead("local-kms://key").decrypt(LOCAL_TEXT, b"") == b"data key"


def test_no_representation_shows_a_secret() -> None:
    client = LocalKmsClient("mysecret")
    assert "mysecret" not in repr(client) + repr(vars(client))
