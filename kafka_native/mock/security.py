"""TLS and SASL of a cluster's listeners, and the changes that tests make to them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, get_args

from kafka_native.mock.accounts import Accounts, AwsKey, DelegationToken
from kafka_native.mock.certificates import Certificates, Identity, Presented
from kafka_native.mock.mechanisms import MECHANISMS, AuthenticationFault
from kafka_native.mock.sasl import SaslListener, SeenLogin
from kafka_native.mock.tls import (
    VERSIONS,
    ClientCertificates,
    HandshakeFault,
    SeenHandshake,
    TlsListener,
)

if TYPE_CHECKING:
    from kafka_native.mock.access import Access
    from kafka_native.mock.faults import Faults

PROTOCOLS: Final = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")


@dataclass(frozen=True)
class ListenerSecurity:
    """The security settings of a ``MockCluster``. Raises ``ValueError`` for invalid ones.

    :param protocol: ``security.protocol``: plaintext, ssl, sasl_plaintext or sasl_ssl, in any case.
    :param mechanisms: ``sasl.enabled.mechanisms``: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER
        (with unsecured JWTs), AWS_MSK_IAM, and GSSAPI, which fails for every client.
    :param users: Passwords of users, for PLAIN and SCRAM.
    :param delegation_tokens: Tokens by their id. SCRAM with ``tokenauth=true`` accepts them.
    :param aws_keys: Secrets by access key id.
    :param session_lifetime_ms: ``connections.max.reauth.ms``: the lifetime of an authenticated
        session (KIP-368). 0 means no limit.
    :param scram_iterations: The iteration count of SCRAM's password hash.
    :param certificates: An authority that issues the brokers' certificate, or a certificate with
        its key. None makes an authority with trustme (``pip install 'kafka-native[mock]'``).
    :param client_certificates: ``ssl.client.auth``: none, requested or required. The subject of a
        client's certificate is its principal.
    :param tls_versions: The lowest and the highest version: TLSv1.2 or TLSv1.3.
    """

    protocol: str = "plaintext"
    mechanisms: Sequence[str] = ("PLAIN",)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    aws_keys: Mapping[str, AwsKey] = field(default_factory=dict)
    session_lifetime_ms: int = 0
    scram_iterations: int = 4096
    certificates: Certificates | Identity | None = None
    client_certificates: ClientCertificates = "none"
    tls_versions: tuple[str, str] = ("TLSv1.2", "TLSv1.3")

    def __post_init__(self) -> None:
        """Check the settings."""
        _check("protocol", self.protocol.lower(), PROTOCOLS)
        for mechanism in self.mechanisms:
            _check("mechanism", mechanism, tuple(MECHANISMS))
        _check("client_certificates", self.client_certificates, get_args(ClientCertificates))
        for version in self.tls_versions:
            _check("TLS version", version, tuple(VERSIONS))
        if self.has_sasl and not self.mechanisms:
            raise ValueError("SASL needs a mechanism")

    @property
    def has_tls(self) -> bool:
        """Whether connections use TLS."""
        return self.protocol.lower() in ("ssl", "sasl_ssl")

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate with SASL."""
        return self.protocol.lower().startswith("sasl_")

    def static_settings(self) -> dict[str, str]:
        """Return the settings of brokers that describe this security."""
        found = {
            "security.inter.broker.protocol": self.protocol.upper(),
            "connections.max.reauth.ms": str(self.session_lifetime_ms),
        }
        if self.has_sasl:
            found["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
        if self.has_tls:
            found["ssl.client.auth"] = self.client_certificates
        return found

    def tls(self, faults: Faults) -> TlsListener | None:
        """Make the TLS listener, or None. Raises ``ssl.SSLError`` for an unusable certificate."""
        if not self.has_tls:
            return None
        return TlsListener(self.certificates, self.client_certificates, self.tls_versions, faults)

    def sasl(self, lock: threading.RLock, access: Access, faults: Faults) -> SaslListener | None:
        """Make the SASL listener with its users, or None."""
        if not self.has_sasl:
            return None
        accounts = Accounts(
            lock, access, self.scram_iterations, self.delegation_tokens, self.aws_keys
        )
        for user, password in self.users.items():
            accounts.set_password(user, password)
        return SaslListener(self.mechanisms, accounts, self.session_lifetime_ms, faults)


def _check(what: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{what} {value!r} is none of {', '.join(choices)}")


class Security:
    """TLS and SASL of the cluster, as ``cluster.security``.

    Methods raise ``ValueError`` if the cluster lacks the layer.
    """

    def __init__(self, tls: TlsListener | None, sasl: SaslListener | None, faults: Faults) -> None:
        """Act on the listeners of a cluster."""
        self._tls_listener = tls
        self._sasl_listener = sasl
        self._faults = faults

    # --- TLS ---

    @property
    def ca_pem(self) -> str:
        """The certificate to trust, for ``ssl.ca.pem`` or a file."""
        return self._tls.ca_pem

    @property
    def certificates(self) -> Certificates:
        """The cluster's authority. ``certificates.client("alice")`` issues a client certificate."""
        return self._tls.certificates

    @property
    def handshakes(self) -> list[SeenHandshake]:
        """The last TLS handshakes, oldest first."""
        return list(self._tls.handshakes)

    def present_certificate(self, presented: Presented, broker: int | None = None) -> None:
        """Present a certificate with a flaw on new connections, of one broker or of all.

        ``presented`` is ``expired``, ``not_yet_valid``, ``wrong_host`` or ``unknown_ca``. ``good``
        ends it.
        """
        _check("certificate", presented, get_args(Presented))
        self._tls.present(presented, broker)

    def rotate_certificate(self, identity: Identity | None = None) -> None:
        """Present another certificate from now on.

        It is this one, or a new one from the same authority.
        """
        self._tls.rotate(identity)

    def break_handshakes(
        self, how: HandshakeFault, broker: int | None = None, count: int = 1
    ) -> None:
        """Break the next TLS handshakes of one broker or of any, after the client's first message.

        ``close`` closes the connection, ``garbage`` sends bytes that aren't TLS, ``silence`` sends
        nothing.
        """
        _check("fault", how, get_args(HandshakeFault))
        self._faults.arm_break(self._tls.PLACE, how, broker, count)

    # --- SASL ---

    @property
    def logins(self) -> list[SeenLogin]:
        """The last completed authentication attempts, oldest first."""
        return list(self._sasl.logins)

    @property
    def expired_sessions(self) -> int:
        """The number of connections that were closed because their session had expired."""
        return self._sasl.expired_sessions

    def set_password(self, user: str, password: str | None) -> None:
        """Set a user's password for all mechanisms. None removes the user."""
        self._sasl.accounts.set_password(user, password)

    def set_session_lifetime(self, milliseconds: int) -> None:
        """Set the lifetime of sessions that begin from now on. 0 means no limit."""
        self._sasl.session_lifetime_ms = milliseconds

    def break_authentication(
        self, how: AuthenticationFault, broker: int | None = None, count: int = 1
    ) -> None:
        """Break the next authentication attempts, of one broker or of any.

        Faults for any mechanism:

        - ``refuse``: answer SASL_AUTHENTICATION_FAILED for all credentials.
        - ``close``: close the connection instead of an answer.
        - ``malformed`` and ``oversized`` (4 MiB): send an invalid token.
        - ``endless``: request another token again and again.

        Faults for SCRAM:

        - ``wrong_signature``: send a wrong signature of the broker.
        - ``few_iterations``: require 1 iteration.
        - ``many_iterations``: require 2,147,483,647 iterations.
        - ``other_nonce``: return another nonce than the client's.
        - ``mandatory_extension``: require an unknown extension (``m=``).
        """
        _check("fault", how, get_args(AuthenticationFault))
        self._faults.arm_break(self._sasl.PLACE, how, broker, count)

    @property
    def _tls(self) -> TlsListener:
        if self._tls_listener is None:
            raise ValueError("this cluster has no TLS")
        return self._tls_listener

    @property
    def _sasl(self) -> SaslListener:
        if self._sasl_listener is None:
            raise ValueError("this cluster has no SASL")
        return self._sasl_listener
