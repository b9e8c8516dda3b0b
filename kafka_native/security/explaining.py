"""What a failed TLS handshake was about, in the user's terms.

OpenSSL's reasons are few words; what they mean depends on what was configured and on what the broker showed. Everything
that comes from the network is cut and cleaned before it is put into a sentence.
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
NO_ISSUER: Final = (2, 20, 21)  # no issuer (at all, here), no way to check the leaf's signature
SELF_SIGNED, SELF_SIGNED_IN_CHAIN = 18, 19
NO_CRL, REVOKED, CRL_EXPIRED = 3, 23, 12
OTHER_NAMES: Final = (62, 64)  # host, address
WRONG_PURPOSE: Final = (26, 79, 24)
TOO_WEAK: Final = (66, 67, 68)


class Failure(NamedTuple):
    """A handshake that failed; the fields are those of `TlsContext.explain`."""

    reason: str
    verify_error: int
    host: str
    port: int
    certificate: bytes

    @property
    def broker(self) -> str:
        """Its address, readable."""
        host = clean(self.host, 255)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


class Peer:
    """What a broker's certificate says, as far as it can be read: cryptography reads each part when it is asked for."""

    def __init__(self, der: bytes) -> None:
        """``der``: somebody else's bytes, empty if there are none."""
        self._der = der if len(der) <= CERTIFICATE_BYTES_MAX else b""

    @property
    def names(self) -> str:
        """The hosts and addresses that it is for."""
        nothing: list[str] = []
        found = self._read(_names, nothing)
        shown = [clean(name, 64) for name in found[:NAMES_MAX]]
        more = f" and {len(found) - NAMES_MAX} more" if len(found) > NAMES_MAX else ""
        return ", ".join(shown) + more if shown else "no host that could be read"

    @property
    def issuer(self) -> str:
        """Who signed it."""
        return self._read(lambda one: clean(one.issuer.rfc4514_string()), "an unknown one")

    @property
    def subject(self) -> str:
        """Whose it is."""
        return self._read(subject, "an unknown one")

    @property
    def from_when(self) -> datetime | None:
        """Since when it is valid."""
        return self._read(lambda one: one.not_valid_before_utc, None)

    @property
    def until_when(self) -> datetime | None:
        """Until when it is valid."""
        return self._read(lambda one: one.not_valid_after_utc, None)

    def _read(self, read: Callable[[x509.Certificate], _T], otherwise: _T) -> _T:
        try:
            return read(x509.load_der_x509_certificate(self._der)) if self._der else otherwise
        except Exception:  # it may be made to be a nuisance; cryptography has many for that: ValueError, KeyError ...
            return otherwise


def explain(failure: Failure, config: Config, authorities: Authorities, own: Identity | None) -> str:
    """See `TlsContext.explain`."""
    if failure.verify_error:
        sentence = _of_certificate(failure, config, authorities)
        said = _verify_text(failure.verify_error)
    else:
        sentence = _of_reason(failure, config, own)
        said = clean(failure.reason)
    return f"{sentence} (OpenSSL: {said})" if said and said not in sentence else sentence


def _of_certificate(failure: Failure, config: Config, authorities: Authorities) -> str:
    """Why the broker's certificate isn't accepted."""
    error, peer, whose = failure.verify_error, Peer(failure.certificate), f"the certificate of {failure.broker}"
    crl = f"ssl.crl.location={config.text('ssl.crl.location')}"
    if error in OTHER_NAMES:
        return (
            f"{whose} is for {peer.names}, not {clean(failure.host, 255)}: connect to the broker by a name of its "
            "certificate, or set ssl.endpoint.identification.algorithm=none if names are checked otherwise"
        )
    if error in (EXPIRED, NOT_YET_VALID):
        return _of_dates(error, peer, whose)
    if error == SELF_SIGNED:
        return (
            f"{whose}, {peer.subject}, is self-signed and none of {authorities.where()}: "
            "set ssl.ca.location to a file that has it"
        )
    if error in (*NO_ISSUER, SELF_SIGNED_IN_CHAIN):
        what = f"its issuer '{peer.issuer}' is none of the CAs of {authorities.where()}"
        if error == SELF_SIGNED_IN_CHAIN:
            what = f"the root above its issuer '{peer.issuer}' is none of the CAs of {authorities.where()}"
        return f"{whose} can't be verified: {what}; set ssl.ca.location to the CA's certificate"
    if error == REVOKED:
        return f"{whose}, {peer.subject}, is revoked, says {crl}"
    if error == NO_CRL:
        return f"{whose} can't be verified: {crl} has no list of its issuer '{peer.issuer}'"
    if error == CRL_EXPIRED:
        return f"{whose} can't be verified: the list of its issuer '{peer.issuer}' in {crl} is too old: get a new one"
    if error in WRONG_PURPOSE:
        return f"{whose}, {peer.subject}, or one above it isn't meant for servers (key usage)"
    if error in TOO_WEAK:
        return f"{whose} or one above it has a key or a signature that is too weak for {library_version()}"
    return f"{whose}, {peer.subject}, isn't accepted"


def _of_dates(error: int, peer: Peer, whose: str) -> str:
    now, first, last = datetime.now(timezone.utc), peer.from_when, peer.until_when
    if error == EXPIRED and last is not None and last < now:
        return f"{whose}, {peer.subject}, expired on {last:%Y-%m-%d}"
    if error == NOT_YET_VALID and first is not None and first > now:
        return f"{whose}, {peer.subject}, isn't valid before {first:%Y-%m-%d %H:%M} UTC: is this machine's clock right?"
    what = "has expired" if error == EXPIRED else "isn't valid yet"
    return f"a certificate above {whose}, which '{peer.issuer}' has issued, {what}"


def _of_reason(failure: Failure, config: Config, own: Identity | None) -> str:
    """Why there was no handshake, where the broker's certificate wasn't the problem."""
    reason, broker = failure.reason.lower(), failure.broker
    kind = next((kind for kind, parts in _REASONS.items() if any(part in reason for part in parts)), "")
    if kind == "ended" or not reason:
        return f"{broker} ended the connection in the middle of the TLS handshake: {_PLAINTEXT}"
    if kind == "no tls":
        return f"{broker} doesn't speak TLS: {_PLAINTEXT}"
    if kind == "own certificate":
        return _of_own_certificate(broker, own)
    if kind == "versions":
        return f"{broker} and this client have no version of TLS in common: {_limits(config)}"
    if kind == "nothing shared":
        perhaps = "" if own is not None or "alert" not in reason else f"; if it wants a client certificate, {_SET_ONE}"
        return f"{broker} and this client don't agree: {_limits(config)}{perhaps}"
    if kind == "name":
        return f"{broker} has no certificate for the name {clean(failure.host, 255)}"
    if kind == "weak":
        return f"a key of {broker} is too weak for {library_version()}: ssl.cipher.suites=DEFAULT@SECLEVEL=0 takes it"
    return f"the TLS handshake with {broker} failed"


_PLAINTEXT: Final = "a PLAINTEXT listener? security.protocol=plaintext, or sasl_plaintext, is for those"
_SET_ONE: Final = "set ssl.keystore.location, or ssl.certificate.location and ssl.key.location"

# Parts of OpenSSL's reasons, of all its versions from 3.0 on; the first that fits counts.
_REASONS: Final = {
    "no tls": ("wrong version number", "packet length too long", "http request", "record layer failure", "record type"),
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
    "weak": ("too small", "too weak"),
}


def _of_own_certificate(broker: str, own: Identity | None) -> str:
    if own is None:
        return f"{broker} wants a client certificate: {_SET_ONE}"
    last = own.certificate.not_valid_after_utc
    expired = f": it expired on {last:%Y-%m-%d}" if last < datetime.now(timezone.utc) else ""
    issuer = clean(own.certificate.issuer.rfc4514_string())
    return (
        f"{broker} refuses the client's certificate, {subject(own.certificate)} of {own.source}{expired}; "
        f"its truststore needs the issuer '{issuer}'"
    )


def _limits(config: Config) -> str:
    """What the user has narrowed down."""
    names = [n for n in ("ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list") if config.text(n)]
    if names:
        return f"see what {' and '.join(names)} leave{'s' if len(names) == 1 else ''} to offer"
    return "see the broker's ssl.enabled.protocols and ssl.cipher.suites"


def _names(certificate: x509.Certificate) -> list[str]:
    """Hosts and addresses; the common name only where there are no others, as nobody else looks at it then."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [str(each.value) for each in certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    return names.get_values_for_type(x509.DNSName) + [str(each) for each in names.get_values_for_type(x509.IPAddress)]


def _verify_text(error: int) -> str:
    """OpenSSL's words for an X509_V_ERR number."""
    return clean(ffi.string(lib.X509_verify_cert_error_string(error)).decode("ascii", "replace"))
