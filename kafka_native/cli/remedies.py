"""The texts of ``kafka-native doctor``: causes of a failed step, and advice. No network access.

All names and texts from the network are cut and escaped here.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

from kafka_native.cleaning import clean
from kafka_native.cli.probe import Address, HostPort, ProxyFailed
from kafka_native.errors import KafkaError, error_name, error_text
from kafka_native.security.mechanisms import Mechanism

PLAIN_PROTOCOLS: Final = "security.protocol=plaintext (or sasl_plaintext)"
TLS_PROTOCOLS: Final = "security.protocol=ssl (or sasl_ssl)"
KAFKA_PORTS: Final = "9092 is the usual one for clients, 9093 that of KRaft's controllers"


class Problem(Exception):
    """The reason why a step failed.

    :param text: The observation.
    :param cause: The most likely cause.
    :param advice: A setting or an action that helps.
    :param details: More facts, for programs.
    """

    def __init__(
        self, text: str, cause: str = "", advice: str = "", details: dict[str, object] | None = None
    ) -> None:
        """Store the arguments; see the class."""
        super().__init__(text)
        self.text = text
        self.cause = cause
        self.advice = advice
        self.details = details or {}


def code_text(code: int) -> str:
    """A broker's error code with its meaning."""
    return f"{error_name(code)} ({error_text(code)})"


# --- the connection ---


def of_dns(error: OSError, place: HostPort, family: str) -> Problem:
    """The problem of a name that has no address."""
    host = clean(place.host, 255)
    text = f"{host} can't be resolved: {error.strerror or error}"
    if family != "any" and error.errno in (
        socket.EAI_NONAME,
        getattr(socket, "EAI_ADDRFAMILY", socket.EAI_NONAME),
    ):
        return Problem(
            text, f"the name may have no address of this family: broker.address.family={family}"
        )
    if error.errno == socket.EAI_AGAIN:
        return Problem(
            text,
            "this machine's name server doesn't answer, or doesn't know this name: no "
            "network, no VPN?",
        )
    return Problem(
        text,
        "a misspelt name, or one that only the broker's own network knows (a container's, a pod's)",
    )


def of_tcp(error: OSError, address: Address, timeout_s: float) -> Problem:
    """The problem of an address that takes no connection."""
    if isinstance(error, TimeoutError):
        cause = (
            "a firewall or a security group drops the packets, or the machine is down or in "
            "another network"
        )
        return Problem(f"{address} didn't answer within {timeout_s:g} s", cause)
    if isinstance(error, ConnectionRefusedError):
        cause = (
            "the machine is there, but nothing listens on this port: is the broker up, is it the "
            "right port?"
        )
        return Problem(f"{address} refuses the connection", cause, f"check the port: {KAFKA_PORTS}")
    if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL):
        return Problem(
            f"{address} can't be reached: {error.strerror}",
            "there is no route to this network from here",
        )
    return Problem(f"{address}: {error.strerror or error}")


def of_proxy_connection(error: OSError, place: HostPort, timeout_s: float) -> Problem:
    """The problem of a proxy that takes no connection. ``place``: the proxy's, from proxy.url."""
    if isinstance(error, socket.gaierror):
        cause = "a misspelt name in proxy.url, or no network"
        return Problem(
            f"the proxy's name, {clean(place.host, 255)}, can't be resolved: {error.strerror}",
            cause,
        )
    if isinstance(error, TimeoutError):
        cause = "a firewall between this machine and the proxy, or the proxy is down"
        return Problem(f"the proxy didn't answer within {timeout_s:g} s", cause)
    if isinstance(error, ConnectionRefusedError):
        cause = "the proxy is down, or listens on another port"
        return Problem(
            "the proxy refuses the connection", cause, "check host and port of proxy.url"
        )
    return Problem(
        f"the proxy can't be reached: {error.strerror or error}",
        "there is no route to it from here",
    )


PROXY_CAUSES: Final = {
    "it wants a login": (
        "proxy.url has no user and password",
        "set proxy.url to SCHEME://USER:PASSWORD@HOST:PORT",
    ),
    "it refuses the user and password": (
        "a wrong password, or a user who isn't allowed to use it",
        (
            "check proxy.url; in user and password %40 stands for @, %3A for :, %2F for / "
            "and %25 for %"
        ),
    ),
    "its rules don't allow": (
        "its list of hosts and ports lacks this broker's: often there is 443 alone",
        "have the proxy allow connections to the broker's host and port",
    ),
    "it can't reach the broker": (
        "the name isn't known in the proxy's network, or there is no route from it to the broker",
        "try the broker's address from the proxy's own machine",
    ),
    "it has no route": ("there is no route from the proxy to the broker's network", ""),
    "the broker refuses its connection": (
        "nothing listens on the broker's port: is the broker up, is it the right port?",
        f"check the port: {KAFKA_PORTS}",
    ),
    "the broker doesn't answer it": (
        "a firewall between the proxy and the broker, or the broker is down",
        "",
    ),
    "of the broker behind it": (
        "a firewall between the proxy and the broker, or the broker is down",
        "",
    ),
    "not SOCKS5": ("proxy.url has the scheme of another kind of proxy", ""),
    "not HTTP": ("proxy.url has the scheme of another kind of proxy", ""),
    "does it speak": ("no proxy of this kind listens there: see proxy.url", ""),
    "it makes no connections": (
        "a web server, or a proxy for HTTP requests alone",
        "use a proxy that allows CONNECT",
    ),
}
"""Cause and advice for each proxy error, by a part of the text in csrc/net/proxy.c."""


def of_proxy(error: ProxyFailed, address: object) -> Problem:
    """The problem of a proxy that doesn't connect to an address."""
    text = str(error)
    cause, advice = next((both for words, both in PROXY_CAUSES.items() if words in text), ("", ""))
    return Problem(f"{address}: {text}", cause, advice)


def of_silence(error: OSError, what: str) -> Problem:
    """The problem of a connection that stays silent or breaks."""
    if isinstance(error, TimeoutError):
        return Problem(
            f"no answer in time to {what}",
            "the connection is accepted, but no answer comes: a load balancer or port "
            "forwarding without a broker behind it, a broker that hangs, or another server",
            "see the broker's log, and connect to the broker directly, with nothing in between",
        )
    return Problem(
        f"the connection broke at {what}: {error.strerror or error}", "see the broker's log"
    )


def no_kafka(place: HostPort, what: str, received: bytes, *, encrypted: bool) -> Problem:
    """The problem of a server that doesn't speak Kafka's protocol."""
    began = f" (it began with {clean(repr(received[:24]))})" if received else ""
    text = f"{place} isn't a Kafka listener that this client can talk to: {what} answered{began}"
    if what == "a TLS server" and not encrypted:
        return Problem(
            text, "the listener wants TLS, and the client speaks without it", f"set {TLS_PROTOCOLS}"
        )
    if what == "an HTTP server":
        cause = (
            "this is the port of a REST proxy, a schema registry, a metrics exporter or a web "
            "interface"
        )
        return Problem(text, cause, f"use the port of the broker's listener: {KAFKA_PORTS}")
    return Problem(
        text, "the wrong port, or a proxy in between", f"use the broker's own port: {KAFKA_PORTS}"
    )


def closed_at_versions(place: HostPort) -> Problem:
    """The problem of a server that closes the connection after ApiVersions."""
    return Problem(
        f"{place} closed the connection in place of an answer to ApiVersions",
        "it isn't Kafka, it is older than 0.10, or the listener is one for controllers or "
        "for other brokers",
        f"check the port: {KAFKA_PORTS}; the broker's log says why it closes connections",
    )


# --- TLS ---


def of_certificate(facts: dict[str, str]) -> str:
    """A certificate's facts on one line."""
    return (
        f"{facts['subject']} for {facts['names']}, from '{facts['issuer']}', until "
        f"{facts['not_after']}"
    )


def of_chain(chain: Sequence[dict[str, str]]) -> str:
    """The certificates of a broker on one line."""
    shown = "; ".join(f"{number}. {of_certificate(facts)}" for number, facts in enumerate(chain, 1))
    return f"it has shown {shown}" if shown else ""


def no_tls(text: str, place: HostPort, kind: list[str] | str | None) -> Problem:
    """The problem of a TLS handshake without a certificate. ``kind``: see `probe.listener_kind`."""
    if isinstance(kind, list):
        cause = (
            f"the listener speaks Kafka without TLS and wants a log-in with one of {_listed(kind)}"
        )
        return Problem(
            text,
            cause,
            "set security.protocol=sasl_plaintext, or take the port of the TLS listener",
        )
    if kind is None:
        cause = "the listener speaks Kafka without TLS and without a log-in"
        return Problem(
            text, cause, "set security.protocol=plaintext, or take the port of the TLS listener"
        )
    if kind.startswith("an "):
        return no_kafka(place, kind, b"", encrypted=True)
    return Problem(text, "", f"is it a listener for TLS? If not: {PLAIN_PROTOCOLS}")


# --- the log-in ---


def of_login(code: int, text: str, mechanism: Mechanism, encrypted: bool) -> Problem:
    """The problem of a refused log-in. ``text``: the broker's, without secrets."""
    name = mechanism.name
    if code == KafkaError.UNSUPPORTED_SASL_MECHANISM:
        return Problem(
            f"the broker has no SASL mechanism {name}: it offers {text or 'none'}",
            "sasl.mechanism isn't one of the listener's sasl.enabled.mechanisms",
            f"set sasl.mechanism={text.split(', ')[0]}" if text else "",
        )
    if code == KafkaError.ILLEGAL_SASL_STATE:
        other = "ssl" if encrypted else "plaintext"
        return Problem(
            "the listener takes no SASL",
            "it is one for clients that don't log in",
            f"set security.protocol={other}, or take the port of the SASL listener",
        )
    who = f"user {clean(mechanism.user)!r}" if mechanism.user else "the client"
    causes = {
        "PLAIN": "a wrong password, or a user that the broker's JAAS "
        "configuration (or its callback) "
        "doesn't know",
        "OAUTHBEARER": "the broker doesn't accept the token: its issuer, "
        "audience, signature or lifetime",
        "GSSAPI": "the ticket isn't for this broker: its host name, "
        "sasl.kerberos.service.name, its "
        "keytab, the clocks",
        "AWS_MSK_IAM": "the signature isn't accepted: credentials, region "
        "(sasl.aws.region), the policy, "
        "the clock",
    }
    scram = f"a wrong password, or {who} has no credential for {name} (users list shows who has)"
    advice = {
        "OAUTHBEARER": "compare the token's claims with the listener's sasl.oauthbearer.expected.*",
        "GSSAPI": "see sasl.kerberos.* and the KDC's log",
        "AWS_MSK_IAM": "",
    }.get(name, "check sasl.username, sasl.password and sasl.mechanism")
    return Problem(f"the broker refuses {who} with {name}: {text}", causes.get(name, scram), advice)


def closed_at_login(mechanism: Mechanism) -> Problem:
    """The problem of a connection that the broker closes during the log-in."""
    return Problem(
        f"the broker closed the connection in the middle of the log-in with {mechanism.name}",
        "it rejects the credentials without an error text, or doesn't support this mechanism",
        "check the credentials; the broker's log says why",
    )


def closed_at_metadata(kind: list[str] | str | None, encrypted: bool, logged_in: bool) -> Problem:
    """The problem of a connection that the broker closes after Metadata.

    ``kind``: see `probe.listener_kind`.
    """
    text = "the broker closed the connection in place of an answer to Metadata"
    if isinstance(kind, list) and not logged_in:
        protocol = "sasl_ssl" if encrypted else "sasl_plaintext"
        return Problem(
            text,
            f"the listener wants a log-in, with one of {_listed(kind)}",
            f"set security.protocol={protocol}, sasl.mechanism, sasl.username and sasl.password",
        )
    return Problem(
        text,
        "the listener isn't for clients, or the broker is shutting down",
        "see the broker's log",
    )


# --- the addresses of the brokers ---


def of_listener(
    problem: Problem, broker: int, place: HostPort, servers: Sequence[HostPort]
) -> Problem:
    """The problem of a broker that clients can't reach at its advertised address."""
    text = f"the cluster tells clients to connect to {place}, and there: {problem.text}"
    if is_only_local(place, servers):
        return Problem(
            text,
            only_local(place, broker, servers),
            f"on broker {broker}: advertised.listeners with a name and port that clients reach, "
            f"for instance {servers[0]}; clients need no other setting",
            problem.details,
        )
    if "can't be resolved" in problem.text:
        return Problem(
            text,
            "the name is known only where the broker runs: a container's, a pod's or an "
            "internal name",
            f"on broker {broker}: advertised.listeners with a name that clients resolve; "
            "in containers one listener for inside and one for outside, "
            "each with its own advertised address",
            problem.details,
        )
    private = _is_private(place.host) and not any(_is_private(each.host) for each in servers)
    where = "a private address, of the broker's own network; " if private else ""
    return Problem(
        text,
        f"{where}{problem.cause}" if problem.cause else where.rstrip("; "),
        problem.advice
        or f"check advertised.listeners of broker {broker}, and what is between it and this "
        "machine",
        problem.details,
    )


def is_only_local(place: HostPort, servers: Sequence[HostPort]) -> bool:
    """Whether a broker advertises localhost to a client that came by another address."""
    return is_loopback(place.host) and not all(is_loopback(each.host) for each in servers)


def only_local(place: HostPort, broker: int, servers: Sequence[HostPort]) -> str:
    """The cause text for a broker that advertises localhost."""
    return (
        f"{place.host} is each client's own machine: broker {broker} has the default, "
        "or a developer's, advertised.listeners, "
        f"while you came by {', '.join(str(each) for each in servers)}"
    )


def other_cluster(place: HostPort, broker: int, found: str, expected: str) -> Problem:
    """The problem of another cluster at a broker's advertised address."""
    return Problem(
        f"another cluster answers at {place}: {found}, not {expected}",
        f"advertised.listeners of broker {broker} names a machine that is another one from here",
        f"on broker {broker}: advertised.listeners with a name that is the same for clients",
    )


# --- the user's permissions ---


def of_topic(error: KafkaError, topic: str) -> Problem:
    """The problem of a topic that can't be described."""
    text = f"topic {topic}: {error.str()}"
    if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        cause = (
            "there is no such topic, or the user may not even know that there is (DESCRIBE is "
            "missing)"
        )
        return Problem(
            text,
            cause,
            f"kafka-native topics create {topic}, or let the user: see kafka-native acls",
        )
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return Problem(
            text, "the user lacks DESCRIBE, READ or WRITE on it", _grant("topic", topic, "read")
        )
    return Problem(text)


def leaderless(topic: str, partitions: Sequence[int]) -> Problem:
    """The problem of partitions without a leader."""
    numbers = ", ".join(str(each) for each in partitions[:20])
    return Problem(
        f"topic {topic}: partition {numbers} has no leader",
        "the brokers that have its replicas are down",
        f"kafka-native topics describe {topic} shows them",
    )


def of_group(error: KafkaError, group: str) -> Problem:
    """The problem of a group that can't be described."""
    text = f"group {group}: {error.str()}"
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return Problem(
            text, "the user lacks DESCRIBE or READ on it", _grant("group", group, "read")
        )
    if error.code() == KafkaError.COORDINATOR_NOT_AVAILABLE:
        return Problem(
            text, "__consumer_offsets has no leader: too few brokers for its replication factor?"
        )
    return Problem(text)


def _grant(kind: str, name: str, operation: str) -> str:
    return f"kafka-native acls create --{kind} {name} --principal User:... --operation {operation}"


def _listed(mechanisms: Sequence[str]) -> str:
    return ", ".join(clean(each) for each in mechanisms[:20]) or "nothing that it names"


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine."""
    if host.rstrip(".").lower() in ("localhost", "localhost.localdomain", "ip6-localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return False
