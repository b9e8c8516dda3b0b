"""Who may log in, by which secrets. Nothing here shows a secret in its repr."""

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


FOR_EVER_MS: Final = (1 << 63) - 1


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token (KIP-48): who it stands for, and its HMAC in base64, which is the password.

    Those that clients ask for have users besides who asked for them and who may renew them, and end; times are
    milliseconds since 1970.
    """

    owner: str
    hmac: str = field(repr=False)
    requester: str = ""
    renewers: tuple[str, ...] = ()
    issue_ms: int = 0
    expiry_ms: int = FOR_EVER_MS
    max_ms: int = FOR_EVER_MS

    def is_over(self) -> bool:
        """Whether nobody gets in by it any more."""
        return self.expiry_ms <= time.time() * 1000

    def may_renew(self, user: str) -> bool:
        """Whether this user may say when it ends."""
        return user in (self.owner, self.requester, *self.renewers)


@dataclass(frozen=True)
class AwsKey:
    """The secret of an AWS access key, and the session token that has to come with it, if any."""

    secret: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


class Accounts:
    """Users, delegation tokens and AWS keys of a cluster; ``lock`` is the cluster's.

    Users have a password for PLAIN and SCRAM credentials that are derived from it. The SCRAM credentials are those that
    administrators see and change, so the two may part.
    """

    def __init__(
        self,
        lock: threading.RLock,
        access: Access,
        iterations: int,
        tokens: Mapping[str, DelegationToken],
        aws_keys: Mapping[str, AwsKey],
    ) -> None:
        """Nobody but the holders of tokens and keys."""
        self.aws_keys = dict(aws_keys)
        self._lock = lock
        self._access = access
        self._iterations = iterations
        self._passwords: dict[str, str] = {}
        self.tokens = dict(tokens)

    def set_password(self, user: str, password: str | None) -> None:
        """Let a user have this password, for all mechanisms; None: there is no such user."""
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

    def knows(self, user: str, password: str) -> bool:
        """Whether this is the user's password."""
        with self._lock:
            expected = self._passwords.get(user)
        return expected is not None and hmac.compare_digest(expected.encode(), password.encode())

    def scram(self, mechanism: Scram, user: str) -> Credential | None:
        """The SCRAM credential of a user."""
        with self._lock:
            return self._access.users.get(user, {}).get(mechanism.number)

    def scram_token(self, mechanism: Scram, token: str) -> tuple[str, Credential] | None:
        """The owner of a delegation token, and its credential."""
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
