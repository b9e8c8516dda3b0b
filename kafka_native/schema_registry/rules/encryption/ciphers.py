"""AES-GCM and AES-SIV with the key and ciphertext formats of Tink.

A data encryption key is a serialized Protobuf message of Tink, ``AesGcmKey`` or ``AesSivKey``.
A ciphertext is raw: it has no prefix with a key id. AES-GCM writes 12 bytes of nonce, the
ciphertext and 16 bytes of tag. AES-SIV writes 16 bytes of synthetic nonce and the ciphertext.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

from kafka_native.schema_registry.rules._interface import RuleError

NONCE_BYTES = 12
TAG_BYTES = 16
SIV_BYTES = 16
GCM_KEY_FIELD = 3
SIV_KEY_FIELD = 2
VERSION_FIELD = 1
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
MODIFIED = "the ciphertext was made with another key, or it was changed"


class AesGcm:
    """AES-GCM with a random nonce for each ciphertext."""

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def encrypt(self, plaintext: bytes, associated_data: bytes) -> bytes:
        """Return nonce, ciphertext and tag."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plaintext, associated_data)

    def decrypt(self, ciphertext: bytes, associated_data: bytes) -> bytes:
        """Return the plaintext, or raise RuleError."""
        if len(ciphertext) < NONCE_BYTES + TAG_BYTES:
            raise RuleError(f"a ciphertext of {len(ciphertext)} bytes is too short for AES-GCM")
        nonce, rest = ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, rest, associated_data)
        except InvalidTag:
            raise RuleError(MODIFIED) from None


class AesSiv:
    """AES-SIV: the same plaintext always has the same ciphertext."""

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = AESSIV(key)

    def encrypt(self, plaintext: bytes, associated_data: bytes) -> bytes:
        """Return the synthetic nonce and the ciphertext."""
        return self._cipher.encrypt(plaintext, [associated_data])

    def decrypt(self, ciphertext: bytes, associated_data: bytes) -> bytes:
        """Return the plaintext, or raise RuleError."""
        if len(ciphertext) < SIV_BYTES:
            raise RuleError(f"a ciphertext of {len(ciphertext)} bytes is too short for AES-SIV")
        try:
            return self._cipher.decrypt(ciphertext, [associated_data])
        except InvalidTag:
            raise RuleError(MODIFIED) from None


ALGORITHMS: dict[str, tuple[type[AesGcm | AesSiv], int, int]] = {
    "AES128_GCM": (AesGcm, GCM_KEY_FIELD, 16),
    "AES256_GCM": (AesGcm, GCM_KEY_FIELD, 32),
    "AES256_SIV": (AesSiv, SIV_KEY_FIELD, 64),
}


class Cryptor:
    """Makes data encryption keys of one algorithm, and encrypts with them.

    Parameters
    ----------
    dek_format : str
        ``AES128_GCM``, ``AES256_GCM`` or ``AES256_SIV``. ``DekAlgorithm`` is a str too.

    Raises
    ------
    RuleError
        The algorithm is another one.
    """

    EMPTY_AAD = b""

    def __init__(self, dek_format: str) -> None:
        if dek_format not in ALGORITHMS:
            raise RuleError(f"the DEK algorithm has to be one of {', '.join(ALGORITHMS)}")
        self.dek_format = dek_format
        self.is_deterministic = dek_format == "AES256_SIV"
        self._cipher, self._field, self._key_bytes = ALGORITHMS[dek_format]

    def generate_key(self) -> bytes:
        """Return a new random key, serialized."""
        return bytes([self._field << 3 | LENGTH, self._key_bytes]) + os.urandom(self._key_bytes)

    def encrypt(self, dek: bytes, plaintext: bytes, associated_data: bytes) -> bytes:
        """Return the ciphertext.

        Parameters
        ----------
        dek : bytes
            A key from ``generate_key()``, or from Tink.
        plaintext : bytes
            The data to encrypt.
        associated_data : bytes
            Data that is authenticated but not part of the ciphertext.
        """
        return self._cipher(self._key(dek)).encrypt(plaintext, associated_data)

    def decrypt(self, dek: bytes, ciphertext: bytes, associated_data: bytes) -> bytes:
        """Return the plaintext.

        Parameters
        ----------
        dek : bytes
            The key of ``encrypt()``.
        ciphertext : bytes
            The result of ``encrypt()``.
        associated_data : bytes
            The same as in ``encrypt()``.

        Raises
        ------
        RuleError
            The key doesn't fit, or the ciphertext was changed.
        """
        return self._cipher(self._key(dek)).decrypt(ciphertext, associated_data)

    def _key(self, dek: bytes) -> bytes:
        version, key = 0, b""
        for field, value in _fields(dek):
            if field == VERSION_FIELD and isinstance(value, int):
                version = value
            elif field == self._field and isinstance(value, bytes):
                key = value
        if version != 0:
            raise RuleError("the data encryption key has another version than 0")
        if len(key) != self._key_bytes:
            raise RuleError(f"the data encryption key doesn't fit {self.dek_format}")
        return key


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a Protobuf message. Errors don't show the bytes, which are a key."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        field, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield field, value
            continue
        if kind == LENGTH:
            size, at = _varint(message, at)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise RuleError("the data encryption key is malformed")
        if size > len(message) - at:
            raise RuleError("the data encryption key is cut off")
        yield field, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(message):
            raise RuleError("the data encryption key is cut off")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise RuleError("the data encryption key is malformed")
