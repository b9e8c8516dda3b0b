"""What a SASL mechanism is to the control plane, which moves its bytes.

Thread: a `Mechanism` belongs to a client and is called by its control thread, and, where it is ``slow``, by the
client's security thread. `Mechanism.set_credentials()` may be called by any thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from kafka_native.cleaning import printable
from kafka_native.security.redaction import REDACTED, Secrets, redacted

TEXT_MAX_CHARACTERS = 500


class SaslError(Exception):
    """Why there is no authentication. The text is for the user: it names no secret."""


class Credentials:
    """A user's name and password. Nothing shows the password."""

    __slots__ = ("password", "username")

    def __init__(self, username: str, password: str) -> None:
        """As the user gave them."""
        self.username = username
        self.password = password

    def __repr__(self) -> str:
        return f"Credentials({self.username!r}, {REDACTED})"


class Exchange(ABC):
    """One authentication on one connection: the client's side of what is said."""

    done = False
    """Whether the mechanism has seen everything that it needs to trust the broker."""
    problem = ""
    """What the broker has said of a failure that it tells afterwards."""

    @abstractmethod
    def begin(self) -> bytes:
        """The first message; SaslError if there is nothing to authenticate with."""

    @abstractmethod
    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to the broker's message, None if there is none to give; SaslError if it can't be right."""


class Mechanism(ABC):
    """One client's way to authenticate."""

    name: str
    """As SaslHandshake has it."""
    slow: ClassVar[bool] = True
    """Whether an exchange may take long (hashing, HTTP, the user's code), so that another thread has to do it."""

    @property
    @abstractmethod
    def user(self) -> str:
        """Who authenticates, for errors and the log; empty if that isn't known."""

    @property
    @abstractmethod
    def exposes(self) -> str:
        """What whoever reads an exchange without TLS can use, as "sees the password"; empty: nothing.

        A hash that can be guessed at (SCRAM) is no such thing; what is accepted again as it was sent is.
        """

    @abstractmethod
    def exchange(self, host: str, port: int) -> Exchange:
        """A new authentication with the broker at this address."""

    def remarks(self, encrypted: bool) -> list[str]:
        """What the client's user is warned of, once. ``encrypted``: the connections to brokers have TLS."""
        if encrypted or not self.exposes:
            return []
        return [f"SASL {self.name} without TLS: whoever sees the network's traffic {self.exposes}"]

    def secrets(self) -> Iterable[str]:
        """What may not be shown, wherever it comes from: a broker may repeat it in an error message.

        As they are: `shown()` finds them in every spelling.
        """
        return ()

    def on_refused(self) -> None:  # noqa: B027 - most mechanisms have nothing else to say
        """The broker didn't believe what the last exchange said."""

    def set_credentials(self, credentials: Credentials) -> None:  # noqa: B027 - most mechanisms have no passwords
        """Other credentials for the exchanges from now on; mechanisms without passwords ignore them."""

    def refresh(self) -> None:  # noqa: B027 - most mechanisms have nothing that expires
        """Gets what will be needed next, before it is; SaslError if it can't be had. Made on the security thread."""

    @property
    def refresh_at(self) -> float:
        """When `refresh()` is due, in seconds since the epoch; infinity: never."""
        return float("inf")


class PasswordMechanism(Mechanism):
    """A mechanism with a user's name and password."""

    def __init__(self, credentials: Credentials) -> None:
        """Authenticates with these until there are others."""
        self._credentials = credentials
        self._secrets = Secrets()
        self._secrets.add(credentials.password)

    @property
    def user(self) -> str:
        """The user's name."""
        return self._credentials.username

    def secrets(self) -> Iterable[str]:
        """The password, and the last ones before it."""
        return self._secrets

    def set_credentials(self, credentials: Credentials) -> None:
        """These from the next exchange on."""
        self._secrets.add(credentials.password)
        self._credentials = credentials


def shown(text: str, secrets: Iterable[str] = ()) -> str:
    """What somebody else said, fit for a log: one line of printable characters, cut.

    These secrets aren't in it, however they are spelled (`redaction`).
    """
    text = printable(redacted(text, secrets))
    return text if len(text) <= TEXT_MAX_CHARACTERS else f"{text[:TEXT_MAX_CHARACTERS]}..."
