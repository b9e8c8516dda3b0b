"""Explains a failed TLS handshake in the user's terms.

OpenSSL's reasons are short. Their meaning depends on the configuration and on the broker's
certificate. Every text from the network is cleaned and cut before it becomes part of an error.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Final, NamedTuple, TypeVar

from cryptography import x509

from kafka_native.cleaning import clean
from kafka_native.config import Config

from .authorities import Authorities
from .certificates import Identity, subject
from .openssl import ffi, lib, library_version

_T = TypeVar("_T")

CERTIFICATE_BYTES_MAX: Final = 64 * 1024
NAMES_MAX: Final = 5

EXPIRED, NOT_YET_VALID = 10, 9
NO_ISSUER: Final = (2, 20, 21)  # No issuer (at all, or here), no way to check the leaf's signature
SELF_SIGNED, SELF_SIGNED_IN_CHAIN = 18, 19
NO_CRL, REVOKED, CRL_EXPIRED = 3, 23, 12
NO_CRL_SIGNER: Final = (8, 33)  # Another key signed the list, or an unknown key did
OTHER_NAMES: Final = (62, 64)  # Host, address
WRONG_PURPOSE: Final = (26, 79, 24)
TOO_WEAK: Final = (66, 67, 68)


class Failure(NamedTuple):
    """A failed handshake. The fields are the parameters of `TlsContext.explain`."""

    reason: str
    verify_error: int
    host: str
    port: int
    certificates: bytes

    @property
    def broker(self) -> str:
        """The address of the broker, cleaned."""
        host = clean(self.host, 255)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def peers(self) -> tuple[Peer, Peer | None]:
        """The broker's own certificate, and the certificate above it if that one is the cause."""
        first = _der_bytes(self.certificates)
        above = self.certificates[first:]
        return Peer(self.certificates[:first]), Peer(above) if above else None


class Peer:
    """A broker's certificate. Each property parses it, and has a default if that fails."""

    def __init__(self, der: bytes) -> None:
        """``der``: bytes from the network, or empty."""
        self._der = der if len(der) <= CERTIFICATE_BYTES_MAX else b""

    @property
    def names(self) -> str:
        """The hosts and addresses in the certificate."""
        found = self._read(_names, None)
        if found is None:
            return "no host that could be read"
        shown = [clean(name, 64) for name in found[:NAMES_MAX]]
        more = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
        return ", ".join(shown) + more if shown else "no host"

    @property
    def is_for_no_host(self) -> bool:
        """True if the readable certificate's alternative names contain no host or address."""
        return self._read(_names, None) == []

    @property
    def issuer(self) -> str:
        """The issuer's name."""
        return self._read(lambda one: clean(one.issuer.rfc4514_string()), "an unknown one")

    @property
    def subject(self) -> str:
        """The subject's name."""
        return self._read(subject, "an unknown one")

    @property
    def from_when(self) -> datetime | None:
        """The start of its validity."""
        return self._read(lambda one: one.not_valid_before_utc, None)

    @property
    def until_when(self) -> datetime | None:
        """The end of its validity."""
        return self._read(lambda one: one.not_valid_after_utc, None)

    def _read(self, read: Callable[[x509.Certificate], _T], otherwise: _T) -> _T:
        try:
            return read(x509.load_der_x509_certificate(self._der)) if self._der else otherwise
        # The certificate may be malicious. cryptography raises many kinds of exceptions, for
        # instance ValueError and KeyError
        except Exception:
            return otherwise


def explain(
    failure: Failure, config: Config, authorities: Authorities, own: Identity | None
) -> str:
    """Return the text for `TlsContext.explain`."""
    if failure.verify_error:
        sentence = _of_certificate(failure, config, authorities)
        openssl_text = _verify_text(failure.verify_error)
    else:
        sentence = _of_reason(failure, config, own)
        openssl_text = clean(failure.reason)
    return (
        f"{sentence} (OpenSSL: {openssl_text})"
        if openssl_text and openssl_text not in sentence
        else sentence
    )


def _of_certificate(failure: Failure, config: Config, authorities: Authorities) -> str:
    """Explain why the broker's certificate isn't accepted."""
    error, whose = failure.verify_error, f"the certificate of {failure.broker}"
    peer, above = failure.peers
    if error in OTHER_NAMES:
        return _of_names(failure, peer, whose)
    if error in (EXPIRED, NOT_YET_VALID):
        return _of_dates(error, peer, above, whose)
    if error == SELF_SIGNED:
        return (
            f"{whose}, {peer.subject}, is self-signed and none of {authorities.where()}: "
            "set ssl.ca.location to a file that has it"
        )
    if error in (*NO_ISSUER, SELF_SIGNED_IN_CHAIN):
        what = f"its issuer '{peer.issuer}' is none of the CAs of {authorities.where()}"
        if error == SELF_SIGNED_IN_CHAIN:
            what = (
                f"the root above its issuer '{peer.issuer}' is none of the CAs of "
                f"{authorities.where()}"
            )
        if above is not None and config.text("ssl.crl.check") == "chain":
            what = "ssl.crl.check=chain needs all CAs up to the root, "
            what += f"and '{above.issuer}' isn't one of {authorities.where()}"
        return f"{whose} can't be verified: {what}; set ssl.ca.location to the CA's certificate"
    if error in (REVOKED, NO_CRL, CRL_EXPIRED, *NO_CRL_SIGNER):
        return _of_revocation(
            error, peer, above, whose, f"ssl.crl.location={config.text('ssl.crl.location')}"
        )
    if error in WRONG_PURPOSE:
        return f"{whose}, {peer.subject}, or one above it isn't meant for servers (key usage)"
    if error in TOO_WEAK:
        return (
            f"{whose} or one above it has a key or a signature that is too weak for "
            f"{library_version()}"
        )
    return f"{whose}, {peer.subject}, isn't accepted"


def _of_names(failure: Failure, peer: Peer, whose: str) -> str:
    """Explain a certificate for another host."""
    host = clean(failure.host, 255)
    unless = "set ssl.endpoint.identification.algorithm=none if names are checked otherwise"
    if peer.is_for_no_host:
        kind = "IP" if failure.verify_error == OTHER_NAMES[1] else "DNS"
        return (
            f"{whose}, {peer.subject}, names no host in its subjectAltName, "
            "and the common name isn't taken for one: "
            f"give the broker a certificate with subjectAltName={kind}:{host}, or {unless}"
        )
    return (
        f"{whose} is for {peer.names}, not {host}: connect to the broker by a name of its "
        f"certificate, or {unless}"
    )


def _of_revocation(error: int, peer: Peer, above: Peer | None, whose: str, lists: str) -> str:
    """Explain the result of the revocation check. ``lists``: their property with its value."""
    one = peer if above is None else above
    if error == REVOKED:
        what = (
            f"{whose}, {peer.subject},"
            if above is None
            else f"{above.subject}, a CA above {whose},"
        )
        return f"{what} is revoked, says {lists}"
    if error == CRL_EXPIRED:
        what = "its issuer" if above is None else "the CA"
        return (
            f"{whose} can't be verified: the list of {what} '{one.issuer}' in {lists} is too "
            "old: get a new one"
        )
    if error in NO_CRL_SIGNER:
        return (
            f"{whose} can't be verified: the list of '{one.issuer}' in {lists} isn't signed "
            "by a trusted CA of this name: ssl.ca.location needs that CA"
        )
    if above is None:
        return f"{whose} can't be verified: {lists} has no list of its issuer '{peer.issuer}'"
    return (
        f"{whose} can't be verified: {lists} has no list of '{above.issuer}', "
        f"which issued the CA '{above.subject}' above it: add that list, "
        "or set ssl.crl.check=leaf, which checks the broker's own certificate alone"
    )


def _of_dates(error: int, peer: Peer, above: Peer | None, whose: str) -> str:
    now = datetime.now(timezone.utc)
    one, what = (peer, whose) if above is None else (above, f"a certificate above {whose}")
    first, last = one.from_when, one.until_when
    if error == EXPIRED and last is not None and last < now:
        return f"{what}, {one.subject}, expired on {last:%Y-%m-%d}"
    if error == NOT_YET_VALID and first is not None and first > now:
        return (
            f"{what}, {one.subject}, isn't valid before {first:%Y-%m-%d %H:%M} UTC: is this "
            "machine's clock right?"
        )
    state = "has expired" if error == EXPIRED else "isn't valid yet"
    return f"a certificate above {whose}, which '{peer.issuer}' has issued, {state}"


def _of_reason(failure: Failure, config: Config, own: Identity | None) -> str:
    """Explain a failed handshake whose cause isn't the broker's certificate."""
    reason, broker = failure.reason.lower(), failure.broker
    kind = next(
        (kind for kind, parts in _REASONS.items() if any(part in reason for part in parts)), ""
    )
    if kind == "ended" or not reason:
        return f"{broker} ended the connection in the middle of the TLS handshake: {_PLAINTEXT}"
    if kind == "no tls":
        return f"{broker} doesn't speak TLS: {_PLAINTEXT}"
    if kind == "own certificate":
        return _of_own_certificate(broker, own)
    if kind == "versions":
        return f"{broker} and this client have no version of TLS in common: {_limits(config)}"
    if kind == "nothing shared":
        hint = (
            ""
            if own is not None or "alert" not in reason
            else f"; if it wants a client certificate, {_SET_ONE}"
        )
        return f"{broker} and this client don't agree: {_limits(config)}{hint}"
    if kind == "name":
        return f"{broker} has no certificate for the name {clean(failure.host, 255)}"
    if kind == "weak":
        return (
            f"a key of {broker} is too weak for {library_version()}: "
            "give the broker a stronger one; until then "
            "ssl.cipher.suites=DEFAULT@SECLEVEL=1, or 0, accepts it"
        )
    if kind == "unprotected":
        return f"the TLS of {broker} protects nothing, so nothing is sent to it"
    return f"the TLS handshake with {broker} failed"


_PLAINTEXT: Final = (
    "a PLAINTEXT listener? security.protocol=plaintext, or sasl_plaintext, is for those"
)
_SET_ONE: Final = "set ssl.keystore.location, or ssl.certificate.location and ssl.key.location"

# Parts of OpenSSL's reasons, of all its versions from 3.0 on. The first match counts.
_REASONS: Final = {
    "no tls": (
        "wrong version number",
        "packet length too long",
        "http request",
        "record layer failure",
        "record type",
    ),
    "ended": ("eof", "closed", "reset"),
    "versions": ("protocol version", "unsupported protocol"),
    "name": ("unrecognized name",),
    "own certificate": (
        "alert certificate",
        "alert bad certificate",
        "alert unknown ca",
        "alert unsupported certificate",
        "alert access denied",
    ),
    "nothing shared": (
        "handshake failure",
        "insufficient security",
        "no shared",
        "no ciphers",
        "no suitable",
        "wrong cipher",
        "wrong curve",
        "signature type",
        "signature algorithm",
        "alert illegal parameter",
    ),
    # Specific, because a record can be "too small", too
    "weak": ("key too small", "modulus too small", "too weak"),
    # The texts of handshake_flaw() in csrc/net/tls.c
    "unprotected": ("has no encryption", "showed no certificate", "wasn't verified"),
}


def _of_own_certificate(broker: str, own: Identity | None) -> str:
    if own is None:
        return f"{broker} wants a client certificate: {_SET_ONE}"
    last = own.certificate.not_valid_after_utc
    expired = f": it expired on {last:%Y-%m-%d}" if last < datetime.now(timezone.utc) else ""
    issuer = clean(own.certificate.issuer.rfc4514_string())
    return (
        f"{broker} refuses the client's certificate, {subject(own.certificate)} "
        f"of {own.source}{expired}; its truststore needs the issuer '{issuer}'"
    )


def _limits(config: Config) -> str:
    """Return a hint about the properties that limit the client's offer."""
    names = [
        n for n in ("ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list") if config.text(n)
    ]
    if names:
        return f"see what {' and '.join(names)} leave{'s' if len(names) == 1 else ''} to offer"
    return "see the broker's ssl.enabled.protocols and ssl.cipher.suites"


def _names(certificate: x509.Certificate) -> list[str]:
    """Return hosts and addresses. The common name is left out, because verification ignores it."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.DNSName) + [
        str(each) for each in names.get_values_for_type(x509.IPAddress)
    ]


def _der_bytes(text: bytes) -> int:
    """Return the length of the first DER element, or of the whole text if that is unclear."""
    if len(text) < 2 or text[1] == 0x80:
        return len(text)
    if text[1] < 0x80:
        return 2 + text[1]
    size = text[1] & 0x7F
    return 2 + size + int.from_bytes(text[2 : 2 + size], "big")


def _verify_text(error: int) -> str:
    """Return OpenSSL's text for an X509_V_ERR number."""
    return clean(ffi.string(lib.X509_verify_cert_error_string(error)).decode("ascii", "replace"))
