"""Imports and includes only go down."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.syntax import parsed
from tests.tidy import tree

PACKAGE = "kafka_native"

# A module may import modules of earlier layers, and of its own package. Modules of one layer don't
# import each other.
# `_native.enums`, the codes of C, imports nothing, so it is a layer below `_native`.
LAYERS = [
    {"_native.enums", "threads", "cleaning", "lazy", "unset_fields", "protobuf_parser"},
    {"_reference"},
    {"errors"},
    {"_native"},
    {"partitioners", "deadlines"},
    {"types"},
    {"logs"},
    {"serialization"},
    {"codecs"},
    {"arrow", "interceptors"},
    {"error"},
    {"protocol"},
    {"config", "statistics"},
    {"role_config"},
    {"security", "measurements"},
    {"control"},
    {"pending_call"},
    {"client_core"},
    {"consumer_events", "exclusive_client", "producer_managers"},
    {"consumer_calls"},
    {"partition_queue"},
    {"producer", "consumer", "share_consumer", "streams_group", "admin"},
    {"shared_client", "schema_registry", "internal"},
    {"compacted", "deserializing_consumer", "deserializing_share_consumer", "serializing_producer"},
    {"terminal"},
    {"aio"},
    {"compat", "eos", "spark", "cli", "prometheus", "opentelemetry", "pytest_plugin"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# The mock cluster tests the client, so it shares only the declarations and the record format with
# it. The mock registry shares only the parser of .proto files with the client's registry code.
MOCK_MAY_IMPORT = {"mock", "protocol", "_native", "errors", "_reference", "protobuf_parser"}
# The upper modules of the mock cluster. A module may import modules of earlier layers. All other
# modules of the mock cluster stand below, and may import each other without a cycle.
MOCK_LAYERS = [
    {"server"},
    {"share_groups"},
    {"state"},
    {"broker_settings", "call", "logs", "saved_state"},
    {"handlers"},
    {"cluster"},
    {"__main__"},
]
MOCK_RANK = {name: rank for rank, layer in enumerate(MOCK_LAYERS) for name in layer}
# The command line shows the mock cluster to users. The client supports test.mock.num.brokers, and
# the registry's client mock:// addresses.
MOCK_USERS = {"mock", "cli", "client_core", "schema_registry", "pytest_plugin"}
# A codec with the URL of a registry makes the client, when it is made itself.
REGISTRY_USERS = {"codecs"}
# In C, produce and consume don't include each other. Arrow is on top, because its rows wait for
# room in the engine.
C_LAYERS = [
    {"base"},
    {"records"},
    {"codecs"},
    {"net"},
    {"produce", "consume"},
    {"engine"},
    {"arrow"},
]
C_RANK = {name: rank for rank, layer in enumerate(C_LAYERS) for name in layer}
LINUX_ONLY = {"sys/eventfd.h", "sys/epoll.h"}

KNOWN = {*RANK, "mock", "__init__", "__main__"}

MODULES = tree.sources(".py", ".pyi", under=f"{PACKAGE}/")
C_FILES = tree.sources(".c", ".h", ".cpp", under="csrc/")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the kafka_native modules that a file imports, as absolute names with lines."""
    package = path.with_suffix("").parts[:-1]
    for node in ast.walk(parsed(tree.text_of(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*start, *([node.module] if node.module else [])])
            if base == PACKAGE:
                parts = (alias.name if alias.name in KNOWN else "" for alias in node.names)
                yield from ((node.lineno, f"{base}.{part}" if part else base) for part in parts)
            else:
                yield node.lineno, base


def first_part(module: str) -> str:
    """Return the module or package directly below kafka_native."""
    parts = module.split(".")
    if parts[1:3] == ["_native", "enums"]:
        return "_native.enums"
    return parts[1] if len(parts) > 1 else ""


def may_import(own: str, other: str) -> bool:
    """Return whether one part of the package may import another."""
    if own == "mock":
        return other in MOCK_MAY_IMPORT
    if other == "mock":
        return own in MOCK_USERS
    if other == "schema_registry" and own in REGISTRY_USERS:
        return True
    if not other:
        return own in LAYERS[-1]  # the top layer imports the public package, as users do
    return other == own or (other in RANK and RANK[other] < RANK.get(own, -1))


def test_python_imports_go_down() -> None:
    wrong = []
    for path in MODULES:
        own = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if own == "__init__" or path.stem == "__main__":
            continue  # the public package and the commands may import everything
        wrong += [
            f"{path}:{line}: {own} imports {first_part(module) or PACKAGE}"
            for line, module in imported(path)
            if module.split(".")[0] == PACKAGE and not may_import(own, first_part(module))
        ]
    assert not wrong


def test_only_type_checkers_import_typing_extensions() -> None:
    """No package that we depend on brings it on each Python."""
    wrong = [
        str(path)
        for path in MODULES
        if path.suffix == ".py"
        for node in parsed(tree.text_of(path)).body
        if isinstance(node, ast.ImportFrom) and node.module == "typing_extensions"
    ]
    assert not wrong


def test_every_module_has_a_layer() -> None:
    found = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in MODULES}
    assert found <= KNOWN, f"add to LAYERS: {sorted(found - KNOWN)}"


def mock_modules() -> dict[str, set[str]]:
    """Return the imports between modules of the mock cluster, including those for types only."""
    prefix = f"{PACKAGE}.mock."
    paths = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in MODULES
    }
    modules: dict[str, set[str]] = {}
    for name, path in paths.items():
        if not name.startswith(prefix):
            continue
        others = modules.setdefault(name.removeprefix(prefix), set())
        for node in ast.walk(parsed(tree.text_of(path))):
            if isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                found = {each if each in paths else str(node.module) for each in names}
                others |= {each.removeprefix(prefix) for each in found if each.startswith(prefix)}
    return modules


def may_import_in_mock(own: str, other: str) -> bool:
    """Return whether one module of the mock cluster may import another."""
    own, other = own.split(".")[0], other.split(".")[0]
    if other not in MOCK_RANK or own == other:
        return True
    return MOCK_RANK[other] < MOCK_RANK.get(own, -1)


def test_imports_of_the_mock_cluster_go_down() -> None:
    modules = mock_modules()
    assert modules.keys() >= MOCK_RANK.keys(), "MOCK_LAYERS names a missing module"
    assert not [
        f"{own} imports {other}"
        for own, others in modules.items()
        for other in others
        if not may_import_in_mock(own, other)
    ]


def test_imports_of_the_mock_cluster_have_no_cycle() -> None:
    assert not (names := circular(mock_modules())), f"these import each other: {names}"


def circular(modules: dict[str, set[str]]) -> list[str]:
    """Return the modules in cycles, and those that use them."""
    left = dict(modules)
    while ready := [name for name, others in left.items() if not others & left.keys()]:
        for name in ready:
            del left[name]
    return sorted(left)


def wrong_include(path: Path, line: str) -> str | None:
    """Return the problem of an #include, if any."""
    match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
    if match is None:
        return None
    quoted, name = match.group(1) == '"', match.group(2)
    layer, own = name.split("/")[0], path.parts[1]
    if quoted and layer != own and (layer not in C_RANK or C_RANK[layer] >= C_RANK[own]):
        return f"{own} includes {name}"
    if name == "Python.h" or (name in LINUX_ONLY and path != Path("csrc/net/wake.c")):
        return f"{name} has no place here"
    return None


def test_c_includes_go_down() -> None:
    lines = [
        (path, number, line)
        for path in C_FILES
        for number, line in enumerate(tree.text_of(path).splitlines(), 1)
    ]
    assert lines
    assert not [
        f"{path}:{number}: {why}"
        for path, number, line in lines
        if (why := wrong_include(path, line))
    ]


def c_modules() -> dict[str, set[str]]:
    """Return the modules that each C module includes. A module is a header with its source file."""
    modules: dict[str, set[str]] = {}
    for path in C_FILES:
        own = str(path.relative_to("csrc").with_suffix(""))
        others = re.findall(r'^\s*#\s*include\s*"([^"]+)\.h"', tree.text_of(path), re.M)
        modules.setdefault(own, set()).update(other for other in others if other != own)
    return modules


def test_c_includes_have_no_cycle() -> None:
    assert not (names := circular(c_modules())), f"these include each other: {names}"


def test_c_files_have_a_header_block_and_no_struct_typedef() -> None:
    texts = {path: tree.text_of(path) for path in C_FILES}
    assert not [
        f"{path}: no header block" for path, text in texts.items() if not text.startswith("/*")
    ]
    typedef = re.compile(r"^\s*typedef\s+(struct|enum|union)\b", re.M)
    assert not [
        f"{path}: struct kn_noun, without typedef"
        for path, text in texts.items()
        if typedef.search(text)
    ]


def test_bindings_import_nothing_above_them() -> None:
    allowed = {name for name, rank in RANK.items() if rank <= RANK["_native"]}
    pattern = re.compile(rf"^\s*(?:from|import|cimport)\s+{PACKAGE}\.(\w+)", re.M)
    texts = {path: tree.text_of(path) for path in tree.sources(".pyx", ".pxd", under=f"{PACKAGE}/")}
    assert texts
    assert not [
        f"{path} imports {name}"
        for path, text in texts.items()
        for name in pattern.findall(text)
        if name not in allowed
    ]
    textual = re.compile(r"^\s*include\s+[\"']", re.M)
    assert not [
        f"{path}: textual include; use cimport"
        for path, text in texts.items()
        if textual.search(text)
    ]
