"""A local OpenID Connect provider over HTTPS: keys for brokers, and tokens for known clients."""

from __future__ import annotations

import base64
import json
import ssl
import time
import uuid
from pathlib import Path
from typing import Any

import jwt
import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.security.token_endpoint import Asked, TokenEndpoint

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ID, SECRET = "service", "s3cret-of-a-service"
AUDIENCE = "kafka"
ELSEWHERE = "elsewhere"
"""A scope whose tokens are for another audience."""

Answer = tuple[int, dict[str, Any]]


class IdentityProvider(TokenEndpoint):
    """A context manager. ``folder`` gets ``ca.pem``, which clients and brokers trust."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self.ca = str(folder / "ca.pem")
        authority.cert_pem.write_to_path(self.ca)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self._key = rsa.generate_private_key(65537, 2048)
        self._key_id = uuid.uuid4().hex
        self._assertion_key = rsa.generate_private_key(65537, 2048)
        self.lifetime_s = 300.0
        super().__init__(self._answer, context)
        self.issuer = f"https://127.0.0.1:{self.port}"
        self.keys_url = f"{self.issuer}/keys"

    def assertion_key(self) -> str:
        """Return the key with which a client signs its assertions, in PEM form."""
        return self._assertion_key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ).decode()

    def issued(self, grant: str) -> int:
        """Return how many tokens were requested with this grant."""
        return sum(asked.form.get("grant_type") == grant for asked in self.asked)

    def token(self, **claims: Any) -> str:
        """Return a token for Kafka. ``claims`` replace the right ones."""
        now = time.time()
        said: dict[str, Any] = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": CLIENT_ID,
            "iat": now,
            "exp": now + self.lifetime_s,
            "scope": "messages",
        }
        return jwt.encode({**said, **claims}, self._key, "RS256", headers={"kid": self._key_id})

    def _answer(self, asked: Asked) -> Answer:
        if asked.path == "/keys":
            key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
            return 200, {"keys": [{**key, "kid": self._key_id, "alg": "RS256", "use": "sig"}]}
        grant = asked.form.get("grant_type")
        if grant == "client_credentials":
            return self._of_secret(asked)
        return (
            self._of_assertion(asked)
            if grant == JWT_BEARER
            else (400, {"error": "unsupported_grant_type"})
        )

    def _of_secret(self, asked: Asked) -> Answer:
        kind, _, login = asked.headers.get("Authorization", "").partition(" ")
        if kind != "Basic" or base64.b64decode(login) != f"{CLIENT_ID}:{SECRET}".encode():
            return 401, {
                "error": "invalid_client",
                "error_description": "no client of this name with this secret",
            }
        return self._issued(asked, CLIENT_ID)

    def _of_assertion(self, asked: Asked) -> Answer:
        try:
            claims = jwt.decode(
                asked.form["assertion"],
                self._assertion_key.public_key(),
                ["RS256"],
                audience=self.issuer,
            )
        except (KeyError, jwt.exceptions.PyJWTError) as error:
            return 400, {"error": "invalid_grant", "error_description": type(error).__name__}
        return self._issued(asked, claims["sub"])

    def _issued(self, asked: Asked, subject: str) -> Answer:
        scope = asked.form.get("scope", "messages")  # Kafka requires one
        token = self.token(
            sub=subject, scope=scope, aud=ELSEWHERE if scope == ELSEWHERE else AUDIENCE
        )
        return 200, {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": int(self.lifetime_s),
        }
