"""The handler for ApiVersions requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.quorum import SUPPORTED
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from kafka_native.mock.call import Call


def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """Return the APIs, versions and features of this cluster.

    A client that expects another broker has to start again from its bootstrap servers (KIP-1242).
    As in Apache Kafka, a request before the authentication isn't checked.
    """
    if (request.cluster_id is None) != (request.node_id == -1):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if (
        call.connection.login.is_open
        and request.cluster_id is not None
        and (request.cluster_id, request.node_id) != (call.cluster.cluster_id, call.broker.id)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    call.connection.login.note_api_versions()
    return _describe_versions(call)


def _describe_versions(call: Call) -> ApiVersionsResponse:
    quorum = call.cluster.quorum
    return ApiVersionsResponse(
        supported_features=[
            ApiVersionsResponse.SupportedFeature(name=name, min_version=first, max_version=last)
            for name, (first, last) in SUPPORTED.items()
        ],
        finalized_features_epoch=quorum.epoch,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeature(
                name=name, min_version_level=level, max_version_level=level
            )
            for name, level in quorum.levels.items()
            if level
        ],
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in call.cluster.settings.versions.items()
        ],
    )


def refuse_version(call: Call) -> ApiVersionsResponse:
    """Return the error for an ApiVersions version that is too new, with the supported versions."""
    response = _describe_versions(call)
    response.error_code = ErrorCode.UNSUPPORTED_VERSION
    return response
