"""GSSAPI: Kerberos 5 (RFC 4752, KIP-12), with the package ``gssapi`` and the system's Kerberos.

The process itself uses a keytab, without ``kinit``, and keeps the tickets in memory. If you set
``sasl.kerberos.kinit.cmd``, the client runs this command as librdkafka does: at the start, and then
every ``sasl.kerberos.min.time.before.relogin``. It uses the tickets from the place where the
command puts them.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka_native.security.mechanisms import Exchange, Mechanism, SaslError, shown

MISSING = "GSSAPI needs the package gssapi: pip install 'kafka-native[gssapi]'"
UNCHOSEN = (
    "GSSAPI is only the default of sasl.mechanisms: for a user and a password set it to "
    "SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN, for tokens to OAUTHBEARER"
)
"""Advice for a configuration without ``sasl.mechanisms``."""
NO_LAYER = 1
COMMAND_S = 60.0
WORD_MIN = 4
_VARIABLE = re.compile(r"%\{([a-z.]+)\}")
_WORD = re.compile(r"[^\s'\"|;&<>()=]+")
_PROGRAM_OR_OPTION = re.compile(r"(?:.*/)?kinit|-{1,2}[A-Za-z-]+")


class Gssapi(Mechanism):
    """The SASL mechanism with Kerberos tickets."""

    name = "GSSAPI"
    exposes = ""

    def __init__(
        self,
        service: str,
        principal: str,
        keytab: str,
        command: str,
        relogin_s: float,
        clock: Callable[[], float] = time.time,
        *,
        secrets: Iterable[str] = (),
    ) -> None:
        """Make the mechanism.

        :param principal: Empty means the principal of the existing tickets.
        :param keytab: If it and ``command`` are empty, tickets have to exist already.
        :param secrets: The parts of the command that errors must not show.
        :raises SaslError: The package ``gssapi`` is missing.
        """
        try:
            self.gssapi: Any = importlib.import_module("gssapi")
        except ImportError:
            raise SaslError(MISSING) from None
        self.service = service
        self.principal = principal
        self.keytab = keytab
        self.problem: Any = self.gssapi.exceptions.GSSError
        self._command = command
        self._secrets = (command, *secrets)
        self._relogin_s = relogin_s
        self._clock = clock
        self._refresh_at = 0.0 if command else float("inf")
        # The library keeps the cache for the life of the process. So no later client may get its
        # name, or it would log in with the tickets of this one.
        self._cache = f"MEMORY:kafka-native-{uuid.uuid4()}"

    @property
    def user(self) -> str:
        """The principal, if the configuration names it."""
        return self.principal

    def secrets(self) -> Iterable[str]:
        """Return the command and its words, because they may contain a password or a keytab."""
        return self._secrets

    def exchange(self, host: str, port: int) -> Exchange:
        """Start an authentication."""
        return GssapiExchange(self, host)

    @property
    def refresh_at(self) -> float:
        """The time when the command is due."""
        return self._refresh_at

    def refresh(self) -> None:
        """Run the command."""
        try:
            done = subprocess.run(
                self._command,
                shell=True,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=COMMAND_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SaslError(f"sasl.kerberos.kinit.cmd: {type(error).__name__}") from None
        if done.returncode:
            output = shown(done.stderr.decode("utf-8", "replace"), self._secrets)
            raise SaslError(f"sasl.kerberos.kinit.cmd ended with {done.returncode}: {output}")
        self._refresh_at = self._clock() + self._relogin_s if self._relogin_s > 0 else float("inf")

    def credentials(self) -> Any:
        """Return the tickets to use; None lets the library choose."""
        # The command puts its tickets in the default cache.
        has_own_cache = bool(self.keytab) and not self._command
        if not has_own_cache and not self.principal:
            return None
        name = (
            self.gssapi.Name(self.principal, self.gssapi.NameType.kerberos_principal)
            if self.principal
            else None
        )
        # The default cache may have tickets of another principal.
        store = {"client_keytab": self.keytab, "ccache": self._cache} if has_own_cache else None
        return self.gssapi.Credentials(name=name, usage="initiate", store=store)


class GssapiExchange(Exchange):
    """Exchanges tokens until the GSSAPI context is complete, then agrees on no security layer."""

    def __init__(self, mechanism: Gssapi, host: str) -> None:
        """Make the exchange with the service on this host."""
        self._mechanism = mechanism
        self._host = host
        self._context: Any = None
        self.said_all = False

    def begin(self) -> bytes:
        """Return the first token. The library may request a ticket from the KDC."""
        gssapi = self._mechanism.gssapi
        try:
            name = gssapi.Name(
                f"{self._mechanism.service}@{self._host}", gssapi.NameType.hostbased_service
            )
            flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
            mech = gssapi.MechType.kerberos
            credentials = self._mechanism.credentials()
            self._context = gssapi.SecurityContext(
                name=name, flags=flags, mech=mech, creds=credentials, usage="initiate"
            )
            return self._context.step() or b""
        except self._mechanism.problem as error:
            raise SaslError(shown(str(error))) from None

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next token. After mutual authentication, choose no security layer."""
        if self.said_all:
            self.done = True
            return None
        try:
            if not self._context.complete:
                return self._context.step(challenge) or b""
            offer = self._context.unwrap(challenge).message
            if len(offer) != 4 or not offer[0] & NO_LAYER:
                raise SaslError("the broker requires a security layer, which Kafka doesn't have")
            answer: bytes = self._context.wrap(bytes([NO_LAYER, 0, 0, 0]), False).message
            self.said_all = True
        except self._mechanism.problem as error:
            raise SaslError(shown(str(error))) from None
        return answer


def expanded(command: str, values: Mapping[str, str]) -> str:
    """Insert the properties into the command, for each ``%{name}``.

    :raises SaslError: There is no such property.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise SaslError(f"sasl.kerberos.kinit.cmd: there is no property {match[1]}")
        return values[match[1]]

    return _VARIABLE.sub(value, command)


def words_of(command: str) -> list[str]:
    """Return the words of the command that its error output may repeat.

    ``kinit`` itself, options and ``%{name}`` are left out.
    """
    words = _WORD.findall(_VARIABLE.sub(" ", command))
    return [
        word for word in words if len(word) >= WORD_MIN and not _PROGRAM_OR_OPTION.fullmatch(word)
    ]
