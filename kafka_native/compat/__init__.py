"""`install()`: in this process, ``import confluent_kafka`` means kafka_native.

    import kafka_native.compat

    kafka_native.compat.install()

    import some_framework_on_confluent_kafka

Or, without a change to the program: ``python -m kafka_native.compat program.py arguments ...``.

docs/guide/from-confluent-kafka.md says what differs.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

import kafka_native

__all__ = ["API_VERSION", "install"]

API_VERSION: Final = "2.13.0"
"""What ``confluent_kafka.version()`` and ``libversion()`` say: the releases whose API and properties are here.

Frameworks ask for them to find out what there is, and kafka_native's own version would tell them nothing.
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
"""Modules of confluent_kafka, and where they are in kafka_native: one that isn't there has neither name."""

_INSTALLED: Final = {"_types", "_util", "schema_registry"}
"""Modules of confluent_kafka that are pure Python and stand on the others: taken from the installed package."""


def install() -> None:
    """Make ``import confluent_kafka``, and its modules', mean kafka_native in this process. Again: nothing happens.

    ``confluent_kafka.schema_registry`` is the installed package's, on top of kafka_native; without that package there
    is none. Its C extension isn't loaded. To be called before anything imports confluent_kafka; processes that are
    started anew (``subprocess``, multiprocessing's ``spawn``) have to call it, too.

    :raises RuntimeError: confluent_kafka itself is imported already: who has its classes would keep them.
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
    """Finds confluent_kafka and what is directly below it."""

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
    except ModuleNotFoundError:  # its parent isn't there, or is no package
        return False


class _PackageLoader(Loader):
    """Makes the package: a module of its own, for its name to be right where modules below it are looked for."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def later(name: str) -> Any:
            try:
                return getattr(kafka_native, name)
            except AttributeError:
                raise AttributeError(f"module {_NAME!r} has no attribute {name!r}") from None

        number = int.from_bytes(bytes([*map(int, API_VERSION.split(".")), 255]), "big")
        module.__file__ = kafka_native.__file__  # errors of imports show it
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
    """Hands out a module of kafka_native's under another name, so that classes are the same under both."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module = importlib.import_module(self._own)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put the other name's in its place
