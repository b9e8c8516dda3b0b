"""The schema registry's asyncio client."""

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
from kafka_native.schema_registry.transports import AsyncTransport


class AsyncSchemaRegistryClient:
    """A client of a schema registry for asyncio.

    Its methods are those of `SchemaRegistryClient`, as coroutines. Use it in one event loop. Tasks
    that ask for the same schema at the same time make one request.

    Parameters
    ----------
    conf : dict
        The properties of `SchemaRegistryClient`. With ``bearer.auth.credentials.source=CUSTOM`` the
        function may also be a coroutine function.

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
        self._transport = AsyncTransport(self._parsed)

    def __repr__(self) -> str:
        urls = ",".join(each.url for each in self._parsed.base_urls)
        return f"{type(self).__name__}(url={urls!r})"

    async def __aenter__(self) -> AsyncSchemaRegistryClient:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections and empty the caches. A second call has no effect."""
        self._calls.clear_caches()
        await self._transport.aclose()

    def config(self) -> dict[str, Any]:
        """Return the dict that the client was made with. It may contain secrets."""
        return self._conf

    @staticmethod
    def new_client(conf: dict[str, Any]) -> AsyncSchemaRegistryClient:
        """Return a new client.

        Parameters
        ----------
        conf : dict
            The properties, as for the class.

        Returns
        -------
        AsyncSchemaRegistryClient
            The client.
        """
        return AsyncSchemaRegistryClient(conf)

    async def register_schema(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
    ) -> int:
        """Register a schema under a subject, and return its id.

        See `SchemaRegistryClient.register_schema` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.register_schema(subject_name, schema, normalize_schemas)
        )

    async def register_schema_full_response(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
    ) -> RegisteredSchema:
        """Register a schema under a subject, and return all that the registry answers.

        See `SchemaRegistryClient.register_schema_full_response` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.register_schema_full_response(subject_name, schema, normalize_schemas)
        )

    async def get_schema(
        self,
        schema_id: int,
        subject_name: str | None = None,
        fmt: str | None = None,
        reference_format: str | None = None,
    ) -> Schema:
        """Return the schema of an id.

        See `SchemaRegistryClient.get_schema` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.get_schema(schema_id, subject_name, fmt, reference_format)
        )

    async def get_schema_by_guid(
        self,
        guid: str,
        fmt: str | None = None,
    ) -> Schema:
        """Return the schema of a GUID.

        See `SchemaRegistryClient.get_schema_by_guid` for the parameters and errors.
        """
        return await self._transport.run(self._calls.get_schema_by_guid(guid, fmt))

    async def get_schema_types(self) -> list[str]:
        """Return the types of schemas that the registry supports.

        See `SchemaRegistryClient.get_schema_types` for the parameters and errors.
        """
        return await self._transport.run(self._calls.get_schema_types())

    async def get_subjects_by_schema_id(
        self,
        schema_id: int,
        subject_name: str | None = None,
        deleted: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[str]:
        """Return the subjects that have a schema.

        See `SchemaRegistryClient.get_subjects_by_schema_id` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.get_subjects_by_schema_id(schema_id, subject_name, deleted, offset, limit)
        )

    async def get_schema_versions(
        self,
        schema_id: int,
        subject_name: str | None = None,
        deleted: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[SchemaVersion]:
        """Return the subjects and versions of a schema.

        See `SchemaRegistryClient.get_schema_versions` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.get_schema_versions(schema_id, subject_name, deleted, offset, limit)
        )

    async def lookup_schema(
        self,
        subject_name: str,
        schema: Schema,
        normalize_schemas: bool = False,
        fmt: str | None = None,
        deleted: bool = False,
    ) -> RegisteredSchema:
        """Return the version and id that a schema has in a subject.

        See `SchemaRegistryClient.lookup_schema` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.lookup_schema(subject_name, schema, normalize_schemas, fmt, deleted)
        )

    async def get_subjects(
        self,
        subject_prefix: str | None = None,
        deleted: bool = False,
        deleted_only: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[str]:
        """Return the subjects of the registry.

        See `SchemaRegistryClient.get_subjects` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.get_subjects(subject_prefix, deleted, deleted_only, offset, limit)
        )

    async def delete_subject(
        self,
        subject_name: str,
        permanent: bool = False,
    ) -> list[int]:
        """Delete a subject with all its versions.

        See `SchemaRegistryClient.delete_subject` for the parameters and errors.
        """
        return await self._transport.run(self._calls.delete_subject(subject_name, permanent))

    async def get_latest_version(
        self,
        subject_name: str,
        fmt: str | None = None,
    ) -> RegisteredSchema:
        """Return the latest version of a subject.

        See `SchemaRegistryClient.get_latest_version` for the parameters and errors.
        """
        return await self._transport.run(self._calls.get_latest_version(subject_name, fmt))

    async def get_latest_with_metadata(
        self,
        subject_name: str,
        metadata: dict[str, str],
        deleted: bool = False,
        fmt: str | None = None,
    ) -> RegisteredSchema:
        """Return the latest version of a subject whose metadata have certain properties.

        See `SchemaRegistryClient.get_latest_with_metadata` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.get_latest_with_metadata(subject_name, metadata, deleted, fmt)
        )

    async def get_version(
        self,
        subject_name: str,
        version: int | Literal["latest"] = "latest",
        deleted: bool = False,
        fmt: str | None = None,
    ) -> RegisteredSchema:
        """Return a version of a subject.

        See `SchemaRegistryClient.get_version` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.get_version(subject_name, version, deleted, fmt)
        )

    async def get_referenced_by(
        self,
        subject_name: str,
        version: int | Literal["latest"] = "latest",
        offset: int = 0,
        limit: int = -1,
    ) -> list[int]:
        """Return the ids of the schemas that refer to a version.

        See `SchemaRegistryClient.get_referenced_by` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.get_referenced_by(subject_name, version, offset, limit)
        )

    async def get_versions(
        self,
        subject_name: str,
        deleted: bool = False,
        deleted_only: bool = False,
        offset: int = 0,
        limit: int = -1,
    ) -> list[int]:
        """Return the versions of a subject.

        See `SchemaRegistryClient.get_versions` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.get_versions(subject_name, deleted, deleted_only, offset, limit)
        )

    async def delete_version(
        self,
        subject_name: str,
        version: int,
        permanent: bool = False,
    ) -> int:
        """Delete a version of a subject.

        See `SchemaRegistryClient.delete_version` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.delete_version(subject_name, version, permanent)
        )

    async def set_compatibility(
        self,
        subject_name: str | None = None,
        level: str | None = None,
    ) -> dict[str, Any]:
        """Set the compatibility level of a subject, or the global one.

        See `SchemaRegistryClient.set_compatibility` for the parameters and errors.
        """
        return await self._transport.run(self._calls.set_compatibility(subject_name, level))

    async def get_compatibility(
        self,
        subject_name: str | None = None,
    ) -> str:
        """Return the compatibility level of a subject, or the global one.

        See `SchemaRegistryClient.get_compatibility` for the parameters and errors.
        """
        return await self._transport.run(self._calls.get_compatibility(subject_name))

    async def test_compatibility(
        self,
        subject_name: str,
        schema: Schema,
        version: int | str = "latest",
        normalize: bool = False,
        verbose: bool = False,
    ) -> bool:
        """Return whether a schema is compatible with a version of a subject.

        See `SchemaRegistryClient.test_compatibility` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.test_compatibility(subject_name, schema, version, normalize, verbose)
        )

    async def test_compatibility_all_versions(
        self,
        subject_name: str,
        schema: Schema,
        normalize: bool = False,
        verbose: bool = False,
    ) -> bool:
        """Return whether a schema is compatible with a subject.

        See `SchemaRegistryClient.test_compatibility_all_versions` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.test_compatibility(subject_name, schema, None, normalize, verbose)
        )

    async def explain_compatibility(
        self,
        subject_name: str,
        schema: Schema,
        version: int | str | None = None,
        normalize: bool = False,
    ) -> list[str]:
        """Return the reasons why a schema isn't compatible with a subject.

        See `SchemaRegistryClient.explain_compatibility` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.explain_compatibility(subject_name, schema, version, normalize)
        )

    async def set_config(
        self,
        subject_name: str | None = None,
        config: ServerConfig | None = None,
    ) -> dict[str, Any]:
        """Set the configuration of a subject, or the global one.

        See `SchemaRegistryClient.set_config` for the parameters and errors.
        """
        return await self._transport.run(self._calls.set_config(subject_name, config))

    async def delete_config(
        self,
        subject_name: str | None = None,
    ) -> ServerConfig:
        """Delete the configuration of a subject, or the global one.

        See `SchemaRegistryClient.delete_config` for the parameters and errors.
        """
        return await self._transport.run(self._calls.delete_config(subject_name))

    async def get_config(
        self,
        subject_name: str | None = None,
    ) -> ServerConfig:
        """Return the configuration of a subject, or the global one.

        See `SchemaRegistryClient.get_config` for the parameters and errors.
        """
        return await self._transport.run(self._calls.get_config(subject_name))

    async def get_mode(
        self,
        subject_name: str,
    ) -> str:
        """Return the mode of a subject.

        See `SchemaRegistryClient.get_mode` for the parameters and errors.
        """
        return await self._transport.run(self._calls.get_mode(subject_name))

    async def update_mode(
        self,
        subject_name: str,
        mode: str,
        force: bool = False,
    ) -> str:
        """Set the mode of a subject.

        See `SchemaRegistryClient.update_mode` for the parameters and errors.
        """
        return await self._transport.run(self._calls.update_mode(subject_name, mode, force))

    async def delete_mode(
        self,
        subject_name: str,
    ) -> str:
        """Delete the mode of a subject, so that the global one applies.

        See `SchemaRegistryClient.delete_mode` for the parameters and errors.
        """
        return await self._transport.run(self._calls.delete_mode(subject_name))

    async def get_global_mode(self) -> str:
        """Return the mode of the registry.

        See `SchemaRegistryClient.get_global_mode` for the parameters and errors.
        """
        return await self._transport.run(self._calls.get_mode(None))

    async def update_global_mode(
        self,
        mode: str,
        force: bool = False,
    ) -> str:
        """Set the mode of the registry.

        See `SchemaRegistryClient.update_global_mode` for the parameters and errors.
        """
        return await self._transport.run(self._calls.update_mode(None, mode, force))

    async def get_contexts(
        self,
        offset: int = 0,
        limit: int = -1,
    ) -> list[str]:
        """Return the contexts of the registry.

        See `SchemaRegistryClient.get_contexts` for the parameters and errors.
        """
        return await self._transport.run(self._calls.get_contexts(offset, limit))

    async def get_associations_by_resource_name(
        self,
        resource_name: str,
        resource_namespace: str,
        resource_type: str | None = None,
        association_types: list[str] | None = None,
        offset: int = 0,
        limit: int = -1,
    ) -> list[Association]:
        """Return the associations of a resource.

        See `SchemaRegistryClient.get_associations_by_resource_name` for the parameters and errors.
        """
        return await self._transport.run(
            self._calls.get_associations_by_resource_name(
                resource_name, resource_namespace, resource_type, association_types, offset, limit
            )
        )

    async def create_association(
        self,
        request: AssociationCreateOrUpdateRequest,
    ) -> AssociationResponse:
        """Associate subjects with a resource.

        See `SchemaRegistryClient.create_association` for the parameters and errors.
        """
        return await self._transport.run(self._calls.create_association(request))

    async def delete_associations(
        self,
        resource_id: str,
        resource_type: str | None = None,
        association_types: list[str] | None = None,
        cascade_lifecycle: bool = False,
    ) -> None:
        """Delete the associations of a resource.

        See `SchemaRegistryClient.delete_associations` for the parameters and errors.
        """
        await self._transport.run(
            self._calls.delete_associations(
                resource_id, resource_type, association_types, cascade_lifecycle
            )
        )

    async def clear_latest_caches(self) -> None:
        """Empty the caches of latest versions."""
        self._calls.clear_latest_caches()

    async def clear_caches(self) -> None:
        """Empty all caches of this client."""
        self._calls.clear_caches()
