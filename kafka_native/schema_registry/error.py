"""Errors of the schema registry client."""

from __future__ import annotations

from typing import Any

__all__ = ["OAuthTokenError", "SchemaRegistryError"]

_FROM_FASTAVRO = ("SchemaParseException", "UnknownType")


class SchemaRegistryError(Exception):
    """The schema registry refused a request, or can't be reached, or sent a wrong answer.

    Parameters
    ----------
    http_status_code : int
        The HTTP status of the answer. -1 (`UNKNOWN`) if no registry answered.
    error_code : int
        The registry's own code, for example 40401 for an unknown subject. -1 (`UNKNOWN`) if the
        answer has none.
    error_message : str
        What happened.
    """

    UNKNOWN = -1

    def __init__(self, http_status_code: int, error_code: int, error_message: str) -> None:
        super().__init__(http_status_code, error_code, error_message)
        self.http_status_code = http_status_code
        self.error_code = error_code
        self.error_message = error_message

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        codes = f"HTTP status code {self.http_status_code}, SR code {self.error_code}"
        return f"{self.error_message} ({codes})"


class OAuthTokenError(Exception):
    """The identity provider returned no token.

    Parameters
    ----------
    message : str
        What happened.
    status_code : int, optional
        The HTTP status of the identity provider's answer.
    response_text : str, optional
        The start of the identity provider's answer.
    """

    def __init__(
        self, message: str, status_code: int | None = None, response_text: str | None = None
    ) -> None:
        super().__init__(message, status_code, response_text)
        self.message = message
        self.status_code = status_code
        self.response_text = response_text

    def __str__(self) -> str:
        if self.status_code is None:
            return self.message
        return f"{self.message} (HTTP {self.status_code}): {self.response_text}"


def __getattr__(name: str) -> Any:
    """Return fastavro's exceptions, which confluent_kafka's module also has."""
    if name in _FROM_FASTAVRO:
        try:
            from fastavro import schema
        except ImportError as missing:
            raise AttributeError(
                f"{name} needs fastavro: pip install 'kafka-native[avro]'"
            ) from missing
        return getattr(schema, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
