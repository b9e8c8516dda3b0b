"""Translates the Java client's properties in Spark jobs to properties of this client.

Jobs for the JVM's connector have options such as ``kafka.sasl.mechanism`` and
``kafka.fetch.max.wait.ms``. Names with the same meaning stay. Other names are translated. A
property that needs a JVM is an error, which says what to write instead. Errors never show values:
one may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kafka_native.config import PROPERTIES
from kafka_native.spark.errors import OptionError

PREFIX: Final = "kafka."
"""The prefix of options that are properties of the client."""

_RENAMED: Final = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms",
    "max.request.size": "message.max.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}

_PEM_FILES: Final = {
    "ssl.truststore": ("ssl.ca.location",),
    "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
}

_WITHOUT_MEANING: Final = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "partitioner.availability.timeout.ms",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.type",
    }
)
"""Dropped properties. They don't change the records that are read.

Their features don't exist here, or the source's own options replace them.
"""

_JAVA_CLASSES: Final = re.compile(
    r"(\.class|\.classes|\.reporters|\.providers|_serializer|_deserializer)$"
)

_HINTS: Final = {
    "ssl.truststore.location": "a Java key store can't be read: "
    "export its certificates to a PEM file and write kafka.ssl.ca.location",
    "ssl.truststore.password": "leave it out: a PEM file of certificates "
    "(kafka.ssl.ca.location) has no password",
    "compression.gzip.level": "write kafka.compression.level",
    "compression.lz4.level": "write kafka.compression.level",
    "compression.zstd.level": "write kafka.compression.level",
    "sasl.jaas.config": "write kafka.sasl.username and kafka.sasl.password (PLAIN, SCRAM), or "
    "kafka.sasl.oauthbearer.*; other login modules exist in a JVM only",
}

_JAAS: Final = re.compile(
    r"""^\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<pairs>.*);\s*$""",
    re.S,
)
_JAAS_PAIR: Final = re.compile(
    r"""\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.S
)
_KERBEROS_OPTIONS: Final = {
    "keyTab": "sasl.kerberos.keytab",
    "principal": "sasl.kerberos.principal",
    "serviceName": "sasl.kerberos.service.name",
}
_JAAS_MODULES: Final = ("PlainLoginModule", "ScramLoginModule")


def client_properties(options: Mapping[str, str], role: str) -> dict[str, str]:
    """The client's properties among the options of a source or sink, translated.

    :param options: Options with lower-case names.
    :param role: ``consumer`` or ``producer``.
    :raises OptionError: A property needs a JVM, or its value can't be translated.
    """
    given = {
        name.removeprefix(PREFIX): value
        for name, value in options.items()
        if name.startswith(PREFIX)
    }
    given = _with_pem_files(given)
    found: dict[str, str] = {}
    for name, value in given.items():
        for own, own_value in _translated(name, value, role).items():
            if own in found and own != name and own in given:
                continue  # this client's own name is set, too: it overrides Java's
            found[own] = own_value
    return found


def time_limit_s(options: Mapping[str, str]) -> float:
    """Seconds for a request about topics and offsets: Java's default.api.timeout.ms."""
    text = options.get(PREFIX + "default.api.timeout.ms", "60000")
    if not text.strip().isdigit():
        raise OptionError(PREFIX + "default.api.timeout.ms", "it must be a number of milliseconds")
    return int(text) / 1000


def common_properties(config: Mapping[str, object]) -> dict[str, object]:
    """The properties that every kind of client takes, such as those of the connection."""
    return {
        name: value
        for name, value in config.items()
        if name in PROPERTIES and PROPERTIES[name].scope == "*"
    }


def is_sensitive(name: str) -> bool:
    """Whether an option's value is a secret, by its property's declaration or by its name."""
    bare = name.lower().removeprefix(PREFIX)
    declared = PROPERTIES.get(bare)
    if declared is not None and declared.sensitive:
        return True
    return bool(
        re.search(
            r"password|secret|token|jaas|passphrase|credential|user\.info|\.key$|\.pem$|access.?key",
            bare,
        )
    )


def _with_pem_files(given: Mapping[str, str]) -> dict[str, str]:
    """Translate stores of type PEM (KIP-651), which are files of certificates and keys."""
    found = dict(given)
    for store, own in _PEM_FILES.items():
        if given.get(f"{store}.type", "").strip().upper() == "PEM" and f"{store}.location" in given:
            path = found.pop(f"{store}.location")
            found = {**dict.fromkeys(own, path), **found}
    return found


def _translated(name: str, value: str, role: str) -> dict[str, str]:
    """Translate one property. An empty dict drops it."""
    if name in _WITHOUT_MEANING:
        return {}
    special = _SPECIAL.get(name)
    if special is not None:
        return special(value, role)
    if name in _RENAMED:
        return {_RENAMED[name]: value}
    if name in _HINTS:
        raise OptionError(PREFIX + name, _HINTS[name])
    if name not in PROPERTIES and _JAVA_CLASSES.search(name):
        raise OptionError(PREFIX + name, "Java classes can't be loaded here; leave it out")
    return {name: value}


def _request_timeout(value: str, role: str) -> dict[str, str]:
    """In a consumer, Java's property limits every request."""
    return {"request.timeout.ms" if role == "producer" else "socket.timeout.ms": value}


def _buffer_size(name: str) -> Callable[[str, str], dict[str, str]]:
    """Java's -1, the system's default, is 0 in this client."""
    return lambda value, role: {name: "0" if value.strip() == "-1" else value}


def _buffer_memory(value: str, role: str) -> dict[str, str]:
    if not value.strip().isdigit():
        raise OptionError(PREFIX + "buffer.memory", "it must be a number of bytes")
    return {"queue.buffering.max.kbytes": str(max(1, int(value) // 1024))}


def _endpoint_identification(value: str, role: str) -> dict[str, str]:
    """Java turns the check off by an empty text."""
    return {"ssl.endpoint.identification.algorithm": value or "none"}


def _keystore(value: str, role: str) -> dict[str, str]:
    if not value.lower().endswith((".p12", ".pfx", ".pkcs12")):
        hint = (
            "a Java key store can't be read: convert it to PKCS#12 (.p12), or write "
            "kafka.ssl.certificate.location "
        )
        raise OptionError(
            PREFIX + "ssl.keystore.location", hint + "and kafka.ssl.key.location (PEM)"
        )
    return {"ssl.keystore.location": value}


def _jaas(value: str, role: str) -> dict[str, str]:
    """Read ``...PlainLoginModule required username="..." password="...";``."""
    match = _JAAS.match(value)
    if match is not None and match["module"].rpartition(".")[2] == "Krb5LoginModule":
        return _kerberos(match["pairs"])
    if match is None or match["module"].rpartition(".")[2] not in _JAAS_MODULES:
        raise OptionError(PREFIX + "sasl.jaas.config", _HINTS["sasl.jaas.config"])
    pairs = _jaas_pairs(match["pairs"])
    if "username" not in pairs or "password" not in pairs:
        raise OptionError(PREFIX + "sasl.jaas.config", "it has no username or no password")
    found = {"sasl.username": pairs["username"], "sasl.password": pairs["password"]}
    return {**found, "sasl.scram.tokenauth": pairs["tokenauth"]} if "tokenauth" in pairs else found


def _jaas_pairs(text: str) -> dict[str, str]:
    return {
        pair[1]: re.sub(
            r"\\(.)", r"\1", next(each for each in pair.groups()[1:] if each is not None)
        )
        for pair in _JAAS_PAIR.finditer(text)
    }


def _kerberos(text: str) -> dict[str, str]:
    """Read the options of ``Krb5LoginModule``: a keytab, or the existing tickets."""
    pairs = _jaas_pairs(text)
    found = {own: pairs[name] for name, own in _KERBEROS_OPTIONS.items() if pairs.get(name)}
    if pairs.get("useKeyTab", "false").lower() != "true":
        found.pop("sasl.kerberos.keytab", None)
    elif "sasl.kerberos.keytab" not in found:
        raise OptionError(PREFIX + "sasl.jaas.config", "useKeyTab=true needs keyTab=")
    return found


_SPECIAL: Final[Mapping[str, Callable[[str, str], dict[str, str]]]] = {
    "request.timeout.ms": _request_timeout,
    "receive.buffer.bytes": _buffer_size("socket.receive.buffer.bytes"),
    "send.buffer.bytes": _buffer_size("socket.send.buffer.bytes"),
    "buffer.memory": _buffer_memory,
    "ssl.endpoint.identification.algorithm": _endpoint_identification,
    "ssl.keystore.location": _keystore,
    "sasl.jaas.config": _jaas,
}
