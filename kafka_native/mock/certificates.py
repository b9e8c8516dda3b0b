"""Certificates of a cluster for tests: an authority of its own, which lives as long as the object, and what it issues.

They are made by trustme: ``pip install 'kafka-native[mock]'``.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from trustme import CA, LeafCert

HOSTS: Final = ("127.0.0.1", "localhost")
WRONG_HOST: Final = "elsewhere.invalid"

Presented = Literal["good", "wrong_host", "expired", "not_yet_valid", "unknown_ca"]
"""Which certificate a broker shows: its own, or one with this flaw and no other."""


def _new_authority() -> CA:
    try:
        import trustme
    except ImportError as missing:
        raise ModuleNotFoundError(
            f"the mock cluster's certificates need trustme: pip install 'kafka-native[mock]' ({missing})"
        ) from missing
    return trustme.CA()


def _moment(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Identity:
    """A certificate with its chain and its key, as PEM; ``ca_pem`` is what its holder trusts in others."""

    certificate_pem: str
    key_pem: str = field(repr=False)
    ca_pem: str | None = None

    def save(self, directory: str | os.PathLike[str], name: str) -> tuple[str, str]:
        """Write ``NAME.pem`` and ``NAME.key``, the key for the owner's eyes alone; the two paths.

        A key file that is there already is replaced, whatever its mode and whoever has it open.
        """
        certificate, key = (Path(directory, name + suffix) for suffix in (".pem", ".key"))
        certificate.write_text(self.certificate_pem)
        _write_secret(key, self.key_pem)
        return str(certificate), str(key)


def _write_secret(path: Path, text: str) -> None:
    """Put a new file of mode 0600 in a path's place: writing into an old one would keep its mode and its readers."""
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


class Certificates:
    """An authority for tests.

    :param hosts: Names and addresses that brokers' certificates are for.
    """

    def __init__(self, hosts: tuple[str, ...] = HOSTS) -> None:
        """Make the authority's key. Raises ``ModuleNotFoundError`` where trustme is missing."""
        self.hosts = hosts
        self._authority = _new_authority()

    @property
    def ca_pem(self) -> str:
        """The authority's certificate: what clients are to trust."""
        return self._authority.cert_pem.bytes().decode()

    def broker(self, presented: Presented = "good") -> Identity:
        """Issue a broker's certificate, as new; a flaw is its only one."""
        hosts = (WRONG_HOST,) if presented == "wrong_host" else self.hosts
        authority = _new_authority() if presented == "unknown_ca" else self._authority
        if presented == "expired":
            return self._identity(
                authority.issue_cert(*hosts, not_before=_moment(2001), not_after=_moment(2002))
            )
        if presented == "not_yet_valid":
            return self._identity(
                authority.issue_cert(*hosts, not_before=_moment(2090), not_after=_moment(2091))
            )
        return self._identity(authority.issue_cert(*hosts))

    def client(self, name: str) -> Identity:
        """Issue a client's certificate; its principal is ``User:CN=name,...`` as Apache Kafka writes it."""
        return self._identity(
            self._authority.issue_cert(f"{name}@client.invalid", common_name=name)
        )

    def _identity(self, leaf: LeafCert) -> Identity:
        chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
        return Identity(chain.decode(), leaf.private_key_pem.bytes().decode(), self.ca_pem)
