"""Regular expressions for topics: Java's and RE2's syntax beside Python's."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_native.spark.errors import OptionError
from kafka_native.spark.options import SourceOptions
from kafka_native.spark.patterns import ALPHABET, topic_pattern

NAMES = ("orders", "Orders-7", "bills.eu", "a_b", "9", ".", "-", "A", "E.T")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (r"\p{Alpha}+", "[A-Za-z]+"),
        (r"\p{L}+|\p{Nd}", "[A-Za-z]+|[0-9]"),
        (r"\pL+", "[A-Za-z]+"),
        (r"\P{Alpha}", r"[0-9._-]"),
        (r"\p{^Alpha}", r"[0-9._-]"),
        (r"\p{Lower}+\p{Punct}\p{IsAlphabetic}+", r"[a-z]+[._-][A-Za-z]+"),
        (r"\p{javaLowerCase}*|\p{IsLatin}", "[a-z]*|[A-Za-z]"),
        (r"[\p{Lu}\p{Digit}].*", "[A-Z0-9].*"),
        (r"[^\p{Upper}]+", "[^A-Z]+"),
        (r"[[:alpha:]]+", "[A-Za-z]+"),
        (r"[[:upper:][:digit:]-]*", "[A-Z0-9-]*"),
        (r"[^[:punct:]]+", r"[^._-]+"),
        (r"[[:^lower:]]", r"[^a-z]"),
        (r"\QE.T\E", r"E\.T"),
        (r"(?<kind>[a-z]+)\.eu\z", r"(?P<kind>[a-z]+)\.eu"),
        (r"\h*orders\x{73}?", r"orderss?"),
        (r"\p{Space}*orders", r"\s*orders"),
        (r"(?<=x)?(?<!y)orders|[]a]|[^]a]", r"(?<!y)orders|[\]a]|[^\]a]"),
        (r"\[|\\|[\]a-]+", r"\[|\\|[\]a-]+"),
    ],
)
def test_java_and_re2_classes_mean_the_same(text: str, plain: str) -> None:
    found, wanted = topic_pattern(text), re.compile(plain)
    for name in (*NAMES, *ALPHABET):
        assert bool(found.fullmatch(name)) == bool(wanted.fullmatch(name)), name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a-z&&[^xy]]", r"write (?![xy])[a-z] in place of"),
        ("[a-c[x-z]]", r"write (?![xy])[a-z] in place of"),
        (r"\p{Klingon}", "class 'Klingon' isn't known: list its characters"),
        (r"orders\R", "names of topics have no line breaks"),
        ("(", "missing )"),
    ],
)
def test_parts_without_an_equivalent_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        topic_pattern(text)
    given = {"kafka.bootstrap.servers": "x:1", "subscribePattern": text}
    with pytest.raises(OptionError, match="option subscribePattern"):
        SourceOptions.parse(given)


@given(st.text(alphabet=string.ascii_letters + string.digits + "._-*+?|$^", max_size=12))
def test_plain_patterns_stay_as_they_are(text: str) -> None:
    try:
        wanted = re.compile(text)
    except re.error:
        with pytest.raises(ValueError, match=r"\w"):
            topic_pattern(text)
        return
    assert topic_pattern(text).pattern == wanted.pattern
