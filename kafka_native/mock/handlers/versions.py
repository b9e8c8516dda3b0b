"""ApiVersions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.protocol.versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from kafka_native.mock.call import Call


def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """What this cluster speaks."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=first, max_version=last)
            for key, (first, last) in call.cluster.versions.items()
        ]
    )


def unsupported(call: Call) -> ApiVersionsResponse:
    """The refusal of a version of ApiVersions that is too new, with the versions to choose from."""
    response = api_versions(call, ApiVersionsRequest())
    response.error_code = ErrorCode.UNSUPPORTED_VERSION
    return response
