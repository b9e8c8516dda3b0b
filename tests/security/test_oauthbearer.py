"""OAUTHBEARER: RFC 7628's messages, tokens, their renewal and their sources."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_native import KafkaException
from kafka_native.config import parse
from kafka_native.security.mechanisms import SaslError
from kafka_native.security.oauthbearer import OAuthBearer, Token, callback_source, parsed_extensions
from kafka_native.security.sasl import mechanism_of
from kafka_native.security.unsecured_jwt import unsecured_source

SECRET = "s3cret-word"
BASE = {
    "bootstrap.servers": "h:1",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "OAUTHBEARER",
}


class Source:
    """Returns tokens that last 100 s, or fails."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.asked = 0
        self.failure: Exception | None = None

    def __call__(self) -> Token:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return Token(f"{SECRET}.{self.asked}", self.now + 100, "alice")


def bearer() -> tuple[OAuthBearer, Source]:
    source = Source()
    return OAuthBearer(source, clock=lambda: source.now), source


def test_message_is_the_rfcs() -> None:
    token = Token(
        "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==",
        2.0,
        "user",
        {"host": "server.example.com", "port": "143"},
    )
    exchange = OAuthBearer(lambda: token, clock=lambda: 1.0).exchange("h", 1)
    assert exchange.begin() == (
        b"n,,\x01auth=Bearer "
        b"vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01host=server.example.com\x01port=143\x01\x01"
    )
    assert exchange.respond(b"") is None
    assert exchange.done


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (b'{"status":"invalid_token","scope":"a b"}', "status: invalid_token, scope: a b"),
        (b"not json\n", "not json?"),
        (b"[1]", "[1]"),
        (b"{}", "{}"),
        (b"[" * 10_000, "[[["),
        (b"[" * 20_000, "a text of 20000 characters"),
        (b"[" * 100_000, "a message of 100000 bytes"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_broker_that_refuses_is_answered_and_quoted(challenge: bytes, words: str) -> None:
    mechanism, _ = bearer()
    exchange = mechanism.exchange("h", 1)
    exchange.begin()
    assert exchange.respond(challenge) == b"\x01"
    assert words in exchange.problem
    assert len(exchange.problem) < 600
    assert exchange.respond(b"") is None
    assert not exchange.done, "an empty answer after a refusal is no success"
    with pytest.raises(SaslError, match="the broker says"):
        exchange.respond(challenge)


@settings(deadline=None)  # a machine may be busy
@given(st.text(max_size=30))
def test_tokens_cannot_add_fields_to_the_message(text: str) -> None:
    try:
        token = Token(text, 2.0)
    except SaslError:
        return
    message = OAuthBearer(lambda: token, clock=lambda: 1.0).exchange("h", 1).begin()
    assert message.count(b"\x01") == 3
    assert b" " not in message.removeprefix(b"n,,\x01auth=Bearer ")


@pytest.mark.parametrize("text", ["", "a b", "a\x01b=c", "a\n", "ä", "=", "a=b"])
def test_invalid_tokens_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(SaslError, match="the token is empty or has characters"):
        Token(text, 2.0)


@pytest.mark.parametrize(
    "extensions",
    [
        {"auth": "x"},
        {"a1": "x"},
        {"": "x"},
        {"a": ""},
        {"a": "x\x01b=c"},
        {"a": "\x7f"},
        {"a=b": "c"},
        {"ä": "x"},
    ],
)
def test_extensions_are_those_of_kip_342(extensions: dict[str, str]) -> None:
    with pytest.raises(SaslError, match="extension"):
        Token("t", 2.0, "", extensions)


def test_token_is_kept_until_it_expires_and_renewed_before() -> None:
    mechanism, source = bearer()
    assert mechanism.refresh_at == 0.0, "without a token: at once"
    mechanism.refresh()
    assert mechanism.refresh_at == 1080.0
    for source.now in (1000.0, 1050.0, 1099.0):
        assert mechanism.token().value == f"{SECRET}.1"
    assert source.asked == 1
    source.now = 1100.0
    assert mechanism.token().value == f"{SECRET}.2"
    mechanism.on_refused()
    assert mechanism.token().value == f"{SECRET}.3", "the broker may have revoked the old token"
    assert mechanism.user == "alice"


def test_failed_renewal_keeps_the_old_token_and_is_not_repeated_by_every_connection() -> None:
    mechanism, source = bearer()
    mechanism.refresh()
    source.failure = ValueError("nobody there")
    source.now = 1085.0
    with pytest.raises(ValueError, match="nobody there"):
        mechanism.refresh()
    assert mechanism.token().value == f"{SECRET}.1"
    source.now = 1100.0
    for _ in range(5):
        with pytest.raises(ValueError, match="nobody there"):
            mechanism.token()
    assert source.asked == 3
    source.now = 1101.0
    source.failure = None
    assert mechanism.token().value == f"{SECRET}.4"


def test_a_failure_after_a_long_wait_is_not_repeated_by_every_connection() -> None:
    """The connections that waited meanwhile don't wait for attempts of their own."""
    source = Source()

    def times_out() -> Token:
        source.asked += 1
        source.now += 30.0
        raise SaslError("no connection in 30 s")

    mechanism = OAuthBearer(times_out, clock=lambda: source.now)
    for _ in range(5):
        with pytest.raises(SaslError, match="no connection"):
            mechanism.token()
    assert source.asked == 1


def test_expired_tokens_are_refused() -> None:
    mechanism = OAuthBearer(lambda: Token("t", 999.0), clock=lambda: 1000.0)
    with pytest.raises(SaslError, match="expired 1 s ago"):
        mechanism.refresh()


def test_expiry_that_is_not_a_number_is_refused() -> None:
    """NaN can't be compared, so the client would renew the token again and again."""
    mechanism = OAuthBearer(lambda: Token("t", float("nan")), clock=lambda: 1000.0)
    with pytest.raises(SaslError, match="expiry time isn't a number"):
        mechanism.refresh()


def test_oauth_cb_gets_the_config_and_may_return_two_to_four_values() -> None:
    given_: list[Any] = []
    for found, principal, extensions in (
        (("t", 5), "", {}),
        (("t", 5.5, "alice"), "alice", {}),
        (("t", 5, "alice", {"a": "b"}), "alice", {"a": "b"}),
    ):
        token = callback_source(
            lambda config, found=found: given_.append(config) or found, "some config"
        )()
        assert (token.value, token.expires) == found[:2]
        assert (token.principal, token.extensions) == (principal, extensions)
    assert given_ == ["some config"] * 3


@pytest.mark.parametrize(
    "found",
    [
        None,
        "t",
        ("t",),
        (5, 5),
        ("t", "5"),
        ("t", True),
        ("t", 5, None),
        ("t", 5, "a", []),
        ("t", 5, "a", {}, 1),
    ],
)
def test_other_results_of_oauth_cb_are_refused_and_not_shown(found: Any) -> None:
    with pytest.raises(SaslError, match="oauth_cb has to return"):
        callback_source(lambda config: found, None)()


def claims_of(token: Token) -> tuple[Any, Any]:
    head, claims, signature = token.value.split(".")
    assert signature == ""
    return tuple(
        json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        for part in (head, claims)
    )


def test_unsecured_tokens_are_as_librdkafka_describes_them() -> None:
    config = (
        "principalClaimName=azp principal=admin scopeClaimName=roles scope=role1,role2 "
        "lifeSeconds=600 extension_tId=x"
    )
    token = unsecured_source(config, clock=lambda: 1000.0)()
    assert claims_of(token) == (
        {"alg": "none"},
        {"azp": "admin", "iat": 1000.0, "exp": 1600.0, "roles": ["role1", "role2"]},
    )
    assert (token.expires, token.principal, token.extensions) == (1600.0, "admin", {"tId": "x"})
    assert claims_of(unsecured_source('principal=a"b', clock=lambda: 1.0)())[1] == {
        "sub": 'a"b',
        "iat": 1,
        "exp": 3601,
    }


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("", "no principal"),
        ("principal=", "no principal"),
        ("principal=a x=b", "unknown or doubled: x"),
        ("principal=a principal=b", "doubled"),
        ("principal=a lifeSeconds=0", "lifeSeconds"),
        ("principal=a lifeSeconds=1e3", "lifeSeconds"),
        ("principal=a extension_auth=b", "SASL extension"),
    ],
)
def test_wrong_description_of_a_token_is_refused_at_construction(config: str, words: str) -> None:
    conf = {**BASE, "enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": config}
    with pytest.raises(KafkaException, match=words):
        mechanism_of(parse(conf, "producer"))


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({}, "OAUTHBEARER needs `oauth_cb`"),
        (
            {"sasl.oauthbearer.method": "oidc", "enable.sasl.oauthbearer.unsecure.jwt": True},
            (
                "`enable.sasl.oauthbearer.unsecure.jwt` and `sasl.oauthbearer.method=oidc` are "
                "mutually exclusive"
            ),
        ),
    ],
)
def test_configuration_without_a_source_of_tokens_is_refused(
    conf: dict[str, Any], words: str
) -> None:
    with pytest.raises(KafkaException, match=words):
        mechanism_of(parse({**BASE, **conf}, "consumer"))


def test_extensions_are_read_as_pairs() -> None:
    assert parsed_extensions("a=b, c=d=e,") == {"a": "b", "c": "d=e"}
    assert parsed_extensions("") == {}
    with pytest.raises(SaslError, match="key=value"):
        parsed_extensions("a,b=c")


def test_nothing_shows_a_token() -> None:
    mechanism, _ = bearer()
    exchange = mechanism.exchange("h", 1)
    exchange.begin()
    for each in (mechanism, exchange, mechanism.token()):
        assert SECRET not in f"{each!r} {each}"
    assert f"{SECRET}.1" in mechanism.secrets()
