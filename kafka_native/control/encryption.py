"""The TLS of one client's connections: the context that they are made with, its renewal, and what failures mean.

Thread: made by the client's constructor, used by the control thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_native._native.engine import tls_functions
from kafka_native.control.outages import Outages
from kafka_native.errors import KafkaException
from kafka_native.logs import Log

if TYPE_CHECKING:
    from kafka_native._native.engine import Engine, Event
    from kafka_native.config import Config
    from kafka_native.security.tls import TlsContext

PROTOCOLS = ("ssl", "sasl_ssl")
"""Values of security.protocol that mean TLS."""


FILES = "files"
"""What fails, as the subject of an outage: certificates and keys that have changed."""


class Encryption:
    """The context that connections are made with, from the configuration's files as they are now."""

    def __init__(self, config: Config, log: Log) -> None:
        """Reads them; KafkaException if there is a mistake in the configuration or in one of them."""
        self._config = config
        self._log = log
        self._outages = Outages()  # of the files
        self._warned: set[str] = set()
        self._context = self._made()

    @classmethod
    def of(cls, config: Config, log: Log) -> Encryption | None:
        """None where connections are plain."""
        return cls(config, log) if config.text("security.protocol") in PROTOCOLS else None

    def _made(self) -> TlsContext:
        from kafka_native.security.tls import TlsContext  # only who wants TLS pays for it

        context = TlsContext(self._config)
        for remark in context.remarks:
            if remark not in self._warned:  # once a client: a renewed context has the same ones
                self._warned.add(remark)
                self._log.warning("%s", remark)
        self._log.debug("%r", context)
        return context

    @property
    def settings(self) -> tuple[dict[str, int], int, bool, bool]:
        """What the engine is told: where OpenSSL's functions are, the context, and what is checked of a certificate."""
        from kafka_native.security.openssl import address_of

        functions = {name: address_of(name) for name in tls_functions()}
        return functions, self._context.pointer, self._context.verifies, self._context.identifies_hosts

    def renew(self, engine: Engine) -> None:
        """Has the next connections use the files that are there now, if they are others than before (rotation).

        Files that can't be used leave everything as it is: they may be half written.
        """
        if not self._context.changed():
            return
        try:
            context = self._made()
        except KafkaException as error:
            why = error.args[0].str()
            say = self._log.error if self._outages.is_due(FILES, why) else self._log.debug
            say("certificates have changed, but the new ones can't be used: %s", why)
            return
        self._outages.end(FILES)
        engine.set_tls_context(context.pointer)
        self._context = context  # the old one was needed until here
        self._log.info("certificates have changed: connections made from now on use the new ones")

    def explain(self, event: Event, host: str, port: int) -> str:
        """Why TLS has failed, in the user's terms. ``event``: a DISCONNECTED with the status of TLS."""
        return self._context.explain(event.text, event.verify_error, host, port, event.body or b"")
