"""kafka_native has each module, class, method, parameter, default and constant of confluent_kafka.

`confluent_kafka_api.json` has the names and signatures of confluent_kafka as facts
(`tests.compat.api_facts` writes it).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import kafka_native.compat
from kafka_native.errors import KafkaError
from tests.compat import api_facts
from tests.syntax import parsed

API = json.loads((Path(__file__).parent / "confluent_kafka_api.json").read_text(encoding="utf-8"))
ROOT = Path(__file__).resolve().parents[2]

# Parameters with another name or default here, and why callers see no difference.
DIFFERENT_PARAMETERS = {
    (
        "KafkaError.__init__",
        "code",
    ): "its name is `error` in confluent_kafka, only the stub says `code`",
    ("Consumer.poll", "timeout"): "None waits for ever, as -1 does",
    ("AIOProducer.poll", "timeout"): "0, as declared there, not -1 as in the synchronous client",
    ("AIOConsumer.__init__", "max_workers"): "2 or 100, by release; there are no workers here",
}
DROP_IN = "kafka_native.compat.drop_in"
# The inside of confluent_kafka's asyncio clients: it buffers messages and converts with helpers
# that kafka_native doesn't need. Their public classes are checked.
for each in ("_buffer_timeout_manager", "_producer_batch_processor"):
    del API["modules"][f"confluent_kafka.aio.producer.{each}"]
del API["modules"]["confluent_kafka.aio._common"]["classes"]["ReentryContext"]
for name, content in API["modules"].items():
    if name.startswith("confluent_kafka.aio.") and "._" in name:
        content["names"] = []
# Their only parameters are the configuration, as a dict, keywords or both, as tests/client tests.
CONFIGURED = {"Producer.__init__", "Consumer.__init__", "ShareConsumer.__init__"}
# Exceptions take no keywords, though the stub of confluent_kafka has them. Ours has one keyword.
WITHOUT_KEYWORDS = {"KafkaException.__init__"}


def own_module(name: str) -> Any:
    """Return our module for one of confluent_kafka's, or raise ModuleNotFoundError."""
    return importlib.import_module(f"{DROP_IN}.{name}")


def members() -> Iterator[tuple[str, str]]:
    """Yield (module, name in it) of the reference: classes, methods, fields, functions, names."""
    for module, content in API["modules"].items():
        yield module, ""
        for name, described in content["classes"].items():
            yield module, name
            for member in [*described["methods"], *described["attrs"]]:
                if not member.startswith("__") or member == "__init__":
                    yield module, f"{name}.{member}"
        for name in [*content["functions"], *content["names"]]:
            yield module, name


def exists(module: str, name: str) -> bool:
    try:
        found = own_module(module)
    except ModuleNotFoundError:
        return False
    for part in filter(None, name.split(".")):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def is_field(name: str) -> bool:
    """Return whether only instances have a name. `test_side_by_side` reads these fields."""
    return name in {"KafkaException.args"}


def test_the_facts_are_those_of_the_release_in_the_drop_ins_version() -> None:
    assert confluent_kafka.version() == kafka_native.compat.API_VERSION
    assert api_facts.FILE.read_text(encoding="utf-8") == api_facts.text(), (
        "run python -m tests.compat.api_facts"
    )


def test_every_name_exists() -> None:
    missing = [
        f"{module}.{name}".rstrip(".")
        for module, name in members()
        if not is_field(name) and not exists(module, name)
    ]
    assert not missing


def arguments_of(signature: str) -> tuple[list[tuple[str, str | None, bool]], bool]:
    """Return (name, default's source, keyword only) of the parameters, and whether ** is one."""
    text = signature.removeprefix("async ")
    function = parsed(f"def f{text}: pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(positional) - len(given.defaults)) + [
        ast.unparse(each) for each in given.defaults
    ]
    found = [(each.arg, default, False) for each, default in zip(positional, defaults, strict=True)]
    for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found.append((each.arg, None if value is None else ast.unparse(value), True))
    return found, given.kwarg is not None


def stub_signature(name: str) -> inspect.Signature | None:
    """Return the signature of a special method of a compiled class from its stub."""
    cls, method = name.split(".")
    for stub in sorted((ROOT / "kafka_native/_native").glob("*.pyi")):
        for node in parsed(stub.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name == cls:
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef) and inner.name == method:
                        names: dict[str, Any] = {}
                        exec(f"from __future__ import annotations\n{ast.unparse(inner)}", names)
                        return inspect.signature(names[method])
    return None


def own_signature(module: str, name: str) -> inspect.Signature:
    found: Any = own_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if isinstance(found, property):
        found = found.fget  # the reference lists properties as methods
    if inspect.ismethod(found):
        found = found.__func__  # a class method, with its cls
    signature = inspect.signature(found)
    if [each.kind for each in signature.parameters.values()][-1:] == [
        inspect.Parameter.VAR_KEYWORD
    ]:
        signature = ("." in name and stub_signature(name)) or signature
    return signature


def same_default(theirs: str | None, ours: inspect.Parameter) -> bool:
    if theirs is None:
        return True  # a required parameter may have a default here
    if ours.default is inspect.Parameter.empty:
        return False
    if isinstance(ours.default, Enum):
        return theirs in ("...", str(ours.default))
    if theirs.isupper():  # a constant of the module
        return True
    return theirs == "..." or bool(ast.literal_eval(theirs) == ours.default)


def differences(module: str, name: str, text: str) -> Iterator[str]:
    """Yield the errors here of calls that are valid in confluent_kafka."""
    theirs, takes_any = arguments_of(text)
    parameters = list(own_signature(module, name).parameters.values())
    by_name = {each.name: each for each in parameters}
    for position, (parameter, default, keyword_only) in enumerate(theirs):
        if (name, parameter) in DIFFERENT_PARAMETERS or (
            position == 0 and parameter in {"self", "cls"}
        ):
            continue
        ours = by_name.get(parameter)
        if ours is None:
            yield f"{name}: no parameter {parameter}"
        elif not keyword_only and parameters.index(ours) != position:
            yield f"{name}: {parameter} isn't parameter {position}"
        elif not same_default(default, ours):
            yield f"{name}: {parameter}={default} there, {ours} here"
    if (
        takes_any
        and name not in WITHOUT_KEYWORDS
        and not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    ):
        yield f"{name}: takes any keyword there"
    for position, ours in enumerate(parameters[1:], 1):
        known = ours.name in {parameter for parameter, _, _ in theirs} or any(
            text_of == name and (name, parameter) in DIFFERENT_PARAMETERS
            for text_of, parameter in DIFFERENT_PARAMETERS
        )
        required = ours.default is inspect.Parameter.empty and ours.kind in {
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        }
        if required and not known:
            yield f"{name}: {ours.name} (parameter {position}) must be given here"


# The asyncio clients declare parameters of the synchronous clients like this.
FORWARDED = "*args: Any, **kwargs: Any"
# They ignore further arguments, or pass them to AIOConsumer; the properties aren't called.
UNCHECKED = {
    "AIOProducer.produce",
    "AsyncDeserializingConsumer.close",
    "MessageBatch.info",
    "MessageBatch.size",
}
# AdminClient's options are **kwargs there, with the names of its base class. Here they are named.
OPTIONS = ", **kwargs: Any)"
# Parameters of that base class that AdminClient computes.
COMPUTED = {"future", "states_int", "types_int", "isolation_level_value"}


def signatures() -> Iterator[tuple[str, str, str]]:
    for module, content in API["modules"].items():
        for cls, described in content["classes"].items():
            if cls == "_AdminClientImpl":  # its methods take the future that AdminClient makes
                continue
            for method, texts in described["methods"].items():
                name = f"{cls}.{method}"
                if method.startswith("__") and method != "__init__":
                    continue
                if name in UNCHECKED:
                    continue
                if cls.startswith("AIO") and any(FORWARDED in text for text in texts):
                    texts = API["modules"]["confluent_kafka.cimpl"]["classes"][cls[3:]]["methods"][
                        method
                    ]
                if cls == "AdminClient" and method != "__init__":
                    texts = [text.replace(FORWARDED, "").replace(OPTIONS, ")") for text in texts]
                yield from ((module, f"{cls}.{method}", text) for text in texts)
        for function, text in content["functions"].items():
            yield module, function, text


def test_signatures_accept_confluent_kafkas_arguments() -> None:
    checked = [
        (module, name, text) for module, name, text in signatures() if name not in CONFIGURED
    ]
    assert len(checked) > 80
    assert not [line for module, name, text in checked for line in differences(module, name, text)]


def admin_options() -> Iterator[tuple[str, str, str]]:
    """Yield (method, option, source of the default) of AdminClient's keyword options."""
    methods = API["modules"]["confluent_kafka.cimpl"]["classes"]["_AdminClientImpl"]["methods"]
    outer = API["modules"]["confluent_kafka.admin"]["classes"]["AdminClient"]["methods"]
    for method, texts in methods.items():
        if method in outer and not method.startswith("__"):
            for name, default, _ in arguments_of(texts[0])[0][1:]:
                if default is not None and name not in COMPUTED:
                    yield method, name, default


def test_the_admin_client_takes_every_option_by_its_name() -> None:
    checked = 0
    for method, name, default in admin_options():
        checked += 1
        found = own_signature("confluent_kafka.admin", f"AdminClient.{method}").parameters
        assert name in found, f"{method}: no {name}"
        assert same_default(default, found[name]), (
            f"{method}: {name}={default} there, {found[name]} here"
        )
    assert checked >= 30


def test_the_asyncio_producers_poll_does_not_wait_by_default() -> None:
    assert (
        own_signature("confluent_kafka.aio", "AIOProducer.poll").parameters["timeout"].default == 0
    )


def test_different_signatures_are_noticed() -> None:
    module, name = "confluent_kafka.cimpl", "Producer.flush"
    assert not list(differences(module, name, "(self, timeout: float=-1)"))
    for text in (
        "(self, timeout: float=5)",
        "(self, seconds=-1)",
        "(self, a=1, timeout=-1)",
        "(self, timeout=-1, **kw)",
    ):
        assert list(differences(module, name, text)), text
    assert list(differences("confluent_kafka.cimpl", "Producer.list_topics", "(self)")) == []
    assert list(differences("confluent_kafka.cimpl", "Producer.produce", "(self)")), (
        "topic must be given"
    )


def test_the_same_methods_are_coroutines() -> None:
    checked = 0
    for module, content in API["modules"].items():
        for cls, described in content["classes"].items():
            if cls == "_AdminClientImpl":  # its methods take the future that AdminClient makes
                continue
            for method, texts in described["methods"].items():
                name = f"{cls}.{method}"
                if not texts[0].startswith("async "):
                    continue
                checked += 1
                assert inspect.iscoroutinefunction(
                    getattr(getattr(own_module(module), cls), method)
                ), name
    assert checked > 25


SPECIAL = {
    "__aenter__",
    "__aexit__",
    "__len__",
    "__bool__",
    "__enter__",
    "__exit__",
    "__str__",
    "__repr__",
    "__hash__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__int__",
    "__iter__",
    "__getitem__",
    "__call__",
}


def test_special_methods_are_defined() -> None:
    missing, seen = [], set()
    for module, content in API["modules"].items():
        for cls, described in content["classes"].items():
            wanted = [each for each in described["methods"] if each in SPECIAL]
            if not wanted:
                continue
            own = getattr(own_module(module), cls)
            seen.update(wanted)
            missing += [
                f"{cls}.{each}" for each in wanted if not callable(getattr(own, each, None))
            ]
    assert seen >= {"__len__", "__enter__", "__call__", "__int__", "__lt__"}
    assert not missing


@pytest.mark.parametrize("name", API["error_codes"])
def test_error_codes_have_their_numbers(name: str) -> None:
    assert getattr(KafkaError, name) == API["error_codes"][name]


def test_constants_have_their_numbers() -> None:
    module = own_module("confluent_kafka.cimpl")
    assert {name: getattr(module, name) for name in API["constants"]} == API["constants"]
