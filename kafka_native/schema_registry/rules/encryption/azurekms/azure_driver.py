"""The driver for keys of Azure Key Vault: ``azure-kms://`` and the key's URL.

It needs azure-identity and azure-keyvault-keys. Azure's ciphertexts don't name the version of the
key. With ``encrypt.azure.key.version.save``, a ciphertext begins with ``azure:v1:`` and the
version, so that it stays readable after the key was rotated.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any

from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.encryption.bound_client import BoundKmsClient, key_of
from kafka_native.schema_registry.rules.encryption.kms_driver_registry import (
    KmsClient,
    KmsDriver,
)

__all__ = ["AzureKmsDriver"]

PREFIX = "azure-kms://"
SAVE_VERSION = "encrypt.azure.key.version.save"
KEY_URL = re.compile(r"(https?://[^/]+)/+keys/+([^/]+)(?:/+([^/]+))?/*\Z")
WITH_VERSION = re.compile(rb"azure:v1:([0-9a-fA-F]{32}):")
VERSION = re.compile(r"[0-9a-fA-F]{32}\Z")
CREDENTIALS = ("tenant.id", "client.id", "client.secret")


class _AzureAead:
    def __init__(self, crypto: Any, keys: Any, credential: Any, key: str, saves: bool) -> None:
        match = KEY_URL.match(key)
        if match is None:
            raise RuleError(f"the key {key} is not https://vault/keys/name or .../name/version")
        self._vault, self._name, self._version = match.groups()
        self._crypto = crypto
        self._keys = keys
        self._credential = credential
        self._key = key
        self._saves = saves

    def encrypt(self, plaintext: bytes, associated_data: bytes) -> bytes:
        if not self._saves:
            return self._encrypted(self._key, plaintext)
        version = self._version or self._latest()
        if not VERSION.match(version):
            raise RuleError(f"the version {version} of the key {self._key} has no 32 hex digits")
        return b"azure:v1:%s:%s" % (
            version.encode(),
            self._encrypted(self._url(version), plaintext),
        )

    def decrypt(self, ciphertext: bytes, associated_data: bytes) -> bytes:
        key = self._key
        if (match := WITH_VERSION.match(ciphertext)) is not None:
            key, ciphertext = self._url(match.group(1).decode()), ciphertext[match.end() :]
        client = self._crypto.CryptographyClient(key, self._credential)
        algorithm = self._crypto.EncryptionAlgorithm.rsa_oaep_256
        return bytes(client.decrypt(algorithm, ciphertext).plaintext)

    def _encrypted(self, key: str, plaintext: bytes) -> bytes:
        client = self._crypto.CryptographyClient(key, self._credential)
        algorithm = self._crypto.EncryptionAlgorithm.rsa_oaep_256
        return bytes(client.encrypt(algorithm, plaintext).ciphertext)

    def _url(self, version: str) -> str:
        return f"{self._vault}/keys/{self._name}/{version}"

    def _latest(self) -> str:
        client = self._keys.KeyClient(vault_url=self._vault, credential=self._credential)
        return str(client.get_key(self._name).id).rpartition("/")[2]


class AzureKmsDriver(KmsDriver):
    """Serves ``azure-kms://`` with a client secret, or with Azure's default credentials.

    A client secret has ``tenant.id``, ``client.id`` and ``client.secret`` in ``rule_conf``.
    """

    def get_key_url_prefix(self) -> str:
        """Return the prefix ``azure-kms://``."""
        return PREFIX

    def new_kms_client(self, conf: Mapping[str, Any], key_url: str | None) -> KmsClient:
        """Return a client for a key.

        Parameters
        ----------
        conf : Mapping[str, Any]
            The credentials.
        key_url : str, optional
            ``azure-kms://`` and ``https://vault/keys/name``, with or without ``/version``.

        Raises
        ------
        RuleError
            The URL has another form.
        ImportError
            azure-identity or azure-keyvault-keys is not installed.
        """
        key = key_of(PREFIX, key_url)
        try:
            identity = importlib.import_module("azure.identity")
            keys = importlib.import_module("azure.keyvault.keys")
            crypto = importlib.import_module("azure.keyvault.keys.crypto")
        except ImportError as missing:
            raise ImportError(
                "keys of Azure need its packages: pip install azure-identity azure-keyvault-keys"
            ) from missing
        values = [conf.get(name) for name in CREDENTIALS]
        credential = (
            identity.DefaultAzureCredential()
            if None in values
            else identity.ClientSecretCredential(*values)
        )
        saves = str(conf.get(SAVE_VERSION, False)).lower() == "true"
        return BoundKmsClient(str(key_url), _AzureAead(crypto, keys, credential, key, saves))
