"""Cipher suites: the ones that a context offers, and the ones that no client may offer."""

from __future__ import annotations

import functools
import re
from typing import Final

from OpenSSL import SSL

from kafka_native.errors import KafkaException

from .openssl import ffi, lib, library_version, set_list
from .sources import refuse

PROPERTY: Final = "ssl.cipher.suites"
INTEGRITY_ONLY: Final = frozenset({"TLS_SHA256_SHA256", "TLS_SHA384_SHA384"})
"""Suites of TLS 1.3 without encryption (RFC 9150). OpenSSL has them from 3.4 on."""
SECURITY_LEVEL: Final = 2
"""OpenSSL's own level: keys with 112 bits of strength (RSA 2048), signatures better than SHA-1."""

_UNSAFE: Final = ("aNULL", "eNULL")
_EXCLUDED: Final = ("!aNULL", "!eNULL")
_SUITES: Final = "SSL_CTX_set_cipher_list"
_SUITES_13: Final = "SSL_CTX_set_ciphersuites"


def restrict(context: SSL.Context, suites: str) -> list[str]:
    """Make a context offer only these suites.

    :param suites: The value of ssl.cipher.suites. Empty means OpenSSL's default.
    :return: Warnings for the user.
    :raises KafkaException: A suite has no encryption or no authentication, or OpenSSL refuses the
        list.
    """
    names = [name for name in re.split(r"[:;,\s]+", suites) if name]
    newer = [name for name in names if _is_newer(name)]
    older = [name for name in names if name not in newer]
    if suites and not names:
        refuse(f'{PROPERTY}: "{suites}" names no suite')
    if bad := [name for name in names if _is_unsafe(name)]:
        refuse(
            f"{PROPERTY}: {_without(bad)}",
            "name suites that encrypt and authenticate, or leave the property out",
        )
    if newer:
        set_list(context._context, _SUITES_13, newer, PROPERTY)
    if older:
        set_list(context._context, _SUITES, older, PROPERTY, always=_EXCLUDED)
    elif newer:
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
    return _remarks(suites, newer, older)


def check_offered(context: SSL.Context) -> None:
    """Check the final offer of a context.

    :raises KafkaException: OpenSSL's configuration file added a suite without encryption or
        authentication.
    """
    if bad := sorted(_unsafe_suites() & _offered(context)):
        hint = f"set {PROPERTY}, or correct the file that OPENSSL_CONF names"
        refuse(
            f"OpenSSL's own configuration file offers suites that aren't allowed: {_without(bad)}",
            hint,
        )


def _remarks(suites: str, newer: list[str], older: list[str]) -> list[str]:
    remarks = []
    if unknown := [*_unknown(_SUITES_13, newer), *_unknown(_SUITES, older)]:
        remarks.append(f"{PROPERTY}: {library_version()} has no {', '.join(unknown)}")
    levels = re.findall(r"@SECLEVEL=(\d+)", suites)
    if levels and int(levels[-1]) < SECURITY_LEVEL:
        remarks.append(
            f"{PROPERTY}: @SECLEVEL={levels[-1]} accepts keys and signatures that can be broken "
            f"(OpenSSL's own level is {SECURITY_LEVEL})"
        )
    return remarks


def _is_newer(name: str) -> bool:
    """Return True for a suite of TLS 1.3.

    OpenSSL also accepts IANA's names of older suites: TLS_RSA_WITH_...
    """
    return name.upper().startswith("TLS_") and "_WITH_" not in name.upper()


def _without(names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    verb = "has" if len(names) == 1 else "have"
    return f"{shown} {verb} no encryption, or no authentication of the broker"


def _is_unsafe(name: str) -> bool:
    """Return True if a user's name or expression selects only forbidden suites.

    ``ALL`` also selects other suites, so it is allowed. ``!eNULL`` and ``-eNULL`` remove suites.
    """
    if _is_newer(name):
        return name.upper() in INTEGRITY_ONLY
    expression = name.partition("@")[0]
    if not expression or expression[0] in "!-+":
        return False
    selected = _selected(expression)
    return bool(selected) and selected <= _unsafe_suites()


@functools.cache
def _unsafe_suites() -> frozenset[str]:
    """Return the forbidden suites, as OpenSSL classifies them."""
    return INTEGRITY_ONLY.union(*map(_selected, _UNSAFE))


def _selected(expression: str) -> frozenset[str]:
    """Return the suites before TLS 1.3 that an expression selects at any security level."""
    scratch = SSL.Context(SSL.TLS_CLIENT_METHOD)
    try:
        set_list(scratch._context, _SUITES, [expression, "@SECLEVEL=0"], PROPERTY)
    except KafkaException:  # It selects none. OpenSSL judges the whole list later
        return frozenset()
    return frozenset(name for name in _offered(scratch) if not _is_newer(name))


def _offered(context: SSL.Context) -> frozenset[str]:
    """Return the suites that a connection of this context offers, by OpenSSL's names."""
    connection = ffi.gc(lib.SSL_new(context._context), lib.SSL_free)
    names: list[str] = []
    while (name := lib.SSL_get_cipher_list(connection, len(names))) != ffi.NULL:
        names.append(ffi.string(name).decode("ascii", "replace"))
    return frozenset(names)


def _unknown(function: str, names: list[str]) -> list[str]:
    """Return the names that this OpenSSL silently ignores.

    Expressions (``!RC4``, ``DEFAULT@SECLEVEL=1``) aren't names.
    """
    scratch = SSL.Context(SSL.TLS_CLIENT_METHOD)
    found = []
    for name in names:
        try:
            if re.fullmatch(r"[A-Za-z0-9_-]+", name):
                set_list(scratch._context, function, [name], "")
        except KafkaException:
            found.append(name)
    return found
