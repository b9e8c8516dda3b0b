"""The broker's side of the SASL mechanisms.

The code follows the specifications (RFC 4616, 5802 and 7628, KIP-43, 48, 84, 255). It shares no
code with the client, so that tests of the client are meaningful.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
import time
from typing import TYPE_CHECKING, Any, Final, Literal

from kafka_native.mock import aws_iam
from kafka_native.mock.accounts import SCRAM

if TYPE_CHECKING:
    from kafka_native.mock.access import Credential
    from kafka_native.mock.accounts import Accounts

AuthenticationFault = Literal[
    "refuse",
    "close",
    "malformed",
    "oversized",
    "endless",
    "wrong_signature",
    "few_iterations",
    "many_iterations",
    "other_nonce",
    "mandatory_extension",
]
_CLOCK_SKEW_MAX_S = 60
_SECONDS_MAX = 1e12  # the limit for times in seconds, so that arithmetic can't overflow
_PRINTABLE_NONCE = r"[\x21-\x2b\x2d-\x7e]+"


class Denied(Exception):
    """An authentication that failed. The client gets the message, which contains no secret."""


class Exchange:
    """One authentication attempt. ``principal`` is a user's name once ``is_complete`` is set.

    ``expires`` is the expiry of the credential as ``time.time()``, or None. ``extensions`` are
    other properties that the client sent.
    """

    def __init__(self, mechanism: str, accounts: Accounts, fault: str | None) -> None:
        """Begin an exchange. ``fault`` is how the broker misbehaves, or None."""
        self.mechanism = mechanism
        self.accounts = accounts
        self.fault = fault
        self.is_complete = False
        self.principal = ""
        self.expires: float | None = None
        self.extensions: dict[str, str] = {}

    def step(self, token: bytes) -> bytes:
        """Process the client's token, and return the broker's next one. Raises ``Denied``."""
        raise NotImplementedError

    def denial(self) -> Denied:
        """Return an error that doesn't reveal whether the user exists."""
        return Denied(f"invalid credentials for {self.mechanism}")

    def complete(self, principal: str) -> None:
        """Complete the exchange with this principal."""
        self.principal = principal
        self.is_complete = True


class Plain(Exchange):
    """The mechanism PLAIN (RFC 4616)."""

    def step(self, token: bytes) -> bytes:
        """Check the user and the password. There is only one step."""
        try:
            authorized, user, password = token.decode().split("\0")
        except ValueError:
            raise Denied("PLAIN has three parts of UTF-8 with NUL between them") from None
        if not user or not password or authorized not in ("", user):
            raise Denied(
                "PLAIN needs a user and a password, and the authorization id must be the user"
            )
        if not self.accounts.has_password(user, password):
            raise self.denial()
        self.complete(user)
        return b""


class ScramExchange(Exchange):
    """The SCRAM mechanisms (RFC 5802), without channel binding.

    ``tokenauth=true`` authenticates with a delegation token (KIP-48).
    """

    _FIRST = re.compile(
        rf"(?P<header>n,(?:a=(?P<authorized>[^,]*))?,)"
        rf"(?P<bare>n=(?P<user>(?:[^,=]|=2C|=3D)+),r=(?P<nonce>{_PRINTABLE_NONCE})(?P<extensions>(?:,[a-z]+=[^,]*)*))"
    )
    _LAST = re.compile(
        rf"(?P<bare>c=(?P<channel>[A-Za-z0-9+/=]+),r=(?P<nonce>{_PRINTABLE_NONCE}))(?:,[a-z]=[^,]*)*"
        r",p=(?P<proof>[A-Za-z0-9+/=]+)"
    )

    def __init__(self, mechanism: str, accounts: Accounts, fault: str | None) -> None:
        """Wait for the client's first message."""
        super().__init__(mechanism, accounts, fault)
        self._scram = SCRAM[mechanism]
        self._auth_message = ""
        self._header = ""
        self._nonce = ""
        self._owner = ""
        self._credential: Credential | None = None

    def step(self, token: bytes) -> bytes:
        """Process the client's first message (user name) or its final one (proof)."""
        try:
            text = token.decode()
        except ValueError:
            raise self.denial() from None
        return (
            self._first(text) if self._credential is None else self._last(text, self._credential)
        ).encode()

    def _first(self, text: str) -> str:
        match = self._FIRST.fullmatch(text)
        if match is None:
            raise self.denial()
        user = match["user"].replace("=2C", ",").replace("=3D", "=")
        if match["authorized"] not in (None, "", match["user"]):
            raise Denied("the authorization id must be the user")
        self.extensions = dict(one.split("=", 1) for one in match["extensions"].split(",") if one)
        self._owner = user
        if self.extensions.get("tokenauth") == "true":
            self._owner, self._credential = self.accounts.scram_token(self._scram, user) or (
                user,
                None,
            )
        else:
            self._credential = self.accounts.scram(self._scram, user)
        if self._credential is None:
            raise self.denial()
        self._header = match["header"]
        self._nonce = match["nonce"] + secrets.token_urlsafe(18)
        shown = secrets.token_urlsafe(40) if self.fault == "other_nonce" else self._nonce
        iterations = {"few_iterations": 1, "many_iterations": 2**31 - 1}.get(
            self.fault or "", self._credential.iterations
        )
        first = f"r={shown},s={base64.b64encode(self._credential.salt).decode()},i={iterations}"
        if self.fault == "mandatory_extension":
            first = f"m=unheard-of,{first}"
        self._auth_message = f"{match['bare']},{first}"
        return first

    def _last(self, text: str, credential: Credential) -> str:
        match = self._LAST.fullmatch(text)
        if match is None or match["nonce"] != self._nonce:
            raise self.denial()
        try:
            channel, proof = (
                base64.b64decode(match[name], validate=True) for name in ("channel", "proof")
            )
        except binascii.Error:
            raise self.denial() from None
        client_key = self._mac(credential.salted_password, b"Client Key")
        stored_key = hashlib.new(self._scram.hash, client_key).digest()
        auth_message = f"{self._auth_message},{text.rpartition(',p=')[0]}".encode()
        expected = bytes(
            a ^ b for a, b in zip(client_key, self._mac(stored_key, auth_message), strict=True)
        )
        if channel != self._header.encode() or not hmac.compare_digest(expected, proof):
            raise self.denial()
        signature = self._mac(self._mac(credential.salted_password, b"Server Key"), auth_message)
        if self.fault == "wrong_signature":
            signature = bytes(len(signature))
        self.complete(self._owner)
        return f"v={base64.b64encode(signature).decode()}"

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._scram.hash)


class OAuthBearer(Exchange):
    """OAUTHBEARER (RFC 7628) with unsecured JWTs, which are not signed. For tests only."""

    _FIRST = re.compile(rb"n,(?:a=([^,]*))?,\x01((?:[A-Za-z]+=[\x20-\x7e\t\r\n]+\x01)*)\x01")

    def __init__(self, mechanism: str, accounts: Accounts, fault: str | None) -> None:
        """Wait for the client's token."""
        super().__init__(mechanism, accounts, fault)
        self._refusal: Denied | None = None

    def step(self, token: bytes) -> bytes:
        """Check the bearer's token.

        For an invalid token the broker returns an error, and fails after the client's answer, a
        0x01.
        """
        if self._refusal is not None:
            raise self._refusal
        match = self._FIRST.fullmatch(token)
        if match is None:
            raise Denied(
                "OAUTHBEARER begins with a GS2 header and key=value pairs, "
                "0x01 between and behind them"
            )
        pairs = [pair.split("=", 1) for pair in match[2].decode("ascii").split("\x01") if pair]
        values = dict(pairs)
        kind, _, bearer = values.pop("auth", "").partition(" ")
        if len(pairs) != len(values) + 1 or kind.lower() != "bearer" or not bearer:
            raise Denied("OAUTHBEARER needs one auth=Bearer, and each extension once")
        try:
            subject, self.expires = _check_unsecured(bearer)
            if match[1] and match[1].decode("utf-8", "replace") != subject:
                raise Denied("the authorization id must be the user")
        except Denied as refusal:
            self._refusal = refusal
            return json.dumps({"status": "invalid_token"}).encode()
        self.extensions = values
        self.complete(subject)
        return b""


def _check_unsecured(token: str) -> tuple[str, float]:
    """Return the subject and the expiry of an unsecured JWT (RFC 7519, section 6).

    Raises ``Denied`` if the token is not valid now.
    """
    head, claims = _parts(token)
    if head.get("alg") != "none":
        raise Denied("only unsecured tokens (alg: none) are accepted")
    now = time.time()
    expires = _time(claims, "exp")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        raise Denied("the token has no subject (sub)")
    if expires <= now:
        raise Denied("the token has expired")
    if any(
        name in claims and _time(claims, name) > now + _CLOCK_SKEW_MAX_S for name in ("iat", "nbf")
    ):
        raise Denied("the token isn't valid yet")
    return subject, expires


def _time(claims: dict[str, Any], name: str) -> float:
    """Return a time among the claims, in seconds. Raises ``Denied``."""
    value = claims.get(name)
    if (
        not isinstance(value, (int, float))
        or isinstance(value, bool)
        or not abs(value) < _SECONDS_MAX
    ):
        raise Denied(f"the token's {name} is no time")
    return float(value)


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    pieces = token.split(".")
    if len(pieces) != 3 or pieces[2]:
        raise Denied("an unsecured token has a header, claims and an empty signature")
    found = []
    for piece in pieces[:2]:
        try:
            value = json.loads(
                base64.b64decode(piece + "=" * (-len(piece) % 4), b"-_", validate=True)
            )
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise Denied("the token isn't a JWT")
        found.append(value)
    return found[0], found[1]


class AwsMskIam(Exchange):
    """The mechanism AWS_MSK_IAM, as Amazon MSK implements it."""

    def step(self, token: bytes) -> bytes:
        """Check the signed request. There is only one step."""
        try:
            signed = aws_iam.check(token, self.accounts.aws_keys, time.time())
        except ValueError as error:
            raise Denied(f"AWS_MSK_IAM: {error}") from None
        self.extensions = signed.properties
        self.complete(signed.key_id)
        return json.dumps({"version": aws_iam.VERSION, "request-id": secrets.token_hex(8)}).encode()


class Gssapi(Exchange):
    """The mechanism GSSAPI without a Kerberos key. It fails for every client."""

    def step(self, token: bytes) -> bytes:
        """Fail with every token of the client."""
        raise Denied("this cluster has no Kerberos key")


MECHANISMS: Final[dict[str, type[Exchange]]] = {
    "PLAIN": Plain,
    **dict.fromkeys(SCRAM, ScramExchange),
    "OAUTHBEARER": OAuthBearer,
    "AWS_MSK_IAM": AwsMskIam,
    "GSSAPI": Gssapi,
}
