"""GSSAPI: the calls to a fake Kerberos library. tests/broker has a real one."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_native import KafkaException
from kafka_native.config import parse
from kafka_native.security.gssapi import Gssapi, expanded
from kafka_native.security.mechanisms import SaslError
from kafka_native.security.sasl import mechanism_of

CONF = {
    "bootstrap.servers": "h:1",
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "GSSAPI",
}


class GSSError(Exception):
    """The library's exception."""


class Flag(enum.IntFlag):
    mutual_authentication = 2
    integrity = 32


class Context:
    """A context that is complete after one answer of the server. wrap() reverses the bytes."""

    made: list[dict[str, Any]] = []  # noqa: RUF012 - emptied by the fixture

    def __init__(self, **how: Any) -> None:
        self.made.append(how)
        self.complete = False

    def step(self, token: bytes | None = None) -> bytes | None:
        if token == b"broken":
            raise GSSError("Server not found in Kerberos database")
        self.complete = token is not None
        return None if self.complete else b"ticket"

    def unwrap(self, message: bytes) -> Any:
        return SimpleNamespace(message=message[::-1])

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return SimpleNamespace(message=message[::-1])


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    fake = SimpleNamespace(
        Name=lambda name, kind: (name, kind),
        NameType=SimpleNamespace(hostbased_service="service", kerberos_principal="principal"),
        MechType=SimpleNamespace(kerberos="krb5"),
        RequirementFlag=Flag,
        SecurityContext=Context,
        Credentials=lambda **how: how,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    Context.made = []
    monkeypatch.setitem(sys.modules, "gssapi", fake)
    return fake


def mechanism(**own: Any) -> Gssapi:
    made = mechanism_of(parse({**CONF, **own}, "producer"))
    assert isinstance(made, Gssapi)
    return made


def test_exchange_ends_without_a_security_layer() -> None:
    exchange = mechanism().exchange("b1", 9092)
    assert exchange.begin() == b"ticket"
    assert exchange.respond(b"their ticket") == b""
    assert not exchange.done
    assert exchange.respond(bytes([0, 0, 1, 7])) == bytes([0, 0, 0, 1])
    assert not exchange.done
    assert exchange.respond(b"") is None
    assert exchange.done


def test_service_principal_has_name_and_host() -> None:
    mechanism(**{"sasl.kerberos.service.name": "broker"}).exchange("b1.example", 9092).begin()
    [made] = Context.made
    assert made["name"] == ("broker@b1.example", "service")
    assert made["flags"] == Flag.mutual_authentication | Flag.integrity
    assert made["creds"] is None, "the default credentials"


def test_a_keytab_and_a_principal_choose_the_tickets() -> None:
    own = {"sasl.kerberos.keytab": "/etc/app.keytab", "sasl.kerberos.principal": "app@EXAMPLE"}
    ours = mechanism(**own)
    ours.exchange("b1", 1).begin()
    [made] = Context.made
    assert made["creds"]["name"] == ("app@EXAMPLE", "principal")
    store = made["creds"]["store"]
    assert store["client_keytab"] == "/etc/app.keytab"
    assert store["ccache"].startswith("MEMORY:"), "the cache of tickets is separate"
    assert ours.user == "app@EXAMPLE"
    assert ours.refresh_at == float("inf"), "no command"


def test_no_client_gets_the_tickets_of_an_earlier_one() -> None:
    """The library keeps a cache of tickets by its name, also after its client is gone."""
    caches: dict[int, str] = {}
    for number in range(1000):
        ours = Gssapi("kafka", "", f"/etc/app{number}.keytab", "", 0.0)
        ours.exchange("b1", 1).begin()
        cache = Context.made.pop()["creds"]["store"]["ccache"]
        assert cache != caches.get(id(ours)), "another object with the address of the first one"
        if id(ours) in caches:
            return
        caches[id(ours)] = cache
    raise AssertionError("no address was used twice")


def test_one_client_logs_in_again_with_its_tickets() -> None:
    ours = mechanism(**{"sasl.kerberos.keytab": "/etc/app.keytab"})
    for _ in range(2):
        ours.exchange("b1", 1).begin()
    first, second = (made["creds"]["store"] for made in Context.made)
    assert first == second


def test_kinit_command_is_run_and_repeated(tmp_path: Path) -> None:
    done = tmp_path / "done"
    command = f"echo %{{sasl.kerberos.principal}} of %{{bootstrap.servers}} >> {done}"
    own = {
        "sasl.kerberos.kinit.cmd": command,
        "sasl.kerberos.principal": "app",
        "sasl.kerberos.min.time.before.relogin": 90_000,
    }
    ours = mechanism(**own)
    ours._clock = lambda: 1000.0
    assert ours.refresh_at == 0.0
    ours.refresh()
    ours.refresh()
    assert done.read_text() == "app of h:1\n" * 2
    assert ours.refresh_at == 1090.0
    ours.exchange("b1", 1).begin()
    assert Context.made[-1]["creds"]["store"] is None, "the command's tickets"
    once = mechanism(**{**own, "sasl.kerberos.min.time.before.relogin": 0})
    once.refresh()
    assert once.refresh_at == float("inf")


def test_error_of_a_failed_command_hides_its_arguments(tmp_path: Path) -> None:
    """Arguments of the command may contain a password. Values of properties in it are no secret."""
    script = tmp_path / "kinit"
    script.write_text(
        "#!/bin/sh\necho no such principal of $1 >&2\necho $2 isn\\'t right >&2\nexit 3\n"
    )
    script.chmod(0o755)
    command = f"{script} %{{sasl.kerberos.principal}} 's3cret=word'"
    ours = mechanism(
        **{"sasl.kerberos.kinit.cmd": command, "sasl.kerberos.principal": "app@EXAMPLE"}
    )
    with pytest.raises(SaslError, match="ended with 3: no such principal of app@EXAMPLE") as caught:
        ours.refresh()
    assert "s3cret" not in str(caught.value)
    assert "word" not in str(caught.value)
    ours = mechanism(**{"sasl.kerberos.kinit.cmd": "/nowhere/s3cret-word"})
    with pytest.raises(SaslError, match=r"ended with 127: .*not found") as caught:
        ours.refresh()
    assert "s3cret" not in str(caught.value)
    assert "s3cret-word" in ours.secrets() or "/nowhere/s3cret-word" in ours.secrets()
    with pytest.raises(SaslError, match=r"there is no property foo\.bar"):
        expanded("kinit %{foo.bar}", {})


def test_errors_of_the_library_are_quoted() -> None:
    exchange = mechanism().exchange("b1", 1)
    exchange.begin()
    with pytest.raises(SaslError, match="Server not found"):
        exchange.respond(b"broken")


@pytest.mark.parametrize("offer", [bytes([0, 0, 0, 6]), bytes([0, 0, 1]), b"", bytes(5)])
def test_a_layer_that_kafka_does_not_have_is_refused(offer: bytes) -> None:
    exchange = mechanism().exchange("b1", 1)
    exchange.begin()
    exchange.respond(b"their ticket")
    with pytest.raises(SaslError, match="security layer"):
        exchange.respond(offer)


def test_a_missing_package_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(KafkaException, match=r"pip install 'kafka-native\[gssapi\]'") as raised:
        mechanism()
    assert raised.value.hint is None
    unchosen = {name: value for name, value in CONF.items() if name != "sasl.mechanism"}
    with pytest.raises(KafkaException, match=r"only the default of sasl\.mechanisms: .*PLAIN"):
        mechanism_of(parse(unchosen, "producer"))
