"""The users, tokens and keys that can authenticate. No ``repr`` here shows a secret."""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kafka_native.mock.access import Access, Credential

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping


class Scram(NamedTuple):
    """A SCRAM mechanism: its number in the protocol and its hash."""

    number: int
    hash: str


SCRAM: Final = {"SCRAM-SHA-256": Scram(1, "sha256"), "SCRAM-SHA-512": Scram(2, "sha512")}


NO_EXPIRY_MS: Final = (1 << 63) - 1


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token (KIP-48): its owner, and its HMAC in base64, which is the password.

    A token that a client created also has a requester, renewers and an expiry. Times are
    milliseconds since 1970.
    """

    owner: str
    hmac: str = field(repr=False)
    requester: str = ""
    renewers: tuple[str, ...] = ()
    issue_ms: int = 0
    expiry_ms: int = NO_EXPIRY_MS
    max_ms: int = NO_EXPIRY_MS

    def is_over(self) -> bool:
        """Return whether the token has expired."""
        return self.expiry_ms <= time.time() * 1000

    def may_renew(self, user: str) -> bool:
        """Return whether this user may change the expiry."""
        return user in (self.owner, self.requester, *self.renewers)


@dataclass(frozen=True)
class AwsKey:
    """The secret of an AWS access key, and the session token that it requires, if any."""

    secret: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class Accounts:
    """Users, delegation tokens and AWS keys of a cluster. ``lock`` is the cluster's lock.

    A user has a password for PLAIN, and SCRAM credentials that are derived from the password.
    Administrators can change the SCRAM credentials, so they can differ from the password.
    """

    def __init__(
        self,
        lock: threading.RLock,
        access: Access,
        iterations: int,
        tokens: Mapping[str, DelegationToken],
        aws_keys: Mapping[str, AwsKey],
    ) -> None:
        """Start without users."""
        self.aws_keys = dict(aws_keys)
        self._lock = lock
        self._access = access
        self._iterations = iterations
        self._passwords: dict[str, str] = {}
        self.tokens = dict(tokens)

    def set_password(self, user: str, password: str | None) -> None:
        """Set a user's password for all mechanisms. None removes the user."""
        credentials = (
            {}
            if password is None
            else {one.number: self._derive(one, password) for one in SCRAM.values()}
        )
        with self._lock:
            self._passwords.pop(user, None)
            self._access.users.pop(user, None)
            if password is not None:
                self._passwords[user] = password
                self._access.users[user] = credentials

    def has_password(self, user: str, password: str) -> bool:
        """Return whether this is the user's password."""
        with self._lock:
            expected = self._passwords.get(user)
        return expected is not None and hmac.compare_digest(expected.encode(), password.encode())

    def scram(self, mechanism: Scram, user: str) -> Credential | None:
        """Return the SCRAM credential of a user, or None."""
        with self._lock:
            return self._access.users.get(user, {}).get(mechanism.number)

    def scram_token(self, mechanism: Scram, token: str) -> tuple[str, Credential] | None:
        """Return the owner of a delegation token and the token's credential, or None."""
        with self._lock:
            found = self.tokens.get(token)
        return (
            None
            if found is None or found.is_over()
            else (found.owner, self._derive(mechanism, found.hmac))
        )

    def _derive(self, mechanism: Scram, password: str) -> Credential:
        salt = os.urandom(16)
        salted = hashlib.pbkdf2_hmac(mechanism.hash, password.encode(), salt, self._iterations)
        return Credential(self._iterations, salt, salted)
