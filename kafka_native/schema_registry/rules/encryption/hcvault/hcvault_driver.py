"""The driver for keys of HashiCorp Vault: ``hcvault://`` and a URL. It needs httpx2.

A URL is ``hcvault://https://vault.example.com:8200/transit/keys/my-key``.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.encryption.bound_client import (
    BoundKmsClient,
    key_of,
    setting,
)
from kafka_native.schema_registry.rules.encryption.kms_driver_registry import (
    KmsClient,
    KmsDriver,
)
from kafka_native.schema_registry.transports import is_header_value

__all__ = ["HcVaultKmsDriver"]

PREFIX = "hcvault://"
TIMEOUT_S = 30.0
OK = 200
FORBIDDEN = 403


class _Vault:
    """Requests to one Vault. The representation has no token."""

    def __init__(self, client: Any, token: str | None, login: dict[str, str] | None) -> None:
        self._client = client
        self._token = token
        self._login = login

    def call(self, path: str, body: dict[str, str]) -> dict[str, Any]:
        """Return the data of an answer. A refused token of an AppRole is renewed once."""
        if self._login is not None and self._token is None:
            self._log_in()
        answer = self._post(path, body)
        if answer.status_code == FORBIDDEN and self._login is not None:
            self._log_in()
            answer = self._post(path, body)
        return dict(_checked(answer, path)["data"])

    def _log_in(self) -> None:
        path = "auth/approle/login"
        answer = self._client.post(path, json=self._login)
        self._token = str(_checked(answer, path)["auth"]["client_token"])

    def _post(self, path: str, body: dict[str, str]) -> Any:
        if self._token and not is_header_value(self._token):
            raise RuleError(
                "the token of Vault has a line end, a space at an end, or another character that "
                "HTTP doesn't allow"
            )
        headers = {"X-Vault-Token": self._token} if self._token else {}
        return self._client.post(path, json=body, headers=headers)


def _checked(answer: Any, path: str) -> Any:
    if answer.status_code != OK:
        raise RuleError(f"Vault answered {path} with the HTTP status {answer.status_code}")
    return answer.json()


class _VaultAead:
    def __init__(self, vault: _Vault, mount: str, key: str) -> None:
        self._vault = vault
        self._mount = mount
        self._key = key

    def encrypt(self, plaintext: bytes, associated_data: bytes) -> bytes:
        _refuse(associated_data)
        body = {"plaintext": base64.b64encode(plaintext).decode()}
        answer = self._vault.call(f"{self._mount}/encrypt/{self._key}", body)
        return str(answer["ciphertext"]).encode()

    def decrypt(self, ciphertext: bytes, associated_data: bytes) -> bytes:
        _refuse(associated_data)
        body = {"ciphertext": ciphertext.decode("ascii")}
        answer = self._vault.call(f"{self._mount}/decrypt/{self._key}", body)
        return base64.b64decode(answer["plaintext"])


def _refuse(associated_data: bytes) -> None:
    if associated_data:
        raise RuleError("keys of Vault take no associated data")


class HcVaultKmsDriver(KmsDriver):
    """Serves ``hcvault://`` with a token or an AppRole of ``rule_conf`` or the environment.

    ``rule_conf`` may have ``token.id``, or ``approle.role.id`` and ``approle.secret.id``, and
    ``namespace``. ``ssl.ca.location``, ``ssl.certificate.location`` and ``ssl.key.location`` belong
    to TLS. The environment variables are those of Vault: ``VAULT_TOKEN``, ``VAULT_NAMESPACE``,
    ``VAULT_APPROLE_ROLE_ID``, ``VAULT_APPROLE_SECRET_ID``, ``VAULT_CACERT``,
    ``VAULT_CLIENT_CERT`` and ``VAULT_CLIENT_KEY``.
    """

    def get_key_url_prefix(self) -> str:
        """Return the prefix ``hcvault://``."""
        return PREFIX

    def new_kms_client(self, conf: Mapping[str, Any], key_url: str | None) -> KmsClient:
        """Return a client for a key.

        Parameters
        ----------
        conf : Mapping[str, Any]
            The credentials.
        key_url : str, optional
            ``hcvault://``, the address of Vault, the mount, ``/keys/`` and the name of the key.

        Raises
        ------
        RuleError
            The URL has another form.
        ValueError
            There is a key for TLS without its certificate.
        ImportError
            httpx2 is not installed.
        """
        address = key_of(PREFIX, key_url)
        parts = urlsplit(address)
        mount, separator, key = parts.path.strip("/").rpartition("/keys/")
        if parts.scheme not in ("http", "https") or not (separator and mount and key):
            raise RuleError(f"the key {key_url} is not hcvault://https://host/mount/keys/name")
        base = f"{parts.scheme}://{parts.netloc}/v1/"
        role = setting(conf, "approle.role.id", "VAULT_APPROLE_ROLE_ID")
        secret = setting(conf, "approle.secret.id", "VAULT_APPROLE_SECRET_ID")
        login = {"role_id": role, "secret_id": secret} if role and secret else None
        token = None if login else setting(conf, "token.id", "VAULT_TOKEN")
        vault = _Vault(_http_client(conf, base), token, login)
        return BoundKmsClient(str(key_url), _VaultAead(vault, quote(mount), quote(key, safe="")))


def _http_client(conf: Mapping[str, Any], base: str) -> Any:
    try:
        import httpx2
    except ImportError as missing:
        raise ImportError(
            "keys of Vault need httpx2: pip install 'kafka-native[encryption]'"
        ) from missing
    context = ssl.create_default_context(cafile=setting(conf, "ssl.ca.location", "VAULT_CACERT"))
    certificate = setting(conf, "ssl.certificate.location", "VAULT_CLIENT_CERT")
    key = setting(conf, "ssl.key.location", "VAULT_CLIENT_KEY")
    if key and not certificate:
        raise ValueError("ssl.key.location needs ssl.certificate.location")
    if certificate:
        context.load_cert_chain(certificate, key)
    namespace = setting(conf, "namespace", "VAULT_NAMESPACE")
    headers = {"X-Vault-Namespace": namespace} if namespace else {}
    return httpx2.Client(base_url=base, headers=headers, verify=context, timeout=TIMEOUT_S)
