"""Handlers for ACLs and SCRAM credentials."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kafka_native._reference.error_codes import ErrorCode
from kafka_native.mock.access import ANY, LITERAL, PREFIXED, Acl, AclFilter, Credential
from kafka_native.protocol.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kafka_native.protocol.users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from kafka_native.mock.call import Call

MECHANISMS = {1: 32, 2: 64}
"""The SCRAM mechanisms, and the lengths of their hashes in bytes."""
ITERATIONS = range(4096, 16385)


def create_acls(call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
    """Store ACLs. An existing equal one stays."""
    response = CreateAclsResponse()
    for each in request.creations:
        result = CreateAclsResponse.Result(error_message=None)
        response.results.append(result)
        numbers = (each.resource_type, each.operation, each.permission_type)
        if (
            min(numbers) <= ANY
            or each.resource_pattern_type not in (LITERAL, PREFIXED)
            or ":" not in each.principal
        ):
            result.error_code, result.error_message = (
                ErrorCode.INVALID_REQUEST,
                "it isn't a single permission",
            )
            continue
        acl = Acl(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        with call.cluster.lock:
            call.cluster.access.acls[acl] = None
    return response


def _filter(requested: DescribeAclsRequest | DeleteAclsRequest.Filter) -> AclFilter:
    return AclFilter(
        requested.resource_type_filter,
        requested.resource_name_filter,
        requested.pattern_type_filter,
        requested.principal_filter,
        requested.host_filter,
        requested.operation,
        requested.permission_type,
    )


def describe_acls(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """Return the ACLs that match a filter, by resource."""
    with call.cluster.lock:
        found = sorted(call.cluster.access.matching(_filter(request)))
    response = DescribeAclsResponse(error_message=None)
    for (kind, name, pattern), acls in groupby(found, key=lambda acl: acl[:3]):
        resource = DescribeAclsResponse.Resource(
            resource_type=kind, resource_name=name, pattern_type=pattern
        )
        resource.acls = [
            DescribeAclsResponse.Resource.Acl(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
            for acl in acls
        ]
        response.resources.append(resource)
    return response


def delete_acls(call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Delete the ACLs that match, and return them.

    All filters of a request are matched before any ACL is deleted.
    """
    response = DeleteAclsResponse()
    matching = DeleteAclsResponse.FilterResult.MatchingAcl
    with call.cluster.lock:
        access = call.cluster.access
        found = [access.matching(_filter(each)) for each in request.filters]
        for acls in found:
            for acl in acls:
                access.acls.pop(acl, None)
    for acls in found:
        matches = [matching(error_message=None, **acl._asdict()) for acl in acls]
        response.filter_results.append(
            DeleteAclsResponse.FilterResult(error_message=None, matching_acls=matches)
        )
    return response


def describe_user_scram_credentials(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return mechanisms and iterations of some users, or of all."""
    response = DescribeUserScramCredentialsResponse(error_message=None)
    info = DescribeUserScramCredentialsResponse.Result.CredentialInfo
    with call.cluster.lock:
        users = call.cluster.access.users
        for name in [each.name for each in request.users] if request.users else list(users):
            result = DescribeUserScramCredentialsResponse.Result(user=name, error_message=None)
            response.results.append(result)
            if name in users:
                result.credential_infos = [
                    info(mechanism=mechanism, iterations=each.iterations)
                    for mechanism, each in users[name].items()
                ]
            else:
                result.error_code = ErrorCode.RESOURCE_NOT_FOUND
    return response


def alter_user_scram_credentials(
    call: Call, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change the SCRAM credentials of users."""
    response = AlterUserScramCredentialsResponse()
    names = dict.fromkeys(
        [each.name for each in request.deletions] + [each.name for each in request.upsertions]
    )
    with call.cluster.lock:
        users = call.cluster.access.users
        for name in names:
            known = users.get(name, {})
            deletions = [each for each in request.deletions if each.name == name]
            upsertions = [each for each in request.upsertions if each.name == name]
            code = _error_code(known, deletions, upsertions)
            response.results.append(
                AlterUserScramCredentialsResponse.Result(
                    user=name, error_code=code, error_message=None
                )
            )
            if code:
                continue
            deleted = {each.mechanism for each in deletions}
            new = {
                each.mechanism: Credential(each.iterations, each.salt, each.salted_password)
                for each in upsertions
            }
            users[name] = {
                mechanism: each for mechanism, each in known.items() if mechanism not in deleted
            } | new
            if not users[name]:
                del users[name]
    return response


def _error_code(
    known: dict[int, Credential],
    deletions: list[AlterUserScramCredentialsRequest.Deletion],
    upsertions: list[AlterUserScramCredentialsRequest.Upsertion],
) -> ErrorCode:
    mechanisms = [each.mechanism for each in deletions] + [each.mechanism for each in upsertions]
    if len(mechanisms) > 1:
        # One change of a user at a time, as in Apache Kafka.
        return ErrorCode.DUPLICATE_RESOURCE
    if not set(mechanisms) <= MECHANISMS.keys():
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM
    if any(each.mechanism not in known for each in deletions):
        return ErrorCode.RESOURCE_NOT_FOUND
    for each in upsertions:
        if (
            each.iterations not in ITERATIONS
            or len(each.salted_password) != MECHANISMS[each.mechanism]
        ):
            return ErrorCode.UNACCEPTABLE_CREDENTIAL
    return ErrorCode.NO_ERROR
