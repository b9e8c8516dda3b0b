"""PLAIN (RFC 4616): sends the name and the password in clear. Use it only with TLS."""

from __future__ import annotations

from kafka_native.security.mechanisms import Credentials, Exchange, PasswordMechanism, SaslError


class Plain(PasswordMechanism):
    """The SASL mechanism that sends the password itself."""

    name = "PLAIN"
    exposes = "sees the password"

    def exchange(self, host: str, port: int) -> Exchange:
        """Start an authentication."""
        return PlainExchange(self._credentials)


class PlainExchange(Exchange):
    """One message with the credentials, and an empty response."""

    slow = False

    def __init__(self, credentials: Credentials) -> None:
        """Make the exchange for these credentials."""
        self._credentials = credentials

    def begin(self) -> bytes:
        """Return NUL, name, NUL, password."""
        name, password = self._credentials.username, self._credentials.password
        if "\0" in name or "\0" in password:
            raise SaslError("neither the user nor the password may have a NUL in it")
        try:
            return f"\0{name}\0{password}".encode()
        except UnicodeEncodeError:
            # Raised below, because the text of a chained exception has a part of the password
            text = "the user or the password isn't UTF-8: is it a variable in another encoding?"
        raise SaslError(text)

    def respond(self, challenge: bytes) -> bytes | None:
        """Accept the broker's empty response: the credentials are valid."""
        self.done = True
        return None
