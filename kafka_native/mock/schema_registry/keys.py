"""The DEK registry: key encryption keys (KEKs) and the encrypted data keys (DEKs) below them.

The registry stores encrypted keys only. It has no key management service, so it creates no data
keys of its own for shared KEKs.
"""

from __future__ import annotations

import time
from typing import Any, Final

from kafka_native.mock.schema_registry.errors import (
    INVALID_KEY,
    KEY_EXISTS,
    KEY_NOT_FOUND,
    KEY_NOT_SOFT_DELETED,
    KEY_REFERENCE_EXISTS,
    RegistryError,
)
from kafka_native.mock.schema_registry.subjects import LATEST

ALGORITHMS: Final = ("AES128_GCM", "AES256_GCM", "AES256_SIV")
DEFAULT_ALGORITHM: Final = "AES256_GCM"
Key = dict[str, Any]
_DekId = tuple[str, str, str, int]
"""The KEK, the subject, the algorithm and the version."""


class Keys:
    """The KEKs and DEKs of a registry. The registry's lock guards them."""

    def __init__(self) -> None:
        """Start without keys."""
        self._keks: dict[str, Key] = {}
        self._deks: dict[_DekId, Key] = {}

    def keks(self, deleted: bool) -> list[str]:
        """Return the names of the KEKs."""
        return sorted(name for name, kek in self._keks.items() if deleted or not _gone(kek))

    def kek(self, name: str, deleted: bool) -> Key:
        """Return a KEK. Raises ``RegistryError`` if there is none."""
        kek = self._keks.get(name)
        if kek is None or (_gone(kek) and not deleted):
            raise RegistryError(KEY_NOT_FOUND, f"Key '{name}' not found.")
        return kek

    def create_kek(self, body: Any) -> Key:
        """Create a KEK, or bring a deleted one back."""
        body = _object(body)
        name, kind, key_id = (_text(body, each) for each in ("name", "kmsType", "kmsKeyId"))
        own = {
            "name": name,
            "kmsType": kind,
            "kmsKeyId": key_id,
            "kmsProps": body.get("kmsProps") or {},
            "doc": body.get("doc"),
            "shared": bool(body.get("shared", False)),
        }
        known = self._keks.get(name)
        if known is not None and not _gone(known):
            if any(known[key] != value for key, value in own.items()):
                raise RegistryError(KEY_EXISTS, f"Key '{name}' already exists.")
            return known
        self._keks[name] = own | {"ts": _now_ms()}
        return self._keks[name]

    def change_kek(self, name: str, body: Any) -> Key:
        """Change the properties, the description or the sharing of a KEK."""
        kek, body = self.kek(name, deleted=False), _object(body)
        kek |= {key: body[key] for key in ("kmsProps", "doc", "shared") if key in body}
        kek["ts"] = _now_ms()
        return kek

    def delete_kek(self, name: str, permanent: bool) -> None:
        """Delete a KEK that has no DEKs."""
        kek = self.kek(name, deleted=True)
        if any(key[0] == name and (permanent or not _gone(dek)) for key, dek in self._deks.items()):
            raise RegistryError(
                KEY_REFERENCE_EXISTS, f"One or more references exist to the key '{name}'."
            )
        _check_deletion(kek, name, permanent)
        if permanent:
            del self._keks[name]
        else:
            kek["deleted"] = True

    def undelete_kek(self, name: str) -> None:
        """Bring a deleted KEK back."""
        self.kek(name, deleted=True).pop("deleted", None)

    def subjects(self, kek: str, deleted: bool) -> list[str]:
        """Return the subjects that have DEKs below a KEK."""
        self.kek(kek, deleted=True)
        return sorted(
            {
                subject
                for (own, subject, _, _), dek in self._deks.items()
                if own == kek and (deleted or not _gone(dek))
            }
        )

    def versions(self, kek: str, subject: str, algorithm: str | None, deleted: bool) -> list[int]:
        """Return the versions of a subject's DEK."""
        found = sorted(
            number
            for (*own, number), dek in self._deks.items()
            if own == [kek, subject, _algorithm(algorithm)] and (deleted or not _gone(dek))
        )
        if not found:
            raise RegistryError(KEY_NOT_FOUND, f"Key '{subject}' not found.")
        return found

    def dek(self, kek: str, subject: str, number: int, algorithm: str | None, deleted: bool) -> Key:
        """Return a version of a subject's DEK, or the latest one."""
        self.kek(kek, deleted=True)
        if number == LATEST:
            number = self.versions(kek, subject, algorithm, deleted)[-1]
        dek = self._deks.get((kek, subject, _algorithm(algorithm), number))
        if dek is None or (_gone(dek) and not deleted):
            raise RegistryError(KEY_NOT_FOUND, f"Key '{subject}' not found.")
        return dek

    def create_dek(self, kek: str, body: Any, subject: str | None = None) -> Key:
        """Store an encrypted data key, or bring a deleted one back."""
        body = _object(body)
        shared = self.kek(kek, deleted=False)["shared"]
        own: Key = {
            "kekName": kek,
            "subject": subject or _text(body, "subject"),
            "version": body.get("version") or 1,
            "algorithm": _algorithm(body.get("algorithm")),
            "encryptedKeyMaterial": body.get("encryptedKeyMaterial"),
        }
        if not isinstance(own["version"], int) or own["version"] < 1:
            raise RegistryError(INVALID_KEY, "The version of the key is not a positive number")
        if not own["encryptedKeyMaterial"]:
            reason = "the mock registry has no key management service" if shared else "it is empty"
            raise RegistryError(INVALID_KEY, f"encryptedKeyMaterial is needed: {reason}")
        key = (kek, own["subject"], own["algorithm"], own["version"])
        known = self._deks.get(key)
        if known is not None and not _gone(known):
            if any(known[name] != value for name, value in own.items()):
                raise RegistryError(KEY_EXISTS, f"Key '{own['subject']}' already exists.")
            return known
        self._deks[key] = own | {"ts": _now_ms()}
        return self._deks[key]

    def delete_dek(
        self, kek: str, subject: str, number: int | None, algorithm: str | None, permanent: bool
    ) -> None:
        """Delete a version of a subject's DEK, or all versions."""
        numbers = (
            self.versions(kek, subject, algorithm, deleted=True) if number is None else [number]
        )
        for each in numbers:
            dek = self.dek(kek, subject, each, algorithm, deleted=True)
            if number is None and _gone(dek) and not permanent:
                continue
            _check_deletion(dek, subject, permanent)
            if permanent:
                del self._deks[kek, subject, dek["algorithm"], dek["version"]]
            else:
                dek["deleted"] = True

    def undelete_dek(
        self, kek: str, subject: str, number: int | None, algorithm: str | None
    ) -> None:
        """Bring a deleted version of a subject's DEK back, or all versions."""
        numbers = (
            self.versions(kek, subject, algorithm, deleted=True) if number is None else [number]
        )
        for each in numbers:
            self.dek(kek, subject, each, algorithm, deleted=True).pop("deleted", None)


def _gone(key: Key) -> bool:
    return bool(key.get("deleted"))


def _check_deletion(key: Key, name: str, permanent: bool) -> None:
    if permanent and not _gone(key):
        raise RegistryError(
            KEY_NOT_SOFT_DELETED,
            f"Key '{name}' was not deleted first before being permanently deleted",
        )
    if not permanent and _gone(key):
        raise RegistryError(KEY_NOT_FOUND, f"Key '{name}' not found.")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise RegistryError(INVALID_KEY, "The body of the request is not a JSON object")
    return body


def _text(body: dict[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise RegistryError(INVALID_KEY, f"Invalid key: {key} is missing")
    return value


def _algorithm(name: Any) -> str:
    if name is None:
        return DEFAULT_ALGORITHM
    if name not in ALGORITHMS:
        raise RegistryError(INVALID_KEY, f"Invalid key: the algorithm {str(name)[:100]} is unknown")
    return str(name)
