"""From the ``ssl.*`` properties to a context of OpenSSL's, which the C transport makes its connections with.

A context is made on the thread that makes the client, and again on the control thread when a file has changed; no code
of Python's runs when it is used: keys are decrypted here, and there is no callback in it.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final

from OpenSSL import SSL, crypto

from kafka_native.config import Config

from . import cipher_suites, tls_errors
from .authorities import Authorities, reasons
from .certificates import Identity, identity, keystore, revocation_lists, subject
from .openssl import ffi, lib, library_version, set_list
from .sources import Files, Material, refuse


class TlsContext:
    """An SSL_CTX made of a configuration.

    TLS 1.2 and 1.3, without renegotiation. Verifies the peer unless ``enable.ssl.certificate.verification`` is false;
    checking the name is the connection's part (`identifies_hosts`).

    :raises KafkaException: With ``_INVALID_ARG``, the property and the file, for what can't be read, doesn't belong
        together or contradicts itself; with ``_SSL`` if OpenSSL can't do it.
    """

    def __init__(self, config: Config) -> None:
        """Read the files that the configuration names."""
        self.verifies: Final = config.flag("enable.ssl.certificate.verification")
        """The broker's certificate has to be one of an authority's."""
        self.identifies_hosts: Final = (
            self.verifies and config.text("ssl.endpoint.identification.algorithm") == "https"
        )
        """A broker's certificate has to name the host, or the address, that was connected to."""
        self.remarks: Final[list[str]] = []
        """What the user should be warned of."""
        self._config = config
        self._files = Files()
        self.context: Final = SSL.Context(SSL.TLS_CLIENT_METHOD)
        """pyOpenSSL's view of it."""
        self.context.set_min_proto_version(SSL.TLS1_2_VERSION)
        # An end without close_notify is an end: whether something is missing is told by Kafka's frames. As an error, it
        # would make the session one that can't be resumed.
        self.context.set_options(
            SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION | lib.SSL_OP_IGNORE_UNEXPECTED_EOF
        )
        self.context.set_verify(SSL.VERIFY_PEER if self.verifies else SSL.VERIFY_NONE)
        self._restrict()
        self.authorities: Final = Authorities(
            self.context, config, self._files, required=self.verifies
        )
        """Whom it trusts."""
        self._set_store_flags()
        own = _identity_of(config, self._files)
        if own is not None:
            self._show(own)
        self.identity: Final = own and own._replace(key=None)
        """The client's own certificate, None where none is set. The key is in the context alone."""
        cipher_suites.check_offered(self.context)
        if not self.verifies:
            self.remarks.append(
                "enable.ssl.certificate.verification=false: whoever answers in the brokers' place isn't noticed"
            )
        elif not self.identifies_hosts:
            self.remarks.append(
                "ssl.endpoint.identification.algorithm=none: whoever has a certificate of a trusted authority, for any "
                "host, can take a broker's place"
            )

    @property
    def pointer(self) -> int:
        """The address of the SSL_CTX, which lives as long as this object."""
        return int(ffi.cast("uintptr_t", self.context._context))

    def changed(self) -> bool:
        """Whether a file or directory that it was made of is another one by now; then a new context is due."""
        return self._files.changed()

    def explain(
        self, reason: str, verify_error: int, host: str, port: int, certificate: bytes
    ) -> str:
        """Say what a failed handshake was about and what to set.

        :param reason: OpenSSL's reason, for instance ``certificate verify failed``; may be empty.
        :param verify_error: An X509_V_ERR number, 0 if the certificate was no problem.
        :param host: What was connected to, as in the broker's address.
        :param port: Its port.
        :param certificate: The broker's own certificate in DER form, empty if it isn't known. Where the cause is one
            above it, that one follows.
        """
        # Without verification there is a result, too, but it isn't what failed.
        failure = tls_errors.Failure(
            reason, verify_error if self.verifies else 0, host, port, certificate
        )
        return tls_errors.explain(failure, self._config, self.authorities, self.identity)

    def __repr__(self) -> str:
        shown = self.identity and subject(self.identity.certificate)
        trusted = self.authorities.where() if self.verifies else "not verified"
        return f"TlsContext({library_version()}, authorities: {trusted}, own certificate: {shown})"

    def _restrict(self) -> None:
        """Cipher suites, curves and signature algorithms, where the user wants others than OpenSSL does."""
        self.remarks.extend(
            cipher_suites.restrict(self.context, self._config.text(cipher_suites.PROPERTY))
        )
        self._offer("ssl.curves.list", "SSL_CTX_set1_curves_list")
        self._offer("ssl.sigalgs.list", "SSL_CTX_set1_sigalgs_list")

    def _offer(self, name: str, function: str) -> None:
        """Narrow down what is offered to a property's list, where it is set."""
        if self._config.text(name):
            set_list(self.context._context, function, [self._config.text(name)], name)

    def _set_store_flags(self) -> None:
        store, location = self.context.get_cert_store(), self._config.text("ssl.crl.location")
        assert store is not None, "a new context has a store"
        flags = (
            crypto.X509StoreFlags.PARTIAL_CHAIN
        )  # an intermediate authority needs no root above it
        if self._config.text("ssl.crl.check") == "chain":
            if not location:
                refuse(
                    "ssl.crl.check=chain: there are no revocation lists to check with",
                    "set ssl.crl.location",
                )
            # Up to the root: the list that an authority may be in is verified with the key of the one above it.
            flags = crypto.X509StoreFlags.CRL_CHECK | crypto.X509StoreFlags.CRL_CHECK_ALL
        if location:
            for each in revocation_lists(self._files.read("ssl.crl.location", location)):
                store.add_crl(each)
            flags |= crypto.X509StoreFlags.CRL_CHECK
        store.set_flags(flags)

    def _show(self, own: Identity) -> None:
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
                f"{own.source}: TLS has no use for this kind of key",
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
    """The client's certificate and key, by one of the ways to name them."""
    store = config.text("ssl.keystore.location")
    chain = _material(
        files,
        "ssl.certificate",
        config.text("ssl.certificate.location"),
        config.text("ssl.certificate.pem"),
    )
    key = _material(files, "ssl.key", config.text("ssl.key.location"), config.text("ssl.key.pem"))
    if store and (other := chain or key):
        refuse(f"ssl.keystore.location and {other.name}: set one of them")
    if store:
        password = (
            config.text("ssl.keystore.password") if config.is_set("ssl.keystore.password") else None
        )
        return keystore(files.read("ssl.keystore.location", store), password)
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


def _material(files: Files, name: str, path: str, text: str) -> Material | None:
    """What NAME.location or NAME.pem stands for."""
    if path and text:
        refuse(f"{name}.location and {name}.pem: set one of them")
    if path:
        return files.read(f"{name}.location", path)
    return Material(f"{name}.pem", "", text.encode()) if text else None
