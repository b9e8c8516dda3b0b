"""Certificates for tests, issued by an authority that exists only as long as its object.

The trustme package issues them: ``pip install 'kafka-native[mock]'``.
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
"""The certificate that a broker presents. All except ``good`` have exactly this flaw."""


def _new_authority() -> CA:
    try:
        import trustme
    except ImportError as missing:
        raise ModuleNotFoundError(
            "the mock cluster's certificates need trustme: "
            f"pip install 'kafka-native[mock]' ({missing})"
        ) from missing
    return trustme.CA()


def _moment(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Identity:
    """A certificate with its chain and its key, as PEM. ``ca_pem`` is the authority to trust."""

    certificate_pem: str
    key_pem: str = field(repr=False)
    ca_pem: str | None = None

    def save(self, directory: str | os.PathLike[str], name: str) -> tuple[str, str]:
        """Write ``NAME.pem`` and ``NAME.key``, and return the two paths.

        Only the owner can read the key. An existing key file is replaced, not written into.
        """
        certificate, key = (Path(directory, name + suffix) for suffix in (".pem", ".key"))
        certificate.write_text(self.certificate_pem)
        _write_secret(key, self.key_pem)
        return str(certificate), str(key)


def _write_secret(path: Path, text: str) -> None:
    """Replace a path with a new file of mode 0600.

    Writing into an existing file would keep its mode and its open readers.
    """
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


class Certificates:
    """A certificate authority for tests.

    :param hosts: Names and addresses that brokers' certificates are valid for.
    """

    def __init__(self, hosts: tuple[str, ...] = HOSTS) -> None:
        """Make the authority's key. Raises ``ModuleNotFoundError`` if trustme is missing."""
        self.hosts = hosts
        self._authority = _new_authority()

    @property
    def ca_pem(self) -> str:
        """The authority's certificate. Clients need it as ``ssl.ca.location``."""
        return self._authority.cert_pem.bytes().decode()

    def broker(self, presented: Presented = "good") -> Identity:
        """Issue a new certificate for a broker, without a flaw or with exactly one."""
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
        """Issue a certificate for a client.

        Apache Kafka and the mock cluster write its principal as ``User:CN=name,...``.
        """
        return self._identity(
            self._authority.issue_cert(f"{name}@client.invalid", common_name=name)
        )

    def _identity(self, leaf: LeafCert) -> Identity:
        chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
        return Identity(chain.decode(), leaf.private_key_pem.bytes().decode(), self.ca_pem)
