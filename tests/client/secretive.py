"""A program whose settings have every kind of secret: ``python -m tests.client.secretive``.

It reads a line of JSON from stdin: sets of settings, each with a flag that says whether they are
valid. It uses clients with them, prints all results and errors, and dumps its threads' stacks.
The test searches the output for secrets.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import pickle
import sys
import traceback
from typing import Any

from kafka_native import Consumer, KafkaException, Producer
from kafka_native.admin import AdminClient

GOOD_S, BAD_S = 20.0, 1.5
"""Timeouts for valid and for invalid settings."""


def show(what: Any) -> None:
    """Print a value in the usual ways."""
    print(f"{what!r} {what} {getattr(what, '__dict__', '')}")


def use(conf: dict[str, Any], good: bool) -> None:
    """Use every kind of client with valid settings, or a producer with invalid ones.

    Print all results and errors.
    """
    wait_s = GOOD_S if good else BAD_S
    common = {
        **conf,
        "debug": "all",
        "statistics.interval.ms": 500,
        "error_cb": show,
        "stats_cb": show,
    }
    made: list[tuple[type[Any], dict[str, Any]]] = [
        (Producer, {}),
        (Consumer, {"group.id": "g"}),
        (AdminClient, {}),
    ]
    for kind, own in made if good else made[:1]:
        try:
            with kind({**common, **own}) as client:
                show(client)
                show(client.metrics())
                try:
                    pickle.dumps(client)
                except TypeError as error:
                    show(error)
                if kind is Producer:
                    client.produce("t", b"x", on_delivery=lambda error, message: show(message))
                    show(client.flush(wait_s))
                    client.purge()  # so that close() does not wait
                show(client.list_topics(timeout=wait_s))
                client.poll(0.1)
                faulthandler.dump_traceback()
        except KafkaException as error:
            show(error)
            show(error.args[0])
            traceback.print_exc()


def main() -> None:
    """Use each set of settings in turn, then wait until stdin ends."""
    logging.basicConfig(level=logging.DEBUG)
    for conf, good in json.loads(sys.stdin.readline()):
        use(conf, good)
    print("finished", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
