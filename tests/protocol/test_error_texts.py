"""Decoding makes a broker's error texts safe to show, so no other code must do it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_native.cleaning import ERROR_TEXT_MAX, error_text
from kafka_native.protocol.registry import messages
from kafka_native.protocol.sasl import SaslAuthenticateResponse
from kafka_native.protocol.schema import Field, Message, Response, Struct
from kafka_native.protocol.topics import CreateTopicsResponse

HOSTILE = ("text \x1b[2J\x9b1m\u202e\u2028\r\nnext\tline\N{FACE WITH TEARS OF JOY} " * 1000)[
    :20_000
]
RAW = {(SaslAuthenticateResponse, "error_message")}
"""`security.mechanisms.shown()` cleans it after it has hidden secrets.

An earlier cut could leave half of a secret.
"""


def strings(cls: type[Struct]) -> Iterator[tuple[type[Struct], Field]]:
    """Yield every text field of a message and its structs."""
    for field in cls.fields:
        if field.struct is not None:
            yield from strings(field.struct)
        elif field.kind == "string":
            yield cls, field


@pytest.mark.parametrize(
    "cls", [each for each in messages() if issubclass(each, Response)], ids=lambda cls: cls.__name__
)
def test_every_error_text_of_a_response_is_declared_as_one(cls: type[Message]) -> None:
    for owner, field in strings(cls):
        is_text = "error" in field.name and (owner, field.name) not in RAW
        assert field.cleaned is is_text, f"{owner.__qualname__}.{field.name}"


def test_there_are_such_fields() -> None:
    found = [field for cls in messages() for _, field in strings(cls) if field.cleaned]
    assert len(found) > 40


@pytest.mark.parametrize("version", range(1, CreateTopicsResponse.max_version + 1))
def test_the_text_is_sent_as_it_is_and_decoded_as_one_short_line(version: int) -> None:
    topic = CreateTopicsResponse.Topic
    sent = CreateTopicsResponse(
        topics=[topic(name="a\n", error_code=44, error_message=HOSTILE) for _ in range(3)]
    )
    body = sent.encode(version)
    assert HOSTILE.encode() in body
    for each in CreateTopicsResponse.decode(body, version).topics:
        assert each.error_message is not None
        assert each.error_message.isprintable()
        assert len(each.error_message) == ERROR_TEXT_MAX
        assert each.name == "a\n", "data stays as it is"


def test_texts_of_large_arrays_are_cleaned_when_they_are_read() -> None:
    topic = CreateTopicsResponse.Topic
    sent = CreateTopicsResponse(
        topics=[topic(name=f"t{each}", error_message="a\nb") for each in range(20_000)]
    )
    decoded = CreateTopicsResponse.decode(sent.encode(7), 7)
    assert type(decoded.topics).__name__ == "LazyArray"
    assert decoded.topics[19_999].error_message == "a b"


def test_no_text_stays_none() -> None:
    topic = CreateTopicsResponse.Topic(name="a", error_message=None)
    assert (
        CreateTopicsResponse.decode(CreateTopicsResponse(topics=[topic]).encode(7), 7)
        .topics[0]
        .error_message
        is None
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("Topic 'a' already exists.", "Topic 'a' already exists."),
        ("one\ntwo\tthree\u2028four", "one two three four"),
        ("a\x1b[2Jb\x9bc\u202ed\x7f", "a?[2Jb?c?d?"),
        ("žluťoučký kůň", "žluťoučký kůň"),
        ("x" * ERROR_TEXT_MAX, "x" * ERROR_TEXT_MAX),
        ("x" * (ERROR_TEXT_MAX + 1), "x" * (ERROR_TEXT_MAX - 1) + "…"),
    ],
)
def test_a_text_becomes_one_printable_line(text: str, shown: str) -> None:
    assert error_text(text) == shown
