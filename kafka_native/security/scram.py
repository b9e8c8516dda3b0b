"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

Neither side sends the password. Both prove that they know it.

The RFCs require that clients prepare names and passwords with SASLprep. Kafka's own tools and
clients hash them unprepared. For ASCII there is no difference. For other texts the client first
tries them unprepared. After a refusal it tries them prepared.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from kafka_native.security.mechanisms import (
    Credentials,
    Exchange,
    PasswordMechanism,
    SaslError,
    shown,
)
from kafka_native.security.saslprep import saslprep
from kafka_native.security.secret_buffer import SecretBuffer

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
ITERATIONS = range(4096, 1_000_001)
"""The accepted iteration counts.

A lower count gives no protection (RFC 7677). With a higher count, a broker could keep its clients
busy.
"""
MESSAGE_MAX_BYTES = 4096
SALT_MAX_BYTES = 1024
CACHED_MAX = 16


class Keys(NamedTuple):
    """The keys derived from a password, a salt and an iteration count."""

    client: SecretBuffer
    server: SecretBuffer

    def __repr__(self) -> str:
        return "Keys([redacted])"


KeyCache: TypeAlias = dict[tuple[int, bytes, int], Keys]
"""Keys by the form of the password, the salt and the iteration count."""


def nonce() -> str:
    """Return a new nonce of 192 random bits."""
    return secrets.token_urlsafe(24)


def forms(credentials: Credentials) -> list[tuple[str, str]]:
    """Return the name and the password unprepared, and prepared by SASLprep if that differs."""
    raw = (credentials.username, credentials.password)
    try:
        prepared = (saslprep(raw[0]), saslprep(raw[1]))
    except ValueError:
        return [raw]
    return [raw] if prepared == raw else [raw, prepared]


class Scram(PasswordMechanism):
    """The mechanisms SCRAM-SHA-256 and SCRAM-SHA-512."""

    exposes = ""

    def __init__(
        self,
        name: str,
        credentials: Credentials,
        *,
        is_token: bool = False,
        make_nonce: Callable[[], str] = nonce,
    ) -> None:
        """``is_token``: the credentials are the id and the HMAC of a delegation token (KIP-48)."""
        super().__init__(credentials)
        self.name = name
        self.hash = HASHES[name]
        self._is_token = is_token
        self._make_nonce = make_nonce
        self._refusals = 0
        # Replaced together, because another thread may begin an exchange
        self._state: tuple[Credentials, KeyCache] = (credentials, {})

    def set_credentials(self, credentials: Credentials) -> None:
        """Use these credentials from the next exchange on.

        The old password and its keys are overwritten when no exchange uses them any more.
        """
        super().set_credentials(credentials)
        self._refusals = 0
        self._state = (credentials, {})

    def close(self) -> None:
        """Overwrite the password and the keys."""
        super().close()
        credentials, cache = self._state
        credentials.wipe()
        for keys in list(cache.values()):
            keys.client.wipe()
            keys.server.wipe()
        cache.clear()

    def on_refused(self) -> None:
        """Let the next exchange use the other form of name and password, if there is one."""
        self._refusals += 1

    def exchange(self, host: str, port: int) -> Exchange:
        """Start an authentication."""
        credentials, cache = self._state
        possible = forms(credentials)
        form = self._refusals % len(possible)
        username, password = possible[form]
        derive = partial(self.keys, cache, form, SecretBuffer(password))
        return ScramExchange(self, username, derive, self._make_nonce(), self._is_token)

    def keys(
        self, cache: KeyCache, form: int, password: SecretBuffer, salt: bytes, iterations: int
    ) -> Keys:
        """Return the keys of a password. The cache makes later connections cheap."""
        keys = cache.get((form, salt, iterations))
        if keys is None:
            salted = SecretBuffer.taken(
                hashlib.pbkdf2_hmac(self.hash, password.data, salt, iterations)
            )
            client, server = (
                SecretBuffer.taken(self.mac(salted.data, name))
                for name in (b"Client Key", b"Server Key")
            )
            salted.wipe()
            keys = Keys(client, server)
            if len(cache) >= CACHED_MAX:
                cache.clear()
            cache[form, salt, iterations] = keys
        password.wipe()
        return keys

    def mac(self, key: bytes | bytearray, message: bytes) -> bytes:
        """Return the HMAC with the mechanism's hash."""
        return hmac.digest(key, message, self.hash)


class ScramExchange(Exchange):
    """The four messages: client first, server first, client final, server final."""

    def __init__(
        self,
        scram: Scram,
        username: str,
        derive: Callable[[bytes, int], Keys],
        own_nonce: str,
        is_token: bool,
    ) -> None:
        """Make the exchange for this form of the name.

        ``derive`` returns the keys for a salt and an iteration count. It is called once.
        """
        self._scram = scram
        self._derive = derive
        self._nonce = own_nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={own_nonce}{',tokenauth=true' if is_token else ''}"
        self._server_signature: bytes | None = None

    def begin(self) -> bytes:
        """Return the client-first message: no channel binding, the name, a nonce."""
        return f"n,,{self._first}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the client's proof. On the broker's second message, verify the broker's proof."""
        if len(challenge) > MESSAGE_MAX_BYTES:
            raise SaslError(
                f"the broker's SCRAM message has {len(challenge)} bytes, more than "
                f"{MESSAGE_MAX_BYTES}"
            )
        try:
            text = challenge.decode()
        except UnicodeDecodeError:
            raise SaslError("the broker's SCRAM message isn't UTF-8") from None
        if self._server_signature is None:
            return self._prove(text)
        self._verify(text)
        return None

    def _prove(self, server_first: str) -> bytes:
        values = _attributes(server_first)
        # "m" in the first place would be a mandatory extension.
        if list(values)[:3] != ["r", "s", "i"]:
            raise SaslError(f"not a SCRAM message of a server: {shown(server_first)}")
        if not values["r"].startswith(self._nonce) or len(values["r"]) == len(self._nonce):
            raise SaslError(
                "the broker's nonce doesn't continue ours: it may replay another exchange"
            )
        salt = _decoded(values["s"], "salt")
        if not 0 < len(salt) <= SALT_MAX_BYTES:
            raise SaslError(f"the broker's salt has {len(salt)} bytes")
        keys = self._derive(salt, _iterations(values["i"]))
        without_proof = f"c=biws,r={values['r']}"  # biws: "n,," of the client-first message
        message = f"{self._first},{server_first},{without_proof}".encode()
        stored = hashlib.new(self._scram.hash, keys.client.data).digest()
        signature = self._scram.mac(stored, message)
        proof = bytes(a ^ b for a, b in zip(keys.client.data, signature, strict=True))
        self._server_signature = self._scram.mac(keys.server.data, message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, server_final: str) -> None:
        values = _attributes(server_final)
        if "e" in values:
            raise SaslError(f"the broker says {shown(values['e'])}")
        signature = _decoded(values.get("v", ""), "signature")
        if self._server_signature is None or not hmac.compare_digest(
            signature, self._server_signature
        ):
            raise SaslError(
                "the broker's signature is wrong: it doesn't know the password, so it isn't "
                "our broker"
            )
        self.done = True


def _attributes(text: str) -> dict[str, str]:
    """Parse ``a=1,b=2`` into a dict in the same order."""
    pairs = [part.partition("=") for part in text.split(",")]
    values = {name: value for name, equals, value in pairs if equals and len(name) == 1}
    if len(values) != len(pairs):
        raise SaslError(f"not a SCRAM message: {shown(text)}")
    return values


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslError(f"the broker's {what} isn't base64") from None


def _iterations(text: str) -> int:
    iterations = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if iterations not in ITERATIONS:
        allowed = f"from {ITERATIONS.start} to {ITERATIONS.stop - 1}"
        raise SaslError(f"the broker wants {shown(text)} iterations; {allowed} are accepted")
    return iterations
