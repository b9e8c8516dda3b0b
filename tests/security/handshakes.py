"""TLS handshakes in memory: a tested context as the client, pyOpenSSL's server at the other end."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from OpenSSL import SSL, crypto

from kafka_native.config import parse
from kafka_native.security.openssl import error_reason, expect_host, ffi, lib
from kafka_native.security.tls import TlsContext

HOST = "b1.example"
PORT = 9093


def tls(properties: Mapping[str, Any]) -> TlsContext:
    """Return a TLS context for a client's configuration."""
    return TlsContext(parse({"bootstrap.servers": HOST, **properties}, "producer"))


def pem(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


def key_of(leaf: trustme.LeafCert) -> str:
    return leaf.private_key_pem.bytes().decode()


def chain_of(leaf: trustme.LeafCert) -> str:
    """Return the certificate and the intermediate certificates."""
    return "".join(each.bytes().decode() for each in leaf.cert_chain_pems)


def der_of(leaf: trustme.LeafCert) -> bytes:
    return der_of_pem(leaf.cert_chain_pems[0].bytes().decode())


def der_of_pem(text: str) -> bytes:
    return x509.load_pem_x509_certificate(text.encode()).public_bytes(Encoding.DER)


def server(
    leaf: trustme.LeafCert | tuple[str, str], *, clients: trustme.CA | None = None, suites: str = ""
) -> SSL.Context:
    """Return a listener's context.

    :param leaf: Its certificate, or a certificate and its key as PEM texts.
    :param clients: The authority whose client certificates it requires.
    :param suites: Its suites before TLS 1.3, with an optional security level.
    """
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    if suites:
        context.set_cipher_list(suites.encode())
    chain, private = leaf if isinstance(leaf, tuple) else (chain_of(leaf), key_of(leaf))
    own, *rest = x509.load_pem_x509_certificates(chain.encode())
    context.use_certificate(own)
    for each in rest:
        context.add_extra_chain_cert(each)
    key: Any = load_pem_private_key(private.encode(), None)
    context.use_privatekey(key)
    context.set_session_id(b"kafka")
    if clients is not None:
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT)
        store = context.get_cert_store()
        assert store is not None
        store.add_cert(
            crypto.X509.from_cryptography(x509.load_pem_x509_certificate(clients.cert_pem.bytes()))
        )
    return context


@dataclass
class Outcome:
    """The result of a handshake, as in the C transport."""

    reason: str
    """Empty after a success."""
    verify_error: int
    version: str
    cipher: str
    client_names: list[str]
    """The names in the chain that the client presented."""

    @property
    def succeeded(self) -> bool:
        return not self.reason


def shake(client: TlsContext, listener: SSL.Context | None, host: str = HOST) -> Outcome:
    """Do a handshake, and send a byte each way. Without ``listener`` the server has no TLS."""
    near = SSL.Connection(client.context, None)
    near.set_connect_state()
    if client.identifies_hosts:
        _identify(near, host)
    far = None
    if listener is not None:
        far = SSL.Connection(listener, None)
        far.set_accept_state()
    reason = _run(near, far)
    return Outcome(
        reason,
        lib.SSL_get_verify_result(near._ssl),
        near.get_protocol_version_name(),
        near.get_cipher_name() or "",
        [] if far is None else _shown(far),
    )


def _identify(near: SSL.Connection, host: str) -> None:
    try:
        assert expect_host(near._ssl, ipaddress.ip_address(host))
    except ValueError:
        assert expect_host(near._ssl, host.encode())


def _run(near: SSL.Connection, far: SSL.Connection | None) -> str:
    """Move bytes until both ends are done. Return the error of the client's OpenSSL."""
    if far is None:
        _near_step(near)
        near.bio_read(65536)
        near.bio_write(b"\0\0\0\4\0\0\0\0")
        return _near_step(near)[1]
    near_done = far_done = False
    for _ in range(20):
        if near_done:
            # TLS 1.3: the server's last message may still come
            _, reason = _near_step(near, reading=True)
        else:
            near_done, reason = _near_step(near)
        if reason or (near_done and far_done):
            return reason
        _carry(near, far)
        far_done = far_done or _far_step(far)
        _carry(far, near)
    return "the handshake didn't end"


def _near_step(near: SSL.Connection, *, reading: bool = False) -> tuple[bool, str]:
    """Do one step of the client with the transport's calls. Return (done, OpenSSL's reason)."""
    lib.ERR_clear_error()
    result = (
        lib.SSL_read(near._ssl, ffi.new("char[1]"), 1)
        if reading
        else lib.SSL_do_handshake(near._ssl)
    )
    wants = lib.SSL_get_error(near._ssl, result)
    if result == 1 or wants in (lib.SSL_ERROR_WANT_READ, lib.SSL_ERROR_WANT_WRITE):
        return result == 1, ""
    return False, error_reason() or f"SSL_get_error: {wants}"


def _far_step(far: SSL.Connection) -> bool:
    try:
        far.do_handshake()
    except SSL.Error:
        return False  # its alert goes to the client, or the client has failed before
    return True


def _carry(source: SSL.Connection, target: SSL.Connection) -> None:
    while True:
        try:
            sent = source.bio_read(65536)
        except SSL.WantReadError:
            return
        target.bio_write(sent)


def _shown(far: SSL.Connection) -> list[str]:
    own = far.get_peer_certificate(as_cryptography=True)
    chain = far.get_peer_cert_chain(as_cryptography=True) or []
    if own is None:
        return []
    return [
        each.subject.rfc4514_string() for each in ([own, *chain] if own not in chain else chain)
    ]
