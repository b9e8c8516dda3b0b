"""ApiVersions: the APIs and versions of a broker, the first request on a connection."""

from __future__ import annotations

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
)


class ApiVersionsRequest(Request, api_key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    """Ask a broker for its APIs and versions. It is the first request on a connection.

    ``cluster_id`` and ``node_id`` name the broker that the client expects (KIP-1242). A request has
    both or neither.
    """

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)


class ApiVersionsResponse(Response, api_key=ApiKey.API_VERSIONS, versions="0-5", flexible="3+"):
    """The APIs and versions of the broker.

    Its header always has version 0, so that every client can read the refusal of a version.
    """

    class ApiVersion(Struct):
        """The versions of one API."""

        api_key: int = int16("0+")
        min_version: int = int16("0+")
        max_version: int = int16("0+")

    class SupportedFeature(Struct):
        """A feature and the levels that this broker supports."""

        name: str = string("3+")
        min_version: int = int16("3+")
        max_version: int = int16("3+")

    class FinalizedFeature(Struct):
        """A feature and the level that the whole cluster uses."""

        name: str = string("3+")
        max_version_level: int = int16("3+")
        min_version_level: int = int16("3+")

    error_code: int = int16("0+")
    api_keys: list[ApiVersion] = array(ApiVersion, "0+")
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeature] = array(
        SupportedFeature, "3+", tag=0, ignorable=True
    )
    finalized_features_epoch: int = int64("3+", default=-1, tag=1, ignorable=True)  # -1: unknown
    finalized_features: list[FinalizedFeature] = array(
        FinalizedFeature, "3+", tag=2, ignorable=True
    )
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)
