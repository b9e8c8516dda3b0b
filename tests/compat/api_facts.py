"""Writes confluent_kafka_api.json: names and signatures of the installed confluent_kafka.

    python -m tests.compat.api_facts

They come from its stub and its sources. It needs a new run when `API_VERSION` changes.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.cimpl

from tests.syntax import parsed

FILE = Path(__file__).parent / "confluent_kafka_api.json"
PACKAGE = Path(confluent_kafka.__file__).parent
OTHERS = {"schema_registry", "avro", "kafkatest", "_oauthbearer", "_util"}
"""Packages that the drop-in doesn't replace, or whose contents nothing else mentions."""
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def module_files() -> Iterator[tuple[str, Path]]:
    """Yield the modules that the drop-in replaces."""
    yield "confluent_kafka.cimpl", PACKAGE / "cimpl.pyi"
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if not OTHERS.intersection(parts):
            name = ".".join(("confluent_kafka", *parts)).removesuffix(".__init__")
            if find_spec(name) is not None:
                yield name, path


def signature(node: FUNCTIONS) -> str:
    """Return the parameters of a function, as text."""
    text = f"({ast.unparse(node.args)})"
    return f"async {text}" if isinstance(node, ast.AsyncFunctionDef) else text


def is_name(name: str) -> bool:
    """Whether programs may use a name: it is public or special."""
    return not name.startswith("_") or (name.startswith("__") and name.endswith("__"))


def targets(node: ast.stmt) -> list[str]:
    """Return the names that an assignment binds."""
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):
        return [each.id for each in node.targets if isinstance(each, ast.Name)]
    return []


def described_class(node: ast.ClassDef) -> dict[str, Any]:
    """Return the fields and methods of a class."""
    methods: dict[str, list[str]] = {}
    attrs: list[str] = []
    for each in node.body:
        if isinstance(each, FUNCTIONS) and is_name(each.name):
            methods.setdefault(each.name, []).append(signature(each))
        attrs += [name for name in targets(each) if name != "__hash__"]
    return {"attrs": attrs, "methods": methods}


def is_imported(node: ast.ImportFrom) -> bool:
    """Whether an import is one of the package's own names."""
    return node.level > 0 or (node.module or "").startswith("confluent_kafka")


def described(path: Path) -> dict[str, Any]:
    """Return the classes, functions and other names of a module."""
    classes: dict[str, Any] = {}
    functions: dict[str, str] = {}
    names: list[str] = []
    for node in parsed(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and (is_name(node.name) or node.name[1:] in CLASSES):
            classes[node.name] = described_class(node)
        elif isinstance(node, FUNCTIONS) and is_name(node.name):
            functions[node.name] = signature(node)
        elif isinstance(node, ast.ImportFrom) and is_imported(node) and path.suffix == ".py":
            found = [each.asname or each.name for each in node.names]
            names += [name for name in found if is_name(name)]
        else:
            names += [name for name in targets(node) if is_name(name) and name not in TYPE_NAMES]
    return {"classes": classes, "functions": functions, "names": list(dict.fromkeys(names))}


CLASSES = {"AdminClientImpl", "KafkaClientError"}
"""Private classes whose signatures count."""
TYPE_NAMES = {"K", "V", "__all__", "__version__", "log", "logger", "string_type"}
"""Names that only the module itself uses."""


def facts() -> dict[str, Any]:
    """Return the contents of the file."""
    cimpl, error = vars(confluent_kafka.cimpl), vars(confluent_kafka.KafkaError)
    return {
        "constants": {
            name: value for name, value in cimpl.items() if name.isupper() and type(value) is int
        },
        "error_codes": {name: value for name, value in error.items() if type(value) is int},
        "modules": {name: described(path) for name, path in module_files()},
    }


def text() -> str:
    """Return the text of the file, one line for each module."""
    found = facts()
    modules = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in found.pop("modules").items()
    )
    parts = [f" {json.dumps(name)}: {json.dumps(each)}" for name, each in found.items()]
    return "{\n" + ",\n".join([*parts, f' "modules": {{\n{modules}\n }}']) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
