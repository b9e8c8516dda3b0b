"""A client of a key management service that has access to one key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from kafka_native.schema_registry.rules._interface import RuleError
from kafka_native.schema_registry.rules.encryption.kms_driver_registry import Aead


class BoundKmsClient:
    """Returns the object that encrypts with one key.

    Parameters
    ----------
    key_uri : str
        The key URL.
    aead : Aead
        The object.
    """

    def __init__(self, key_uri: str, aead: Aead) -> None:
        self._key_uri = key_uri
        self._aead = aead

    def does_support(self, key_uri: str) -> bool:
        """Return whether the URL is the one of this client's key.

        Parameters
        ----------
        key_uri : str
            The key URL.
        """
        return key_uri == self._key_uri

    def get_aead(self, key_uri: str) -> Aead:
        """Return the object that encrypts with the key.

        Parameters
        ----------
        key_uri : str
            The key URL.

        Raises
        ------
        RuleError
            The URL is that of another key.
        """
        if not self.does_support(key_uri):
            raise RuleError(f"the client of {self._key_uri} can't use the key {key_uri}")
        return self._aead


def key_of(prefix: str, key_url: str | None) -> str:
    """Return a key URL without its prefix, or raise RuleError."""
    key = (key_url or "").removeprefix(prefix)
    if not key or key == key_url:
        raise RuleError(f"a key URL has to begin with {prefix} and the id of a key: {key_url}")
    return key


def setting(conf: Mapping[str, Any], name: str, variable: str) -> Any:
    """Return a property, else an environment variable, else None. Empty text is None."""
    value = conf.get(name)
    return (os.environ.get(variable) if value is None else value) or None
