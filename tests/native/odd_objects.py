"""Treats objects of every public type in odd ways: no call may crash.

This is a program. It prints a line before each step, so the last line names the step that crashed.
`tests.native.uninitialised` calls every method of uninitialized objects. This program derives
classes, copies, pickles, revives and closes objects, and treats Messages in random order.

    python -m tests.native.odd_objects              compiled types, Messages, closed clients
    python -m tests.native.odd_objects all          every type
    python -m tests.native.odd_objects SECONDS SEED random treatment of Messages
"""

from __future__ import annotations

import asyncio
import copy
import gc
import importlib
import inspect
import pickle
import pkgutil
import random
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import kafka_native
import kafka_native.admin
import kafka_native.aio
from kafka_native.compat.drop_in import confluent_kafka as drop_in
from kafka_native.mock import MockCluster
from tests.native.uninitialised import FILLERS, LEFT_OUT, call, extension_types, step
from tests.waiting import WAIT_S

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "error_cb": lambda error: None}
STATES: list[Any] = [*FILLERS, {"_topic": 3}, ({}, {"_code": "x"}), (None, {"_records": 3})]
"""Arguments of ``__setstate__()``."""
revived: list[Any] = []


def modules() -> Iterator[Any]:
    """Yield the modules with public classes: kafka_native's, and the drop-in's."""
    yield from (kafka_native, kafka_native.admin, kafka_native.aio, drop_in)
    own = drop_in.__path__[:1]  # the others are those of an installed confluent_kafka
    for found in pkgutil.walk_packages(own, f"{drop_in.__name__}."):
        yield importlib.import_module(found.name)


def types(only_compiled: bool) -> dict[str, type]:
    """Return every public type of the package, and every compiled one, by its name.

    ``only_compiled`` leaves out those without a compiled base class.
    """
    found: dict[type, str] = {kind: name for name, kind in extension_types().items()}
    compiled = set(found)
    for module in modules():
        for each in {**vars(module), **dict.fromkeys(getattr(module, "__all__", ()))}:
            kind = getattr(module, each, None)  # some names are loaded by this
            if (
                isinstance(kind, type)
                and kind.__module__.startswith(("kafka_native", "confluent_kafka.cimpl"))
                and not (only_compiled and compiled.isdisjoint(kind.__mro__))
            ):
                found.setdefault(kind, f"{kind.__module__}.{kind.__name__}")
    return {name: kind for kind, name in found.items()}


def revive(it: Any) -> None:
    """Keep an object that is being destroyed."""
    revived.append(it)


def shapes(kind: type) -> Iterator[tuple[str, Callable[[], type]]]:
    """Yield makers of classes that derive from the type, with a name for each."""
    nothing = {"__init__": lambda self, *args, **kwargs: None}
    yield "plain", lambda: type("Plain", (kind,), dict(nothing))
    yield "initialised", lambda: type("Initialised", (kind,), {})
    yield "slotted", lambda: type("Slotted", (kind,), {**nothing, "__slots__": ()})
    slots = ("own", "__weakref__")
    yield "weak", lambda: type("Weak", (kind,), {**nothing, "__slots__": slots})
    yield "revived", lambda: type("Revived", (kind,), {**nothing, "__del__": revive})
    yield "second", lambda: type("Second", (type("First", (kind,), dict(nothing)),), {})
    yield "mixed", lambda: type("Mixed", (kind, type("Mixin", (), {})), dict(nothing))
    yield "last", lambda: type("Last", (type("Mixin", (), {}), kind), dict(nothing))


def treat(name: str, it: Any, others: list[type]) -> None:
    """Copy, pickle, change and destroy an object."""
    kind = type(it)
    step(f"weakref.ref({name})", lambda: weakref.ref(it, lambda ref: None))
    for protocol in range(6):
        step(f"{name}.__reduce_ex__({protocol})", partial(it.__reduce_ex__, protocol))
        step(
            f"pickle {name} by {protocol}",
            lambda protocol=protocol: pickle.loads(pickle.dumps(it, protocol)),
        )
    step(f"copy.copy({name})", lambda: repr(copy.copy(it)))
    step(f"copy.deepcopy({name})", lambda: repr(copy.deepcopy(it)))
    for state in STATES:
        step(f"{name}.__setstate__({state!r})", lambda state=state: it.__setstate__(state))
        step(f"reconstruct {name} by {state!r}", lambda state=state: rebuilt(kind, state))
    for other in others:
        step(f"{name}.__class__ = {other.__name__}", partial(setattr, it, "__class__", other))
        step(f"repr({name} as {other.__name__})", lambda: repr(it))
        step(f"{name}.__class__ back", partial(setattr, it, "__class__", kind))
    step(f"{name}.me", partial(setattr, it, "me", it))
    for each in (repr, str, hash, bool, len, iter, dir, bytes):
        step(f"{each.__name__}({name})", partial(each, it))


def rebuilt(kind: type, state: Any) -> str:
    """Return the text of an object as copyreg makes it: ``__new__`` and a state."""
    made = kind.__new__(kind)
    made.__setstate__(state)
    return repr(made)


def try_shapes(name: str, kind: type) -> None:
    """Treat objects of the type and of derived classes."""
    made = step(f"{name}.__new__", lambda: kind.__new__(kind))
    derived = [
        (shape, found)
        for shape, make in shapes(kind)
        if (found := step(f"class {shape} of {name}", make)) is not None
    ]
    others = [kind, *(found for _, found in derived), dict, int, kafka_native.Message]
    if made is not None:
        treat(name, made, others)
    for shape, found in derived:
        it = step(f"{name} {shape}.__new__", lambda found=found: found.__new__(found))
        if it is None:
            continue
        treat(f"{name} {shape}", it, others)
        del it
    step(f"drop {name}", lambda: (gc.collect(), revived.clear(), gc.collect()))


def try_constructors(name: str, kind: type) -> None:
    """Call the constructor of a value type, and again on the same object."""
    for filler in FILLERS:
        for count in range(5):
            given = (filler,) * count
            it = step(f"{name}{given!r}", lambda given=given: kind(*given))
            for again in (FILLERS[0], FILLERS[4]) if it is not None else ():
                step(
                    f"{name}{given!r}.__init__({again!r})",
                    lambda it=it, again=again, count=count: it.__init__(*(again,) * count),
                )
                step(f"repr({name}{given!r})", lambda it=it: (repr(it), copy.copy(it)))


def clients() -> Iterator[tuple[str, Any]]:
    """Yield closed clients."""
    for lib in (kafka_native, drop_in):
        for name, conf in {
            "Producer": NOWHERE,
            "SerializingProducer": NOWHERE,
            "Consumer": {**NOWHERE, "group.id": "g"},
            "DeserializingConsumer": {**NOWHERE, "group.id": "g"},
            "ShareConsumer": {**NOWHERE, "group.id": "g"},
        }.items():
            client = step(f"{lib.__name__}.{name}", lambda lib=lib, name=name: getattr(lib, name))
            made = step(f"{name}(conf)", partial(client, dict(conf)))
            if made is None:
                continue
            yield f"{lib.__name__}.{name} open", made
            step(f"{name}.close", made.close)
            yield f"{lib.__name__}.{name} closed", made


WAITS = {"close", "__exit__", "__del__"}
"""Methods that other steps call."""


def try_closed_clients() -> None:
    """Call everything of clients after their end, and of the parts that they leave behind."""
    for name, it in clients():
        if name.endswith(" open"):
            step(f"{name}.__init__", lambda it=it: type(it).__init__(it, {"no such": 1}))
            for each in (copy.copy, copy.deepcopy, pickle.dumps, repr, len, bool):
                step(f"{each.__name__}({name})", partial(each, it))
            continue
        parts = {"": it, ".engine": it._client.engine, ".pins": it._client.engine.pins}
        for suffix, part in parts.items():
            for attribute in dir(part):
                if attribute in LEFT_OUT | WAITS or attribute == "__init__":
                    continue
                found = step(f"{name}{suffix}.{attribute}", partial(getattr, part, attribute))
                if callable(found) and not inspect.isclass(found):
                    call(f"{name}{suffix}.{attribute}", closing(found))
    gc.collect()


def closing(function: Any) -> Any:
    """Return a function that also closes a coroutine or an iterator that the call returns."""

    def called(*given: Any) -> None:
        result = function(*given)
        if inspect.iscoroutine(result):
            result.close()
        elif inspect.isgenerator(result):
            next(result, None)

    try:
        called.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    except ValueError:  # a slot of Python's
        return function
    return called


async def try_asyncio() -> None:
    """Call everything of closed asyncio clients."""
    for lib in (kafka_native.aio, importlib.import_module(f"{drop_in.__name__}.aio")):
        for name in ("AIOProducer", "AIOConsumer"):
            client = getattr(lib, name)({**NOWHERE, **({"group.id": "g"} if "C" in name else {})})
            await client.close()
            for attribute in dir(client):
                if attribute in LEFT_OUT | WAITS or attribute.startswith("__"):
                    continue
                found = step(f"{name}.{attribute}", partial(getattr, client, attribute))
                if callable(found) and not inspect.isclass(found):
                    call(f"{lib.__name__}.{name}.{attribute}", closing(found))


def real_messages(lib: Any, cluster: MockCluster) -> list[Any]:
    """Return reports, consumed messages and ends of partitions, whose client is gone."""
    servers = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0}
    topic = f"odd-{time.monotonic_ns()}"
    cluster.create_topic(topic, 1)
    found: list[Any] = []
    with lib.Producer({**servers, "linger.ms": 0}) as producer:
        for number in range(200):
            headers = [("h", b"x" * number)] if number % 3 else None
            producer.produce(
                topic,
                b"v" * number if number % 5 else None,
                b"k" * (number % 7),
                headers=headers,
                on_delivery=lambda error, message: found.append(message),
            )
        producer.flush(WAIT_S)
    conf = {
        "group.id": "g",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "message.pinned.max.kbytes": 1,
    }
    with lib.Consumer({**servers, **conf}) as consumer:
        consumer.assign([lib.TopicPartition(topic, 0)])
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            got = consumer.consume(50, 0.5)
            found += got
            if got and got[-1].error() is not None:
                return found
    raise AssertionError("no end of the partition")


class Sabotage:
    """A value whose methods use the message that holds it."""

    def __init__(self, message: Any) -> None:
        self.message = message

    def __len__(self) -> int:
        self.message.set_value(None)
        return 3

    def __eq__(self, other: object) -> bool:
        self.message.__init__()
        return True

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        self.message.set_key(None)
        return "x"

    def __index__(self) -> int:
        self.message.__init__()
        return 1

    def __del__(self) -> None:
        for name in ("topic", "key", "value", "headers", "error"):
            getattr(self.message, name)()
            getattr(self.message, f"set_{name}")(None)
        kafka_native.Message(value=b"new")


def ways(pool: list[Any], rng: random.Random) -> list[Callable[[Any], Any]]:
    """Return ways to treat a Message."""
    getters = [
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "headers",
        "timestamp",
        "error",
        "latency",
        "status",
        "leader_epoch",
        "delivery_count",
        "deserialized_key",
        "deserialized_value",
        "__len__",
        "__bool__",
        "__repr__",
        "__reduce__",
    ]
    setters = ("set_topic", "set_key", "set_value", "set_headers", "set_error")
    values = [*FILLERS, b"v" * 1000, (1, 5), [1, 2], {}, 3.5, kafka_native.KafkaError(3)]
    names = [
        "topic",
        "partition",
        "offset",
        "key",
        "value",
        "headers",
        "error",
        "timestamp",
        "latency",
        "status",
    ]

    def value(message: Any) -> Any:
        return rng.choice([*values, message, rng.choice(pool), Sabotage(message)])

    def initialise(message: Any) -> None:
        message.__init__(**{name: value(message) for name in rng.sample(names, rng.randint(0, 5))})

    def use(message: Any, names: Sequence[str], *given: Any) -> None:
        name = rng.choice(names)
        print(f"{name}{tuple(map(type, given))}", flush=True)
        getattr(message, name)(*given)

    return [
        lambda message: use(message, getters),
        lambda message: use(message, setters, value(message)),
        initialise,
        lambda message: message == rng.choice(pool),
        lambda message: pool.append(copy.copy(message)),
        lambda message: pool.append(pickle.loads(pickle.dumps(message))),
        lambda message: pool.append(type(message).__new__(type(message))),
        lambda message: pool.append(rng.choice(DERIVED)(value=value(message))),
        lambda message: setattr(message, "__class__", rng.choice([*DERIVED, type(message)])),
        lambda message: pool.pop(rng.randrange(len(pool))) if len(pool) > 100 else None,
        lambda message: gc.collect() if rng.random() < 0.01 else None,
    ]


DERIVED: list[type] = [
    type(f"{base.__name__}{number}", (base,), body)
    for base in (kafka_native.Message, drop_in.Message)
    for number, body in enumerate(
        ({}, {"__slots__": ()}, {"__slots__": ("own", "__weakref__")}, {"__del__": revive})
    )
]


def try_messages(seconds: float, seed: int) -> None:
    """Treat Messages in random order."""
    rng = random.Random(seed)
    with MockCluster(brokers=1) as cluster:
        deadline = time.monotonic() + seconds
        while True:
            pool = [each for lib in (kafka_native, drop_in) for each in real_messages(lib, cluster)]
            treatments = ways(pool, rng)
            for number in range(5000):
                way = rng.randrange(len(treatments))
                message = rng.choice(pool)
                print(f"seed {seed}, {number}: way {way} of a {type(message)}", flush=True)
                try:
                    treatments[way](message)
                except Exception:
                    continue
            del message, pool, treatments
            revived.clear()
            gc.collect()
            if time.monotonic() > deadline:
                return


def main(arguments: list[str]) -> None:
    """Run everything, or only the random part for some seconds."""
    if len(arguments) == 2:
        try_messages(float(arguments[0]), int(arguments[1]))
        print("THE END", flush=True)
        return
    every = types(only_compiled=not arguments)
    gc.freeze()  # so that gc.collect() is quick
    for name, kind in every.items():
        try_shapes(name, kind)
        if (
            (arguments or name.startswith("message."))
            and not hasattr(kind, "poll")
            and not hasattr(kind, "list_topics")
        ):  # no client
            try_constructors(name, kind)
    try_closed_clients()
    asyncio.run(try_asyncio())
    try_messages(0, 1)
    print(f"{len(every)} types\nTHE END", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
