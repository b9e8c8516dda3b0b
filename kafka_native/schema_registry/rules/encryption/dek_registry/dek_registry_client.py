"""The client of the DEK registry: it registers keys and gets them, with a cache."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from kafka_native.schema_registry.rules._interface import SchemaRegistryError
from kafka_native.schema_registry.rules.encryption.dek_registry.keys import (
    Dek,
    DekAlgorithm,
    DekId,
    Kek,
    KekId,
    KekKmsProps,
)
from kafka_native.schema_registry.rules.encryption.dek_registry.rest import (
    HttpRestClient,
    RestClient,
)

__all__ = [
    "Dek",
    "DekAlgorithm",
    "DekId",
    "DekRegistryClient",
    "Kek",
    "KekId",
    "KekKmsProps",
    "MockDekRegistryClient",
]

KEKS = "/dek-registry/v1/keks"
METHOD_NOT_ALLOWED = 405
CONFLICT = 409
LATEST = -1


class DekRegistryClient:
    """Registers and gets key encryption keys (KEK) and data encryption keys (DEK).

    Each key is asked for once. The methods may be called from several threads.

    Parameters
    ----------
    conf : dict[str, Any]
        The configuration of a schema registry client.
    rest_client : RestClient, optional
        Makes the requests. By default, the client makes them itself.
    """

    def __init__(self, conf: dict[str, Any], rest_client: RestClient | None = None) -> None:
        self._conf = conf
        self._rest_client = rest_client if rest_client is not None else self._connect(conf)
        self._lock = threading.Lock()
        self._keks: dict[KekId, Kek] = {}
        self._deks: dict[DekId, Dek] = {}

    def __enter__(self) -> DekRegistryClient:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the registry."""
        if self._rest_client is not None:
            self._rest_client.close()

    def config(self) -> dict[str, Any]:
        """Return the configuration of this client."""
        return self._conf

    @staticmethod
    def _connect(conf: dict[str, Any]) -> RestClient | None:
        return HttpRestClient(conf)

    def _requests(self) -> RestClient:
        if self._rest_client is None:
            raise RuntimeError("this client has no connection")
        return self._rest_client

    def register_kek(
        self,
        name: str,
        kms_type: str,
        kms_key_id: str,
        shared: bool = False,
        kms_props: dict[str, str] | None = None,
        doc: str | None = None,
        context: str | None = None,
    ) -> Kek:
        """Register a key encryption key.

        Parameters
        ----------
        name : str
            The name in the registry.
        kms_type : str
            The kind of key management service, such as ``local-kms``.
        kms_key_id : str
            The id of the key in the service.
        shared : bool, default False
            Whether the registry has access to the service too.
        kms_props : dict[str, str], optional
            Settings of the service.
        doc : str, optional
            A description.
        context : str, optional
            The context of the registry. None is the default context.

        Raises
        ------
        SchemaRegistryError
            The registry refuses the key. The status is 409 if another key has this name.
        """
        kek_id = KekId(name, False, context)
        with self._lock:
            if kek_id in self._keks:
                return self._keks[kek_id]
        props = None if kms_props is None else KekKmsProps(dict(kms_props))
        kek = self._post_kek(Kek(name, kms_type, kms_key_id, props, doc, shared), context)
        with self._lock:
            return self._keks.setdefault(kek_id, kek)

    def _post_kek(self, kek: Kek, context: str | None) -> Kek:
        path = KEKS if context is None else f"{KEKS}?context={quote(context, safe='')}"
        return Kek.from_dict(self._requests().post(path, kek.to_dict()))

    def get_kek(self, name: str, deleted: bool = False, context: str | None = None) -> Kek:
        """Return a key encryption key.

        Parameters
        ----------
        name : str
            The name in the registry.
        deleted : bool, default False
            Whether deleted keys count.
        context : str, optional
            The context of the registry. None is the default context.

        Raises
        ------
        SchemaRegistryError
            The registry doesn't have the key (status 404), or it refuses the request.
        """
        kek_id = KekId(name, deleted, context)
        with self._lock:
            if kek_id in self._keks:
                return self._keks[kek_id]
        kek = self._fetch_kek(kek_id)
        with self._lock:
            return self._keks.setdefault(kek_id, kek)

    def _fetch_kek(self, kek_id: KekId) -> Kek:
        query: dict[str, Any] = {"deleted": _flag(kek_id.deleted)}
        if kek_id.context is not None:
            query["context"] = kek_id.context
        return Kek.from_dict(self._requests().get(f"{KEKS}/{quote(kek_id.name, safe='')}", query))

    def register_dek(
        self,
        kek_name: str,
        subject: str,
        encrypted_key_material: str | None,
        algorithm: DekAlgorithm = DekAlgorithm.AES256_GCM,
        version: int = 1,
    ) -> Dek:
        """Register a data encryption key.

        Parameters
        ----------
        kek_name : str
            The name of the key encryption key.
        subject : str
            The subject whose messages the key encrypts.
        encrypted_key_material : str, optional
            The encrypted key, in Base64. For a shared KEK, None lets the registry make the key.
        algorithm : DekAlgorithm, default AES256_GCM
            The algorithm.
        version : int, default 1
            The version.

        Raises
        ------
        SchemaRegistryError
            The registry refuses the key. The status is 409 if another key has this version.
        """
        dek_id = DekId(kek_name, subject, version, algorithm, False)
        with self._lock:
            dek = self._deks.get(dek_id)
        try:
            if dek is None:
                new = Dek(kek_name, subject, version, algorithm, encrypted_key_material)
                dek = self._post_dek(new)
        except SchemaRegistryError as error:
            # After other errors the known key stays the latest one, also while no registry answers.
            if error.http_status_code == CONFLICT:
                self._forget_latest(dek_id)
            raise
        self._forget_latest(dek_id)  # it is older, even if another thread has registered this key
        with self._lock:
            return self._deks.setdefault(dek_id, dek)

    def _forget_latest(self, dek_id: DekId) -> None:
        with self._lock:
            for deleted in (False, True):
                self._deks.pop(replace(dek_id, version=LATEST, deleted=deleted), None)

    def _post_dek(self, dek: Dek) -> Dek:
        path = f"{KEKS}/{quote(str(dek.kek_name), safe='')}/deks"
        body = dek.to_dict()
        body.pop("kekName")
        try:
            answer = self._requests().post(f"{path}/{quote(str(dek.subject), safe='')}", body)
        except SchemaRegistryError as error:
            if error.http_status_code != METHOD_NOT_ALLOWED:
                raise
            answer = self._requests().post(path, body)  # older registries
        return Dek.from_dict(answer)

    def get_dek(
        self,
        kek_name: str,
        subject: str,
        algorithm: DekAlgorithm = DekAlgorithm.AES256_GCM,
        version: int = 1,
        deleted: bool = False,
    ) -> Dek:
        """Return a data encryption key.

        Parameters
        ----------
        kek_name : str
            The name of the key encryption key.
        subject : str
            The subject whose messages the key encrypts.
        algorithm : DekAlgorithm, default AES256_GCM
            The algorithm.
        version : int, default 1
            The version. -1 is the latest one.
        deleted : bool, default False
            Whether deleted keys count.

        Raises
        ------
        SchemaRegistryError
            The registry doesn't have the key (status 404), or it refuses the request.
        """
        dek_id = DekId(kek_name, subject, version, algorithm, deleted)
        with self._lock:
            if dek_id in self._deks:
                return self._deks[dek_id]
        dek = self._fetch_dek(dek_id)
        with self._lock:
            return self._deks.setdefault(dek_id, dek)

    def _fetch_dek(self, dek_id: DekId) -> Dek:
        kek, subject = quote(dek_id.kek_name, safe=""), quote(dek_id.subject, safe="")
        query = {"algorithm": str(dek_id.algorithm), "deleted": _flag(dek_id.deleted)}
        path = f"{KEKS}/{kek}/deks/{subject}/versions/{dek_id.version}"
        return Dek.from_dict(self._requests().get(path, query))

    @staticmethod
    def new_client(conf: dict[str, Any]) -> DekRegistryClient:
        """Return a client, or one in memory for the url ``mock://`` and without a url.

        The url ``mock://NAME`` is the mock registry that schema registry clients with this NAME
        share.

        Parameters
        ----------
        conf : dict[str, Any]
            The configuration of a schema registry client.
        """
        url = conf.get("url")
        if url is None or str(url).rstrip("/") == "mock:":
            return MockDekRegistryClient(conf)
        return DekRegistryClient(conf)


class MockDekRegistryClient(DekRegistryClient):
    """Keeps keys in memory instead of a registry. Each client has keys of its own.

    Parameters
    ----------
    conf : dict[str, Any]
        The configuration. It has no effect.
    """

    def __init__(self, conf: dict[str, Any]) -> None:
        super().__init__(conf)
        self._stored_keks: dict[KekId, Kek] = {}
        self._stored_deks: dict[DekId, Dek] = {}

    @staticmethod
    def _connect(conf: dict[str, Any]) -> RestClient | None:
        return None

    def _post_kek(self, kek: Kek, context: str | None) -> Kek:
        kek_id = KekId(str(kek.name), False, context)
        return self._stored_keks.setdefault(kek_id, replace(kek, ts=_now_ms()))

    def _fetch_kek(self, kek_id: KekId) -> Kek:
        kek = self._stored_keks.get(replace(kek_id, deleted=False))
        if kek is None:
            raise SchemaRegistryError(404, 40470, f"there is no KEK {kek_id.name}")
        return kek

    def _post_dek(self, dek: Dek) -> Dek:
        if dek.algorithm is None or dek.version is None:
            raise SchemaRegistryError(422, 42271, "a DEK needs an algorithm and a version")
        dek_id = DekId(str(dek.kek_name), str(dek.subject), dek.version, dek.algorithm, False)
        stored = self._stored_deks.setdefault(dek_id, replace(dek, ts=_now_ms()))
        if stored.encrypted_key_material != dek.encrypted_key_material:
            raise SchemaRegistryError(409, 40971, "another DEK has this version")
        return stored

    def _fetch_dek(self, dek_id: DekId) -> Dek:
        dek_id = replace(dek_id, deleted=False)
        if dek_id.version == LATEST:
            same = [key for key in self._stored_deks if replace(key, version=LATEST) == dek_id]
            dek_id = max(same, key=lambda key: key.version, default=dek_id)
        dek = self._stored_deks.get(dek_id)
        if dek is None:
            raise SchemaRegistryError(404, 40470, f"there is no DEK for {dek_id.subject}")
        return dek


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _now_ms() -> int:
    return int(time.time() * 1000)
