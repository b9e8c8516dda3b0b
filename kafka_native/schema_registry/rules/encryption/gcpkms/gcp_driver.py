"""The driver for keys of Google Cloud KMS: ``gcp-kms://`` and the key's name.

It needs google-cloud-kms.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.encryption.bound_client import BoundKmsClient, key_of
from kafka_native.schema_registry.rules.encryption.kms_driver_registry import (
    KmsClient,
    KmsDriver,
)

__all__ = ["GcpKmsDriver"]

PREFIX = "gcp-kms://"
ACCOUNT_TYPE = "service_account"
TOKEN_URI = "https://oauth2.googleapis.com/token"
CREDENTIALS = ("client.id", "client.email", "private.key.id", "private.key")


class _GcpAead:
    def __init__(self, client: Any, key: str) -> None:
        self._client = client
        self._key = key

    def encrypt(self, plaintext: bytes, associated_data: bytes) -> bytes:
        request = {"plaintext": plaintext, **self._with(associated_data)}
        return bytes(self._client.encrypt(request=request).ciphertext)

    def decrypt(self, ciphertext: bytes, associated_data: bytes) -> bytes:
        request = {"ciphertext": ciphertext, **self._with(associated_data)}
        return bytes(self._client.decrypt(request=request).plaintext)

    def _with(self, associated_data: bytes) -> dict[str, Any]:
        return {"name": self._key, "additional_authenticated_data": associated_data}


class GcpKmsDriver(KmsDriver):
    """Serves ``gcp-kms://`` with a service account, or with the machine's own credentials.

    A service account has ``client.id``, ``client.email``, ``private.key.id`` and ``private.key`` in
    ``rule_conf``, and perhaps ``token.uri``.
    """

    def get_key_url_prefix(self) -> str:
        """Return the prefix ``gcp-kms://``."""
        return PREFIX

    def new_kms_client(self, conf: Mapping[str, Any], key_url: str | None) -> KmsClient:
        """Return a client for a key.

        Parameters
        ----------
        conf : Mapping[str, Any]
            The credentials.
        key_url : str, optional
            ``gcp-kms://`` and the name: ``projects/.../cryptoKeys/...``.

        Raises
        ------
        RuleError
            The URL has no key, or ``account.type`` is not ``service_account``.
        ImportError
            google-cloud-kms is not installed.
        """
        key = key_of(PREFIX, key_url)
        if conf.get("account.type", ACCOUNT_TYPE) != ACCOUNT_TYPE:
            raise RuleError(f"account.type has to be {ACCOUNT_TYPE}")
        try:
            kms = importlib.import_module("google.cloud.kms_v1")
            accounts = importlib.import_module("google.oauth2.service_account")
        except ImportError as missing:
            raise ImportError(
                "keys of Google Cloud need google-cloud-kms: pip install google-cloud-kms"
            ) from missing
        credentials = None
        if all(conf.get(name) is not None for name in CREDENTIALS):
            info = {name.replace(".", "_"): conf[name] for name in CREDENTIALS}
            info |= {"type": ACCOUNT_TYPE, "token_uri": conf.get("token.uri", TOKEN_URI)}
            credentials = accounts.Credentials.from_service_account_info(info)
        client = kms.KeyManagementServiceClient(credentials=credentials)
        return BoundKmsClient(str(key_url), _GcpAead(client, key))
