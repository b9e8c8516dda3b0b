"""DescribeAcls, CreateAcls and DeleteAcls: permissions (KIP-140)."""

from __future__ import annotations

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    error_text,
    int8,
    int16,
    int32,
    string,
)

LITERAL = 3
"""The pattern type LITERAL: the name is the resource's own. Version 0 has no other type."""


class DescribeAclsRequest(Request, api_key=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    """Ask for the permissions that match a filter. None as a name matches every name."""

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=LITERAL)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


class DescribeAclsResponse(Response, api_key=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    """Permissions by resource."""

    class Resource(Struct):
        """A resource with its permissions."""

        class Acl(Struct):
            """A permission."""

            principal: str = string("0+")
            host: str = string("0+")
            operation: int = int8("0+")
            permission_type: int = int8("0+")

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        pattern_type: int = int8("1+", default=LITERAL)
        acls: list[Acl] = array(Acl, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+")
    resources: list[Resource] = array(Resource, "0+")


class CreateAclsRequest(Request, api_key=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    """Create permissions."""

    class Creation(Struct):
        """A permission."""

        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        resource_pattern_type: int = int8("1+", default=LITERAL)
        principal: str = string("0+")
        host: str = string("0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    creations: list[Creation] = array(Creation, "0+")


class CreateAclsResponse(Response, api_key=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    """The outcome for each permission, in the request's order."""

    class Result(Struct):
        """The outcome for one permission."""

        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[Result] = array(Result, "0+")


class DeleteAclsRequest(Request, api_key=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    """Delete the permissions that match filters."""

    class Filter(Struct):
        """A filter. None as a name matches every name."""

        resource_type_filter: int = int8("0+")
        resource_name_filter: str | None = string("0+", nullable="0+")
        pattern_type_filter: int = int8("1+", default=LITERAL)
        principal_filter: str | None = string("0+", nullable="0+")
        host_filter: str | None = string("0+", nullable="0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    filters: list[Filter] = array(Filter, "0+")


class DeleteAclsResponse(Response, api_key=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    """The outcome for each filter, in the request's order."""

    class FilterResult(Struct):
        """The outcome of one filter."""

        class MatchingAcl(Struct):
            """A permission that matches, and whether it was deleted."""

            error_code: int = int16("0+")
            error_message: str | None = error_text("0+", nullable="0+")
            resource_type: int = int8("0+")
            resource_name: str = string("0+")
            pattern_type: int = int8("1+", default=LITERAL)
            principal: str = string("0+")
            host: str = string("0+")
            operation: int = int8("0+")
            permission_type: int = int8("0+")

        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+")
        matching_acls: list[MatchingAcl] = array(MatchingAcl, "0+")

    throttle_time_ms: int = int32("0+")
    filter_results: list[FilterResult] = array(FilterResult, "0+")
