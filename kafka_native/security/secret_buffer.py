"""Secrets in memory that is overwritten as soon as the program doesn't need them any more.

Python can't overwrite a ``str``. So the client keeps passwords and keys as bytes in buffers of its
own. SECURITY.md lists the copies that it can't reach.
"""

from __future__ import annotations

from typing import NoReturn

from kafka_native._native.primitives import wipe
from kafka_native._reference.property import REDACTED


class SecretBuffer:
    """A secret in a buffer. It is overwritten by `wipe()`, or with the last reference."""

    __slots__ = ("data",)

    data: bytearray
    """The secret, in UTF-8 if it is a text. Don't keep copies."""

    def __init__(self, secret: str | bytes) -> None:
        """Copy the secret. The caller's object stays as it is."""
        if isinstance(secret, bytes):
            self.data = bytearray(secret)
            return
        encoded = secret.encode("utf-8", "surrogatepass")
        self.data = bytearray(encoded)
        wipe(encoded)

    @classmethod
    def taken(cls, secret: bytes) -> SecretBuffer:
        """Copy bytes that no other code has, and overwrite them."""
        buffer = cls(secret)
        wipe(secret)
        return buffer

    def text(self) -> str:
        """Return the secret as a text. Drop it soon, because Python can't overwrite it."""
        return self.data.decode("utf-8", "surrogatepass")

    def wipe(self) -> None:
        """Overwrite the secret with zeros. Its length stays."""
        wipe(self.data)

    def __del__(self) -> None:
        data = getattr(self, "data", None)
        if data is not None:
            wipe(data)

    def __repr__(self) -> str:
        return f"SecretBuffer({REDACTED})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret can't be pickled")
