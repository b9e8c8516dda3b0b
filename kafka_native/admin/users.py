"""Users: their SCRAM credentials (KIP-554), and the credentials of the client itself."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from concurrent.futures import Future
from typing import TypeAlias, cast, overload

from kafka_native.admin.base import AdminBase, error_or_none, known_member, list_of
from kafka_native.control.operations import AdminOperation, Operation, Portion
from kafka_native.errors import KafkaError
from kafka_native.protocol.users import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kafka_native.types import OrderedEnum

SALT_BYTES = 32
ITERATIONS_MAX = 1_000_000
"""The maximum for a SCRAM credential: more would block the caller for minutes."""


class ScramMechanism(OrderedEnum):
    """A SCRAM mechanism for passwords."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredentialInfo:
    """The public data of a credential.

    :param mechanism: Its mechanism.
    :param iterations: How often the password is hashed.
    """

    def __init__(self, mechanism: ScramMechanism, iterations: int) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class UserScramCredentialsDescription:
    """A user's credentials.

    :param user: The user's name.
    :param scram_credential_infos: The public data of each.
    """

    def __init__(self, user: str, scram_credential_infos: list[ScramCredentialInfo]) -> None:
        self.user = user
        self.scram_credential_infos = scram_credential_infos


class UserScramCredentialAlteration:
    """A change of a user's credentials.

    :param user: The user's name.
    """

    def __init__(self, user: str) -> None:
        self.user = user


class UserScramCredentialUpsertion(UserScramCredentialAlteration):
    """A credential to create or to replace.

    :param user: The user's name.
    :param scram_credential_info: Its mechanism and iterations.
    :param password: The password; never shown.
    :param salt: The salt; None: a random one.
    """

    def __init__(
        self,
        user: str,
        scram_credential_info: ScramCredentialInfo,
        password: bytes,
        salt: bytes | None = None,
    ) -> None:
        super().__init__(user)
        self.scram_credential_info = scram_credential_info
        self.password = password
        self.salt = salt


class UserScramCredentialDeletion(UserScramCredentialAlteration):
    """A credential to delete.

    :param user: The user's name.
    :param mechanism: Its mechanism.
    """

    def __init__(self, user: str, mechanism: ScramMechanism) -> None:
        super().__init__(user)
        self.mechanism = mechanism


Change: TypeAlias = (
    "AlterUserScramCredentialsRequest.Deletion | AlterUserScramCredentialsRequest.Upsertion"
)

HASHES = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


# --- altering ---


def _checked_alterations(given: object) -> list[UserScramCredentialAlteration]:
    """The given changes of SCRAM credentials, after a check. No error text contains a password."""
    found = list_of(given, UserScramCredentialAlteration)
    for each in found:
        if not isinstance(each.user, str):
            raise TypeError("'user' must be a string")
        if not each.user:
            raise ValueError("'user' cannot be empty")
        if isinstance(each, UserScramCredentialUpsertion):
            _check_upsertion(each)
        elif not isinstance(each, UserScramCredentialDeletion):
            raise TypeError(
                "expected a UserScramCredentialUpsertion or a UserScramCredentialDeletion"
            )
        elif not isinstance(each.mechanism, ScramMechanism):
            raise TypeError("Expected the mechanism to be ScramMechanism Type")
    return found


def _check_upsertion(upsertion: UserScramCredentialUpsertion) -> None:
    for name, secret in (("password", upsertion.password), ("salt", upsertion.salt)):
        if secret is None and name == "salt":
            continue
        if not isinstance(secret, bytes):
            raise TypeError(f"'{name}' must be bytes")
        if not secret:
            raise ValueError(f"'{name}' cannot be empty")
    info = upsertion.scram_credential_info
    if not isinstance(info, ScramCredentialInfo):
        raise TypeError("Expected credential_info to be ScramCredentialInfo Type")
    if isinstance(info.iterations, bool) or not isinstance(info.iterations, int):
        raise TypeError("Iterations should be an integer")
    if not 1 <= info.iterations <= ITERATIONS_MAX:
        raise ValueError(f"Iterations should be positive, and at most {ITERATIONS_MAX}")
    if not isinstance(info.mechanism, ScramMechanism):
        raise TypeError("Expected the mechanism to be ScramMechanism Type")


def _changes_by_user(
    alterations: Iterable[UserScramCredentialAlteration],
) -> list[tuple[str, list[Change] | KafkaError]]:
    """Each user with the changes in the protocol's form, or with an error. Hashes the passwords."""
    by_user: dict[str, list[Change] | KafkaError] = {}
    for each in alterations:
        changes = by_user.setdefault(each.user, [])
        made = _change(each)
        if isinstance(made, KafkaError):
            by_user[each.user] = made
        elif not isinstance(changes, KafkaError):
            changes.append(made)
    return list(by_user.items())


def _change(alteration: UserScramCredentialAlteration) -> Change | KafkaError:
    if isinstance(alteration, UserScramCredentialDeletion):
        mechanism = alteration.mechanism.value
        return AlterUserScramCredentialsRequest.Deletion(name=alteration.user, mechanism=mechanism)
    assert isinstance(alteration, UserScramCredentialUpsertion)
    info = alteration.scram_credential_info
    if info.mechanism not in HASHES:
        return KafkaError(
            KafkaError.UNSUPPORTED_SASL_MECHANISM, f"{info.mechanism.name} is no SCRAM mechanism"
        )
    salt = alteration.salt or secrets.token_bytes(SALT_BYTES)
    return AlterUserScramCredentialsRequest.Upsertion(
        name=alteration.user,
        mechanism=info.mechanism.value,
        iterations=info.iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(
            HASHES[info.mechanism], alteration.password, salt, info.iterations
        ),
    )


def _alter_request(changes: list[list[Change]]) -> AlterUserScramCredentialsRequest:
    """The request with the changes of some users."""
    everything = [each for of_user in changes for each in of_user]
    deletion, upsertion = (
        AlterUserScramCredentialsRequest.Deletion,
        AlterUserScramCredentialsRequest.Upsertion,
    )
    return AlterUserScramCredentialsRequest(
        deletions=[each for each in everything if isinstance(each, deletion)],
        upsertions=[each for each in everything if isinstance(each, upsertion)],
    )


ALTER_USERS: AdminOperation[str, list[Change], AlterUserScramCredentialsResponse, None] = (
    AdminOperation(
        destination=Operation.controller,
        request=_alter_request,
        outcomes=lambda response, portion: {
            each.user: error_or_none(each.error_code, each.error_message)
            for each in response.results
        },
        change=True,
    )
)


# --- describing ---


def _describe_request(users: list[str]) -> DescribeUserScramCredentialsRequest:
    """The request; no users: all."""
    user = DescribeUserScramCredentialsRequest.User
    return DescribeUserScramCredentialsRequest(users=[user(name=name) for name in users] or None)


Credentials: TypeAlias = "dict[str, UserScramCredentialsDescription | KafkaError]"


def _described(response: DescribeUserScramCredentialsResponse) -> Credentials | KafkaError:
    if response.error_code:
        return KafkaError(response.error_code, response.error_message or None)
    return {
        each.user: error_or_none(each.error_code, each.error_message) or _credentials_of(each)
        for each in response.results
    }


def _credentials_of(
    result: DescribeUserScramCredentialsResponse.Result,
) -> UserScramCredentialsDescription:
    infos = [
        ScramCredentialInfo(known_member(each.mechanism, ScramMechanism), each.iterations)
        for each in result.credential_infos
    ]
    return UserScramCredentialsDescription(result.user, infos)


def _described_some(
    response: DescribeUserScramCredentialsResponse, portion: Portion[str, str]
) -> Credentials:
    found = _described(response)
    return dict.fromkeys(portion.items, found) if isinstance(found, KafkaError) else found


DESCRIBE_USERS: AdminOperation[
    str, str, DescribeUserScramCredentialsResponse, UserScramCredentialsDescription
] = AdminOperation(
    destination=Operation.anywhere,
    request=_describe_request,
    outcomes=_described_some,
    change=False,
)
DESCRIBE_ALL_USERS: AdminOperation[
    None, None, DescribeUserScramCredentialsResponse, dict[str, UserScramCredentialsDescription]
] = AdminOperation(
    destination=Operation.anywhere,
    request=lambda _: _describe_request([]),
    outcomes=lambda response, portion: {
        None: cast("dict[str, UserScramCredentialsDescription] | KafkaError", _described(response))
    },
    change=False,
)


class UsersAdmin(AdminBase):
    """The admin calls about users."""

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Sets another user name and password; see `Producer.set_sasl_credentials`."""
        self._check_open()
        self._client.set_sasl_credentials(username, password)

    @overload
    def describe_user_scram_credentials(
        self, users: None = None, *, request_timeout: float = -1
    ) -> Future[dict[str, UserScramCredentialsDescription]]: ...

    @overload
    def describe_user_scram_credentials(
        self, users: list[str], *, request_timeout: float = -1
    ) -> dict[str, Future[UserScramCredentialsDescription]]: ...

    def describe_user_scram_credentials(
        self, users: list[str] | None = None, *, request_timeout: float = -1
    ) -> (
        Future[dict[str, UserScramCredentialsDescription]]
        | dict[str, Future[UserScramCredentialsDescription]]
    ):
        """Describes users' SCRAM credentials, without secrets (KIP-554).

        :param users: Their names; None for all users.
        :return: One future per user, by name: KafkaException, for instance RESOURCE_NOT_FOUND. With
            ``users`` None, one future for all.
        """
        timeout_s = self._request_timeout(request_timeout)
        if users is None:
            return self._start_one(DESCRIBE_ALL_USERS, None, timeout_s)
        names = list_of(users, str, length_min=0)
        if not all(names):
            raise ValueError("'user' cannot be empty")
        return self._start(DESCRIBE_USERS, [(each, each) for each in names], timeout_s)

    def alter_user_scram_credentials(
        self, alterations: list[UserScramCredentialAlteration], *, request_timeout: float = -1
    ) -> dict[str, Future[None]]:
        """Creates, changes and deletes users' SCRAM credentials (KIP-554).

        Passwords are hashed here, not sent.

        :param alterations: The changes. Apache Kafka accepts one per user at a time
            (DUPLICATE_RESOURCE).
        :return: One future per user, by name: None when it is done.
        """
        items = _changes_by_user(_checked_alterations(alterations))
        return self._start(ALTER_USERS, items, self._request_timeout(request_timeout))
