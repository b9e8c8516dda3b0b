"""The schema registry's synchronous client."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Literal

from kafka_native.schema_registry.calls import RegistryCalls
from kafka_native.schema_registry.config import parse
from kafka_native.schema_registry.schemas import (
    Association,
    AssociationCreateOrUpdateRequest,
    AssociationResponse,
    RegisteredSchema,
    Schema,
    SchemaVersion,
    ServerConfig,
)
from kafka_native.schema_registry.transports import SyncTransport


class SchemaRegistryClient:
    """A client of a schema registry.

    It is thread-safe. Threads that ask for the same schema at the same time make one request.

    Parameters
    ----------
    conf : dict
        The properties. Only ``url`` is necessary.

        ``url`` : str
            One or more base URLs, separated by commas. If one doesn't answer, the client takes
            the next one. A URL may contain a user and a password.
        ``timeout`` : float
            How long one attempt may take, in seconds (60).
        ``max.retries`` : int
            How often a request is sent again after a connection error or one of the statuses 408,
            425, 429, 500, 502, 503 and 504 (3). Each attempt tries every base URL.
        ``retries.wait.ms``, ``retries.max.wait.ms`` : int
            The longest wait before the first retry (1000) and before any retry (20000). The wait
            doubles with each retry and is random. A ``Retry-After`` of the registry extends it.
        ``cache.capacity`` : int
            The maximum number of entries of each cache (1000).
        ``cache.latest.ttl.sec`` : float
            How long the latest version of a subject is cached. By default there is no limit.
        ``basic.auth.user.info`` : str
            ``user:password`` for basic authentication.
        ``bearer.auth.credentials.source`` : str
            ``OAUTHBEARER`` (the grant client_credentials), ``OAUTHBEARER_AZURE_IMDS``,
            ``STATIC_TOKEN`` or ``CUSTOM``. The guide names the properties of each.
        ``ssl.ca.location`` : str
            A file or folder with the authorities that the client trusts. By default these are the
            system's. False switches the verification off.
        ``ssl.certificate.location``, ``ssl.key.location``, ``ssl.key.password`` : str
            The client's own certificate and key, for mutual TLS.
        ``proxy`` : str
            The URL of a proxy.

    Raises
    ------
    ValueError
        A property is unknown, missing or has a wrong value.
    TypeError
        A property's value has a wrong type.
    """

    def __init__(self, conf: dict[str, Any]) -> None:
        self._conf = conf
        self._parsed = parse(conf)
        self._calls = RegistryCalls(self._parsed)
        self._transport = SyncTransport(self._parsed)

    def __repr__(self) -> str:
        urls = ",".join(each.url for each in self._parsed.base_urls)
        return f"{type(self).__name__}(url={urls!r})"

    def __enter__(self) -> SchemaRegistryClient:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and empty the caches. A second call has no effect."""
        self._calls.clear_caches()
        self._transport.close()

    def config(self) -> dict[str, Any]:
        """Return the dict that the client was made with. It may contain secrets."""
        return self._conf

    @staticmethod
    def new_client(conf: dict[str, Any]) -> SchemaRegistryClient:
        """Return a new client.

        Parameters
        ----------
        conf : dict
            The properties, as for the class.

        Returns
        -------
        SchemaRegistryClient
            The client.
        """
        return SchemaRegistryClient(conf)

    def register_schema(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
    ) -> int:
        """Register a schema under a subject, and return its id.

        The result is cached. A schema that the subject already has keeps its id.

        Parameters
        ----------
        subject_name : str
            The subject.
        schema : Schema
            The schema.
        normalize_schemas : bool
            Whether the registry normalizes the schema first.

        Returns
        -------
        int
            The schema's id.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.register_schema(subject_name, schema, normalize_schemas)
        )

    def register_schema_full_response(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
    ) -> RegisteredSchema:
        """Register a schema under a subject, and return all that the registry answers.

        The result is cached.

        Parameters
        ----------
        subject_name : str
            The subject.
        schema : Schema
            The schema.
        normalize_schemas : bool
            Whether the registry normalizes the schema first.

        Returns
        -------
        RegisteredSchema
            The registered schema. Older registries answer with the id alone: then the rest is None.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.register_schema_full_response(subject_name, schema, normalize_schemas)
        )

    def get_schema(
        self,
        schema_id: int,
        subject_name: str | None = None,
        fmt: str | None = None,
        reference_format: str | None = None,
    ) -> Schema:
        """Return the schema of an id.

        The result is cached. Concurrent calls for the same id make one request.

        Parameters
        ----------
        schema_id : int
            The schema's id.
        subject_name : str, optional
            Return only this subject.
        fmt : str, optional
            The format of the schema's text, for example ``"serialized"`` for Protobuf.
        reference_format : str, optional
            The format of references in the schema's text.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.get_schema(schema_id, subject_name, fmt, reference_format)
        )

    def get_schema_by_guid(
        self,
        guid: str,
        fmt: str | None = None,
    ) -> Schema:
        """Return the schema of a GUID.

        The result is cached.

        Parameters
        ----------
        guid : str
            The schema's GUID.
        fmt : str, optional
            The format of the schema's text, for example ``"serialized"`` for Protobuf.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.get_schema_by_guid(guid, fmt))

    def get_schema_types(self) -> list[str]:
        """Return the types of schemas that the registry supports.

        Returns
        -------
        list[str]
            For example ``["AVRO", "JSON", "PROTOBUF"]``.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.get_schema_types())

    def get_subjects_by_schema_id(
        self,
        schema_id: int,
        subject_name: str | None = None,
        deleted: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[str]:
        """Return the subjects that have a schema.

        Parameters
        ----------
        schema_id : int
            The schema's id.
        subject_name : str, optional
            Return only this subject.
        deleted : bool
            Whether to include what was deleted softly.
        offset : int
            How many results to skip.
        limit : int
            How many results to return. A negative number means all.

        Returns
        -------
        list[str]
            The subjects.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.get_subjects_by_schema_id(schema_id, subject_name, deleted, offset, limit)
        )

    def get_schema_versions(
        self,
        schema_id: int,
        subject_name: str | None = None,
        deleted: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[SchemaVersion]:
        """Return the subjects and versions of a schema.

        Parameters
        ----------
        schema_id : int
            The schema's id.
        subject_name : str, optional
            Return only this subject.
        deleted : bool
            Whether to include what was deleted softly.
        offset : int
            How many results to skip.
        limit : int
            How many results to return. A negative number means all.

        Returns
        -------
        list[SchemaVersion]
            The subjects and versions.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.get_schema_versions(schema_id, subject_name, deleted, offset, limit)
        )

    def lookup_schema(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
        fmt: str | None = None,
        deleted: bool = False,
    ) -> RegisteredSchema:
        """Return the version and id that a schema has in a subject.

        The result is cached.

        Parameters
        ----------
        subject_name : str
            The subject.
        schema : Schema
            The schema.
        normalize_schemas : bool
            Whether the registry normalizes the schema first.
        fmt : str, optional
            The format of the schema's text, for example ``"serialized"`` for Protobuf.
        deleted : bool
            Whether to include what was deleted softly.

        Returns
        -------
        RegisteredSchema
            The registered schema.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.lookup_schema(subject_name, schema, normalize_schemas, fmt, deleted)
        )

    def get_subjects(
        self,
        subject_prefix: str | None = None,
        deleted: bool = False,
        deleted_only: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[str]:
        """Return the subjects of the registry.

        Parameters
        ----------
        subject_prefix : str, optional
            Return only subjects that start with this text.
        deleted : bool
            Whether to include what was deleted softly.
        deleted_only : bool
            Whether to return only what was deleted softly.
        offset : int
            How many results to skip.
        limit : int
            How many results to return. A negative number means all.

        Returns
        -------
        list[str]
            The subjects.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.get_subjects(subject_prefix, deleted, deleted_only, offset, limit)
        )

    def delete_subject(
        self,
        subject_name: str,
        permanent: bool = False,
    ) -> list[int]:
        """Delete a subject with all its versions.

        The caches forget the subject.

        Parameters
        ----------
        subject_name : str
            The subject.
        permanent : bool
            Whether to delete for good. The registry demands a soft deletion first.

        Returns
        -------
        list[int]
            The deleted versions.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.delete_subject(subject_name, permanent))

    def get_latest_version(
        self,
        subject_name: str,
        fmt: str | None = None,
    ) -> RegisteredSchema:
        """Return the latest version of a subject.

        The result is cached for ``cache.latest.ttl.sec``.

        Parameters
        ----------
        subject_name : str
            The subject.
        fmt : str, optional
            The format of the schema's text, for example ``"serialized"`` for Protobuf.

        Returns
        -------
        RegisteredSchema
            The latest version.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.get_latest_version(subject_name, fmt))

    def get_latest_with_metadata(
        self,
        subject_name: str,
        metadata: dict[str, str],
        deleted: bool = False,
        fmt: str | None = None,
    ) -> RegisteredSchema:
        """Return the latest version of a subject whose metadata have certain properties.

        The result is cached for ``cache.latest.ttl.sec``.

        Parameters
        ----------
        subject_name : str
            The subject.
        metadata : dict[str, str]
            The properties that the schema's metadata must have.
        deleted : bool
            Whether to include what was deleted softly.
        fmt : str, optional
            The format of the schema's text, for example ``"serialized"`` for Protobuf.

        Returns
        -------
        RegisteredSchema
            The latest version with these properties.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.get_latest_with_metadata(subject_name, metadata, deleted, fmt)
        )

    def get_version(
        self,
        subject_name: str,
        version: int | Literal["latest"] = "latest",
        deleted: bool = False,
        fmt: str | None = None,
    ) -> RegisteredSchema:
        """Return a version of a subject.

        The result is cached, except for ``"latest"``.

        Parameters
        ----------
        subject_name : str
            The subject.
        version : int or str
            The version, or ``"latest"``.
        deleted : bool
            Whether to include what was deleted softly.
        fmt : str, optional
            The format of the schema's text, for example ``"serialized"`` for Protobuf.

        Returns
        -------
        RegisteredSchema
            The version.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.get_version(subject_name, version, deleted, fmt))

    def get_referenced_by(
        self,
        subject_name: str,
        version: int | Literal["latest"] = "latest",
        offset: int = 0,
        limit: int = -1,
    ) -> list[int]:
        """Return the ids of the schemas that refer to a version.

        Parameters
        ----------
        subject_name : str
            The subject.
        version : int or str
            The version, or ``"latest"``.
        offset : int
            How many results to skip.
        limit : int
            How many results to return. A negative number means all.

        Returns
        -------
        list[int]
            The ids.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.get_referenced_by(subject_name, version, offset, limit)
        )

    def get_versions(
        self,
        subject_name: str,
        deleted: bool = False,
        deleted_only: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[int]:
        """Return the versions of a subject.

        Parameters
        ----------
        subject_name : str
            The subject.
        deleted : bool
            Whether to include what was deleted softly.
        deleted_only : bool
            Whether to return only what was deleted softly.
        offset : int
            How many results to skip.
        limit : int
            How many results to return. A negative number means all.

        Returns
        -------
        list[int]
            The versions.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.get_versions(subject_name, deleted, deleted_only, offset, limit)
        )

    def delete_version(
        self,
        subject_name: str,
        version: int,
        permanent: bool = False,
    ) -> int:
        """Delete a version of a subject.

        The caches forget the subject.

        Parameters
        ----------
        subject_name : str
            The subject.
        version : int
            The version.
        permanent : bool
            Whether to delete for good. The registry demands a soft deletion first.

        Returns
        -------
        int
            The deleted version.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.delete_version(subject_name, version, permanent))

    def set_compatibility(
        self,
        subject_name: str | None = None,
        level: str | None = None,
    ) -> dict[str, Any]:
        """Set the compatibility level of a subject, or the global one.

        Parameters
        ----------
        subject_name : str, optional
            The subject. None means the global setting.
        level : str
            The level, for example ``"FULL"``.

        Returns
        -------
        dict[str, Any]
            The registry's answer, such as ``{"compatibility": "FULL"}``, as in confluent_kafka.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        ValueError
            The level is missing.
        """
        return self._transport.run(self._calls.set_compatibility(subject_name, level))

    def get_compatibility(
        self,
        subject_name: str | None = None,
    ) -> str:
        """Return the compatibility level of a subject, or the global one.

        Parameters
        ----------
        subject_name : str, optional
            The subject. None means the global setting.

        Returns
        -------
        str
            The level.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.get_compatibility(subject_name))

    def test_compatibility(
        self,
        subject_name: str,
        schema: Schema,
        version: int | str = "latest",
        normalize: bool = False,
        verbose: bool = False,
    ) -> bool:
        """Return whether a schema is compatible with a version of a subject.

        Parameters
        ----------
        subject_name : str
            The subject.
        schema : Schema
            The schema.
        version : int or str
            The version, or ``"latest"``.
        normalize : bool
            Whether the registry normalizes the schema first.
        verbose : bool
            Whether the registry explains an incompatibility. The result is the same.

        Returns
        -------
        bool
            Whether it is compatible.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.test_compatibility(subject_name, schema, version, normalize, verbose)
        )

    def test_compatibility_all_versions(
        self,
        subject_name: str,
        schema: Schema,
        normalize: bool = False,
        verbose: bool = False,
    ) -> bool:
        """Return whether a schema is compatible with a subject.

        The subject's compatibility level decides which versions count.

        Parameters
        ----------
        subject_name : str
            The subject.
        schema : Schema
            The schema.
        normalize : bool
            Whether the registry normalizes the schema first.
        verbose : bool
            Whether the registry explains an incompatibility. The result is the same.

        Returns
        -------
        bool
            Whether it is compatible.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.test_compatibility(subject_name, schema, None, normalize, verbose)
        )

    def explain_compatibility(
        self,
        subject_name: str,
        schema: Schema,
        version: int | str | None = None,
        normalize: bool = False,
    ) -> list[str]:
        """Return the reasons why a schema isn't compatible with a subject.

        Parameters
        ----------
        subject_name : str
            The subject.
        schema : Schema
            The schema.
        version : int or str, optional
            Compare with this version, or with ``"latest"``. Default: with the versions that the
            subject's compatibility level names.
        normalize : bool
            Whether the registry normalizes the schema first.

        Returns
        -------
        list[str]
            The registry's reasons. The list is empty if the schema is compatible.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.explain_compatibility(subject_name, schema, version, normalize)
        )

    def set_config(
        self,
        subject_name: str | None = None,
        config: ServerConfig | None = None,
    ) -> dict[str, Any]:
        """Set the configuration of a subject, or the global one.

        Parameters
        ----------
        subject_name : str, optional
            The subject. None means the global setting.
        config : ServerConfig
            The configuration.

        Returns
        -------
        dict[str, Any]
            The registry's answer, as in confluent_kafka.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        ValueError
            The configuration is missing.
        """
        return self._transport.run(self._calls.set_config(subject_name, config))

    def delete_config(
        self,
        subject_name: str | None = None,
    ) -> ServerConfig:
        """Delete the configuration of a subject, or the global one.

        Parameters
        ----------
        subject_name : str, optional
            The subject. None means the global setting.

        Returns
        -------
        ServerConfig
            The deleted configuration.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.delete_config(subject_name))

    def get_config(
        self,
        subject_name: str | None = None,
    ) -> ServerConfig:
        """Return the configuration of a subject, or the global one.

        Parameters
        ----------
        subject_name : str, optional
            The subject. None means the global setting.

        Returns
        -------
        ServerConfig
            The configuration.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.get_config(subject_name))

    def get_mode(
        self,
        subject_name: str,
    ) -> str:
        """Return the mode of a subject.

        Parameters
        ----------
        subject_name : str
            The subject.

        Returns
        -------
        str
            The mode.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.get_mode(subject_name))

    def update_mode(
        self,
        subject_name: str,
        mode: str,
        force: bool = False,
    ) -> str:
        """Set the mode of a subject.

        Parameters
        ----------
        subject_name : str
            The subject.
        mode : str
            ``"READWRITE"``, ``"READONLY"`` or ``"IMPORT"``.
        force : bool
            Whether to change the mode although the registry has schemas.

        Returns
        -------
        str
            The new mode.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.update_mode(subject_name, mode, force))

    def delete_mode(
        self,
        subject_name: str,
    ) -> str:
        """Delete the mode of a subject, so that the global one applies.

        Parameters
        ----------
        subject_name : str
            The subject.

        Returns
        -------
        str
            The deleted mode.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.delete_mode(subject_name))

    def get_global_mode(self) -> str:
        """Return the mode of the registry.

        Returns
        -------
        str
            The mode.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.get_mode(None))

    def update_global_mode(
        self,
        mode: str,
        force: bool = False,
    ) -> str:
        """Set the mode of the registry.

        Parameters
        ----------
        mode : str
            ``"READWRITE"``, ``"READONLY"`` or ``"IMPORT"``.
        force : bool
            Whether to change the mode although the registry has schemas.

        Returns
        -------
        str
            The new mode.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.update_mode(None, mode, force))

    def get_contexts(
        self,
        offset: int = 0,
        limit: int = -1,
    ) -> list[str]:
        """Return the contexts of the registry.

        Parameters
        ----------
        offset : int
            How many results to skip.
        limit : int
            How many results to return. A negative number means all.

        Returns
        -------
        list[str]
            The contexts, for example ``["."]``.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.get_contexts(offset, limit))

    def get_associations_by_resource_name(
        self,
        resource_name: str,
        resource_namespace: str,
        resource_type: str | None = None,
        association_types: list[str] | None = None,
        offset: int = 0,
        limit: int = -1,
    ) -> list[Association]:
        """Return the associations of a resource.

        Parameters
        ----------
        resource_name : str
            The resource's name, for example a topic's.
        resource_namespace : str
            The resource's namespace, for example a cluster's id. ``"-"`` means any.
        resource_type : str, optional
            The resource's type, for example ``"topic"``.
        association_types : list[str], optional
            The types of associations: ``"key"``, ``"value"`` or both.
        offset : int
            How many results to skip.
        limit : int
            How many results to return. A negative number means all.

        Returns
        -------
        list[Association]
            The associations.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(
            self._calls.get_associations_by_resource_name(
                resource_name, resource_namespace, resource_type, association_types, offset, limit
            )
        )

    def create_association(
        self,
        request: AssociationCreateOrUpdateRequest,
    ) -> AssociationResponse:
        """Associate subjects with a resource.

        Parameters
        ----------
        request : AssociationCreateOrUpdateRequest
            The resource and its associations.

        Returns
        -------
        AssociationResponse
            The associations that the registry created.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        return self._transport.run(self._calls.create_association(request))

    def delete_associations(
        self,
        resource_id: str,
        resource_type: str | None = None,
        association_types: list[str] | None = None,
        cascade_lifecycle: bool = False,
    ) -> None:
        """Delete the associations of a resource.

        Parameters
        ----------
        resource_id : str
            The resource's id.
        resource_type : str, optional
            The resource's type, for example ``"topic"``.
        association_types : list[str], optional
            The types of associations: ``"key"``, ``"value"`` or both.
        cascade_lifecycle : bool
            Whether subjects with the lifecycle ``STRONG`` are deleted too.

        Raises
        ------
        SchemaRegistryError
            The registry refused the request or can't be reached.
        """
        self._transport.run(
            self._calls.delete_associations(
                resource_id, resource_type, association_types, cascade_lifecycle
            )
        )

    def clear_latest_caches(self) -> None:
        """Empty the caches of latest versions."""
        self._calls.clear_latest_caches()

    def clear_caches(self) -> None:
        """Empty all caches of this client."""
        self._calls.clear_caches()
