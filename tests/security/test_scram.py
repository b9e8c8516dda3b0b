"""SCRAM: the RFCs' examples, a server that proves its identity, and one that doesn't."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native.security.mechanisms import Credentials, SaslError
from kafka_native.security.saslprep import saslprep
from kafka_native.security.scram import Scram, ScramExchange
from kafka_native.security.secret_buffer import SecretBuffer

PASSWORD = "pencil"


def mechanism(
    name: str = "SCRAM-SHA-256", password: str = PASSWORD, nonce: str = "own", **how: bool
) -> Scram:
    return Scram(name, Credentials("user", password), make_nonce=lambda: nonce, **how)


class Server:
    """The server, written from the RFC's formulas and not from our code."""

    def __init__(
        self, password: str = PASSWORD, hash_name: str = "sha256", iterations: int = 4096
    ) -> None:
        self.hash, self.iterations, self.salt = hash_name, iterations, b"some salt"
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), self.salt, iterations)
        self.stored = hashlib.new(hash_name, self.mac(salted, "Client Key")).digest()
        self.key = self.mac(salted, "Server Key")

    def mac(self, key: bytes, text: str) -> bytes:
        return hmac.new(key, text.encode(), self.hash).digest()

    def first(self, client_first: bytes) -> bytes:
        self.client_first = client_first.decode().removeprefix("n,,")
        nonce = dict(part.split("=", 1) for part in self.client_first.split(","))["r"]
        self.challenge = (
            f"r={nonce}theirs,s={base64.b64encode(self.salt).decode()},i={self.iterations}"
        )
        return self.challenge.encode()

    def final(self, client_final: bytes) -> bytes:
        without_proof, _, proof = client_final.decode().partition(",p=")
        message = f"{self.client_first},{self.challenge},{without_proof}"
        signature = self.mac(self.stored, message)
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self.hash, key).digest() != self.stored:
            return b"e=invalid-proof"
        return b"v=" + base64.b64encode(self.mac(self.key, message))


def test_example_of_rfc_7677() -> None:
    exchange = mechanism(nonce="rOprNGfwEbeRWgbNEkqO").exchange("h", 1)
    assert exchange.begin() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    answer = exchange.respond(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert answer == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    assert not exchange.done
    assert exchange.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert exchange.done


def test_example_of_rfc_5802() -> None:
    """The example uses SHA-1, which no broker has, but the formulas are the same."""
    scram = mechanism(nonce="fyko+d2lbbFgONRv9qkxdawL")
    scram.hash = "sha1"
    exchange = scram.exchange("h", 1)
    assert exchange.begin() == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    nonce = "fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j"
    answer = exchange.respond(f"r={nonce},s=QSXCR+Q6sek8bf92,i=4096".encode())
    assert answer == f"c=biws,r={nonce},p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=".encode()
    assert exchange.respond(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=") is None


def converse(scram: Scram, server: Server) -> ScramExchange:
    exchange = scram.exchange("h", 1)
    challenge = server.first(exchange.begin())
    proof = exchange.respond(challenge)
    assert proof is not None
    assert exchange.respond(server.final(proof)) is None
    assert isinstance(exchange, ScramExchange)
    return exchange


@pytest.mark.parametrize(
    ("name", "hash_name"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")]
)
def test_both_hashes_with_a_server_of_the_formulas(name: str, hash_name: str) -> None:
    assert converse(mechanism(name), Server(hash_name=hash_name)).done


def test_wrong_password_raises_the_servers_error() -> None:
    with pytest.raises(SaslError, match="invalid-proof"):
        converse(mechanism(password="pencils"), Server())


def test_server_that_does_not_know_the_password_is_refused() -> None:
    scram, server = mechanism(), Server()
    exchange = scram.exchange("h", 1)
    exchange.respond(server.first(exchange.begin()))
    with pytest.raises(SaslError, match="signature is wrong"):
        exchange.respond(b"v=" + base64.b64encode(bytes(32)))
    assert not exchange.done


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"r=other,s=QSXCR+Q6sek8bf92,i=4096", "nonce"),
        (b"r=own,s=QSXCR+Q6sek8bf92,i=4096", "nonce"),
        (b"r=own1,s=QSXCR+Q6sek8bf92,i=4095", "4095 iterations"),
        (b"r=own1,s=QSXCR+Q6sek8bf92,i=1000001", "1000001 iterations"),
        (b"r=own1,s=QSXCR+Q6sek8bf92,i=99999999999999", "iterations"),
        (b"r=own1,s=QSXCR+Q6sek8bf92,i=-5000", "iterations"),
        (b"r=own1,s=,i=4096", "salt has 0 bytes"),
        (b"r=own1,s=?,i=4096", "salt isn't base64"),
        (b"r=own1,s=" + base64.b64encode(bytes(1025)) + b",i=4096", "salt has 1025 bytes"),
        (b"m=x,r=own1,s=QSXCR+Q6sek8bf92,i=4096", "not a SCRAM message"),
        (b"i=4096,r=own1,s=QSXCR+Q6sek8bf92", "not a SCRAM message"),
        (b"", "not a SCRAM message"),
        (b"\xff", "isn't UTF-8"),
        (b"x" * 5000, "5000 bytes"),
    ],
)
def test_hostile_first_messages_are_refused_before_anything_is_hashed(
    message: bytes, words: str
) -> None:
    scram = mechanism()
    exchange = scram.exchange("h", 1)
    exchange.begin()
    with pytest.raises(SaslError, match=words):
        exchange.respond(message)
    assert scram._state[1] == {}


@settings(deadline=None)  # a machine may be busy
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_messages_end_in_an_error(first: bytes, final: bytes) -> None:
    exchange = mechanism().exchange("h", 1)
    exchange.begin()
    with pytest.raises(SaslError):
        exchange.respond(first)
    server = Server.__new__(Server)
    server.hash, server.iterations, server.salt = "sha256", 4096, b"some salt"
    exchange = mechanism().exchange("h", 1)
    exchange.respond(server.first(exchange.begin()))
    with pytest.raises(SaslError):
        exchange.respond(final)
    assert not exchange.done


def test_keys_are_derived_once_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    real = hashlib.pbkdf2_hmac
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *args: hashed.append(args) or real(*args))
    scram, server = mechanism(), Server()
    hashed.clear()
    for _ in range(3):
        assert converse(scram, server).done
    assert len(hashed) == 1
    scram.set_credentials(Credentials("user", "pencils"))
    assert converse(scram, Server("pencils")).done
    assert len(hashed) == 3  # including the server's
    cache = scram._state[1]
    for iterations in range(4096, 4096 + 40):
        scram.keys(cache, 0, SecretBuffer("pencils"), b"salt", iterations)
    assert len(cache) <= 16


def test_names_are_escaped_and_delegation_tokens_are_marked() -> None:
    scram = Scram(
        "SCRAM-SHA-256", Credentials("a=b,c", PASSWORD), is_token=True, make_nonce=lambda: "x"
    )
    assert scram.exchange("h", 1).begin() == b"n,,n=a=3Db=2Cc,r=x,tokenauth=true"
    assert converse(mechanism(is_token=True), Server()).done


def test_nonces_differ() -> None:
    scram = Scram("SCRAM-SHA-256", Credentials("user", PASSWORD))
    assert len({scram.exchange("h", 1).begin() for _ in range(100)}) == 100


def test_password_is_used_unchanged_and_prepared_after_a_refusal() -> None:
    scram = mechanism(password="p\u00adª")
    assert converse(scram, Server("p\u00adª")).done
    scram.on_refused()
    assert converse(scram, Server("pa")).done
    scram.on_refused()
    assert converse(scram, Server("p\u00adª")).done
    assert converse(mechanism(password="\x07"), Server("\x07")).done, (
        "a password that can't be prepared is used unchanged"
    )


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("ª", "a"),
        ("Ⅸ", "IX"),
        ("a\u00a0b", "a b"),
        ("", ""),
    ],
)
def test_saslprep_examples_of_rfc_4013(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared


@pytest.mark.parametrize(
    "text", ["\u0007", "\u0627\u0031", "\u00ad", "\ue000", "\u0221", "\u0627a\u0627", "a\u0627"]
)
def test_saslprep_refuses_what_the_rfc_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        saslprep(text)


def test_saslprep_accepts_text_from_right_to_left() -> None:
    assert saslprep("\u0627\u0031\u0628") == "\u0627\u0031\u0628"


@settings(deadline=None)  # a machine may be busy
@given(st.text(max_size=20))
def test_saslprep_is_idempotent_or_refuses(text: str) -> None:
    try:
        once = saslprep(text)
    except ValueError:
        return
    assert saslprep(once) == once


def test_nothing_shows_the_password_or_derived_keys() -> None:
    scram, server = mechanism(password="s3cret-word"), Server("s3cret-word")
    exchange = converse(scram, server)
    [keys] = scram._state[1].values()
    for each in (scram, exchange, keys, Credentials("user", "s3cret-word")):
        assert "s3cret-word" not in repr(each)
        assert repr(bytes(keys.client.data)) not in repr(each)
