"""DescribeUserScramCredentials and AlterUserScramCredentials: SCRAM users (KIP-554)."""

from __future__ import annotations

from kafka_native.protocol.api_keys import ApiKey
from kafka_native.protocol.schema import (
    Request,
    Response,
    Struct,
    array,
    data,
    error_text,
    int8,
    int16,
    int32,
    string,
)


class DescribeUserScramCredentialsRequest(
    Request, api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    """Ask for users' credentials. ``users=None`` means all users."""

    class User(Struct):
        """A user."""

        name: str = string("0+")

    users: list[User] | None = array(User, "0+", nullable="0+")


class DescribeUserScramCredentialsResponse(
    Response, api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    """The public part of the credentials."""

    class Result(Struct):
        """A user's credentials, or the error that the broker reports instead."""

        class CredentialInfo(Struct):
            """A credential."""

            mechanism: int = int8("0+")
            iterations: int = int32("0+")

        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+")
        credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = error_text("0+", nullable="0+")
    results: list[Result] = array(Result, "0+")


class AlterUserScramCredentialsRequest(
    Request, api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    """Delete, create or replace credentials."""

    class Deletion(Struct):
        """A credential to delete."""

        name: str = string("0+")
        mechanism: int = int8("0+")

    class Upsertion(Struct):
        """A credential to create or replace."""

        name: str = string("0+")
        mechanism: int = int8("0+")
        iterations: int = int32("0+")
        salt: bytes = data("0+")
        salted_password: bytes = data("0+")

        def __repr__(self) -> str:
            mechanism = f"mechanism={self.mechanism}, iterations={self.iterations}"
            return f"Upsertion(name={self.name!r}, {mechanism})"

    deletions: list[Deletion] = array(Deletion, "0+")
    upsertions: list[Upsertion] = array(Upsertion, "0+")


class AlterUserScramCredentialsResponse(
    Response, api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    """The outcome for each user."""

    class Result(Struct):
        """The outcome for one user."""

        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = error_text("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[Result] = array(Result, "0+")
