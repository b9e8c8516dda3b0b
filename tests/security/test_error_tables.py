"""The guide's tables quote real errors: a test causes each one, or finds it in the C source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from kafka_native import KafkaException
from kafka_native.security import authorities
from tests.security.certificates import DAY, NOW, PASSWORD, encrypted, issued
from tests.security.handshakes import HOST, PORT, chain_of, der_of, der_of_pem, key_of, pem, tls

ROOT = Path(__file__).resolve().parents[2]
AUTHORITY = trustme.CA()
BROKER = AUTHORITY.issue_cert(HOST, "10.0.0.1")
OLD = AUTHORITY.issue_cert(HOST, not_before=NOW - 9 * DAY, not_after=NOW - 2 * DAY)
YOUNG = AUTHORITY.issue_cert(
    HOST, not_before=NOW + timedelta(days=2), not_after=NOW + timedelta(days=3)
)
OWN, OTHER = (
    AUTHORITY.issue_cert(f"{name}@example.org", common_name=name) for name in ("client", "other")
)
BY_CERTIFICATE = {
    62: BROKER,
    10: OLD,
    9: YOUNG,
    20: BROKER,
    18: BROKER,
    23: BROKER,
    3: BROKER,
    12: BROKER,
}
"""The certificates by OpenSSL's error number."""
NAMELESS = der_of_pem(issued(AUTHORITY, HOST, [])[0])
BELOW = AUTHORITY.create_child_ca()
BELOW_AND_ITS_CA = der_of(BELOW.issue_cert(HOST)) + der_of_pem(pem(BELOW))
"""A broker's certificate, and the CA above it that causes the error."""
REASONS = (
    "wrong version number",
    "unexpected eof while reading",
    "tlsv13 alert certificate required",
    "tlsv1 alert protocol version",
    "sslv3 alert handshake failure",
)


def quoted(page: str) -> list[str]:
    """Return the texts in a table of errors: its first column, and sentences of the second."""
    text = (ROOT / "docs" / "guide" / page).read_text(encoding="utf-8")
    table = re.search(r"\| the error says \|.*\n\|[-|]+\n((?:\|.*\n)+)", text)
    assert table is not None
    found: list[str] = []
    for row in table[1].splitlines():
        first, second = row.strip("|").split(" | ")
        found += re.findall(r"`([^`]+)`", first)
        found += [each for each in re.findall(r"`([^`]+)`", second) if " " in each]
    return found


def pattern(text: str) -> str:
    """Return a pattern for a quoted text. ``...`` matches anything, a date matches any date."""
    escaped = re.escape(text).replace(re.escape("..."), ".*")
    return re.sub(r"\d{4}\\-\d\d\\-\d\d", r"\\d{4}-\\d\\d-\\d\\d", escaped)


def of_handshakes(properties: dict[str, Any]) -> Iterator[str]:
    """Yield the errors of failed handshakes."""
    context = tls(properties)
    for error, leaf in BY_CERTIFICATE.items():
        yield context.explain("certificate verify failed", error, "b3", PORT, der_of(leaf))
    yield context.explain("certificate verify failed", 62, HOST, PORT, NAMELESS)
    for error in (23, 3):
        yield context.explain("certificate verify failed", error, HOST, PORT, BELOW_AND_ITS_CA)
    for reason in REASONS:
        yield context.explain(reason, 0, HOST, PORT, b"")


def of_properties(properties: dict[str, Any]) -> str:
    """Return the error of unusable properties."""
    with pytest.raises(KafkaException) as caught:
        tls(properties)
    return str(caught.value.args[0].str())


def test_table_about_tls_quotes_real_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(pem(AUTHORITY))
    trusting = {"ssl.ca.location": str(path)}
    own = {"ssl.certificate.pem": chain_of(OWN), "ssl.key.pem": key_of(OWN)}
    errors = [*of_handshakes(trusting), *of_handshakes({**trusting, **own})]
    errors.append(of_properties({**trusting, **own, "ssl.key.pem": key_of(OTHER)}))
    errors.append(of_properties({**trusting, "ssl.cipher.suites": "eNULL"}))
    locked = {**own, "ssl.key.pem": encrypted(OWN), "ssl.key.password": f"{PASSWORD}-not"}
    errors.append(of_properties({**trusting, **locked}))
    for name in authorities.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(authorities, "CA_LOCATIONS", ("/nowhere/ca.pem", str(path)))
    errors += of_handshakes({})
    monkeypatch.setattr(authorities, "CA_LOCATIONS", ("/nowhere/ca.pem",))
    monkeypatch.setattr(authorities, "_certifi", list)
    errors.append(of_properties({}))
    texts = quoted("security.md")
    assert len(texts) >= 18
    assert [
        text for text in texts if not any(re.search(pattern(text), each) for each in errors)
    ] == []


def test_table_about_proxies_quotes_texts_of_the_source() -> None:
    source = "".join(
        (ROOT / "csrc" / "net" / name).read_text() for name in ("proxy.c", "connection.c")
    )
    literals = re.findall(r'"((?:[^"\\\n]|\\.)*)"', source)
    parts = [part for literal in literals for part in literal.split(": ")]
    formats = [
        re.sub("%[a-z]", ".*", re.escape(part)) for part in parts if "%" in part and " " in part
    ]
    texts = quoted("proxies.md")
    assert len(texts) >= 10

    def is_in_source(text: str) -> bool:
        return any(text in each for each in literals) or any(
            re.fullmatch(each, text) for each in formats
        )

    assert [text for text in texts if not is_in_source(text)] == []
    assert not is_in_source("it is on holiday")
