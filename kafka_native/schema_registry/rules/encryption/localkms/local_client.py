"""The client of the local key management service: one key, derived from a secret."""

from __future__ import annotations

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from kafka_native.schema_registry.rules.encryption.ciphers import AesGcm
from kafka_native.schema_registry.rules.encryption.kms_driver_registry import Aead

__all__ = ["LocalKmsClient"]

PREFIX = "local-kms://"
KEY_BYTES = 16


class LocalKmsClient:
    """Encrypts with AES-128-GCM. HKDF with SHA-256 derives the key from the secret."""

    def __init__(self, secret: str) -> None:
        if secret is None:
            raise TypeError("secret has to be a str, not None")
        derivation = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=b"")
        self._aead = AesGcm(derivation.derive(secret.encode()))

    def does_support(self, key_uri: str) -> bool:
        """Return whether the URL begins with ``local-kms://``.

        Parameters
        ----------
        key_uri : str
            The key URL.
        """
        return key_uri.startswith(PREFIX)

    def get_aead(self, key_uri: str) -> Aead:
        """Return the object that encrypts with the secret. All keys are the same.

        Parameters
        ----------
        key_uri : str
            The key URL.
        """
        return self._aead
