"""The OpenSSL that `cryptography` carries: its functions by name, and by address for the C transport.

pyOpenSSL is what contexts are made with; where it has no call, the same library is asked here. So there is one OpenSSL
in the process, and an upgrade of `cryptography` is the upgrade of TLS.
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
    """What OpenSSL calls itself, for instance ``OpenSSL 3.5.4``."""
    return " ".join(ffi.string(lib.OpenSSL_version(lib.OPENSSL_VERSION)).decode("ascii", "replace").split()[:2])


def error_reason() -> str:
    """Take everything from this thread's error queue; the reasons, oldest first."""
    reasons = []
    while code := lib.ERR_get_error():
        text = lib.ERR_reason_error_string(code)
        reasons.append(f"error {code:#x}" if text == ffi.NULL else ffi.string(text).decode("ascii", "replace"))
    return ", ".join(dict.fromkeys(reasons))


def set_list(context: Any, function: str, names: Sequence[str], setting: str, always: Sequence[str] = ()) -> None:
    """Give a context a list of names through one of OpenSSL's own functions, or fail: never a list that doesn't act.

    :param context: SSL_CTX.
    :param function: A function that takes the context and a text, and returns 1.
    :param names: The user's names, in OpenSSL's notation.
    :param setting: The property they are from, for the error.
    :param always: What is put behind them.
    """
    if not hasattr(lib, function):
        _too_old(function, f"{setting} can't be set: ")
    lib.ERR_clear_error()
    text = ":".join([*names, *always])
    if "\0" in text or getattr(lib, function)(context, text.encode()) != 1:
        reason = error_reason() or "not the names that it knows"
        shown = ":".join(names)
        raise KafkaException(
            KafkaError(KafkaError._INVALID_ARG, f'{setting}: {library_version()} refuses "{shown}": {reason}')
        )


def expect_host(connection: Any, host: bytes | ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Have a connection that isn't made yet verify its peer for a host; False if OpenSSL refuses it.

    As csrc/net/tls.c does for the transport: the alternative names count alone, not the common name, and a wildcard
    stands for a whole label.

    :param connection: SSL.
    :param host: A name in ASCII, or an address.
    """
    parameters = lib.SSL_get0_param(connection)
    flags = lib.X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | lib.X509_CHECK_FLAG_NEVER_CHECK_SUBJECT
    lib.X509_VERIFY_PARAM_set_hostflags(parameters, flags)
    if isinstance(host, bytes):
        return bool(lib.X509_VERIFY_PARAM_set1_host(parameters, host, len(host)) == 1)
    return bool(lib.X509_VERIFY_PARAM_set1_ip(parameters, host.packed, len(host.packed)) == 1)


def address_of(name: str) -> int:
    """The address of one of its functions, valid as long as the process lives.

    :raises KafkaException: With ``_SSL`` if this OpenSSL lacks it.
    """
    if not hasattr(lib, name):
        _too_old(name, "TLS is impossible: ")
    return int(ffi.cast("uintptr_t", ffi.addressof(lib, name)))


def _too_old(function: str, what: str) -> NoReturn:
    text = f"{what}cryptography {version('cryptography')} has no {function} (pyOpenSSL {version('pyOpenSSL')})"
    raise KafkaException(
        KafkaError(KafkaError._SSL, text), hint="upgrade them: pip install --upgrade cryptography pyOpenSSL"
    )
