"""The driver of the local key management service."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.encryption.kms_driver_registry import (
    KmsClient,
    KmsDriver,
)
from kafka_native.schema_registry.rules.encryption.localkms.local_client import (
    PREFIX,
    LocalKmsClient,
)

__all__ = ["LocalKmsDriver"]


class LocalKmsDriver(KmsDriver):
    """Serves ``local-kms://`` with a secret from ``rule_conf`` or the environment."""

    def get_key_url_prefix(self) -> str:
        """Return the prefix ``local-kms://``."""
        return PREFIX

    def new_kms_client(self, conf: Mapping[str, Any], key_url: str | None) -> KmsClient:
        """Return a client for the secret.

        Parameters
        ----------
        conf : Mapping[str, Any]
            It has the ``secret``. Without one, the environment variable ``LOCAL_SECRET`` counts.
        key_url : str, optional
            The key URL. It doesn't change the key.

        Raises
        ------
        RuleError
            There is no secret.
        """
        secret = conf.get("secret")
        if secret is None:
            secret = os.environ.get("LOCAL_SECRET")
        if secret is None:
            raise RuleError(
                "local-kms needs 'secret' in rule_conf, or the environment's LOCAL_SECRET"
            )
        return LocalKmsClient(secret)
