"""`install()` makes ``import confluent_kafka`` import kafka_native in this process.

    import kafka_native.compat

    kafka_native.compat.install()

    import some_framework_on_confluent_kafka

Without a change to the program: ``python -m kafka_native.compat program.py arguments ...``.

docs/guide/from-confluent-kafka.md lists the differences.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final

import kafka_native

__all__ = ["API_VERSION", "install"]

API_VERSION: Final = "2.13.0"
"""The version that ``confluent_kafka.version()`` and ``libversion()`` return.

kafka_native has the API and the properties of this release. Frameworks use the number to find out
which features exist. kafka_native's own version number has no meaning for them.
"""

_NAME: Final = "confluent_kafka"

_OWN: Final = {
    "_model": "types",
    "admin": "admin",
    "aio": "aio",
    "cimpl": "cimpl",
    "deserializing_consumer": "deserializing_consumer",
    "deserializing_share_consumer": "deserializing_share_consumer",
    "error": "error",
    "serialization": "serialization",
    "serializing_producer": "serializing_producer",
}
"""Modules of confluent_kafka, and the kafka_native modules that replace them.

A module that this table doesn't have, or that kafka_native doesn't have, can't be imported.
"""

_INSTALLED: Final = {"_types", "_util", "schema_registry"}
"""Pure Python modules of confluent_kafka. They are loaded from the installed package."""


def install() -> None:
    """Make ``import confluent_kafka`` import kafka_native in this process.

    Call it before any module imports confluent_kafka. A second call has no effect. Call it again in
    each new process that starts a new interpreter (``subprocess``, multiprocessing's ``spawn``).

    ``confluent_kafka.schema_registry`` comes from the installed confluent_kafka package and uses
    kafka_native. Without that package the import fails. The package's C extension isn't loaded.

    :raises RuntimeError: The process has imported the real confluent_kafka already. Modules that
        imported its classes would keep them.
    """
    if any(isinstance(each, _Finder) for each in sys.meta_path):
        return
    there = sys.modules.get(_NAME)
    if there is not None:
        where = getattr(there, "__file__", None) or "somewhere"
        text = "call kafka_native.compat.install() before anything imports it"
        raise RuntimeError(f"confluent_kafka is imported already, from {where}: {text}")
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the package confluent_kafka and the modules directly below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        if package != _NAME:
            return None
        if not rest:
            return ModuleSpec(fullname, _PackageLoader(), is_package=True)
        first, _, deeper = rest.partition(".")
        if first in _OWN:
            own = ".".join(filter(None, ("kafka_native", _OWN[first], deeper)))
            return ModuleSpec(fullname, _AliasLoader(own)) if _exists(own) else None
        if first in _INSTALLED and not deeper:
            installed = PathFinder.find_spec(_NAME)
            if installed is not None and installed.submodule_search_locations is not None:
                return PathFinder.find_spec(fullname, installed.submodule_search_locations)
        return None


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent doesn't exist, or is a module and not a package
        return False


class _PackageLoader(Loader):
    """Makes the package confluent_kafka: a new module with its own name.

    Python finds the modules below a package by the package's name.
    """

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def later(name: str) -> object:
            try:
                return getattr(kafka_native, name)
            except AttributeError:
                raise AttributeError(f"module {_NAME!r} has no attribute {name!r}") from None

        number = int.from_bytes(bytes([*map(int, API_VERSION.split(".")), 255]), "big")
        module.__file__ = kafka_native.__file__  # Python shows it in import errors
        module.__doc__ = "kafka_native under the name of confluent_kafka; see kafka_native.compat."
        vars(module).update(
            {
                name: value
                for name, value in vars(kafka_native).items()
                if name in kafka_native.__all__
            },
            __all__=list(kafka_native.__all__),
            __getattr__=later,
            __version__=API_VERSION,
            version=lambda: API_VERSION,
            libversion=lambda: (API_VERSION, number),
        )


class _AliasLoader(Loader):
    """Returns a module of kafka_native under a second name, so both names have the same classes."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module = importlib.import_module(self._own)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has set the spec of the second name
