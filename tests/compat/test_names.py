"""Each module of confluent_kafka has all its names here, also the private ones that programs use.

Names of the standard library, which a module imports for itself, are left out.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import random
import sys
from functools import partial
from types import ModuleType
from typing import Any

import confluent_kafka
import confluent_kafka._serde_builder as their_builder
import confluent_kafka._util as their_util
import confluent_kafka._util.librdkafka_string_parser as their_parser
import pytest
from confluent_kafka._util.asyncinit import asyncinit as their_asyncinit

from kafka_native.compat.drop_in import confluent_kafka as drop_in
from kafka_native.compat.drop_in.confluent_kafka import _serde_builder as our_builder
from kafka_native.compat.drop_in.confluent_kafka import _util as our_util
from kafka_native.compat.drop_in.confluent_kafka._util import librdkafka_string_parser as our_parser
from kafka_native.compat.drop_in.confluent_kafka._util.asyncinit import asyncinit as our_asyncinit
from tests.compat.test_side_by_side import outcome

INSTALLED_ONLY = ("_oauthbearer", "avro", "kafkatest", "schema_registry")
"""Packages that come from an installed confluent-kafka."""
ASYNCIO = "confluent_kafka.aio._", "confluent_kafka.aio.producer._"
"""Modules with other imports: their clients aren't made of the blocking ones."""
LEFT_OUT = {
    "__path__": "a package there, a module here",
    "_is_ascii_space": "a part of their parser",
    "_offer_resolver": "a part of their helpers",
    "ReentryContext": "a part of their asyncio clients, which call blocking ones",
}


def module_names() -> list[str]:
    """Return the modules of the original that the drop-in replaces."""
    prefix = "confluent_kafka."
    found = [each.name for each in pkgutil.walk_packages(confluent_kafka.__path__, prefix)]
    return [
        "confluent_kafka",
        *(name for name in found if name.split(".")[1] not in INSTALLED_ONLY),
    ]


def is_of_another_module(value: Any, name: str) -> bool:
    """Whether a value was imported by the module of this name."""
    return isinstance(value, ModuleType) or value.__module__ != name


def is_of_the_standard_library(value: Any) -> bool:
    """Whether a value belongs to Python, and not to confluent_kafka."""
    home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return str(home).split(".")[0] in sys.stdlib_module_names


@pytest.mark.parametrize("name", module_names())
def test_every_name_of_a_module(name: str) -> None:
    theirs = importlib.import_module(name)
    ours = importlib.import_module(name.replace("confluent_kafka", drop_in.__name__, 1))
    missing = {
        each
        for each in set(dir(theirs)) - set(dir(ours)) - set(LEFT_OUT) - {"TYPE_CHECKING"}
        if not is_of_the_standard_library(getattr(theirs, each))
        and not (name.startswith(ASYNCIO) and is_of_another_module(getattr(theirs, each), name))
        # a submodule is there after its import
        and not (isinstance(getattr(theirs, each), ModuleType) and hasattr(theirs, "__path__"))
    }
    assert not missing


@pytest.mark.parametrize("name", ["_util", "_serde_builder"])
def test_helpers_are_the_drop_ins_own(name: str) -> None:
    module = importlib.import_module(f"{drop_in.__name__}.{name}")
    assert module.__file__ is not None
    assert module.__file__.startswith(drop_in.__path__[0])


def test_lists_of_texts_are_read_in_the_same_way() -> None:
    rng = random.Random(34)
    for _ in range(20_000):
        text = "".join(rng.choice("ab=, ,\\tnr0\t\xa0\v") for _ in range(rng.randint(0, 12)))
        for skip in (True, False):
            assert our_parser.split(text, ",", skip) == their_parser.split(text, ",", skip), text
        theirs, ours = (
            outcome(lambda parser=parser, text=text: parser.parse_key_values(text, ",", "x"))
            for parser in (their_parser, our_parser)
        )
        assert ours == theirs, text


def test_arguments_are_checked_in_the_same_way() -> None:
    kind = confluent_kafka.ElectionType
    for value in ("preferred", "PREFERRED", "x", 0, 7, kind.UNCLEAN, None, 1.5):
        for enum in (kind, int, 3):
            theirs, ours = (
                outcome(partial(lib.ConversionUtil.convert_to_enum, value, enum))
                for lib in (their_util, our_util)
            )
            assert ours == theirs

    class Fields:
        text, nothing, number = "a", None, 3

    for names in (["text"], ["nothing"], ["number"], ["text", "nothing"], ["missing"]):
        for check in ("check_multiple_not_none", "check_multiple_is_string"):
            theirs, ours = (
                outcome(partial(getattr(lib.ValidationUtil, check), Fields(), names))
                for lib in (their_util, our_util)
            )
            assert ours == theirs
    for errors in (None, [], [3], (3,)):
        theirs, ours = (
            outcome(partial(lib.ValidationUtil.check_kafka_errors, errors))
            for lib in (their_util, our_util)
        )
        assert ours == theirs


class Serde:
    """A serializer that a builder made."""

    def __init__(self, log: list[str], name: str, error: Exception | None = None) -> None:
        self.log, self.name, self.error = log, name, error

    def close(self) -> None:
        self.log.append(f"close {self.name}")
        if self.error is not None:
            raise self.error

    def set_cluster_id_resolver(self, resolver: Any) -> None:
        self.log.append(f"{self.name} gets {resolver()}")


class Builder:
    """A builder with a prepared result."""

    def __init__(self, result: Any, takes: str = "") -> None:
        self.result, self.takes = result, takes

    def build(self, conf: dict[str, Any], is_key: bool) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        conf.pop(self.takes, None)
        return (self.result, conf) if isinstance(self.result, Serde) else self.result


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    "results", [("a", "b"), ("a", None), ("a", 3), ("a", (1, 2)), ("a", ValueError("no"))], ids=str
)
def test_builders_are_called_in_the_same_way(results: tuple[Any, ...], asynchronous: bool) -> None:
    def use(lib: Any) -> Any:
        log: list[str] = []
        given = [Serde(log, each) if isinstance(each, str) else each for each in results]
        conf: dict[str, Any] = {"x": 1, "y": 2, "z": 3}
        conf["k.builder"] = Builder(given[0], "x")
        if given[1] is not None:
            conf["v.builder"] = Builder(given[1], "y")

        def run() -> Any:
            specs, rest = lib.pop_serde_props(conf, "k", "v")
            if asynchronous:
                serdes, owned, left = asyncio.run(lib.async_build_serdes(specs, rest))
            else:
                serdes, owned, left = lib.build_serdes(specs, rest)
            lib.propagate_cluster_id_resolver(
                lib.SharedClusterIdResolver(lambda timeout: 7), serdes
            )
            lib.close_serdes(owned)
            return [getattr(each, "name", each) for each in serdes], len(owned), left

        return outcome(run), log

    assert use(our_builder) == use(their_builder)


def test_errors_of_builders_are_the_same() -> None:
    for lib in (their_builder, our_builder):
        with pytest.raises(ValueError, match=r"Cannot configure both k and k.builder"):
            lib.pop_serde_props({"k": 1, "k.builder": 2}, "k", "v")
        log: list[str] = []
        serdes = [Serde(log, "a", KeyError("a")), object(), Serde(log, "b", ValueError("b"))]
        with pytest.raises(KeyError, match="a"):
            lib.close_serdes(serdes)
        with pytest.raises(KeyError, match="a"):
            asyncio.run(lib.async_close_serdes(serdes))
        assert log == ["close a", "close b"] * 2


@pytest.mark.parametrize("lib", [their_builder, our_builder])
def test_tasks_share_one_request_for_the_cluster_id(lib: Any) -> None:
    calls: list[float] = []

    async def cluster_id(timeout: float) -> str:
        calls.append(timeout)
        await asyncio.sleep(0.01)
        return "id"

    async def run() -> list[str]:
        resolver = lib.AsyncSharedClusterIdResolver(cluster_id)
        return [*await asyncio.gather(*(resolver() for _ in range(5))), await resolver()]

    assert asyncio.run(run()) == ["id"] * 6
    assert calls == [60.0, 60.0]


@pytest.mark.parametrize("asyncinit", [their_asyncinit, our_asyncinit])
def test_a_constructor_may_be_a_coroutine_function(asyncinit: Any) -> None:
    class Made:
        async def __init__(self, value: int) -> None:  # type: ignore[misc]
            self.value = value

    async def run() -> Any:
        return await asyncinit(Made)(3)

    assert asyncio.run(run()).value == 3


def test_parts_of_building_are_the_same() -> None:
    def use(lib: Any) -> Any:
        resolvers: list[Any] = []

        class Awaits:
            def set_async_cluster_id_resolver(self, resolver: Any) -> None:
                resolvers.append(resolver)

        lib.propagate_async_cluster_id_resolver(use, [Awaits(), None, 3])
        return (
            [
                outcome(partial(lib.validate_build_result, "k", result))
                for result in (None, 3, (1,), (1, 2), (1, {}), "ab")
            ],
            lib.intersect_leftovers({"a": 1}, []),
            lib.intersect_leftovers({}, [{"a": 1, "b": 2}, {"b": 3, "c": 4}]),
            asyncio.run(lib.maybe_await(3)),
            asyncio.run(lib.maybe_await(asyncio.sleep(0, 4))),
            resolvers,
            lib.SerdeSpec("k", 1, None, True)._asdict(),
        )

    assert use(our_builder) == use(their_builder)


def test_bases_of_serializers_and_builders() -> None:
    def use(lib: Any) -> Any:
        names = lib.serialization
        return [
            [
                outcome(lambda base=base: base().set_cluster_id_resolver(None)),
                outcome(lambda base=base: base().close()),
            ]
            for base in (names.Serializer, names.Deserializer)
        ], [
            type(error).__name__ if isinstance(error := outcome(call), Exception) else error
            for call in (
                lambda: names.SerializerBuilder().build({}, True),
                lambda: names.DeserializerBuilder().build({}, True),
            )
        ]

    assert use(drop_in) == use(confluent_kafka)
