"""The interface between a SASL mechanism and the control plane, which sends its bytes.

Thread: a `Mechanism` belongs to one client. The client's control thread calls it. The client's
security thread refreshes it, and makes the steps of an `Exchange` that is ``slow``. Any thread may
call `Mechanism.set_credentials()`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from kafka_native.cleaning import printable
from kafka_native.security.redaction import REDACTED, Secrets, redacted
from kafka_native.security.secret_buffer import SecretBuffer

TEXT_MAX_CHARACTERS = 500


class SaslError(Exception):
    """The reason of a failed authentication. The text is for the user and contains no secret."""


class Credentials:
    """A user's name and password. The repr doesn't show the password.

    The password is overwritten with the last reference, or by `wipe()`.
    """

    __slots__ = ("_password", "username")

    def __init__(self, username: str, password: str) -> None:
        """Store the values as the user gave them."""
        self.username = username
        self._password = SecretBuffer(password)

    @property
    def password(self) -> str:
        """A new copy of the password."""
        return self._password.text()

    def wipe(self) -> None:
        """Overwrite the password."""
        self._password.wipe()

    def __repr__(self) -> str:
        return f"Credentials({self.username!r}, {REDACTED})"


class Exchange(ABC):
    """The client's side of one authentication on one connection."""

    slow = True
    """True if the next step may take long (hashing, HTTP, your callback).

    The security thread makes it. Otherwise the control thread does, and waits for no other work.
    """
    done = False
    """True when the mechanism has all that it needs to trust the broker."""
    said_all = False
    """True when the mechanism has made its last message and needs no reply to it.

    A broker before 1.0 sends none then.
    """
    problem = ""
    """The broker's description of a failure, if the broker reports the failure itself later."""

    @abstractmethod
    def begin(self) -> bytes:
        """Return the first message. Raise SaslError if there are no credentials."""

    @abstractmethod
    def respond(self, challenge: bytes) -> bytes | None:
        """Return the response to the broker's message, or None if none is due.

        :raises SaslError: The broker's message is invalid.
        """


class Mechanism(ABC):
    """The authentication of one client."""

    name: str
    """The name in SaslHandshake."""

    @property
    @abstractmethod
    def user(self) -> str:
        """The name of the user, for errors and the log; empty if unknown."""

    @property
    @abstractmethod
    def exposes(self) -> str:
        """The data that an eavesdropper can use without TLS, for instance "sees the password".

        Empty means nothing. A hash that needs guessing (SCRAM) doesn't count. A message that the
        broker would accept again counts.
        """

    @abstractmethod
    def exchange(self, host: str, port: int) -> Exchange:
        """Start an authentication with the broker at this address."""

    def remarks(self, encrypted: bool) -> list[str]:
        """Return the warnings that the client logs once.

        ``encrypted``: the connections to brokers use TLS.
        """
        if encrypted or not self.exposes:
            return []
        reader = "anyone who can read the network traffic"
        return [f"SASL {self.name} without TLS: {reader} {self.exposes}"]

    def secrets(self) -> Iterable[str]:
        """Return the secrets that logs and errors must not show, in plain form.

        A broker may repeat one in an error. `shown()` finds them in every spelling.
        """
        return ()

    def on_refused(self) -> None:  # noqa: B027 - most mechanisms need no reaction
        """React to the broker's refusal of the last exchange."""

    def set_credentials(self, credentials: Credentials) -> None:  # noqa: B027 - most mechanisms have no passwords
        """Use these credentials for later exchanges.

        Mechanisms without passwords ignore the call.
        """

    def close(self) -> None:  # noqa: B027 - most mechanisms keep nothing
        """Overwrite the secrets: the client is closed, and makes no other exchange."""

    def refresh(self) -> None:  # noqa: B027 - most mechanisms have nothing that expires
        """Get a new token or ticket before the old one expires. Runs on the security thread.

        :raises SaslError: The token or ticket isn't available.
        """

    @property
    def refresh_at(self) -> float:
        """The time when `refresh()` is due, in seconds since the epoch; infinity means never."""
        return float("inf")


class PasswordMechanism(Mechanism):
    """A mechanism with a user name and a password."""

    def __init__(self, credentials: Credentials) -> None:
        """Use these credentials until `set_credentials()`."""
        self._credentials = credentials
        self._secrets = Secrets()
        self._secrets.add(credentials.password)

    @property
    def user(self) -> str:
        """The name of the user."""
        return self._credentials.username

    def secrets(self) -> Iterable[str]:
        """Return the password, and the last ones before it."""
        return self._secrets

    def set_credentials(self, credentials: Credentials) -> None:
        """Use these credentials from the next exchange on."""
        self._secrets.add(credentials.password)
        self._credentials = credentials

    def close(self) -> None:
        """Overwrite the passwords."""
        self._credentials.wipe()
        self._secrets.wipe()


def shown(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text from the network for a log: one printable line, cut off if too long.

    The text doesn't contain these secrets, in any spelling (`redaction`).
    """
    text = printable(redacted(text, secrets))
    return text if len(text) <= TEXT_MAX_CHARACTERS else f"{text[:TEXT_MAX_CHARACTERS]}..."
