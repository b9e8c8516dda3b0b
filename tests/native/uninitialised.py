"""Calls everything of the extension types on uninitialized objects: no call may crash.

This is a program. It prints a line before each step, so the last line names the step that crashed.
Arguments: names of types and functions ("message.Message"). Without arguments it runs all of them.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import pickle
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import kafka_native.admin
import kafka_native.aio
from kafka_native import _native as native

HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: a class written in Python."""
LEFT_OUT = {"__class__", "__init_subclass__", "__subclasshook__"}
"""Attributes that don't belong to the object."""
FILLERS: list[Any] = [
    None,
    0,
    -1,
    1 << 40,
    "a",
    b"a",
    [],
    (),
    {},
    [None],
    [(1, 2)],
    print,
    object(),
]
WRONG = re.compile(r"Argument '(\w+)' has incorrect type \(expected ([\w.]+), got")
BUILTINS: dict[str, Any] = {
    "bytes": b"a",
    "str": "a",
    "list": [],
    "dict": {},
    "tuple": (),
    "set": set(),
    "type": int,
}


def modules() -> Iterator[Any]:
    """Yield the extension modules."""
    for found in pkgutil.iter_modules(native.__path__):
        if not found.name.startswith("lib"):
            yield importlib.import_module(f"{native.__name__}.{found.name}")


@functools.cache
def extension_types() -> dict[str, type]:
    """Return every type that isn't a Python class, by module and name."""
    found: dict[type, str] = {}
    for module in modules():
        for kind in vars(module).values():
            if (
                isinstance(kind, type)
                and kind.__module__.startswith(("kafka_native", "confluent_kafka"))
                and not kind.__flags__ & HEAP_TYPE
            ):
                found[kind] = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
    return {name: kind for kind, name in found.items()}


def public_types() -> dict[str, type]:
    """Return the package's own classes that derive from extension types."""
    found: dict[str, type] = {}
    for module in (kafka_native, kafka_native.admin, kafka_native.aio):
        for name in module.__all__:
            kind = getattr(module, name)
            if isinstance(kind, type) and any(
                each in extension_types().values() for each in kind.__mro__
            ):
                found[f"{module.__name__}.{name}"] = kind
    return found


def functions() -> dict[str, Callable[..., Any]]:
    """Return every function of the modules."""
    found: dict[str, Callable[..., Any]] = {}
    for module in modules():
        for name, each in vars(module).items():
            if inspect.isroutine(each) and getattr(each, "__module__", None) == module.__name__:
                found[f"{module.__name__.rpartition('.')[2]}.{name}"] = each
    return found


def made(kind: type) -> Any:
    """Return an object without a constructor call, or None if the type refuses."""
    try:
        return kind.__new__(kind)
    except Exception:
        return None


def step(what: str, work: Callable[[], Any]) -> Any:
    """Run one step. It may raise any exception, but the process must survive."""
    print(what, flush=True)
    try:
        return work()
    except Exception:
        return None


def call(what: str, function: Callable[..., Any]) -> None:
    """Call a function with each filler, or with uninitialized objects of its types."""
    try:
        every = inspect.signature(function).parameters.values()
        parameters = [each for each in every if each.kind < each.VAR_POSITIONAL]
        names = [each.name for each in parameters if each.name != "self"]
        counts = {
            len(names),
            sum(each.default is each.empty for each in parameters if each.name != "self"),
        }
    except (TypeError, ValueError):  # a slot of Python's
        names, counts = [], {0, 1, 2, 3}
    for filler in FILLERS:
        for count in counts:
            arguments = [filler] * count
            for _ in range(2 * count + 1):
                try:
                    print(f"{what}{tuple(map(type, arguments))}", flush=True)
                    function(*arguments)
                    break
                except TypeError as error:
                    wrong = WRONG.search(str(error))
                    if wrong is None or wrong[1] not in names or names.index(wrong[1]) >= count:
                        break
                    arguments[names.index(wrong[1])] = instance_of(wrong[2])
                except Exception:
                    break


def instance_of(name: str) -> Any:
    """Return an argument of this type."""
    if name in BUILTINS:
        return BUILTINS[name]
    for kind in extension_types().values():
        if name.rpartition(".")[2] == kind.__name__:
            return made(kind)
    return None


def try_object(name: str, it: Any) -> None:
    """Use every attribute, every method, and the operations that every object has."""
    for attribute in dir(it):
        if attribute in LEFT_OUT or (attribute == "__init__" and type(it).__flags__ & HEAP_TYPE):
            continue  # its constructor would make a client that waits
        found = step(f"{name}.{attribute}", partial(getattr, it, attribute))
        if callable(found):
            call(f"{name}.{attribute}", found)
        for value in FILLERS if not attribute.startswith("__") else ():
            step(f"{name}.{attribute} = {value!r}", partial(setattr, it, attribute, value))
    for each in (
        repr,
        str,
        len,
        bool,
        hash,
        list,
        bytes,
        memoryview,
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        dir,
    ):
        step(f"{each.__name__}({name})", partial(each, it))
    step(f"{name} == {name}", lambda: it == it)


def try_type(name: str, kind: type) -> None:
    """Try objects of the type, and of a derived class."""
    step(f"object.__new__({name})", lambda: object.__new__(kind))
    it = step(f"{name}.__new__", lambda: kind.__new__(kind))
    if it is not None:
        try_object(name, it)
    derived = step(
        f"class of {name}", lambda: type("Derived", (kind,), {"__init__": lambda self: None})
    )
    it = step(f"derived from {name}", derived) if derived is not None else None
    if it is not None:
        try_object(f"derived from {name}", it)
    if not kind.__flags__ & HEAP_TYPE:
        call(name, kind)


def main(wanted: list[str]) -> None:
    """Run everything, or the named types and functions."""
    for name, kind in {**extension_types(), **public_types()}.items():
        if not wanted or name in wanted:
            try_type(name, kind)
    for name, function in functions().items():
        if not wanted or name in wanted:
            call(name, function)
    print("THE END", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
