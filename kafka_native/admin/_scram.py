"""Credentials of SCRAM users (KIP-554)."""

from __future__ import annotations

from kafka_native.types import OrderedEnum


class ScramMechanism(OrderedEnum):
    """A SCRAM mechanism."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ScramCredentialInfo:
    """What is told of a credential.

    :param mechanism: Its mechanism.
    :param iterations: How often the password is hashed.
    """

    def __init__(self, mechanism: ScramMechanism, iterations: int) -> None:
        """Make one; see the class for the arguments."""
        self.mechanism = mechanism
        self.iterations = iterations


class UserScramCredentialsDescription:
    """A user's credentials.

    :param user: The user's name.
    :param scram_credential_infos: What is told of each.
    """

    def __init__(self, user: str, scram_credential_infos: list[ScramCredentialInfo]) -> None:
        """Make one; see the class for the arguments."""
        self.user = user
        self.scram_credential_infos = scram_credential_infos


class UserScramCredentialAlteration:
    """A change of a user's credentials.

    :param user: The user's name.
    """

    def __init__(self, user: str) -> None:
        """Make one; see the class for the arguments."""
        self.user = user


class UserScramCredentialUpsertion(UserScramCredentialAlteration):
    """A credential that is to be made, or to be another.

    :param user: The user's name.
    :param scram_credential_info: Its mechanism and iterations.
    :param password: The password; never shown.
    :param salt: The salt; None for one by chance.
    """

    def __init__(
        self, user: str, scram_credential_info: ScramCredentialInfo, password: bytes, salt: bytes | None = None
    ) -> None:
        """Make one; see the class for the arguments."""
        super().__init__(user)
        self.scram_credential_info = scram_credential_info
        self.password = password
        self.salt = salt


class UserScramCredentialDeletion(UserScramCredentialAlteration):
    """A credential that is to be deleted.

    :param user: The user's name.
    :param mechanism: Its mechanism.
    """

    def __init__(self, user: str, mechanism: ScramMechanism) -> None:
        """Make one; see the class for the arguments."""
        super().__init__(user)
        self.mechanism = mechanism
