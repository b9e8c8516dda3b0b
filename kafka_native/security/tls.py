"""Makes an OpenSSL context from the ``ssl.*`` properties.

The C transport makes connections with it.

The application's thread makes the context together with the client. The control thread makes a new
one when a file has changed. A connection runs no Python code: this module decrypts the keys and
sets no callback.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

from OpenSSL import SSL, crypto

from kafka_native.config import Config

from . import cipher_suites, tls_errors
from .authorities import Authorities, reasons
from .certificates import Identity, identity, is_keystore, keystore, revocation_lists, subject
from .openssl import ffi, lib, library_version, set_list
from .sources import Files, Material, refuse


class TlsContext:
    """An SSL_CTX that is made from a configuration.

    It supports TLS 1.2 and 1.3, without renegotiation. It verifies the broker unless
    ``enable.ssl.certificate.verification`` is false. The connection checks the host name
    (`identifies_hosts`).

    :raises KafkaException: ``_INVALID_ARG`` for unreadable, mismatching or contradictory settings;
        the error names the property and the file. ``_SSL`` if OpenSSL lacks a function.
    """

    def __init__(self, config: Config) -> None:
        """Read the files that the configuration names."""
        self.verifies: Final = config.flag("enable.ssl.certificate.verification")
        """True if a trusted authority has to vouch for the broker's certificate."""
        self.identifies_hosts: Final = (
            self.verifies and config.text("ssl.endpoint.identification.algorithm") == "https"
        )
        """True if the broker's certificate has to name the host or address of the connection."""
        self.remarks: Final[list[str]] = []
        """Warnings for the user."""
        self._config = config
        self._files = Files()
        self.context: Final = SSL.Context(SSL.TLS_CLIENT_METHOD)
        """The SSL_CTX as a pyOpenSSL object."""
        self.context.set_min_proto_version(SSL.TLS1_2_VERSION)
        # OpenSSL treats an end without close_notify as a normal end, because Kafka's frames show
        # whether data is missing. As an error, it would prevent the resumption of the session.
        self.context.set_options(
            SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION | lib.SSL_OP_IGNORE_UNEXPECTED_EOF
        )
        self.context.set_verify(SSL.VERIFY_PEER if self.verifies else SSL.VERIFY_NONE)
        self._restrict()
        self.authorities: Final = Authorities(
            self.context, config, self._files, required=self.verifies
        )
        """The trusted authorities."""
        self._set_store_flags()
        own = _identity_of(config, self._files)
        if own is not None:
            self._use_identity(own)
        self.identity: Final = own and own._replace(key=None)
        """The client's own certificate, or None. Only the context has the key."""
        cipher_suites.check_offered(self.context)
        if not self.verifies:
            self.remarks.append(
                "enable.ssl.certificate.verification=false: the client doesn't detect "
                "servers that impersonate a broker"
            )
        elif not self.identifies_hosts:
            self.remarks.append(
                "ssl.endpoint.identification.algorithm=none: anyone with a certificate of a "
                "trusted authority, for any host, can impersonate a broker"
            )

    @property
    def pointer(self) -> int:
        """The address of the SSL_CTX. It lives as long as this object."""
        return int(ffi.cast("uintptr_t", self.context._context))

    def changed(self) -> bool:
        """Return True if one of the context's files or directories has changed.

        Then make a new context.
        """
        return self._files.changed()

    def explain(
        self, reason: str, verify_error: int, host: str, port: int, certificate: bytes
    ) -> str:
        """Return the cause of a failed handshake, and which properties to set.

        :param reason: OpenSSL's reason, for instance ``certificate verify failed``; may be empty.
        :param verify_error: An X509_V_ERR number; 0 if the certificate was not the problem.
        :param host: The host of the connection, as in the broker's address.
        :param port: The port.
        :param certificate: The broker's own certificate in DER form, or empty. If a certificate
            above it is the cause, that certificate follows.
        """
        # Without verification there is a verify result, too, but it isn't the cause
        failure = tls_errors.Failure(
            reason, verify_error if self.verifies else 0, host, port, certificate
        )
        return tls_errors.explain(failure, self._config, self.authorities, self.identity)

    def __repr__(self) -> str:
        shown = self.identity and subject(self.identity.certificate)
        trusted = self.authorities.where() if self.verifies else "not verified"
        return f"TlsContext({library_version()}, authorities: {trusted}, own certificate: {shown})"

    def _restrict(self) -> None:
        """Apply the user's cipher suites, curves and signature algorithms."""
        self.remarks.extend(
            cipher_suites.restrict(self.context, self._config.text(cipher_suites.PROPERTY))
        )
        self._set_list_of("ssl.curves.list", "SSL_CTX_set1_curves_list")
        self._set_list_of("ssl.sigalgs.list", "SSL_CTX_set1_sigalgs_list")

    def _set_list_of(self, name: str, function: str) -> None:
        """Pass the list of a property to OpenSSL, if it is set."""
        if self._config.text(name):
            set_list(self.context._context, function, [self._config.text(name)], name)

    def _set_store_flags(self) -> None:
        store, location = self.context.get_cert_store(), self._config.text("ssl.crl.location")
        assert store is not None, "a new context has a store"
        # With PARTIAL_CHAIN, an intermediate authority needs no root above it.
        flags = crypto.X509StoreFlags.PARTIAL_CHAIN
        if self._config.text("ssl.crl.check") == "chain":
            if not location:
                refuse(
                    "ssl.crl.check=chain: there are no revocation lists to check with",
                    "set ssl.crl.location",
                )
            # Up to the root: OpenSSL verifies each authority's revocation list with the key of the
            # authority above it.
            flags = crypto.X509StoreFlags.CRL_CHECK | crypto.X509StoreFlags.CRL_CHECK_ALL
        if location:
            material = self._files.read("ssl.crl.location", location)
            try:
                for each in revocation_lists(material):
                    store.add_crl(each)
            except crypto.Error as error:
                refuse(f"{material}: a revocation list can't be read: {reasons(error)}")
            flags |= crypto.X509StoreFlags.CRL_CHECK
        store.set_flags(flags)

    def _use_identity(self, own: Identity) -> None:
        """Put the client's certificate, its chain and its key into the context."""
        try:
            self.context.use_certificate(own.certificate)
            for each in own.chain:
                self.context.add_extra_chain_cert(each)
            self.context.use_privatekey(own.key)
            self.context.check_privatekey()
        except (SSL.Error, crypto.Error) as error:
            refuse(f"{own.source}: {reasons(error)}")
        except TypeError:
            refuse(
                f"{own.source}: TLS doesn't support this kind of key",
                "keys are RSA, EC, Ed25519 or Ed448",
            )
        now = datetime.now(timezone.utc)
        first, last = own.certificate.not_valid_before_utc, own.certificate.not_valid_after_utc
        if not first <= now <= last:
            when = (
                f"expired on {last:%Y-%m-%d}"
                if now > last
                else f"isn't valid before {first:%Y-%m-%d}"
            )
            self.remarks.append(
                f"the client's certificate, {subject(own.certificate)} of {own.source}, {when}"
            )


def _identity_of(config: Config, files: Files) -> Identity | None:
    """Return the client's certificate and key from the properties that name them, or None."""
    store = config.text("ssl.keystore.location")
    chain = _material(
        files,
        "ssl.certificate",
        config.text("ssl.certificate.location"),
        config.content("ssl.certificate.pem"),
    )
    key = _material(
        files, "ssl.key", config.text("ssl.key.location"), config.content("ssl.key.pem")
    )
    if store and (other := chain or key):
        refuse(f"ssl.keystore.location and {other.name}: set one of them")
    if store:
        password = (
            config.text("ssl.keystore.password") if config.is_set("ssl.keystore.password") else None
        )
        return keystore(files.read("ssl.keystore.location", store), password)
    if chain and key is None and is_keystore(chain):
        return keystore(chain, config.text("ssl.key.password") or None, "ssl.key.password")
    if chain and key:
        return identity(chain, key, config.text("ssl.key.password"))
    if chain:
        refuse(f"{chain}: there is no key for it", "set ssl.key.location or ssl.key.pem")
    if key:
        refuse(
            f"{key}: there is no certificate for it",
            "set ssl.certificate.location or ssl.certificate.pem",
        )
    return None


def _material(files: Files, name: str, path: str, content: bytes) -> Material | None:
    """Return the content of the property NAME.location or NAME.pem, or None."""
    if path and content:
        refuse(f"{name}.location and {name}.pem: set one of them")
    if path:
        return files.read(f"{name}.location", path)
    return Material(f"{name}.pem", "", content) if content else None
