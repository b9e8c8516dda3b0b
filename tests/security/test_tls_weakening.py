"""Settings that weaken TLS are refused, or the log warns about them: suites, names, keys."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from OpenSSL import SSL

from kafka_native.errors import KafkaException
from tests.security.certificates import issued
from tests.security.handshakes import HOST, pem, server, shake, tls

ENCRYPTING = ("AES", "CHACHA20", "CAMELLIA", "ARIA", "SEED", "IDEA", "SM4", "DES")


# --- suites ---


@pytest.mark.parametrize(
    "suites",
    [
        "TLS_SHA256_SHA256",
        "TLS_SHA384_SHA384",
        "tls_sha256_sha256",
        "TLS_AES_128_GCM_SHA256:TLS_SHA256_SHA256:DEFAULT@SECLEVEL=0",
        "TLS_AES_128_GCM_SHA256;TLS_SHA384_SHA384",
        "NULL-SHA256",
        "TLS_RSA_WITH_NULL_SHA256",
        "HIGH, ECDHE-RSA-NULL-SHA",
        "DEFAULT;NULL-SHA256",
        "eNULL",
        "eNULL@SECLEVEL=0",
        "kRSA+eNULL:DEFAULT",
        "COMPLEMENTOFALL",
        "aNULL",
        "ADH:DEFAULT",
        "ADH-AES256-GCM-SHA384",
    ],
)
def test_suites_that_protect_nothing_are_refused(authority: trustme.CA, suites: str) -> None:
    with pytest.raises(
        KafkaException, match=r"ssl\.cipher\.suites: \S+ has no encryption, or no authentication"
    ):
        tls({"ssl.ca.pem": pem(authority), "ssl.cipher.suites": suites})


@pytest.mark.parametrize(
    "suites",
    [
        "",
        "ALL",
        "ALL:!eNULL",
        "DEFAULT:-aNULL:+eNULL",
        "ALL:COMPLEMENTOFDEFAULT@SECLEVEL=0",
        "TLS_AES_128_GCM_SHA256",
    ],
)
def test_offered_suites_encrypt_and_authenticate(authority: trustme.CA, suites: str) -> None:
    context = tls(
        {"ssl.ca.pem": pem(authority), **({"ssl.cipher.suites": suites} if suites else {})}
    )
    offered = SSL.Connection(context.context, None).get_cipher_list()
    assert offered
    assert [name for name in offered if not any(cipher in name for cipher in ENCRYPTING)] == []
    assert [name for name in offered if name.startswith(("ADH", "AECDH"))] == []


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("Ciphersuites = TLS_SHA256_SHA256", "TLS_SHA256_SHA256"),
        ("CipherString = ALL@SECLEVEL=0", "ADH-AES128-GCM-SHA256"),
    ],
)
def test_suites_of_openssls_own_file_are_refused(tmp_path: Path, line: str, named: str) -> None:
    file = tmp_path / "openssl.cnf"
    file.write_text(f"openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\n{line}\n")
    code = (
        "from tests.security.handshakes import tls; tls({'enable.ssl.certificate.verification': "
        "False%s})"
    )
    suites = ", 'ssl.cipher.suites': 'DEFAULT:TLS_AES_128_GCM_SHA256'"
    outcomes = []
    for more in ("", suites):
        command = [sys.executable, "-c", code % more]
        environment = {**os.environ, "OPENSSL_CONF": str(file)}
        outcomes.append(
            subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        )
    if named == "TLS_SHA256_SHA256" and "no cipher match" in outcomes[0].stderr:
        pytest.skip("this OpenSSL doesn't have the suite")
    assert (
        "OpenSSL's own configuration file offers suites that aren't allowed: " in outcomes[0].stderr
    )
    assert named in outcomes[0].stderr
    assert outcomes[1].returncode == 0, outcomes[1].stderr


@pytest.mark.parametrize(
    ("suites", "level"), [("DEFAULT@SECLEVEL=0", "0"), ("HIGH:@SECLEVEL=1", "1")]
)
def test_lower_security_level_is_remarked_on(
    authority: trustme.CA, suites: str, level: str
) -> None:
    (remark,) = tls({"ssl.ca.pem": pem(authority), "ssl.cipher.suites": suites}).remarks
    assert f"@SECLEVEL={level} accepts keys and signatures that can be broken" in remark
    assert (
        tls({"ssl.ca.pem": pem(authority), "ssl.cipher.suites": "DEFAULT@SECLEVEL=3"}).remarks == []
    )


def test_weak_key_is_refused_unless_the_level_is_lowered(authority: trustme.CA) -> None:
    weak = issued(authority, "weak", [x509.DNSName(HOST)], rsa.generate_private_key(65537, 1024))
    listener = server(weak, suites="DEFAULT@SECLEVEL=0")
    outcome = shake(tls({"ssl.ca.pem": pem(authority)}), listener)
    assert (outcome.succeeded, outcome.verify_error) == (False, 66)
    lowered = tls({"ssl.ca.pem": pem(authority), "ssl.cipher.suites": "DEFAULT@SECLEVEL=0"})
    assert shake(lowered, server(weak, suites="DEFAULT@SECLEVEL=0")).succeeded


# --- names ---


def test_names_that_are_not_checked_are_remarked_on(authority: trustme.CA) -> None:
    (remark,) = tls(
        {"ssl.ca.pem": pem(authority), "ssl.endpoint.identification.algorithm": "none"}
    ).remarks
    assert remark.startswith("ssl.endpoint.identification.algorithm=none: ")
    assert tls({"ssl.ca.pem": pem(authority)}).remarks == []


@pytest.mark.parametrize("host", [HOST, "10.0.0.1"])
def test_common_name_is_not_a_host(authority: trustme.CA, host: str) -> None:
    context = tls({"ssl.ca.pem": pem(authority)})
    for names in ([], [x509.RFC822Name("somebody@example.org")], [x509.DNSName("b2.example")]):
        outcome = shake(context, server(issued(authority, host, [*names])), host)
        assert outcome.verify_error == (62 if host == HOST else 64), names


def test_address_has_to_be_named_as_an_address(authority: trustme.CA) -> None:
    context = tls({"ssl.ca.pem": pem(authority)})
    assert (
        shake(
            context, server(issued(authority, "x", [x509.DNSName("10.0.0.1")])), "10.0.0.1"
        ).verify_error
        == 64
    )
    good = issued(authority, "x", [x509.IPAddress(ipaddress.ip_address("10.0.0.1"))])
    assert shake(context, server(good), "10.0.0.1").succeeded


@pytest.mark.parametrize(
    ("name", "host", "is_accepted"),
    [
        ("*.kafka.example", "b1.kafka.example", True),
        ("*.kafka.example", "a.b1.kafka.example", False),
        ("*.kafka.example", "kafka.example", False),
        ("b*.kafka.example", "b1.kafka.example", False),
        ("*1.kafka.example", "b1.kafka.example", False),
        ("b1.*.example", "b1.kafka.example", False),
        ("*.example", "b1.example", False),
        ("*", "b1", False),
    ],
)
def test_wildcard_is_one_whole_label(
    authority: trustme.CA, name: str, host: str, is_accepted: bool
) -> None:
    listener = server(issued(authority, "x", [x509.DNSName(name)]))
    assert shake(tls({"ssl.ca.pem": pem(authority)}), listener, host).succeeded is is_accepted
