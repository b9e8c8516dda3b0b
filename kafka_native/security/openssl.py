"""The OpenSSL of `cryptography`: its functions by name, and by address for the C transport.

pyOpenSSL makes the contexts. This module calls functions that pyOpenSSL lacks, in the same library.
So the process has only one OpenSSL, and an upgrade of `cryptography` also upgrades TLS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final, NoReturn

from cryptography.hazmat.bindings._rust import _openssl

from kafka_native.errors import KafkaError, KafkaException

lib: Final[Any] = _openssl.lib
ffi: Final[Any] = _openssl.ffi


def library_version() -> str:
    """Return OpenSSL's name and version, for instance ``OpenSSL 3.5.4``."""
    return " ".join(
        ffi.string(lib.OpenSSL_version(lib.OPENSSL_VERSION)).decode("ascii", "replace").split()[:2]
    )


def error_reason() -> str:
    """Empty this thread's error queue and return the reasons, oldest first."""
    reasons = []
    while code := lib.ERR_get_error():
        text = lib.ERR_reason_error_string(code)
        reasons.append(
            f"error {code:#x}" if text == ffi.NULL else ffi.string(text).decode("ascii", "replace")
        )
    return ", ".join(dict.fromkeys(reasons))


def set_list(
    context: Any, function: str, names: Sequence[str], setting: str, always: Sequence[str] = ()
) -> None:
    """Pass a list of names to a context. It raises rather than ignore a list.

    :param context: The SSL_CTX.
    :param function: The name of an OpenSSL function that takes the context and a text, and returns
        1.
    :param names: The user's names, in OpenSSL's notation.
    :param setting: The property of the names, for the error.
    :param always: Names that are appended.
    """
    if not hasattr(lib, function):
        _too_old(function, f"{setting} can't be set: ")
    lib.ERR_clear_error()
    text = ":".join([*names, *always])
    if "\0" in text or getattr(lib, function)(context, text.encode()) != 1:
        reason = error_reason() or "not the names that it knows"
        shown = ":".join(names)
        raise KafkaException(
            KafkaError(
                KafkaError._INVALID_ARG,
                f'{setting}: {library_version()} refuses "{shown}": {reason}',
            )
        )


def expect_host(
    connection: Any, host: bytes | ipaddress.IPv4Address | ipaddress.IPv6Address
) -> bool:
    """Make a new connection verify its peer for a host. Return False if OpenSSL refuses.

    csrc/net/tls.c does the same for the transport: only the alternative names count, not the
    common name, and a wildcard stands for a whole label.

    :param connection: The SSL object.
    :param host: A name in ASCII, or an address.
    """
    parameters = lib.SSL_get0_param(connection)
    flags = lib.X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | lib.X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
    lib.X509_VERIFY_PARAM_set_hostflags(parameters, flags)
    if isinstance(host, bytes):
        return bool(lib.X509_VERIFY_PARAM_set1_host(parameters, host, len(host)) == 1)
    return bool(lib.X509_VERIFY_PARAM_set1_ip(parameters, host.packed, len(host.packed)) == 1)


def address_of(name: str) -> int:
    """Return the address of an OpenSSL function. It is valid as long as the process lives.

    :raises KafkaException: ``_SSL`` if this OpenSSL lacks the function.
    """
    if not hasattr(lib, name):
        _too_old(name, "TLS is impossible: ")
    return int(ffi.cast("uintptr_t", ffi.addressof(lib, name)))


def _too_old(function: str, what: str) -> NoReturn:
    text = (
        f"{what}cryptography {version('cryptography')} has no {function} (pyOpenSSL "
        f"{version('pyOpenSSL')})"
    )
    raise KafkaException(
        KafkaError(KafkaError._SSL, text),
        hint="upgrade them: pip install --upgrade cryptography pyOpenSSL",
    )
