"""PLAIN (RFC 4616): the name and the password as they are. Only for connections that are encrypted."""

from __future__ import annotations

from kafka_native.security.mechanisms import Credentials, Exchange, PasswordMechanism, SaslError


class Plain(PasswordMechanism):
    """The mechanism PLAIN."""

    name = "PLAIN"
    slow = False
    exposes = "sees the password"

    def exchange(self, host: str, port: int) -> Exchange:
        """A new authentication."""
        return PlainExchange(self._credentials)


class PlainExchange(Exchange):
    """One message, which is answered with nothing."""

    def __init__(self, credentials: Credentials) -> None:
        """With these."""
        self._credentials = credentials

    def begin(self) -> bytes:
        """NUL, name, NUL, password."""
        name, password = self._credentials.username, self._credentials.password
        if "\0" in name or "\0" in password:
            raise SaslError("neither a user name nor a password may have a NUL in it")
        return f"\0{name}\0{password}".encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """The broker had nothing against it."""
        self.done = True
        return None
