"""A program with every kind of secret in it: ``python -m tests.client.secretive``.

Settings, and whether they are good, come as a line of JSON. It succeeds, is refused, is asked for
everything that it can be asked for, and dumps its threads' stacks. What it writes is for others to
look through.
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
"""How long to wait for good and for bad settings."""


def tell(what: Any) -> None:
    """Print a value as a program's author would."""
    print(f"{what!r} {what} {getattr(what, '__dict__', '')}")


def use(conf: dict[str, Any], good: bool) -> None:
    """Use every kind of client, or one that fails, and print all errors."""
    wait_s = GOOD_S if good else BAD_S
    common = {
        **conf,
        "debug": "all",
        "statistics.interval.ms": 500,
        "error_cb": tell,
        "stats_cb": tell,
    }
    made: list[tuple[type[Any], dict[str, Any]]] = [
        (Producer, {}),
        (Consumer, {"group.id": "g"}),
        (AdminClient, {}),
    ]
    for kind, own in made if good else made[:1]:
        try:
            with kind({**common, **own}) as client:
                tell(client)
                tell(client.metrics())
                try:
                    pickle.dumps(client)
                except TypeError as error:
                    tell(error)
                if kind is Producer:
                    client.produce("t", b"x", on_delivery=lambda error, message: tell(message))
                    tell(client.flush(wait_s))
                    client.purge()  # no wait at the end
                tell(client.list_topics(timeout=wait_s))
                client.poll(0.1)
                faulthandler.dump_traceback()
        except KafkaException as error:
            tell(error)
            tell(error.args[0])
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
