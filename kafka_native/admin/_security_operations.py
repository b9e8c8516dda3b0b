"""The operations about permissions and SCRAM users. They run on the control thread."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeVar

from kafka_native.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from kafka_native.admin._resource import WITHOUT_PERMISSIONS, ResourcePatternType, ResourceType
from kafka_native.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialDeletion,
    UserScramCredentialsDescription,
    UserScramCredentialUpsertion,
)
from kafka_native.admin._topic_operations import told
from kafka_native.control.operations import Operation, Settle, Steps
from kafka_native.errors import KafkaError
from kafka_native.protocol.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from kafka_native.protocol.schema import Request
from kafka_native.protocol.users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

E = TypeVar("E", bound=Enum)

SALT_BYTES = 32
HASHES = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


# --- permissions ---


def creation_of(acl: AclBinding) -> CreateAclsRequest.Creation:
    """A permission in the protocol's form."""
    return CreateAclsRequest.Creation(
        resource_type=acl.restype_int,
        resource_name=acl.name,
        resource_pattern_type=acl.resource_pattern_type_int,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation_int,
        permission_type=acl.permission_type_int,
    )


def _filter_fields(acl: AclBindingFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": acl.restype_int,
        "resource_name_filter": acl.name,
        "pattern_type_filter": acl.resource_pattern_type_int,
        "principal_filter": acl.principal,
        "host_filter": acl.host,
        "operation": acl.operation_int,
        "permission_type": acl.permission_type_int,
    }


def filter_of(acl: AclBindingFilter) -> DeleteAclsRequest.Filter:
    """A filter in the protocol's form."""
    return DeleteAclsRequest.Filter(**_filter_fields(acl))


def create_acls(creations: list[Any]) -> Request:
    """The request."""
    return CreateAclsRequest(creations=creations)


def delete_acls(filters: list[Any]) -> Request:
    """The request."""
    return DeleteAclsRequest(filters=filters)


def describe_acls(filters: list[AclBindingFilter]) -> Request:
    """The request, for one filter."""
    return DescribeAclsRequest(**_filter_fields(filters[0]))


def change_acls(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """CreateAcls or DeleteAcls, to the controller. Their results have the requests' order, and nothing else."""
    asked: list[Any] = []

    def make_in_order(keys: list[Any]) -> Request:
        asked[:] = keys
        return make(keys)

    def outcomes(reply: Any, target: int | None) -> dict[AclBinding, Any]:
        results = reply.results if isinstance(reply, CreateAclsResponse) else reply.filter_results
        if len(results) != len(asked):
            error = KafkaError(KafkaError._BAD_MSG, f"{len(results)} results for {len(asked)} permissions")
            return dict.fromkeys(asked, error)
        return {
            key: told(each.error_code, each.error_message) or _deleted(each)
            for key, each in zip(asked, results, strict=True)
        }

    return operation.rounds(items, operation.controller, make_in_order, outcomes, settle, change=True)


def _deleted(result: Any) -> list[AclBinding] | KafkaError | None:
    """What a filter has deleted; None for a permission that was made."""
    if not isinstance(result, DeleteAclsResponse.FilterResult):
        return None
    for each in result.matching_acls:
        if each.error_code:
            return KafkaError(each.error_code, each.error_message or None)
    return [_binding(each, each) for each in result.matching_acls]


def find_acls(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DescribeAcls, to any broker."""

    def outcomes(reply: DescribeAclsResponse, target: int | None) -> dict[None, Any]:
        found = [_binding(resource, acl) for resource in reply.resources for acl in resource.acls]
        return {None: told(reply.error_code, reply.error_message) or found}

    return operation.rounds(items, operation.anywhere, make, outcomes, settle, change=False)


def _binding(resource: Any, acl: Any) -> AclBinding:
    """A permission as a broker tells it; what a newer broker says is UNKNOWN."""
    kind = _known(resource.resource_type, ResourceType)
    return AclBinding(
        ResourceType.UNKNOWN if kind in WITHOUT_PERMISSIONS else kind,
        resource.resource_name,
        _known(resource.pattern_type, ResourcePatternType),
        acl.principal,
        acl.host,
        _known(acl.operation, AclOperation),
        _known(acl.permission_type, AclPermissionType),
    )


def _known(number: int, kind: type[E]) -> E:
    return next((each for each in kind if each.value == number and each.name != "ANY"), kind["UNKNOWN"])


# --- users ---


def alterations_by_user(alterations: Iterable[UserScramCredentialAlteration]) -> list[tuple[str, Any]]:
    """Each user with the changes in the protocol's form, or why they can't be made. Hashes the passwords."""
    by_user: dict[str, Any] = {}
    for each in alterations:
        changes = by_user.setdefault(each.user, [])
        made = _change(each)
        if isinstance(made, KafkaError):
            by_user[each.user] = made
        elif not isinstance(changes, KafkaError):
            changes.append(made)
    return list(by_user.items())


def _change(alteration: UserScramCredentialAlteration) -> Any:
    if isinstance(alteration, UserScramCredentialDeletion):
        mechanism = alteration.mechanism.value
        return AlterUserScramCredentialsRequest.Deletion(name=alteration.user, mechanism=mechanism)
    assert isinstance(alteration, UserScramCredentialUpsertion)
    info = alteration.scram_credential_info
    if info.mechanism not in HASHES:
        return KafkaError(KafkaError.UNSUPPORTED_SASL_MECHANISM, f"{info.mechanism.name} is no SCRAM mechanism")
    salt = alteration.salt or secrets.token_bytes(SALT_BYTES)
    return AlterUserScramCredentialsRequest.Upsertion(
        name=alteration.user,
        mechanism=info.mechanism.value,
        iterations=info.iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(HASHES[info.mechanism], alteration.password, salt, info.iterations),
    )


def alter_credentials(changes: list[list[Any]]) -> Request:
    """The request, with the changes of some users."""
    everything = [each for of_user in changes for each in of_user]
    deletion = AlterUserScramCredentialsRequest.Deletion
    return AlterUserScramCredentialsRequest(
        deletions=[each for each in everything if isinstance(each, deletion)],
        upsertions=[each for each in everything if not isinstance(each, deletion)],
    )


def alter_users(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """AlterUserScramCredentials, to the controller."""

    def outcomes(reply: AlterUserScramCredentialsResponse, target: int | None) -> dict[str, KafkaError | None]:
        return {each.user: told(each.error_code, each.error_message) for each in reply.results}

    return operation.rounds(items, operation.controller, make, outcomes, settle, change=True)


def describe_credentials(users: list[str]) -> Request:
    """The request; no users stand for all."""
    user = DescribeUserScramCredentialsRequest.User
    return DescribeUserScramCredentialsRequest(users=[user(name=name) for name in users] or None)


def describe_all(names: list[None]) -> Request:
    """The request for all users."""
    return describe_credentials([])


def describe_users(
    make: Callable[[list[Any]], Request], items: dict[Any, Any], settle: Settle, operation: Operation
) -> Steps[None]:
    """DescribeUserScramCredentials, to any broker: of the users that are the items, or of all for the item None."""

    def outcomes(reply: DescribeUserScramCredentialsResponse, target: int | None) -> dict[Any, Any]:
        if reply.error_code:
            return dict.fromkeys(items, KafkaError(reply.error_code, reply.error_message or None))
        found = {each.user: told(each.error_code, each.error_message) or _described(each) for each in reply.results}
        return {None: found} if None in items else found

    return operation.rounds(items, operation.anywhere, make, outcomes, settle, change=False)


def _described(result: DescribeUserScramCredentialsResponse.Result) -> UserScramCredentialsDescription:
    infos = [
        ScramCredentialInfo(_known(each.mechanism, ScramMechanism), each.iterations) for each in result.credential_infos
    ]
    return UserScramCredentialsDescription(result.user, infos)
