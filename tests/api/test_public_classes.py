"""The modules of public classes show every method, and Python shows the same."""

from __future__ import annotations

import ast
import inspect
import pydoc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kafka_native import Client, Consumer, Producer, ShareConsumer, StreamsGroupMember
from kafka_native._native.consumer_core import ConsumerCore
from kafka_native._native.coroutines import AIOProducerCore
from kafka_native._native.methods import implemented_by
from kafka_native._native.producer_core import ProducerCore
from kafka_native.aio import AIOConsumer, AIOProducer, AIOShareConsumer
from kafka_native.streams_group import Subtopology, Topology
from tests.syntax import parsed

CLUSTER = {"client_instance_id", "cluster_id", "list_topics"}
CLIENT = {"brokers_add", "close", "fatal_error", "metrics", "set_sasl_credentials"}
TRANSACTIONS = {
    "abort_transaction",
    "begin_transaction",
    "commit_transaction",
    "complete_transaction",
    "init_transactions",
    "prepare_transaction",
    "send_offsets_to_transaction",
    "transaction",
}
ASSIGNMENT = {
    "assign",
    "assignment",
    "incremental_assign",
    "incremental_unassign",
    "lag",
    "lag_max",
    "offsets_for_times",
    "pause",
    "paused",
    "position",
    "resume",
    "seek",
    "seek_to_beginning",
    "seek_to_end",
    "seek_to_time",
    "unassign",
}
GROUP = {
    "commit",
    "committed",
    "consumer_group_metadata",
    "enforce_rebalance",
    "get_watermark_offsets",
    "memberid",
    "on_commit",
    "store_offsets",
    "subscribe",
    "subscription",
    "unsubscribe",
}
PUBLIC: dict[type[Any], set[str]] = {
    Producer: CLUSTER
    | CLIENT
    | TRANSACTIONS
    | {"flush", "poll", "produce", "produce_arrow", "produce_batch", "produce_many", "purge"},
    AIOProducer: CLUSTER
    | CLIENT
    | TRANSACTIONS
    | {"flush", "poll", "produce", "produce_arrow", "purge"},
    Consumer: CLUSTER
    | CLIENT
    | ASSIGNMENT
    | GROUP
    | {
        "arrow_stream",
        "consume",
        "consume_arrow",
        "consume_callback",
        "current_lag",
        "partition_queue",
        "poll",
        "rebalance_protocol",
        "wakeup",
    },
    AIOConsumer: CLUSTER
    | CLIENT
    | ASSIGNMENT
    | GROUP
    | {"arrow_stream", "consume", "consume_arrow", "poll"},
    **dict.fromkeys(
        (ShareConsumer, AIOShareConsumer),
        CLIENT
        | {
            "acknowledge",
            "acknowledge_arrow",
            "acknowledge_offset",
            "client_instance_id",
            "commit_async",
            "commit_sync",
            "consume_arrow",
            "poll",
            "set_acknowledgement_commit_callback",
            "subscribe",
            "subscription",
            "unsubscribe",
            "wakeup",
        },
    ),
    StreamsGroupMember: CLIENT
    | {
        "assignment",
        "client_instance_id",
        "commit",
        "consumer_group_metadata",
        "endpoints",
        "member_id",
        "poll",
        "report",
        "shut_down_application",
    },
    Client: {"aclose", "admin", "brokers_add", "close", "consumer", "metrics", "poll", "producer"}
    | {"share_consumer"},
}
CLASSES = pytest.mark.parametrize("cls", PUBLIC, ids=lambda cls: cls.__name__)

Written = ast.FunctionDef | ast.AsyncFunctionDef


def written_in(cls: type[Any]) -> dict[str, Written]:
    """Return the public methods in the source of a class. For a property it is the getter."""
    tree = parsed(Path(inspect.getfile(cls)).read_text())
    [body] = [
        each.body
        for each in tree.body
        if isinstance(each, ast.ClassDef) and each.name == cls.__name__
    ]
    found: dict[str, Written] = {}
    for each in body:
        if not isinstance(each, Written) or each.name.startswith("_"):
            continue
        if "overload" not in map(ast.unparse, each.decorator_list):
            found.setdefault(each.name, each)
    return found


def written_parameters(cls: type[Any], method: Written) -> list[inspect.Parameter]:
    """Return names, kinds and defaults of the parameters, without self."""
    names = vars(inspect.getmodule(cls))
    arguments = method.args
    assert [arguments.posonlyargs, arguments.vararg, arguments.kwarg] == [[], None, None]
    given = [None] * (len(arguments.args) - len(arguments.defaults)) + [*arguments.defaults]
    both = [
        (arguments.args, given, inspect.Parameter.POSITIONAL_OR_KEYWORD),
        (arguments.kwonlyargs, arguments.kw_defaults, inspect.Parameter.KEYWORD_ONLY),
    ]
    found = [
        inspect.Parameter(
            each.arg,
            kind,
            default=inspect.Parameter.empty if value is None else eval(ast.unparse(value), names),
        )
        for arguments_of, values, kind in both
        for each, value in zip(arguments_of, values, strict=True)
    ]
    return found[1:]


def shown_parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of `inspect.signature()`, without self and annotations."""
    found = inspect.signature(method).parameters.values()
    return [each.replace(annotation=inspect.Parameter.empty) for each in found][1:]


@contextmanager
def made(cls: type[Any]) -> Iterator[Any]:
    """Yield a client of this class, without a broker."""
    conf: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "error_cb": lambda error: None}
    arguments = [Topology([Subtopology("0", ["t"])])] if cls is StreamsGroupMember else []
    if "Consumer" in cls.__name__ or arguments:
        conf["group.id"] = "none"
    if cls.__name__.startswith("AIO"):
        client = cls(conf)
        yield client
        client._core.close(0)
    else:
        client = cls(conf, *arguments)
        yield client
        client.close(0)


@CLASSES
def test_the_public_attributes_are_the_documented_ones(cls: type[Any]) -> None:
    with made(cls) as client:
        assert {name for name in dir(client) if not name.startswith("_")} == PUBLIC[cls]


@CLASSES
def test_every_public_method_is_written_in_its_module(cls: type[Any]) -> None:
    assert set(written_in(cls)) == PUBLIC[cls]


@CLASSES
def test_every_public_method_has_its_docstring_there(cls: type[Any]) -> None:
    for name, method in written_in(cls).items():
        text = ast.get_docstring(method)
        assert text is not None, name
        assert len(text.split()) > 4, name
        assert inspect.getdoc(getattr(cls, name)) == text, name


@CLASSES
def test_signatures_match_the_source(cls: type[Any]) -> None:
    for name, method in written_in(cls).items():
        found = inspect.getattr_static(cls, name)
        shown = shown_parameters(found.fget if isinstance(found, property) else getattr(cls, name))
        assert written_parameters(cls, method) == shown, name


def test_help_shows_compiled_methods() -> None:
    text = pydoc.plain(pydoc.render_doc(Producer.produce))
    words = " ".join(text.split()).replace("( ", "(")  # Python 3.14 breaks long signatures
    assert "produce(self, /, topic, value=None, key=None, partition=-1" in words
    assert "Queues one message and returns at once." in text
    assert "max.block.ms" in text
    assert Producer.produce.__qualname__ == "Producer.produce"


@pytest.mark.parametrize(
    "core", [ConsumerCore, ProducerCore, AIOProducerCore], ids=lambda core: core.__name__
)
def test_the_compiled_core_has_no_other_method(core: type[Any]) -> None:
    [cls] = [each for each in (Consumer, Producer, AIOProducer) if issubclass(each, core)]
    assert {name for name in dir(core) if not name.startswith("_")} <= PUBLIC[cls]


def test_a_compiled_method_is_called_directly() -> None:
    for cls, core in ((Producer, ProducerCore), (Consumer, ConsumerCore)):
        for name in PUBLIC[cls] & set(dir(core)):
            assert type(getattr(cls, name)) is type(str.join), name  # no Python function in between


def test_only_compiled_methods_can_be_declared() -> None:
    with pytest.raises(TypeError, match="a method of a compiled class is expected, not"):
        implemented_by(lambda self: None)
