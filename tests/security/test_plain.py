"""PLAIN: RFC 4616's message."""

from __future__ import annotations

import pytest

from kafka_native.security.mechanisms import Credentials, SaslError, shown
from kafka_native.security.plain import Plain


def test_message_is_the_rfcs_and_an_empty_answer_ends_the_exchange() -> None:
    exchange = Plain(Credentials("tim", "tanstaaftanstaaf")).exchange("h", 1)
    assert exchange.begin() == b"\0tim\0tanstaaftanstaaf"
    assert not exchange.done
    assert exchange.respond(b"") is None
    assert exchange.done


def test_other_scripts_are_sent_as_utf8_unchanged() -> None:
    exchange = Plain(Credentials("Ϩⓡⓡ", "ª")).exchange("h", 1)
    assert exchange.begin() == "\0Ϩⓡⓡ\0ª".encode()


@pytest.mark.parametrize(("name", "password"), [("a\0b", "c"), ("a", "b\0c")])
def test_nul_is_refused_because_it_separates_fields(name: str, password: str) -> None:
    with pytest.raises(SaslError, match="NUL") as caught:
        Plain(Credentials(name, password)).exchange("h", 1).begin()
    assert password not in str(caught.value)


@pytest.mark.parametrize(("name", "password"), [("a\udce4", "c"), ("a", "b\udce4")])
def test_a_text_that_is_not_utf8_is_refused_and_not_shown(name: str, password: str) -> None:
    """A variable of the environment in another encoding becomes such a text."""
    with pytest.raises(SaslError, match="isn't UTF-8") as caught:
        Plain(Credentials(name, password)).exchange("h", 1).begin()
    assert "udce4" not in str(caught.value)
    assert caught.value.__context__ is None, "it would show a part of the password"


def test_new_credentials_apply_to_the_next_exchange() -> None:
    plain = Plain(Credentials("a", "1"))
    before = plain.exchange("h", 1)
    plain.set_credentials(Credentials("b", "2"))
    assert before.begin() == b"\0a\0001"
    assert plain.exchange("h", 1).begin() == b"\0b\0002"
    assert (plain.user, list(plain.secrets())) == ("b", ["2", "1"]), (
        "a broker may still repeat the old password"
    )


def test_nothing_shows_a_password() -> None:
    credentials = Credentials("tim", "s3cret-word")
    plain = Plain(credentials)
    for each in (credentials, plain, plain.exchange("h", 1)):
        assert "s3cret-word" not in f"{each!r} {each}"


def test_texts_of_brokers_are_one_short_printable_line() -> None:
    assert shown("a\nb\x1b[31mc\0d") == "a?b?[31mc?d"
    assert shown("wrong password s3cret, not s3cret-2", ["s3cret", "s3cret-2", ""]) == (
        "wrong password [redacted], not [redacted]"
    )
    assert len(shown("x" * 10_000)) < 600
