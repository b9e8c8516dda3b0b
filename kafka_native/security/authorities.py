"""The certificate authorities that verify brokers: the configured ones, or the system's."""

from __future__ import annotations

import importlib
import os
import re
import sys
from typing import Final

from OpenSSL import SSL, crypto

from kafka_native.config import Config
from kafka_native.errors import KafkaException

from .certificates import binary_certificates, blocks_of, certificate_blocks, is_binary
from .sources import Files, Material, refuse

PROBE: Final = "probe"
"""The value of ssl.ca.location that means the system's places."""

CA_LOCATIONS: Final = (
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/cacert.pem",
    "/etc/certs/ca-certificates.crt",
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/ssl/certs",
    "/usr/local/etc/ssl/cert.pem",
    "/usr/local/etc/ssl/cacert.pem",
    "/usr/local/etc/ssl/certs/cert.pem",
    "/usr/local/etc/ssl/certs/cacert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
    "/etc/openssl/certs/ca-certificates.crt",
)
"""The places where systems keep their authorities. The first existing one is used."""
CA_LOCATIONS_OF_DARWIN: Final = (
    "/opt/homebrew/etc/openssl@3/cert.pem",
    "/usr/local/etc/openssl@3/cert.pem",
    "/opt/homebrew/etc/ca-certificates/cert.pem",
    "/usr/local/etc/ca-certificates/cert.pem",
    "/private/etc/ssl/cert.pem",
    "/private/etc/ssl/certs",
)
ENVIRONMENT: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""OpenSSL's own variables. They take precedence over the system's places."""

_HASHED: Final = re.compile(r"[0-9a-f]{8}\.[0-9]+")
_TRUSTED: Final = b"TRUSTED CERTIFICATE"
_SUFFIXES: Final = (".pem", ".crt", ".cer")
"""The names of files with authorities in a directory without hashed names."""


class Authorities:
    """The authorities that a context trusts.

    - ``ssl.ca.location`` and ``ssl.ca.pem``: only these. Both, if both are set.
    - Otherwise the system's authorities. If there are none, the list of `certifi`.

    Each authority is trusted by itself: an intermediate authority needs no root above it.
    """

    def __init__(
        self, context: SSL.Context, config: Config, files: Files, *, required: bool
    ) -> None:
        """Fill a context's store.

        :param files: Records the files and directories.
        :param required: True if brokers are verified. Otherwise only configured authorities are
            loaded.
        :raises KafkaException: A configured authority can't be read, or none was found and one is
            required.
        """
        self.trusted: list[str] = []
        """The sources for error texts, for instance ``ssl.ca.location=/path``."""
        self.tried: list[str] = []
        """The places that had no authorities, if none are configured."""
        self._context = context
        self._files = files
        self._store = context.get_cert_store()
        location, content = config.text("ssl.ca.location"), config.content("ssl.ca.pem")
        if location and location != PROBE:
            self._load("ssl.ca.location", location)
        if content:
            self._add(Material("ssl.ca.pem", "", content), config.text("ssl.key.password"))
        if location == PROBE or (required and not self.trusted):
            self._probe()
        if required and not self.trusted:
            hint = (
                "set ssl.ca.location, install the system's package ca-certificates, or pip "
                "install certifi"
            )
            refuse(
                f"there are no certificate authorities to verify brokers with: {self.where()}", hint
            )

    def where(self) -> str:
        """Return the sources and the tried places, for error texts."""
        tried = f"ssl.ca.location isn't set; tried: {', '.join(self.tried)}" if self.tried else ""
        if not self.trusted:
            return tried
        return " and ".join(self.trusted) + (f" ({tried})" if tried else "")

    def _probe(self) -> None:
        """Use the first place that has authorities."""
        for place in places():
            if not os.path.exists(place):
                self.tried.append(place)
                continue
            try:
                self._load("", place)
            except KafkaException as error:
                self.tried.append(error.args[0].str().removeprefix("="))
            else:
                return

    def _load(self, name: str, path: str) -> None:
        if os.path.isdir(path):
            self._load_directory(name, path)
        else:
            self._load_file(self._files.read(name, path))
        self.trusted.append(f"{name}={path}" if name else path)

    def _load_file(self, material: Material) -> None:
        """Load a file with OpenSSL's reader, which obeys the limits of a `TRUSTED CERTIFICATE`."""
        certificate_blocks(material, _TRUSTED)
        try:
            self._context.load_verify_locations(material.path)
        except SSL.Error as error:
            refuse(f"{material}: {reasons(error)}")

    def _load_directory(self, name: str, path: str) -> None:
        """Load a directory: by OpenSSL's hashed names, or else all files with certificates."""
        self._files.watch(path)
        try:
            names = files_of(path)
        except OSError as error:
            refuse(f"{name}={path}: {error.strerror}")
        if names is None:
            self._context.load_verify_locations(None, path)
            return
        found = [self._files.read(name, os.path.join(path, each)) for each in names]
        found = [each for each in found if blocks_of(each.content, b"CERTIFICATE", _TRUSTED)]
        if not found:
            refuse(
                f"{name}={path}: no certificate in PEM form in this directory",
                f"in *{', *'.join(_SUFFIXES)}",
            )
        for each in found:
            self._load_file(each)

    def _add(self, material: Material, password: str) -> None:
        """Add the certificates of a text, or those in DER or PKCS#12 form."""
        assert self._store is not None, "a new context has a store"
        if is_binary(material):
            try:
                for each in binary_certificates(material, password):
                    self._store.add_cert(crypto.X509.from_cryptography(each))
            except crypto.Error as error:
                refuse(f"{material}: a certificate can't be read: {reasons(error)}")
            self.trusted.append(str(material))
            return
        blocks = certificate_blocks(material)
        for number, block in enumerate(blocks, 1):
            try:
                self._store.add_cert(crypto.load_certificate(crypto.FILETYPE_PEM, block))
            except crypto.Error as error:
                refuse(
                    f"{material}: certificate {number} of {len(blocks)} can't be read: "
                    f"{reasons(error)}"
                )
        self.trusted.append(str(material))


def reasons(error: SSL.Error | crypto.Error) -> str:
    """Return the reasons that pyOpenSSL took from OpenSSL's error queue."""
    entries = error.args[0] if error.args and isinstance(error.args[0], (list, tuple)) else []
    return (
        ", ".join(dict.fromkeys(str(each[-1]) for each in entries if each))
        or "OpenSSL doesn't say why"
    )


def places() -> list[str]:
    """Return the files and directories that may have the system's authorities, the first first."""
    return [
        *(os.environ[name] for name in ENVIRONMENT if os.environ.get(name)),
        *CA_LOCATIONS,
        *(CA_LOCATIONS_OF_DARWIN if sys.platform == "darwin" else ()),
        *_certifi(),
    ]


def files_of(directory: str) -> list[str] | None:
    """Return the names of the files that may have certificates.

    None: OpenSSL finds them by their hashed names.
    """
    names = sorted(os.listdir(directory))
    if any(_HASHED.fullmatch(each) for each in names):
        return None
    return [each for each in names if each.endswith(_SUFFIXES)]


def _certifi() -> list[str]:
    """Return the file of the package certifi, if it is installed."""
    try:
        return [str(importlib.import_module("certifi").where())]
    except ImportError:
        return []
