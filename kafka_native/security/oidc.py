"""Tokens of an OpenID Connect provider over HTTPS.

The grants are client_credentials (KIP-768) and jwt-bearer (KIP-1139). PyJWT, which the extra
``oauth`` installs, signs the assertions. All calls may block; one token takes at most
`time_limit.FETCH_S`.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

from kafka_native.security.http_request import Answer, HttpClient, Url
from kafka_native.security.mechanisms import SaslError, shown
from kafka_native.security.oauthbearer import Token
from kafka_native.security.redaction import Secrets

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ENDPOINT_PROPERTY = "sasl.oauthbearer.token.endpoint.url"
FILE_MAX_BYTES = 1 << 20
PYJWT_MISSING_TEXT = "OpenID Connect needs PyJWT: pip install 'kafka-native[oauth]'"
PARAMETER_MIN = 8
PUBLIC_PARAMETERS = (
    "api-version",
    "resource",
    "client_id",
    "object_id",
    "principal_id",
    "mi_res_id",
    "msi_res_id",
)
"""Parameters of a URL's query that aren't redacted: Azure's, which help in its errors."""


def https_context(ca_location: str, ca_pem: str) -> ssl.SSLContext:
    """Return a context that verifies with these authorities, or with the system's by default.

    :raises SaslError: The authorities can't be read.
    """
    try:
        if ca_pem:
            return ssl.create_default_context(cadata=ca_pem)
        if ca_location and ca_location != "probe":
            return _context_of(ca_location)
        return _system_context()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        what = "https.ca.pem" if ca_pem else f"https.ca.location {ca_location}"
        raise SaslError(f"{what} can't be read: {error}") from None


def _context_of(path: str) -> ssl.SSLContext:
    """Return a context with the authorities of a file, or of a directory in OpenSSL's form or not.

    OSError or ValueError: there are none.
    """
    from kafka_native.security.authorities import files_of

    if not os.path.isdir(path):
        return ssl.create_default_context(cafile=path)
    context, names = ssl.create_default_context(capath=path), files_of(path)
    for name in names or ():
        with suppress(ssl.SSLError):  # A file with another content
            context.load_verify_locations(os.path.join(path, name))
    if names is not None and not context.cert_store_stats()["x509"]:
        raise ValueError("no certificate in PEM form in this directory")
    return context


def _system_context() -> ssl.SSLContext:
    """Return a context with the system's authorities.

    Python's OpenSSL may have been built for other places than those of this system.
    """
    context = ssl.create_default_context()
    if context.cert_store_stats()["x509"]:
        return context
    from kafka_native.security.authorities import files_of, places

    capath = ssl.get_default_verify_paths().capath
    with suppress(OSError):
        if capath and files_of(capath) is None:  # OpenSSL reads them when it needs them
            return context
    for place in filter(os.path.exists, places()):
        with suppress(OSError, ValueError):
            return _context_of(place)
    return context


class Provider:
    """The token endpoint of an OpenID Connect provider or of a cloud."""

    def __init__(
        self,
        url: str,
        make_context: Callable[[], ssl.SSLContext],
        subject_claim: str,
        extensions: Mapping[str, str],
    ) -> None:
        """Make the endpoint. Raise SaslError if the URL is invalid or PyJWT is missing.

        :param make_context: Returns a context that verifies the endpoint, or raises SaslError.
        """
        try:
            import jwt  # noqa: F401 - for claims_of()
        except ImportError:
            raise SaslError(PYJWT_MISSING_TEXT) from None
        found = Url(ENDPOINT_PROPERTY, url)
        hidden = (
            value
            for name, value in found.parameters
            if len(value) >= PARAMETER_MIN and name.lower() not in PUBLIC_PARAMETERS
        )
        self.secrets = Secrets(hidden)
        """The secrets that errors must not show. Callers add the secrets that they send."""
        self.remarks = (
            [readable_by_others(ENDPOINT_PROPERTY, found)] if found.is_readable_by_others else []
        )
        self._url = found
        self._subject_claim = subject_claim
        self._extensions = extensions
        make_context()  # Reports errors of the authorities now
        self._http = HttpClient(found, make_context)

    def ask(self, fields: Mapping[str, str], authorization: str | None, now: float) -> Token:
        """Post a form and return the token.

        Raise SaslError with the provider's text if it refuses.
        """
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if authorization is not None:
            headers["Authorization"] = authorization
        body = urlencode({name: value for name, value in fields.items() if value}).encode()
        return self._call("POST", body, headers, now)

    def get(self, headers: Mapping[str, str], now: float) -> Token:
        """Send a GET request and return the token. It raises as `ask()`."""
        return self._call("GET", None, headers, now)

    def _call(
        self, method: str, body: bytes | None, headers: Mapping[str, str], now: float
    ) -> Token:
        answer = self._answer(method, body, {"Accept": "application/json", **headers})
        try:
            fields = json.loads(answer.body)
        except (ValueError, RecursionError):
            fields = None
        if answer.status != 200 or not isinstance(fields, dict):
            raise SaslError(f"{self._url.shown} answers {answer.status}{self._reason(fields)}")
        return self._token(fields, now)

    def _answer(self, method: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        try:
            return self._http.request(method, body, headers)
        except (http.client.BadStatusLine, http.client.UnknownProtocol):
            # The first line isn't shown, because it may be the token itself
            text = "its answer isn't HTTP"
        except (
            OSError,
            ValueError,
            http.client.HTTPException,
            SaslError,
        ) as error:
            text = shown(str(error), self.secrets) or type(error).__name__
        # Outside of the except block, because the text of a chained exception isn't redacted.
        raise SaslError(f"{self._url.shown}: {text}")

    def _token(self, fields: Mapping[str, object], now: float) -> Token:
        value = fields.get("access_token")
        if not isinstance(value, str):
            raise SaslError(f"{self._url.shown} answers without an access_token")
        principal, expires = claims_of(value, self._subject_claim)
        lifetime = _seconds(fields.get("expires_in"))
        if expires is None:
            if lifetime is None:
                raise SaslError(
                    f"{self._url.shown}: the token doesn't say when it expires: no exp, no "
                    "expires_in"
                )
            expires = now + lifetime
        return Token(value, expires, principal, self._extensions)

    def _reason(self, fields: object) -> str:
        if not isinstance(fields, dict):
            return ""
        words = [str(fields[name]) for name in ("error", "error_description") if fields.get(name)]
        return f": {shown(', '.join(words), self.secrets)}" if words else ""


def readable_by_others(name: str, url: Url) -> str:
    """Return the warning about a URL without TLS."""
    return (
        f"{name} is {url.shown}, without TLS: anyone who can read the network traffic sees the "
        "login and the token"
    )


def claims_of(token: str, subject_claim: str) -> tuple[str, float | None]:
    """Return a token's subject and expiry time.

    Without these claims, the subject is empty and the expiry time is None. Brokers ignore the
    fractions of a second in the expiry time, so this function does, too.
    """
    try:
        import jwt
    except ImportError:
        return "", None
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
    except (jwt.exceptions.PyJWTError, ValueError, RecursionError):
        claims = {}
    subject = claims.get(subject_claim)
    expires = _seconds(claims.get("exp"))
    return subject if isinstance(subject, str) else "", None if expires is None else float(
        int(expires)
    )


def _seconds(value: object) -> float | None:
    """Return a valid time or duration, else None. Some providers send it as a text."""
    try:
        seconds = float(value) if isinstance(value, (str, int, float)) else -1.0
    except (ValueError, OverflowError):
        return None
    return seconds if 0 < seconds < 1e12 else None


def client_credentials(
    provider: Provider,
    client_id: str,
    client_secret: str,
    scope: str,
    clock: Callable[[], float] = time.time,
) -> Callable[[], Token]:
    """Return a source of tokens for the grant client_credentials."""
    login = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
    provider.secrets.keep(client_secret, f"{client_id}:{client_secret}")
    fields = {"grant_type": "client_credentials", "scope": scope}
    return lambda: provider.ask(fields, f"Basic {login}", clock())


def jwt_bearer(
    provider: Provider,
    assertion: Callable[[float], str],
    scope: str,
    clock: Callable[[], float] = time.time,
) -> Callable[[], Token]:
    """Return a source of tokens for the grant jwt-bearer."""

    def source() -> Token:
        now = clock()
        signed = assertion(now)
        provider.secrets.add(signed)
        fields = {"grant_type": JWT_BEARER, "assertion": signed, "scope": scope}
        return provider.ask(fields, None, now)

    return source


def read(path: str, name: str) -> str:
    """Return the text of a file that a property names.

    Callers read it each time, because the file may be rotated.

    :raises SaslError: The file can't be read.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_MAX_BYTES + 1)
    except OSError as error:
        raise SaslError(f"{name} {path}: {error.strerror}") from None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise SaslError(f"{name} {path} isn't a text") from None
    if len(content) > FILE_MAX_BYTES:
        raise SaslError(f"{name} {path} has more than {FILE_MAX_BYTES} bytes")
    return text


class Assertion:
    """Makes a signed assertion (a JWT) at each call."""

    def __init__(
        self,
        *,
        algorithm: str,
        key: Callable[[], str],
        passphrase: str,
        claims: Mapping[str, str],
        expires_s: int,
        not_before_s: int,
        with_id: bool,
        template: Callable[[], str] | None,
    ) -> None:
        """Make an object that signs assertions.

        :param key: Returns the private key in PEM form.
        :param template: Returns JSON with a ``header`` and a ``payload``. The claims override it.
        """
        self._algorithm = algorithm
        self._key = key
        self._passphrase = passphrase
        self._claims = {name: value for name, value in claims.items() if value}
        self._expires_s = expires_s
        self._not_before_s = not_before_s
        self._with_id = with_id
        self._template = template

    def __call__(self, now: float) -> str:
        """Return the assertion for this time.

        Raise SaslError if the key or the template is invalid.
        """
        import jwt
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        template = {} if self._template is None else _template(self._template())
        payload = {
            **template.get("payload", {}),
            **self._claims,
            "iat": int(now),
            "exp": int(now) + self._expires_s,
            "nbf": int(now) - self._not_before_s,
            **({"jti": str(uuid.uuid4())} if self._with_id else {}),
        }
        try:
            password = self._passphrase.encode() or None
            key = load_pem_private_key(self._key().encode(), password)
            return jwt.encode(payload, key, self._algorithm, headers=template.get("header"))  # type: ignore[arg-type]
        except (ValueError, TypeError, jwt.exceptions.PyJWTError) as error:
            reason = (
                "wrong or missing passphrase, or no key"
                if isinstance(error, ValueError)
                else type(error).__name__
            )
            raise SaslError(
                f"the assertion can't be signed with {self._algorithm}: {reason}"
            ) from None


def _template(text: str) -> dict[str, dict[str, object]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(
        isinstance(found.get(part, {}), dict) for part in ("header", "payload")
    ):
        raise SaslError(
            "sasl.oauthbearer.assertion.jwt.template.file isn't JSON with a header and a payload"
        )
    return found
