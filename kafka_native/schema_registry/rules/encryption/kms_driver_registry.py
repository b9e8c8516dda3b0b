"""The interface of key management services, and the list of registered drivers.

A driver makes clients for the key URLs with its prefix, such as ``aws-kms://``. The interface has
the shape of Tink's ``KmsClient`` and ``Aead``, so clients that use Tink fit without changes.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from kafka_native.schema_registry.rules._interface import RuleError

__all__ = [
    "Aead",
    "KmsClient",
    "KmsDriver",
    "get_kms_driver",
    "register_kms_driver",
    "reset_kms_drivers",
]


class Aead(Protocol):
    """Encrypts and decrypts with one key of a key management service."""

    def encrypt(self, plaintext: bytes, associated_data: bytes) -> bytes:
        """Return the ciphertext.

        Parameters
        ----------
        plaintext : bytes
            The data to encrypt.
        associated_data : bytes
            Data that is authenticated but not part of the ciphertext. It is empty for DEKs.
        """
        ...

    def decrypt(self, ciphertext: bytes, associated_data: bytes) -> bytes:
        """Return the plaintext.

        Parameters
        ----------
        ciphertext : bytes
            The result of ``encrypt()``.
        associated_data : bytes
            The same as in ``encrypt()``.
        """
        ...


class KmsClient(Protocol):
    """A client of a key management service."""

    def does_support(self, key_uri: str) -> bool:
        """Return whether this client has access to the key.

        Parameters
        ----------
        key_uri : str
            The key URL, such as ``local-kms://my-key``.
        """
        ...

    def get_aead(self, key_uri: str) -> Aead:
        """Return the object that encrypts with a key.

        Parameters
        ----------
        key_uri : str
            The key URL.
        """
        ...


class KmsDriver(abc.ABC):
    """Makes clients of one kind of key management service."""

    @abc.abstractmethod
    def get_key_url_prefix(self) -> str:
        """Return the prefix of this driver's key URLs, such as ``local-kms://``."""

    @abc.abstractmethod
    def new_kms_client(self, conf: Mapping[str, Any], key_url: str | None) -> KmsClient:
        """Return a client for a key.

        Parameters
        ----------
        conf : Mapping[str, Any]
            The ``rule_conf`` of the serializer, and the properties of the KEK.
        key_url : str, optional
            The key URL.
        """

    @classmethod
    def register(cls) -> None:
        """Add a driver for all encryption executors of this process."""
        register_kms_driver(cls())


_drivers: list[KmsDriver] = []
_lock = threading.Lock()


def register_kms_driver(driver: KmsDriver) -> None:
    """Add a driver for all encryption executors of this process.

    Parameters
    ----------
    driver : KmsDriver
        The driver. The first registered driver whose prefix fits serves a key.
    """
    with _lock:
        _drivers.append(driver)


def get_kms_driver(key_url: str) -> KmsDriver:
    """Return the driver of a key.

    Parameters
    ----------
    key_url : str
        The key URL.

    Raises
    ------
    RuleError
        No registered driver has a prefix that fits.
    """
    with _lock:
        for driver in _drivers:
            if key_url.startswith(driver.get_key_url_prefix()):
                return driver
    raise RuleError(f"no registered KMS driver serves the key {key_url}")


def reset_kms_drivers() -> None:
    """Remove all drivers. Tests use this."""
    with _lock:
        _drivers.clear()
