"""The driver for keys of AWS KMS: ``aws-kms://`` and the key's ARN. It needs botocore."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import Any

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

__all__ = ["AwsKmsDriver"]

PREFIX = "aws-kms://"
ARN_PARTS_MIN = 6


class _AwsAead:
    def __init__(self, client: Any, key: str) -> None:
        self._client = client
        self._key = key

    def encrypt(self, plaintext: bytes, associated_data: bytes) -> bytes:
        context = _context(associated_data)
        answer = self._client.encrypt(
            KeyId=self._key, Plaintext=plaintext, EncryptionContext=context
        )
        return bytes(answer["CiphertextBlob"])

    def decrypt(self, ciphertext: bytes, associated_data: bytes) -> bytes:
        context = _context(associated_data)
        answer = self._client.decrypt(
            KeyId=self._key, CiphertextBlob=ciphertext, EncryptionContext=context
        )
        return bytes(answer["Plaintext"])


def _context(associated_data: bytes) -> dict[str, str]:
    return {"associatedData": associated_data.hex()} if associated_data else {}


class AwsKmsDriver(KmsDriver):
    """Serves ``aws-kms://`` with the credentials of ``rule_conf`` or of botocore's chain.

    ``rule_conf`` may have ``access.key.id`` and ``secret.access.key``, or ``profile``. With
    ``role.arn``, the client takes a role; ``role.session.name`` and ``role.external.id`` belong to
    it.
    """

    def get_key_url_prefix(self) -> str:
        """Return the prefix ``aws-kms://``."""
        return PREFIX

    def new_kms_client(self, conf: Mapping[str, Any], key_url: str | None) -> KmsClient:
        """Return a client for a key.

        Parameters
        ----------
        conf : Mapping[str, Any]
            The credentials.
        key_url : str, optional
            ``aws-kms://`` and the ARN of the key.

        Raises
        ------
        RuleError
            The URL has no ARN.
        ImportError
            botocore is not installed.
        """
        key = key_of(PREFIX, key_url)
        parts = key.split(":")
        if len(parts) < ARN_PARTS_MIN:
            raise RuleError(f"the key {key_url} has no ARN like arn:aws:kms:region:account:key/id")
        client = _session(conf, parts[3]).create_client("kms", region_name=parts[3])
        return BoundKmsClient(str(key_url), _AwsAead(client, key))


def _session(conf: Mapping[str, Any], region: str) -> Any:
    try:
        credentials = importlib.import_module("botocore.credentials")
        session_class = importlib.import_module("botocore.session").Session
    except ImportError as missing:
        raise ImportError(
            "keys of AWS KMS need botocore: pip install 'kafka-native[aws]'"
        ) from missing
    session = session_class(profile=conf.get("profile"))
    key, secret = conf.get("access.key.id"), conf.get("secret.access.key")
    if key and secret:
        session.set_credentials(key, secret)
    role = setting(conf, "role.arn", "AWS_ROLE_ARN")
    # With AWS_WEB_IDENTITY_TOKEN_FILE, botocore itself takes the role.
    if role is None or os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return session
    name = setting(conf, "role.session.name", "AWS_ROLE_SESSION_NAME")
    external_id = setting(conf, "role.external.id", "AWS_ROLE_EXTERNAL_ID")
    params = {"RoleArn": role, "RoleSessionName": name or "kafka-native"}
    if external_id is not None:
        params["ExternalId"] = external_id
    sts = session.create_client("sts", region_name=region)
    refresh = credentials.create_assume_role_refresher(sts, params)
    in_role = session_class()
    # botocore has no public way to set credentials that expire.
    in_role._credentials = credentials.DeferredRefreshableCredentials(refresh, "sts-assume-role")
    return in_role
