"""The OpenSSL that `cryptography` carries: its functions by name, and by address for the C transport.

pyOpenSSL is what contexts are made with; where it has no call, the same library is asked here. So there is one OpenSSL
in the process, and an upgrade of `cryptography` is the upgrade of TLS.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Final, NoReturn

from cryptography.hazmat.bindings._rust import _openssl

from kafka_native.errors import KafkaError, KafkaException

lib: Final[Any] = _openssl.lib
ffi: Final[Any] = _openssl.ffi

TRANSPORT: Final = (
    "BIO_free",
    "BIO_new",
    "BIO_read",
    "BIO_s_mem",
    "BIO_set_mem_eof_return",
    "BIO_should_retry",
    "BIO_write",
    "ERR_clear_error",
    "ERR_get_error",
    "ERR_reason_error_string",
    "SSL_CIPHER_get_name",
    "SSL_SESSION_free",
    "SSL_do_handshake",
    "SSL_free",
    "SSL_get0_param",
    "SSL_get1_session",
    "SSL_get_current_cipher",
    "SSL_get_error",
    "SSL_get_ex_data_X509_STORE_CTX_idx",
    "SSL_get_shutdown",
    "SSL_get_verify_result",
    "SSL_get_version",
    "SSL_new",
    "SSL_pending",
    "SSL_read",
    "SSL_session_reused",
    "SSL_set_bio",
    "SSL_set_connect_state",
    "SSL_set_fd",
    "SSL_set_mode",
    "SSL_set_session",
    "SSL_set_tlsext_host_name",
    "SSL_set_verify",
    "SSL_shutdown",
    "SSL_want_read",
    "SSL_want_write",
    "SSL_write",
    "X509_STORE_CTX_get0_cert",
    "X509_STORE_CTX_get_current_cert",
    "X509_STORE_CTX_get_error",
    "X509_STORE_CTX_get_error_depth",
    "X509_STORE_CTX_get_ex_data",
    "X509_VERIFY_PARAM_set1_host",
    "X509_VERIFY_PARAM_set1_ip",
    "X509_VERIFY_PARAM_set_hostflags",
    "X509_verify_cert_error_string",
    "i2d_X509_bio",
)
"""What the C transport calls."""


def function_addresses() -> dict[str, int]:
    """The addresses of OpenSSL's functions that the C transport calls, by name; valid as long as the process lives.

    :raises KafkaException: With ``_SSL`` if this OpenSSL lacks one.
    """
    return {name: address_of(name) for name in TRANSPORT}


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
