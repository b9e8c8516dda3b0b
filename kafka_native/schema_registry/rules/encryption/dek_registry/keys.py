"""Key encryption keys and data encryption keys, as the registry describes them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kafka_native.schema_registry.rules._interface import RuleError


class DekAlgorithm(str, Enum):
    """The algorithms of data encryption keys."""

    AES128_GCM = "AES128_GCM"
    AES256_GCM = "AES256_GCM"
    AES256_SIV = "AES256_SIV"

    def __str__(self) -> str:
        return self.value


@dataclass
class KekKmsProps:
    """Settings of the key management service of a KEK. The representation hides the values.

    Parameters
    ----------
    properties : dict[str, str]
        The settings.
    """

    properties: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"KekKmsProps({', '.join(sorted(self.properties))})"

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as the registry's JSON has them."""
        return dict(self.properties)

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> KekKmsProps:
        """Return the settings of the registry's JSON.

        Parameters
        ----------
        src_dict : Mapping[str, Any]
            The JSON object.
        """
        return cls(dict(src_dict))


@dataclass
class Kek:
    """A key encryption key. The key itself stays in the key management service.

    Parameters
    ----------
    name : str, optional
        The name in the registry.
    kms_type : str, optional
        The kind of service, such as ``local-kms``.
    kms_key_id : str, optional
        The id of the key in the service.
    kms_props : KekKmsProps, optional
        Settings of the service.
    doc : str, optional
        A description.
    shared : bool, optional
        Whether the registry has access to the service too.
    ts : int, optional
        The time of creation, in milliseconds.
    deleted : bool, optional
        Whether the key is deleted.
    """

    name: str | None
    kms_type: str | None
    kms_key_id: str | None
    kms_props: KekKmsProps | None
    doc: str | None
    shared: bool | None
    ts: int | None = None
    deleted: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the registry's JSON object."""
        props = None if self.kms_props is None else self.kms_props.to_dict()
        return _present(
            name=self.name,
            kmsType=self.kms_type,
            kmsKeyId=self.kms_key_id,
            kmsProps=props,
            doc=self.doc,
            shared=self.shared,
            ts=self.ts,
            deleted=self.deleted,
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> Kek:
        """Return the key of the registry's JSON.

        Parameters
        ----------
        src_dict : Mapping[str, Any]
            The JSON object.
        """
        props = src_dict.get("kmsProps")
        return cls(
            name=src_dict.get("name"),
            kms_type=src_dict.get("kmsType"),
            kms_key_id=src_dict.get("kmsKeyId"),
            kms_props=None if props is None else KekKmsProps.from_dict(props),
            doc=src_dict.get("doc"),
            shared=src_dict.get("shared"),
            ts=src_dict.get("ts"),
            deleted=src_dict.get("deleted"),
        )


@dataclass
class Dek:
    """A data encryption key. The representation hides the key.

    Parameters
    ----------
    kek_name : str, optional
        The name of the key encryption key.
    subject : str, optional
        The subject whose messages the key encrypts.
    version : int, optional
        The version of the key. It begins with 1.
    algorithm : DekAlgorithm, optional
        The algorithm.
    encrypted_key_material : str, optional
        The key, encrypted by the key encryption key, in Base64.
    key_material : str, optional
        The key itself, in Base64.
    ts : int, optional
        The time of creation, in milliseconds.
    deleted : bool, optional
        Whether the key is deleted.
    """

    kek_name: str | None
    subject: str | None
    version: int | None
    algorithm: DekAlgorithm | None
    encrypted_key_material: str | None = field(repr=False)
    key_material: str | None = field(default=None, repr=False)
    ts: int | None = None
    deleted: bool | None = None

    def get_encrypted_key_material_bytes(self) -> bytes | None:
        """Return the encrypted key, or None."""
        return _decoded(self.encrypted_key_material)

    def get_key_material_bytes(self) -> bytes | None:
        """Return the key itself, or None if it is not decrypted yet."""
        return _decoded(self.key_material)

    def set_key_material(self, key_material_bytes: bytes | None) -> None:
        """Set the key itself.

        Parameters
        ----------
        key_material_bytes : bytes, optional
            The key. None removes it.
        """
        if key_material_bytes is None:
            self.key_material = None
        else:
            self.key_material = base64.b64encode(key_material_bytes).decode()

    def to_dict(self) -> dict[str, Any]:
        """Return the registry's JSON object. It has the key itself, if that is known."""
        return _present(
            kekName=self.kek_name,
            subject=self.subject,
            version=self.version,
            algorithm=None if self.algorithm is None else str(self.algorithm),
            encryptedKeyMaterial=self.encrypted_key_material,
            keyMaterial=self.key_material,
            ts=self.ts,
            deleted=self.deleted,
        )

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> Dek:
        """Return the key of the registry's JSON.

        Parameters
        ----------
        src_dict : Mapping[str, Any]
            The JSON object.
        """
        algorithm = src_dict.get("algorithm")
        return cls(
            kek_name=src_dict.get("kekName"),
            subject=src_dict.get("subject"),
            version=src_dict.get("version"),
            algorithm=None if algorithm is None else DekAlgorithm(algorithm),
            encrypted_key_material=src_dict.get("encryptedKeyMaterial"),
            key_material=src_dict.get("keyMaterial"),
            ts=src_dict.get("ts"),
            deleted=src_dict.get("deleted"),
        )


@dataclass(frozen=True)
class KekId:
    """What names a key encryption key.

    Parameters
    ----------
    name : str
        The name.
    deleted : bool
        Whether deleted keys count.
    context : str, optional
        The context of the registry. None is the default context.
    """

    name: str
    deleted: bool
    context: str | None = None


@dataclass(frozen=True)
class DekId:
    """What names a data encryption key.

    Parameters
    ----------
    kek_name : str
        The name of the key encryption key.
    subject : str
        The subject.
    version : int
        The version. -1 is the latest one.
    algorithm : DekAlgorithm
        The algorithm.
    deleted : bool
        Whether deleted keys count.
    """

    kek_name: str
    subject: str
    version: int
    algorithm: DekAlgorithm
    deleted: bool


def _present(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _decoded(text: str | None) -> bytes | None:
    if text is None:
        return None
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise RuleError("the key material of a DEK is not Base64") from None
