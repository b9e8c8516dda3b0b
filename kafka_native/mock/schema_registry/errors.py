"""The errors that a schema registry answers with: an HTTP status, an error code and a sentence."""

from __future__ import annotations

UNAUTHORIZED = 401
NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405
CONFLICT = 409
UNPROCESSABLE = 422
NOT_IMPLEMENTED = 501

SUBJECT_NOT_FOUND = 40401
VERSION_NOT_FOUND = 40402
SCHEMA_NOT_FOUND = 40403
SUBJECT_SOFT_DELETED = 40404
SUBJECT_NOT_SOFT_DELETED = 40405
VERSION_SOFT_DELETED = 40406
VERSION_NOT_SOFT_DELETED = 40407
COMPATIBILITY_NOT_CONFIGURED = 40408
MODE_NOT_CONFIGURED = 40409
KEY_NOT_FOUND = 40470
KEY_NOT_SOFT_DELETED = 40471
INCOMPATIBLE_SCHEMA = 409
KEY_EXISTS = 40972
INVALID_SCHEMA = 42201
INVALID_VERSION = 42202
INVALID_COMPATIBILITY_LEVEL = 42203
INVALID_MODE = 42204
OPERATION_NOT_PERMITTED = 42205
REFERENCE_EXISTS = 42206
ID_DOES_NOT_MATCH = 42207
INVALID_SUBJECT = 42208
INVALID_KEY = 42271
KEY_REFERENCE_EXISTS = 42272


class RegistryError(Exception):
    """An answer that isn't a success.

    The HTTP status is the first three digits of the code, as in a real registry.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return int(str(self.code)[:3])


class InvalidSchemaError(RegistryError):
    """A schema that isn't valid in its language."""

    def __init__(self, reason: str) -> None:
        super().__init__(INVALID_SCHEMA, f"Invalid schema: {reason}")
