"""`install()` makes ``import confluent_kafka`` import kafka_native in this process.

    import kafka_native.compat

    kafka_native.compat.install()

    import some_framework_on_confluent_kafka

Without a change to the program: ``python -m kafka_native.compat program.py arguments ...``, or with
the folder that ``python -m kafka_native.compat --path`` prints in PYTHONPATH.

The folder ``drop_in`` has the package confluent_kafka. docs/guide/from-confluent-kafka.md lists the
differences.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Final, Literal

__all__ = [
    "API_VERSION",
    "DROP_IN_PATH",
    "LIBRARY_VERSION",
    "SCHEMA_REGISTRY_VARIABLE",
    "install",
]

API_VERSION: Final = "2.16.1"
"""The version that ``confluent_kafka.version()`` returns: kafka_native has this release's API.

Frameworks use the number to find out which features exist.
"""

LIBRARY_VERSION: Final = "2.16.0"
"""The version that ``confluent_kafka.libversion()`` returns: the release of the properties."""

_NAME: Final = "confluent_kafka"
DROP_IN_PATH: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "drop_in")
"""The folder with the package confluent_kafka, for PYTHONPATH."""

SCHEMA_REGISTRY_VARIABLE: Final = "KAFKA_NATIVE_SCHEMA_REGISTRY"
"""The environment variable that chooses the schema registry: see `install()`."""


def install(*, schema_registry: Literal["installed", "kafka_native"] | None = None) -> None:
    """Make ``import confluent_kafka`` import kafka_native in this process.

    Call it before any module imports confluent_kafka. A second call has no effect. Processes that
    multiprocessing starts are switched too. Call it again in other new processes.

    ``confluent_kafka.schema_registry`` and other pure Python parts come from the installed
    confluent_kafka package and use kafka_native. The package's C extension isn't loaded. If the
    package isn't installed, `kafka_native.schema_registry` is its schema registry.

    :param schema_registry: ``kafka_native``: `kafka_native.schema_registry` is the schema registry
        although confluent_kafka is installed. ``installed``: the default. The value is also set as
        the environment variable `SCHEMA_REGISTRY_VARIABLE`, for processes that this one starts. If
        it is None, the environment variable chooses.
    :raises ValueError: ``schema_registry`` or the environment variable has another value.
    :raises RuntimeError: The process has imported the real confluent_kafka already. Modules that
        imported its classes would keep them.
    """
    if schema_registry is not None:
        _check_registry(schema_registry)
        os.environ[SCHEMA_REGISTRY_VARIABLE] = schema_registry
    uses_own_registry()  # refuses other values now, not at the first import
    if any(isinstance(each, _Finder) for each in sys.meta_path):
        return
    there = sys.modules.get(_NAME)
    if there is not None and not _is_drop_in(there):
        where = getattr(there, "__file__", None) or "somewhere"
        text = "call kafka_native.compat.install() before anything imports it"
        raise RuntimeError(f"confluent_kafka is imported already, from {where}: {text}")
    sys.meta_path.insert(_position(), _Finder())
    # For processes that multiprocessing spawns: they get a copy of sys.path. It is also where
    # importlib.metadata finds the version. The first entry stays the program's folder.
    sys.path.insert(1, DROP_IN_PATH)


def _position() -> int:
    """Return where a finder of this package belongs: right before the finder of files.

    Tracing agents have put finders in front that wrap others' modules. They have to see this one.
    """
    return sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0


def _is_drop_in(module: ModuleType) -> bool:
    """Return whether a module is this package's confluent_kafka, found through PYTHONPATH."""
    path = getattr(module, "__file__", None)
    return path is not None and os.path.abspath(path).startswith(os.path.join(DROP_IN_PATH, ""))


def installed_modules(package: str = "") -> list[str]:
    """Return the folder of the installed confluent_kafka, or of a package in it; or nothing."""
    others = [each for each in sys.path if os.path.abspath(each) != DROP_IN_PATH]
    spec = PathFinder.find_spec(_NAME, others)
    folders = [] if spec is None else spec.submodule_search_locations or ()
    return [os.path.join(each, *filter(None, package.split("."))) for each in folders]


def uses_own_registry() -> bool:
    """Return whether `SCHEMA_REGISTRY_VARIABLE` asks for kafka_native's schema registry.

    :raises ValueError: It has an unknown value.
    """
    wanted = os.environ.get(SCHEMA_REGISTRY_VARIABLE) or "installed"
    _check_registry(wanted)
    return wanted == "kafka_native"


def _check_registry(wanted: str) -> None:
    if wanted not in ("installed", "kafka_native"):
        raise ValueError(
            f"the schema registry ({SCHEMA_REGISTRY_VARIABLE}) must be installed or kafka_native, "
            f"not {wanted!r}"
        )


def explain_missing_modules() -> None:
    """Make the import of a part that isn't installed raise an error that says what to install.

    The schema registry needs no installed confluent_kafka: kafka_native has its own.
    """
    if not any(isinstance(each, _SchemaRegistryFinder) for each in sys.meta_path):
        # Before the finder of files: that one would load the package's modules a second time.
        sys.meta_path.insert(_position(), _SchemaRegistryFinder())
    if not any(isinstance(each, _MissingModules) for each in sys.meta_path):
        sys.meta_path.append(_MissingModules())


class _Finder(MetaPathFinder):
    """Finds the package confluent_kafka in `DROP_IN_PATH`, wherever sys.path has another one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, [DROP_IN_PATH]) if fullname == _NAME else None


class _SchemaRegistryFinder(MetaPathFinder, Loader):
    """Makes `kafka_native.schema_registry` the schema registry of confluent_kafka.

    It does nothing if confluent_kafka is installed and the installed registry is wanted.
    """

    PACKAGE: Final = f"{_NAME}.schema_registry"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_part = fullname == self.PACKAGE or fullname.startswith(f"{self.PACKAGE}.")
        if not is_part or (installed_modules() and not uses_own_registry()):
            return None
        own = f"kafka_native{fullname.removeprefix(_NAME)}"
        return None if _spec_of(own) is None else ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        own = f"kafka_native{module.__name__.removeprefix(_NAME)}"
        # The import system takes the module from here, so both names have the same classes.
        sys.modules[module.__name__] = importlib.import_module(own)


def _spec_of(name: str) -> ModuleSpec | None:
    """Return a module's spec. None if the module or its package doesn't exist."""
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


class _MissingModules(MetaPathFinder):
    """The last finder: raises for confluent_kafka's pure Python modules that aren't installed."""

    NAMES: Final = {
        "_oauthbearer",
        "aio.producer._buffer_timeout_manager",
        "aio.producer._producer_batch_processor",
        "avro",
        "kafkatest",
    }

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        if package == _NAME and rest in self.NAMES and not installed_modules():
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: kafka_native uses confluent_kafka's own; install "
                "it with pip install 'confluent-kafka[schemaregistry,avro,json,protobuf]'",
                name=fullname,
            )
        return None
