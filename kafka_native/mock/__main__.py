"""``python -m kafka_native.mock`` runs a mock cluster in its own process.

The command prints one line with the bootstrap servers when the cluster is ready, and with
``--registry`` a second one with the registry's URL. It ends on SIGINT or SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_native.mock import memory
from kafka_native.mock.cluster import MESSAGE_MAX_BYTES, MockCluster
from kafka_native.mock.mechanisms import MECHANISMS
from kafka_native.mock.schema_registry import MockSchemaRegistry
from kafka_native.mock.security import PROTOCOLS, ListenerSecurity

if TYPE_CHECKING:
    from collections.abc import Sequence


def _topics(text: str) -> list[tuple[str, int]]:
    found = []
    for one in filter(None, text.split(",")):
        name, _, count = one.partition(":")
        if not name or (count and not count.isdigit()):
            raise argparse.ArgumentTypeError(f"{one!r} is not NAME or NAME:PARTITIONS")
        found.append((name, int(count or 1)))
    return found


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _user(text: str) -> tuple[str, str]:
    name, _, password = text.partition(":")
    if not name or not password:
        raise argparse.ArgumentTypeError("a user is NAME:PASSWORD")
    return name, password


def _add_security(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("TLS and SASL")
    group.add_argument(
        "--security-protocol", type=str.lower, choices=PROTOCOLS, default="plaintext"
    )
    group.add_argument(
        "--sasl-mechanisms", default="PLAIN", metavar="A,B", help=f"of {', '.join(MECHANISMS)}"
    )
    group.add_argument(
        "--user",
        type=_user,
        action="append",
        default=[],
        metavar="NAME:PASSWORD",
        help="for PLAIN and SCRAM, repeatable",
    )
    group.add_argument(
        "--session-lifetime-ms",
        type=int,
        default=0,
        help="how long a login is valid (default: no limit)",
    )
    group.add_argument(
        "--client-certificates", choices=("none", "requested", "required"), default="none"
    )
    group.add_argument(
        "--save-certificates",
        type=Path,
        metavar="DIRECTORY",
        help="write ca.pem, client.pem and client.key there",
    )


def _security(options: argparse.Namespace) -> ListenerSecurity:
    return ListenerSecurity(
        options.security_protocol,
        mechanisms=options.sasl_mechanisms.split(","),
        users=dict(options.user),
        session_lifetime_ms=options.session_lifetime_ms,
        client_certificates=options.client_certificates,
    )


def _save_certificates(cluster: MockCluster, directory: Path) -> None:
    ca_pem = cluster.ca_pem  # raises before any file is written
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "ca.pem").write_text(ca_pem)
    cluster.certificates.client("client").save(directory, "client")


def _report(cluster: MockCluster, registry: MockSchemaRegistry | None, as_json: bool) -> str:
    """Return the text that is printed when everything is ready."""
    addresses = {"bootstrap.servers": cluster.bootstrap_servers}
    if registry is not None:
        addresses["schema.registry.url"] = registry.url
    if as_json:
        return json.dumps({**addresses, "cluster_id": cluster.cluster_id, "pid": os.getpid()})
    return "\n".join(f"{name}={value}" for name, value in addresses.items())


def _add_state(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("state in a folder")
    group.add_argument(
        "--load", type=Path, metavar="DIRECTORY", help="begin with the state in this folder"
    )
    group.add_argument(
        "--save", type=Path, metavar="DIRECTORY", help="save the state to this folder at the end"
    )


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=program, description="A mock Kafka cluster.")
    parser.add_argument(
        "--brokers", type=int, default=3, help="how many brokers (default %(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port of the first broker, 0 for free ones (default)"
    )
    parser.add_argument(
        "--topics", type=_topics, default=[], metavar="a:4,b:1", help="topics and their partitions"
    )
    parser.add_argument(
        "--partitions",
        type=int,
        default=1,
        help="partitions of topics that the cluster creates (default 1)",
    )
    parser.add_argument(
        "--auto-create",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="create unknown topics that clients request",
    )
    parser.add_argument(
        "--retention-bytes",
        type=int,
        help="how many bytes of batches to keep, the newest (default: all)",
    )
    parser.add_argument(
        "--message-max-bytes", type=int, default=MESSAGE_MAX_BYTES, help="the largest batch"
    )
    parser.add_argument(
        "--prefault-bytes",
        type=int,
        default=0,
        help="access this much memory at the start, so that later accesses are fast",
    )
    parser.add_argument(
        "--registry",
        type=_port,
        nargs="?",
        const=0,
        metavar="PORT",
        help="also start a mock schema registry, on this port or on a free one",
    )
    _add_state(parser)
    _add_security(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the line as JSON, with the cluster's id"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="log to stderr why connections are closed"
    )
    return parser


def main(
    arguments: Sequence[str] | None = None, program: str = "python -m kafka_native.mock"
) -> int:
    """Run until a signal arrives, and return the exit status.

    The help calls the command ``program``.
    """
    parser = _parser(program)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO if options.verbose else logging.WARNING)
    memory.keep(options.prefault_bytes)
    # The signals are blocked before the threads start, so only ``sigwait`` below receives them.
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        cluster = MockCluster(
            options.brokers,
            port=options.port,
            auto_create_topics=options.auto_create,
            default_partitions=options.partitions,
            retention_bytes=options.retention_bytes,
            message_max_bytes=options.message_max_bytes,
            security=_security(options),
            load=options.load,
        )
    except (OSError, ValueError, ModuleNotFoundError) as error:
        parser.error(str(error))
    with cluster, ExitStack() as running:
        registry = None
        try:
            for name, count in options.topics:
                if options.load is None or name not in cluster.topics:
                    cluster.create_topic(name, count)
            if options.save_certificates is not None:
                _save_certificates(cluster, options.save_certificates)
            if options.registry is not None:
                registry = running.enter_context(MockSchemaRegistry(port=options.registry))
        except (OSError, ValueError) as error:
            parser.error(str(error))
        print(_report(cluster, registry, options.json), flush=True)
        signal.sigwait(signals)
        return _save(cluster, options.save)


def _save(cluster: MockCluster, folder: Path | None) -> int:
    """Save the state to a folder, if one is wanted, and return the exit status."""
    if folder is not None:
        try:
            cluster.save(folder)
        except OSError as error:
            print(f"the state can't be saved: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
